// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xf32>) -> tensor<2x3x1xf32> {
  %0 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
  return %1 : tensor<2x3x1xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xf32>) -> tensor<2x3x1xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<3xf32>) -> tensor<2x3x1xf32>
    return %0 : tensor<2x3x1xf32>
  }
}
