define void @braze.small(ptr %buffers, i64 %first, i64 %last, ptr %scratch) nounwind {
entry:
  %v0 = load ptr, ptr %buffers, align 8
  %v1 = getelementptr ptr, ptr %buffers, i64 1
  %v2 = load ptr, ptr %v1, align 8
  %v3 = icmp slt i64 %first, %last
  br i1 %v3, label %block0, label %done1
block0:
  %v4 = phi i64 [ %first, %entry ], [ %v21, %block0 ]
  %v5 = mul i64 %v4, 4
  %v6 = sub i64 10, %v5
  %v7 = insertelement <4 x i64> poison, i64 %v6, i64 0
  %v8 = shufflevector <4 x i64> %v7, <4 x i64> poison, <4 x i32> zeroinitializer
  %v9 = icmp slt <4 x i64> <i64 0, i64 1, i64 2, i64 3>, %v8
  %v10 = getelementptr float, ptr %v0, i64 %v5
  %v11 = call <4 x float> @llvm.masked.load.v4f32.p0(ptr align 4 %v10, <4 x i1> %v9, <4 x float> splat (float 0x0000000000000000))
  %v12 = fcmp ogt <4 x float> %v11, splat (float 0x3FB99999A0000000)
  %v13 = select <4 x i1> %v12, <4 x float> %v11, <4 x float> splat (float 0x3FB99999A0000000)
  %v14 = shufflevector <4 x float> %v13, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v15 = shufflevector <4 x float> %v13, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v16 = fadd <2 x float> %v14, %v15
  %v17 = extractelement <2 x float> %v16, i64 0
  %v18 = extractelement <2 x float> %v16, i64 1
  %v19 = fadd float %v17, %v18
  %v20 = getelementptr float, ptr %v2, i64 %v4
  store float %v19, ptr %v20, align 4
  %v21 = add i64 %v4, 1
  %v22 = icmp slt i64 %v21, %last
  br i1 %v22, label %block0, label %done1
done1:
  ret void
}

declare <4 x float> @llvm.masked.load.v4f32.p0(ptr, <4 x i1>, <4 x float>)
