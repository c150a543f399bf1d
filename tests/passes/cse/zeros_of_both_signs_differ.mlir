// braze opt --passes=cse
func.func @main() -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.constant dense<-0.0> : tensor<f32>
  %2 = stablehlo.constant dense<0.0> : tensor<f32>
  return %0, %1, %2 : tensor<f32>, tensor<f32>, tensor<f32>
}
// ==>
module @module {
  func.func public @main() -> (tensor<f32>, tensor<f32>, tensor<f32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<-0.000000e+00> : tensor<f32>
    return %cst, %cst_0, %cst : tensor<f32>, tensor<f32>, tensor<f32>
  }
}
