// braze opt --passes=loops
func.func @main(%n: tensor<i32>, %x: tensor<9xf32>) -> tensor<9xf32> {
  %0:2 = stablehlo.while(%i = %n, %a = %x) : tensor<i32>, tensor<9xf32>
   cond {
    %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %2 = stablehlo.add %i, %i : tensor<i32>
    %3 = stablehlo.multiply %x, %x : tensor<9xf32>
    %4 = stablehlo.add %a, %3 : tensor<9xf32>
    stablehlo.return %2, %4 : tensor<i32>, tensor<9xf32>
  }
  return %0#1 : tensor<9xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<i32>, %arg1: tensor<9xf32>) -> tensor<9xf32> {
    %0:2 = stablehlo.while(%iterArg = %arg0, %iterArg_0 = %arg1) : tensor<i32>, tensor<9xf32>
    cond {
      %1 = stablehlo.compare LT, %iterArg, %arg0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.add %iterArg, %iterArg : tensor<i32>
      %2 = stablehlo.multiply %arg1, %arg1 : tensor<9xf32>
      %3 = stablehlo.add %iterArg_0, %2 : tensor<9xf32>
      stablehlo.return %1, %3 : tensor<i32>, tensor<9xf32>
    }
    return %0#1 : tensor<9xf32>
  }
}
