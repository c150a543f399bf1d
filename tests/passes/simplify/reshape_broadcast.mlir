// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<f32>) -> tensor<1xf32> {
  %0 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
  %1 = stablehlo.reshape %0 : (tensor<1x1xf32>) -> tensor<1xf32>
  return %1 : tensor<1xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<f32>) -> tensor<1xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f32>) -> tensor<1xf32>
    return %0 : tensor<1xf32>
  }
}
