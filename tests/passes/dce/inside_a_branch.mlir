// braze opt --passes=dce
func.func @main(%i: tensor<i32>, %x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.sine %x : tensor<f32>
  %1 = stablehlo.cosine %x : tensor<f32>
  %2 = "stablehlo.case"(%i) ({
    %3 = stablehlo.negate %1 : tensor<f32>
    stablehlo.return %0 : tensor<f32>
  }) : (tensor<i32>) -> tensor<f32>
  return %2 : tensor<f32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<i32>, %arg1: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.sine %arg1 : tensor<f32>
    %1 = "stablehlo.case"(%arg0) ({
      stablehlo.return %0 : tensor<f32>
    }) : (tensor<i32>) -> tensor<f32>
    return %1 : tensor<f32>
  }
}
