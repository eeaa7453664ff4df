# after: lower
# precision: bf16
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 33), dtype="float32"), w: R.Tensor((33, 32), dtype="float32")) -> R.Tensor((4, 32), dtype="float32"):
        a: R.Tensor((4, 32), dtype="float32") = R.matmul(x, w)
        return a
# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def mat_mul(t0: T.Buffer((T.int64(4), T.int64(33)), "float32"), t1: T.Buffer((T.int64(33), T.int64(32)), "float32"), t2: T.Buffer((T.int64(4), T.int64(32)), "float32")):
    t4 = T.alloc_buffer((T.int64(17), T.int64(32)), "uint32")
    t3 = T.alloc_buffer((T.int64(4), T.int64(17)), "uint32")
    for i0 in range(T.int64(4)):
        for i1 in T.vectorized(T.int64(16)):
            t3[i0, i1] = T.pair_bf16(t0[i0, i1 * T.int64(2)], t0[i0, i1 * T.int64(2) + T.int64(1)])
        t3[i0, T.int64(16)] = T.pair_bf16(t0[i0, T.int64(32)], T.float32(0.0))
    for i0, i1_0 in T.grid(T.int64(16), T.int64(2)):
        for i1_1 in T.vectorized(T.int64(16)):
            t4[i0, i1_0 * T.int64(16) + i1_1] = T.pair_bf16(t1[i0 * T.int64(2), i1_0 * T.int64(16) + i1_1], t1[i0 * T.int64(2) + T.int64(1), i1_0 * T.int64(16) + i1_1])
    for i1_0 in range(T.int64(2)):
        for i1_1 in T.vectorized(T.int64(16)):
            t4[T.int64(16), i1_0 * T.int64(16) + i1_1] = T.pair_bf16(t1[T.int64(32), i1_0 * T.int64(16) + i1_1], T.float32(0.0))
    acc = T.alloc_local((T.int64(4), T.int64(2), T.int64(16)))
    for r in T.unroll(T.int64(4)):
        for v in T.unroll(T.int64(2)):
            for l in T.vectorized(T.int64(16)):
                acc[r, v, l] = T.float32(0.0)
    for k0 in range(T.int64(17)):
        for l in T.vectorized(T.int64(16)):
            x: T.let[T.uint32] = t4[k0, l]
            x_1: T.let[T.uint32] = t4[k0, l + T.int64(16)]
            x_2: T.let[T.uint32] = t3[T.int64(0), k0]
            acc[T.int64(0), T.int64(0), l] = T.dot_bf16(x_2, x, acc[T.int64(0), T.int64(0), l])
            acc[T.int64(0), T.int64(1), l] = T.dot_bf16(x_2, x_1, acc[T.int64(0), T.int64(1), l])
            x_3: T.let[T.uint32] = t3[T.int64(1), k0]
            acc[T.int64(1), T.int64(0), l] = T.dot_bf16(x_3, x, acc[T.int64(1), T.int64(0), l])
            acc[T.int64(1), T.int64(1), l] = T.dot_bf16(x_3, x_1, acc[T.int64(1), T.int64(1), l])
            x_4: T.let[T.uint32] = t3[T.int64(2), k0]
            acc[T.int64(2), T.int64(0), l] = T.dot_bf16(x_4, x, acc[T.int64(2), T.int64(0), l])
            acc[T.int64(2), T.int64(1), l] = T.dot_bf16(x_4, x_1, acc[T.int64(2), T.int64(1), l])
            x_5: T.let[T.uint32] = t3[T.int64(3), k0]
            acc[T.int64(3), T.int64(0), l] = T.dot_bf16(x_5, x, acc[T.int64(3), T.int64(0), l])
            acc[T.int64(3), T.int64(1), l] = T.dot_bf16(x_5, x_1, acc[T.int64(3), T.int64(1), l])
    for r in T.unroll(T.int64(4)):
        for l in T.vectorized(T.int64(16)):
            t2[r, l] = acc[r, T.int64(0), l]
            t2[r, l + T.int64(16)] = acc[r, T.int64(1), l]
