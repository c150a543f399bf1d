// braze opt --passes=simplify,dce
func.func @main() -> tensor<3x1x1xf32> {
  %cst = stablehlo.constant dense<2.000000e+00> : tensor<3xf32>
  %0 = stablehlo.broadcast_in_dim %cst, dims = [0] : (tensor<3xf32>) -> tensor<3x1x1xf32>
  return %0 : tensor<3x1x1xf32>
}
// ==>
module @module {
  func.func public @main() -> tensor<3x1x1xf32> {
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x1x1xf32>
    return %0 : tensor<3x1x1xf32>
  }
}
