// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xi1>, %arg1: tensor<3xf32>, %arg2: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.not %arg0 : tensor<3xi1>
  %1 = stablehlo.select %0, %arg1, %arg2 : tensor<3xi1>, tensor<3xf32>
  return %1 : tensor<3xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xi1>, %arg1: tensor<3xf32>, %arg2: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.select %arg0, %arg2, %arg1 : tensor<3xi1>, tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
