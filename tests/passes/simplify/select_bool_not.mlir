// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xi1>) -> tensor<3xi1> {
  %c = stablehlo.constant dense<false> : tensor<3xi1>
  %c_0 = stablehlo.constant dense<true> : tensor<3xi1>
  %0 = stablehlo.select %arg0, %c, %c_0 : tensor<3xi1>, tensor<3xi1>
  return %0 : tensor<3xi1>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xi1>) -> tensor<3xi1> {
    %0 = stablehlo.not %arg0 : tensor<3xi1>
    return %0 : tensor<3xi1>
  }
}
