// braze opt --passes=simplify,dce
func.func @main() -> tensor<2xf32> {
  %cst = stablehlo.constant dense<2.000000e+00> : tensor<3xf32>
  %0 = stablehlo.slice %cst [1:3] : (tensor<3xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
// ==>
module @module {
  func.func public @main() -> tensor<2xf32> {
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
