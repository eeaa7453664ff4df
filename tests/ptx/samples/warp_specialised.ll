; Written by a script: a warp-specialised GEMM of tiles 128 by 64 by 64 in 4 stages.
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
%tm = type { [128 x i8] }
@dyn = external addrspace(3) global [0 x i8], align 1024
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare void @llvm.nvvm.barrier0()
declare void @llvm.nvvm.setmaxnreg.inc.sync.aligned.u32(i32)
declare void @llvm.nvvm.setmaxnreg.dec.sync.aligned.u32(i32)
define ptx_kernel void @ws(ptr byval(%tm) align 64 %ma, ptr byval(%tm) align 64 %mb, ptr addrspace(1) noalias align 16 %y, i32 %kt, i32 %n) #0 {
entry:
 %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
 %bx = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
 %by = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
 %base = ptrtoint ptr addrspace(3) @dyn to i32
 %full = add i32 %base, 98304
 %empty = add i32 %full, 32
 %wgi = lshr i32 %t, 7
 %is0 = icmp eq i32 %t, 0
 br i1 %is0, label %init, label %join
init:
 %f0 = add i32 %full, 0
 call void asm sideeffect "mbarrier.init.shared::cta.b64 [$0], 1;", "r,~{memory}"(i32 %f0)
 %g0 = add i32 %empty, 0
 call void asm sideeffect "mbarrier.init.shared::cta.b64 [$0], 2;", "r,~{memory}"(i32 %g0)
 %f1 = add i32 %full, 8
 call void asm sideeffect "mbarrier.init.shared::cta.b64 [$0], 1;", "r,~{memory}"(i32 %f1)
 %g1 = add i32 %empty, 8
 call void asm sideeffect "mbarrier.init.shared::cta.b64 [$0], 2;", "r,~{memory}"(i32 %g1)
 %f2 = add i32 %full, 16
 call void asm sideeffect "mbarrier.init.shared::cta.b64 [$0], 1;", "r,~{memory}"(i32 %f2)
 %g2 = add i32 %empty, 16
 call void asm sideeffect "mbarrier.init.shared::cta.b64 [$0], 2;", "r,~{memory}"(i32 %g2)
 %f3 = add i32 %full, 24
 call void asm sideeffect "mbarrier.init.shared::cta.b64 [$0], 1;", "r,~{memory}"(i32 %f3)
 %g3 = add i32 %empty, 24
 call void asm sideeffect "mbarrier.init.shared::cta.b64 [$0], 2;", "r,~{memory}"(i32 %g3)
 call void asm sideeffect "fence.mbarrier_init.release.cluster;", "~{memory}"()
 br label %join
join:
 call void @llvm.nvvm.barrier0()
 %prod = icmp eq i32 %wgi, 0
 br i1 %prod, label %producer, label %consumer
producer:
 call void @llvm.nvvm.setmaxnreg.dec.sync.aligned.u32(i32 40)
 br i1 %is0, label %ploop, label %exit
ploop:
 %pk = phi i32 [0,%producer],[%pk1,%ploop]
 %ps = and i32 %pk, 3
 %pr = lshr i32 %pk, 2
 %pp = and i32 %pr, 1
 %ppx = xor i32 %pp, 1
 %ps8 = shl i32 %ps, 3
 %pf = add i32 %full, %ps8
 %pe = add i32 %empty, %ps8
 call void asm sideeffect "{\0A.reg .pred p;\0AW_${:uid}:\0Ambarrier.try_wait.parity.shared::cta.b64 p, [$0], $1;\0A@p bra D_${:uid};\0Abra W_${:uid};\0AD_${:uid}:\0A}", "r,r,~{memory}"(i32 %pe, i32 %ppx)
 call void asm sideeffect "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}"(i32 %pf, i32 24576)
 %pao = mul i32 %ps, 16384
 %pa = add i32 %base, %pao
 %pbo = mul i32 %ps, 8192
 %pb0 = add i32 %base, 65536
 %pb = add i32 %pb0, %pbo
 %kx = shl i32 %pk, 6
 %ry = shl i32 %by, 7
 %rx = shl i32 %bx, 6
 call void asm sideeffect "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1, {$2, $3}], [$4];", "r,l,r,r,r,~{memory}"(i32 %pa, ptr %ma, i32 %kx, i32 %ry, i32 %pf)
 call void asm sideeffect "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1, {$2, $3}], [$4];", "r,l,r,r,r,~{memory}"(i32 %pb, ptr %mb, i32 %kx, i32 %rx, i32 %pf)
 %pk1 = add i32 %pk, 1
 %pm = icmp slt i32 %pk1, %kt
 br i1 %pm, label %ploop, label %exit
