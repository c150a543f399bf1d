// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<2x3xf32>) -> tensor<1x3xf32> {
  %0 = stablehlo.slice %arg0 [0:2:3, 0:2] : (tensor<2x3xf32>) -> tensor<1x2xf32>
  %1 = stablehlo.slice %arg0 [0:2:3, 2:3] : (tensor<2x3xf32>) -> tensor<1x1xf32>
  %2 = stablehlo.concatenate %0, %1, dim = 1 : (tensor<1x2xf32>, tensor<1x1xf32>) -> tensor<1x3xf32>
  return %2 : tensor<1x3xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<2x3xf32>) -> tensor<1x3xf32> {
    %0 = stablehlo.slice %arg0 [0:2:3, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
    return %0 : tensor<1x3xf32>
  }
}
