// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xi32>) -> tensor<3xi32> {
  %0 = stablehlo.or %arg0, %arg0 : tensor<3xi32>
  return %0 : tensor<3xi32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xi32>) -> tensor<3xi32> {
    return %arg0 : tensor<3xi32>
  }
}
