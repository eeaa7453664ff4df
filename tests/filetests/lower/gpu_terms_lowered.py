# after: lower
# gpu: cuda:sm_90a
# precision: f32-fast
# A product of float32 by terms of bfloat16: two buffers of three terms of each operand, of which one is multiplied while threads
# fill the other one, and a sum in float32 where an element is no sum of its terms or a result is not finite.
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((700, 264), dtype="float32"), w: R.Tensor((264, 824), dtype="float32")) -> R.Tensor((700, 824), dtype="float32"):
        a: R.Tensor((700, 824), dtype="float32") = R.matmul(x, w)
        return a
# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def mat_mul(t0: T.Buffer((T.int64(700), T.int64(264)), "float32"), t1: T.Buffer((T.int64(264), T.int64(824)), "float32"), t2: T.Buffer((T.int64(700), T.int64(824)), "float32")):
    T.func_attr({"reflex.split_bf16_products": 6})
    for by in T.thread_binding(T.int64(6), thread="blockIdx.y"):
        for bx in T.thread_binding(T.int64(13), thread="blockIdx.x"):
            a0 = T.alloc_shared((T.int64(128), T.int64(64)), "bfloat16")
            a1 = T.alloc_shared((T.int64(128), T.int64(64)), "bfloat16")
            a2 = T.alloc_shared((T.int64(128), T.int64(64)), "bfloat16")
            b0 = T.alloc_shared((T.int64(64), T.int64(64)), "bfloat16")
            b1 = T.alloc_shared((T.int64(64), T.int64(64)), "bfloat16")
            b2 = T.alloc_shared((T.int64(64), T.int64(64)), "bfloat16")
            a0_1 = T.alloc_shared((T.int64(128), T.int64(64)), "bfloat16")
            a1_1 = T.alloc_shared((T.int64(128), T.int64(64)), "bfloat16")
            a2_1 = T.alloc_shared((T.int64(128), T.int64(64)), "bfloat16")
            b0_1 = T.alloc_shared((T.int64(64), T.int64(64)), "bfloat16")
            b1_1 = T.alloc_shared((T.int64(64), T.int64(64)), "bfloat16")
            b2_1 = T.alloc_shared((T.int64(64), T.int64(64)), "bfloat16")
            flags = T.alloc_shared((T.int64(256),), "int32")
            for ty in T.thread_binding(T.int64(2), thread="threadIdx.y"):
                for tx in T.thread_binding(T.int64(128), thread="threadIdx.x"):
                    any = T.alloc_local((T.int64(4),), "int32")
                    most = T.alloc_local((), "uint32")
                    least = T.alloc_local((), "uint32")
                    rest = T.alloc_local((T.int64(8),))
                    part = T.alloc_local((T.int64(1), T.int64(1), T.int64(32)))
                    acc = T.alloc_local((T.int64(1), T.int64(1), T.int64(32)))
                    for n in T.unroll(T.int64(32)):
                        acc[T.int64(0), T.int64(0), n] = T.float32(0.0)
                        part[T.int64(0), T.int64(0), n] = T.float32(0.0)
                    least[()] = T.uint32(4294967295)
                    for e in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(8)):
                            rest[l] = T.if_then_else(by * T.int64(128) + e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8) < T.int64(700), t0[by * T.int64(128) + e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), tx % T.int64(8) * T.int64(8) + l], T.float32(0.0))
                        for l in T.unroll(T.int64(8)):
                            least[()] = T.min(least[()], (T.reinterpret("uint32", rest[l]) & T.uint32(2147483647)) - T.uint32(1))
                        for l in T.vectorized(T.int64(8)):
                            a0[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                            rest[l] = rest[l] - T.Cast("float32", T.Cast("bfloat16", rest[l]))
                        for l in T.vectorized(T.int64(8)):
                            a1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                            rest[l] = rest[l] - T.Cast("float32", T.Cast("bfloat16", rest[l]))
                        for l in T.vectorized(T.int64(8)):
                            a2[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8)):
                            rest[l] = T.if_then_else(bx * T.int64(64) + tx % T.int64(8) * T.int64(8) < T.int64(824), t1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), bx * T.int64(64) + tx % T.int64(8) * T.int64(8) + l], T.float32(0.0))
                        for l in T.unroll(T.int64(8)):
                            least[()] = T.min(least[()], (T.reinterpret("uint32", rest[l]) & T.uint32(2147483647)) - T.uint32(1))
                        for l in T.vectorized(T.int64(8)):
                            b0[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                            rest[l] = rest[l] - T.Cast("float32", T.Cast("bfloat16", rest[l]))
                        for l in T.vectorized(T.int64(8)):
                            b1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                            rest[l] = rest[l] - T.Cast("float32", T.Cast("bfloat16", rest[l]))
                        for l in T.vectorized(T.int64(8)):
                            b2[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                    T.tvm_storage_sync("shared")
                    for n in T.unroll(T.int64(32)):
                        acc[T.int64(0), T.int64(0), n] = acc[T.int64(0), T.int64(0), n] + part[T.int64(0), T.int64(0), n]
                        part[T.int64(0), T.int64(0), n] = T.float32(0.0)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a1[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b1[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a2[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b0[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a0[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b2[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a1[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b0[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a0[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b1[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a0[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b0[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for e in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(8)):
                            rest[l] = T.if_then_else(by * T.int64(128) + e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8) < T.int64(700), t0[by * T.int64(128) + e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), tx % T.int64(8) * T.int64(8) + l + T.int64(64)], T.float32(0.0))
                        for l in T.unroll(T.int64(8)):
                            least[()] = T.min(least[()], (T.reinterpret("uint32", rest[l]) & T.uint32(2147483647)) - T.uint32(1))
                        for l in T.vectorized(T.int64(8)):
                            a0_1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                            rest[l] = rest[l] - T.Cast("float32", T.Cast("bfloat16", rest[l]))
                        for l in T.vectorized(T.int64(8)):
                            a1_1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                            rest[l] = rest[l] - T.Cast("float32", T.Cast("bfloat16", rest[l]))
                        for l in T.vectorized(T.int64(8)):
                            a2_1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8)):
                            rest[l] = T.if_then_else(bx * T.int64(64) + tx % T.int64(8) * T.int64(8) < T.int64(824), t1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8) + T.int64(64), bx * T.int64(64) + tx % T.int64(8) * T.int64(8) + l], T.float32(0.0))
                        for l in T.unroll(T.int64(8)):
                            least[()] = T.min(least[()], (T.reinterpret("uint32", rest[l]) & T.uint32(2147483647)) - T.uint32(1))
                        for l in T.vectorized(T.int64(8)):
                            b0_1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                            rest[l] = rest[l] - T.Cast("float32", T.Cast("bfloat16", rest[l]))
                        for l in T.vectorized(T.int64(8)):
                            b1_1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                            rest[l] = rest[l] - T.Cast("float32", T.Cast("bfloat16", rest[l]))
                        for l in T.vectorized(T.int64(8)):
                            b2_1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                    T.tvm_storage_sync("shared")
                    for n in T.unroll(T.int64(32)):
                        acc[T.int64(0), T.int64(0), n] = acc[T.int64(0), T.int64(0), n] + part[T.int64(0), T.int64(0), n]
                        part[T.int64(0), T.int64(0), n] = T.float32(0.0)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a1_1[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b1_1[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a2_1[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b0_1[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a0_1[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b2_1[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a1_1[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b0_1[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a0_1[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b1_1[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a0_1[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b0_1[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for e in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(8)):
                            rest[l] = T.if_then_else(by * T.int64(128) + e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8) < T.int64(700), t0[by * T.int64(128) + e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), tx % T.int64(8) * T.int64(8) + l + T.int64(128)], T.float32(0.0))
                        for l in T.unroll(T.int64(8)):
                            least[()] = T.min(least[()], (T.reinterpret("uint32", rest[l]) & T.uint32(2147483647)) - T.uint32(1))
                        for l in T.vectorized(T.int64(8)):
                            a0[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                            rest[l] = rest[l] - T.Cast("float32", T.Cast("bfloat16", rest[l]))
                        for l in T.vectorized(T.int64(8)):
                            a1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                            rest[l] = rest[l] - T.Cast("float32", T.Cast("bfloat16", rest[l]))
                        for l in T.vectorized(T.int64(8)):
                            a2[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8)):
                            rest[l] = T.if_then_else(bx * T.int64(64) + tx % T.int64(8) * T.int64(8) < T.int64(824), t1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8) + T.int64(128), bx * T.int64(64) + tx % T.int64(8) * T.int64(8) + l], T.float32(0.0))
                        for l in T.unroll(T.int64(8)):
                            least[()] = T.min(least[()], (T.reinterpret("uint32", rest[l]) & T.uint32(2147483647)) - T.uint32(1))
                        for l in T.vectorized(T.int64(8)):
                            b0[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                            rest[l] = rest[l] - T.Cast("float32", T.Cast("bfloat16", rest[l]))
                        for l in T.vectorized(T.int64(8)):
                            b1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                            rest[l] = rest[l] - T.Cast("float32", T.Cast("bfloat16", rest[l]))
                        for l in T.vectorized(T.int64(8)):
                            b2[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                    T.tvm_storage_sync("shared")
                    for n in T.unroll(T.int64(32)):
                        acc[T.int64(0), T.int64(0), n] = acc[T.int64(0), T.int64(0), n] + part[T.int64(0), T.int64(0), n]
                        part[T.int64(0), T.int64(0), n] = T.float32(0.0)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a1[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b1[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a2[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b0[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a0[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b2[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a1[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b0[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a0[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b1[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a0[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b0[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for e in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(8)):
                            rest[l] = T.if_then_else(by * T.int64(128) + e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8) < T.int64(700), t0[by * T.int64(128) + e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), tx % T.int64(8) * T.int64(8) + l + T.int64(192)], T.float32(0.0))
                        for l in T.unroll(T.int64(8)):
                            least[()] = T.min(least[()], (T.reinterpret("uint32", rest[l]) & T.uint32(2147483647)) - T.uint32(1))
                        for l in T.vectorized(T.int64(8)):
                            a0_1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                            rest[l] = rest[l] - T.Cast("float32", T.Cast("bfloat16", rest[l]))
                        for l in T.vectorized(T.int64(8)):
                            a1_1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                            rest[l] = rest[l] - T.Cast("float32", T.Cast("bfloat16", rest[l]))
                        for l in T.vectorized(T.int64(8)):
                            a2_1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8)):
                            rest[l] = T.if_then_else(bx * T.int64(64) + tx % T.int64(8) * T.int64(8) < T.int64(824), t1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8) + T.int64(192), bx * T.int64(64) + tx % T.int64(8) * T.int64(8) + l], T.float32(0.0))
                        for l in T.unroll(T.int64(8)):
                            least[()] = T.min(least[()], (T.reinterpret("uint32", rest[l]) & T.uint32(2147483647)) - T.uint32(1))
                        for l in T.vectorized(T.int64(8)):
                            b0_1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                            rest[l] = rest[l] - T.Cast("float32", T.Cast("bfloat16", rest[l]))
                        for l in T.vectorized(T.int64(8)):
                            b1_1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                            rest[l] = rest[l] - T.Cast("float32", T.Cast("bfloat16", rest[l]))
                        for l in T.vectorized(T.int64(8)):
                            b2_1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                    T.tvm_storage_sync("shared")
                    for n in T.unroll(T.int64(32)):
                        acc[T.int64(0), T.int64(0), n] = acc[T.int64(0), T.int64(0), n] + part[T.int64(0), T.int64(0), n]
                        part[T.int64(0), T.int64(0), n] = T.float32(0.0)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a1_1[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b1_1[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a2_1[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b0_1[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a0_1[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b2_1[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a1_1[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b0_1[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a0_1[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b1_1[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a0_1[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b0_1[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for e in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(8)):
                            rest[l] = T.if_then_else(by * T.int64(128) + e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8) < T.int64(700) and tx % T.int64(8) * T.int64(8) + T.int64(256) < T.int64(264), t0[by * T.int64(128) + e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), tx % T.int64(8) * T.int64(8) + l + T.int64(256)], T.float32(0.0))
                        for l in T.unroll(T.int64(8)):
                            least[()] = T.min(least[()], (T.reinterpret("uint32", rest[l]) & T.uint32(2147483647)) - T.uint32(1))
                        for l in T.vectorized(T.int64(8)):
                            a0[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                            rest[l] = rest[l] - T.Cast("float32", T.Cast("bfloat16", rest[l]))
                        for l in T.vectorized(T.int64(8)):
                            a1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                            rest[l] = rest[l] - T.Cast("float32", T.Cast("bfloat16", rest[l]))
                        for l in T.vectorized(T.int64(8)):
                            a2[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8)):
                            rest[l] = T.if_then_else(bx * T.int64(64) + tx % T.int64(8) * T.int64(8) < T.int64(824) and e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8) + T.int64(256) < T.int64(264), t1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8) + T.int64(256), bx * T.int64(64) + tx % T.int64(8) * T.int64(8) + l], T.float32(0.0))
                        for l in T.unroll(T.int64(8)):
                            least[()] = T.min(least[()], (T.reinterpret("uint32", rest[l]) & T.uint32(2147483647)) - T.uint32(1))
                        for l in T.vectorized(T.int64(8)):
                            b0[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                            rest[l] = rest[l] - T.Cast("float32", T.Cast("bfloat16", rest[l]))
                        for l in T.vectorized(T.int64(8)):
                            b1[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                            rest[l] = rest[l] - T.Cast("float32", T.Cast("bfloat16", rest[l]))
                        for l in T.vectorized(T.int64(8)):
                            b2[e * T.int64(32) + ty * T.int64(16) + tx // T.int64(8), (tx % T.int64(8) ^ tx // T.int64(8) % T.int64(8)) * T.int64(8) + l] = T.Cast("bfloat16", rest[l])
                    T.tvm_storage_sync("shared")
                    for n in T.unroll(T.int64(32)):
                        acc[T.int64(0), T.int64(0), n] = acc[T.int64(0), T.int64(0), n] + part[T.int64(0), T.int64(0), n]
                        part[T.int64(0), T.int64(0), n] = T.float32(0.0)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a1[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b1[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a2[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b0[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a0[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b2[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a1[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b0[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a0[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b1[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(64, part[T.int64(0)], a0[ty * T.int64(4096) + kk * T.int64(16)], T.int64(0), False, b0[kk * T.int64(1024)], T.int64(4096), True, tx)
                    for n in T.unroll(T.int64(32)):
                        acc[T.int64(0), T.int64(0), n] = acc[T.int64(0), T.int64(0), n] + part[T.int64(0), T.int64(0), n]
                        part[T.int64(0), T.int64(0), n] = T.float32(0.0)
                    most[()] = T.uint32(0)
                    for n in T.unroll(T.int64(32)):
                        most[()] = T.max(most[()], T.reinterpret("uint32", acc[T.int64(0), T.int64(0), n]) & T.uint32(2147483647))
                    flags[ty * T.int64(128) + tx] = T.Cast("int32", most[()] >= T.uint32(2139095040) or least[()] < T.uint32(142606335))
                    for l in T.vectorized(T.int64(4)):
                        any[l] = 0
                    T.tvm_storage_sync("shared")
                    for f in range(T.int64(64)):
                        for l in T.vectorized(T.int64(4)):
                            any[l] = any[l] | flags[f * T.int64(4) + l]
                    if any[T.int64(0)] | any[T.int64(1)] | any[T.int64(2)] | any[T.int64(3)] > 0:
                        for g in range(T.min(T.min(T.int64(8), T.int64(103) - bx * T.int64(8)), T.int64(103) - bx * T.int64(8))):
                            sums = T.alloc_local((T.int64(4),))
                            for n in T.unroll(T.int64(4)):
                                sums[n] = T.float32(0.0)
                            for k in range(T.int64(264)):
                                for n in T.unroll(T.int64(4)):
                                    sums[n] = T.fma(T.if_then_else(by * T.int64(128) + ty * T.int64(64) + tx // T.int64(32) * T.int64(16) + tx // T.int64(4) % T.int64(8) + n // T.int64(2) * T.int64(8) < T.int64(700), t0[by * T.int64(128) + ty * T.int64(64) + tx // T.int64(32) * T.int64(16) + tx // T.int64(4) % T.int64(8) + n // T.int64(2) * T.int64(8), k], T.float32(0.0)), t1[k, bx * T.int64(64) + tx % T.int64(4) * T.int64(2) + g * T.int64(8) + n % T.int64(2)], sums[n])
                            for n in T.unroll(T.int64(4)):
                                if by * T.int64(128) + ty * T.int64(64) + tx // T.int64(32) * T.int64(16) + tx // T.int64(4) % T.int64(8) + n // T.int64(2) * T.int64(8) < T.int64(700):
                                    t2[by * T.int64(128) + ty * T.int64(64) + tx // T.int64(32) * T.int64(16) + tx // T.int64(4) % T.int64(8) + n // T.int64(2) * T.int64(8), bx * T.int64(64) + tx % T.int64(4) * T.int64(2) + g * T.int64(8) + n % T.int64(2)] = sums[n]
                        for g in range(T.min(T.min(T.int64(8), T.int64(103) - bx * T.int64(8)), T.int64(103) - bx * T.int64(8)), T.int64(8)):
                            sums = T.alloc_local((T.int64(4),))
                            for n in T.unroll(T.int64(4)):
                                sums[n] = T.float32(0.0)
                            for k in range(T.int64(264)):
                                for n in T.unroll(T.int64(4)):
                                    sums[n] = T.fma(T.if_then_else(by * T.int64(128) + ty * T.int64(64) + tx // T.int64(32) * T.int64(16) + tx // T.int64(4) % T.int64(8) + n // T.int64(2) * T.int64(8) < T.int64(700), t0[by * T.int64(128) + ty * T.int64(64) + tx // T.int64(32) * T.int64(16) + tx // T.int64(4) % T.int64(8) + n // T.int64(2) * T.int64(8), k], T.float32(0.0)), T.if_then_else(bx * T.int64(64) + tx % T.int64(4) * T.int64(2) + g * T.int64(8) + n % T.int64(2) < T.int64(824), t1[k, bx * T.int64(64) + tx % T.int64(4) * T.int64(2) + g * T.int64(8) + n % T.int64(2)], T.float32(0.0)), sums[n])
                            for n in T.unroll(T.int64(4)):
                                if by * T.int64(128) + ty * T.int64(64) + tx // T.int64(32) * T.int64(16) + tx // T.int64(4) % T.int64(8) + n // T.int64(2) * T.int64(8) < T.int64(700) and bx * T.int64(64) + tx % T.int64(4) * T.int64(2) + g * T.int64(8) + n % T.int64(2) < T.int64(824):
                                    t2[by * T.int64(128) + ty * T.int64(64) + tx // T.int64(32) * T.int64(16) + tx // T.int64(4) % T.int64(8) + n // T.int64(2) * T.int64(8), bx * T.int64(64) + tx % T.int64(4) * T.int64(2) + g * T.int64(8) + n % T.int64(2)] = sums[n]
                    else:
                        for n in T.unroll(T.int64(16)):
                            if by * T.int64(128) + ty * T.int64(64) + tx // T.int64(32) * T.int64(16) + tx // T.int64(4) % T.int64(8) + n % T.int64(2) * T.int64(8) < T.int64(700) and bx * T.int64(64) + tx % T.int64(4) * T.int64(2) + n // T.int64(2) * T.int64(8) < T.int64(824):
                                for l in T.vectorized(T.int64(2)):
                                    t2[by * T.int64(128) + ty * T.int64(64) + tx // T.int64(32) * T.int64(16) + tx // T.int64(4) % T.int64(8) + n % T.int64(2) * T.int64(8), bx * T.int64(64) + tx % T.int64(4) * T.int64(2) + n // T.int64(2) * T.int64(8) + l] = acc[T.int64(0), T.int64(0), n * T.int64(2) + l]
