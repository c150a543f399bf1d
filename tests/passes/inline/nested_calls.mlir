// braze opt --passes=inline
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = call @twice(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = call @once(%0) : (tensor<3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}
func.func private @twice(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = call @once(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = call @once(%0) : (tensor<3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}
func.func private @once(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.sine %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.sine %arg0 : tensor<3xf32>
    %1 = stablehlo.sine %0 : tensor<3xf32>
    %2 = stablehlo.sine %1 : tensor<3xf32>
    return %2 : tensor<3xf32>
  }
}
