// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xf32>) -> tensor<1xf32> {
  %0 = stablehlo.slice %arg0 [1:2:3] : (tensor<3xf32>) -> tensor<1xf32>
  %1 = stablehlo.slice %0 [0:1:3] : (tensor<1xf32>) -> tensor<1xf32>
  return %1 : tensor<1xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xf32>) -> tensor<1xf32> {
    %0 = stablehlo.slice %arg0 [1:2:9] : (tensor<3xf32>) -> tensor<1xf32>
    return %0 : tensor<1xf32>
  }
}
