# after: lower
# precision: bf16
# amx
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 16, 28, 28), dtype="float32"), y: R.Tensor((1, 16, 14, 14), dtype="float32")) -> R.Tuple(R.Tensor((1, 192, 14, 14), dtype="float32"), R.Tensor((1, 192, 14, 14), dtype="float32")):
        u: R.Tensor((32, 16, 1, 1), dtype="float32") = R.zeros(R.shape([32, 16, 1, 1]), dtype="float32")
        v: R.Tensor((192, 32, 3, 3), dtype="float32") = R.zeros(R.shape([192, 32, 3, 3]), dtype="float32")
        t: R.Tensor((96, 16, 1, 1), dtype="float32") = R.zeros(R.shape([96, 16, 1, 1]), dtype="float32")
        w: R.Tensor((192, 96, 1, 1), dtype="float32") = R.zeros(R.shape([192, 96, 1, 1]), dtype="float32")
        a: R.Tensor((1, 32, 28, 28), dtype="float32") = R.nn.conv2d(x, u)
        b: R.Tensor((1, 192, 14, 14), dtype="float32") = R.nn.conv2d(a, v, strides=[2, 2], padding=[1, 1, 1, 1])
        c: R.Tensor((1, 96, 14, 14), dtype="float32") = R.nn.conv2d(y, t)
        d: R.Tensor((1, 192, 14, 14), dtype="float32") = R.nn.conv2d(c, w)
        return (b, d)
# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def conv(t0: T.Buffer((T.int64(1), T.int64(2), T.int64(28), T.int64(28), T.int64(16)), "bfloat16"), t1: T.Buffer((T.int64(12), T.int64(144), T.int64(16)), "uint32"), t2: T.Buffer((T.int64(1), T.int64(192), T.int64(14), T.int64(14)), "float32")):
    row_words = T.alloc_buffer((T.int64(1), T.int64(3), T.int64(3), T.int64(16), T.int64(14), T.int64(16)), "uint32")
    t4 = T.alloc_buffer((T.int64(1), T.int64(12), T.int64(14), T.int64(14), T.int64(16)))
    t3 = T.alloc_buffer((T.int64(1), T.int64(2), T.int64(30), T.int64(30), T.int64(8)), "uint32")
    for co in range(T.int64(2)):
        for i2 in T.parallel(T.int64(30)):
            if i2 >= T.int64(1) and i2 < T.int64(29):
                for i3 in range(T.int64(30)):
                    if i3 >= T.int64(1) and i3 < T.int64(29):
                        for ci in T.vectorized(T.int64(8)):
                            t3[T.int64(0), co, i2, i3, ci] = T.pair_bf16(t0[T.int64(0), co, i2 - T.int64(1), i3 - T.int64(1), ci * T.int64(2)], t0[T.int64(0), co, i2 - T.int64(1), i3 - T.int64(1), ci * T.int64(2) + T.int64(1)])
                    else:
                        if i3 < T.int64(1):
                            for ci in T.vectorized(T.int64(8)):
                                t3[T.int64(0), co, i2, T.int64(0), ci] = T.uint32(0)
                        else:
                            for ci in T.vectorized(T.int64(8)):
                                t3[T.int64(0), co, i2, T.int64(29), ci] = T.uint32(0)
            else:
                if i2 < T.int64(1):
                    for i3 in range(T.int64(30)):
                        for ci in T.vectorized(T.int64(8)):
                            t3[T.int64(0), co, T.int64(0), i3, ci] = T.uint32(0)
                else:
                    for i3 in range(T.int64(30)):
                        for ci in T.vectorized(T.int64(8)):
                            t3[T.int64(0), co, T.int64(29), i3, ci] = T.uint32(0)
    for c, c_1 in T.grid(T.int64(3), T.int64(3)):
        for c_2 in T.parallel(T.int64(16)):
            if c_2 < T.int64(14):
                for c_3, half in T.grid(T.int64(14), T.int64(2)):
                    for c_4 in T.vectorized(T.int64(8)):
                        row_words[T.int64(0), c, c_1, c_2, c_3, half * T.int64(8) + c_4] = t3[T.int64(0), half, c_2 * T.int64(2) + c, c_3 * T.int64(2) + c_1, c_4]
            else:
                for c_3, half in T.grid(T.int64(14), T.int64(2)):
                    for c_4 in T.vectorized(T.int64(8)):
                        row_words[T.int64(0), c, c_1, c_2, c_3, half * T.int64(8) + c_4] = T.uint32(0)
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
                T.tile_load(row, row_words[t_1 * T.int64(512) + m * T.int64(3584)], T.int64(16))
                T.tile_load(row_1, row_words[t_1 * T.int64(512) + m * T.int64(3584) + T.int64(256)], T.int64(16))
                T.tile_load(column, t1[t * T.int64(4608) + m * T.int64(16)], T.int64(144))
                T.tile_load(column_1, t1[t * T.int64(4608) + m * T.int64(16) + T.int64(2304)], T.int64(144))
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
            T.tile_load(row, row_words[m * T.int64(3584) + T.int64(3072)], T.int64(16))
            T.tile_load(column, t1[t * T.int64(4608) + m * T.int64(16)], T.int64(144))
            T.tile_load(column_1, t1[t * T.int64(4608) + m * T.int64(16) + T.int64(2304)], T.int64(144))
            T.tile_dot_bf16(sum, row, column)
            T.tile_dot_bf16(sum_1, row, column_1)
        T.tile_store(sum, tile[T.int64(0)], T.int64(32))
        T.tile_store(sum_1, tile[T.int64(16)], T.int64(32))
        for r in range(T.int64(4)):
            for l in T.vectorized(T.int64(16)):
                t4[t * T.int64(6272) + r * T.int64(16) + l + T.int64(3072)] = tile[r * T.int64(32) + l]
                t4[t * T.int64(6272) + r * T.int64(16) + l + T.int64(6208)] = tile[r * T.int64(32) + l + T.int64(16)]
    for co, ci in T.grid(T.int64(12), T.int64(16)):
        for m_0 in range(T.int64(12)):
            for m_1 in T.vectorized(T.int64(16)):
                t2[m_0 * T.int64(16) + m_1 + co * T.int64(3136) + ci * T.int64(196)] = t4[m_0 * T.int64(256) + m_1 * T.int64(16) + co * T.int64(3136) + ci]
        for m_tail in T.vectorized(T.int64(4)):
            t2[m_tail + co * T.int64(3136) + ci * T.int64(196) + T.int64(192)] = t4[m_tail * T.int64(16) + co * T.int64(3136) + ci + T.int64(3072)]
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def conv1(t0: T.Buffer((T.int64(1), T.int64(6), T.int64(14), T.int64(14), T.int64(16)), "bfloat16"), t1: T.Buffer((T.int64(12), T.int64(48), T.int64(16)), "uint32"), t2: T.Buffer((T.int64(1), T.int64(192), T.int64(14), T.int64(14)), "float32")):
    row_words = T.alloc_buffer((T.int64(3), T.int64(211), T.int64(16)), "uint32")
    t4 = T.alloc_buffer((T.int64(1), T.int64(12), T.int64(14), T.int64(14), T.int64(16)))
    t3 = T.alloc_buffer((T.int64(1), T.int64(6), T.int64(14), T.int64(14), T.int64(8)), "uint32")
    for m_0 in range(T.int64(588)):
        for m_1 in T.vectorized(T.int64(16)):
            t3[m_0 * T.int64(16) + m_1] = T.pair_bf16(t0[m_0 * T.int64(32) + m_1 * T.int64(2)], t0[m_0 * T.int64(32) + m_1 * T.int64(2) + T.int64(1)])
    for c in range(T.int64(3)):
        for c_1 in T.parallel(T.int64(211)):
            if c_1 < T.int64(196):
                for half in range(T.int64(2)):
                    for c_2 in T.vectorized(T.int64(8)):
                        row_words[c, c_1, half * T.int64(8) + c_2] = t3[c_1 * T.int64(8) + c * T.int64(3136) + half * T.int64(1568) + c_2]
            else:
                for half in range(T.int64(2)):
                    for c_2 in T.vectorized(T.int64(8)):
                        row_words[c, c_1, half * T.int64(8) + c_2] = T.uint32(0)
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
            for pair in range(T.int64(3)):
                T.tile_load(row, row_words[pair * T.int64(3376) + t_1 * T.int64(512)], T.int64(16))
                T.tile_load(row_1, row_words[pair * T.int64(3376) + t_1 * T.int64(512) + T.int64(256)], T.int64(16))
                T.tile_load(column, t1[t * T.int64(1536) + pair * T.int64(256)], T.int64(16))
                T.tile_load(column_1, t1[t * T.int64(1536) + pair * T.int64(256) + T.int64(768)], T.int64(16))
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
        for pair in range(T.int64(3)):
            T.tile_load(row, row_words[pair * T.int64(3376) + T.int64(3072)], T.int64(16))
            T.tile_load(column, t1[t * T.int64(1536) + pair * T.int64(256)], T.int64(16))
            T.tile_load(column_1, t1[t * T.int64(1536) + pair * T.int64(256) + T.int64(768)], T.int64(16))
            T.tile_dot_bf16(sum, row, column)
            T.tile_dot_bf16(sum_1, row, column_1)
        T.tile_store(sum, tile[T.int64(0)], T.int64(32))
        T.tile_store(sum_1, tile[T.int64(16)], T.int64(32))
        for r in range(T.int64(4)):
            for l in T.vectorized(T.int64(16)):
                t4[t * T.int64(6272) + r * T.int64(16) + l + T.int64(3072)] = tile[r * T.int64(32) + l]
                t4[t * T.int64(6272) + r * T.int64(16) + l + T.int64(6208)] = tile[r * T.int64(32) + l + T.int64(16)]
    for co, ci in T.grid(T.int64(12), T.int64(16)):
        for m_0 in range(T.int64(12)):
            for m_1 in T.vectorized(T.int64(16)):
                t2[m_0 * T.int64(16) + m_1 + co * T.int64(3136) + ci * T.int64(196)] = t4[m_0 * T.int64(256) + m_1 * T.int64(16) + co * T.int64(3136) + ci]
        for m_tail in T.vectorized(T.int64(4)):
            t2[m_tail + co * T.int64(3136) + ci * T.int64(196) + T.int64(192)] = t4[m_tail * T.int64(16) + co * T.int64(3136) + ci + T.int64(3072)]
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def fused_conv_cast(t0: T.Buffer((T.int64(1), T.int64(16), T.int64(28), T.int64(28)), "float32"), t1: T.Buffer((T.int64(2), T.int64(8), T.int64(16)), "uint32"), t5: T.Buffer((T.int64(1), T.int64(2), T.int64(28), T.int64(28), T.int64(16)), "bfloat16")):
    t3 = T.alloc_buffer((T.int64(1), T.int64(8), T.int64(28), T.int64(28)), "uint32")
    for i1 in T.parallel(T.int64(8)):
        for m_0 in range(T.int64(49)):
            for m_1 in T.vectorized(T.int64(16)):
                t3[m_0 * T.int64(16) + m_1 + i1 * T.int64(784)] = T.pair_bf16(t0[m_0 * T.int64(16) + m_1 + i1 * T.int64(1568)], t0[m_0 * T.int64(16) + m_1 + i1 * T.int64(1568) + T.int64(784)])
    for t in T.parallel(T.int64(65)):
        acc = T.alloc_local((T.int64(12), T.int64(2), T.int64(16)))
        for r in T.unroll(T.int64(12)):
            for v in T.unroll(T.int64(2)):
                for l in T.vectorized(T.int64(16)):
                    acc[r, v, l] = T.float32(0.0)
        for k0 in range(T.int64(8)):
            for l in T.vectorized(T.int64(16)):
                x: T.let[T.uint32] = t1[l + k0 * T.int64(16)]
                x_1: T.let[T.uint32] = t1[l + k0 * T.int64(16) + T.int64(128)]
                x_2: T.let[T.uint32] = t3[t * T.int64(12) + k0 * T.int64(784)]
                acc[T.int64(0), T.int64(0), l] = T.dot_bf16(x_2, x, acc[T.int64(0), T.int64(0), l])
                acc[T.int64(0), T.int64(1), l] = T.dot_bf16(x_2, x_1, acc[T.int64(0), T.int64(1), l])
                x_3: T.let[T.uint32] = t3[t * T.int64(12) + k0 * T.int64(784) + T.int64(1)]
                acc[T.int64(1), T.int64(0), l] = T.dot_bf16(x_3, x, acc[T.int64(1), T.int64(0), l])
                acc[T.int64(1), T.int64(1), l] = T.dot_bf16(x_3, x_1, acc[T.int64(1), T.int64(1), l])
                x_4: T.let[T.uint32] = t3[t * T.int64(12) + k0 * T.int64(784) + T.int64(2)]
                acc[T.int64(2), T.int64(0), l] = T.dot_bf16(x_4, x, acc[T.int64(2), T.int64(0), l])
                acc[T.int64(2), T.int64(1), l] = T.dot_bf16(x_4, x_1, acc[T.int64(2), T.int64(1), l])
                x_5: T.let[T.uint32] = t3[t * T.int64(12) + k0 * T.int64(784) + T.int64(3)]
                acc[T.int64(3), T.int64(0), l] = T.dot_bf16(x_5, x, acc[T.int64(3), T.int64(0), l])
                acc[T.int64(3), T.int64(1), l] = T.dot_bf16(x_5, x_1, acc[T.int64(3), T.int64(1), l])
                x_6: T.let[T.uint32] = t3[t * T.int64(12) + k0 * T.int64(784) + T.int64(4)]
                acc[T.int64(4), T.int64(0), l] = T.dot_bf16(x_6, x, acc[T.int64(4), T.int64(0), l])
                acc[T.int64(4), T.int64(1), l] = T.dot_bf16(x_6, x_1, acc[T.int64(4), T.int64(1), l])
                x_7: T.let[T.uint32] = t3[t * T.int64(12) + k0 * T.int64(784) + T.int64(5)]
                acc[T.int64(5), T.int64(0), l] = T.dot_bf16(x_7, x, acc[T.int64(5), T.int64(0), l])
                acc[T.int64(5), T.int64(1), l] = T.dot_bf16(x_7, x_1, acc[T.int64(5), T.int64(1), l])
                x_8: T.let[T.uint32] = t3[t * T.int64(12) + k0 * T.int64(784) + T.int64(6)]
                acc[T.int64(6), T.int64(0), l] = T.dot_bf16(x_8, x, acc[T.int64(6), T.int64(0), l])
                acc[T.int64(6), T.int64(1), l] = T.dot_bf16(x_8, x_1, acc[T.int64(6), T.int64(1), l])
                x_9: T.let[T.uint32] = t3[t * T.int64(12) + k0 * T.int64(784) + T.int64(7)]
                acc[T.int64(7), T.int64(0), l] = T.dot_bf16(x_9, x, acc[T.int64(7), T.int64(0), l])
                acc[T.int64(7), T.int64(1), l] = T.dot_bf16(x_9, x_1, acc[T.int64(7), T.int64(1), l])
                x_10: T.let[T.uint32] = t3[t * T.int64(12) + k0 * T.int64(784) + T.int64(8)]
                acc[T.int64(8), T.int64(0), l] = T.dot_bf16(x_10, x, acc[T.int64(8), T.int64(0), l])
                acc[T.int64(8), T.int64(1), l] = T.dot_bf16(x_10, x_1, acc[T.int64(8), T.int64(1), l])
                x_11: T.let[T.uint32] = t3[t * T.int64(12) + k0 * T.int64(784) + T.int64(9)]
                acc[T.int64(9), T.int64(0), l] = T.dot_bf16(x_11, x, acc[T.int64(9), T.int64(0), l])
                acc[T.int64(9), T.int64(1), l] = T.dot_bf16(x_11, x_1, acc[T.int64(9), T.int64(1), l])
                x_12: T.let[T.uint32] = t3[t * T.int64(12) + k0 * T.int64(784) + T.int64(10)]
                acc[T.int64(10), T.int64(0), l] = T.dot_bf16(x_12, x, acc[T.int64(10), T.int64(0), l])
                acc[T.int64(10), T.int64(1), l] = T.dot_bf16(x_12, x_1, acc[T.int64(10), T.int64(1), l])
                x_13: T.let[T.uint32] = t3[t * T.int64(12) + k0 * T.int64(784) + T.int64(11)]
                acc[T.int64(11), T.int64(0), l] = T.dot_bf16(x_13, x, acc[T.int64(11), T.int64(0), l])
                acc[T.int64(11), T.int64(1), l] = T.dot_bf16(x_13, x_1, acc[T.int64(11), T.int64(1), l])
        acc_local = T.alloc_local((T.int64(12), T.int64(2), T.int64(16)))
        for r in T.unroll(T.int64(12)):
            for v in T.unroll(T.int64(2)):
                for l in T.vectorized(T.int64(16)):
                    acc_local[r, v, l] = acc[r, v, l]
        for r in range(T.int64(12)):
            for l in T.vectorized(T.int64(16)):
                t5[t * T.int64(192) + r * T.int64(16) + l] = T.Cast("bfloat16", acc_local[r, T.int64(0), l])
                t5[t * T.int64(192) + r * T.int64(16) + l + T.int64(12544)] = T.Cast("bfloat16", acc_local[r, T.int64(1), l])
    acc = T.alloc_local((T.int64(4), T.int64(2), T.int64(16)))
    for r in T.unroll(T.int64(4)):
        for v in T.unroll(T.int64(2)):
            for l in T.vectorized(T.int64(16)):
                acc[r, v, l] = T.float32(0.0)
    for k0 in range(T.int64(8)):
        for l in T.vectorized(T.int64(16)):
            x: T.let[T.uint32] = t1[l + k0 * T.int64(16)]
            x_1: T.let[T.uint32] = t1[l + k0 * T.int64(16) + T.int64(128)]
            x_2: T.let[T.uint32] = t3[k0 * T.int64(784) + T.int64(780)]
            acc[T.int64(0), T.int64(0), l] = T.dot_bf16(x_2, x, acc[T.int64(0), T.int64(0), l])
            acc[T.int64(0), T.int64(1), l] = T.dot_bf16(x_2, x_1, acc[T.int64(0), T.int64(1), l])
            x_3: T.let[T.uint32] = t3[k0 * T.int64(784) + T.int64(781)]
            acc[T.int64(1), T.int64(0), l] = T.dot_bf16(x_3, x, acc[T.int64(1), T.int64(0), l])
            acc[T.int64(1), T.int64(1), l] = T.dot_bf16(x_3, x_1, acc[T.int64(1), T.int64(1), l])
            x_4: T.let[T.uint32] = t3[k0 * T.int64(784) + T.int64(782)]
            acc[T.int64(2), T.int64(0), l] = T.dot_bf16(x_4, x, acc[T.int64(2), T.int64(0), l])
            acc[T.int64(2), T.int64(1), l] = T.dot_bf16(x_4, x_1, acc[T.int64(2), T.int64(1), l])
            x_5: T.let[T.uint32] = t3[k0 * T.int64(784) + T.int64(783)]
            acc[T.int64(3), T.int64(0), l] = T.dot_bf16(x_5, x, acc[T.int64(3), T.int64(0), l])
            acc[T.int64(3), T.int64(1), l] = T.dot_bf16(x_5, x_1, acc[T.int64(3), T.int64(1), l])
    acc_local = T.alloc_local((T.int64(4), T.int64(2), T.int64(16)))
    for r in T.unroll(T.int64(4)):
        for v in T.unroll(T.int64(2)):
            for l in T.vectorized(T.int64(16)):
                acc_local[r, v, l] = acc[r, v, l]
    for r in range(T.int64(4)):
        for l in T.vectorized(T.int64(16)):
            t5[r * T.int64(16) + l + T.int64(12480)] = T.Cast("bfloat16", acc_local[r, T.int64(0), l])
            t5[r * T.int64(16) + l + T.int64(25024)] = T.Cast("bfloat16", acc_local[r, T.int64(1), l])
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def fused_conv_cast1(t0: T.Buffer((T.int64(1), T.int64(16), T.int64(14), T.int64(14)), "float32"), t1: T.Buffer((T.int64(6), T.int64(8), T.int64(16)), "uint32"), t5: T.Buffer((T.int64(1), T.int64(6), T.int64(14), T.int64(14), T.int64(16)), "bfloat16")):
    t3 = T.alloc_buffer((T.int64(1), T.int64(8), T.int64(14), T.int64(14)), "uint32")
    for i1 in range(T.int64(8)):
        for m_0 in range(T.int64(12)):
            for m_1 in T.vectorized(T.int64(16)):
                t3[m_0 * T.int64(16) + m_1 + i1 * T.int64(196)] = T.pair_bf16(t0[m_0 * T.int64(16) + m_1 + i1 * T.int64(392)], t0[m_0 * T.int64(16) + m_1 + i1 * T.int64(392) + T.int64(196)])
        for m_tail in T.vectorized(T.int64(4)):
            t3[m_tail + i1 * T.int64(196) + T.int64(192)] = T.pair_bf16(t0[m_tail + i1 * T.int64(392) + T.int64(192)], t0[m_tail + i1 * T.int64(392) + T.int64(388)])
    for t in range(T.int64(2)):
        for t_1 in T.parallel(T.int64(24)):
            acc = T.alloc_local((T.int64(8), T.int64(3), T.int64(16)))
            for r in T.unroll(T.int64(8)):
                for v in T.unroll(T.int64(3)):
                    for l in T.vectorized(T.int64(16)):
                        acc[r, v, l] = T.float32(0.0)
            for k0 in range(T.int64(8)):
                for l in T.vectorized(T.int64(16)):
                    x: T.let[T.uint32] = t1[t * T.int64(384) + l + k0 * T.int64(16)]
                    x_1: T.let[T.uint32] = t1[t * T.int64(384) + l + k0 * T.int64(16) + T.int64(128)]
                    x_2: T.let[T.uint32] = t1[t * T.int64(384) + l + k0 * T.int64(16) + T.int64(256)]
                    x_3: T.let[T.uint32] = t3[t_1 * T.int64(8) + k0 * T.int64(196)]
                    acc[T.int64(0), T.int64(0), l] = T.dot_bf16(x_3, x, acc[T.int64(0), T.int64(0), l])
                    acc[T.int64(0), T.int64(1), l] = T.dot_bf16(x_3, x_1, acc[T.int64(0), T.int64(1), l])
                    acc[T.int64(0), T.int64(2), l] = T.dot_bf16(x_3, x_2, acc[T.int64(0), T.int64(2), l])
                    x_4: T.let[T.uint32] = t3[t_1 * T.int64(8) + k0 * T.int64(196) + T.int64(1)]
                    acc[T.int64(1), T.int64(0), l] = T.dot_bf16(x_4, x, acc[T.int64(1), T.int64(0), l])
                    acc[T.int64(1), T.int64(1), l] = T.dot_bf16(x_4, x_1, acc[T.int64(1), T.int64(1), l])
                    acc[T.int64(1), T.int64(2), l] = T.dot_bf16(x_4, x_2, acc[T.int64(1), T.int64(2), l])
                    x_5: T.let[T.uint32] = t3[t_1 * T.int64(8) + k0 * T.int64(196) + T.int64(2)]
                    acc[T.int64(2), T.int64(0), l] = T.dot_bf16(x_5, x, acc[T.int64(2), T.int64(0), l])
                    acc[T.int64(2), T.int64(1), l] = T.dot_bf16(x_5, x_1, acc[T.int64(2), T.int64(1), l])
                    acc[T.int64(2), T.int64(2), l] = T.dot_bf16(x_5, x_2, acc[T.int64(2), T.int64(2), l])
                    x_6: T.let[T.uint32] = t3[t_1 * T.int64(8) + k0 * T.int64(196) + T.int64(3)]
                    acc[T.int64(3), T.int64(0), l] = T.dot_bf16(x_6, x, acc[T.int64(3), T.int64(0), l])
                    acc[T.int64(3), T.int64(1), l] = T.dot_bf16(x_6, x_1, acc[T.int64(3), T.int64(1), l])
                    acc[T.int64(3), T.int64(2), l] = T.dot_bf16(x_6, x_2, acc[T.int64(3), T.int64(2), l])
                    x_7: T.let[T.uint32] = t3[t_1 * T.int64(8) + k0 * T.int64(196) + T.int64(4)]
                    acc[T.int64(4), T.int64(0), l] = T.dot_bf16(x_7, x, acc[T.int64(4), T.int64(0), l])
                    acc[T.int64(4), T.int64(1), l] = T.dot_bf16(x_7, x_1, acc[T.int64(4), T.int64(1), l])
                    acc[T.int64(4), T.int64(2), l] = T.dot_bf16(x_7, x_2, acc[T.int64(4), T.int64(2), l])
                    x_8: T.let[T.uint32] = t3[t_1 * T.int64(8) + k0 * T.int64(196) + T.int64(5)]
                    acc[T.int64(5), T.int64(0), l] = T.dot_bf16(x_8, x, acc[T.int64(5), T.int64(0), l])
                    acc[T.int64(5), T.int64(1), l] = T.dot_bf16(x_8, x_1, acc[T.int64(5), T.int64(1), l])
                    acc[T.int64(5), T.int64(2), l] = T.dot_bf16(x_8, x_2, acc[T.int64(5), T.int64(2), l])
                    x_9: T.let[T.uint32] = t3[t_1 * T.int64(8) + k0 * T.int64(196) + T.int64(6)]
                    acc[T.int64(6), T.int64(0), l] = T.dot_bf16(x_9, x, acc[T.int64(6), T.int64(0), l])
                    acc[T.int64(6), T.int64(1), l] = T.dot_bf16(x_9, x_1, acc[T.int64(6), T.int64(1), l])
                    acc[T.int64(6), T.int64(2), l] = T.dot_bf16(x_9, x_2, acc[T.int64(6), T.int64(2), l])
                    x_10: T.let[T.uint32] = t3[t_1 * T.int64(8) + k0 * T.int64(196) + T.int64(7)]
                    acc[T.int64(7), T.int64(0), l] = T.dot_bf16(x_10, x, acc[T.int64(7), T.int64(0), l])
                    acc[T.int64(7), T.int64(1), l] = T.dot_bf16(x_10, x_1, acc[T.int64(7), T.int64(1), l])
                    acc[T.int64(7), T.int64(2), l] = T.dot_bf16(x_10, x_2, acc[T.int64(7), T.int64(2), l])
            acc_local = T.alloc_local((T.int64(8), T.int64(3), T.int64(16)))
            for r in T.unroll(T.int64(8)):
                for v in T.unroll(T.int64(3)):
                    for l in T.vectorized(T.int64(16)):
                        acc_local[r, v, l] = acc[r, v, l]
            for r in range(T.int64(8)):
                for l in T.vectorized(T.int64(16)):
                    t5[t * T.int64(9408) + t_1 * T.int64(128) + r * T.int64(16) + l] = T.Cast("bfloat16", acc_local[r, T.int64(0), l])
                    t5[t * T.int64(9408) + t_1 * T.int64(128) + r * T.int64(16) + l + T.int64(3136)] = T.Cast("bfloat16", acc_local[r, T.int64(1), l])
                    t5[t * T.int64(9408) + t_1 * T.int64(128) + r * T.int64(16) + l + T.int64(6272)] = T.Cast("bfloat16", acc_local[r, T.int64(2), l])
        acc = T.alloc_local((T.int64(4), T.int64(3), T.int64(16)))
        for r in T.unroll(T.int64(4)):
            for v in T.unroll(T.int64(3)):
                for l in T.vectorized(T.int64(16)):
                    acc[r, v, l] = T.float32(0.0)
        for k0 in range(T.int64(8)):
            for l in T.vectorized(T.int64(16)):
                x: T.let[T.uint32] = t1[t * T.int64(384) + l + k0 * T.int64(16)]
                x_1: T.let[T.uint32] = t1[t * T.int64(384) + l + k0 * T.int64(16) + T.int64(128)]
                x_2: T.let[T.uint32] = t1[t * T.int64(384) + l + k0 * T.int64(16) + T.int64(256)]
                x_3: T.let[T.uint32] = t3[k0 * T.int64(196) + T.int64(192)]
                acc[T.int64(0), T.int64(0), l] = T.dot_bf16(x_3, x, acc[T.int64(0), T.int64(0), l])
                acc[T.int64(0), T.int64(1), l] = T.dot_bf16(x_3, x_1, acc[T.int64(0), T.int64(1), l])
                acc[T.int64(0), T.int64(2), l] = T.dot_bf16(x_3, x_2, acc[T.int64(0), T.int64(2), l])
                x_4: T.let[T.uint32] = t3[k0 * T.int64(196) + T.int64(193)]
                acc[T.int64(1), T.int64(0), l] = T.dot_bf16(x_4, x, acc[T.int64(1), T.int64(0), l])
                acc[T.int64(1), T.int64(1), l] = T.dot_bf16(x_4, x_1, acc[T.int64(1), T.int64(1), l])
                acc[T.int64(1), T.int64(2), l] = T.dot_bf16(x_4, x_2, acc[T.int64(1), T.int64(2), l])
                x_5: T.let[T.uint32] = t3[k0 * T.int64(196) + T.int64(194)]
                acc[T.int64(2), T.int64(0), l] = T.dot_bf16(x_5, x, acc[T.int64(2), T.int64(0), l])
                acc[T.int64(2), T.int64(1), l] = T.dot_bf16(x_5, x_1, acc[T.int64(2), T.int64(1), l])
                acc[T.int64(2), T.int64(2), l] = T.dot_bf16(x_5, x_2, acc[T.int64(2), T.int64(2), l])
                x_6: T.let[T.uint32] = t3[k0 * T.int64(196) + T.int64(195)]
                acc[T.int64(3), T.int64(0), l] = T.dot_bf16(x_6, x, acc[T.int64(3), T.int64(0), l])
                acc[T.int64(3), T.int64(1), l] = T.dot_bf16(x_6, x_1, acc[T.int64(3), T.int64(1), l])
                acc[T.int64(3), T.int64(2), l] = T.dot_bf16(x_6, x_2, acc[T.int64(3), T.int64(2), l])
        acc_local = T.alloc_local((T.int64(4), T.int64(3), T.int64(16)))
        for r in T.unroll(T.int64(4)):
            for v in T.unroll(T.int64(3)):
                for l in T.vectorized(T.int64(16)):
                    acc_local[r, v, l] = acc[r, v, l]
        for r in range(T.int64(4)):
            for l in T.vectorized(T.int64(16)):
                t5[t * T.int64(9408) + r * T.int64(16) + l + T.int64(3072)] = T.Cast("bfloat16", acc_local[r, T.int64(0), l])
                t5[t * T.int64(9408) + r * T.int64(16) + l + T.int64(6208)] = T.Cast("bfloat16", acc_local[r, T.int64(1), l])
                t5[t * T.int64(9408) + r * T.int64(16) + l + T.int64(9344)] = T.Cast("bfloat16", acc_local[r, T.int64(2), l])
