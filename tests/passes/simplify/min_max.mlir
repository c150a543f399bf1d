// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xi32>, %arg1: tensor<3xi32>) -> tensor<3xi32> {
  %0 = stablehlo.maximum %arg0, %arg1 : tensor<3xi32>
  %1 = stablehlo.minimum %arg0, %0 : tensor<3xi32>
  return %1 : tensor<3xi32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xi32>, %arg1: tensor<3xi32>) -> tensor<3xi32> {
    return %arg0 : tensor<3xi32>
  }
}
