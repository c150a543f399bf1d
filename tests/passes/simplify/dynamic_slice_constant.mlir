// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xf32>) -> tensor<1xf32> {
  %c = stablehlo.constant dense<3> : tensor<i32>
  %0 = stablehlo.dynamic_slice %arg0, %c, sizes = [1] : (tensor<3xf32>, tensor<i32>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xf32>) -> tensor<1xf32> {
    %0 = stablehlo.slice %arg0 [2:3] : (tensor<3xf32>) -> tensor<1xf32>
    return %0 : tensor<1xf32>
  }
}
