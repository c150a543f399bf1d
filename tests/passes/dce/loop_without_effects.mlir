// braze opt --passes=dce
func.func @main(%n: tensor<i32>, %x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.while(%i = %n) : tensor<i32>
   cond {
    %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %2 = stablehlo.add %i, %n : tensor<i32>
    stablehlo.return %2 : tensor<i32>
  }
  return %x : tensor<f32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<i32>, %arg1: tensor<f32>) -> tensor<f32> {
    return %arg1 : tensor<f32>
  }
}
