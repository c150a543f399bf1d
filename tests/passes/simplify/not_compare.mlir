// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xi1>, %arg1: tensor<3xi1>) -> tensor<3xi1> {
  %0 = stablehlo.compare LT, %arg0, %arg1, UNSIGNED : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
  %1 = stablehlo.not %0 : tensor<3xi1>
  return %1 : tensor<3xi1>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xi1>, %arg1: tensor<3xi1>) -> tensor<3xi1> {
    %0 = stablehlo.compare GE, %arg0, %arg1, UNSIGNED : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
    return %0 : tensor<3xi1>
  }
}
