// braze opt --passes=dce
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.sine %x : tensor<f32>
  stablehlo.custom_call @first(%0) {has_side_effect = true} : (tensor<f32>) -> ()
  %1 = stablehlo.cosine %x : tensor<f32>
  %2 = stablehlo.custom_call @second(%x) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
  return %x : tensor<f32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.sine %arg0 : tensor<f32>
    stablehlo.custom_call @first(%0) {has_side_effect = true} : (tensor<f32>) -> ()
    %1 = stablehlo.custom_call @second(%arg0) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
    return %arg0 : tensor<f32>
  }
}
