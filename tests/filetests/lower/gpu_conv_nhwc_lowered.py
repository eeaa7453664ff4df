# after: lower
# gpu: cuda:sm_80
# Convolutions of float16: the feature map between them is NHWC and weights have results next to each other, so tiles are filled by
# copies of 16 bytes, of zeros where the window is padding.
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 3, 28, 28), dtype="float16")) -> R.Tensor((1, 32, 14, 14), dtype="float16"):
        u: R.Tensor((40, 3, 3, 3), dtype="float16") = R.zeros(R.shape([40, 3, 3, 3]), dtype="float16")
        v: R.Tensor((32, 40, 3, 3), dtype="float16") = R.zeros(R.shape([32, 40, 3, 3]), dtype="float16")
        a: R.Tensor((1, 40, 28, 28), dtype="float16") = R.nn.conv2d(x, u, padding=[1, 1, 1, 1])
        b: R.Tensor((1, 40, 28, 28), dtype="float16") = R.nn.relu(a)
        c: R.Tensor((1, 32, 14, 14), dtype="float16") = R.nn.conv2d(b, v, strides=[2, 2], padding=[1, 1, 1, 1])
        return c
# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def conv(t0: T.Buffer((T.int64(1), T.int64(1), T.int64(28), T.int64(28), T.int64(40)), "float16"), t1: T.Buffer((T.int64(1), T.int64(360), T.int64(32)), "float16"), t2: T.Buffer((T.int64(1), T.int64(32), T.int64(14), T.int64(14)), "float16")):
    for by in T.thread_binding(T.int64(1), thread="blockIdx.y"):
        for bx in T.thread_binding(T.int64(7), thread="blockIdx.x"):
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
                            a_tile[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = t1[T.int64(0), e * T.int64(144) + ty * T.int64(72) + tx // T.int64(4) * T.int64(9), by * T.int64(32) + tx % T.int64(4) * T.int64(8) + l]
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            b_tile[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = T.if_then_else(bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4) < T.int64(196) and ((bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) // T.int64(14) * T.int64(2) - T.int64(1) >= T.int64(0) and (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) // T.int64(14) * T.int64(2) - T.int64(1) < T.int64(28) and (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) % T.int64(14) * T.int64(2) - T.int64(1) >= T.int64(0)), t0[T.int64(0), T.int64(0), (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) // T.int64(14) * T.int64(2) - T.int64(1), (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) % T.int64(14) * T.int64(2) - T.int64(1), tx % T.int64(4) * T.int64(8) + l], T.float16(0.0))
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            a_tile_1[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = t1[T.int64(0), tx // T.int64(4) * T.int64(9) + (e * T.int64(2) + ty + T.int64(4)) % T.int64(5) * T.int64(72) + (e * T.int64(2) + ty + T.int64(4)) // T.int64(5), by * T.int64(32) + tx % T.int64(4) * T.int64(8) + l]
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            b_tile_1[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = T.if_then_else(bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4) < T.int64(196) and ((bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) // T.int64(14) * T.int64(2) - T.int64(1) >= T.int64(0) and (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) // T.int64(14) * T.int64(2) - T.int64(1) < T.int64(28) and (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) % T.int64(14) * T.int64(2) + (tx % T.int64(4) + T.int64(4)) // T.int64(5) - T.int64(1) >= T.int64(0)), t0[T.int64(0), T.int64(0), (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) // T.int64(14) * T.int64(2) - T.int64(1), (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) % T.int64(14) * T.int64(2) + (tx % T.int64(4) + T.int64(4)) // T.int64(5) - T.int64(1), (tx % T.int64(4) + T.int64(4)) % T.int64(5) * T.int64(8) + l], T.float16(0.0))
                    T.tvm_storage_sync("shared")
                    for k0 in range(T.int64(3)):
                        T.tvm_storage_sync("shared")
                        for kk in T.unroll(T.int64(2)):
                            for j in T.unroll(T.int64(2)):
                                T.tile_mma(acc[j * T.int64(8)], a_tile[kk * T.int64(640) + ty * T.int64(16)], T.int64(40), True, b_tile[j * T.int64(640) + kk * T.int64(16)], T.int64(40), False, tx)
                        for e in T.unroll(T.int64(2)):
                            for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                                a_tile_2[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = t1[T.int64(0), tx // T.int64(4) * T.int64(9) + (k0 * T.int64(12) + e * T.int64(2) + ty + T.int64(3)) % T.int64(5) * T.int64(72) + (k0 * T.int64(12) + e * T.int64(2) + ty + T.int64(3)) // T.int64(5) + T.int64(1), by * T.int64(32) + tx % T.int64(4) * T.int64(8) + l]
                        for e in T.unroll(T.int64(2)):
                            for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                                b_tile_2[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = T.if_then_else(bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4) < T.int64(196) and ((bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) // T.int64(14) * T.int64(2) + ((k0 * T.int64(12) + tx % T.int64(4) + T.int64(3)) // T.int64(5) + T.int64(1)) // T.int64(3) - T.int64(1) >= T.int64(0) and (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) // T.int64(14) * T.int64(2) + ((k0 * T.int64(12) + tx % T.int64(4) + T.int64(3)) // T.int64(5) + T.int64(1)) // T.int64(3) - T.int64(1) < T.int64(28) and (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) % T.int64(14) * T.int64(2) + ((k0 * T.int64(12) + tx % T.int64(4) + T.int64(3)) // T.int64(5) + T.int64(1)) % T.int64(3) - T.int64(1) >= T.int64(0)), t0[T.int64(0), T.int64(0), (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) // T.int64(14) * T.int64(2) + ((k0 * T.int64(12) + tx % T.int64(4) + T.int64(3)) // T.int64(5) + T.int64(1)) // T.int64(3) - T.int64(1), (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) % T.int64(14) * T.int64(2) + ((k0 * T.int64(12) + tx % T.int64(4) + T.int64(3)) // T.int64(5) + T.int64(1)) % T.int64(3) - T.int64(1), (k0 * T.int64(12) + tx % T.int64(4) + T.int64(3)) % T.int64(5) * T.int64(8) + l], T.float16(0.0))
                        T.tvm_storage_sync("shared")
                        for kk in T.unroll(T.int64(2)):
                            for j in T.unroll(T.int64(2)):
                                T.tile_mma(acc[j * T.int64(8)], a_tile_1[kk * T.int64(640) + ty * T.int64(16)], T.int64(40), True, b_tile_1[j * T.int64(640) + kk * T.int64(16)], T.int64(40), False, tx)
                        for e in T.unroll(T.int64(2)):
                            for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                                a_tile[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = t1[T.int64(0), tx // T.int64(4) * T.int64(9) + (k0 * T.int64(12) + e * T.int64(2) + ty + T.int64(2)) % T.int64(5) * T.int64(72) + (k0 * T.int64(12) + e * T.int64(2) + ty + T.int64(2)) // T.int64(5) + T.int64(2), by * T.int64(32) + tx % T.int64(4) * T.int64(8) + l]
                        for e in T.unroll(T.int64(2)):
                            for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                                b_tile[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = T.if_then_else(bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4) < T.int64(196) and ((bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) // T.int64(14) * T.int64(2) + ((k0 * T.int64(12) + tx % T.int64(4) + T.int64(2)) // T.int64(5) + T.int64(2)) // T.int64(3) - T.int64(1) >= T.int64(0) and (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) // T.int64(14) * T.int64(2) + ((k0 * T.int64(12) + tx % T.int64(4) + T.int64(2)) // T.int64(5) + T.int64(2)) // T.int64(3) - T.int64(1) < T.int64(28) and (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) % T.int64(14) * T.int64(2) + ((k0 * T.int64(12) + tx % T.int64(4) + T.int64(2)) // T.int64(5) + T.int64(2)) % T.int64(3) - T.int64(1) >= T.int64(0)), t0[T.int64(0), T.int64(0), (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) // T.int64(14) * T.int64(2) + ((k0 * T.int64(12) + tx % T.int64(4) + T.int64(2)) // T.int64(5) + T.int64(2)) // T.int64(3) - T.int64(1), (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) % T.int64(14) * T.int64(2) + ((k0 * T.int64(12) + tx % T.int64(4) + T.int64(2)) // T.int64(5) + T.int64(2)) % T.int64(3) - T.int64(1), (k0 * T.int64(12) + tx % T.int64(4) + T.int64(2)) % T.int64(5) * T.int64(8) + l], T.float16(0.0))
                        T.tvm_storage_sync("shared")
                        for kk in T.unroll(T.int64(2)):
                            for j in T.unroll(T.int64(2)):
                                T.tile_mma(acc[j * T.int64(8)], a_tile_2[kk * T.int64(640) + ty * T.int64(16)], T.int64(40), True, b_tile_2[j * T.int64(640) + kk * T.int64(16)], T.int64(40), False, tx)
                        for e in T.unroll(T.int64(2)):
                            for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                                a_tile_1[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = t1[T.int64(0), tx // T.int64(4) * T.int64(9) + (k0 * T.int64(12) + e * T.int64(2) + ty + T.int64(1)) % T.int64(5) * T.int64(72) + (k0 * T.int64(12) + e * T.int64(2) + ty + T.int64(1)) // T.int64(5) + T.int64(3), by * T.int64(32) + tx % T.int64(4) * T.int64(8) + l]
                        for e in T.unroll(T.int64(2)):
                            for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                                b_tile_1[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = T.if_then_else(bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4) < T.int64(196) and ((bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) // T.int64(14) * T.int64(2) + (k0 * T.int64(12) + tx % T.int64(4) + T.int64(1)) // T.int64(15) < T.int64(28) and (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) % T.int64(14) * T.int64(2) + (k0 * T.int64(12) + tx % T.int64(4) + T.int64(1)) // T.int64(5) % T.int64(3) - T.int64(1) >= T.int64(0)), t0[T.int64(0), T.int64(0), (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) // T.int64(14) * T.int64(2) + (k0 * T.int64(12) + tx % T.int64(4) + T.int64(1)) // T.int64(15), (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) % T.int64(14) * T.int64(2) + (k0 * T.int64(12) + tx % T.int64(4) + T.int64(1)) // T.int64(5) % T.int64(3) - T.int64(1), (k0 * T.int64(12) + tx % T.int64(4) + T.int64(1)) % T.int64(5) * T.int64(8) + l], T.float16(0.0))
                    T.tvm_storage_sync("shared")
                    for kk in T.unroll(T.int64(2)):
                        for j in T.unroll(T.int64(2)):
                            T.tile_mma(acc[j * T.int64(8)], a_tile[kk * T.int64(640) + ty * T.int64(16)], T.int64(40), True, b_tile[j * T.int64(640) + kk * T.int64(16)], T.int64(40), False, tx)
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            a_tile_2[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = T.if_then_else(e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4) + T.int64(352) < T.int64(360), t1[T.int64(0), tx // T.int64(4) * T.int64(9) + (e * T.int64(2) + ty + T.int64(4)) % T.int64(5) * T.int64(72) + (e * T.int64(2) + ty + T.int64(4)) // T.int64(5) + T.int64(8), by * T.int64(32) + tx % T.int64(4) * T.int64(8) + l], T.float16(0.0))
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            b_tile_2[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = T.if_then_else(bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4) < T.int64(196) and tx % T.int64(4) * T.int64(8) + T.int64(352) < T.int64(360) and ((bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) // T.int64(14) * T.int64(2) + ((tx % T.int64(4) + T.int64(4)) // T.int64(5) + T.int64(2)) // T.int64(3) + T.int64(1) < T.int64(28) and (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) % T.int64(14) * T.int64(2) + ((tx % T.int64(4) + T.int64(4)) // T.int64(5) + T.int64(2)) % T.int64(3) - T.int64(1) >= T.int64(0)), t0[T.int64(0), T.int64(0), (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) // T.int64(14) * T.int64(2) + ((tx % T.int64(4) + T.int64(4)) // T.int64(5) + T.int64(2)) // T.int64(3) + T.int64(1), (bx * T.int64(32) + e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4)) % T.int64(14) * T.int64(2) + ((tx % T.int64(4) + T.int64(4)) // T.int64(5) + T.int64(2)) % T.int64(3) - T.int64(1), (tx % T.int64(4) + T.int64(4)) % T.int64(5) * T.int64(8) + l], T.float16(0.0))
                    T.tvm_storage_sync("shared")
                    for kk in T.unroll(T.int64(2)):
                        for j in T.unroll(T.int64(2)):
                            T.tile_mma(acc[j * T.int64(8)], a_tile_1[kk * T.int64(640) + ty * T.int64(16)], T.int64(40), True, b_tile_1[j * T.int64(640) + kk * T.int64(16)], T.int64(40), False, tx)
                    T.tvm_storage_sync("shared")
                    for kk in T.unroll(T.int64(2)):
                        for j in T.unroll(T.int64(2)):
                            T.tile_mma(acc[j * T.int64(8)], a_tile_2[kk * T.int64(640) + ty * T.int64(16)], T.int64(40), True, b_tile_2[j * T.int64(640) + kk * T.int64(16)], T.int64(40), False, tx)
                    for j in T.unroll(T.int64(2)):
                        for n in T.unroll(T.int64(4)):
                            if bx * T.int64(32) + j * T.int64(16) + tx % T.int64(4) * T.int64(2) + n // T.int64(2) * T.int64(8) < T.int64(196):
                                for l in T.vectorized(T.int64(2)):
                                    t2[T.int64(0), by * T.int64(32) + ty * T.int64(16) + tx // T.int64(4) + n % T.int64(2) * T.int64(8), (bx * T.int64(16) + j * T.int64(8) + tx % T.int64(4) + n // T.int64(2) * T.int64(4)) // T.int64(7), l + (bx * T.int64(16) + j * T.int64(8) + tx % T.int64(4) + n // T.int64(2) * T.int64(4)) % T.int64(7) * T.int64(2)] = T.Cast("float16", acc[T.int64(0), j, n * T.int64(2) + l])
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def fused_conv_max(t0: T.Buffer((T.int64(1), T.int64(3), T.int64(28), T.int64(28)), "float16"), t1: T.Buffer((T.int64(1), T.int64(27), T.int64(40)), "float16"), t5: T.Buffer((T.int64(1), T.int64(1), T.int64(28), T.int64(28), T.int64(40)), "float16")):
    for by in T.thread_binding(T.int64(25), thread="blockIdx.y"):
        for bx in T.thread_binding(T.int64(2), thread="blockIdx.x"):
            a_tile = T.alloc_shared((T.int64(32), T.int64(40)), "float16")
            b_tile = T.alloc_shared((T.int64(32), T.int64(40)), "float16")
            a_tile_1 = T.alloc_shared((T.int64(32), T.int64(40)), "float16")
            b_tile_1 = T.alloc_shared((T.int64(32), T.int64(40)), "float16")
            for ty in T.thread_binding(T.int64(2), thread="threadIdx.y"):
                for tx in T.thread_binding(T.int64(32), thread="threadIdx.x"):
                    next_a = T.alloc_local((T.int64(16),), "float16")
                    acc = T.alloc_local((T.int64(1), T.int64(2), T.int64(8)))
                    for j in T.unroll(T.int64(2)):
                        for n in T.unroll(T.int64(8)):
                            acc[T.int64(0), j, n] = T.float32(0.0)
                    for e in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(8), annotations={"reflex.async_copy": 1}):
                            b_tile[e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), tx % T.int64(4) * T.int64(8) + l] = T.if_then_else(bx * T.int64(32) + tx % T.int64(4) * T.int64(8) < T.int64(40) and e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4) < T.int64(27), t1[T.int64(0), e * T.int64(16) + ty * T.int64(8) + tx // T.int64(4), bx * T.int64(32) + tx % T.int64(4) * T.int64(8) + l], T.float16(0.0))
                    for e in T.unroll(T.int64(16)):
                        next_a[e] = T.if_then_else(by * T.int64(32) + tx < T.int64(784) and e * T.int64(2) + ty < T.int64(27) and ((by * T.int64(32) + tx) // T.int64(28) + (e * T.int64(2) + ty) // T.int64(3) % T.int64(3) - T.int64(1) >= T.int64(0) and (by * T.int64(32) + tx) // T.int64(28) + (e * T.int64(2) + ty) // T.int64(3) % T.int64(3) - T.int64(1) < T.int64(28) and (by * T.int64(32) + tx) % T.int64(28) + (e * T.int64(2) + ty) % T.int64(3) - T.int64(1) >= T.int64(0) and (by * T.int64(32) + tx) % T.int64(28) + (e * T.int64(2) + ty) % T.int64(3) - T.int64(1) < T.int64(28)), t0[T.int64(0), (e * T.int64(2) + ty) // T.int64(9), (by * T.int64(32) + tx) // T.int64(28) + (e * T.int64(2) + ty) // T.int64(3) % T.int64(3) - T.int64(1), (by * T.int64(32) + tx) % T.int64(28) + (e * T.int64(2) + ty) % T.int64(3) - T.int64(1)], T.float16(0.0))
                    for e in T.unroll(T.int64(16)):
                        a_tile[e * T.int64(2) + ty, tx] = next_a[e]
                    T.tvm_storage_sync("shared")
                    for kk in T.unroll(T.int64(2)):
                        for j in T.unroll(T.int64(2)):
                            T.tile_mma(acc[j * T.int64(8)], a_tile[kk * T.int64(640) + ty * T.int64(16)], T.int64(40), True, b_tile[kk * T.int64(640) + j * T.int64(16)], T.int64(40), True, tx)
                    for j in T.unroll(T.int64(2)):
                        for n in T.unroll(T.int64(4)):
                            if by * T.int64(32) + ty * T.int64(16) + tx // T.int64(4) + n % T.int64(2) * T.int64(8) < T.int64(784) and bx * T.int64(32) + j * T.int64(16) + tx % T.int64(4) * T.int64(2) + n // T.int64(2) * T.int64(8) < T.int64(40):
                                for l in T.vectorized(T.int64(2)):
                                    t5[T.int64(0), T.int64(0), (by * T.int64(32) + ty * T.int64(16) + tx // T.int64(4) + n % T.int64(2) * T.int64(8)) // T.int64(28), (by * T.int64(32) + ty * T.int64(16) + tx // T.int64(4) + n % T.int64(2) * T.int64(8)) % T.int64(28), bx * T.int64(32) + j * T.int64(16) + tx % T.int64(4) * T.int64(2) + n // T.int64(2) * T.int64(8) + l] = T.Cast("float16", T.max(T.Cast("float32", T.Cast("float16", acc[T.int64(0), j, n * T.int64(2) + l])), T.Cast("float32", T.float16(0.0))))
