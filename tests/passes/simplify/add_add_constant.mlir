// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xi32>) -> tensor<3xi32> {
  %c = stablehlo.constant dense<1> : tensor<i32>
  %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3xi32>
  %1 = stablehlo.add %arg0, %0 : tensor<3xi32>
  %c_0 = stablehlo.constant dense<2> : tensor<3xi32>
  %2 = stablehlo.add %1, %c_0 : tensor<3xi32>
  return %2 : tensor<3xi32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xi32>) -> tensor<3xi32> {
    %c = stablehlo.constant dense<3> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %1 = stablehlo.add %arg0, %0 : tensor<3xi32>
    return %1 : tensor<3xi32>
  }
}
