// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xf32>, %arg1: tensor<f32>) -> tensor<3xf32> {
  %0 = stablehlo.pad %arg0, %arg1, low = [0], high = [0], interior = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<f32>) -> tensor<3xf32> {
    return %arg0 : tensor<3xf32>
  }
}
