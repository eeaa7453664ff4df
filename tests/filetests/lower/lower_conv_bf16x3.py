# after: lower
# precision: f32-fast
# amx
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 16, 28, 28), dtype="float32"), y: R.Tensor((1, 16, 14, 14), dtype="float32")) -> R.Tuple(R.Tensor((1, 192, 14, 14), dtype="float32"), R.Tensor((1, 192, 14, 14), dtype="float32")):
        u: R.Tensor((32, 16, 1, 1), dtype="float32") = R.zeros(R.shape([32, 16, 1, 1]), dtype="float32")
        v: R.Tensor((192, 32, 3, 3), dtype="float32") = R.zeros(R.shape([192, 32, 3, 3]), dtype="float32")
        t: R.Tensor((144, 16, 1, 1), dtype="float32") = R.zeros(R.shape([144, 16, 1, 1]), dtype="float32")
        w: R.Tensor((192, 144, 1, 1), dtype="float32") = R.zeros(R.shape([192, 144, 1, 1]), dtype="float32")
        a: R.Tensor((1, 32, 28, 28), dtype="float32") = R.nn.conv2d(x, u)
        b: R.Tensor((1, 192, 14, 14), dtype="float32") = R.nn.conv2d(a, v, strides=[2, 2], padding=[1, 1, 1, 1])
        c: R.Tensor((1, 144, 14, 14), dtype="float32") = R.nn.conv2d(y, t)
        d: R.Tensor((1, 192, 14, 14), dtype="float32") = R.nn.conv2d(c, w)
        return (b, d)
# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def conv(t0: T.Buffer((T.int64(1), T.int64(16), T.int64(28), T.int64(28)), "float32"), t1: T.Buffer((T.int64(2), T.int64(16), T.int64(16)), "float32"), t2: T.Buffer((T.int64(1), T.int64(2), T.int64(28), T.int64(28), T.int64(16)), "float32")):
    T.func_attr({"reflex.split_bf16_products": 3})
    for t in T.parallel(T.int64(65)):
        acc = T.alloc_local((T.int64(12), T.int64(2), T.int64(16)))
        for r in T.unroll(T.int64(12)):
            for v in T.unroll(T.int64(2)):
                for l in T.vectorized(T.int64(16)):
                    acc[r, v, l] = T.float32(0.0)
        for k0 in range(T.int64(16)):
            for l in T.vectorized(T.int64(16)):
                x: T.let[T.float32] = t1[l + k0 * T.int64(16)]
                x_1: T.let[T.float32] = t1[l + k0 * T.int64(16) + T.int64(256)]
                x_2: T.let[T.float32] = t0[t * T.int64(12) + k0 * T.int64(784)]
                acc[T.int64(0), T.int64(0), l] = T.fma(x_2, x, acc[T.int64(0), T.int64(0), l])
                acc[T.int64(0), T.int64(1), l] = T.fma(x_2, x_1, acc[T.int64(0), T.int64(1), l])
                x_3: T.let[T.float32] = t0[t * T.int64(12) + k0 * T.int64(784) + T.int64(1)]
                acc[T.int64(1), T.int64(0), l] = T.fma(x_3, x, acc[T.int64(1), T.int64(0), l])
                acc[T.int64(1), T.int64(1), l] = T.fma(x_3, x_1, acc[T.int64(1), T.int64(1), l])
                x_4: T.let[T.float32] = t0[t * T.int64(12) + k0 * T.int64(784) + T.int64(2)]
                acc[T.int64(2), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(2), T.int64(0), l])
                acc[T.int64(2), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(2), T.int64(1), l])
                x_5: T.let[T.float32] = t0[t * T.int64(12) + k0 * T.int64(784) + T.int64(3)]
                acc[T.int64(3), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(3), T.int64(0), l])
                acc[T.int64(3), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(3), T.int64(1), l])
                x_6: T.let[T.float32] = t0[t * T.int64(12) + k0 * T.int64(784) + T.int64(4)]
                acc[T.int64(4), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(4), T.int64(0), l])
                acc[T.int64(4), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(4), T.int64(1), l])
                x_7: T.let[T.float32] = t0[t * T.int64(12) + k0 * T.int64(784) + T.int64(5)]
                acc[T.int64(5), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(5), T.int64(0), l])
                acc[T.int64(5), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(5), T.int64(1), l])
                x_8: T.let[T.float32] = t0[t * T.int64(12) + k0 * T.int64(784) + T.int64(6)]
                acc[T.int64(6), T.int64(0), l] = T.fma(x_8, x, acc[T.int64(6), T.int64(0), l])
                acc[T.int64(6), T.int64(1), l] = T.fma(x_8, x_1, acc[T.int64(6), T.int64(1), l])
                x_9: T.let[T.float32] = t0[t * T.int64(12) + k0 * T.int64(784) + T.int64(7)]
                acc[T.int64(7), T.int64(0), l] = T.fma(x_9, x, acc[T.int64(7), T.int64(0), l])
                acc[T.int64(7), T.int64(1), l] = T.fma(x_9, x_1, acc[T.int64(7), T.int64(1), l])
                x_10: T.let[T.float32] = t0[t * T.int64(12) + k0 * T.int64(784) + T.int64(8)]
                acc[T.int64(8), T.int64(0), l] = T.fma(x_10, x, acc[T.int64(8), T.int64(0), l])
                acc[T.int64(8), T.int64(1), l] = T.fma(x_10, x_1, acc[T.int64(8), T.int64(1), l])
                x_11: T.let[T.float32] = t0[t * T.int64(12) + k0 * T.int64(784) + T.int64(9)]
                acc[T.int64(9), T.int64(0), l] = T.fma(x_11, x, acc[T.int64(9), T.int64(0), l])
                acc[T.int64(9), T.int64(1), l] = T.fma(x_11, x_1, acc[T.int64(9), T.int64(1), l])
                x_12: T.let[T.float32] = t0[t * T.int64(12) + k0 * T.int64(784) + T.int64(10)]
                acc[T.int64(10), T.int64(0), l] = T.fma(x_12, x, acc[T.int64(10), T.int64(0), l])
                acc[T.int64(10), T.int64(1), l] = T.fma(x_12, x_1, acc[T.int64(10), T.int64(1), l])
                x_13: T.let[T.float32] = t0[t * T.int64(12) + k0 * T.int64(784) + T.int64(11)]
                acc[T.int64(11), T.int64(0), l] = T.fma(x_13, x, acc[T.int64(11), T.int64(0), l])
                acc[T.int64(11), T.int64(1), l] = T.fma(x_13, x_1, acc[T.int64(11), T.int64(1), l])
        acc_local = T.alloc_local((T.int64(12), T.int64(2), T.int64(16)))
        for r in T.unroll(T.int64(12)):
            for v in T.unroll(T.int64(2)):
                for l in T.vectorized(T.int64(16)):
                    acc_local[r, v, l] = acc[r, v, l]
        for r in range(T.int64(12)):
            for l in T.vectorized(T.int64(16)):
                t2[t * T.int64(192) + r * T.int64(16) + l] = acc_local[r, T.int64(0), l]
                t2[t * T.int64(192) + r * T.int64(16) + l + T.int64(12544)] = acc_local[r, T.int64(1), l]
    acc = T.alloc_local((T.int64(4), T.int64(2), T.int64(16)))
    for r in T.unroll(T.int64(4)):
        for v in T.unroll(T.int64(2)):
            for l in T.vectorized(T.int64(16)):
                acc[r, v, l] = T.float32(0.0)
    for k0 in range(T.int64(16)):
        for l in T.vectorized(T.int64(16)):
            x: T.let[T.float32] = t1[l + k0 * T.int64(16)]
            x_1: T.let[T.float32] = t1[l + k0 * T.int64(16) + T.int64(256)]
            x_2: T.let[T.float32] = t0[k0 * T.int64(784) + T.int64(780)]
            acc[T.int64(0), T.int64(0), l] = T.fma(x_2, x, acc[T.int64(0), T.int64(0), l])
            acc[T.int64(0), T.int64(1), l] = T.fma(x_2, x_1, acc[T.int64(0), T.int64(1), l])
            x_3: T.let[T.float32] = t0[k0 * T.int64(784) + T.int64(781)]
            acc[T.int64(1), T.int64(0), l] = T.fma(x_3, x, acc[T.int64(1), T.int64(0), l])
            acc[T.int64(1), T.int64(1), l] = T.fma(x_3, x_1, acc[T.int64(1), T.int64(1), l])
            x_4: T.let[T.float32] = t0[k0 * T.int64(784) + T.int64(782)]
            acc[T.int64(2), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(2), T.int64(0), l])
            acc[T.int64(2), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(2), T.int64(1), l])
            x_5: T.let[T.float32] = t0[k0 * T.int64(784) + T.int64(783)]
            acc[T.int64(3), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(3), T.int64(0), l])
            acc[T.int64(3), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(3), T.int64(1), l])
    acc_local = T.alloc_local((T.int64(4), T.int64(2), T.int64(16)))
    for r in T.unroll(T.int64(4)):
        for v in T.unroll(T.int64(2)):
            for l in T.vectorized(T.int64(16)):
                acc_local[r, v, l] = acc[r, v, l]
    for r in range(T.int64(4)):
        for l in T.vectorized(T.int64(16)):
            t2[r * T.int64(16) + l + T.int64(12480)] = acc_local[r, T.int64(0), l]
            t2[r * T.int64(16) + l + T.int64(25024)] = acc_local[r, T.int64(1), l]
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def conv1(t0: T.Buffer((T.int64(1), T.int64(2), T.int64(28), T.int64(28), T.int64(16)), "float32"), t1: T.Buffer((T.int64(12), T.int64(288), T.int64(16)), "float32"), t2: T.Buffer((T.int64(1), T.int64(192), T.int64(14), T.int64(14)), "float32")):
    T.func_attr({"reflex.split_bf16_products": 3})
    column_term = T.alloc_buffer((T.int64(12), T.int64(1), T.int64(3), T.int64(3), T.int64(16), T.int64(16)), "uint32")
    row_term = T.alloc_buffer((T.int64(1), T.int64(3), T.int64(3), T.int64(16), T.int64(14), T.int64(16)), "uint32")
    column_term_1 = T.alloc_buffer((T.int64(12), T.int64(1), T.int64(3), T.int64(3), T.int64(16), T.int64(16)), "uint32")
    row_term_1 = T.alloc_buffer((T.int64(1), T.int64(3), T.int64(3), T.int64(16), T.int64(14), T.int64(16)), "uint32")
    t4 = T.alloc_buffer((T.int64(1), T.int64(12), T.int64(14), T.int64(14), T.int64(16)))
    t3 = T.alloc_buffer((T.int64(1), T.int64(2), T.int64(30), T.int64(30), T.int64(16)))
    for co in range(T.int64(2)):
        for i2 in T.parallel(T.int64(30)):
            if i2 >= T.int64(1) and i2 < T.int64(29):
                for i3 in range(T.int64(30)):
                    if i3 >= T.int64(1) and i3 < T.int64(29):
                        for ci in T.vectorized(T.int64(16)):
                            t3[T.int64(0), co, i2, i3, ci] = t0[T.int64(0), co, i2 - T.int64(1), i3 - T.int64(1), ci]
                    else:
                        if i3 < T.int64(1):
                            for ci in T.vectorized(T.int64(16)):
                                t3[T.int64(0), co, i2, T.int64(0), ci] = T.float32(0.0)
                        else:
                            for ci in T.vectorized(T.int64(16)):
                                t3[T.int64(0), co, i2, T.int64(29), ci] = T.float32(0.0)
            else:
                if i2 < T.int64(1):
                    for i3 in range(T.int64(30)):
                        for ci in T.vectorized(T.int64(16)):
                            t3[T.int64(0), co, T.int64(0), i3, ci] = T.float32(0.0)
                else:
                    for i3 in range(T.int64(30)):
                        for ci in T.vectorized(T.int64(16)):
                            t3[T.int64(0), co, T.int64(29), i3, ci] = T.float32(0.0)
    ranges = T.alloc_local((T.int64(4),), "int32")
    most = T.alloc_local((T.int64(16),), "int32")
    least = T.alloc_local((T.int64(16),), "int32")
    for l in T.vectorized(T.int64(16)):
        most[l] = 0
        least[l] = 2147483647
    for v in range(T.int64(1800)):
        for l in T.vectorized(T.int64(16)):
            bits: T.let[T.int32] = T.reinterpret("int32", t3[v * T.int64(16) + l]) & 2147483647
            most[l] = T.max(most[l], bits)
            least[l] = T.min(least[l], T.Select(bits == 0, 2147483647, bits))
    ranges[T.int64(0)] = 0
    ranges[T.int64(1)] = 2147483647
    for l in range(T.int64(16)):
        ranges[T.int64(0)] = T.max(ranges[T.int64(0)], most[l])
        ranges[T.int64(1)] = T.min(ranges[T.int64(1)], least[l])
    most_1 = T.alloc_local((T.int64(16),), "int32")
    least_1 = T.alloc_local((T.int64(16),), "int32")
    for l in T.vectorized(T.int64(16)):
        most_1[l] = 0
        least_1[l] = 2147483647
    for v in range(T.int64(3456)):
        for l in T.vectorized(T.int64(16)):
            bits: T.let[T.int32] = T.reinterpret("int32", t1[v * T.int64(16) + l]) & 2147483647
            most_1[l] = T.max(most_1[l], bits)
            least_1[l] = T.min(least_1[l], T.Select(bits == 0, 2147483647, bits))
    ranges[T.int64(2)] = 0
    ranges[T.int64(3)] = 2147483647
    for l in range(T.int64(16)):
        ranges[T.int64(2)] = T.max(ranges[T.int64(2)], most_1[l])
        ranges[T.int64(3)] = T.min(ranges[T.int64(3)], least_1[l])
    if ranges[T.int64(0)] >> 23 <= 227 and ranges[T.int64(2)] >> 23 <= 227 and ranges[T.int64(1)] >> 23 >= 27 and ranges[T.int64(3)] >> 23 >= 27 and (ranges[T.int64(0)] >> 23) + (ranges[T.int64(2)] >> 23) <= 369 and (ranges[T.int64(1)] >> 23) + (ranges[T.int64(3)] >> 23) >= 174:
        for c, c_1 in T.grid(T.int64(3), T.int64(3)):
            for c_2 in T.parallel(T.int64(16)):
                if c_2 < T.int64(14):
                    for c_3 in range(T.int64(14)):
                        for c_4 in T.vectorized(T.int64(16)):
                            row_term_1[T.int64(0), c, c_1, c_2, c_3, c_4] = T.pair_bf16(t3[T.int64(0), T.int64(0), c_2 * T.int64(2) + c, c_3 * T.int64(2) + c_1, c_4], t3[T.int64(0), T.int64(1), c_2 * T.int64(2) + c, c_3 * T.int64(2) + c_1, c_4])
                else:
                    for c_3 in range(T.int64(14)):
                        for c_4 in T.vectorized(T.int64(16)):
                            row_term_1[T.int64(0), c, c_1, c_2, c_3, c_4] = T.uint32(0)
        for c in T.parallel(T.int64(12)):
            for m, c_1 in T.grid(T.int64(9), T.int64(16)):
                for c_2 in T.vectorized(T.int64(16)):
                    column_term_1[m * T.int64(256) + c * T.int64(2304) + c_1 * T.int64(16) + c_2] = T.pair_bf16(t1[m * T.int64(16) + c * T.int64(4608) + c_1 * T.int64(144) + c_2], t1[m * T.int64(16) + c * T.int64(4608) + c_1 * T.int64(144) + c_2 + T.int64(2304)])
        for c, c_1 in T.grid(T.int64(3), T.int64(3)):
            for c_2 in T.parallel(T.int64(16)):
                if c_2 < T.int64(14):
                    for c_3 in range(T.int64(14)):
                        for c_4 in T.vectorized(T.int64(16)):
                            row_term[T.int64(0), c, c_1, c_2, c_3, c_4] = T.pair_bf16(t3[T.int64(0), T.int64(0), c_2 * T.int64(2) + c, c_3 * T.int64(2) + c_1, c_4] - T.Cast("float32", T.Cast("bfloat16", t3[T.int64(0), T.int64(0), c_2 * T.int64(2) + c, c_3 * T.int64(2) + c_1, c_4])), t3[T.int64(0), T.int64(1), c_2 * T.int64(2) + c, c_3 * T.int64(2) + c_1, c_4] - T.Cast("float32", T.Cast("bfloat16", t3[T.int64(0), T.int64(1), c_2 * T.int64(2) + c, c_3 * T.int64(2) + c_1, c_4])))
                else:
                    for c_3 in range(T.int64(14)):
                        for c_4 in T.vectorized(T.int64(16)):
                            row_term[T.int64(0), c, c_1, c_2, c_3, c_4] = T.uint32(0)
        for c in T.parallel(T.int64(12)):
            for m, c_1 in T.grid(T.int64(9), T.int64(16)):
                for c_2 in T.vectorized(T.int64(16)):
                    column_term[m * T.int64(256) + c * T.int64(2304) + c_1 * T.int64(16) + c_2] = T.pair_bf16(t1[m * T.int64(16) + c * T.int64(4608) + c_1 * T.int64(144) + c_2] - T.Cast("float32", T.Cast("bfloat16", t1[m * T.int64(16) + c * T.int64(4608) + c_1 * T.int64(144) + c_2])), t1[m * T.int64(16) + c * T.int64(4608) + c_1 * T.int64(144) + c_2 + T.int64(2304)] - T.Cast("float32", T.Cast("bfloat16", t1[m * T.int64(16) + c * T.int64(4608) + c_1 * T.int64(144) + c_2 + T.int64(2304)])))
        for t in range(T.int64(6)):
            for t_1 in T.parallel(T.int64(6)):
                sum = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
                sum_1 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
                sum_2 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
                sum_3 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
                row = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
                row_1 = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
                column = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
                column_1 = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
                tile = T.alloc_local((T.int64(1024),))
                T.tile_zero(sum)
                T.tile_zero(sum_1)
                T.tile_zero(sum_2)
                T.tile_zero(sum_3)
                for m in range(T.int64(9)):
                    T.tile_load(row, row_term[t_1 * T.int64(512) + m * T.int64(3584)], T.int64(16))
                    T.tile_load(row_1, row_term[t_1 * T.int64(512) + m * T.int64(3584) + T.int64(256)], T.int64(16))
                    T.tile_load(column, column_term_1[t * T.int64(4608) + m * T.int64(256)], T.int64(16))
                    T.tile_load(column_1, column_term_1[t * T.int64(4608) + m * T.int64(256) + T.int64(2304)], T.int64(16))
                    T.tile_dot_bf16(sum, row, column)
                    T.tile_dot_bf16(sum_1, row, column_1)
                    T.tile_dot_bf16(sum_2, row_1, column)
                    T.tile_dot_bf16(sum_3, row_1, column_1)
                    T.tile_load(row, row_term_1[t_1 * T.int64(512) + m * T.int64(3584)], T.int64(16))
                    T.tile_load(row_1, row_term_1[t_1 * T.int64(512) + m * T.int64(3584) + T.int64(256)], T.int64(16))
                    T.tile_dot_bf16(sum, row, column)
                    T.tile_dot_bf16(sum_1, row, column_1)
                    T.tile_dot_bf16(sum_2, row_1, column)
                    T.tile_dot_bf16(sum_3, row_1, column_1)
                    T.tile_load(column, column_term[t * T.int64(4608) + m * T.int64(256)], T.int64(16))
                    T.tile_load(column_1, column_term[t * T.int64(4608) + m * T.int64(256) + T.int64(2304)], T.int64(16))
                    T.tile_dot_bf16(sum, row, column)
                    T.tile_dot_bf16(sum_1, row, column_1)
                    T.tile_dot_bf16(sum_2, row_1, column)
                    T.tile_dot_bf16(sum_3, row_1, column_1)
                T.tile_store(sum, tile[T.int64(0)], T.int64(32))
                T.tile_store(sum_1, tile[T.int64(16)], T.int64(32))
                T.tile_store(sum_2, tile[T.int64(512)], T.int64(32))
                T.tile_store(sum_3, tile[T.int64(528)], T.int64(32))
                for r in range(T.int64(32)):
                    for l in T.vectorized(T.int64(16)):
                        t4[t * T.int64(6272) + t_1 * T.int64(512) + r * T.int64(16) + l] = tile[r * T.int64(32) + l]
                        t4[t * T.int64(6272) + t_1 * T.int64(512) + r * T.int64(16) + l + T.int64(3136)] = tile[r * T.int64(32) + l + T.int64(16)]
            sum = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
            sum_1 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
            sum_2 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
            sum_3 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
            row = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
            row_1 = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
            column = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
            column_1 = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
            tile = T.alloc_local((T.int64(512),))
            T.tile_zero(sum)
            T.tile_zero(sum_1)
            for m in range(T.int64(9)):
                T.tile_load(row, row_term[m * T.int64(3584) + T.int64(3072)], T.int64(16))
                T.tile_load(column, column_term_1[t * T.int64(4608) + m * T.int64(256)], T.int64(16))
                T.tile_load(column_1, column_term_1[t * T.int64(4608) + m * T.int64(256) + T.int64(2304)], T.int64(16))
                T.tile_dot_bf16(sum, row, column)
                T.tile_dot_bf16(sum_1, row, column_1)
                T.tile_load(row, row_term_1[m * T.int64(3584) + T.int64(3072)], T.int64(16))
                T.tile_dot_bf16(sum, row, column)
                T.tile_dot_bf16(sum_1, row, column_1)
                T.tile_load(column, column_term[t * T.int64(4608) + m * T.int64(256)], T.int64(16))
                T.tile_load(column_1, column_term[t * T.int64(4608) + m * T.int64(256) + T.int64(2304)], T.int64(16))
                T.tile_dot_bf16(sum, row, column)
                T.tile_dot_bf16(sum_1, row, column_1)
            T.tile_store(sum, tile[T.int64(0)], T.int64(32))
            T.tile_store(sum_1, tile[T.int64(16)], T.int64(32))
            for r in range(T.int64(4)):
                for l in T.vectorized(T.int64(16)):
                    t4[t * T.int64(6272) + r * T.int64(16) + l + T.int64(3072)] = tile[r * T.int64(32) + l]
                    t4[t * T.int64(6272) + r * T.int64(16) + l + T.int64(6208)] = tile[r * T.int64(32) + l + T.int64(16)]
    else:
        for v_i2 in T.parallel(T.int64(14)):
            for t in range(T.int64(2)):
                for t_1 in range(T.int64(2)):
                    acc = T.alloc_local((T.int64(5), T.int64(4), T.int64(16)))
                    for r in T.unroll(T.int64(5)):
                        for v in T.unroll(T.int64(4)):
                            for l in T.vectorized(T.int64(16)):
                                acc[r, v, l] = T.float32(0.0)
                    for co, ci, k1, k2 in T.grid(T.int64(2), T.int64(16), T.int64(3), T.int64(3)):
                        for l in T.vectorized(T.int64(16)):
                            x: T.let[T.float32] = T.prefetch(T.prefetch(t1[t * T.int64(4), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096)), t_1 * T.int64(36864) + co * T.int64(9216) + ci * T.int64(576) + k1 * T.int64(192) + k2 * T.int64(64) + T.int64(73728))
                            x_1: T.let[T.float32] = T.prefetch(T.prefetch(t1[t * T.int64(4) + T.int64(1), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096)), t_1 * T.int64(36864) + co * T.int64(9216) + ci * T.int64(576) + k1 * T.int64(192) + k2 * T.int64(64) + T.int64(55360))
                            x_2: T.let[T.float32] = T.prefetch(t1[t * T.int64(4) + T.int64(2), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                            x_3: T.let[T.float32] = T.prefetch(t1[t * T.int64(4) + T.int64(3), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                            x_4: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, t_1 * T.int64(10) + k2, ci]
                            acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                            acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                            acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                            acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                            x_5: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, t_1 * T.int64(10) + k2 + T.int64(2), ci]
                            acc[T.int64(1), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(1), T.int64(0), l])
                            acc[T.int64(1), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(1), T.int64(1), l])
                            acc[T.int64(1), T.int64(2), l] = T.fma(x_5, x_2, acc[T.int64(1), T.int64(2), l])
                            acc[T.int64(1), T.int64(3), l] = T.fma(x_5, x_3, acc[T.int64(1), T.int64(3), l])
                            x_6: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, t_1 * T.int64(10) + k2 + T.int64(4), ci]
                            acc[T.int64(2), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(2), T.int64(0), l])
                            acc[T.int64(2), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(2), T.int64(1), l])
                            acc[T.int64(2), T.int64(2), l] = T.fma(x_6, x_2, acc[T.int64(2), T.int64(2), l])
                            acc[T.int64(2), T.int64(3), l] = T.fma(x_6, x_3, acc[T.int64(2), T.int64(3), l])
                            x_7: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, t_1 * T.int64(10) + k2 + T.int64(6), ci]
                            acc[T.int64(3), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(3), T.int64(0), l])
                            acc[T.int64(3), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(3), T.int64(1), l])
                            acc[T.int64(3), T.int64(2), l] = T.fma(x_7, x_2, acc[T.int64(3), T.int64(2), l])
                            acc[T.int64(3), T.int64(3), l] = T.fma(x_7, x_3, acc[T.int64(3), T.int64(3), l])
                            x_8: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, t_1 * T.int64(10) + k2 + T.int64(8), ci]
                            acc[T.int64(4), T.int64(0), l] = T.fma(x_8, x, acc[T.int64(4), T.int64(0), l])
                            acc[T.int64(4), T.int64(1), l] = T.fma(x_8, x_1, acc[T.int64(4), T.int64(1), l])
                            acc[T.int64(4), T.int64(2), l] = T.fma(x_8, x_2, acc[T.int64(4), T.int64(2), l])
                            acc[T.int64(4), T.int64(3), l] = T.fma(x_8, x_3, acc[T.int64(4), T.int64(3), l])
                    for r in T.unroll(T.int64(5)):
                        for l in T.vectorized(T.int64(16)):
                            t4[T.int64(0), t * T.int64(4), v_i2, t_1 * T.int64(5) + r, l] = acc[r, T.int64(0), l]
                            t4[T.int64(0), t * T.int64(4) + T.int64(1), v_i2, t_1 * T.int64(5) + r, l] = acc[r, T.int64(1), l]
                            t4[T.int64(0), t * T.int64(4) + T.int64(2), v_i2, t_1 * T.int64(5) + r, l] = acc[r, T.int64(2), l]
                            t4[T.int64(0), t * T.int64(4) + T.int64(3), v_i2, t_1 * T.int64(5) + r, l] = acc[r, T.int64(3), l]
                acc = T.alloc_local((T.int64(4), T.int64(4), T.int64(16)))
                for r in T.unroll(T.int64(4)):
                    for v in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(16)):
                            acc[r, v, l] = T.float32(0.0)
                for co, ci, k1, k2 in T.grid(T.int64(2), T.int64(16), T.int64(3), T.int64(3)):
                    for l in T.vectorized(T.int64(16)):
                        x: T.let[T.float32] = T.prefetch(T.prefetch(t1[t * T.int64(4), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096)), co * T.int64(9216) + ci * T.int64(576) + k1 * T.int64(192) + k2 * T.int64(64) + T.int64(73728))
                        x_1: T.let[T.float32] = T.prefetch(T.prefetch(t1[t * T.int64(4) + T.int64(1), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096)), co * T.int64(9216) + ci * T.int64(576) + k1 * T.int64(192) + k2 * T.int64(64) + T.int64(55360))
                        x_2: T.let[T.float32] = T.prefetch(t1[t * T.int64(4) + T.int64(2), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                        x_3: T.let[T.float32] = T.prefetch(t1[t * T.int64(4) + T.int64(3), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                        x_4: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, k2 + T.int64(20), ci]
                        acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                        acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                        acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                        acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                        x_5: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, k2 + T.int64(22), ci]
                        acc[T.int64(1), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(1), T.int64(0), l])
                        acc[T.int64(1), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(1), T.int64(1), l])
                        acc[T.int64(1), T.int64(2), l] = T.fma(x_5, x_2, acc[T.int64(1), T.int64(2), l])
                        acc[T.int64(1), T.int64(3), l] = T.fma(x_5, x_3, acc[T.int64(1), T.int64(3), l])
                        x_6: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, k2 + T.int64(24), ci]
                        acc[T.int64(2), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(2), T.int64(0), l])
                        acc[T.int64(2), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(2), T.int64(1), l])
                        acc[T.int64(2), T.int64(2), l] = T.fma(x_6, x_2, acc[T.int64(2), T.int64(2), l])
                        acc[T.int64(2), T.int64(3), l] = T.fma(x_6, x_3, acc[T.int64(2), T.int64(3), l])
                        x_7: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, k2 + T.int64(26), ci]
                        acc[T.int64(3), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(3), T.int64(0), l])
                        acc[T.int64(3), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(3), T.int64(1), l])
                        acc[T.int64(3), T.int64(2), l] = T.fma(x_7, x_2, acc[T.int64(3), T.int64(2), l])
                        acc[T.int64(3), T.int64(3), l] = T.fma(x_7, x_3, acc[T.int64(3), T.int64(3), l])
                for r in T.unroll(T.int64(4)):
                    for l in T.vectorized(T.int64(16)):
                        t4[T.int64(0), t * T.int64(4), v_i2, r + T.int64(10), l] = acc[r, T.int64(0), l]
                        t4[T.int64(0), t * T.int64(4) + T.int64(1), v_i2, r + T.int64(10), l] = acc[r, T.int64(1), l]
                        t4[T.int64(0), t * T.int64(4) + T.int64(2), v_i2, r + T.int64(10), l] = acc[r, T.int64(2), l]
                        t4[T.int64(0), t * T.int64(4) + T.int64(3), v_i2, r + T.int64(10), l] = acc[r, T.int64(3), l]
            for t in range(T.int64(2)):
                acc = T.alloc_local((T.int64(5), T.int64(4), T.int64(16)))
                for r in T.unroll(T.int64(5)):
                    for v in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(16)):
                            acc[r, v, l] = T.float32(0.0)
                for co, ci, k1, k2 in T.grid(T.int64(2), T.int64(16), T.int64(3), T.int64(3)):
                    for l in T.vectorized(T.int64(16)):
                        x: T.let[T.float32] = T.prefetch(T.prefetch(t1[T.int64(8), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096)), t * T.int64(36864) + co * T.int64(9216) + ci * T.int64(576) + k1 * T.int64(192) + k2 * T.int64(64))
                        x_1: T.let[T.float32] = T.prefetch(T.prefetch(t1[T.int64(9), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096)), t * T.int64(36864) + co * T.int64(9216) + ci * T.int64(576) + k1 * T.int64(192) + k2 * T.int64(64) - T.int64(18368))
                        x_2: T.let[T.float32] = T.prefetch(t1[T.int64(10), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                        x_3: T.let[T.float32] = T.prefetch(t1[T.int64(11), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                        x_4: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, t * T.int64(10) + k2, ci]
                        acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                        acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                        acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                        acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                        x_5: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, t * T.int64(10) + k2 + T.int64(2), ci]
                        acc[T.int64(1), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(1), T.int64(0), l])
                        acc[T.int64(1), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(1), T.int64(1), l])
                        acc[T.int64(1), T.int64(2), l] = T.fma(x_5, x_2, acc[T.int64(1), T.int64(2), l])
                        acc[T.int64(1), T.int64(3), l] = T.fma(x_5, x_3, acc[T.int64(1), T.int64(3), l])
                        x_6: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, t * T.int64(10) + k2 + T.int64(4), ci]
                        acc[T.int64(2), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(2), T.int64(0), l])
                        acc[T.int64(2), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(2), T.int64(1), l])
                        acc[T.int64(2), T.int64(2), l] = T.fma(x_6, x_2, acc[T.int64(2), T.int64(2), l])
                        acc[T.int64(2), T.int64(3), l] = T.fma(x_6, x_3, acc[T.int64(2), T.int64(3), l])
                        x_7: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, t * T.int64(10) + k2 + T.int64(6), ci]
                        acc[T.int64(3), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(3), T.int64(0), l])
                        acc[T.int64(3), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(3), T.int64(1), l])
                        acc[T.int64(3), T.int64(2), l] = T.fma(x_7, x_2, acc[T.int64(3), T.int64(2), l])
                        acc[T.int64(3), T.int64(3), l] = T.fma(x_7, x_3, acc[T.int64(3), T.int64(3), l])
                        x_8: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, t * T.int64(10) + k2 + T.int64(8), ci]
                        acc[T.int64(4), T.int64(0), l] = T.fma(x_8, x, acc[T.int64(4), T.int64(0), l])
                        acc[T.int64(4), T.int64(1), l] = T.fma(x_8, x_1, acc[T.int64(4), T.int64(1), l])
                        acc[T.int64(4), T.int64(2), l] = T.fma(x_8, x_2, acc[T.int64(4), T.int64(2), l])
                        acc[T.int64(4), T.int64(3), l] = T.fma(x_8, x_3, acc[T.int64(4), T.int64(3), l])
                for r in T.unroll(T.int64(5)):
                    for l in T.vectorized(T.int64(16)):
                        t4[T.int64(0), T.int64(8), v_i2, t * T.int64(5) + r, l] = acc[r, T.int64(0), l]
                        t4[T.int64(0), T.int64(9), v_i2, t * T.int64(5) + r, l] = acc[r, T.int64(1), l]
                        t4[T.int64(0), T.int64(10), v_i2, t * T.int64(5) + r, l] = acc[r, T.int64(2), l]
                        t4[T.int64(0), T.int64(11), v_i2, t * T.int64(5) + r, l] = acc[r, T.int64(3), l]
            acc = T.alloc_local((T.int64(4), T.int64(4), T.int64(16)))
            for r in T.unroll(T.int64(4)):
                for v in T.unroll(T.int64(4)):
                    for l in T.vectorized(T.int64(16)):
                        acc[r, v, l] = T.float32(0.0)
            for co, ci, k1, k2 in T.grid(T.int64(2), T.int64(16), T.int64(3), T.int64(3)):
                for l in T.vectorized(T.int64(16)):
                    x: T.let[T.float32] = T.prefetch(T.prefetch(t1[T.int64(8), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096)), co * T.int64(9216) + ci * T.int64(576) + k1 * T.int64(192) + k2 * T.int64(64))
                    x_1: T.let[T.float32] = T.prefetch(T.prefetch(t1[T.int64(9), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096)), co * T.int64(9216) + ci * T.int64(576) + k1 * T.int64(192) + k2 * T.int64(64) - T.int64(18368))
                    x_2: T.let[T.float32] = T.prefetch(t1[T.int64(10), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                    x_3: T.let[T.float32] = T.prefetch(t1[T.int64(11), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                    x_4: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, k2 + T.int64(20), ci]
                    acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                    acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                    acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                    acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                    x_5: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, k2 + T.int64(22), ci]
                    acc[T.int64(1), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(1), T.int64(0), l])
                    acc[T.int64(1), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(1), T.int64(1), l])
                    acc[T.int64(1), T.int64(2), l] = T.fma(x_5, x_2, acc[T.int64(1), T.int64(2), l])
                    acc[T.int64(1), T.int64(3), l] = T.fma(x_5, x_3, acc[T.int64(1), T.int64(3), l])
                    x_6: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, k2 + T.int64(24), ci]
                    acc[T.int64(2), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(2), T.int64(0), l])
                    acc[T.int64(2), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(2), T.int64(1), l])
                    acc[T.int64(2), T.int64(2), l] = T.fma(x_6, x_2, acc[T.int64(2), T.int64(2), l])
                    acc[T.int64(2), T.int64(3), l] = T.fma(x_6, x_3, acc[T.int64(2), T.int64(3), l])
                    x_7: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, k2 + T.int64(26), ci]
                    acc[T.int64(3), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(3), T.int64(0), l])
                    acc[T.int64(3), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(3), T.int64(1), l])
                    acc[T.int64(3), T.int64(2), l] = T.fma(x_7, x_2, acc[T.int64(3), T.int64(2), l])
                    acc[T.int64(3), T.int64(3), l] = T.fma(x_7, x_3, acc[T.int64(3), T.int64(3), l])
            for r in T.unroll(T.int64(4)):
                for l in T.vectorized(T.int64(16)):
                    t4[T.int64(0), T.int64(8), v_i2, r + T.int64(10), l] = acc[r, T.int64(0), l]
                    t4[T.int64(0), T.int64(9), v_i2, r + T.int64(10), l] = acc[r, T.int64(1), l]
                    t4[T.int64(0), T.int64(10), v_i2, r + T.int64(10), l] = acc[r, T.int64(2), l]
                    t4[T.int64(0), T.int64(11), v_i2, r + T.int64(10), l] = acc[r, T.int64(3), l]
    for co, ci in T.grid(T.int64(12), T.int64(16)):
        for m_0 in range(T.int64(12)):
            for m_1 in T.vectorized(T.int64(16)):
                t2[m_0 * T.int64(16) + m_1 + co * T.int64(3136) + ci * T.int64(196)] = t4[m_0 * T.int64(256) + m_1 * T.int64(16) + co * T.int64(3136) + ci]
        for m_tail in T.vectorized(T.int64(4)):
            t2[m_tail + co * T.int64(3136) + ci * T.int64(196) + T.int64(192)] = t4[m_tail * T.int64(16) + co * T.int64(3136) + ci + T.int64(3072)]
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def conv2(t0: T.Buffer((T.int64(1), T.int64(16), T.int64(14), T.int64(14)), "float32"), t1: T.Buffer((T.int64(9), T.int64(16), T.int64(16)), "float32"), t2: T.Buffer((T.int64(1), T.int64(9), T.int64(14), T.int64(14), T.int64(16)), "float32")):
    T.func_attr({"reflex.split_bf16_products": 3})
    for t in range(T.int64(3)):
        for t_1 in T.parallel(T.int64(24)):
            acc = T.alloc_local((T.int64(8), T.int64(3), T.int64(16)))
            for r in T.unroll(T.int64(8)):
                for v in T.unroll(T.int64(3)):
                    for l in T.vectorized(T.int64(16)):
                        acc[r, v, l] = T.float32(0.0)
            for k0 in range(T.int64(16)):
                for l in T.vectorized(T.int64(16)):
                    x: T.let[T.float32] = t1[t * T.int64(768) + l + k0 * T.int64(16)]
                    x_1: T.let[T.float32] = t1[t * T.int64(768) + l + k0 * T.int64(16) + T.int64(256)]
                    x_2: T.let[T.float32] = t1[t * T.int64(768) + l + k0 * T.int64(16) + T.int64(512)]
                    x_3: T.let[T.float32] = t0[t_1 * T.int64(8) + k0 * T.int64(196)]
                    acc[T.int64(0), T.int64(0), l] = T.fma(x_3, x, acc[T.int64(0), T.int64(0), l])
                    acc[T.int64(0), T.int64(1), l] = T.fma(x_3, x_1, acc[T.int64(0), T.int64(1), l])
                    acc[T.int64(0), T.int64(2), l] = T.fma(x_3, x_2, acc[T.int64(0), T.int64(2), l])
                    x_4: T.let[T.float32] = t0[t_1 * T.int64(8) + k0 * T.int64(196) + T.int64(1)]
                    acc[T.int64(1), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(1), T.int64(0), l])
                    acc[T.int64(1), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(1), T.int64(1), l])
                    acc[T.int64(1), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(1), T.int64(2), l])
                    x_5: T.let[T.float32] = t0[t_1 * T.int64(8) + k0 * T.int64(196) + T.int64(2)]
                    acc[T.int64(2), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(2), T.int64(0), l])
                    acc[T.int64(2), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(2), T.int64(1), l])
                    acc[T.int64(2), T.int64(2), l] = T.fma(x_5, x_2, acc[T.int64(2), T.int64(2), l])
                    x_6: T.let[T.float32] = t0[t_1 * T.int64(8) + k0 * T.int64(196) + T.int64(3)]
                    acc[T.int64(3), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(3), T.int64(0), l])
                    acc[T.int64(3), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(3), T.int64(1), l])
                    acc[T.int64(3), T.int64(2), l] = T.fma(x_6, x_2, acc[T.int64(3), T.int64(2), l])
                    x_7: T.let[T.float32] = t0[t_1 * T.int64(8) + k0 * T.int64(196) + T.int64(4)]
                    acc[T.int64(4), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(4), T.int64(0), l])
                    acc[T.int64(4), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(4), T.int64(1), l])
                    acc[T.int64(4), T.int64(2), l] = T.fma(x_7, x_2, acc[T.int64(4), T.int64(2), l])
                    x_8: T.let[T.float32] = t0[t_1 * T.int64(8) + k0 * T.int64(196) + T.int64(5)]
                    acc[T.int64(5), T.int64(0), l] = T.fma(x_8, x, acc[T.int64(5), T.int64(0), l])
                    acc[T.int64(5), T.int64(1), l] = T.fma(x_8, x_1, acc[T.int64(5), T.int64(1), l])
                    acc[T.int64(5), T.int64(2), l] = T.fma(x_8, x_2, acc[T.int64(5), T.int64(2), l])
                    x_9: T.let[T.float32] = t0[t_1 * T.int64(8) + k0 * T.int64(196) + T.int64(6)]
                    acc[T.int64(6), T.int64(0), l] = T.fma(x_9, x, acc[T.int64(6), T.int64(0), l])
                    acc[T.int64(6), T.int64(1), l] = T.fma(x_9, x_1, acc[T.int64(6), T.int64(1), l])
                    acc[T.int64(6), T.int64(2), l] = T.fma(x_9, x_2, acc[T.int64(6), T.int64(2), l])
                    x_10: T.let[T.float32] = t0[t_1 * T.int64(8) + k0 * T.int64(196) + T.int64(7)]
                    acc[T.int64(7), T.int64(0), l] = T.fma(x_10, x, acc[T.int64(7), T.int64(0), l])
                    acc[T.int64(7), T.int64(1), l] = T.fma(x_10, x_1, acc[T.int64(7), T.int64(1), l])
                    acc[T.int64(7), T.int64(2), l] = T.fma(x_10, x_2, acc[T.int64(7), T.int64(2), l])
            acc_local = T.alloc_local((T.int64(8), T.int64(3), T.int64(16)))
            for r in T.unroll(T.int64(8)):
                for v in T.unroll(T.int64(3)):
                    for l in T.vectorized(T.int64(16)):
                        acc_local[r, v, l] = acc[r, v, l]
            for r in range(T.int64(8)):
                for l in T.vectorized(T.int64(16)):
                    t2[t * T.int64(9408) + t_1 * T.int64(128) + r * T.int64(16) + l] = acc_local[r, T.int64(0), l]
                    t2[t * T.int64(9408) + t_1 * T.int64(128) + r * T.int64(16) + l + T.int64(3136)] = acc_local[r, T.int64(1), l]
                    t2[t * T.int64(9408) + t_1 * T.int64(128) + r * T.int64(16) + l + T.int64(6272)] = acc_local[r, T.int64(2), l]
        acc = T.alloc_local((T.int64(4), T.int64(3), T.int64(16)))
        for r in T.unroll(T.int64(4)):
            for v in T.unroll(T.int64(3)):
                for l in T.vectorized(T.int64(16)):
                    acc[r, v, l] = T.float32(0.0)
        for k0 in range(T.int64(16)):
            for l in T.vectorized(T.int64(16)):
                x: T.let[T.float32] = t1[t * T.int64(768) + l + k0 * T.int64(16)]
                x_1: T.let[T.float32] = t1[t * T.int64(768) + l + k0 * T.int64(16) + T.int64(256)]
                x_2: T.let[T.float32] = t1[t * T.int64(768) + l + k0 * T.int64(16) + T.int64(512)]
                x_3: T.let[T.float32] = t0[k0 * T.int64(196) + T.int64(192)]
                acc[T.int64(0), T.int64(0), l] = T.fma(x_3, x, acc[T.int64(0), T.int64(0), l])
                acc[T.int64(0), T.int64(1), l] = T.fma(x_3, x_1, acc[T.int64(0), T.int64(1), l])
                acc[T.int64(0), T.int64(2), l] = T.fma(x_3, x_2, acc[T.int64(0), T.int64(2), l])
                x_4: T.let[T.float32] = t0[k0 * T.int64(196) + T.int64(193)]
                acc[T.int64(1), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(1), T.int64(0), l])
                acc[T.int64(1), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(1), T.int64(1), l])
                acc[T.int64(1), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(1), T.int64(2), l])
                x_5: T.let[T.float32] = t0[k0 * T.int64(196) + T.int64(194)]
                acc[T.int64(2), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(2), T.int64(0), l])
                acc[T.int64(2), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(2), T.int64(1), l])
                acc[T.int64(2), T.int64(2), l] = T.fma(x_5, x_2, acc[T.int64(2), T.int64(2), l])
                x_6: T.let[T.float32] = t0[k0 * T.int64(196) + T.int64(195)]
                acc[T.int64(3), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(3), T.int64(0), l])
                acc[T.int64(3), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(3), T.int64(1), l])
                acc[T.int64(3), T.int64(2), l] = T.fma(x_6, x_2, acc[T.int64(3), T.int64(2), l])
        acc_local = T.alloc_local((T.int64(4), T.int64(3), T.int64(16)))
        for r in T.unroll(T.int64(4)):
            for v in T.unroll(T.int64(3)):
                for l in T.vectorized(T.int64(16)):
                    acc_local[r, v, l] = acc[r, v, l]
        for r in range(T.int64(4)):
            for l in T.vectorized(T.int64(16)):
                t2[t * T.int64(9408) + r * T.int64(16) + l + T.int64(3072)] = acc_local[r, T.int64(0), l]
                t2[t * T.int64(9408) + r * T.int64(16) + l + T.int64(6208)] = acc_local[r, T.int64(1), l]
                t2[t * T.int64(9408) + r * T.int64(16) + l + T.int64(9344)] = acc_local[r, T.int64(2), l]
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def conv3(t0: T.Buffer((T.int64(1), T.int64(9), T.int64(14), T.int64(14), T.int64(16)), "float32"), t1: T.Buffer((T.int64(12), T.int64(144), T.int64(16)), "float32"), t2: T.Buffer((T.int64(1), T.int64(192), T.int64(14), T.int64(14)), "float32")):
    T.func_attr({"reflex.split_bf16_products": 3})
    column_term = T.alloc_buffer((T.int64(12), T.int64(5), T.int64(16), T.int64(16)), "uint32")
    row_term = T.alloc_buffer((T.int64(5), T.int64(211), T.int64(16)), "uint32")
    column_term_1 = T.alloc_buffer((T.int64(12), T.int64(5), T.int64(16), T.int64(16)), "uint32")
    row_term_1 = T.alloc_buffer((T.int64(5), T.int64(211), T.int64(16)), "uint32")
    t3 = T.alloc_buffer((T.int64(1), T.int64(12), T.int64(14), T.int64(14), T.int64(16)))
    ranges = T.alloc_local((T.int64(4),), "int32")
    most = T.alloc_local((T.int64(16),), "int32")
    least = T.alloc_local((T.int64(16),), "int32")
    for l in T.vectorized(T.int64(16)):
        most[l] = 0
        least[l] = 2147483647
    for v in range(T.int64(1764)):
        for l in T.vectorized(T.int64(16)):
            bits: T.let[T.int32] = T.reinterpret("int32", t0[v * T.int64(16) + l]) & 2147483647
            most[l] = T.max(most[l], bits)
            least[l] = T.min(least[l], T.Select(bits == 0, 2147483647, bits))
    ranges[T.int64(0)] = 0
    ranges[T.int64(1)] = 2147483647
    for l in range(T.int64(16)):
        ranges[T.int64(0)] = T.max(ranges[T.int64(0)], most[l])
        ranges[T.int64(1)] = T.min(ranges[T.int64(1)], least[l])
    most_1 = T.alloc_local((T.int64(16),), "int32")
    least_1 = T.alloc_local((T.int64(16),), "int32")
    for l in T.vectorized(T.int64(16)):
        most_1[l] = 0
        least_1[l] = 2147483647
    for v in range(T.int64(1728)):
        for l in T.vectorized(T.int64(16)):
            bits: T.let[T.int32] = T.reinterpret("int32", t1[v * T.int64(16) + l]) & 2147483647
            most_1[l] = T.max(most_1[l], bits)
            least_1[l] = T.min(least_1[l], T.Select(bits == 0, 2147483647, bits))
    ranges[T.int64(2)] = 0
    ranges[T.int64(3)] = 2147483647
    for l in range(T.int64(16)):
        ranges[T.int64(2)] = T.max(ranges[T.int64(2)], most_1[l])
        ranges[T.int64(3)] = T.min(ranges[T.int64(3)], least_1[l])
    if ranges[T.int64(0)] >> 23 <= 227 and ranges[T.int64(2)] >> 23 <= 227 and ranges[T.int64(1)] >> 23 >= 27 and ranges[T.int64(3)] >> 23 >= 27 and (ranges[T.int64(0)] >> 23) + (ranges[T.int64(2)] >> 23) <= 370 and (ranges[T.int64(1)] >> 23) + (ranges[T.int64(3)] >> 23) >= 174:
        for c in T.parallel(T.int64(5)):
            if c < T.int64(4):
                for c_1 in range(T.int64(196)):
                    for c_2 in T.vectorized(T.int64(16)):
                        row_term_1[c, c_1, c_2] = T.pair_bf16(t0[c_1 * T.int64(16) + c * T.int64(6272) + c_2], t0[c_1 * T.int64(16) + c * T.int64(6272) + c_2 + T.int64(3136)])
                for c_1 in range(T.int64(196), T.int64(211)):
                    for c_2 in T.vectorized(T.int64(16)):
                        row_term_1[c, c_1, c_2] = T.uint32(0)
            else:
                for c_1 in range(T.int64(196)):
                    for c_2 in T.vectorized(T.int64(16)):
                        row_term_1[T.int64(4), c_1, c_2] = T.pair_bf16(t0[c_1 * T.int64(16) + c_2 + T.int64(25088)], T.float32(0.0))
                for c_1 in range(T.int64(196), T.int64(211)):
                    for c_2 in T.vectorized(T.int64(16)):
                        row_term_1[T.int64(4), c_1, c_2] = T.uint32(0)
        for c in T.parallel(T.int64(12)):
            for c_1, m_0 in T.grid(T.int64(4), T.int64(16)):
                for m_1 in T.vectorized(T.int64(16)):
                    column_term_1[m_0 * T.int64(16) + m_1 + c * T.int64(1280) + c_1 * T.int64(256)] = T.pair_bf16(t1[m_0 * T.int64(16) + m_1 + c * T.int64(2304) + c_1 * T.int64(512)], t1[m_0 * T.int64(16) + m_1 + c * T.int64(2304) + c_1 * T.int64(512) + T.int64(256)])
            for m_0 in range(T.int64(16)):
                for m_1 in T.vectorized(T.int64(16)):
                    column_term_1[m_0 * T.int64(16) + m_1 + c * T.int64(1280) + T.int64(1024)] = T.pair_bf16(t1[m_0 * T.int64(16) + m_1 + c * T.int64(2304) + T.int64(2048)], T.float32(0.0))
        for c in T.parallel(T.int64(5)):
            if c < T.int64(4):
                for c_1 in range(T.int64(196)):
                    for c_2 in T.vectorized(T.int64(16)):
                        row_term[c, c_1, c_2] = T.pair_bf16(t0[c_1 * T.int64(16) + c * T.int64(6272) + c_2] - T.Cast("float32", T.Cast("bfloat16", t0[c_1 * T.int64(16) + c * T.int64(6272) + c_2])), t0[c_1 * T.int64(16) + c * T.int64(6272) + c_2 + T.int64(3136)] - T.Cast("float32", T.Cast("bfloat16", t0[c_1 * T.int64(16) + c * T.int64(6272) + c_2 + T.int64(3136)])))
                for c_1 in range(T.int64(196), T.int64(211)):
                    for c_2 in T.vectorized(T.int64(16)):
                        row_term[c, c_1, c_2] = T.uint32(0)
            else:
                for c_1 in range(T.int64(196)):
                    for c_2 in T.vectorized(T.int64(16)):
                        row_term[T.int64(4), c_1, c_2] = T.pair_bf16(t0[c_1 * T.int64(16) + c_2 + T.int64(25088)] - T.Cast("float32", T.Cast("bfloat16", t0[c_1 * T.int64(16) + c_2 + T.int64(25088)])), T.float32(0.0) - T.Cast("float32", T.Cast("bfloat16", T.float32(0.0))))
                for c_1 in range(T.int64(196), T.int64(211)):
                    for c_2 in T.vectorized(T.int64(16)):
                        row_term[T.int64(4), c_1, c_2] = T.uint32(0)
        for c in T.parallel(T.int64(12)):
            for c_1, m_0 in T.grid(T.int64(4), T.int64(16)):
                for m_1 in T.vectorized(T.int64(16)):
                    column_term[m_0 * T.int64(16) + m_1 + c * T.int64(1280) + c_1 * T.int64(256)] = T.pair_bf16(t1[m_0 * T.int64(16) + m_1 + c * T.int64(2304) + c_1 * T.int64(512)] - T.Cast("float32", T.Cast("bfloat16", t1[m_0 * T.int64(16) + m_1 + c * T.int64(2304) + c_1 * T.int64(512)])), t1[m_0 * T.int64(16) + m_1 + c * T.int64(2304) + c_1 * T.int64(512) + T.int64(256)] - T.Cast("float32", T.Cast("bfloat16", t1[m_0 * T.int64(16) + m_1 + c * T.int64(2304) + c_1 * T.int64(512) + T.int64(256)])))
            for m_0 in range(T.int64(16)):
                for m_1 in T.vectorized(T.int64(16)):
                    column_term[m_0 * T.int64(16) + m_1 + c * T.int64(1280) + T.int64(1024)] = T.pair_bf16(t1[m_0 * T.int64(16) + m_1 + c * T.int64(2304) + T.int64(2048)] - T.Cast("float32", T.Cast("bfloat16", t1[m_0 * T.int64(16) + m_1 + c * T.int64(2304) + T.int64(2048)])), T.float32(0.0) - T.Cast("float32", T.Cast("bfloat16", T.float32(0.0))))
        for t in range(T.int64(6)):
            for t_1 in T.parallel(T.int64(6)):
                sum = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
                sum_1 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
                sum_2 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
                sum_3 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
                row = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
                row_1 = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
                column = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
                column_1 = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
                tile = T.alloc_local((T.int64(1024),))
                T.tile_zero(sum)
                T.tile_zero(sum_1)
                T.tile_zero(sum_2)
                T.tile_zero(sum_3)
                for pair in range(T.int64(5)):
                    T.tile_load(row, row_term[pair * T.int64(3376) + t_1 * T.int64(512)], T.int64(16))
                    T.tile_load(row_1, row_term[pair * T.int64(3376) + t_1 * T.int64(512) + T.int64(256)], T.int64(16))
                    T.tile_load(column, column_term_1[t * T.int64(2560) + pair * T.int64(256)], T.int64(16))
                    T.tile_load(column_1, column_term_1[t * T.int64(2560) + pair * T.int64(256) + T.int64(1280)], T.int64(16))
                    T.tile_dot_bf16(sum, row, column)
                    T.tile_dot_bf16(sum_1, row, column_1)
                    T.tile_dot_bf16(sum_2, row_1, column)
                    T.tile_dot_bf16(sum_3, row_1, column_1)
                    T.tile_load(row, row_term_1[pair * T.int64(3376) + t_1 * T.int64(512)], T.int64(16))
                    T.tile_load(row_1, row_term_1[pair * T.int64(3376) + t_1 * T.int64(512) + T.int64(256)], T.int64(16))
                    T.tile_dot_bf16(sum, row, column)
                    T.tile_dot_bf16(sum_1, row, column_1)
                    T.tile_dot_bf16(sum_2, row_1, column)
                    T.tile_dot_bf16(sum_3, row_1, column_1)
                    T.tile_load(column, column_term[t * T.int64(2560) + pair * T.int64(256)], T.int64(16))
                    T.tile_load(column_1, column_term[t * T.int64(2560) + pair * T.int64(256) + T.int64(1280)], T.int64(16))
                    T.tile_dot_bf16(sum, row, column)
                    T.tile_dot_bf16(sum_1, row, column_1)
                    T.tile_dot_bf16(sum_2, row_1, column)
                    T.tile_dot_bf16(sum_3, row_1, column_1)
                T.tile_store(sum, tile[T.int64(0)], T.int64(32))
                T.tile_store(sum_1, tile[T.int64(16)], T.int64(32))
                T.tile_store(sum_2, tile[T.int64(512)], T.int64(32))
                T.tile_store(sum_3, tile[T.int64(528)], T.int64(32))
                for r in range(T.int64(32)):
                    for l in T.vectorized(T.int64(16)):
                        t3[t * T.int64(6272) + t_1 * T.int64(512) + r * T.int64(16) + l] = tile[r * T.int64(32) + l]
                        t3[t * T.int64(6272) + t_1 * T.int64(512) + r * T.int64(16) + l + T.int64(3136)] = tile[r * T.int64(32) + l + T.int64(16)]
            sum = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
            sum_1 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
            sum_2 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
            sum_3 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
            row = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
            row_1 = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
            column = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
            column_1 = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
            tile = T.alloc_local((T.int64(512),))
            T.tile_zero(sum)
            T.tile_zero(sum_1)
            for pair in range(T.int64(5)):
                T.tile_load(row, row_term[pair * T.int64(3376) + T.int64(3072)], T.int64(16))
                T.tile_load(column, column_term_1[t * T.int64(2560) + pair * T.int64(256)], T.int64(16))
                T.tile_load(column_1, column_term_1[t * T.int64(2560) + pair * T.int64(256) + T.int64(1280)], T.int64(16))
                T.tile_dot_bf16(sum, row, column)
                T.tile_dot_bf16(sum_1, row, column_1)
                T.tile_load(row, row_term_1[pair * T.int64(3376) + T.int64(3072)], T.int64(16))
                T.tile_dot_bf16(sum, row, column)
                T.tile_dot_bf16(sum_1, row, column_1)
                T.tile_load(column, column_term[t * T.int64(2560) + pair * T.int64(256)], T.int64(16))
                T.tile_load(column_1, column_term[t * T.int64(2560) + pair * T.int64(256) + T.int64(1280)], T.int64(16))
                T.tile_dot_bf16(sum, row, column)
                T.tile_dot_bf16(sum_1, row, column_1)
            T.tile_store(sum, tile[T.int64(0)], T.int64(32))
            T.tile_store(sum_1, tile[T.int64(16)], T.int64(32))
            for r in range(T.int64(4)):
                for l in T.vectorized(T.int64(16)):
                    t3[t * T.int64(6272) + r * T.int64(16) + l + T.int64(3072)] = tile[r * T.int64(32) + l]
                    t3[t * T.int64(6272) + r * T.int64(16) + l + T.int64(6208)] = tile[r * T.int64(32) + l + T.int64(16)]
    else:
        for t in range(T.int64(2)):
            for t_1 in T.parallel(T.int64(32)):
                acc = T.alloc_local((T.int64(6), T.int64(4), T.int64(16)))
                for r in T.unroll(T.int64(6)):
                    for v in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(16)):
                            acc[r, v, l] = T.float32(0.0)
                for co, ci in T.grid(T.int64(9), T.int64(16)):
                    for l in T.vectorized(T.int64(16)):
                        x: T.let[T.float32] = T.prefetch(T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16)], T.int64(4096)), t_1 % T.int64(4) * T.int64(9216) + T.int64(36864))
                        x_1: T.let[T.float32] = T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16) + T.int64(2304)], T.int64(4096))
                        x_2: T.let[T.float32] = T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16) + T.int64(4608)], T.int64(4096))
                        x_3: T.let[T.float32] = T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16) + T.int64(6912)], T.int64(4096))
                        x_4: T.let[T.float32] = t0[t_1 * T.int64(96) + co * T.int64(3136) + ci]
                        acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                        acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                        acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                        acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                        x_5: T.let[T.float32] = t0[t_1 * T.int64(96) + co * T.int64(3136) + ci + T.int64(16)]
                        acc[T.int64(1), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(1), T.int64(0), l])
                        acc[T.int64(1), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(1), T.int64(1), l])
                        acc[T.int64(1), T.int64(2), l] = T.fma(x_5, x_2, acc[T.int64(1), T.int64(2), l])
                        acc[T.int64(1), T.int64(3), l] = T.fma(x_5, x_3, acc[T.int64(1), T.int64(3), l])
                        x_6: T.let[T.float32] = t0[t_1 * T.int64(96) + co * T.int64(3136) + ci + T.int64(32)]
                        acc[T.int64(2), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(2), T.int64(0), l])
                        acc[T.int64(2), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(2), T.int64(1), l])
                        acc[T.int64(2), T.int64(2), l] = T.fma(x_6, x_2, acc[T.int64(2), T.int64(2), l])
                        acc[T.int64(2), T.int64(3), l] = T.fma(x_6, x_3, acc[T.int64(2), T.int64(3), l])
                        x_7: T.let[T.float32] = t0[t_1 * T.int64(96) + co * T.int64(3136) + ci + T.int64(48)]
                        acc[T.int64(3), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(3), T.int64(0), l])
                        acc[T.int64(3), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(3), T.int64(1), l])
                        acc[T.int64(3), T.int64(2), l] = T.fma(x_7, x_2, acc[T.int64(3), T.int64(2), l])
                        acc[T.int64(3), T.int64(3), l] = T.fma(x_7, x_3, acc[T.int64(3), T.int64(3), l])
                        x_8: T.let[T.float32] = t0[t_1 * T.int64(96) + co * T.int64(3136) + ci + T.int64(64)]
                        acc[T.int64(4), T.int64(0), l] = T.fma(x_8, x, acc[T.int64(4), T.int64(0), l])
                        acc[T.int64(4), T.int64(1), l] = T.fma(x_8, x_1, acc[T.int64(4), T.int64(1), l])
                        acc[T.int64(4), T.int64(2), l] = T.fma(x_8, x_2, acc[T.int64(4), T.int64(2), l])
                        acc[T.int64(4), T.int64(3), l] = T.fma(x_8, x_3, acc[T.int64(4), T.int64(3), l])
                        x_9: T.let[T.float32] = t0[t_1 * T.int64(96) + co * T.int64(3136) + ci + T.int64(80)]
                        acc[T.int64(5), T.int64(0), l] = T.fma(x_9, x, acc[T.int64(5), T.int64(0), l])
                        acc[T.int64(5), T.int64(1), l] = T.fma(x_9, x_1, acc[T.int64(5), T.int64(1), l])
                        acc[T.int64(5), T.int64(2), l] = T.fma(x_9, x_2, acc[T.int64(5), T.int64(2), l])
                        acc[T.int64(5), T.int64(3), l] = T.fma(x_9, x_3, acc[T.int64(5), T.int64(3), l])
                for r in T.unroll(T.int64(6)):
                    for l in T.vectorized(T.int64(16)):
                        t3[t * T.int64(12544) + t_1 * T.int64(96) + r * T.int64(16) + l] = acc[r, T.int64(0), l]
                        t3[t * T.int64(12544) + t_1 * T.int64(96) + r * T.int64(16) + l + T.int64(3136)] = acc[r, T.int64(1), l]
                        t3[t * T.int64(12544) + t_1 * T.int64(96) + r * T.int64(16) + l + T.int64(6272)] = acc[r, T.int64(2), l]
                        t3[t * T.int64(12544) + t_1 * T.int64(96) + r * T.int64(16) + l + T.int64(9408)] = acc[r, T.int64(3), l]
            acc = T.alloc_local((T.int64(4), T.int64(4), T.int64(16)))
            for r in T.unroll(T.int64(4)):
                for v in T.unroll(T.int64(4)):
                    for l in T.vectorized(T.int64(16)):
                        acc[r, v, l] = T.float32(0.0)
            for co, ci in T.grid(T.int64(9), T.int64(16)):
                for l in T.vectorized(T.int64(16)):
                    x: T.let[T.float32] = T.prefetch(T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16)], T.int64(4096)), T.int64(36864))
                    x_1: T.let[T.float32] = T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16) + T.int64(2304)], T.int64(4096))
                    x_2: T.let[T.float32] = T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16) + T.int64(4608)], T.int64(4096))
                    x_3: T.let[T.float32] = T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16) + T.int64(6912)], T.int64(4096))
                    x_4: T.let[T.float32] = t0[co * T.int64(3136) + ci + T.int64(3072)]
                    acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                    acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                    acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                    acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                    x_5: T.let[T.float32] = t0[co * T.int64(3136) + ci + T.int64(3088)]
                    acc[T.int64(1), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(1), T.int64(0), l])
                    acc[T.int64(1), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(1), T.int64(1), l])
                    acc[T.int64(1), T.int64(2), l] = T.fma(x_5, x_2, acc[T.int64(1), T.int64(2), l])
                    acc[T.int64(1), T.int64(3), l] = T.fma(x_5, x_3, acc[T.int64(1), T.int64(3), l])
                    x_6: T.let[T.float32] = t0[co * T.int64(3136) + ci + T.int64(3104)]
                    acc[T.int64(2), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(2), T.int64(0), l])
                    acc[T.int64(2), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(2), T.int64(1), l])
                    acc[T.int64(2), T.int64(2), l] = T.fma(x_6, x_2, acc[T.int64(2), T.int64(2), l])
                    acc[T.int64(2), T.int64(3), l] = T.fma(x_6, x_3, acc[T.int64(2), T.int64(3), l])
                    x_7: T.let[T.float32] = t0[co * T.int64(3136) + ci + T.int64(3120)]
                    acc[T.int64(3), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(3), T.int64(0), l])
                    acc[T.int64(3), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(3), T.int64(1), l])
                    acc[T.int64(3), T.int64(2), l] = T.fma(x_7, x_2, acc[T.int64(3), T.int64(2), l])
                    acc[T.int64(3), T.int64(3), l] = T.fma(x_7, x_3, acc[T.int64(3), T.int64(3), l])
            for r in T.unroll(T.int64(4)):
                for l in T.vectorized(T.int64(16)):
                    t3[t * T.int64(12544) + r * T.int64(16) + l + T.int64(3072)] = acc[r, T.int64(0), l]
                    t3[t * T.int64(12544) + r * T.int64(16) + l + T.int64(6208)] = acc[r, T.int64(1), l]
                    t3[t * T.int64(12544) + r * T.int64(16) + l + T.int64(9344)] = acc[r, T.int64(2), l]
                    t3[t * T.int64(12544) + r * T.int64(16) + l + T.int64(12480)] = acc[r, T.int64(3), l]
        for t in T.parallel(T.int64(32)):
            acc = T.alloc_local((T.int64(6), T.int64(4), T.int64(16)))
            for r in T.unroll(T.int64(6)):
                for v in T.unroll(T.int64(4)):
                    for l in T.vectorized(T.int64(16)):
                        acc[r, v, l] = T.float32(0.0)
            for co, ci in T.grid(T.int64(9), T.int64(16)):
                for l in T.vectorized(T.int64(16)):
                    x: T.let[T.float32] = T.prefetch(T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(18432)], T.int64(4096)), t % T.int64(4) * T.int64(9216))
                    x_1: T.let[T.float32] = T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(20736)], T.int64(4096))
                    x_2: T.let[T.float32] = T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(23040)], T.int64(4096))
                    x_3: T.let[T.float32] = T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(25344)], T.int64(4096))
                    x_4: T.let[T.float32] = t0[t * T.int64(96) + co * T.int64(3136) + ci]
                    acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                    acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                    acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                    acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                    x_5: T.let[T.float32] = t0[t * T.int64(96) + co * T.int64(3136) + ci + T.int64(16)]
                    acc[T.int64(1), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(1), T.int64(0), l])
                    acc[T.int64(1), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(1), T.int64(1), l])
                    acc[T.int64(1), T.int64(2), l] = T.fma(x_5, x_2, acc[T.int64(1), T.int64(2), l])
                    acc[T.int64(1), T.int64(3), l] = T.fma(x_5, x_3, acc[T.int64(1), T.int64(3), l])
                    x_6: T.let[T.float32] = t0[t * T.int64(96) + co * T.int64(3136) + ci + T.int64(32)]
                    acc[T.int64(2), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(2), T.int64(0), l])
                    acc[T.int64(2), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(2), T.int64(1), l])
                    acc[T.int64(2), T.int64(2), l] = T.fma(x_6, x_2, acc[T.int64(2), T.int64(2), l])
                    acc[T.int64(2), T.int64(3), l] = T.fma(x_6, x_3, acc[T.int64(2), T.int64(3), l])
                    x_7: T.let[T.float32] = t0[t * T.int64(96) + co * T.int64(3136) + ci + T.int64(48)]
                    acc[T.int64(3), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(3), T.int64(0), l])
                    acc[T.int64(3), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(3), T.int64(1), l])
                    acc[T.int64(3), T.int64(2), l] = T.fma(x_7, x_2, acc[T.int64(3), T.int64(2), l])
                    acc[T.int64(3), T.int64(3), l] = T.fma(x_7, x_3, acc[T.int64(3), T.int64(3), l])
                    x_8: T.let[T.float32] = t0[t * T.int64(96) + co * T.int64(3136) + ci + T.int64(64)]
                    acc[T.int64(4), T.int64(0), l] = T.fma(x_8, x, acc[T.int64(4), T.int64(0), l])
                    acc[T.int64(4), T.int64(1), l] = T.fma(x_8, x_1, acc[T.int64(4), T.int64(1), l])
                    acc[T.int64(4), T.int64(2), l] = T.fma(x_8, x_2, acc[T.int64(4), T.int64(2), l])
                    acc[T.int64(4), T.int64(3), l] = T.fma(x_8, x_3, acc[T.int64(4), T.int64(3), l])
                    x_9: T.let[T.float32] = t0[t * T.int64(96) + co * T.int64(3136) + ci + T.int64(80)]
                    acc[T.int64(5), T.int64(0), l] = T.fma(x_9, x, acc[T.int64(5), T.int64(0), l])
                    acc[T.int64(5), T.int64(1), l] = T.fma(x_9, x_1, acc[T.int64(5), T.int64(1), l])
                    acc[T.int64(5), T.int64(2), l] = T.fma(x_9, x_2, acc[T.int64(5), T.int64(2), l])
                    acc[T.int64(5), T.int64(3), l] = T.fma(x_9, x_3, acc[T.int64(5), T.int64(3), l])
            for r in T.unroll(T.int64(6)):
                for l in T.vectorized(T.int64(16)):
                    t3[t * T.int64(96) + r * T.int64(16) + l + T.int64(25088)] = acc[r, T.int64(0), l]
                    t3[t * T.int64(96) + r * T.int64(16) + l + T.int64(28224)] = acc[r, T.int64(1), l]
                    t3[t * T.int64(96) + r * T.int64(16) + l + T.int64(31360)] = acc[r, T.int64(2), l]
                    t3[t * T.int64(96) + r * T.int64(16) + l + T.int64(34496)] = acc[r, T.int64(3), l]
        acc = T.alloc_local((T.int64(4), T.int64(4), T.int64(16)))
        for r in T.unroll(T.int64(4)):
            for v in T.unroll(T.int64(4)):
                for l in T.vectorized(T.int64(16)):
                    acc[r, v, l] = T.float32(0.0)
        for co, ci in T.grid(T.int64(9), T.int64(16)):
            for l in T.vectorized(T.int64(16)):
                x: T.let[T.float32] = T.prefetch(T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(18432)], T.int64(4096)), T.int64(0))
                x_1: T.let[T.float32] = T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(20736)], T.int64(4096))
                x_2: T.let[T.float32] = T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(23040)], T.int64(4096))
                x_3: T.let[T.float32] = T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(25344)], T.int64(4096))
                x_4: T.let[T.float32] = t0[co * T.int64(3136) + ci + T.int64(3072)]
                acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                x_5: T.let[T.float32] = t0[co * T.int64(3136) + ci + T.int64(3088)]
                acc[T.int64(1), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(1), T.int64(0), l])
                acc[T.int64(1), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(1), T.int64(1), l])
                acc[T.int64(1), T.int64(2), l] = T.fma(x_5, x_2, acc[T.int64(1), T.int64(2), l])
                acc[T.int64(1), T.int64(3), l] = T.fma(x_5, x_3, acc[T.int64(1), T.int64(3), l])
                x_6: T.let[T.float32] = t0[co * T.int64(3136) + ci + T.int64(3104)]
                acc[T.int64(2), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(2), T.int64(0), l])
                acc[T.int64(2), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(2), T.int64(1), l])
                acc[T.int64(2), T.int64(2), l] = T.fma(x_6, x_2, acc[T.int64(2), T.int64(2), l])
                acc[T.int64(2), T.int64(3), l] = T.fma(x_6, x_3, acc[T.int64(2), T.int64(3), l])
                x_7: T.let[T.float32] = t0[co * T.int64(3136) + ci + T.int64(3120)]
                acc[T.int64(3), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(3), T.int64(0), l])
                acc[T.int64(3), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(3), T.int64(1), l])
                acc[T.int64(3), T.int64(2), l] = T.fma(x_7, x_2, acc[T.int64(3), T.int64(2), l])
                acc[T.int64(3), T.int64(3), l] = T.fma(x_7, x_3, acc[T.int64(3), T.int64(3), l])
        for r in T.unroll(T.int64(4)):
            for l in T.vectorized(T.int64(16)):
                t3[r * T.int64(16) + l + T.int64(28160)] = acc[r, T.int64(0), l]
                t3[r * T.int64(16) + l + T.int64(31296)] = acc[r, T.int64(1), l]
                t3[r * T.int64(16) + l + T.int64(34432)] = acc[r, T.int64(2), l]
                t3[r * T.int64(16) + l + T.int64(37568)] = acc[r, T.int64(3), l]
    for co, ci in T.grid(T.int64(12), T.int64(16)):
        for m_0 in range(T.int64(12)):
            for m_1 in T.vectorized(T.int64(16)):
                t2[m_0 * T.int64(16) + m_1 + co * T.int64(3136) + ci * T.int64(196)] = t3[m_0 * T.int64(256) + m_1 * T.int64(16) + co * T.int64(3136) + ci]
        for m_tail in T.vectorized(T.int64(4)):
            t2[m_tail + co * T.int64(3136) + ci * T.int64(196) + T.int64(192)] = t3[m_tail * T.int64(16) + co * T.int64(3136) + ci + T.int64(3072)]
