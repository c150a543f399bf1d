// braze opt --passes=fold,dce
func.func @main() -> tensor<1000x1000xi32> {
  %0 = stablehlo.constant dense<2147483647> : tensor<i32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<i32>) -> tensor<1000x1000xi32>
  %2 = stablehlo.constant dense<1> : tensor<1000x1000xi32>
  %3 = stablehlo.add %1, %2 : tensor<1000x1000xi32>
  return %3 : tensor<1000x1000xi32>
}
// ==>
module @module {
  func.func public @main() -> tensor<1000x1000xi32> {
    %c = stablehlo.constant dense<2147483647> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<1000x1000xi32>
    %c_0 = stablehlo.constant dense<1> : tensor<1000x1000xi32>
    %1 = stablehlo.add %0, %c_0 : tensor<1000x1000xi32>
    return %1 : tensor<1000x1000xi32>
  }
}
