// braze opt --passes=loops
func.func @main(%n: tensor<i32>, %x: tensor<f32>) -> tensor<f32> {
  %0:2 = stablehlo.while(%i = %n, %a = %x) : tensor<i32>, tensor<f32>
   cond {
    %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %2:2 = stablehlo.while(%j = %n, %b = %a) : tensor<i32>, tensor<f32>
     cond {
      %3 = stablehlo.compare LT, %j, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    } do {
      %4 = stablehlo.add %x, %x : tensor<f32>
      %5 = stablehlo.sine %4 : tensor<f32>
      %6 = stablehlo.cosine %a : tensor<f32>
      %7 = stablehlo.add %5, %6 : tensor<f32>
      %8 = stablehlo.add %b, %7 : tensor<f32>
      stablehlo.return %j, %8 : tensor<i32>, tensor<f32>
    }
    stablehlo.return %i, %2#1 : tensor<i32>, tensor<f32>
  }
  return %0#1 : tensor<f32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<i32>, %arg1: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.add %arg1, %arg1 : tensor<f32>
    %1 = stablehlo.sine %0 : tensor<f32>
    %2 = stablehlo.while(%iterArg = %arg1) : tensor<f32>
    cond {
      %3 = stablehlo.compare LT, %arg0, %arg0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    } do {
      %3 = stablehlo.cosine %iterArg : tensor<f32>
      %4 = stablehlo.while(%iterArg_0 = %iterArg) : tensor<f32>
      cond {
        %5 = stablehlo.compare LT, %arg0, %arg0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %5 : tensor<i1>
      } do {
        %5 = stablehlo.add %1, %3 : tensor<f32>
        %6 = stablehlo.add %iterArg_0, %5 : tensor<f32>
        stablehlo.return %6 : tensor<f32>
      }
      stablehlo.return %4 : tensor<f32>
    }
    return %2 : tensor<f32>
  }
}
