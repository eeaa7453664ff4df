; A transpose of 32 by 32 tiles through shared memory, rows padded to 33; and without the padding.
target triple = "nvptx64-nvidia-cuda"
@padded = internal addrspace(3) global [32 x [33 x float]] undef, align 4
@plain = internal addrspace(3) global [32 x [32 x float]] undef, align 4
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare void @llvm.nvvm.barrier0()
define ptx_kernel void @transpose(ptr addrspace(1) align 16 %x, ptr addrspace(1) align 16 %y, i32 %n) {
  %tx = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ty = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %bx = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %by = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %x0 = shl i32 %bx, 5
  %y0 = shl i32 %by, 5
  %r = add i32 %y0, %ty
  %c = add i32 %x0, %tx
  %rn = mul i32 %r, %n
  %i = add i32 %rn, %c
  %p = getelementptr float, ptr addrspace(1) %x, i32 %i
  %v = load float, ptr addrspace(1) %p
  %s = getelementptr [32 x [33 x float]], ptr addrspace(3) @padded, i32 0, i32 %ty, i32 %tx
  store float %v, ptr addrspace(3) %s
  call void @llvm.nvvm.barrier0()
  %t = getelementptr [32 x [33 x float]], ptr addrspace(3) @padded, i32 0, i32 %tx, i32 %ty
  %w = load float, ptr addrspace(3) %t
  %r2 = add i32 %x0, %ty
  %c2 = add i32 %y0, %tx
  %rn2 = mul i32 %r2, %n
  %i2 = add i32 %rn2, %c2
  %q = getelementptr float, ptr addrspace(1) %y, i32 %i2
  store float %w, ptr addrspace(1) %q
  ret void
}
define ptx_kernel void @transpose_conflicts(ptr addrspace(1) align 16 %x, ptr addrspace(1) align 16 %y, i32 %n) {
  %tx = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ty = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %rn = mul i32 %ty, %n
  %i = add i32 %rn, %tx
  %p = getelementptr float, ptr addrspace(1) %x, i32 %i
  %v = load float, ptr addrspace(1) %p
  %s = getelementptr [32 x [32 x float]], ptr addrspace(3) @plain, i32 0, i32 %ty, i32 %tx
  store float %v, ptr addrspace(3) %s
  call void @llvm.nvvm.barrier0()
  %t = getelementptr [32 x [32 x float]], ptr addrspace(3) @plain, i32 0, i32 %tx, i32 %ty
  %w = load float, ptr addrspace(3) %t
  %q = getelementptr float, ptr addrspace(1) %y, i32 %i
  store float %w, ptr addrspace(1) %q
  ret void
}
