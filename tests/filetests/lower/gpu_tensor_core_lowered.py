# after: lower
# gpu: cuda:sm_80
# A product of float16 on tensor cores: three buffers, one of which is copied to while a warp multiplies another one.
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((40, 160), dtype="float16"), w: R.Tensor((160, 48), dtype="float16")) -> R.Tensor((40, 48), dtype="float16"):
        a: R.Tensor((40, 48), dtype="float16") = R.matmul(x, w)
        return a
# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def mat_mul(t0: T.Buffer((T.int64(40), T.int64(160)), "float16"), t1: T.Buffer((T.int64(160), T.int64(48)), "float16"), t2: T.Buffer((T.int64(40), T.int64(48)), "float16")):
    for by in T.thread_binding(T.int64(2), thread="blockIdx.y"):
        for bx in T.thread_binding(T.int64(2), thread="blockIdx.x"):
            a_tile = T.alloc_shared((T.int64(32), T.int64(40)), "float16")
            b_tile = T.alloc_shared((T.int64(32), T.int64(40)), "float16")
            a_tile_1 = T.alloc_shared((T.int64(32), T.int64(40)), "float16")
            b_tile_1 = T.alloc_shared((T.int64(32), T.int64(40)), "float16")
            a_tile_2 = T.alloc_shared((T.int64(32), T.int64(40)), "float16")
            b_tile_2 = T.alloc_shared((T.int64(32), T.int64(40)), "float16")
            for ty in T.thread_binding(T.int64(2), thread="threadIdx.y"):
                for tx in T.thread_binding(T.int64(32), thread="threadIdx.x"):
                    acc = T.alloc_local((T.int64(1), T.int64(2), T.int64(8)))
                    for j in T.unroll(T.int64(2)):
                        for n in T.unroll(T.int64(8)):
                            acc[T.int64(0), j, n] = T.float32(0.0)
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            a_tile[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = T.if_then_else(by * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4) < T.int64(40), t0[by * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l], T.float16(0.0))
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            b_tile[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = T.if_then_else(bx * T.int64(32) + tx % T.int64(4) * T.int64(8) < T.int64(48), t1[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), bx * T.int64(32) + tx % T.int64(4) * T.int64(8) + l], T.float16(0.0))
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            a_tile_1[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = T.if_then_else(by * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4) < T.int64(40), t0[by * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l + T.int64(32)], T.float16(0.0))
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            b_tile_1[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = T.if_then_else(bx * T.int64(32) + tx % T.int64(4) * T.int64(8) < T.int64(48), t1[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4) + T.int64(32), bx * T.int64(32) + tx % T.int64(4) * T.int64(8) + l], T.float16(0.0))
                    T.tvm_storage_sync("shared")
                    for kk in T.unroll(T.int64(2)):
                        for j in T.unroll(T.int64(2)):
                            T.tile_mma(acc[j * T.int64(8)], a_tile[ty * T.int64(640) + kk * T.int64(16)], T.int64(40), False, b_tile[kk * T.int64(640) + j * T.int64(16)], T.int64(40), True, tx)
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            a_tile_2[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = T.if_then_else(by * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4) < T.int64(40), t0[by * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l + T.int64(64)], T.float16(0.0))
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            b_tile_2[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = T.if_then_else(bx * T.int64(32) + tx % T.int64(4) * T.int64(8) < T.int64(48), t1[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4) + T.int64(64), bx * T.int64(32) + tx % T.int64(4) * T.int64(8) + l], T.float16(0.0))
                    T.tvm_storage_sync("shared")
                    for kk in T.unroll(T.int64(2)):
                        for j in T.unroll(T.int64(2)):
                            T.tile_mma(acc[j * T.int64(8)], a_tile_1[ty * T.int64(640) + kk * T.int64(16)], T.int64(40), False, b_tile_1[kk * T.int64(640) + j * T.int64(16)], T.int64(40), True, tx)
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            a_tile[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = T.if_then_else(by * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4) < T.int64(40), t0[by * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l + T.int64(96)], T.float16(0.0))
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            b_tile[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = T.if_then_else(bx * T.int64(32) + tx % T.int64(4) * T.int64(8) < T.int64(48), t1[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4) + T.int64(96), bx * T.int64(32) + tx % T.int64(4) * T.int64(8) + l], T.float16(0.0))
                    T.tvm_storage_sync("shared")
                    for kk in T.unroll(T.int64(2)):
                        for j in T.unroll(T.int64(2)):
                            T.tile_mma(acc[j * T.int64(8)], a_tile_2[ty * T.int64(640) + kk * T.int64(16)], T.int64(40), False, b_tile_2[kk * T.int64(640) + j * T.int64(16)], T.int64(40), True, tx)
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            a_tile_1[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = T.if_then_else(by * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4) < T.int64(40), t0[by * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l + T.int64(128)], T.float16(0.0))
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            b_tile_1[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = T.if_then_else(bx * T.int64(32) + tx % T.int64(4) * T.int64(8) < T.int64(48), t1[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4) + T.int64(128), bx * T.int64(32) + tx % T.int64(4) * T.int64(8) + l], T.float16(0.0))
                    T.tvm_storage_sync("shared")
                    for kk in T.unroll(T.int64(2)):
                        for j in T.unroll(T.int64(2)):
                            T.tile_mma(acc[j * T.int64(8)], a_tile[ty * T.int64(640) + kk * T.int64(16)], T.int64(40), False, b_tile[kk * T.int64(640) + j * T.int64(16)], T.int64(40), True, tx)
                    T.tvm_storage_sync("shared")
                    for kk in T.unroll(T.int64(2)):
                        for j in T.unroll(T.int64(2)):
                            T.tile_mma(acc[j * T.int64(8)], a_tile_1[ty * T.int64(640) + kk * T.int64(16)], T.int64(40), False, b_tile_1[kk * T.int64(640) + j * T.int64(16)], T.int64(40), True, tx)
                    for j in T.unroll(T.int64(2)):
                        for n in T.unroll(T.int64(4)):
                            if by * T.int64(32) + ty * T.int64(16) + tx // T.int64(4) + n % T.int64(2) * T.int64(8) < T.int64(40) and bx * T.int64(32) + j * T.int64(16) + tx % T.int64(4) * T.int64(2) + n // T.int64(2) * T.int64(8) < T.int64(48):
                                for l in T.vectorized(T.int64(2)):
                                    t2[by * T.int64(32) + ty * T.int64(16) + tx // T.int64(4) + n % T.int64(2) * T.int64(8), bx * T.int64(32) + j * T.int64(16) + tx % T.int64(4) * T.int64(2) + n // T.int64(2) * T.int64(8) + l] = T.Cast("float16", acc[T.int64(0), j, n * T.int64(2) + l])
