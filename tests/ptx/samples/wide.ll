; Many instructions of LLVM, so that what it emits for them is parsed.
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare float @llvm.sqrt.f32(float)
declare double @llvm.sqrt.f64(double)
declare float @llvm.minimum.f32(float,float)
declare float @llvm.maxnum.f32(float,float)
declare float @llvm.fabs.f32(float)
declare float @llvm.copysign.f32(float,float)
declare float @llvm.floor.f32(float)
declare float @llvm.ceil.f32(float)
declare float @llvm.trunc.f32(float)
declare float @llvm.roundeven.f32(float)
declare float @llvm.round.f32(float)
declare i32 @llvm.ctpop.i32(i32)
declare i64 @llvm.ctlz.i64(i64,i1)
declare i32 @llvm.cttz.i32(i32,i1)
declare i32 @llvm.bitreverse.i32(i32)
declare i32 @llvm.bswap.i32(i32)
declare i32 @llvm.fshl.i32(i32,i32,i32)
declare i64 @llvm.fshl.i64(i64,i64,i64)
declare i32 @llvm.abs.i32(i32,i1)
declare bfloat @llvm.fma.bf16(bfloat,bfloat,bfloat)
declare <2 x bfloat> @llvm.maxnum.v2bf16(<2 x bfloat>,<2 x bfloat>)
define void @wide(ptr addrspace(1) %p, ptr addrspace(1) %q, i32 %n, i64 %m, i8 %c, i16 %s, float %f, double %d, i1 %flag) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %a0 = call float @llvm.sqrt.f32(float %f)
  %a1 = call float @llvm.minimum.f32(float %a0, float 2.0)
  %a2 = call float @llvm.maxnum.f32(float %a1, float 0.5)
  %a3 = call float @llvm.copysign.f32(float %a2, float %f)
  %a4 = call float @llvm.floor.f32(float %a3)
  %a5 = call float @llvm.ceil.f32(float %a3)
  %a6 = call float @llvm.trunc.f32(float %a3)
  %a7 = call float @llvm.roundeven.f32(float %a3)
  %a8 = call float @llvm.round.f32(float %a3)
  %b0 = fadd float %a4, %a5
  %b1 = fsub float %b0, %a6
  %b2 = fmul float %b1, %a7
  %b3 = fdiv float %b2, %a8
  %b4 = fneg float %b3
  %b5 = call float @llvm.fabs.f32(float %b4)
  %b6 = frem float %b5, 3.0
  %u = fcmp ueq float %b6, %f
  %v = fcmp ord float %b6, %f
  %w = and i1 %u, %v
  %x = select i1 %w, float %b6, float %b5
  store volatile float %x, ptr addrspace(1) %p
  %i0 = call i32 @llvm.ctpop.i32(i32 %n)
  %i1 = call i32 @llvm.cttz.i32(i32 %i0, i1 false)
  %i2 = call i32 @llvm.bitreverse.i32(i32 %i1)
  %i3 = call i32 @llvm.bswap.i32(i32 %i2)
  %i4 = call i32 @llvm.fshl.i32(i32 %i3, i32 %n, i32 %t)
  %i5 = call i32 @llvm.abs.i32(i32 %i4, i1 false)
  %i6 = sdiv i32 %i5, %n
  %i7 = srem i32 %i6, 7
  %i8 = udiv i32 %i7, 10
  %i9 = ashr i32 %i8, %t
  store volatile i32 %i9, ptr addrspace(1) %p
  %l0 = call i64 @llvm.ctlz.i64(i64 %m, i1 false)
  %l1 = call i64 @llvm.fshl.i64(i64 %l0, i64 %m, i64 13)
  %l2 = sdiv i64 %l1, %m
  %l3 = mul i64 %l2, %m
  %l4 = zext i32 %n to i64
  %l5 = udiv i64 %l3, 10
  %l6 = add i64 %l5, %l4
  store volatile i64 %l6, ptr addrspace(1) %p
  %c1 = sext i8 %c to i32
  %c2 = add i8 %c, 3
  store volatile i8 %c2, ptr addrspace(1) %p
  %s1 = mul i16 %s, %s
  store volatile i16 %s1, ptr addrspace(1) %p
  %s2 = sitofp i16 %s1 to float
  %s3 = uitofp i64 %m to double
  %s4 = fptoui double %d to i64
  %s5 = fptosi double %d to i8
  store volatile float %s2, ptr addrspace(1) %p
  store volatile double %s3, ptr addrspace(1) %p
  store volatile i64 %s4, ptr addrspace(1) %p
  store volatile i8 %s5, ptr addrspace(1) %p
  %bf = fptrunc float %f to bfloat
  %bg = call bfloat @llvm.fma.bf16(bfloat %bf, bfloat %bf, bfloat 1.0)
  %bh = fadd bfloat %bg, %bf
  %bi = fmul bfloat %bh, 2.0
  store volatile bfloat %bi, ptr addrspace(1) %p
  %h = fptrunc float %f to half
  %h1 = fmul half %h, 2.5
  %h2 = fdiv half %h1, %h
  %h3 = fcmp olt half %h2, %h
  %h4 = select i1 %h3, half %h1, half 0.0
  store volatile half %h4, ptr addrspace(1) %p
  %vb = load <2 x bfloat>, ptr addrspace(1) %q
  %vc = call <2 x bfloat> @llvm.maxnum.v2bf16(<2 x bfloat> %vb, <2 x bfloat> %vb)
  store volatile <2 x bfloat> %vc, ptr addrspace(1) %p
  %v4 = load <4 x half>, ptr addrspace(1) %q
  %v5 = fadd <4 x half> %v4, %v4
  store volatile <4 x half> %v5, ptr addrspace(1) %p
  %v8 = load <8 x i8>, ptr addrspace(1) %q
  %v9 = add <8 x i8> %v8, <i8 1,i8 1,i8 1,i8 1,i8 1,i8 1,i8 1,i8 1>
  store volatile <8 x i8> %v9, ptr addrspace(1) %p
  %vl = load <2 x double>, ptr addrspace(1) %q
  store volatile <2 x double> %vl, ptr addrspace(1) %p
  %fl = zext i1 %flag to i32
  %fs = sext i1 %flag to i32
  %fx = xor i32 %fl, %fs
  store volatile i32 %fx, ptr addrspace(1) %p
  %m1 = zext i32 %n to i64
  %m2 = zext i32 %t to i64
  %m3 = mul i64 %m1, %m2
  %m4 = lshr i64 %m3, 32
  store volatile i64 %m4, ptr addrspace(1) %p
  %hv = fcmp olt <4 x half> %v4, %v5
  %hs = select <4 x i1> %hv, <4 x half> %v4, <4 x half> %v5
  store volatile <4 x half> %hs, ptr addrspace(1) %p
  %at = atomicrmw add ptr addrspace(1) %p, i32 %n seq_cst
  %ac = cmpxchg ptr addrspace(1) %p, i32 %n, i32 %t seq_cst seq_cst
  %am = atomicrmw umax ptr addrspace(1) %p, i64 %m monotonic
  ret void
}
!nvvm.annotations = !{!0}
!0 = !{ptr @wide, !"kernel", i32 1}
