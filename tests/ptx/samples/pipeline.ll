; y = x doubled, by tiles of 64 float4 through shared memory with two stages of cp.async; the
; second kernel waits for one group too few.
target triple = "nvptx64-nvidia-cuda"
@stage = internal addrspace(3) global [2 x [64 x [4 x float]]] undef, align 16
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier0()
declare void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3), ptr addrspace(1))
declare void @llvm.nvvm.cp.async.commit.group()
declare void @llvm.nvvm.cp.async.wait.group(i32)
define ptx_kernel void @pipeline(ptr addrspace(1) align 16 %x, ptr addrspace(1) align 16 %y, i32 %tiles) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %s0 = getelementptr [2 x [64 x [4 x float]]], ptr addrspace(3) @stage, i32 0, i32 0, i32 %t
  %x0 = getelementptr [4 x float], ptr addrspace(1) %x, i32 %t
  call void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3) %s0, ptr addrspace(1) %x0)
  call void @llvm.nvvm.cp.async.commit.group()
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %k1, %next ]
  %k1 = add i32 %k, 1
  %more = icmp slt i32 %k1, %tiles
  br i1 %more, label %issue, label %wait
issue:
  %b1 = and i32 %k1, 1
  %s1 = getelementptr [2 x [64 x [4 x float]]], ptr addrspace(3) @stage, i32 0, i32 %b1, i32 %t
  %o1 = shl i32 %k1, 6
  %i1 = add i32 %o1, %t
  %x1 = getelementptr [4 x float], ptr addrspace(1) %x, i32 %i1
  call void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3) %s1, ptr addrspace(1) %x1)
  br label %wait
wait:
  call void @llvm.nvvm.cp.async.commit.group()
  call void @llvm.nvvm.cp.async.wait.group(i32 1)
  call void @llvm.nvvm.barrier0()
  %b = and i32 %k, 1
  %u = xor i32 %t, 63
  %s = getelementptr [2 x [64 x [4 x float]]], ptr addrspace(3) @stage, i32 0, i32 %b, i32 %u
  %v = load <4 x float>, ptr addrspace(3) %s, align 16
  %w = fadd <4 x float> %v, %v
  %o = shl i32 %k, 6
  %i = add i32 %o, %u
  %q = getelementptr [4 x float], ptr addrspace(1) %y, i32 %i
  store <4 x float> %w, ptr addrspace(1) %q, align 16
  br label %next
next:
  call void @llvm.nvvm.barrier0()
  br i1 %more, label %loop, label %exit
exit:
  ret void
}
