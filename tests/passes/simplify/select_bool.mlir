// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xi1>) -> tensor<3xi1> {
  %c = stablehlo.constant dense<true> : tensor<3xi1>
  %c_0 = stablehlo.constant dense<false> : tensor<i1>
  %0 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<3xi1>
  %1 = stablehlo.select %arg0, %c, %0 : tensor<3xi1>, tensor<3xi1>
  return %1 : tensor<3xi1>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xi1>) -> tensor<3xi1> {
    return %arg0 : tensor<3xi1>
  }
}
