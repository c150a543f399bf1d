// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<1x3xf32>) -> tensor<3x1xf32> {
  %0 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<1x3xf32>) -> tensor<3x1xf32>
  return %0 : tensor<3x1xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<1x3xf32>) -> tensor<3x1xf32> {
    %0 = stablehlo.reshape %arg0 : (tensor<1x3xf32>) -> tensor<3x1xf32>
    return %0 : tensor<3x1xf32>
  }
}
