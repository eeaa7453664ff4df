# after: lower
# precision: f32-fast
# amx
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((197, 128), dtype="float32"), w: R.Tensor((128, 192), dtype="float32")) -> R.Tensor((197, 192), dtype="float32"):
        y: R.Tensor((197, 192), dtype="float32") = R.matmul(x, w)
        return y
# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def mat_mul(t0: T.Buffer((T.int64(197), T.int64(128)), "float32"), t1: T.Buffer((T.int64(128), T.int64(192)), "float32"), t2: T.Buffer((T.int64(197), T.int64(192)), "float32")):
    T.func_attr({"reflex.split_bf16_products": 3})
    column_term = T.alloc_buffer((T.int64(64), T.int64(192)), "uint32")
    row_term = T.alloc_buffer((T.int64(12608),), "uint32")
    column_term_1 = T.alloc_buffer((T.int64(64), T.int64(192)), "uint32")
    row_term_1 = T.alloc_buffer((T.int64(12608),), "uint32")
    ranges = T.alloc_local((T.int64(4),), "int32")
    most = T.alloc_local((T.int64(16),), "int32")
    least = T.alloc_local((T.int64(16),), "int32")
    for l in T.vectorized(T.int64(16)):
        most[l] = 0
        least[l] = 2147483647
    for v in range(T.int64(1576)):
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
    for v in range(T.int64(1536)):
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
        for p_0 in T.parallel(T.int64(6)):
            for p_1_0 in range(T.int64(128)):
                for p_1_1 in T.vectorized(T.int64(16)):
                    row_term_1[p_0 * T.int64(2048) + p_1_0 * T.int64(16) + p_1_1] = T.pair_bf16(t0[p_0 * T.int64(4096) + p_1_0 * T.int64(32) + p_1_1 * T.int64(2)], t0[p_0 * T.int64(4096) + p_1_0 * T.int64(32) + p_1_1 * T.int64(2) + T.int64(1)])
        for p_tail_0 in range(T.int64(20)):
            for p_tail_1 in T.vectorized(T.int64(16)):
                row_term_1[p_tail_0 * T.int64(16) + p_tail_1 + T.int64(12288)] = T.pair_bf16(t0[p_tail_0 * T.int64(32) + p_tail_1 * T.int64(2) + T.int64(24576)], t0[p_tail_0 * T.int64(32) + p_tail_1 * T.int64(2) + T.int64(24577)])
        for c in T.parallel(T.int64(64)):
            for c_0 in range(T.int64(12)):
                for c_1 in T.vectorized(T.int64(16)):
                    column_term_1[c, c_0 * T.int64(16) + c_1] = T.pair_bf16(t1[c * T.int64(2), c_0 * T.int64(16) + c_1], t1[c * T.int64(2) + T.int64(1), c_0 * T.int64(16) + c_1])
        for p_0 in T.parallel(T.int64(6)):
            for p_1_0 in range(T.int64(128)):
                for p_1_1 in T.vectorized(T.int64(16)):
                    row_term[p_0 * T.int64(2048) + p_1_0 * T.int64(16) + p_1_1] = T.pair_bf16(t0[p_0 * T.int64(4096) + p_1_0 * T.int64(32) + p_1_1 * T.int64(2)] - T.Cast("float32", T.Cast("bfloat16", t0[p_0 * T.int64(4096) + p_1_0 * T.int64(32) + p_1_1 * T.int64(2)])), t0[p_0 * T.int64(4096) + p_1_0 * T.int64(32) + p_1_1 * T.int64(2) + T.int64(1)] - T.Cast("float32", T.Cast("bfloat16", t0[p_0 * T.int64(4096) + p_1_0 * T.int64(32) + p_1_1 * T.int64(2) + T.int64(1)])))
        for p_tail_0 in range(T.int64(20)):
            for p_tail_1 in T.vectorized(T.int64(16)):
                row_term[p_tail_0 * T.int64(16) + p_tail_1 + T.int64(12288)] = T.pair_bf16(t0[p_tail_0 * T.int64(32) + p_tail_1 * T.int64(2) + T.int64(24576)] - T.Cast("float32", T.Cast("bfloat16", t0[p_tail_0 * T.int64(32) + p_tail_1 * T.int64(2) + T.int64(24576)])), t0[p_tail_0 * T.int64(32) + p_tail_1 * T.int64(2) + T.int64(24577)] - T.Cast("float32", T.Cast("bfloat16", t0[p_tail_0 * T.int64(32) + p_tail_1 * T.int64(2) + T.int64(24577)])))
        for c in T.parallel(T.int64(64)):
            for c_0 in range(T.int64(12)):
                for c_1 in T.vectorized(T.int64(16)):
                    column_term[c, c_0 * T.int64(16) + c_1] = T.pair_bf16(t1[c * T.int64(2), c_0 * T.int64(16) + c_1] - T.Cast("float32", T.Cast("bfloat16", t1[c * T.int64(2), c_0 * T.int64(16) + c_1])), t1[c * T.int64(2) + T.int64(1), c_0 * T.int64(16) + c_1] - T.Cast("float32", T.Cast("bfloat16", t1[c * T.int64(2) + T.int64(1), c_0 * T.int64(16) + c_1])))
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
                for step in range(T.int64(4)):
                    T.tile_load(row, row_term[t_1 * T.int64(2048) + step * T.int64(16)], T.int64(64))
                    T.tile_load(row_1, row_term[t_1 * T.int64(2048) + step * T.int64(16) + T.int64(1024)], T.int64(64))
                    T.tile_load(column, column_term_1[step * T.int64(3072) + t * T.int64(32)], T.int64(192))
                    T.tile_load(column_1, column_term_1[step * T.int64(3072) + t * T.int64(32) + T.int64(16)], T.int64(192))
                    T.tile_dot_bf16(sum, row, column)
                    T.tile_dot_bf16(sum_1, row, column_1)
                    T.tile_dot_bf16(sum_2, row_1, column)
                    T.tile_dot_bf16(sum_3, row_1, column_1)
                    T.tile_load(row, row_term_1[t_1 * T.int64(2048) + step * T.int64(16)], T.int64(64))
                    T.tile_load(row_1, row_term_1[t_1 * T.int64(2048) + step * T.int64(16) + T.int64(1024)], T.int64(64))
                    T.tile_dot_bf16(sum, row, column)
                    T.tile_dot_bf16(sum_1, row, column_1)
                    T.tile_dot_bf16(sum_2, row_1, column)
                    T.tile_dot_bf16(sum_3, row_1, column_1)
                    T.tile_load(column, column_term[step * T.int64(3072) + t * T.int64(32)], T.int64(192))
                    T.tile_load(column_1, column_term[step * T.int64(3072) + t * T.int64(32) + T.int64(16)], T.int64(192))
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
                        t2[t_1 * T.int64(32) + r, t * T.int64(32) + l] = tile[r * T.int64(32) + l]
                        t2[t_1 * T.int64(32) + r, t * T.int64(32) + l + T.int64(16)] = tile[r * T.int64(32) + l + T.int64(16)]
            acc = T.alloc_local((T.int64(5), T.int64(2), T.int64(16)))
            for r in T.unroll(T.int64(5)):
                for v in T.unroll(T.int64(2)):
                    for l in T.vectorized(T.int64(16)):
                        acc[r, v, l] = T.float32(0.0)
            for k0 in range(T.int64(128)):
                for l in T.vectorized(T.int64(16)):
                    x: T.let[T.float32] = t1[k0, t * T.int64(32) + l]
                    x_1: T.let[T.float32] = t1[k0, t * T.int64(32) + l + T.int64(16)]
                    x_2: T.let[T.float32] = t0[T.int64(192), k0]
                    acc[T.int64(0), T.int64(0), l] = T.fma(x_2, x, acc[T.int64(0), T.int64(0), l])
                    acc[T.int64(0), T.int64(1), l] = T.fma(x_2, x_1, acc[T.int64(0), T.int64(1), l])
                    x_3: T.let[T.float32] = t0[T.int64(193), k0]
                    acc[T.int64(1), T.int64(0), l] = T.fma(x_3, x, acc[T.int64(1), T.int64(0), l])
                    acc[T.int64(1), T.int64(1), l] = T.fma(x_3, x_1, acc[T.int64(1), T.int64(1), l])
                    x_4: T.let[T.float32] = t0[T.int64(194), k0]
                    acc[T.int64(2), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(2), T.int64(0), l])
                    acc[T.int64(2), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(2), T.int64(1), l])
                    x_5: T.let[T.float32] = t0[T.int64(195), k0]
                    acc[T.int64(3), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(3), T.int64(0), l])
                    acc[T.int64(3), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(3), T.int64(1), l])
                    x_6: T.let[T.float32] = t0[T.int64(196), k0]
                    acc[T.int64(4), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(4), T.int64(0), l])
                    acc[T.int64(4), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(4), T.int64(1), l])
            for r in T.unroll(T.int64(5)):
                for l in T.vectorized(T.int64(16)):
                    t2[r + T.int64(192), t * T.int64(32) + l] = acc[r, T.int64(0), l]
                    t2[r + T.int64(192), t * T.int64(32) + l + T.int64(16)] = acc[r, T.int64(1), l]
    else:
        for t in range(T.int64(6)):
            for t_1 in T.parallel(T.int64(16)):
                acc = T.alloc_local((T.int64(12), T.int64(2), T.int64(16)))
                for r in T.unroll(T.int64(12)):
                    for v in T.unroll(T.int64(2)):
                        for l in T.vectorized(T.int64(16)):
                            acc[r, v, l] = T.float32(0.0)
                for k0 in range(T.int64(128)):
                    for l in T.vectorized(T.int64(16)):
                        x: T.let[T.float32] = t1[k0, t * T.int64(32) + l]
                        x_1: T.let[T.float32] = t1[k0, t * T.int64(32) + l + T.int64(16)]
                        x_2: T.let[T.float32] = t0[t_1 * T.int64(12), k0]
                        acc[T.int64(0), T.int64(0), l] = T.fma(x_2, x, acc[T.int64(0), T.int64(0), l])
                        acc[T.int64(0), T.int64(1), l] = T.fma(x_2, x_1, acc[T.int64(0), T.int64(1), l])
                        x_3: T.let[T.float32] = t0[t_1 * T.int64(12) + T.int64(1), k0]
                        acc[T.int64(1), T.int64(0), l] = T.fma(x_3, x, acc[T.int64(1), T.int64(0), l])
                        acc[T.int64(1), T.int64(1), l] = T.fma(x_3, x_1, acc[T.int64(1), T.int64(1), l])
                        x_4: T.let[T.float32] = t0[t_1 * T.int64(12) + T.int64(2), k0]
                        acc[T.int64(2), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(2), T.int64(0), l])
                        acc[T.int64(2), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(2), T.int64(1), l])
                        x_5: T.let[T.float32] = t0[t_1 * T.int64(12) + T.int64(3), k0]
                        acc[T.int64(3), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(3), T.int64(0), l])
                        acc[T.int64(3), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(3), T.int64(1), l])
                        x_6: T.let[T.float32] = t0[t_1 * T.int64(12) + T.int64(4), k0]
                        acc[T.int64(4), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(4), T.int64(0), l])
                        acc[T.int64(4), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(4), T.int64(1), l])
                        x_7: T.let[T.float32] = t0[t_1 * T.int64(12) + T.int64(5), k0]
                        acc[T.int64(5), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(5), T.int64(0), l])
                        acc[T.int64(5), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(5), T.int64(1), l])
                        x_8: T.let[T.float32] = t0[t_1 * T.int64(12) + T.int64(6), k0]
                        acc[T.int64(6), T.int64(0), l] = T.fma(x_8, x, acc[T.int64(6), T.int64(0), l])
                        acc[T.int64(6), T.int64(1), l] = T.fma(x_8, x_1, acc[T.int64(6), T.int64(1), l])
                        x_9: T.let[T.float32] = t0[t_1 * T.int64(12) + T.int64(7), k0]
                        acc[T.int64(7), T.int64(0), l] = T.fma(x_9, x, acc[T.int64(7), T.int64(0), l])
                        acc[T.int64(7), T.int64(1), l] = T.fma(x_9, x_1, acc[T.int64(7), T.int64(1), l])
                        x_10: T.let[T.float32] = t0[t_1 * T.int64(12) + T.int64(8), k0]
                        acc[T.int64(8), T.int64(0), l] = T.fma(x_10, x, acc[T.int64(8), T.int64(0), l])
                        acc[T.int64(8), T.int64(1), l] = T.fma(x_10, x_1, acc[T.int64(8), T.int64(1), l])
                        x_11: T.let[T.float32] = t0[t_1 * T.int64(12) + T.int64(9), k0]
                        acc[T.int64(9), T.int64(0), l] = T.fma(x_11, x, acc[T.int64(9), T.int64(0), l])
                        acc[T.int64(9), T.int64(1), l] = T.fma(x_11, x_1, acc[T.int64(9), T.int64(1), l])
                        x_12: T.let[T.float32] = t0[t_1 * T.int64(12) + T.int64(10), k0]
                        acc[T.int64(10), T.int64(0), l] = T.fma(x_12, x, acc[T.int64(10), T.int64(0), l])
                        acc[T.int64(10), T.int64(1), l] = T.fma(x_12, x_1, acc[T.int64(10), T.int64(1), l])
                        x_13: T.let[T.float32] = t0[t_1 * T.int64(12) + T.int64(11), k0]
                        acc[T.int64(11), T.int64(0), l] = T.fma(x_13, x, acc[T.int64(11), T.int64(0), l])
                        acc[T.int64(11), T.int64(1), l] = T.fma(x_13, x_1, acc[T.int64(11), T.int64(1), l])
                for r in T.unroll(T.int64(12)):
                    for l in T.vectorized(T.int64(16)):
                        t2[t_1 * T.int64(12) + r, t * T.int64(32) + l] = acc[r, T.int64(0), l]
                        t2[t_1 * T.int64(12) + r, t * T.int64(32) + l + T.int64(16)] = acc[r, T.int64(1), l]
            acc = T.alloc_local((T.int64(5), T.int64(2), T.int64(16)))
            for r in T.unroll(T.int64(5)):
                for v in T.unroll(T.int64(2)):
                    for l in T.vectorized(T.int64(16)):
                        acc[r, v, l] = T.float32(0.0)
            for k0 in range(T.int64(128)):
                for l in T.vectorized(T.int64(16)):
                    x: T.let[T.float32] = t1[k0, t * T.int64(32) + l]
                    x_1: T.let[T.float32] = t1[k0, t * T.int64(32) + l + T.int64(16)]
                    x_2: T.let[T.float32] = t0[T.int64(192), k0]
                    acc[T.int64(0), T.int64(0), l] = T.fma(x_2, x, acc[T.int64(0), T.int64(0), l])
                    acc[T.int64(0), T.int64(1), l] = T.fma(x_2, x_1, acc[T.int64(0), T.int64(1), l])
                    x_3: T.let[T.float32] = t0[T.int64(193), k0]
                    acc[T.int64(1), T.int64(0), l] = T.fma(x_3, x, acc[T.int64(1), T.int64(0), l])
                    acc[T.int64(1), T.int64(1), l] = T.fma(x_3, x_1, acc[T.int64(1), T.int64(1), l])
                    x_4: T.let[T.float32] = t0[T.int64(194), k0]
                    acc[T.int64(2), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(2), T.int64(0), l])
                    acc[T.int64(2), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(2), T.int64(1), l])
                    x_5: T.let[T.float32] = t0[T.int64(195), k0]
                    acc[T.int64(3), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(3), T.int64(0), l])
                    acc[T.int64(3), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(3), T.int64(1), l])
                    x_6: T.let[T.float32] = t0[T.int64(196), k0]
                    acc[T.int64(4), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(4), T.int64(0), l])
                    acc[T.int64(4), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(4), T.int64(1), l])
            for r in T.unroll(T.int64(5)):
                for l in T.vectorized(T.int64(16)):
                    t2[r + T.int64(192), t * T.int64(32) + l] = acc[r, T.int64(0), l]
                    t2[r + T.int64(192), t * T.int64(32) + l + T.int64(16)] = acc[r, T.int64(1), l]
