target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
define void @vector_add(ptr addrspace(1) align 16 %a, ptr addrspace(1) align 16 %b, ptr addrspace(1) align 16 %c, i32 %n) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %nt = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %b0 = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %m = mul i32 %nt, %b0
  %i = add i32 %m, %t
  %in = icmp slt i32 %i, %n
  br i1 %in, label %y, label %e
y:
  %pa = getelementptr float, ptr addrspace(1) %a, i32 %i
  %pb = getelementptr float, ptr addrspace(1) %b, i32 %i
  %pc = getelementptr float, ptr addrspace(1) %c, i32 %i
  %x = load float, ptr addrspace(1) %pa
  %z = load float, ptr addrspace(1) %pb
  %s = fadd float %x, %z
  store float %s, ptr addrspace(1) %pc
  br label %e
e:
  ret void
}
!nvvm.annotations = !{!0,!1}
!0 = !{ptr @vector_add, !"kernel", i32 1}
!1 = !{ptr @vector_add, !"maxntidx", i32 256}
