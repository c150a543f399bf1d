// braze opt --passes=simplify,dce
func.func @main() -> tensor<6xf32> {
  %cst = stablehlo.constant dense<-1.000000e+00> : tensor<2x3xf32>
  %0 = stablehlo.reshape %cst : (tensor<2x3xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
// ==>
module @module {
  func.func public @main() -> tensor<6xf32> {
    %cst = stablehlo.constant dense<-1.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<6xf32>
    return %0 : tensor<6xf32>
  }
}
