// braze opt --passes=loops
func.func @main(%n: tensor<i32>, %x: tensor<f32>) -> tensor<i32> {
  %0:2 = stablehlo.while(%i = %n, %a = %x) : tensor<i32>, tensor<f32>
   cond {
    %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    stablehlo.custom_call @show(%a) {has_side_effect = true} : (tensor<f32>) -> ()
    %2 = stablehlo.add %i, %i : tensor<i32>
    %3 = stablehlo.negate %a : tensor<f32>
    stablehlo.return %2, %3 : tensor<i32>, tensor<f32>
  }
  return %0#0 : tensor<i32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<i32>, %arg1: tensor<f32>) -> tensor<i32> {
    %0:2 = stablehlo.while(%iterArg = %arg0, %iterArg_0 = %arg1) : tensor<i32>, tensor<f32>
    cond {
      %1 = stablehlo.compare LT, %iterArg, %arg0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      stablehlo.custom_call @show(%iterArg_0) {has_side_effect = true} : (tensor<f32>) -> ()
      %1 = stablehlo.add %iterArg, %iterArg : tensor<i32>
      %2 = stablehlo.negate %iterArg_0 : tensor<f32>
      stablehlo.return %1, %2 : tensor<i32>, tensor<f32>
    }
    return %0#0 : tensor<i32>
  }
}
