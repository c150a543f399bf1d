// braze opt --passes=cse
func.func @main(%i: tensor<i32>, %x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = stablehlo.sine %x : tensor<f32>
  %1 = "stablehlo.case"(%i) ({
    %2 = stablehlo.sine %x : tensor<f32>
    %3 = stablehlo.cosine %x : tensor<f32>
    %4 = stablehlo.add %2, %3 : tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }, {
    %5 = stablehlo.cosine %x : tensor<f32>
    stablehlo.return %5 : tensor<f32>
  }) : (tensor<i32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<i32>, %arg1: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
    %0 = stablehlo.sine %arg1 : tensor<f32>
    %1 = "stablehlo.case"(%arg0) ({
      %2 = stablehlo.cosine %arg1 : tensor<f32>
      %3 = stablehlo.add %0, %2 : tensor<f32>
      stablehlo.return %3 : tensor<f32>
    }, {
      %2 = stablehlo.cosine %arg1 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<i32>) -> tensor<f32>
    return %0, %1 : tensor<f32>, tensor<f32>
  }
}