consumer:
 call void @llvm.nvvm.setmaxnreg.inc.sync.aligned.u32(i32 232)
 %cw = add i32 %wgi, -1
 br label %cloop
cloop:
 %k = phi i32 [0,%consumer],[%k1,%next]
 %c0 = phi float [ 0.0, %consumer ], [ %w_0, %next ]
 %c1 = phi float [ 0.0, %consumer ], [ %w_1, %next ]
 %c2 = phi float [ 0.0, %consumer ], [ %w_2, %next ]
 %c3 = phi float [ 0.0, %consumer ], [ %w_3, %next ]
 %c4 = phi float [ 0.0, %consumer ], [ %w_4, %next ]
 %c5 = phi float [ 0.0, %consumer ], [ %w_5, %next ]
 %c6 = phi float [ 0.0, %consumer ], [ %w_6, %next ]
 %c7 = phi float [ 0.0, %consumer ], [ %w_7, %next ]
 %c8 = phi float [ 0.0, %consumer ], [ %w_8, %next ]
 %c9 = phi float [ 0.0, %consumer ], [ %w_9, %next ]
 %c10 = phi float [ 0.0, %consumer ], [ %w_10, %next ]
 %c11 = phi float [ 0.0, %consumer ], [ %w_11, %next ]
 %c12 = phi float [ 0.0, %consumer ], [ %w_12, %next ]
 %c13 = phi float [ 0.0, %consumer ], [ %w_13, %next ]
 %c14 = phi float [ 0.0, %consumer ], [ %w_14, %next ]
 %c15 = phi float [ 0.0, %consumer ], [ %w_15, %next ]
 %c16 = phi float [ 0.0, %consumer ], [ %w_16, %next ]
 %c17 = phi float [ 0.0, %consumer ], [ %w_17, %next ]
 %c18 = phi float [ 0.0, %consumer ], [ %w_18, %next ]
 %c19 = phi float [ 0.0, %consumer ], [ %w_19, %next ]
 %c20 = phi float [ 0.0, %consumer ], [ %w_20, %next ]
 %c21 = phi float [ 0.0, %consumer ], [ %w_21, %next ]
 %c22 = phi float [ 0.0, %consumer ], [ %w_22, %next ]
 %c23 = phi float [ 0.0, %consumer ], [ %w_23, %next ]
 %c24 = phi float [ 0.0, %consumer ], [ %w_24, %next ]
 %c25 = phi float [ 0.0, %consumer ], [ %w_25, %next ]
 %c26 = phi float [ 0.0, %consumer ], [ %w_26, %next ]
 %c27 = phi float [ 0.0, %consumer ], [ %w_27, %next ]
 %c28 = phi float [ 0.0, %consumer ], [ %w_28, %next ]
 %c29 = phi float [ 0.0, %consumer ], [ %w_29, %next ]
 %c30 = phi float [ 0.0, %consumer ], [ %w_30, %next ]
 %c31 = phi float [ 0.0, %consumer ], [ %w_31, %next ]
 %cs = and i32 %k, 3
 %cr = lshr i32 %k, 2
 %cp = and i32 %cr, 1
 %cs8 = shl i32 %cs, 3
 %cf = add i32 %full, %cs8
 call void asm sideeffect "{\0A.reg .pred p;\0AW_${:uid}:\0Ambarrier.try_wait.parity.shared::cta.b64 p, [$0], $1;\0A@p bra D_${:uid};\0Abra W_${:uid};\0AD_${:uid}:\0A}", "r,r,~{memory}"(i32 %cf, i32 %cp)
 %ao = mul i32 %cs, 16384
 %aw = shl i32 %cw, 13
 %a0 = add i32 %base, %ao
 %a1 = add i32 %a0, %aw
 %bo = mul i32 %cs, 8192
 %b00 = add i32 %base, 65536
 %b1 = add i32 %b00, %bo
 %as = lshr i32 %a1, 4
 %bs = lshr i32 %b1, 4
 %ae = zext i32 %as to i64
 %be = zext i32 %bs to i64
 %am = and i64 %ae, 16383
 %bm = and i64 %be, 16383
 %da0 = or i64 %am, 4611686293305360384
 %db0 = or i64 %bm, 4611686293305360384
 call void asm sideeffect "wgmma.fence.sync.aligned;", "~{memory}"()
 %nz = icmp ne i32 %k, 0
 %nzi = zext i1 %nz to i32
 %das0 = add i64 %da0, 0
 %dbs0 = add i64 %db0, 0
 %r0 = call { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } asm sideeffect "{\0A.reg .pred p;\0Asetp.ne.b32 p, $66, 0;\0Awgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {$0,$1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22,$23,$24,$25,$26,$27,$28,$29,$30,$31}, $64, $65, p, 1, 1, 0, 0;\0A}", "=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,l,l,r"(float %c0, float %c1, float %c2, float %c3, float %c4, float %c5, float %c6, float %c7, float %c8, float %c9, float %c10, float %c11, float %c12, float %c13, float %c14, float %c15, float %c16, float %c17, float %c18, float %c19, float %c20, float %c21, float %c22, float %c23, float %c24, float %c25, float %c26, float %c27, float %c28, float %c29, float %c30, float %c31, i64 %das0, i64 %dbs0, i32 %nzi)
 %e0_0 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 0
 %e0_1 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 1
 %e0_2 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 2
 %e0_3 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 3
 %e0_4 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 4
 %e0_5 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 5
 %e0_6 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 6
 %e0_7 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 7
 %e0_8 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 8
 %e0_9 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 9
 %e0_10 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 10
 %e0_11 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 11
 %e0_12 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 12
 %e0_13 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 13
 %e0_14 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 14
 %e0_15 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 15
 %e0_16 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 16
 %e0_17 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 17
 %e0_18 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 18
 %e0_19 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 19
 %e0_20 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 20
 %e0_21 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 21
 %e0_22 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 22
 %e0_23 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 23
 %e0_24 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 24
 %e0_25 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 25
 %e0_26 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 26
 %e0_27 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 27
 %e0_28 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 28
 %e0_29 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 29
 %e0_30 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 30
 %e0_31 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r0, 31
 %das1 = add i64 %da0, 2
 %dbs1 = add i64 %db0, 2
 %r1 = call { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } asm sideeffect "{\0A.reg .pred p;\0Asetp.ne.b32 p, $66, 0;\0Awgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {$0,$1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22,$23,$24,$25,$26,$27,$28,$29,$30,$31}, $64, $65, p, 1, 1, 0, 0;\0A}", "=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,l,l,r"(float %e0_0, float %e0_1, float %e0_2, float %e0_3, float %e0_4, float %e0_5, float %e0_6, float %e0_7, float %e0_8, float %e0_9, float %e0_10, float %e0_11, float %e0_12, float %e0_13, float %e0_14, float %e0_15, float %e0_16, float %e0_17, float %e0_18, float %e0_19, float %e0_20, float %e0_21, float %e0_22, float %e0_23, float %e0_24, float %e0_25, float %e0_26, float %e0_27, float %e0_28, float %e0_29, float %e0_30, float %e0_31, i64 %das1, i64 %dbs1, i32 1)
 %e1_0 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 0
 %e1_1 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 1
 %e1_2 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 2
 %e1_3 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 3
 %e1_4 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 4
 %e1_5 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 5
 %e1_6 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 6
 %e1_7 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 7
 %e1_8 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 8
 %e1_9 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 9
 %e1_10 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 10
 %e1_11 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 11
 %e1_12 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 12
 %e1_13 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 13
 %e1_14 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 14
 %e1_15 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 15
 %e1_16 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 16
 %e1_17 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 17
 %e1_18 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 18
 %e1_19 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 19
 %e1_20 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 20
 %e1_21 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 21
 %e1_22 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 22
 %e1_23 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 23
 %e1_24 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 24
 %e1_25 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 25
 %e1_26 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 26
 %e1_27 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 27
 %e1_28 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 28
 %e1_29 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 29
 %e1_30 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 30
 %e1_31 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r1, 31
 %das2 = add i64 %da0, 4
 %dbs2 = add i64 %db0, 4
 %r2 = call { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } asm sideeffect "{\0A.reg .pred p;\0Asetp.ne.b32 p, $66, 0;\0Awgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {$0,$1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22,$23,$24,$25,$26,$27,$28,$29,$30,$31}, $64, $65, p, 1, 1, 0, 0;\0A}", "=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,l,l,r"(float %e1_0, float %e1_1, float %e1_2, float %e1_3, float %e1_4, float %e1_5, float %e1_6, float %e1_7, float %e1_8, float %e1_9, float %e1_10, float %e1_11, float %e1_12, float %e1_13, float %e1_14, float %e1_15, float %e1_16, float %e1_17, float %e1_18, float %e1_19, float %e1_20, float %e1_21, float %e1_22, float %e1_23, float %e1_24, float %e1_25, float %e1_26, float %e1_27, float %e1_28, float %e1_29, float %e1_30, float %e1_31, i64 %das2, i64 %dbs2, i32 1)
 %e2_0 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 0
 %e2_1 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 1
 %e2_2 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 2
 %e2_3 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 3
 %e2_4 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 4
 %e2_5 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 5
 %e2_6 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 6
 %e2_7 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 7
 %e2_8 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 8
 %e2_9 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 9
 %e2_10 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 10
 %e2_11 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 11
 %e2_12 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 12
 %e2_13 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 13
 %e2_14 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 14
 %e2_15 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 15
 %e2_16 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 16
 %e2_17 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 17
 %e2_18 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 18
 %e2_19 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 19
 %e2_20 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 20
 %e2_21 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 21
 %e2_22 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 22
 %e2_23 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 23
 %e2_24 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 24
 %e2_25 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 25
 %e2_26 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 26
 %e2_27 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 27
 %e2_28 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 28
 %e2_29 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 29
 %e2_30 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 30
 %e2_31 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r2, 31
 %das3 = add i64 %da0, 6
 %dbs3 = add i64 %db0, 6
 %r3 = call { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } asm sideeffect "{\0A.reg .pred p;\0Asetp.ne.b32 p, $66, 0;\0Awgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {$0,$1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22,$23,$24,$25,$26,$27,$28,$29,$30,$31}, $64, $65, p, 1, 1, 0, 0;\0A}", "=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,l,l,r"(float %e2_0, float %e2_1, float %e2_2, float %e2_3, float %e2_4, float %e2_5, float %e2_6, float %e2_7, float %e2_8, float %e2_9, float %e2_10, float %e2_11, float %e2_12, float %e2_13, float %e2_14, float %e2_15, float %e2_16, float %e2_17, float %e2_18, float %e2_19, float %e2_20, float %e2_21, float %e2_22, float %e2_23, float %e2_24, float %e2_25, float %e2_26, float %e2_27, float %e2_28, float %e2_29, float %e2_30, float %e2_31, i64 %das3, i64 %dbs3, i32 1)
 %e3_0 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 0
 %e3_1 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 1
 %e3_2 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 2
 %e3_3 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 3
 %e3_4 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 4
 %e3_5 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 5
 %e3_6 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 6
 %e3_7 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 7
 %e3_8 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 8
 %e3_9 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 9
 %e3_10 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 10
 %e3_11 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 11
 %e3_12 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 12
 %e3_13 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 13
 %e3_14 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 14
 %e3_15 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 15
 %e3_16 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 16
 %e3_17 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 17
 %e3_18 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 18
 %e3_19 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 19
 %e3_20 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 20
 %e3_21 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 21
 %e3_22 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 22
 %e3_23 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 23
 %e3_24 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 24
 %e3_25 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 25
 %e3_26 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 26
 %e3_27 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 27
 %e3_28 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 28
 %e3_29 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 29
 %e3_30 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 30
 %e3_31 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %r3, 31
 call void asm sideeffect "wgmma.commit_group.sync.aligned;", "~{memory}"()
 %w1 = call { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } asm sideeffect "wgmma.wait_group.sync.aligned 1;", "=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,~{memory}"(float %e3_0, float %e3_1, float %e3_2, float %e3_3, float %e3_4, float %e3_5, float %e3_6, float %e3_7, float %e3_8, float %e3_9, float %e3_10, float %e3_11, float %e3_12, float %e3_13, float %e3_14, float %e3_15, float %e3_16, float %e3_17, float %e3_18, float %e3_19, float %e3_20, float %e3_21, float %e3_22, float %e3_23, float %e3_24, float %e3_25, float %e3_26, float %e3_27, float %e3_28, float %e3_29, float %e3_30, float %e3_31)
 %w_0 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 0
 %w_1 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 1
 %w_2 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 2
 %w_3 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 3
 %w_4 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 4
 %w_5 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 5
 %w_6 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 6
 %w_7 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 7
 %w_8 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 8
 %w_9 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 9
 %w_10 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 10
 %w_11 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 11
 %w_12 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 12
 %w_13 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 13
 %w_14 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 14
 %w_15 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 15
 %w_16 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 16
 %w_17 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 17
 %w_18 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 18
 %w_19 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 19
 %w_20 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 20
 %w_21 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 21
 %w_22 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 22
 %w_23 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 23
 %w_24 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 24
 %w_25 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 25
 %w_26 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 26
 %w_27 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 27
 %w_28 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 28
 %w_29 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 29
 %w_30 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 30
 %w_31 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w1, 31
 %t127 = and i32 %t, 127
 %lead = icmp eq i32 %t127, 0
 %rel = and i1 %lead, %nz
 br i1 %rel, label %release, label %next
