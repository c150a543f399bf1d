// braze opt --passes=fold,dce
func.func @main() -> tensor<3xf32> {
  %0 = stablehlo.constant dense<[1.0, -0.0, 0x7FC00000]> : tensor<3xf32>
  %1 = stablehlo.constant dense<[3.0, 0.0, 1.0]> : tensor<3xf32>
  %2 = stablehlo.divide %0, %1 : tensor<3xf32>
  %3 = stablehlo.negate %2 : tensor<3xf32>
  return %3 : tensor<3xf32>
}
// ==>
module @module {
  func.func public @main() -> tensor<3xf32> {
    %cst = stablehlo.constant dense<[-3.3333334e-01, 0x7FC00000, 0xFFC00000]> : tensor<3xf32>
    return %cst : tensor<3xf32>
  }
}
