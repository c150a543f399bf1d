// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {
  %cst = stablehlo.constant dense<-1.000000e+00> : tensor<3xf32>
  %0 = stablehlo.divide %arg0, %cst : tensor<3xf32>
  return %0 : tensor<3xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.negate %arg0 : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
