// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.negate %arg0 : tensor<3xf32>
  %1 = stablehlo.negate %arg1 : tensor<3xf32>
  %2 = stablehlo.divide %0, %1 : tensor<3xf32>
  return %2 : tensor<3xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.divide %arg0, %arg1 : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
