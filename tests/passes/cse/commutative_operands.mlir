// braze opt --passes=cse
func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %0 = stablehlo.add %x, %y : tensor<3xf32>
  %1 = stablehlo.add %y, %x : tensor<3xf32>
  %2 = stablehlo.subtract %x, %y : tensor<3xf32>
  %3 = stablehlo.subtract %y, %x : tensor<3xf32>
  %4 = stablehlo.add %0, %1 : tensor<3xf32>
  %5 = stablehlo.add %x, %x : tensor<3xf32>
  %6 = stablehlo.add %2, %3 : tensor<3xf32>
  return %4, %5, %6 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
    %0 = stablehlo.add %arg0, %arg1 : tensor<3xf32>
    %1 = stablehlo.subtract %arg0, %arg1 : tensor<3xf32>
    %2 = stablehlo.subtract %arg1, %arg0 : tensor<3xf32>
    %3 = stablehlo.add %0, %0 : tensor<3xf32>
    %4 = stablehlo.add %arg0, %arg0 : tensor<3xf32>
    %5 = stablehlo.add %1, %2 : tensor<3xf32>
    return %3, %4, %5 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  }
}
