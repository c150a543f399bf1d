// braze opt --passes=loops
func.func @main(%n: tensor<i32>, %x: tensor<f32>) -> tensor<f32> {
  %0:4 = stablehlo.while(%i = %n, %a = %x, %b = %x, %c = %x) : tensor<i32>, tensor<f32>, tensor<f32>, tensor<f32>
   cond {
    %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %2 = stablehlo.add %i, %i : tensor<i32>
    %3 = stablehlo.add %b, %c : tensor<f32>
    %4 = stablehlo.sine %a : tensor<f32>
    stablehlo.return %2, %4, %c, %3 : tensor<i32>, tensor<f32>, tensor<f32>, tensor<f32>
  }
  return %0#1 : tensor<f32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<i32>, %arg1: tensor<f32>) -> tensor<f32> {
    %0:2 = stablehlo.while(%iterArg = %arg0, %iterArg_0 = %arg1) : tensor<i32>, tensor<f32>
    cond {
      %1 = stablehlo.compare LT, %iterArg, %arg0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.add %iterArg, %iterArg : tensor<i32>
      %2 = stablehlo.sine %iterArg_0 : tensor<f32>
      stablehlo.return %1, %2 : tensor<i32>, tensor<f32>
    }
    return %0#1 : tensor<f32>
  }
}
