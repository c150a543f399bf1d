// braze opt --passes=simplify,dce
func.func @main() -> tensor<3xf32> {
  %cst = stablehlo.constant dense<5.500000e+00> : tensor<3xf32>
  %0 = stablehlo.reverse %cst, dims = [0] : tensor<3xf32>
  return %0 : tensor<3xf32>
}
// ==>
module @module {
  func.func public @main() -> tensor<3xf32> {
    %cst = stablehlo.constant dense<5.500000e+00> : tensor<3xf32>
    return %cst : tensor<3xf32>
  }
}
