; One warp: d[16][8] = a[16][16] * b[16][8], a by ldmatrix from shared memory, b from global.
target triple = "nvptx64-nvidia-cuda"
@a16 = internal addrspace(3) global [16 x [16 x half]] undef, align 16
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.bar.warp.sync(i32)
declare { i32, i32, i32, i32 } @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3))
declare { float, float, float, float } @llvm.nvvm.mma.m16n8k16.row.col.f32.f32(<2 x half>, <2 x half>, <2 x half>, <2 x half>, <2 x half>, <2 x half>, float, float, float, float)
define ptx_kernel void @mma(ptr addrspace(1) align 16 %a, ptr addrspace(1) align 16 %b, ptr addrspace(1) align 16 %d) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %pa = getelementptr [8 x half], ptr addrspace(1) %a, i32 %t
  %va = load <4 x i32>, ptr addrspace(1) %pa, align 16
  %sa = getelementptr [8 x half], ptr addrspace(3) @a16, i32 %t
  store <4 x i32> %va, ptr addrspace(3) %sa, align 16
  call void @llvm.nvvm.bar.warp.sync(i32 -1)
  %row = and i32 %t, 15
  %colh = lshr i32 %t, 4
  %col = shl i32 %colh, 3
  %sl = getelementptr [16 x [16 x half]], ptr addrspace(3) @a16, i32 0, i32 %row, i32 %col
  %f = call { i32, i32, i32, i32 } @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3) %sl)
  %f0 = extractvalue { i32, i32, i32, i32 } %f, 0
  %f1 = extractvalue { i32, i32, i32, i32 } %f, 1
  %f2 = extractvalue { i32, i32, i32, i32 } %f, 2
  %f3 = extractvalue { i32, i32, i32, i32 } %f, 3
  %h0 = bitcast i32 %f0 to <2 x half>
  %h1 = bitcast i32 %f1 to <2 x half>
  %h2 = bitcast i32 %f2 to <2 x half>
  %h3 = bitcast i32 %f3 to <2 x half>
  %g = lshr i32 %t, 2
  %q = and i32 %t, 3
  %k0 = shl i32 %q, 1
  ; b is stored by columns: b[n][k].
  %bn = shl i32 %g, 4
  %b0 = add i32 %bn, %k0
  %pb0 = getelementptr half, ptr addrspace(1) %b, i32 %b0
  %w0 = load <2 x half>, ptr addrspace(1) %pb0, align 4
  %pb1 = getelementptr half, ptr addrspace(1) %pb0, i32 8
  %w1 = load <2 x half>, ptr addrspace(1) %pb1, align 4
  %r = call { float, float, float, float } @llvm.nvvm.mma.m16n8k16.row.col.f32.f32(<2 x half> %h0, <2 x half> %h1, <2 x half> %h2, <2 x half> %h3, <2 x half> %w0, <2 x half> %w1, float 0.0, float 0.0, float 0.0, float 0.0)
  %d0 = extractvalue { float, float, float, float } %r, 0
  %d1 = extractvalue { float, float, float, float } %r, 1
  %d2 = extractvalue { float, float, float, float } %r, 2
  %d3 = extractvalue { float, float, float, float } %r, 3
  %c8 = shl i32 %g, 3
  %ci = add i32 %c8, %k0
  %pd = getelementptr float, ptr addrspace(1) %d, i32 %ci
  store float %d0, ptr addrspace(1) %pd
  %pd1 = getelementptr float, ptr addrspace(1) %pd, i32 1
  store float %d1, ptr addrspace(1) %pd1
  %pd2 = getelementptr float, ptr addrspace(1) %pd, i32 64
  store float %d2, ptr addrspace(1) %pd2
  %pd3 = getelementptr float, ptr addrspace(1) %pd, i32 65
  store float %d3, ptr addrspace(1) %pd3
  ret void
}
