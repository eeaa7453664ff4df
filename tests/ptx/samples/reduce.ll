; One sum a block: shuffles within warps, then shared memory.
target triple = "nvptx64-nvidia-cuda"
@partial = internal addrspace(3) global [32 x float] undef, align 4
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare void @llvm.nvvm.barrier0()
declare float @llvm.nvvm.shfl.sync.down.f32(i32, float, i32, i32)
define ptx_kernel void @reduce(ptr addrspace(1) align 16 %x, ptr addrspace(1) align 16 %y, i32 %n) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %row = mul i32 %b, %n
  br label %loop
loop:
  %i = phi i32 [ %t, %entry ], [ %i1, %body ]
  %s = phi float [ 0.0, %entry ], [ %s1, %body ]
  %in = icmp slt i32 %i, %n
  br i1 %in, label %body, label %done
body:
  %at = add i32 %row, %i
  %p = getelementptr float, ptr addrspace(1) %x, i32 %at
  %v = load float, ptr addrspace(1) %p
  %s1 = fadd float %s, %v
  %i1 = add i32 %i, 128
  br label %loop
done:
  %a16 = call float @llvm.nvvm.shfl.sync.down.f32(i32 -1, float %s, i32 16, i32 31)
  %r16 = fadd float %s, %a16
  %a8 = call float @llvm.nvvm.shfl.sync.down.f32(i32 -1, float %r16, i32 8, i32 31)
  %r8 = fadd float %r16, %a8
  %a4 = call float @llvm.nvvm.shfl.sync.down.f32(i32 -1, float %r8, i32 4, i32 31)
  %r4 = fadd float %r8, %a4
  %a2 = call float @llvm.nvvm.shfl.sync.down.f32(i32 -1, float %r4, i32 2, i32 31)
  %r2 = fadd float %r4, %a2
  %a1 = call float @llvm.nvvm.shfl.sync.down.f32(i32 -1, float %r2, i32 1, i32 31)
  %r1 = fadd float %r2, %a1
  %lane = and i32 %t, 31
  %first = icmp eq i32 %lane, 0
  br i1 %first, label %put, label %wait
put:
  %w = lshr i32 %t, 5
  %q = getelementptr [32 x float], ptr addrspace(3) @partial, i32 0, i32 %w
  store float %r1, ptr addrspace(3) %q
  br label %wait
wait:
  call void @llvm.nvvm.barrier0()
  %zero = icmp eq i32 %t, 0
  br i1 %zero, label %final, label %exit
final:
  %p0 = load float, ptr addrspace(3) @partial
  %g1 = getelementptr [32 x float], ptr addrspace(3) @partial, i32 0, i32 1
  %p1 = load float, ptr addrspace(3) %g1
  %g2 = getelementptr [32 x float], ptr addrspace(3) @partial, i32 0, i32 2
  %p2 = load float, ptr addrspace(3) %g2
  %g3 = getelementptr [32 x float], ptr addrspace(3) @partial, i32 0, i32 3
  %p3 = load float, ptr addrspace(3) %g3
  %t0 = fadd float %p0, %p2
  %t1 = fadd float %p1, %p3
  %all = fadd float %t0, %t1
  %o = getelementptr float, ptr addrspace(1) %y, i32 %b
  store float %all, ptr addrspace(1) %o
  br label %exit
exit:
  ret void
}
