// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xf32>, %arg1: tensor<i32>) -> tensor<3xf32> {
  %0 = stablehlo.dynamic_slice %arg0, %arg1, sizes = [3] : (tensor<3xf32>, tensor<i32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<i32>) -> tensor<3xf32> {
    return %arg0 : tensor<3xf32>
  }
}
