// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.minimum %arg0, %arg1 : tensor<3xf32>
  %1 = stablehlo.minimum %0, %arg1 : tensor<3xf32>
  return %1 : tensor<3xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.minimum %arg0, %arg1 : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
