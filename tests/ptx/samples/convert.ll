; Conversions between formats, packed arithmetic, a table in constant memory and a switch.
target triple = "nvptx64-nvidia-cuda"
@table = internal addrspace(4) constant [4 x i32] [i32 7, i32 -1, i32 100, i32 65536], align 4
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare <2 x half> @llvm.fma.v2f16(<2 x half>, <2 x half>, <2 x half>)
define ptx_kernel void @convert(ptr addrspace(1) align 16 %x, ptr addrspace(1) align 16 %h, ptr addrspace(1) align 16 %b, ptr addrspace(1) align 16 %i, ptr addrspace(1) align 16 %d) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr float, ptr addrspace(1) %x, i32 %t
  %v = load float, ptr addrspace(1) %p
  %vh = fptrunc float %v to half
  %ph = getelementptr half, ptr addrspace(1) %h, i32 %t
  store half %vh, ptr addrspace(1) %ph
  %vb = fptrunc float %v to bfloat
  %pb = getelementptr bfloat, ptr addrspace(1) %b, i32 %t
  store bfloat %vb, ptr addrspace(1) %pb
  %vi = fptosi float %v to i32
  %pi = getelementptr i32, ptr addrspace(1) %i, i32 %t
  store i32 %vi, ptr addrspace(1) %pi
  %vd = fpext float %v to double
  %th = fdiv double %vd, 3.000000e+00
  %pd = getelementptr double, ptr addrspace(1) %d, i32 %t
  store double %th, ptr addrspace(1) %pd
  ret void
}
define ptx_kernel void @packed(ptr addrspace(1) align 16 %x, ptr addrspace(1) align 16 %y) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr <2 x half>, ptr addrspace(1) %x, i32 %t
  %v = load <2 x half>, ptr addrspace(1) %p, align 4
  %w = call <2 x half> @llvm.fma.v2f16(<2 x half> %v, <2 x half> %v, <2 x half> %v)
  %z = fadd <2 x half> %w, %v
  %q = getelementptr <2 x half>, ptr addrspace(1) %y, i32 %t
  store <2 x half> %z, ptr addrspace(1) %q, align 4
  ret void
}
define ptx_kernel void @choose(ptr addrspace(1) align 16 %y) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %k = and i32 %t, 7
  switch i32 %k, label %other [
    i32 0, label %c0
    i32 1, label %c1
    i32 2, label %c2
    i32 3, label %c3
    i32 4, label %c4
  ]
c0:
  %m3 = and i32 %t, 3
  %g = getelementptr [4 x i32], ptr addrspace(4) @table, i32 0, i32 %m3
  %l = load i32, ptr addrspace(4) %g
  br label %join
c1:
  %a1 = mul i32 %t, %t
  br label %join
c2:
  %a2 = udiv i32 1000, %t
  br label %join
c3:
  %a3 = xor i32 %t, -1
  br label %join
c4:
  %a4 = shl i32 %t, 3
  br label %join
other:
  br label %join
join:
  %r = phi i32 [ %l, %c0 ], [ %a1, %c1 ], [ %a2, %c2 ], [ %a3, %c3 ], [ %a4, %c4 ], [ 5, %other ]
  %q = getelementptr i32, ptr addrspace(1) %y, i32 %t
  store i32 %r, ptr addrspace(1) %q
  ret void
}
define ptx_kernel void @local(ptr addrspace(1) align 16 %y, i32 %n) {
entry:
  %a = alloca [8 x i32], align 4
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %i1, %loop ]
  %p = getelementptr [8 x i32], ptr %a, i32 0, i32 %i
  %v = mul i32 %i, %t
  store volatile i32 %v, ptr %p
  %i1 = add i32 %i, 1
  %more = icmp slt i32 %i1, %n
  br i1 %more, label %loop, label %done
done:
  %k = and i32 %t, 7
  %q = getelementptr [8 x i32], ptr %a, i32 0, i32 %k
  %r = load volatile i32, ptr %q
  %o = getelementptr i32, ptr addrspace(1) %y, i32 %t
  store i32 %r, ptr addrspace(1) %o
  ret void
}
