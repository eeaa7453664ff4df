# after: lower
# amx
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((51, 128), dtype="uint8"), w: R.Tensor((128, 48), dtype="int8")) -> R.Tensor((51, 48), dtype="int32"):
        y: R.Tensor((51, 48), dtype="int32") = R.matmul(x, w, out_dtype="int32")
        return y
# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def mat_mul_integer(t0: T.Buffer((T.int64(51), T.int64(128)), "uint8"), t1: T.Buffer((T.int64(128), T.int64(48)), "int8"), t2: T.Buffer((T.int64(51), T.int64(48)), "int32")):
    t4 = T.alloc_buffer((T.int64(32), T.int64(48)), "uint32")
    t3 = T.alloc_buffer((T.int64(51), T.int64(32)), "uint32")
    for m_0 in range(T.int64(102)):
        for m_1 in T.vectorized(T.int64(16)):
            t3[m_0 * T.int64(16) + m_1] = T.pack_4x8(t0[m_0 * T.int64(64) + m_1 * T.int64(4)], t0[m_0 * T.int64(64) + m_1 * T.int64(4) + T.int64(1)], t0[m_0 * T.int64(64) + m_1 * T.int64(4) + T.int64(2)], t0[m_0 * T.int64(64) + m_1 * T.int64(4) + T.int64(3)])
    for i0, i1_0 in T.grid(T.int64(32), T.int64(3)):
        for i1_1 in T.vectorized(T.int64(16)):
            t4[i0, i1_0 * T.int64(16) + i1_1] = T.pack_4x8(t1[i0 * T.int64(4), i1_0 * T.int64(16) + i1_1], t1[i0 * T.int64(4) + T.int64(1), i1_0 * T.int64(16) + i1_1], t1[i0 * T.int64(4) + T.int64(2), i1_0 * T.int64(16) + i1_1], t1[i0 * T.int64(4) + T.int64(3), i1_0 * T.int64(16) + i1_1])
    sum = T.alloc_buffer((T.int64(16), T.int64(16)), "int32", scope="tile")
    sum_1 = T.alloc_buffer((T.int64(16), T.int64(16)), "int32", scope="tile")
    sum_2 = T.alloc_buffer((T.int64(16), T.int64(16)), "int32", scope="tile")
    sum_3 = T.alloc_buffer((T.int64(16), T.int64(16)), "int32", scope="tile")
    row = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
    row_1 = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
    column = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
    column_1 = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
    tile = T.alloc_local((T.int64(1024),), "int32")
    T.tile_zero(sum)
    T.tile_zero(sum_1)
    T.tile_zero(sum_2)
    T.tile_zero(sum_3)
    for step in range(T.int64(2)):
        T.tile_load(row, t3[step * T.int64(16)], T.int64(32))
        T.tile_load(row_1, t3[step * T.int64(16) + T.int64(512)], T.int64(32))
        T.tile_load(column, t4[step * T.int64(768)], T.int64(48))
        T.tile_load(column_1, t4[step * T.int64(768) + T.int64(16)], T.int64(48))
        T.tile_dot_u8s8(sum, row, column)
        T.tile_dot_u8s8(sum_1, row, column_1)
        T.tile_dot_u8s8(sum_2, row_1, column)
        T.tile_dot_u8s8(sum_3, row_1, column_1)
    T.tile_store(sum, tile[T.int64(0)], T.int64(32))
    T.tile_store(sum_1, tile[T.int64(16)], T.int64(32))
    T.tile_store(sum_2, tile[T.int64(512)], T.int64(32))
    T.tile_store(sum_3, tile[T.int64(528)], T.int64(32))
    for r in range(T.int64(32)):
        for l in T.vectorized(T.int64(16)):
            t2[r, l] = tile[r * T.int64(32) + l]
            t2[r, l + T.int64(16)] = tile[r * T.int64(32) + l + T.int64(16)]
    tile_1 = T.alloc_local((T.int64(512),), "int32")
    T.tile_zero(sum)
    T.tile_zero(sum_1)
    for step in range(T.int64(2)):
        T.tile_load(row, t3[step * T.int64(16) + T.int64(1024)], T.int64(32))
        T.tile_load(column, t4[step * T.int64(768)], T.int64(48))
        T.tile_load(column_1, t4[step * T.int64(768) + T.int64(16)], T.int64(48))
        T.tile_dot_u8s8(sum, row, column)
        T.tile_dot_u8s8(sum_1, row, column_1)
    T.tile_store(sum, tile_1[T.int64(0)], T.int64(32))
    T.tile_store(sum_1, tile_1[T.int64(16)], T.int64(32))
    for r in range(T.int64(16)):
        for l in T.vectorized(T.int64(16)):
            t2[r + T.int64(32), l] = tile_1[r * T.int64(32) + l]
            t2[r + T.int64(32), l + T.int64(16)] = tile_1[r * T.int64(32) + l + T.int64(16)]
    acc = T.alloc_local((T.int64(3), T.int64(2), T.int64(16)), "int32")
    for r in T.unroll(T.int64(3)):
        for v in T.unroll(T.int64(2)):
            for l in T.vectorized(T.int64(16)):
                acc[r, v, l] = 0
    for k0 in range(T.int64(32)):
        for l in T.vectorized(T.int64(16)):
            x: T.let[T.uint32] = t4[k0, l]
            x_1: T.let[T.uint32] = t4[k0, l + T.int64(16)]
            x_2: T.let[T.uint32] = t3[T.int64(48), k0]
            acc[T.int64(0), T.int64(0), l] = T.dot_u8s8(x_2, x, acc[T.int64(0), T.int64(0), l])
            acc[T.int64(0), T.int64(1), l] = T.dot_u8s8(x_2, x_1, acc[T.int64(0), T.int64(1), l])
            x_3: T.let[T.uint32] = t3[T.int64(49), k0]
            acc[T.int64(1), T.int64(0), l] = T.dot_u8s8(x_3, x, acc[T.int64(1), T.int64(0), l])
            acc[T.int64(1), T.int64(1), l] = T.dot_u8s8(x_3, x_1, acc[T.int64(1), T.int64(1), l])
            x_4: T.let[T.uint32] = t3[T.int64(50), k0]
            acc[T.int64(2), T.int64(0), l] = T.dot_u8s8(x_4, x, acc[T.int64(2), T.int64(0), l])
            acc[T.int64(2), T.int64(1), l] = T.dot_u8s8(x_4, x_1, acc[T.int64(2), T.int64(1), l])
    for r in T.unroll(T.int64(3)):
        for l in T.vectorized(T.int64(16)):
            t2[r + T.int64(48), l] = acc[r, T.int64(0), l]
            t2[r + T.int64(48), l + T.int64(16)] = acc[r, T.int64(1), l]
    tile_2 = T.alloc_local((T.int64(512),), "int32")
    T.tile_zero(sum)
    T.tile_zero(sum_2)
    for step in range(T.int64(2)):
        T.tile_load(row, t3[step * T.int64(16)], T.int64(32))
        T.tile_load(row_1, t3[step * T.int64(16) + T.int64(512)], T.int64(32))
        T.tile_load(column, t4[step * T.int64(768) + T.int64(32)], T.int64(48))
        T.tile_dot_u8s8(sum, row, column)
        T.tile_dot_u8s8(sum_2, row_1, column)
    T.tile_store(sum, tile_2[T.int64(0)], T.int64(16))
    T.tile_store(sum_2, tile_2[T.int64(256)], T.int64(16))
    for r in range(T.int64(32)):
        for l in T.vectorized(T.int64(16)):
            t2[r, l + T.int64(32)] = tile_2[r * T.int64(16) + l]
    tile_3 = T.alloc_local((T.int64(256),), "int32")
    T.tile_zero(sum)
    for step in range(T.int64(2)):
        T.tile_load(row, t3[step * T.int64(16) + T.int64(1024)], T.int64(32))
        T.tile_load(column, t4[step * T.int64(768) + T.int64(32)], T.int64(48))
        T.tile_dot_u8s8(sum, row, column)
    T.tile_store(sum, tile_3[T.int64(0)], T.int64(16))
    for r in range(T.int64(16)):
        for l in T.vectorized(T.int64(16)):
            t2[r + T.int64(32), l + T.int64(32)] = tile_3[r * T.int64(16) + l]
    acc_1 = T.alloc_local((T.int64(3), T.int64(1), T.int64(16)), "int32")
    for r in T.unroll(T.int64(3)):
        for l in T.vectorized(T.int64(16)):
            acc_1[r, T.int64(0), l] = 0
    for k0 in range(T.int64(32)):
        for l in T.vectorized(T.int64(16)):
            x: T.let[T.uint32] = t4[k0, l + T.int64(32)]
            x_1: T.let[T.uint32] = t3[T.int64(48), k0]
            acc_1[T.int64(0), T.int64(0), l] = T.dot_u8s8(x_1, x, acc_1[T.int64(0), T.int64(0), l])
            x_2: T.let[T.uint32] = t3[T.int64(49), k0]
            acc_1[T.int64(1), T.int64(0), l] = T.dot_u8s8(x_2, x, acc_1[T.int64(1), T.int64(0), l])
            x_3: T.let[T.uint32] = t3[T.int64(50), k0]
            acc_1[T.int64(2), T.int64(0), l] = T.dot_u8s8(x_3, x, acc_1[T.int64(2), T.int64(0), l])
    for r in T.unroll(T.int64(3)):
        for l in T.vectorized(T.int64(16)):
            t2[r + T.int64(48), l + T.int64(32)] = acc_1[r, T.int64(0), l]
