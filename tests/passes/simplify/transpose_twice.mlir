// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3x1x2xf32>) -> tensor<2x3x1xf32> {
  %0 = stablehlo.transpose %arg0, dims = [1, 2, 0] : (tensor<3x1x2xf32>) -> tensor<1x2x3xf32>
  %1 = stablehlo.transpose %0, dims = [1, 2, 0] : (tensor<1x2x3xf32>) -> tensor<2x3x1xf32>
  return %1 : tensor<2x3x1xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3x1x2xf32>) -> tensor<2x3x1xf32> {
    %0 = stablehlo.transpose %arg0, dims = [2, 0, 1] : (tensor<3x1x2xf32>) -> tensor<2x3x1xf32>
    return %0 : tensor<2x3x1xf32>
  }
}
