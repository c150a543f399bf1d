// braze opt --passes=simplify,dce
func.func @main(%arg0: tensor<3xi32>) -> tensor<3xi32> {
  %c = stablehlo.constant dense<-7> : tensor<3xi32>
  %0 = stablehlo.multiply %arg0, %c : tensor<3xi32>
  %c_0 = stablehlo.constant dense<2> : tensor<i32>
  %1 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<3xi32>
  %2 = stablehlo.multiply %0, %1 : tensor<3xi32>
  return %2 : tensor<3xi32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xi32>) -> tensor<3xi32> {
    %c = stablehlo.constant dense<-14> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %1 = stablehlo.multiply %arg0, %0 : tensor<3xi32>
    return %1 : tensor<3xi32>
  }
}
