// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xi32>) -> tensor<3xi32> {
  %0 = stablehlo.xor %arg0, %arg0 : tensor<3xi32>
  return %0 : tensor<3xi32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xi32>) -> tensor<3xi32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3xi32>
    return %0 : tensor<3xi32>
  }
}
