// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xi1>) -> tensor<3xf32> {
  %0 = stablehlo.convert %arg0 : (tensor<3xi1>) -> tensor<3xf64>
  %1 = stablehlo.convert %0 : (tensor<3xf64>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xi1>) -> tensor<3xf32> {
    %0 = stablehlo.convert %arg0 : (tensor<3xi1>) -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