release:
 %km = add i32 %k, -1
 %kms = and i32 %km, 3
 %km8 = shl i32 %kms, 3
 %ee = add i32 %empty, %km8
 call void asm sideeffect "mbarrier.arrive.shared::cta.b64 _, [$0];", "r,~{memory}"(i32 %ee)
 br label %next
next:
 %k1 = add i32 %k, 1
 %more = icmp slt i32 %k1, %kt
 br i1 %more, label %cloop, label %done
done:
 %w0 = call { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } asm sideeffect "wgmma.wait_group.sync.aligned 0;", "=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,~{memory}"(float %w_0, float %w_1, float %w_2, float %w_3, float %w_4, float %w_5, float %w_6, float %w_7, float %w_8, float %w_9, float %w_10, float %w_11, float %w_12, float %w_13, float %w_14, float %w_15, float %w_16, float %w_17, float %w_18, float %w_19, float %w_20, float %w_21, float %w_22, float %w_23, float %w_24, float %w_25, float %w_26, float %w_27, float %w_28, float %w_29, float %w_30, float %w_31)
 %z_0 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 0
 %z_1 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 1
 %z_2 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 2
 %z_3 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 3
 %z_4 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 4
 %z_5 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 5
 %z_6 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 6
 %z_7 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 7
 %z_8 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 8
 %z_9 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 9
 %z_10 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 10
 %z_11 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 11
 %z_12 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 12
 %z_13 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 13
 %z_14 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 14
 %z_15 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 15
 %z_16 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 16
 %z_17 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 17
 %z_18 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 18
 %z_19 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 19
 %z_20 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 20
 %z_21 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 21
 %z_22 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 22
 %z_23 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 23
 %z_24 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 24
 %z_25 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 25
 %z_26 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 26
 %z_27 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 27
 %z_28 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 28
 %z_29 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 29
 %z_30 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 30
 %z_31 = extractvalue { float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float, float } %w0, 31
 %ln = and i32 %t, 31
 %wp = lshr i32 %t127, 5
 %r4 = lshr i32 %ln, 2
 %w16 = shl i32 %wp, 4
 %cw64 = shl i32 %cw, 6
 %b128 = shl i32 %by, 7
 %rr0 = add i32 %r4, %w16
 %rr1 = add i32 %rr0, %cw64
 %rr = add i32 %rr1, %b128
 %cc0 = and i32 %ln, 3
 %cc1 = shl i32 %cc0, 1
 %bx8 = shl i32 %bx, 6
 %cc = add i32 %cc1, %bx8
 %off = mul i32 %rr, %n
 %off2 = add i32 %off, %cc
 %n8 = shl i32 %n, 3
 %o64 = zext i32 %off2 to i64
 %n864 = zext i32 %n8 to i64
 %y0 = getelementptr bfloat, ptr addrspace(1) %y, i64 %o64
 %y1 = getelementptr bfloat, ptr addrspace(1) %y0, i64 %n864
 %x0_0 = call i32 asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f"(float %z_1, float %z_0)
 %yp0_0 = getelementptr bfloat, ptr addrspace(1) %y0, i64 0
 store i32 %x0_0, ptr addrspace(1) %yp0_0, align 4
 %x0_1 = call i32 asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f"(float %z_3, float %z_2)
 %yp0_1 = getelementptr bfloat, ptr addrspace(1) %y1, i64 0
 store i32 %x0_1, ptr addrspace(1) %yp0_1, align 4
 %x1_0 = call i32 asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f"(float %z_5, float %z_4)
 %yp1_0 = getelementptr bfloat, ptr addrspace(1) %y0, i64 8
 store i32 %x1_0, ptr addrspace(1) %yp1_0, align 4
 %x1_1 = call i32 asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f"(float %z_7, float %z_6)
 %yp1_1 = getelementptr bfloat, ptr addrspace(1) %y1, i64 8
 store i32 %x1_1, ptr addrspace(1) %yp1_1, align 4
 %x2_0 = call i32 asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f"(float %z_9, float %z_8)
 %yp2_0 = getelementptr bfloat, ptr addrspace(1) %y0, i64 16
 store i32 %x2_0, ptr addrspace(1) %yp2_0, align 4
 %x2_1 = call i32 asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f"(float %z_11, float %z_10)
 %yp2_1 = getelementptr bfloat, ptr addrspace(1) %y1, i64 16
 store i32 %x2_1, ptr addrspace(1) %yp2_1, align 4
 %x3_0 = call i32 asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f"(float %z_13, float %z_12)
 %yp3_0 = getelementptr bfloat, ptr addrspace(1) %y0, i64 24
 store i32 %x3_0, ptr addrspace(1) %yp3_0, align 4
 %x3_1 = call i32 asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f"(float %z_15, float %z_14)
 %yp3_1 = getelementptr bfloat, ptr addrspace(1) %y1, i64 24
 store i32 %x3_1, ptr addrspace(1) %yp3_1, align 4
 %x4_0 = call i32 asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f"(float %z_17, float %z_16)
 %yp4_0 = getelementptr bfloat, ptr addrspace(1) %y0, i64 32
 store i32 %x4_0, ptr addrspace(1) %yp4_0, align 4
 %x4_1 = call i32 asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f"(float %z_19, float %z_18)
 %yp4_1 = getelementptr bfloat, ptr addrspace(1) %y1, i64 32
 store i32 %x4_1, ptr addrspace(1) %yp4_1, align 4
 %x5_0 = call i32 asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f"(float %z_21, float %z_20)
 %yp5_0 = getelementptr bfloat, ptr addrspace(1) %y0, i64 40
 store i32 %x5_0, ptr addrspace(1) %yp5_0, align 4
 %x5_1 = call i32 asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f"(float %z_23, float %z_22)
 %yp5_1 = getelementptr bfloat, ptr addrspace(1) %y1, i64 40
 store i32 %x5_1, ptr addrspace(1) %yp5_1, align 4
 %x6_0 = call i32 asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f"(float %z_25, float %z_24)
 %yp6_0 = getelementptr bfloat, ptr addrspace(1) %y0, i64 48
 store i32 %x6_0, ptr addrspace(1) %yp6_0, align 4
 %x6_1 = call i32 asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f"(float %z_27, float %z_26)
 %yp6_1 = getelementptr bfloat, ptr addrspace(1) %y1, i64 48
 store i32 %x6_1, ptr addrspace(1) %yp6_1, align 4
 %x7_0 = call i32 asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f"(float %z_29, float %z_28)
 %yp7_0 = getelementptr bfloat, ptr addrspace(1) %y0, i64 56
 store i32 %x7_0, ptr addrspace(1) %yp7_0, align 4
 %x7_1 = call i32 asm "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f"(float %z_31, float %z_30)
 %yp7_1 = getelementptr bfloat, ptr addrspace(1) %y1, i64 56
 store i32 %x7_1, ptr addrspace(1) %yp7_1, align 4
 br label %exit
exit:
 ret void
}
attributes #0 = { nounwind }
!nvvm.annotations = !{!0,!1,!2}
!0 = !{ptr @ws, !"kernel", i32 1, !"grid_constant", !3}
!3 = !{i32 1, i32 2}
!1 = !{ptr @ws, !"maxntidx", i32 384}
!2 = !{ptr @ws, !"minctasm", i32 1}
