; gemm.ll without its first barrier: a race.
target triple = "nvptx64-nvidia-cuda"
@ta = internal addrspace(3) global [16 x [16 x float]] undef, align 16
@tb = internal addrspace(3) global [16 x [16 x float]] undef, align 16
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare void @llvm.nvvm.barrier0()
declare float @llvm.fma.f32(float, float, float)
define ptx_kernel void @gemm_racy(ptr addrspace(1) align 16 %a, ptr addrspace(1) align 16 %b, ptr addrspace(1) align 16 %c, i32 %n, i32 %k) {
entry:
  %tx = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ty = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %bx = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %by = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %r0 = shl i32 %by, 4
  %row = add i32 %r0, %ty
  %c0 = shl i32 %bx, 4
  %col = add i32 %c0, %tx
  %sa = getelementptr [16 x [16 x float]], ptr addrspace(3) @ta, i32 0, i32 %ty, i32 %tx
  %sb = getelementptr [16 x [16 x float]], ptr addrspace(3) @tb, i32 0, i32 %ty, i32 %tx
  %rowk = mul i32 %row, %k
  br label %outer
outer:
  %kt = phi i32 [ 0, %entry ], [ %kt1, %next ]
  %sum = phi float [ 0.0, %entry ], [ %sum1, %next ]
  %ka = add i32 %kt, %tx
  %ia = add i32 %rowk, %ka
  %pa = getelementptr float, ptr addrspace(1) %a, i32 %ia
  %va = load float, ptr addrspace(1) %pa
  store float %va, ptr addrspace(3) %sa
  %kb = add i32 %kt, %ty
  %kbn = mul i32 %kb, %n
  %ib = add i32 %kbn, %col
  %pb = getelementptr float, ptr addrspace(1) %b, i32 %ib
  %vb = load float, ptr addrspace(1) %pb
  store float %vb, ptr addrspace(3) %sb
  br label %inner
inner:
  %i = phi i32 [ 0, %outer ], [ %i1, %inner ]
  %s = phi float [ %sum, %outer ], [ %sum1, %inner ]
  %qa = getelementptr [16 x [16 x float]], ptr addrspace(3) @ta, i32 0, i32 %ty, i32 %i
  %qb = getelementptr [16 x [16 x float]], ptr addrspace(3) @tb, i32 0, i32 %i, i32 %tx
  %xa = load float, ptr addrspace(3) %qa
  %xb = load float, ptr addrspace(3) %qb
  %sum1 = call float @llvm.fma.f32(float %xa, float %xb, float %s)
  %i1 = add i32 %i, 1
  %more = icmp slt i32 %i1, 16
  br i1 %more, label %inner, label %next
next:
  call void @llvm.nvvm.barrier0()
  %kt1 = add i32 %kt, 16
  %again = icmp slt i32 %kt1, %k
  br i1 %again, label %outer, label %done
done:
  %rn = mul i32 %row, %n
  %ic = add i32 %rn, %col
  %pc = getelementptr float, ptr addrspace(1) %c, i32 %ic
  store float %sum1, ptr addrspace(1) %pc
  ret void
}
