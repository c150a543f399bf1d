module @forms attributes {a.b = [1, 2.500000e+00, "x\22y"], a.c, a.d = true, mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<4x6xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<i32>, %arg2: tensor<i1>, %arg3: tensor<f32>) -> (tensor<4x6xf32> {jax.result_info = "result"}, tensor<f32>) {
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<[1.000000e+00, -0.000000e+00, 0x7FC00000, 0x7F800000]> : tensor<4xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %c_1 = stablehlo.constant dense<[[true, false], [false, false]]> : tensor<2x2xi1>
    %cst_2 = stablehlo.constant dense<> : tensor<0x3xf32>
    %c_3 = stablehlo.constant dense<-1> : tensor<200xi64>
    %0 = stablehlo.add %arg0, %arg0 : tensor<4x6xf32>
    %1 = stablehlo.compare LT, %arg0, %arg0, FLOAT : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>
    %2 = stablehlo.select %1, %arg0, %arg0 : tensor<4x6xi1>, tensor<4x6xf32>
    %3 = stablehlo.select %arg2, %arg0, %arg0 : tensor<i1>, tensor<4x6xf32>
    %4 = stablehlo.clamp %arg3, %arg0, %arg3 : (tensor<f32>, tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
    %5 = stablehlo.clamp %arg0, %arg0, %arg0 : tensor<4x6xf32>
    %6 = stablehlo.is_finite %arg0 : (tensor<4x6xf32>) -> tensor<4x6xi1>
    %7 = stablehlo.convert %arg0 : (tensor<4x6xf32>) -> tensor<4x6xi32>
    %8 = stablehlo.convert %arg0 : tensor<4x6xf32>
    %9 = stablehlo.slice %arg0 [0:3, 1:4:2] : (tensor<4x6xf32>) -> tensor<3x2xf32>
    %10 = stablehlo.pad %arg0, %arg3, low = [0, 1], high = [2, -1], interior = [0, 0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<6x6xf32>
    %11 = stablehlo.concatenate %arg0, %arg0, dim = 0 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    %12 = stablehlo.iota dim = 0 : tensor<4xi32>
    %13 = stablehlo.reverse %arg0, dims = [0, 1] : tensor<4x6xf32>
    %14 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
    %15 = stablehlo.reshape %arg0 : (tensor<4x6xf32>) -> tensor<24xf32>
    %16 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %17 = stablehlo.dynamic_slice %arg0, %arg1, %arg1, sizes = [2, 3] : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
    %18 = stablehlo.dynamic_update_slice %arg0, %17, %arg1, %arg1 : (tensor<4x6xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
    %19 = stablehlo.dot_general %arg0, %arg0, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [HIGHEST, DEFAULT] : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4xf32>
    %20 = stablehlo.dot_general %arg0, %14, contracting_dims = [1] x [0] : (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<4x4xf32>
    %21 = stablehlo.dot_general %arg3, %arg3, contracting_dims = [] x [] : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %22 = stablehlo.reduce(%arg0 init: %arg3) applies stablehlo.add across dimensions = [0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>
    %23:2 = stablehlo.reduce(%arg0 init: %arg3), (%7 init: %arg1) across dimensions = [1] : (tensor<4x6xf32>, tensor<4x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
     reducer(%arg4: tensor<f32>, %arg6: tensor<f32>) (%arg5: tensor<i32>, %arg7: tensor<i32>)  {
      %32 = stablehlo.add %arg4, %arg6 : tensor<f32>
      stablehlo.return %32, %arg5 : tensor<f32>, tensor<i32>
    }
    %24 = stablehlo.reduce(%arg0 init: %arg3) across dimensions = [0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>
     reducer(%arg4: tensor<f32>, %arg5: tensor<f32>)  {
      %32 = stablehlo.subtract %arg4, %arg5 : tensor<f32>
      stablehlo.return %32 : tensor<f32>
    }
    %25:2 = stablehlo.while(%iterArg = %arg0, %iterArg_4 = %arg1) : tensor<4x6xf32>, tensor<i32>
    cond {
      %32 = stablehlo.compare LT, %iterArg_4, %arg1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %32 : tensor<i1>
    } do {
      %32 = stablehlo.add %iterArg_4, %iterArg_4 : tensor<i32>
      %c_5 = stablehlo.constant dense<1> : tensor<i32>
      stablehlo.return %iterArg, %32 : tensor<4x6xf32>, tensor<i32>
    }
    %26 = "stablehlo.case"(%arg1) ({
      stablehlo.return %arg0 : tensor<4x6xf32>
    }, {
      %32 = func.call @f(%0) : (tensor<4x6xf32>) -> tensor<4x6xf32>
      stablehlo.return %32 : tensor<4x6xf32>
    }) : (tensor<i32>) -> tensor<4x6xf32>
    %27:2 = stablehlo.custom_call @foo.bar(%arg0, %arg1) {backend_config = "abc\0A\22q", has_side_effect = true} : (tensor<4x6xf32>, tensor<i32>) -> (tensor<f32>, tensor<f32>)
    stablehlo.custom_call @foo() : () -> ()
    %28 = call @f(%arg0) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %29:2 = call @"<lambda>"(%arg0) : (tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<f32>)
    %30 = stablehlo.sine %arg0 : tensor<4x6xf32>
    %31 = stablehlo.bitcast_convert %arg3 : (tensor<f32>) -> tensor<i32>
    return %25#0, %arg3 : tensor<4x6xf32>, tensor<f32>
  }
  func.func private @f(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> {
    return %arg0 : tensor<4x6xf32>
  }
  func.func private @"<lambda>"(%arg0: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<f32>) {
    %cst = stablehlo.constant dense<1.000000e+30> : tensor<f32>
    return %arg0, %cst : tensor<4x6xf32>, tensor<f32>
  }
  func.func public @nothing() {
    return
  }
}
