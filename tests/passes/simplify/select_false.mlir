// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> tensor<3xf32> {
  %c = stablehlo.constant dense<false> : tensor<3xi1>
  %0 = stablehlo.select %c, %arg0, %arg1 : tensor<3xi1>, tensor<3xf32>
  return %0 : tensor<3xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> tensor<3xf32> {
    return %arg1 : tensor<3xf32>
  }
}
