// braze opt --passes=cse
func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = stablehlo.custom_call @read(%x) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
  %1 = stablehlo.custom_call @read(%x) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
    %0 = stablehlo.custom_call @read(%arg0) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
    %1 = stablehlo.custom_call @read(%arg0) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
    return %0, %1 : tensor<f32>, tensor<f32>
  }
}
