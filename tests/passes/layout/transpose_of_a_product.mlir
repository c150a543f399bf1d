// braze opt --passes=layout,dce
func.func @main(%x: tensor<5x2x3xf32>, %y: tensor<5x3x4xf32>) -> tensor<5x4x2xf32> {
  %0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
  %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<5x2x4xf32>) -> tensor<5x4x2xf32>
  return %1 : tensor<5x4x2xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<5x2x3xf32>, %arg1: tensor<5x3x4xf32>) -> tensor<5x4x2xf32> {
    %0 = stablehlo.dot_general %arg1, %arg0, batching_dims = [0] x [0], contracting_dims = [1] x [2] : (tensor<5x3x4xf32>, tensor<5x2x3xf32>) -> tensor<5x4x2xf32>
    return %0 : tensor<5x4x2xf32>
  }
}
