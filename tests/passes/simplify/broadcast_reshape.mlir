// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xf32>) -> tensor<1x3x2xf32> {
  %0 = stablehlo.reshape %arg0 : (tensor<3xf32>) -> tensor<1x1x3xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0, 2, 1] : (tensor<1x1x3xf32>) -> tensor<1x3x2xf32>
  return %1 : tensor<1x3x2xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xf32>) -> tensor<1x3x2xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<3xf32>) -> tensor<1x3x2xf32>
    return %0 : tensor<1x3x2xf32>
  }
}
