// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xf64>) -> tensor<3xi1> {
  %0 = stablehlo.compare GT, %arg0, %arg0, FLOAT : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
  return %0 : tensor<3xi1>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xf64>) -> tensor<3xi1> {
    %c = stablehlo.constant dense<false> : tensor<i1>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<3xi1>
    return %0 : tensor<3xi1>
  }
}
