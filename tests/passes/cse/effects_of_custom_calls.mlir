// braze opt --passes=cse,dce
func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = stablehlo.custom_call @pure(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = stablehlo.custom_call @pure(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = stablehlo.custom_call @unused(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %3 = stablehlo.custom_call @writes(%x) {has_side_effect = true} : (tensor<3xf32>) -> tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}
// ==>
module @module {
  func.func public @main(%arg0: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
    %0 = stablehlo.custom_call @pure(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %1 = stablehlo.custom_call @writes(%arg0) {has_side_effect = true} : (tensor<3xf32>) -> tensor<3xf32>
    return %0, %0 : tensor<3xf32>, tensor<3xf32>
  }
}
