; y[i] = x[clamp(index[i])]; the second kernel does not clamp.
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
define ptx_kernel void @gather(ptr addrspace(1) align 16 %x, ptr addrspace(1) align 16 %index, ptr addrspace(1) align 16 %y, i64 %rows) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr i64, ptr addrspace(1) %index, i32 %t
  %i = load i64, ptr addrspace(1) %p
  %last = add i64 %rows, -1
  %low = call i64 @llvm.smax.i64(i64 %i, i64 0)
  %at = call i64 @llvm.smin.i64(i64 %low, i64 %last)
  %q = getelementptr half, ptr addrspace(1) %x, i64 %at
  %v = load half, ptr addrspace(1) %q
  %f = fpext half %v to float
  %o = getelementptr float, ptr addrspace(1) %y, i32 %t
  store float %f, ptr addrspace(1) %o
  ret void
}
define ptx_kernel void @gather_unchecked(ptr addrspace(1) align 16 %x, ptr addrspace(1) align 16 %index, ptr addrspace(1) align 16 %y, i64 %rows) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr i64, ptr addrspace(1) %index, i32 %t
  %i = load i64, ptr addrspace(1) %p
  %q = getelementptr half, ptr addrspace(1) %x, i64 %i
  %v = load half, ptr addrspace(1) %q
  %f = fpext half %v to float
  %o = getelementptr float, ptr addrspace(1) %y, i32 %t
  store float %f, ptr addrspace(1) %o
  ret void
}
