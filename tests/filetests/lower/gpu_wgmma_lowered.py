# after: lower
# gpu: cuda:sm_90a
# A product of bfloat16 by warpgroups: four buffers of swizzled panels, one of which is copied to while another one is multiplied.
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((700, 1032), dtype="bfloat16"), w: R.Tensor((1032, 824), dtype="bfloat16")) -> R.Tensor((700, 824), dtype="bfloat16"):
        a: R.Tensor((700, 824), dtype="bfloat16") = R.matmul(x, w)
        return a
# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def mat_mul(t0: T.Buffer((T.int64(700), T.int64(1032)), "bfloat16"), t1: T.Buffer((T.int64(1032), T.int64(824)), "bfloat16"), t2: T.Buffer((T.int64(700), T.int64(824)), "bfloat16")):
    for by in T.thread_binding(T.int64(11), thread="blockIdx.y"):
        for bx in T.thread_binding(T.int64(13), thread="blockIdx.x"):
            a_tile = T.alloc_shared((T.int64(64), T.int64(64)), "bfloat16")
            b_tile = T.alloc_shared((T.int64(64), T.int64(64)), "bfloat16")
            a_tile_1 = T.alloc_shared((T.int64(64), T.int64(64)), "bfloat16")
            b_tile_1 = T.alloc_shared((T.int64(64), T.int64(64)), "bfloat16")
            a_tile_2 = T.alloc_shared((T.int64(64), T.int64(64)), "bfloat16")
            b_tile_2 = T.alloc_shared((T.int64(64), T.int64(64)), "bfloat16")
            a_tile_3 = T.alloc_shared((T.int64(64), T.int64(64)), "bfloat16")
            b_tile_3 = T.alloc_shared((T.int64(64), T.int64(64)), "bfloat16")
            for ty in T.thread_binding(T.int64(1), thread="threadIdx.y"):
                for tx in T.thread_binding(T.int64(128), thread="threadIdx.x"):
                    acc = T.alloc_local((T.int64(1), T.int64(1), T.int64(32)))
                    for n in T.unroll(T.int64(32)):
                        acc[T.int64(0), T.int64(0), n] = T.float32(0.0)
                    for e in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            a_tile[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.if_then_else(by * T.int64(64) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8) < T.int64(700), t0[by * T.int64(64) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), tx % T.int64(8) * T.int64(8) + l], T.bfloat16(0.0))
                    for e in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            b_tile[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.if_then_else(bx * T.int64(64) + tx % T.int64(8) * T.int64(8) < T.int64(824), t1[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), bx * T.int64(64) + tx % T.int64(8) * T.int64(8) + l], T.bfloat16(0.0))
                    for e in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            a_tile_1[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.if_then_else(by * T.int64(64) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8) < T.int64(700), t0[by * T.int64(64) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), tx % T.int64(8) * T.int64(8) + l + T.int64(64)], T.bfloat16(0.0))
                    for e in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            b_tile_1[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.if_then_else(bx * T.int64(64) + tx % T.int64(8) * T.int64(8) < T.int64(824), t1[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8) + T.int64(64), bx * T.int64(64) + tx % T.int64(8) * T.int64(8) + l], T.bfloat16(0.0))
                    for e in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            a_tile_2[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.if_then_else(by * T.int64(64) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8) < T.int64(700), t0[by * T.int64(64) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), tx % T.int64(8) * T.int64(8) + l + T.int64(128)], T.bfloat16(0.0))
                    for e in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            b_tile_2[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.if_then_else(bx * T.int64(64) + tx % T.int64(8) * T.int64(8) < T.int64(824), t1[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8) + T.int64(128), bx * T.int64(64) + tx % T.int64(8) * T.int64(8) + l], T.bfloat16(0.0))
                    T.tvm_storage_sync("shared")
                    for k0 in range(T.int64(3)):
                        T.tvm_storage_sync("shared")
                        for kk in T.unroll(T.int64(4)):
                            T.tile_wgmma(64, acc[T.int64(0)], a_tile[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b_tile[kk * T.int64(1024)], T.int64(4096), True, tx)
                        for e in T.unroll(T.int64(4)):
                            for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                                a_tile_3[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.if_then_else(by * T.int64(64) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8) < T.int64(700), t0[by * T.int64(64) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), k0 * T.int64(256) + tx % T.int64(8) * T.int64(8) + l + T.int64(192)], T.bfloat16(0.0))
                        for e in T.unroll(T.int64(4)):
                            for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                                b_tile_3[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.if_then_else(bx * T.int64(64) + tx % T.int64(8) * T.int64(8) < T.int64(824), t1[k0 * T.int64(256) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8) + T.int64(192), bx * T.int64(64) + tx % T.int64(8) * T.int64(8) + l], T.bfloat16(0.0))
                        T.tvm_storage_sync("shared")
                        for kk in T.unroll(T.int64(4)):
                            T.tile_wgmma(64, acc[T.int64(0)], a_tile_1[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b_tile_1[kk * T.int64(1024)], T.int64(4096), True, tx)
                        for e in T.unroll(T.int64(4)):
                            for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                                a_tile[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.if_then_else(by * T.int64(64) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8) < T.int64(700), t0[by * T.int64(64) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), k0 * T.int64(256) + tx % T.int64(8) * T.int64(8) + l + T.int64(256)], T.bfloat16(0.0))
                        for e in T.unroll(T.int64(4)):
                            for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                                b_tile[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.if_then_else(bx * T.int64(64) + tx % T.int64(8) * T.int64(8) < T.int64(824), t1[k0 * T.int64(256) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8) + T.int64(256), bx * T.int64(64) + tx % T.int64(8) * T.int64(8) + l], T.bfloat16(0.0))
                        T.tvm_storage_sync("shared")
                        for kk in T.unroll(T.int64(4)):
                            T.tile_wgmma(64, acc[T.int64(0)], a_tile_2[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b_tile_2[kk * T.int64(1024)], T.int64(4096), True, tx)
                        for e in T.unroll(T.int64(4)):
                            for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                                a_tile_1[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.if_then_else(by * T.int64(64) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8) < T.int64(700), t0[by * T.int64(64) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), k0 * T.int64(256) + tx % T.int64(8) * T.int64(8) + l + T.int64(320)], T.bfloat16(0.0))
                        for e in T.unroll(T.int64(4)):
                            for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                                b_tile_1[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.if_then_else(bx * T.int64(64) + tx % T.int64(8) * T.int64(8) < T.int64(824), t1[k0 * T.int64(256) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8) + T.int64(320), bx * T.int64(64) + tx % T.int64(8) * T.int64(8) + l], T.bfloat16(0.0))
                        T.tvm_storage_sync("shared")
                        for kk in T.unroll(T.int64(4)):
                            T.tile_wgmma(64, acc[T.int64(0)], a_tile_3[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b_tile_3[kk * T.int64(1024)], T.int64(4096), True, tx)
                        for e in T.unroll(T.int64(4)):
                            for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                                a_tile_2[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.if_then_else(by * T.int64(64) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8) < T.int64(700), t0[by * T.int64(64) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), k0 * T.int64(256) + tx % T.int64(8) * T.int64(8) + l + T.int64(384)], T.bfloat16(0.0))
                        for e in T.unroll(T.int64(4)):
                            for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                                b_tile_2[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.if_then_else(bx * T.int64(64) + tx % T.int64(8) * T.int64(8) < T.int64(824), t1[k0 * T.int64(256) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8) + T.int64(384), bx * T.int64(64) + tx % T.int64(8) * T.int64(8) + l], T.bfloat16(0.0))
                    T.tvm_storage_sync("shared")
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, acc[T.int64(0)], a_tile[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b_tile[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for e in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            a_tile_3[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.if_then_else(by * T.int64(64) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8) < T.int64(700), t0[by * T.int64(64) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), tx % T.int64(8) * T.int64(8) + l + T.int64(960)], T.bfloat16(0.0))
                    for e in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            b_tile_3[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.if_then_else(bx * T.int64(64) + tx % T.int64(8) * T.int64(8) < T.int64(824), t1[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8) + T.int64(960), bx * T.int64(64) + tx % T.int64(8) * T.int64(8) + l], T.bfloat16(0.0))
                    T.tvm_storage_sync("shared")
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, acc[T.int64(0)], a_tile_1[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b_tile_1[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for e in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            a_tile[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.if_then_else(by * T.int64(64) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8) < T.int64(700) and tx % T.int64(8) * T.int64(8) + T.int64(1024) < T.int64(1032), t0[by * T.int64(64) + e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), tx % T.int64(8) * T.int64(8) + l + T.int64(1024)], T.bfloat16(0.0))
                    for e in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            b_tile[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.if_then_else(bx * T.int64(64) + tx % T.int64(8) * T.int64(8) < T.int64(824) and e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8) + T.int64(1024) < T.int64(1032), t1[e * T.int64(16) + ty * T.int64(16) + tx // T.int64(8) + T.int64(1024), bx * T.int64(64) + tx % T.int64(8) * T.int64(8) + l], T.bfloat16(0.0))
                    T.tvm_storage_sync("shared")
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, acc[T.int64(0)], a_tile_2[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b_tile_2[kk * T.int64(1024)], T.int64(4096), True, tx)
                    T.tvm_storage_sync("shared")
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, acc[T.int64(0)], a_tile_3[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b_tile_3[kk * T.int64(1024)], T.int64(4096), True, tx)
                    T.tvm_storage_sync("shared")
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, acc[T.int64(0)], a_tile[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b_tile[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for n in T.unroll(T.int64(16)):
                        if by * T.int64(64) + ty * T.int64(64) + tx // T.int64(32) * T.int64(16) + tx // T.int64(4) % T.int64(8) + n % T.int64(2) * T.int64(8) < T.int64(700) and bx * T.int64(64) + tx % T.int64(4) * T.int64(2) + n // T.int64(2) * T.int64(8) < T.int64(824):
                            for l in T.vectorized(T.int64(2)):
                                t2[by * T.int64(64) + ty * T.int64(64) + tx // T.int64(32) * T.int64(16) + tx // T.int64(4) % T.int64(8) + n % T.int64(2) * T.int64(8), bx * T.int64(64) + tx % T.int64(4) * T.int64(2) + n // T.int64(2) * T.int64(8) + l] = T.Cast("bfloat16", acc[T.int64(0), T.int64(0), n * T.int64(2) + l])
