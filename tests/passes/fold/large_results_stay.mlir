// braze opt --passes=fold(max_bytes=8)
func.func @main() -> (tensor<2xf32>, tensor<3xf32>) {
  %0 = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %1 = stablehlo.slice %0 [0:2] : (tensor<3xf32>) -> tensor<2xf32>
  %2 = stablehlo.reverse %0, dims = [0] : tensor<3xf32>
  return %1, %2 : tensor<2xf32>, tensor<3xf32>
}
// ==>
module @module {
  func.func public @main() -> (tensor<2xf32>, tensor<3xf32>) {
    %cst = stablehlo.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf32>
    %cst_0 = stablehlo.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
    %0 = stablehlo.reverse %cst, dims = [0] : tensor<3xf32>
    return %cst_0, %0 : tensor<2xf32>, tensor<3xf32>
  }
}
