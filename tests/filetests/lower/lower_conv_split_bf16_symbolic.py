# after: lower
# precision: f32-fast
# amx
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 16, "h", "w"), dtype="float32"), y: R.Tensor(("n", 16, "i", "j"), dtype="float32")) -> R.Tuple(R.Tensor((1, 192, "(h - 1) // 2 + 1", "(w - 1) // 2 + 1"), dtype="float32"), R.Tensor(("n", 192, "i", "j"), dtype="float32")):
        u: R.Tensor((32, 16, 1, 1), dtype="float32") = R.zeros(R.shape([32, 16, 1, 1]), dtype="float32")
        v: R.Tensor((192, 32, 3, 3), dtype="float32") = R.zeros(R.shape([192, 32, 3, 3]), dtype="float32")
        t: R.Tensor((144, 16, 1, 1), dtype="float32") = R.zeros(R.shape([144, 16, 1, 1]), dtype="float32")
        w: R.Tensor((192, 144, 1, 1), dtype="float32") = R.zeros(R.shape([192, 144, 1, 1]), dtype="float32")
        a: R.Tensor((1, 32, "h", "w"), dtype="float32") = R.nn.conv2d(x, u)
        b = R.nn.conv2d(a, v, strides=[2, 2], padding=[1, 1, 1, 1])
        c = R.nn.conv2d(y, t)
        d = R.nn.conv2d(c, w)
        return (b, d)
# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def shape_func(H: T.Buffer((T.int64(7),), "int64")):
    H[T.int64(5)] = (H[T.int64(0)] + T.int64(1)) // T.int64(2)
    H[T.int64(6)] = (H[T.int64(1)] + T.int64(1)) // T.int64(2)
# from typing import TypeVar
# from tvm.script import tirx as T

h = TypeVar("h")
w = TypeVar("w")
@T.prim_func(s_tir=True)
def conv(t0: T.Buffer((T.int64(1), T.int64(16), h, w), "float32"), t1: T.Buffer((T.int64(2), T.int64(16), T.int64(16)), "float32"), t2: T.Buffer((T.int64(1), T.int64(2), h, w, T.int64(16)), "float32")):
    T.func_attr({"reflex.split_bf16_products": 3})
    for t in range(h * w // T.int64(8)):
        acc = T.alloc_local((T.int64(8), T.int64(2), T.int64(16)))
        for r in T.unroll(T.int64(8)):
            for v in T.unroll(T.int64(2)):
                for l in T.vectorized(T.int64(16)):
                    acc[r, v, l] = T.float32(0.0)
        for k0 in range(T.int64(16)):
            for l in T.vectorized(T.int64(16)):
                x: T.let[T.float32] = t1[l + k0 * T.int64(16)]
                x_1: T.let[T.float32] = t1[l + k0 * T.int64(16) + T.int64(256)]
                x_2: T.let[T.float32] = t0[t * T.int64(8) + h * w * k0]
                acc[T.int64(0), T.int64(0), l] = T.fma(x_2, x, acc[T.int64(0), T.int64(0), l])
                acc[T.int64(0), T.int64(1), l] = T.fma(x_2, x_1, acc[T.int64(0), T.int64(1), l])
                x_3: T.let[T.float32] = t0[t * T.int64(8) + h * w * k0 + T.int64(1)]
                acc[T.int64(1), T.int64(0), l] = T.fma(x_3, x, acc[T.int64(1), T.int64(0), l])
                acc[T.int64(1), T.int64(1), l] = T.fma(x_3, x_1, acc[T.int64(1), T.int64(1), l])
                x_4: T.let[T.float32] = t0[t * T.int64(8) + h * w * k0 + T.int64(2)]
                acc[T.int64(2), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(2), T.int64(0), l])
                acc[T.int64(2), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(2), T.int64(1), l])
                x_5: T.let[T.float32] = t0[t * T.int64(8) + h * w * k0 + T.int64(3)]
                acc[T.int64(3), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(3), T.int64(0), l])
                acc[T.int64(3), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(3), T.int64(1), l])
                x_6: T.let[T.float32] = t0[t * T.int64(8) + h * w * k0 + T.int64(4)]
                acc[T.int64(4), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(4), T.int64(0), l])
                acc[T.int64(4), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(4), T.int64(1), l])
                x_7: T.let[T.float32] = t0[t * T.int64(8) + h * w * k0 + T.int64(5)]
                acc[T.int64(5), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(5), T.int64(0), l])
                acc[T.int64(5), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(5), T.int64(1), l])
                x_8: T.let[T.float32] = t0[t * T.int64(8) + h * w * k0 + T.int64(6)]
                acc[T.int64(6), T.int64(0), l] = T.fma(x_8, x, acc[T.int64(6), T.int64(0), l])
                acc[T.int64(6), T.int64(1), l] = T.fma(x_8, x_1, acc[T.int64(6), T.int64(1), l])
                x_9: T.let[T.float32] = t0[t * T.int64(8) + h * w * k0 + T.int64(7)]
                acc[T.int64(7), T.int64(0), l] = T.fma(x_9, x, acc[T.int64(7), T.int64(0), l])
                acc[T.int64(7), T.int64(1), l] = T.fma(x_9, x_1, acc[T.int64(7), T.int64(1), l])
        acc_local = T.alloc_local((T.int64(8), T.int64(2), T.int64(16)))
        for r in T.unroll(T.int64(8)):
            for v in T.unroll(T.int64(2)):
                for l in T.vectorized(T.int64(16)):
                    acc_local[r, v, l] = acc[r, v, l]
        for r in range(T.int64(8)):
            for l in T.vectorized(T.int64(16)):
                t2[t * T.int64(128) + r * T.int64(16) + l] = acc_local[r, T.int64(0), l]
                t2[h * w * T.int64(16) + t * T.int64(128) + r * T.int64(16) + l] = acc_local[r, T.int64(1), l]
    for t in range(h * w - h * w // T.int64(8) * T.int64(8)):
        acc = T.alloc_local((T.int64(1), T.int64(2), T.int64(16)))
        for v in T.unroll(T.int64(2)):
            for l in T.vectorized(T.int64(16)):
                acc[T.int64(0), v, l] = T.float32(0.0)
        for k0 in range(T.int64(16)):
            for l in T.vectorized(T.int64(16)):
                x: T.let[T.float32] = t1[l + k0 * T.int64(16)]
                x_1: T.let[T.float32] = t1[l + k0 * T.int64(16) + T.int64(256)]
                x_2: T.let[T.float32] = t0[h * w // T.int64(8) * T.int64(8) + t + h * w * k0]
                acc[T.int64(0), T.int64(0), l] = T.fma(x_2, x, acc[T.int64(0), T.int64(0), l])
                acc[T.int64(0), T.int64(1), l] = T.fma(x_2, x_1, acc[T.int64(0), T.int64(1), l])
        for l in T.vectorized(T.int64(16)):
            t2[h * w // T.int64(8) * T.int64(128) + t * T.int64(16) + l] = acc[T.int64(0), T.int64(0), l]
            t2[h * w * T.int64(16) + h * w // T.int64(8) * T.int64(128) + t * T.int64(16) + l] = acc[T.int64(0), T.int64(1), l]
# from typing import TypeVar
# from tvm.script import tirx as T

h = TypeVar("h")
w = TypeVar("w")
@T.prim_func(s_tir=True)
def conv1(t0: T.Buffer((T.int64(1), T.int64(2), h, w, T.int64(16)), "float32"), t1: T.Buffer((T.int64(12), T.int64(288), T.int64(16)), "float32"), t2: T.Buffer((T.int64(1), T.int64(192), "(h + T.int64(1)) // T.int64(2)", "(w + T.int64(1)) // T.int64(2)"), "float32")):
    T.func_attr({"reflex.split_bf16_products": 3})
    column_term = T.alloc_buffer((T.int64(12), T.int64(1), T.int64(3), T.int64(3), T.int64(16), T.int64(16)), "uint32")
    row_term = T.alloc_buffer((T.int64(1), T.int64(3), T.int64(3), (h + T.int64(1)) // T.int64(2) + T.int64(15), (w + T.int64(1)) // T.int64(2), T.int64(16)), "uint32")
    column_term_1 = T.alloc_buffer((T.int64(12), T.int64(1), T.int64(3), T.int64(3), T.int64(16), T.int64(16)), "uint32")
    row_term_1 = T.alloc_buffer((T.int64(1), T.int64(3), T.int64(3), (h + T.int64(1)) // T.int64(2) + T.int64(15), (w + T.int64(1)) // T.int64(2), T.int64(16)), "uint32")
    t4 = T.alloc_buffer((T.int64(1), T.int64(12), (h + T.int64(1)) // T.int64(2), (w + T.int64(1)) // T.int64(2), T.int64(16)))
    t3 = T.alloc_buffer((T.int64(1), T.int64(2), h + T.int64(2), w + T.int64(2), T.int64(16)))
    for task in T.parallel(T.Select(h * T.int64(832) + w * T.int64(832) + h * w * T.int64(416) + T.int64(1664) >= T.int64(100000), T.int64(2), T.int64(1))):
        for co, i2 in T.grid(T.Select(h * T.int64(832) + w * T.int64(832) + h * w * T.int64(416) + T.int64(1664) >= T.int64(100000), T.int64(1), T.int64(2)), h + T.int64(2)):
            if i2 >= T.int64(1) and i2 < h + T.int64(1):
                for i3 in range(w + T.int64(2)):
                    if i3 >= T.int64(1) and i3 < w + T.int64(1):
                        for ci in T.vectorized(T.int64(16)):
                            t3[T.int64(0), task + co, i2, i3, ci] = t0[T.int64(0), task + co, i2 - T.int64(1), i3 - T.int64(1), ci]
                    else:
                        if i3 < T.int64(1):
                            for ci in T.vectorized(T.int64(16)):
                                t3[T.int64(0), task + co, i2, T.int64(0), ci] = T.float32(0.0)
                        else:
                            for ci in T.vectorized(T.int64(16)):
                                t3[T.int64(0), task + co, i2, w + T.int64(1), ci] = T.float32(0.0)
            else:
                if i2 < T.int64(1):
                    for i3 in range(w + T.int64(2)):
                        for ci in T.vectorized(T.int64(16)):
                            t3[T.int64(0), task + co, T.int64(0), i3, ci] = T.float32(0.0)
                else:
                    for i3 in range(w + T.int64(2)):
                        for ci in T.vectorized(T.int64(16)):
                            t3[T.int64(0), task + co, h + T.int64(1), i3, ci] = T.float32(0.0)
    if (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * T.int64(55296) >= (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * T.int64(27648) + T.int64(5308416) and (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * T.int64(8) >= ((h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) + T.int64(15)) // T.int64(16) * T.int64(96):
        ranges = T.alloc_local((T.int64(4),), "int32")
        most = T.alloc_local((T.int64(16),), "int32")
        least = T.alloc_local((T.int64(16),), "int32")
        for l in T.vectorized(T.int64(16)):
            most[l] = 0
            least[l] = 2147483647
        for v in range(h * T.int64(4) + w * T.int64(4) + h * w * T.int64(2) + T.int64(8)):
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
            for task in T.parallel(T.Select((w + T.int64(1)) // T.int64(2) * T.int64(62640) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * T.int64(4176) >= T.int64(100000), T.int64(3), T.int64(1))):
                for c, c_1 in T.grid(T.Select((w + T.int64(1)) // T.int64(2) * T.int64(62640) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * T.int64(4176) >= T.int64(100000), T.int64(1), T.int64(3)), T.int64(3)):
                    for c_2, c_3 in T.grid((h + T.int64(1)) // T.int64(2), (w + T.int64(1)) // T.int64(2)):
                        for c_4 in T.vectorized(T.int64(16)):
                            row_term_1[T.int64(0), task + c, c_1, c_2, c_3, c_4] = T.pair_bf16(t3[T.int64(0), T.int64(0), c_2 * T.int64(2) + task + c, c_3 * T.int64(2) + c_1, c_4], t3[T.int64(0), T.int64(1), c_2 * T.int64(2) + task + c, c_3 * T.int64(2) + c_1, c_4])
                    for c_2 in range((h + T.int64(1)) // T.int64(2), (h + T.int64(1)) // T.int64(2) + T.int64(15)):
                        for c_3 in range((w + T.int64(1)) // T.int64(2)):
                            for c_4 in T.vectorized(T.int64(16)):
                                row_term_1[T.int64(0), task + c, c_1, c_2, c_3, c_4] = T.uint32(0)
            for c in T.parallel(T.int64(12)):
                for m, c_1 in T.grid(T.int64(9), T.int64(16)):
                    for c_2 in T.vectorized(T.int64(16)):
                        column_term_1[m * T.int64(256) + c * T.int64(2304) + c_1 * T.int64(16) + c_2] = T.pair_bf16(t1[m * T.int64(16) + c * T.int64(4608) + c_1 * T.int64(144) + c_2], t1[m * T.int64(16) + c * T.int64(4608) + c_1 * T.int64(144) + c_2 + T.int64(2304)])
            for task in T.parallel(T.Select((w + T.int64(1)) // T.int64(2) * T.int64(84240) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * T.int64(5616) >= T.int64(100000), T.int64(3), T.int64(1))):
                for c, c_1 in T.grid(T.Select((w + T.int64(1)) // T.int64(2) * T.int64(84240) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * T.int64(5616) >= T.int64(100000), T.int64(1), T.int64(3)), T.int64(3)):
                    for c_2, c_3 in T.grid((h + T.int64(1)) // T.int64(2), (w + T.int64(1)) // T.int64(2)):
                        for c_4 in T.vectorized(T.int64(16)):
                            row_term[T.int64(0), task + c, c_1, c_2, c_3, c_4] = T.pair_bf16(t3[T.int64(0), T.int64(0), c_2 * T.int64(2) + task + c, c_3 * T.int64(2) + c_1, c_4] - T.Cast("float32", T.Cast("bfloat16", t3[T.int64(0), T.int64(0), c_2 * T.int64(2) + task + c, c_3 * T.int64(2) + c_1, c_4])), t3[T.int64(0), T.int64(1), c_2 * T.int64(2) + task + c, c_3 * T.int64(2) + c_1, c_4] - T.Cast("float32", T.Cast("bfloat16", t3[T.int64(0), T.int64(1), c_2 * T.int64(2) + task + c, c_3 * T.int64(2) + c_1, c_4])))
                    for c_2 in range((h + T.int64(1)) // T.int64(2), (h + T.int64(1)) // T.int64(2) + T.int64(15)):
                        for c_3 in range((w + T.int64(1)) // T.int64(2)):
                            for c_4 in T.vectorized(T.int64(16)):
                                row_term[T.int64(0), task + c, c_1, c_2, c_3, c_4] = T.uint32(0)
            for c in T.parallel(T.int64(12)):
                for m, c_1 in T.grid(T.int64(9), T.int64(16)):
                    for c_2 in T.vectorized(T.int64(16)):
                        column_term[m * T.int64(256) + c * T.int64(2304) + c_1 * T.int64(16) + c_2] = T.pair_bf16(t1[m * T.int64(16) + c * T.int64(4608) + c_1 * T.int64(144) + c_2] - T.Cast("float32", T.Cast("bfloat16", t1[m * T.int64(16) + c * T.int64(4608) + c_1 * T.int64(144) + c_2])), t1[m * T.int64(16) + c * T.int64(4608) + c_1 * T.int64(144) + c_2 + T.int64(2304)] - T.Cast("float32", T.Cast("bfloat16", t1[m * T.int64(16) + c * T.int64(4608) + c_1 * T.int64(144) + c_2 + T.int64(2304)])))
            for task in T.parallel(T.Select((h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * T.int64(27648) >= T.int64(100000), (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) // T.int64(32), T.int64(1))):
                sum = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
                sum_1 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
                sum_2 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
                sum_3 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
                row = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
                row_1 = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
                column = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
                column_1 = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
                for i, t in T.grid(T.Select((h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * T.int64(27648) >= T.int64(100000), T.int64(1), (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) // T.int64(32)), T.int64(6)):
                    tile = T.alloc_local((T.int64(1024),))
                    T.tile_zero(sum)
                    T.tile_zero(sum_1)
                    T.tile_zero(sum_2)
                    T.tile_zero(sum_3)
                    for m in range(T.int64(9)):
                        T.tile_load(row, row_term[task * T.int64(512) + i * T.int64(512) + (w + T.int64(1)) // T.int64(2) * m * T.int64(240) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * m * T.int64(16)], T.int64(16))
                        T.tile_load(row_1, row_term[task * T.int64(512) + i * T.int64(512) + (w + T.int64(1)) // T.int64(2) * m * T.int64(240) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * m * T.int64(16) + T.int64(256)], T.int64(16))
                        T.tile_load(column, column_term_1[t * T.int64(4608) + m * T.int64(256)], T.int64(16))
                        T.tile_load(column_1, column_term_1[t * T.int64(4608) + m * T.int64(256) + T.int64(2304)], T.int64(16))
                        T.tile_dot_bf16(sum, row, column)
                        T.tile_dot_bf16(sum_1, row, column_1)
                        T.tile_dot_bf16(sum_2, row_1, column)
                        T.tile_dot_bf16(sum_3, row_1, column_1)
                        T.tile_load(row, row_term_1[task * T.int64(512) + i * T.int64(512) + (w + T.int64(1)) // T.int64(2) * m * T.int64(240) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * m * T.int64(16)], T.int64(16))
                        T.tile_load(row_1, row_term_1[task * T.int64(512) + i * T.int64(512) + (w + T.int64(1)) // T.int64(2) * m * T.int64(240) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * m * T.int64(16) + T.int64(256)], T.int64(16))
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
                            t4[(h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * t * T.int64(32) + task * T.int64(512) + i * T.int64(512) + r * T.int64(16) + l] = tile[r * T.int64(32) + l]
                            t4[(h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * T.int64(16) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * t * T.int64(32) + task * T.int64(512) + i * T.int64(512) + r * T.int64(16) + l] = tile[r * T.int64(32) + l + T.int64(16)]
            sum = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
            sum_1 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
            sum_2 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
            sum_3 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
            row = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
            row_1 = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
            column = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
            column_1 = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
            if (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) % T.int64(32) >= T.int64(16):
                for t in range(T.int64(6)):
                    tile = T.alloc_local((T.int64(512),))
                    T.tile_zero(sum)
                    T.tile_zero(sum_1)
                    for m in range(T.int64(9)):
                        T.tile_load(row, row_term[(h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) // T.int64(32) * T.int64(512) + (w + T.int64(1)) // T.int64(2) * m * T.int64(240) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * m * T.int64(16)], T.int64(16))
                        T.tile_load(column, column_term_1[t * T.int64(4608) + m * T.int64(256)], T.int64(16))
                        T.tile_load(column_1, column_term_1[t * T.int64(4608) + m * T.int64(256) + T.int64(2304)], T.int64(16))
                        T.tile_dot_bf16(sum, row, column)
                        T.tile_dot_bf16(sum_1, row, column_1)
                        T.tile_load(row, row_term_1[(h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) // T.int64(32) * T.int64(512) + (w + T.int64(1)) // T.int64(2) * m * T.int64(240) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * m * T.int64(16)], T.int64(16))
                        T.tile_dot_bf16(sum, row, column)
                        T.tile_dot_bf16(sum_1, row, column_1)
                        T.tile_load(column, column_term[t * T.int64(4608) + m * T.int64(256)], T.int64(16))
                        T.tile_load(column_1, column_term[t * T.int64(4608) + m * T.int64(256) + T.int64(2304)], T.int64(16))
                        T.tile_dot_bf16(sum, row, column)
                        T.tile_dot_bf16(sum_1, row, column_1)
                    T.tile_store(sum, tile[T.int64(0)], T.int64(32))
                    T.tile_store(sum_1, tile[T.int64(16)], T.int64(32))
                    for r in range(T.int64(16)):
                        for l in T.vectorized(T.int64(16)):
                            t4[(h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * t * T.int64(32) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) // T.int64(32) * T.int64(512) + r * T.int64(16) + l] = tile[r * T.int64(32) + l]
                            t4[(h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * T.int64(16) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * t * T.int64(32) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) // T.int64(32) * T.int64(512) + r * T.int64(16) + l] = tile[r * T.int64(32) + l + T.int64(16)]
            if (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) % T.int64(16) > T.int64(0):
                for t in range(T.int64(6)):
                    tile = T.alloc_local((T.int64(512),))
                    T.tile_zero(sum)
                    T.tile_zero(sum_1)
                    for m in range(T.int64(9)):
                        T.tile_load(row, row_term[(h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) // T.int64(16) * T.int64(256) + (w + T.int64(1)) // T.int64(2) * m * T.int64(240) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * m * T.int64(16)], T.int64(16))
                        T.tile_load(column, column_term_1[t * T.int64(4608) + m * T.int64(256)], T.int64(16))
                        T.tile_load(column_1, column_term_1[t * T.int64(4608) + m * T.int64(256) + T.int64(2304)], T.int64(16))
                        T.tile_dot_bf16(sum, row, column)
                        T.tile_dot_bf16(sum_1, row, column_1)
                        T.tile_load(row, row_term_1[(h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) // T.int64(16) * T.int64(256) + (w + T.int64(1)) // T.int64(2) * m * T.int64(240) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * m * T.int64(16)], T.int64(16))
                        T.tile_dot_bf16(sum, row, column)
                        T.tile_dot_bf16(sum_1, row, column_1)
                        T.tile_load(column, column_term[t * T.int64(4608) + m * T.int64(256)], T.int64(16))
                        T.tile_load(column_1, column_term[t * T.int64(4608) + m * T.int64(256) + T.int64(2304)], T.int64(16))
                        T.tile_dot_bf16(sum, row, column)
                        T.tile_dot_bf16(sum_1, row, column_1)
                    T.tile_store(sum, tile[T.int64(0)], T.int64(32))
                    T.tile_store(sum_1, tile[T.int64(16)], T.int64(32))
                    for t_1 in range((h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) % T.int64(16)):
                        for l in T.vectorized(T.int64(16)):
                            t4[(h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * t * T.int64(32) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) // T.int64(16) * T.int64(256) + t_1 * T.int64(16) + l] = tile[t_1 * T.int64(32) + l]
                            t4[(h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * T.int64(16) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * t * T.int64(32) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) // T.int64(16) * T.int64(256) + t_1 * T.int64(16) + l] = tile[t_1 * T.int64(32) + l + T.int64(16)]
        else:
            for v_i2 in range((h + T.int64(1)) // T.int64(2)):
                for t in range(T.int64(2)):
                    for task in T.parallel(T.Select((h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * T.int64(55296) >= T.int64(100000), (w + T.int64(1)) // T.int64(8), T.int64(1))):
                        for i in range(T.Select((h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * T.int64(55296) >= T.int64(100000), T.int64(1), (w + T.int64(1)) // T.int64(8))):
                            acc = T.alloc_local((T.int64(4), T.int64(4), T.int64(16)))
                            for r in T.unroll(T.int64(4)):
                                for v in T.unroll(T.int64(4)):
                                    for l in T.vectorized(T.int64(16)):
                                        acc[r, v, l] = T.float32(0.0)
                            for co, ci, k1, k2 in T.grid(T.int64(2), T.int64(16), T.int64(3), T.int64(3)):
                                for l in T.vectorized(T.int64(16)):
                                    x: T.let[T.float32] = T.prefetch(T.prefetch(t1[t * T.int64(4), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096)), (task + i) % T.int64(2) * T.int64(36864) + co * T.int64(9216) + ci * T.int64(576) + k1 * T.int64(192) + k2 * T.int64(64) + T.int64(73728))
                                    x_1: T.let[T.float32] = T.prefetch(T.prefetch(t1[t * T.int64(4) + T.int64(1), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096)), (task + i) % T.int64(2) * T.int64(36864) + co * T.int64(9216) + ci * T.int64(576) + k1 * T.int64(192) + k2 * T.int64(64) + T.int64(55360))
                                    x_2: T.let[T.float32] = T.prefetch(t1[t * T.int64(4) + T.int64(2), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                                    x_3: T.let[T.float32] = T.prefetch(t1[t * T.int64(4) + T.int64(3), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                                    x_4: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, task * T.int64(8) + i * T.int64(8) + k2, ci]
                                    acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                                    acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                                    acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                                    acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                                    x_5: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, task * T.int64(8) + i * T.int64(8) + k2 + T.int64(2), ci]
                                    acc[T.int64(1), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(1), T.int64(0), l])
                                    acc[T.int64(1), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(1), T.int64(1), l])
                                    acc[T.int64(1), T.int64(2), l] = T.fma(x_5, x_2, acc[T.int64(1), T.int64(2), l])
                                    acc[T.int64(1), T.int64(3), l] = T.fma(x_5, x_3, acc[T.int64(1), T.int64(3), l])
                                    x_6: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, task * T.int64(8) + i * T.int64(8) + k2 + T.int64(4), ci]
                                    acc[T.int64(2), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(2), T.int64(0), l])
                                    acc[T.int64(2), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(2), T.int64(1), l])
                                    acc[T.int64(2), T.int64(2), l] = T.fma(x_6, x_2, acc[T.int64(2), T.int64(2), l])
                                    acc[T.int64(2), T.int64(3), l] = T.fma(x_6, x_3, acc[T.int64(2), T.int64(3), l])
                                    x_7: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, task * T.int64(8) + i * T.int64(8) + k2 + T.int64(6), ci]
                                    acc[T.int64(3), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(3), T.int64(0), l])
                                    acc[T.int64(3), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(3), T.int64(1), l])
                                    acc[T.int64(3), T.int64(2), l] = T.fma(x_7, x_2, acc[T.int64(3), T.int64(2), l])
                                    acc[T.int64(3), T.int64(3), l] = T.fma(x_7, x_3, acc[T.int64(3), T.int64(3), l])
                            for r in T.unroll(T.int64(4)):
                                for l in T.vectorized(T.int64(16)):
                                    t4[T.int64(0), t * T.int64(4), v_i2, task * T.int64(4) + i * T.int64(4) + r, l] = acc[r, T.int64(0), l]
                                    t4[T.int64(0), t * T.int64(4) + T.int64(1), v_i2, task * T.int64(4) + i * T.int64(4) + r, l] = acc[r, T.int64(1), l]
                                    t4[T.int64(0), t * T.int64(4) + T.int64(2), v_i2, task * T.int64(4) + i * T.int64(4) + r, l] = acc[r, T.int64(2), l]
                                    t4[T.int64(0), t * T.int64(4) + T.int64(3), v_i2, task * T.int64(4) + i * T.int64(4) + r, l] = acc[r, T.int64(3), l]
                    for t_1 in range((w + T.int64(1)) // T.int64(2) - (w + T.int64(1)) // T.int64(8) * T.int64(4)):
                        acc = T.alloc_local((T.int64(1), T.int64(4), T.int64(16)))
                        for v in T.unroll(T.int64(4)):
                            for l in T.vectorized(T.int64(16)):
                                acc[T.int64(0), v, l] = T.float32(0.0)
                        for co, ci, k1, k2 in T.grid(T.int64(2), T.int64(16), T.int64(3), T.int64(3)):
                            for l in T.vectorized(T.int64(16)):
                                x: T.let[T.float32] = T.prefetch(t1[t * T.int64(4), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                                x_1: T.let[T.float32] = T.prefetch(t1[t * T.int64(4) + T.int64(1), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                                x_2: T.let[T.float32] = T.prefetch(t1[t * T.int64(4) + T.int64(2), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                                x_3: T.let[T.float32] = T.prefetch(t1[t * T.int64(4) + T.int64(3), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                                x_4: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, (w + T.int64(1)) // T.int64(8) * T.int64(8) + t_1 * T.int64(2) + k2, ci]
                                acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                                acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                                acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                                acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                        for l in T.vectorized(T.int64(16)):
                            t4[T.int64(0), t * T.int64(4), v_i2, (w + T.int64(1)) // T.int64(8) * T.int64(4) + t_1, l] = acc[T.int64(0), T.int64(0), l]
                            t4[T.int64(0), t * T.int64(4) + T.int64(1), v_i2, (w + T.int64(1)) // T.int64(8) * T.int64(4) + t_1, l] = acc[T.int64(0), T.int64(1), l]
                            t4[T.int64(0), t * T.int64(4) + T.int64(2), v_i2, (w + T.int64(1)) // T.int64(8) * T.int64(4) + t_1, l] = acc[T.int64(0), T.int64(2), l]
                            t4[T.int64(0), t * T.int64(4) + T.int64(3), v_i2, (w + T.int64(1)) // T.int64(8) * T.int64(4) + t_1, l] = acc[T.int64(0), T.int64(3), l]
                for task in T.parallel(T.Select((h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * T.int64(55296) >= T.int64(100000), (w + T.int64(1)) // T.int64(8), T.int64(1))):
                    for i in range(T.Select((h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * T.int64(55296) >= T.int64(100000), T.int64(1), (w + T.int64(1)) // T.int64(8))):
                        acc = T.alloc_local((T.int64(4), T.int64(4), T.int64(16)))
                        for r in T.unroll(T.int64(4)):
                            for v in T.unroll(T.int64(4)):
                                for l in T.vectorized(T.int64(16)):
                                    acc[r, v, l] = T.float32(0.0)
                        for co, ci, k1, k2 in T.grid(T.int64(2), T.int64(16), T.int64(3), T.int64(3)):
                            for l in T.vectorized(T.int64(16)):
                                x: T.let[T.float32] = T.prefetch(T.prefetch(t1[T.int64(8), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096)), (task + i) % T.int64(2) * T.int64(36864) + co * T.int64(9216) + ci * T.int64(576) + k1 * T.int64(192) + k2 * T.int64(64))
                                x_1: T.let[T.float32] = T.prefetch(T.prefetch(t1[T.int64(9), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096)), (task + i) % T.int64(2) * T.int64(36864) + co * T.int64(9216) + ci * T.int64(576) + k1 * T.int64(192) + k2 * T.int64(64) - T.int64(18368))
                                x_2: T.let[T.float32] = T.prefetch(t1[T.int64(10), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                                x_3: T.let[T.float32] = T.prefetch(t1[T.int64(11), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                                x_4: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, task * T.int64(8) + i * T.int64(8) + k2, ci]
                                acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                                acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                                acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                                acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                                x_5: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, task * T.int64(8) + i * T.int64(8) + k2 + T.int64(2), ci]
                                acc[T.int64(1), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(1), T.int64(0), l])
                                acc[T.int64(1), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(1), T.int64(1), l])
                                acc[T.int64(1), T.int64(2), l] = T.fma(x_5, x_2, acc[T.int64(1), T.int64(2), l])
                                acc[T.int64(1), T.int64(3), l] = T.fma(x_5, x_3, acc[T.int64(1), T.int64(3), l])
                                x_6: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, task * T.int64(8) + i * T.int64(8) + k2 + T.int64(4), ci]
                                acc[T.int64(2), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(2), T.int64(0), l])
                                acc[T.int64(2), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(2), T.int64(1), l])
                                acc[T.int64(2), T.int64(2), l] = T.fma(x_6, x_2, acc[T.int64(2), T.int64(2), l])
                                acc[T.int64(2), T.int64(3), l] = T.fma(x_6, x_3, acc[T.int64(2), T.int64(3), l])
                                x_7: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, task * T.int64(8) + i * T.int64(8) + k2 + T.int64(6), ci]
                                acc[T.int64(3), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(3), T.int64(0), l])
                                acc[T.int64(3), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(3), T.int64(1), l])
                                acc[T.int64(3), T.int64(2), l] = T.fma(x_7, x_2, acc[T.int64(3), T.int64(2), l])
                                acc[T.int64(3), T.int64(3), l] = T.fma(x_7, x_3, acc[T.int64(3), T.int64(3), l])
                        for r in T.unroll(T.int64(4)):
                            for l in T.vectorized(T.int64(16)):
                                t4[T.int64(0), T.int64(8), v_i2, task * T.int64(4) + i * T.int64(4) + r, l] = acc[r, T.int64(0), l]
                                t4[T.int64(0), T.int64(9), v_i2, task * T.int64(4) + i * T.int64(4) + r, l] = acc[r, T.int64(1), l]
                                t4[T.int64(0), T.int64(10), v_i2, task * T.int64(4) + i * T.int64(4) + r, l] = acc[r, T.int64(2), l]
                                t4[T.int64(0), T.int64(11), v_i2, task * T.int64(4) + i * T.int64(4) + r, l] = acc[r, T.int64(3), l]
                for t in range((w + T.int64(1)) // T.int64(2) - (w + T.int64(1)) // T.int64(8) * T.int64(4)):
                    acc = T.alloc_local((T.int64(1), T.int64(4), T.int64(16)))
                    for v in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(16)):
                            acc[T.int64(0), v, l] = T.float32(0.0)
                    for co, ci, k1, k2 in T.grid(T.int64(2), T.int64(16), T.int64(3), T.int64(3)):
                        for l in T.vectorized(T.int64(16)):
                            x: T.let[T.float32] = T.prefetch(t1[T.int64(8), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                            x_1: T.let[T.float32] = T.prefetch(t1[T.int64(9), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                            x_2: T.let[T.float32] = T.prefetch(t1[T.int64(10), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                            x_3: T.let[T.float32] = T.prefetch(t1[T.int64(11), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                            x_4: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, (w + T.int64(1)) // T.int64(8) * T.int64(8) + t * T.int64(2) + k2, ci]
                            acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                            acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                            acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                            acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                    for l in T.vectorized(T.int64(16)):
                        t4[T.int64(0), T.int64(8), v_i2, (w + T.int64(1)) // T.int64(8) * T.int64(4) + t, l] = acc[T.int64(0), T.int64(0), l]
                        t4[T.int64(0), T.int64(9), v_i2, (w + T.int64(1)) // T.int64(8) * T.int64(4) + t, l] = acc[T.int64(0), T.int64(1), l]
                        t4[T.int64(0), T.int64(10), v_i2, (w + T.int64(1)) // T.int64(8) * T.int64(4) + t, l] = acc[T.int64(0), T.int64(2), l]
                        t4[T.int64(0), T.int64(11), v_i2, (w + T.int64(1)) // T.int64(8) * T.int64(4) + t, l] = acc[T.int64(0), T.int64(3), l]
    else:
        for v_i2 in range((h + T.int64(1)) // T.int64(2)):
            for t in range(T.int64(2)):
                for task in T.parallel(T.Select((h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * T.int64(55296) >= T.int64(100000), (w + T.int64(1)) // T.int64(8), T.int64(1))):
                    for i in range(T.Select((h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * T.int64(55296) >= T.int64(100000), T.int64(1), (w + T.int64(1)) // T.int64(8))):
                        acc = T.alloc_local((T.int64(4), T.int64(4), T.int64(16)))
                        for r in T.unroll(T.int64(4)):
                            for v in T.unroll(T.int64(4)):
                                for l in T.vectorized(T.int64(16)):
                                    acc[r, v, l] = T.float32(0.0)
                        for co, ci, k1, k2 in T.grid(T.int64(2), T.int64(16), T.int64(3), T.int64(3)):
                            for l in T.vectorized(T.int64(16)):
                                x: T.let[T.float32] = T.prefetch(T.prefetch(t1[t * T.int64(4), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096)), (task + i) % T.int64(2) * T.int64(36864) + co * T.int64(9216) + ci * T.int64(576) + k1 * T.int64(192) + k2 * T.int64(64) + T.int64(73728))
                                x_1: T.let[T.float32] = T.prefetch(T.prefetch(t1[t * T.int64(4) + T.int64(1), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096)), (task + i) % T.int64(2) * T.int64(36864) + co * T.int64(9216) + ci * T.int64(576) + k1 * T.int64(192) + k2 * T.int64(64) + T.int64(55360))
                                x_2: T.let[T.float32] = T.prefetch(t1[t * T.int64(4) + T.int64(2), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                                x_3: T.let[T.float32] = T.prefetch(t1[t * T.int64(4) + T.int64(3), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                                x_4: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, task * T.int64(8) + i * T.int64(8) + k2, ci]
                                acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                                acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                                acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                                acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                                x_5: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, task * T.int64(8) + i * T.int64(8) + k2 + T.int64(2), ci]
                                acc[T.int64(1), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(1), T.int64(0), l])
                                acc[T.int64(1), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(1), T.int64(1), l])
                                acc[T.int64(1), T.int64(2), l] = T.fma(x_5, x_2, acc[T.int64(1), T.int64(2), l])
                                acc[T.int64(1), T.int64(3), l] = T.fma(x_5, x_3, acc[T.int64(1), T.int64(3), l])
                                x_6: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, task * T.int64(8) + i * T.int64(8) + k2 + T.int64(4), ci]
                                acc[T.int64(2), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(2), T.int64(0), l])
                                acc[T.int64(2), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(2), T.int64(1), l])
                                acc[T.int64(2), T.int64(2), l] = T.fma(x_6, x_2, acc[T.int64(2), T.int64(2), l])
                                acc[T.int64(2), T.int64(3), l] = T.fma(x_6, x_3, acc[T.int64(2), T.int64(3), l])
                                x_7: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, task * T.int64(8) + i * T.int64(8) + k2 + T.int64(6), ci]
                                acc[T.int64(3), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(3), T.int64(0), l])
                                acc[T.int64(3), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(3), T.int64(1), l])
                                acc[T.int64(3), T.int64(2), l] = T.fma(x_7, x_2, acc[T.int64(3), T.int64(2), l])
                                acc[T.int64(3), T.int64(3), l] = T.fma(x_7, x_3, acc[T.int64(3), T.int64(3), l])
                        for r in T.unroll(T.int64(4)):
                            for l in T.vectorized(T.int64(16)):
                                t4[T.int64(0), t * T.int64(4), v_i2, task * T.int64(4) + i * T.int64(4) + r, l] = acc[r, T.int64(0), l]
                                t4[T.int64(0), t * T.int64(4) + T.int64(1), v_i2, task * T.int64(4) + i * T.int64(4) + r, l] = acc[r, T.int64(1), l]
                                t4[T.int64(0), t * T.int64(4) + T.int64(2), v_i2, task * T.int64(4) + i * T.int64(4) + r, l] = acc[r, T.int64(2), l]
                                t4[T.int64(0), t * T.int64(4) + T.int64(3), v_i2, task * T.int64(4) + i * T.int64(4) + r, l] = acc[r, T.int64(3), l]
                for t_1 in range((w + T.int64(1)) // T.int64(2) - (w + T.int64(1)) // T.int64(8) * T.int64(4)):
                    acc = T.alloc_local((T.int64(1), T.int64(4), T.int64(16)))
                    for v in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(16)):
                            acc[T.int64(0), v, l] = T.float32(0.0)
                    for co, ci, k1, k2 in T.grid(T.int64(2), T.int64(16), T.int64(3), T.int64(3)):
                        for l in T.vectorized(T.int64(16)):
                            x: T.let[T.float32] = T.prefetch(t1[t * T.int64(4), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                            x_1: T.let[T.float32] = T.prefetch(t1[t * T.int64(4) + T.int64(1), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                            x_2: T.let[T.float32] = T.prefetch(t1[t * T.int64(4) + T.int64(2), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                            x_3: T.let[T.float32] = T.prefetch(t1[t * T.int64(4) + T.int64(3), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                            x_4: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, (w + T.int64(1)) // T.int64(8) * T.int64(8) + t_1 * T.int64(2) + k2, ci]
                            acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                            acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                            acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                            acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                    for l in T.vectorized(T.int64(16)):
                        t4[T.int64(0), t * T.int64(4), v_i2, (w + T.int64(1)) // T.int64(8) * T.int64(4) + t_1, l] = acc[T.int64(0), T.int64(0), l]
                        t4[T.int64(0), t * T.int64(4) + T.int64(1), v_i2, (w + T.int64(1)) // T.int64(8) * T.int64(4) + t_1, l] = acc[T.int64(0), T.int64(1), l]
                        t4[T.int64(0), t * T.int64(4) + T.int64(2), v_i2, (w + T.int64(1)) // T.int64(8) * T.int64(4) + t_1, l] = acc[T.int64(0), T.int64(2), l]
                        t4[T.int64(0), t * T.int64(4) + T.int64(3), v_i2, (w + T.int64(1)) // T.int64(8) * T.int64(4) + t_1, l] = acc[T.int64(0), T.int64(3), l]
            for task in T.parallel(T.Select((h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * T.int64(55296) >= T.int64(100000), (w + T.int64(1)) // T.int64(8), T.int64(1))):
                for i in range(T.Select((h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * T.int64(55296) >= T.int64(100000), T.int64(1), (w + T.int64(1)) // T.int64(8))):
                    acc = T.alloc_local((T.int64(4), T.int64(4), T.int64(16)))
                    for r in T.unroll(T.int64(4)):
                        for v in T.unroll(T.int64(4)):
                            for l in T.vectorized(T.int64(16)):
                                acc[r, v, l] = T.float32(0.0)
                    for co, ci, k1, k2 in T.grid(T.int64(2), T.int64(16), T.int64(3), T.int64(3)):
                        for l in T.vectorized(T.int64(16)):
                            x: T.let[T.float32] = T.prefetch(T.prefetch(t1[T.int64(8), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096)), (task + i) % T.int64(2) * T.int64(36864) + co * T.int64(9216) + ci * T.int64(576) + k1 * T.int64(192) + k2 * T.int64(64))
                            x_1: T.let[T.float32] = T.prefetch(T.prefetch(t1[T.int64(9), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096)), (task + i) % T.int64(2) * T.int64(36864) + co * T.int64(9216) + ci * T.int64(576) + k1 * T.int64(192) + k2 * T.int64(64) - T.int64(18368))
                            x_2: T.let[T.float32] = T.prefetch(t1[T.int64(10), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                            x_3: T.let[T.float32] = T.prefetch(t1[T.int64(11), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                            x_4: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, task * T.int64(8) + i * T.int64(8) + k2, ci]
                            acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                            acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                            acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                            acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                            x_5: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, task * T.int64(8) + i * T.int64(8) + k2 + T.int64(2), ci]
                            acc[T.int64(1), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(1), T.int64(0), l])
                            acc[T.int64(1), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(1), T.int64(1), l])
                            acc[T.int64(1), T.int64(2), l] = T.fma(x_5, x_2, acc[T.int64(1), T.int64(2), l])
                            acc[T.int64(1), T.int64(3), l] = T.fma(x_5, x_3, acc[T.int64(1), T.int64(3), l])
                            x_6: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, task * T.int64(8) + i * T.int64(8) + k2 + T.int64(4), ci]
                            acc[T.int64(2), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(2), T.int64(0), l])
                            acc[T.int64(2), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(2), T.int64(1), l])
                            acc[T.int64(2), T.int64(2), l] = T.fma(x_6, x_2, acc[T.int64(2), T.int64(2), l])
                            acc[T.int64(2), T.int64(3), l] = T.fma(x_6, x_3, acc[T.int64(2), T.int64(3), l])
                            x_7: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, task * T.int64(8) + i * T.int64(8) + k2 + T.int64(6), ci]
                            acc[T.int64(3), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(3), T.int64(0), l])
                            acc[T.int64(3), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(3), T.int64(1), l])
                            acc[T.int64(3), T.int64(2), l] = T.fma(x_7, x_2, acc[T.int64(3), T.int64(2), l])
                            acc[T.int64(3), T.int64(3), l] = T.fma(x_7, x_3, acc[T.int64(3), T.int64(3), l])
                    for r in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(16)):
                            t4[T.int64(0), T.int64(8), v_i2, task * T.int64(4) + i * T.int64(4) + r, l] = acc[r, T.int64(0), l]
                            t4[T.int64(0), T.int64(9), v_i2, task * T.int64(4) + i * T.int64(4) + r, l] = acc[r, T.int64(1), l]
                            t4[T.int64(0), T.int64(10), v_i2, task * T.int64(4) + i * T.int64(4) + r, l] = acc[r, T.int64(2), l]
                            t4[T.int64(0), T.int64(11), v_i2, task * T.int64(4) + i * T.int64(4) + r, l] = acc[r, T.int64(3), l]
            for t in range((w + T.int64(1)) // T.int64(2) - (w + T.int64(1)) // T.int64(8) * T.int64(4)):
                acc = T.alloc_local((T.int64(1), T.int64(4), T.int64(16)))
                for v in T.unroll(T.int64(4)):
                    for l in T.vectorized(T.int64(16)):
                        acc[T.int64(0), v, l] = T.float32(0.0)
                for co, ci, k1, k2 in T.grid(T.int64(2), T.int64(16), T.int64(3), T.int64(3)):
                    for l in T.vectorized(T.int64(16)):
                        x: T.let[T.float32] = T.prefetch(t1[T.int64(8), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                        x_1: T.let[T.float32] = T.prefetch(t1[T.int64(9), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                        x_2: T.let[T.float32] = T.prefetch(t1[T.int64(10), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                        x_3: T.let[T.float32] = T.prefetch(t1[T.int64(11), co * T.int64(144) + ci * T.int64(9) + k1 * T.int64(3) + k2, l], T.int64(4096))
                        x_4: T.let[T.float32] = t3[T.int64(0), co, v_i2 * T.int64(2) + k1, (w + T.int64(1)) // T.int64(8) * T.int64(8) + t * T.int64(2) + k2, ci]
                        acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                        acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                        acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                        acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                for l in T.vectorized(T.int64(16)):
                    t4[T.int64(0), T.int64(8), v_i2, (w + T.int64(1)) // T.int64(8) * T.int64(4) + t, l] = acc[T.int64(0), T.int64(0), l]
                    t4[T.int64(0), T.int64(9), v_i2, (w + T.int64(1)) // T.int64(8) * T.int64(4) + t, l] = acc[T.int64(0), T.int64(1), l]
                    t4[T.int64(0), T.int64(10), v_i2, (w + T.int64(1)) // T.int64(8) * T.int64(4) + t, l] = acc[T.int64(0), T.int64(2), l]
                    t4[T.int64(0), T.int64(11), v_i2, (w + T.int64(1)) // T.int64(8) * T.int64(4) + t, l] = acc[T.int64(0), T.int64(3), l]
    for task in T.parallel(T.Select(((h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) + T.int64(15)) // T.int64(16) * T.int64(6144) >= T.int64(100000), T.int64(12), T.int64(1))):
        for co in range(T.Select(((h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) + T.int64(15)) // T.int64(16) * T.int64(6144) >= T.int64(100000), T.int64(1), T.int64(12))):
            for m_0, ci_1 in T.grid((h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) // T.int64(16), T.int64(16)):
                for m_1 in T.vectorized(T.int64(16)):
                    t2[m_0 * T.int64(16) + m_1 + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * task * T.int64(16) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * co * T.int64(16) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * ci_1] = t4[m_0 * T.int64(256) + m_1 * T.int64(16) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * task * T.int64(16) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * co * T.int64(16) + ci_1]
            for m_0 in range((h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) // T.int64(16), ((h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) + T.int64(15)) // T.int64(16)):
                for ci_1 in range(T.int64(16)):
                    for m_1 in T.vectorized(T.int64(16)):
                        if m_0 * T.int64(16) + m_1 < (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)):
                            t2[m_0 * T.int64(16) + m_1 + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * task * T.int64(16) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * co * T.int64(16) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * ci_1] = t4[m_0 * T.int64(256) + m_1 * T.int64(16) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * task * T.int64(16) + (h + T.int64(1)) // T.int64(2) * ((w + T.int64(1)) // T.int64(2)) * co * T.int64(16) + ci_1]
# from typing import TypeVar
# from tvm.script import tirx as T

n = TypeVar("n")
i = TypeVar("i")
j = TypeVar("j")
@T.prim_func(s_tir=True)
def conv2(t0: T.Buffer((n, T.int64(16), i, j), "float32"), t1: T.Buffer((T.int64(9), T.int64(16), T.int64(16)), "float32"), t2: T.Buffer((n, T.int64(9), i, j, T.int64(16)), "float32")):
    T.func_attr({"reflex.split_bf16_products": 3})
    for v_i0, t in T.grid(n, T.int64(3)):
        for task in T.parallel(T.Select(n * i * j * T.int64(2304) >= T.int64(100000), i * j // T.int64(5), T.int64(1))):
            for i_1 in range(T.Select(n * i * j * T.int64(2304) >= T.int64(100000), T.int64(1), i * j // T.int64(5))):
                acc = T.alloc_local((T.int64(5), T.int64(3), T.int64(16)))
                for r in T.unroll(T.int64(5)):
                    for v in T.unroll(T.int64(3)):
                        for l in T.vectorized(T.int64(16)):
                            acc[r, v, l] = T.float32(0.0)
                for k0 in range(T.int64(16)):
                    for l in T.vectorized(T.int64(16)):
                        x: T.let[T.float32] = t1[t * T.int64(768) + l + k0 * T.int64(16)]
                        x_1: T.let[T.float32] = t1[t * T.int64(768) + l + k0 * T.int64(16) + T.int64(256)]
                        x_2: T.let[T.float32] = t1[t * T.int64(768) + l + k0 * T.int64(16) + T.int64(512)]
                        x_3: T.let[T.float32] = t0[i * j * v_i0 * T.int64(16) + task * T.int64(5) + i_1 * T.int64(5) + i * j * k0]
                        acc[T.int64(0), T.int64(0), l] = T.fma(x_3, x, acc[T.int64(0), T.int64(0), l])
                        acc[T.int64(0), T.int64(1), l] = T.fma(x_3, x_1, acc[T.int64(0), T.int64(1), l])
                        acc[T.int64(0), T.int64(2), l] = T.fma(x_3, x_2, acc[T.int64(0), T.int64(2), l])
                        x_4: T.let[T.float32] = t0[i * j * v_i0 * T.int64(16) + task * T.int64(5) + i_1 * T.int64(5) + i * j * k0 + T.int64(1)]
                        acc[T.int64(1), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(1), T.int64(0), l])
                        acc[T.int64(1), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(1), T.int64(1), l])
                        acc[T.int64(1), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(1), T.int64(2), l])
                        x_5: T.let[T.float32] = t0[i * j * v_i0 * T.int64(16) + task * T.int64(5) + i_1 * T.int64(5) + i * j * k0 + T.int64(2)]
                        acc[T.int64(2), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(2), T.int64(0), l])
                        acc[T.int64(2), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(2), T.int64(1), l])
                        acc[T.int64(2), T.int64(2), l] = T.fma(x_5, x_2, acc[T.int64(2), T.int64(2), l])
                        x_6: T.let[T.float32] = t0[i * j * v_i0 * T.int64(16) + task * T.int64(5) + i_1 * T.int64(5) + i * j * k0 + T.int64(3)]
                        acc[T.int64(3), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(3), T.int64(0), l])
                        acc[T.int64(3), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(3), T.int64(1), l])
                        acc[T.int64(3), T.int64(2), l] = T.fma(x_6, x_2, acc[T.int64(3), T.int64(2), l])
                        x_7: T.let[T.float32] = t0[i * j * v_i0 * T.int64(16) + task * T.int64(5) + i_1 * T.int64(5) + i * j * k0 + T.int64(4)]
                        acc[T.int64(4), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(4), T.int64(0), l])
                        acc[T.int64(4), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(4), T.int64(1), l])
                        acc[T.int64(4), T.int64(2), l] = T.fma(x_7, x_2, acc[T.int64(4), T.int64(2), l])
                acc_local = T.alloc_local((T.int64(5), T.int64(3), T.int64(16)))
                for r in T.unroll(T.int64(5)):
                    for v in T.unroll(T.int64(3)):
                        for l in T.vectorized(T.int64(16)):
                            acc_local[r, v, l] = acc[r, v, l]
                for r in range(T.int64(5)):
                    for l in T.vectorized(T.int64(16)):
                        t2[i * j * v_i0 * T.int64(144) + i * j * t * T.int64(48) + task * T.int64(80) + i_1 * T.int64(80) + r * T.int64(16) + l] = acc_local[r, T.int64(0), l]
                        t2[i * j * v_i0 * T.int64(144) + i * j * T.int64(16) + i * j * t * T.int64(48) + task * T.int64(80) + i_1 * T.int64(80) + r * T.int64(16) + l] = acc_local[r, T.int64(1), l]
                        t2[i * j * v_i0 * T.int64(144) + i * j * T.int64(32) + i * j * t * T.int64(48) + task * T.int64(80) + i_1 * T.int64(80) + r * T.int64(16) + l] = acc_local[r, T.int64(2), l]
        for t_1 in range(i * j - i * j // T.int64(5) * T.int64(5)):
            acc = T.alloc_local((T.int64(1), T.int64(3), T.int64(16)))
            for v in T.unroll(T.int64(3)):
                for l in T.vectorized(T.int64(16)):
                    acc[T.int64(0), v, l] = T.float32(0.0)
            for k0 in range(T.int64(16)):
                for l in T.vectorized(T.int64(16)):
                    x: T.let[T.float32] = t1[t * T.int64(768) + l + k0 * T.int64(16)]
                    x_1: T.let[T.float32] = t1[t * T.int64(768) + l + k0 * T.int64(16) + T.int64(256)]
                    x_2: T.let[T.float32] = t1[t * T.int64(768) + l + k0 * T.int64(16) + T.int64(512)]
                    x_3: T.let[T.float32] = t0[i * j * v_i0 * T.int64(16) + i * j // T.int64(5) * T.int64(5) + t_1 + i * j * k0]
                    acc[T.int64(0), T.int64(0), l] = T.fma(x_3, x, acc[T.int64(0), T.int64(0), l])
                    acc[T.int64(0), T.int64(1), l] = T.fma(x_3, x_1, acc[T.int64(0), T.int64(1), l])
                    acc[T.int64(0), T.int64(2), l] = T.fma(x_3, x_2, acc[T.int64(0), T.int64(2), l])
            for l in T.vectorized(T.int64(16)):
                t2[i * j * v_i0 * T.int64(144) + i * j * t * T.int64(48) + i * j // T.int64(5) * T.int64(80) + t_1 * T.int64(16) + l] = acc[T.int64(0), T.int64(0), l]
                t2[i * j * v_i0 * T.int64(144) + i * j * T.int64(16) + i * j * t * T.int64(48) + i * j // T.int64(5) * T.int64(80) + t_1 * T.int64(16) + l] = acc[T.int64(0), T.int64(1), l]
                t2[i * j * v_i0 * T.int64(144) + i * j * T.int64(32) + i * j * t * T.int64(48) + i * j // T.int64(5) * T.int64(80) + t_1 * T.int64(16) + l] = acc[T.int64(0), T.int64(2), l]
# from typing import TypeVar
# from tvm.script import tirx as T

n = TypeVar("n")
i = TypeVar("i")
j = TypeVar("j")
@T.prim_func(s_tir=True)
def conv3(t0: T.Buffer((n, T.int64(9), i, j, T.int64(16)), "float32"), t1: T.Buffer((T.int64(12), T.int64(144), T.int64(16)), "float32"), t2: T.Buffer((n, T.int64(192), i, j), "float32")):
    T.func_attr({"reflex.split_bf16_products": 3})
    column_term = T.alloc_buffer((T.int64(12), T.int64(5), T.int64(16), T.int64(16)), "uint32")
    row_term = T.alloc_buffer((T.int64(5), n, i * j + T.int64(15), T.int64(16)), "uint32")
    column_term_1 = T.alloc_buffer((T.int64(12), T.int64(5), T.int64(16), T.int64(16)), "uint32")
    row_term_1 = T.alloc_buffer((T.int64(5), n, i * j + T.int64(15), T.int64(16)), "uint32")
    t3 = T.alloc_buffer((n, T.int64(12), i, j, T.int64(16)))
    if n * i * j * T.int64(27648) >= n * i * j * T.int64(13824) + T.int64(2654208) and i * j * T.int64(36) >= (i * j + T.int64(15)) // T.int64(16) * T.int64(480):
        ranges = T.alloc_local((T.int64(4),), "int32")
        most = T.alloc_local((T.int64(16),), "int32")
        least = T.alloc_local((T.int64(16),), "int32")
        for l in T.vectorized(T.int64(16)):
            most[l] = 0
            least[l] = 2147483647
        for v in range(n * i * j * T.int64(9)):
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
            for task in T.parallel(T.Select(n * T.int64(56400) + n * i * j * T.int64(3760) >= T.int64(100000), T.int64(5), T.int64(1))):
                for c, c_1 in T.grid(T.min(T.Select(n * T.int64(56400) + n * i * j * T.int64(3760) >= T.int64(100000), T.int64(1), T.int64(5)), T.int64(4) - task), n):
                    for c_2 in range(i * j):
                        for c_3 in T.vectorized(T.int64(16)):
                            row_term_1[task + c, c_1, c_2, c_3] = T.pair_bf16(t0[i * j * c_1 * T.int64(144) + c_2 * T.int64(16) + i * j * task * T.int64(32) + i * j * c * T.int64(32) + c_3], t0[i * j * c_1 * T.int64(144) + c_2 * T.int64(16) + i * j * T.int64(16) + i * j * task * T.int64(32) + i * j * c * T.int64(32) + c_3])
                    for c_2 in range(i * j, i * j + T.int64(15)):
                        for c_3 in T.vectorized(T.int64(16)):
                            row_term_1[task + c, c_1, c_2, c_3] = T.uint32(0)
                for c in range(T.min(T.Select(n * T.int64(56400) + n * i * j * T.int64(3760) >= T.int64(100000), T.int64(1), T.int64(5)), T.int64(4) - task), T.Select(n * T.int64(56400) + n * i * j * T.int64(3760) >= T.int64(100000), T.int64(1), T.int64(5))):
                    for c_1 in range(n):
                        for c_2 in range(i * j):
                            for c_3 in T.vectorized(T.int64(16)):
                                row_term_1[task + c, c_1, c_2, c_3] = T.pair_bf16(t0[i * j * c_1 * T.int64(144) + c_2 * T.int64(16) + i * j * task * T.int64(32) + i * j * c * T.int64(32) + c_3], T.float32(0.0))
                        for c_2 in range(i * j, i * j + T.int64(15)):
                            for c_3 in T.vectorized(T.int64(16)):
                                row_term_1[task + c, c_1, c_2, c_3] = T.uint32(0)
            for c in T.parallel(T.int64(12)):
                for c_1, m_0 in T.grid(T.int64(4), T.int64(16)):
                    for m_1 in T.vectorized(T.int64(16)):
                        column_term_1[m_0 * T.int64(16) + m_1 + c * T.int64(1280) + c_1 * T.int64(256)] = T.pair_bf16(t1[m_0 * T.int64(16) + m_1 + c * T.int64(2304) + c_1 * T.int64(512)], t1[m_0 * T.int64(16) + m_1 + c * T.int64(2304) + c_1 * T.int64(512) + T.int64(256)])
                for m_0 in range(T.int64(16)):
                    for m_1 in T.vectorized(T.int64(16)):
                        column_term_1[m_0 * T.int64(16) + m_1 + c * T.int64(1280) + T.int64(1024)] = T.pair_bf16(t1[m_0 * T.int64(16) + m_1 + c * T.int64(2304) + T.int64(2048)], T.float32(0.0))
            for task in T.parallel(T.Select(n * T.int64(91200) + n * i * j * T.int64(6080) >= T.int64(100000), T.int64(5), T.int64(1))):
                for c, c_1 in T.grid(T.min(T.Select(n * T.int64(91200) + n * i * j * T.int64(6080) >= T.int64(100000), T.int64(1), T.int64(5)), T.int64(4) - task), n):
                    for c_2 in range(i * j):
                        for c_3 in T.vectorized(T.int64(16)):
                            row_term[task + c, c_1, c_2, c_3] = T.pair_bf16(t0[i * j * c_1 * T.int64(144) + c_2 * T.int64(16) + i * j * task * T.int64(32) + i * j * c * T.int64(32) + c_3] - T.Cast("float32", T.Cast("bfloat16", t0[i * j * c_1 * T.int64(144) + c_2 * T.int64(16) + i * j * task * T.int64(32) + i * j * c * T.int64(32) + c_3])), t0[i * j * c_1 * T.int64(144) + c_2 * T.int64(16) + i * j * T.int64(16) + i * j * task * T.int64(32) + i * j * c * T.int64(32) + c_3] - T.Cast("float32", T.Cast("bfloat16", t0[i * j * c_1 * T.int64(144) + c_2 * T.int64(16) + i * j * T.int64(16) + i * j * task * T.int64(32) + i * j * c * T.int64(32) + c_3])))
                    for c_2 in range(i * j, i * j + T.int64(15)):
                        for c_3 in T.vectorized(T.int64(16)):
                            row_term[task + c, c_1, c_2, c_3] = T.uint32(0)
                for c in range(T.min(T.Select(n * T.int64(91200) + n * i * j * T.int64(6080) >= T.int64(100000), T.int64(1), T.int64(5)), T.int64(4) - task), T.Select(n * T.int64(91200) + n * i * j * T.int64(6080) >= T.int64(100000), T.int64(1), T.int64(5))):
                    for c_1 in range(n):
                        for c_2 in range(i * j):
                            for c_3 in T.vectorized(T.int64(16)):
                                row_term[task + c, c_1, c_2, c_3] = T.pair_bf16(t0[i * j * c_1 * T.int64(144) + c_2 * T.int64(16) + i * j * task * T.int64(32) + i * j * c * T.int64(32) + c_3] - T.Cast("float32", T.Cast("bfloat16", t0[i * j * c_1 * T.int64(144) + c_2 * T.int64(16) + i * j * task * T.int64(32) + i * j * c * T.int64(32) + c_3])), T.float32(0.0) - T.Cast("float32", T.Cast("bfloat16", T.float32(0.0))))
                        for c_2 in range(i * j, i * j + T.int64(15)):
                            for c_3 in T.vectorized(T.int64(16)):
                                row_term[task + c, c_1, c_2, c_3] = T.uint32(0)
            for c in T.parallel(T.int64(12)):
                for c_1, m_0 in T.grid(T.int64(4), T.int64(16)):
                    for m_1 in T.vectorized(T.int64(16)):
                        column_term[m_0 * T.int64(16) + m_1 + c * T.int64(1280) + c_1 * T.int64(256)] = T.pair_bf16(t1[m_0 * T.int64(16) + m_1 + c * T.int64(2304) + c_1 * T.int64(512)] - T.Cast("float32", T.Cast("bfloat16", t1[m_0 * T.int64(16) + m_1 + c * T.int64(2304) + c_1 * T.int64(512)])), t1[m_0 * T.int64(16) + m_1 + c * T.int64(2304) + c_1 * T.int64(512) + T.int64(256)] - T.Cast("float32", T.Cast("bfloat16", t1[m_0 * T.int64(16) + m_1 + c * T.int64(2304) + c_1 * T.int64(512) + T.int64(256)])))
                for m_0 in range(T.int64(16)):
                    for m_1 in T.vectorized(T.int64(16)):
                        column_term[m_0 * T.int64(16) + m_1 + c * T.int64(1280) + T.int64(1024)] = T.pair_bf16(t1[m_0 * T.int64(16) + m_1 + c * T.int64(2304) + T.int64(2048)] - T.Cast("float32", T.Cast("bfloat16", t1[m_0 * T.int64(16) + m_1 + c * T.int64(2304) + T.int64(2048)])), T.float32(0.0) - T.Cast("float32", T.Cast("bfloat16", T.float32(0.0))))
            for v_i0 in range(n):
                for task in T.parallel(T.Select(n * i * j * T.int64(15360) >= T.int64(100000), i * j // T.int64(32), T.int64(1))):
                    sum = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
                    sum_1 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
                    sum_2 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
                    sum_3 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
                    row = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
                    row_1 = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
                    column = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
                    column_1 = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
                    for i_1, t in T.grid(T.Select(n * i * j * T.int64(15360) >= T.int64(100000), T.int64(1), i * j // T.int64(32)), T.int64(6)):
                        tile = T.alloc_local((T.int64(1024),))
                        T.tile_zero(sum)
                        T.tile_zero(sum_1)
                        T.tile_zero(sum_2)
                        T.tile_zero(sum_3)
                        for pair in range(T.int64(5)):
                            T.tile_load(row, row_term[n * pair * T.int64(240) + v_i0 * T.int64(240) + n * i * j * pair * T.int64(16) + i * j * v_i0 * T.int64(16) + task * T.int64(512) + i_1 * T.int64(512)], T.int64(16))
                            T.tile_load(row_1, row_term[n * pair * T.int64(240) + v_i0 * T.int64(240) + n * i * j * pair * T.int64(16) + i * j * v_i0 * T.int64(16) + task * T.int64(512) + i_1 * T.int64(512) + T.int64(256)], T.int64(16))
                            T.tile_load(column, column_term_1[t * T.int64(2560) + pair * T.int64(256)], T.int64(16))
                            T.tile_load(column_1, column_term_1[t * T.int64(2560) + pair * T.int64(256) + T.int64(1280)], T.int64(16))
                            T.tile_dot_bf16(sum, row, column)
                            T.tile_dot_bf16(sum_1, row, column_1)
                            T.tile_dot_bf16(sum_2, row_1, column)
                            T.tile_dot_bf16(sum_3, row_1, column_1)
                            T.tile_load(row, row_term_1[n * pair * T.int64(240) + v_i0 * T.int64(240) + n * i * j * pair * T.int64(16) + i * j * v_i0 * T.int64(16) + task * T.int64(512) + i_1 * T.int64(512)], T.int64(16))
                            T.tile_load(row_1, row_term_1[n * pair * T.int64(240) + v_i0 * T.int64(240) + n * i * j * pair * T.int64(16) + i * j * v_i0 * T.int64(16) + task * T.int64(512) + i_1 * T.int64(512) + T.int64(256)], T.int64(16))
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
                                t3[i * j * v_i0 * T.int64(192) + i * t * j * T.int64(32) + task * T.int64(512) + i_1 * T.int64(512) + r * T.int64(16) + l] = tile[r * T.int64(32) + l]
                                t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(16) + i * t * j * T.int64(32) + task * T.int64(512) + i_1 * T.int64(512) + r * T.int64(16) + l] = tile[r * T.int64(32) + l + T.int64(16)]
                sum = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
                sum_1 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
                sum_2 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
                sum_3 = T.alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
                row = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
                row_1 = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
                column = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
                column_1 = T.alloc_buffer((T.int64(16), T.int64(16)), "uint32", scope="tile")
                if i * j % T.int64(32) >= T.int64(16):
                    for t in range(T.int64(6)):
                        tile = T.alloc_local((T.int64(512),))
                        T.tile_zero(sum)
                        T.tile_zero(sum_1)
                        for pair in range(T.int64(5)):
                            T.tile_load(row, row_term[n * pair * T.int64(240) + v_i0 * T.int64(240) + n * i * j * pair * T.int64(16) + i * j * v_i0 * T.int64(16) + i * j // T.int64(32) * T.int64(512)], T.int64(16))
                            T.tile_load(column, column_term_1[t * T.int64(2560) + pair * T.int64(256)], T.int64(16))
                            T.tile_load(column_1, column_term_1[t * T.int64(2560) + pair * T.int64(256) + T.int64(1280)], T.int64(16))
                            T.tile_dot_bf16(sum, row, column)
                            T.tile_dot_bf16(sum_1, row, column_1)
                            T.tile_load(row, row_term_1[n * pair * T.int64(240) + v_i0 * T.int64(240) + n * i * j * pair * T.int64(16) + i * j * v_i0 * T.int64(16) + i * j // T.int64(32) * T.int64(512)], T.int64(16))
                            T.tile_dot_bf16(sum, row, column)
                            T.tile_dot_bf16(sum_1, row, column_1)
                            T.tile_load(column, column_term[t * T.int64(2560) + pair * T.int64(256)], T.int64(16))
                            T.tile_load(column_1, column_term[t * T.int64(2560) + pair * T.int64(256) + T.int64(1280)], T.int64(16))
                            T.tile_dot_bf16(sum, row, column)
                            T.tile_dot_bf16(sum_1, row, column_1)
                        T.tile_store(sum, tile[T.int64(0)], T.int64(32))
                        T.tile_store(sum_1, tile[T.int64(16)], T.int64(32))
                        for r in range(T.int64(16)):
                            for l in T.vectorized(T.int64(16)):
                                t3[i * j * v_i0 * T.int64(192) + i * j * t * T.int64(32) + i * j // T.int64(32) * T.int64(512) + r * T.int64(16) + l] = tile[r * T.int64(32) + l]
                                t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(16) + i * j * t * T.int64(32) + i * j // T.int64(32) * T.int64(512) + r * T.int64(16) + l] = tile[r * T.int64(32) + l + T.int64(16)]
                if i * j % T.int64(16) > T.int64(0):
                    for t in range(T.int64(6)):
                        tile = T.alloc_local((T.int64(512),))
                        T.tile_zero(sum)
                        T.tile_zero(sum_1)
                        for pair in range(T.int64(5)):
                            T.tile_load(row, row_term[n * pair * T.int64(240) + v_i0 * T.int64(240) + n * i * j * pair * T.int64(16) + i * j * v_i0 * T.int64(16) + i * j // T.int64(16) * T.int64(256)], T.int64(16))
                            T.tile_load(column, column_term_1[t * T.int64(2560) + pair * T.int64(256)], T.int64(16))
                            T.tile_load(column_1, column_term_1[t * T.int64(2560) + pair * T.int64(256) + T.int64(1280)], T.int64(16))
                            T.tile_dot_bf16(sum, row, column)
                            T.tile_dot_bf16(sum_1, row, column_1)
                            T.tile_load(row, row_term_1[n * pair * T.int64(240) + v_i0 * T.int64(240) + n * i * j * pair * T.int64(16) + i * j * v_i0 * T.int64(16) + i * j // T.int64(16) * T.int64(256)], T.int64(16))
                            T.tile_dot_bf16(sum, row, column)
                            T.tile_dot_bf16(sum_1, row, column_1)
                            T.tile_load(column, column_term[t * T.int64(2560) + pair * T.int64(256)], T.int64(16))
                            T.tile_load(column_1, column_term[t * T.int64(2560) + pair * T.int64(256) + T.int64(1280)], T.int64(16))
                            T.tile_dot_bf16(sum, row, column)
                            T.tile_dot_bf16(sum_1, row, column_1)
                        T.tile_store(sum, tile[T.int64(0)], T.int64(32))
                        T.tile_store(sum_1, tile[T.int64(16)], T.int64(32))
                        for t_1 in range(i * j % T.int64(16)):
                            for l in T.vectorized(T.int64(16)):
                                t3[i * j * v_i0 * T.int64(192) + i * j * t * T.int64(32) + i * j // T.int64(16) * T.int64(256) + t_1 * T.int64(16) + l] = tile[t_1 * T.int64(32) + l]
                                t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(16) + i * j * t * T.int64(32) + i * j // T.int64(16) * T.int64(256) + t_1 * T.int64(16) + l] = tile[t_1 * T.int64(32) + l + T.int64(16)]
        else:
            for v_i0 in range(n):
                for t in range(T.int64(2)):
                    for task in T.parallel(T.Select(n * i * j * T.int64(27648) >= T.int64(100000), i * j // T.int64(4), T.int64(1))):
                        for i_1 in range(T.Select(n * i * j * T.int64(27648) >= T.int64(100000), T.int64(1), i * j // T.int64(4))):
                            acc = T.alloc_local((T.int64(4), T.int64(4), T.int64(16)))
                            for r in T.unroll(T.int64(4)):
                                for v in T.unroll(T.int64(4)):
                                    for l in T.vectorized(T.int64(16)):
                                        acc[r, v, l] = T.float32(0.0)
                            for co, ci in T.grid(T.int64(9), T.int64(16)):
                                for l in T.vectorized(T.int64(16)):
                                    x: T.let[T.float32] = T.prefetch(T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16)], T.int64(4096)), (task + i_1) % T.int64(2) * T.int64(18432) + co * T.int64(1024) + ci * T.int64(64) + T.int64(36864))
                                    x_1: T.let[T.float32] = T.prefetch(T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16) + T.int64(2304)], T.int64(4096)), (task + i_1) % T.int64(2) * T.int64(18432) + co * T.int64(1024) + ci * T.int64(64) + T.int64(27712))
                                    x_2: T.let[T.float32] = T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16) + T.int64(4608)], T.int64(4096))
                                    x_3: T.let[T.float32] = T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16) + T.int64(6912)], T.int64(4096))
                                    x_4: T.let[T.float32] = t0[i * j * v_i0 * T.int64(144) + task * T.int64(64) + i_1 * T.int64(64) + i * j * co * T.int64(16) + ci]
                                    acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                                    acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                                    acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                                    acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                                    x_5: T.let[T.float32] = t0[i * j * v_i0 * T.int64(144) + task * T.int64(64) + i_1 * T.int64(64) + i * j * co * T.int64(16) + ci + T.int64(16)]
                                    acc[T.int64(1), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(1), T.int64(0), l])
                                    acc[T.int64(1), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(1), T.int64(1), l])
                                    acc[T.int64(1), T.int64(2), l] = T.fma(x_5, x_2, acc[T.int64(1), T.int64(2), l])
                                    acc[T.int64(1), T.int64(3), l] = T.fma(x_5, x_3, acc[T.int64(1), T.int64(3), l])
                                    x_6: T.let[T.float32] = t0[i * j * v_i0 * T.int64(144) + task * T.int64(64) + i_1 * T.int64(64) + i * j * co * T.int64(16) + ci + T.int64(32)]
                                    acc[T.int64(2), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(2), T.int64(0), l])
                                    acc[T.int64(2), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(2), T.int64(1), l])
                                    acc[T.int64(2), T.int64(2), l] = T.fma(x_6, x_2, acc[T.int64(2), T.int64(2), l])
                                    acc[T.int64(2), T.int64(3), l] = T.fma(x_6, x_3, acc[T.int64(2), T.int64(3), l])
                                    x_7: T.let[T.float32] = t0[i * j * v_i0 * T.int64(144) + task * T.int64(64) + i_1 * T.int64(64) + i * j * co * T.int64(16) + ci + T.int64(48)]
                                    acc[T.int64(3), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(3), T.int64(0), l])
                                    acc[T.int64(3), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(3), T.int64(1), l])
                                    acc[T.int64(3), T.int64(2), l] = T.fma(x_7, x_2, acc[T.int64(3), T.int64(2), l])
                                    acc[T.int64(3), T.int64(3), l] = T.fma(x_7, x_3, acc[T.int64(3), T.int64(3), l])
                            for r in T.unroll(T.int64(4)):
                                for l in T.vectorized(T.int64(16)):
                                    t3[i * j * v_i0 * T.int64(192) + i * j * t * T.int64(64) + task * T.int64(64) + i_1 * T.int64(64) + r * T.int64(16) + l] = acc[r, T.int64(0), l]
                                    t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(16) + i * j * t * T.int64(64) + task * T.int64(64) + i_1 * T.int64(64) + r * T.int64(16) + l] = acc[r, T.int64(1), l]
                                    t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(32) + i * j * t * T.int64(64) + task * T.int64(64) + i_1 * T.int64(64) + r * T.int64(16) + l] = acc[r, T.int64(2), l]
                                    t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(48) + i * j * t * T.int64(64) + task * T.int64(64) + i_1 * T.int64(64) + r * T.int64(16) + l] = acc[r, T.int64(3), l]
                    for t_1 in range(i * j - i * j // T.int64(4) * T.int64(4)):
                        acc = T.alloc_local((T.int64(1), T.int64(4), T.int64(16)))
                        for v in T.unroll(T.int64(4)):
                            for l in T.vectorized(T.int64(16)):
                                acc[T.int64(0), v, l] = T.float32(0.0)
                        for co, ci in T.grid(T.int64(9), T.int64(16)):
                            for l in T.vectorized(T.int64(16)):
                                x: T.let[T.float32] = T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16)], T.int64(4096))
                                x_1: T.let[T.float32] = T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16) + T.int64(2304)], T.int64(4096))
                                x_2: T.let[T.float32] = T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16) + T.int64(4608)], T.int64(4096))
                                x_3: T.let[T.float32] = T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16) + T.int64(6912)], T.int64(4096))
                                x_4: T.let[T.float32] = t0[i * j * v_i0 * T.int64(144) + i * j // T.int64(4) * T.int64(64) + t_1 * T.int64(16) + i * j * co * T.int64(16) + ci]
                                acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                                acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                                acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                                acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                        for l in T.vectorized(T.int64(16)):
                            t3[i * j * v_i0 * T.int64(192) + i * j * t * T.int64(64) + i * j // T.int64(4) * T.int64(64) + t_1 * T.int64(16) + l] = acc[T.int64(0), T.int64(0), l]
                            t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(16) + i * j * t * T.int64(64) + i * j // T.int64(4) * T.int64(64) + t_1 * T.int64(16) + l] = acc[T.int64(0), T.int64(1), l]
                            t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(32) + i * j * t * T.int64(64) + i * j // T.int64(4) * T.int64(64) + t_1 * T.int64(16) + l] = acc[T.int64(0), T.int64(2), l]
                            t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(48) + i * j * t * T.int64(64) + i * j // T.int64(4) * T.int64(64) + t_1 * T.int64(16) + l] = acc[T.int64(0), T.int64(3), l]
                for task in T.parallel(T.Select(n * i * j * T.int64(27648) >= T.int64(100000), i * j // T.int64(4), T.int64(1))):
                    for i_1 in range(T.Select(n * i * j * T.int64(27648) >= T.int64(100000), T.int64(1), i * j // T.int64(4))):
                        acc = T.alloc_local((T.int64(4), T.int64(4), T.int64(16)))
                        for r in T.unroll(T.int64(4)):
                            for v in T.unroll(T.int64(4)):
                                for l in T.vectorized(T.int64(16)):
                                    acc[r, v, l] = T.float32(0.0)
                        for co, ci in T.grid(T.int64(9), T.int64(16)):
                            for l in T.vectorized(T.int64(16)):
                                x: T.let[T.float32] = T.prefetch(T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(18432)], T.int64(4096)), (task + i_1) % T.int64(2) * T.int64(18432) + co * T.int64(1024) + ci * T.int64(64))
                                x_1: T.let[T.float32] = T.prefetch(T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(20736)], T.int64(4096)), (task + i_1) % T.int64(2) * T.int64(18432) + co * T.int64(1024) + ci * T.int64(64) - T.int64(9152))
                                x_2: T.let[T.float32] = T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(23040)], T.int64(4096))
                                x_3: T.let[T.float32] = T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(25344)], T.int64(4096))
                                x_4: T.let[T.float32] = t0[i * j * v_i0 * T.int64(144) + task * T.int64(64) + i_1 * T.int64(64) + i * j * co * T.int64(16) + ci]
                                acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                                acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                                acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                                acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                                x_5: T.let[T.float32] = t0[i * j * v_i0 * T.int64(144) + task * T.int64(64) + i_1 * T.int64(64) + i * j * co * T.int64(16) + ci + T.int64(16)]
                                acc[T.int64(1), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(1), T.int64(0), l])
                                acc[T.int64(1), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(1), T.int64(1), l])
                                acc[T.int64(1), T.int64(2), l] = T.fma(x_5, x_2, acc[T.int64(1), T.int64(2), l])
                                acc[T.int64(1), T.int64(3), l] = T.fma(x_5, x_3, acc[T.int64(1), T.int64(3), l])
                                x_6: T.let[T.float32] = t0[i * j * v_i0 * T.int64(144) + task * T.int64(64) + i_1 * T.int64(64) + i * j * co * T.int64(16) + ci + T.int64(32)]
                                acc[T.int64(2), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(2), T.int64(0), l])
                                acc[T.int64(2), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(2), T.int64(1), l])
                                acc[T.int64(2), T.int64(2), l] = T.fma(x_6, x_2, acc[T.int64(2), T.int64(2), l])
                                acc[T.int64(2), T.int64(3), l] = T.fma(x_6, x_3, acc[T.int64(2), T.int64(3), l])
                                x_7: T.let[T.float32] = t0[i * j * v_i0 * T.int64(144) + task * T.int64(64) + i_1 * T.int64(64) + i * j * co * T.int64(16) + ci + T.int64(48)]
                                acc[T.int64(3), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(3), T.int64(0), l])
                                acc[T.int64(3), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(3), T.int64(1), l])
                                acc[T.int64(3), T.int64(2), l] = T.fma(x_7, x_2, acc[T.int64(3), T.int64(2), l])
                                acc[T.int64(3), T.int64(3), l] = T.fma(x_7, x_3, acc[T.int64(3), T.int64(3), l])
                        for r in T.unroll(T.int64(4)):
                            for l in T.vectorized(T.int64(16)):
                                t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(128) + task * T.int64(64) + i_1 * T.int64(64) + r * T.int64(16) + l] = acc[r, T.int64(0), l]
                                t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(144) + task * T.int64(64) + i_1 * T.int64(64) + r * T.int64(16) + l] = acc[r, T.int64(1), l]
                                t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(160) + task * T.int64(64) + i_1 * T.int64(64) + r * T.int64(16) + l] = acc[r, T.int64(2), l]
                                t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(176) + task * T.int64(64) + i_1 * T.int64(64) + r * T.int64(16) + l] = acc[r, T.int64(3), l]
                for t in range(i * j - i * j // T.int64(4) * T.int64(4)):
                    acc = T.alloc_local((T.int64(1), T.int64(4), T.int64(16)))
                    for v in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(16)):
                            acc[T.int64(0), v, l] = T.float32(0.0)
                    for co, ci in T.grid(T.int64(9), T.int64(16)):
                        for l in T.vectorized(T.int64(16)):
                            x: T.let[T.float32] = T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(18432)], T.int64(4096))
                            x_1: T.let[T.float32] = T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(20736)], T.int64(4096))
                            x_2: T.let[T.float32] = T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(23040)], T.int64(4096))
                            x_3: T.let[T.float32] = T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(25344)], T.int64(4096))
                            x_4: T.let[T.float32] = t0[i * j * v_i0 * T.int64(144) + i * j // T.int64(4) * T.int64(64) + t * T.int64(16) + i * j * co * T.int64(16) + ci]
                            acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                            acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                            acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                            acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                    for l in T.vectorized(T.int64(16)):
                        t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(128) + i * j // T.int64(4) * T.int64(64) + t * T.int64(16) + l] = acc[T.int64(0), T.int64(0), l]
                        t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(144) + i * j // T.int64(4) * T.int64(64) + t * T.int64(16) + l] = acc[T.int64(0), T.int64(1), l]
                        t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(160) + i * j // T.int64(4) * T.int64(64) + t * T.int64(16) + l] = acc[T.int64(0), T.int64(2), l]
                        t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(176) + i * j // T.int64(4) * T.int64(64) + t * T.int64(16) + l] = acc[T.int64(0), T.int64(3), l]
    else:
        for v_i0 in range(n):
            for t in range(T.int64(2)):
                for task in T.parallel(T.Select(n * i * j * T.int64(27648) >= T.int64(100000), i * j // T.int64(4), T.int64(1))):
                    for i_1 in range(T.Select(n * i * j * T.int64(27648) >= T.int64(100000), T.int64(1), i * j // T.int64(4))):
                        acc = T.alloc_local((T.int64(4), T.int64(4), T.int64(16)))
                        for r in T.unroll(T.int64(4)):
                            for v in T.unroll(T.int64(4)):
                                for l in T.vectorized(T.int64(16)):
                                    acc[r, v, l] = T.float32(0.0)
                        for co, ci in T.grid(T.int64(9), T.int64(16)):
                            for l in T.vectorized(T.int64(16)):
                                x: T.let[T.float32] = T.prefetch(T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16)], T.int64(4096)), (task + i_1) % T.int64(2) * T.int64(18432) + co * T.int64(1024) + ci * T.int64(64) + T.int64(36864))
                                x_1: T.let[T.float32] = T.prefetch(T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16) + T.int64(2304)], T.int64(4096)), (task + i_1) % T.int64(2) * T.int64(18432) + co * T.int64(1024) + ci * T.int64(64) + T.int64(27712))
                                x_2: T.let[T.float32] = T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16) + T.int64(4608)], T.int64(4096))
                                x_3: T.let[T.float32] = T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16) + T.int64(6912)], T.int64(4096))
                                x_4: T.let[T.float32] = t0[i * j * v_i0 * T.int64(144) + task * T.int64(64) + i_1 * T.int64(64) + i * j * co * T.int64(16) + ci]
                                acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                                acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                                acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                                acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                                x_5: T.let[T.float32] = t0[i * j * v_i0 * T.int64(144) + task * T.int64(64) + i_1 * T.int64(64) + i * j * co * T.int64(16) + ci + T.int64(16)]
                                acc[T.int64(1), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(1), T.int64(0), l])
                                acc[T.int64(1), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(1), T.int64(1), l])
                                acc[T.int64(1), T.int64(2), l] = T.fma(x_5, x_2, acc[T.int64(1), T.int64(2), l])
                                acc[T.int64(1), T.int64(3), l] = T.fma(x_5, x_3, acc[T.int64(1), T.int64(3), l])
                                x_6: T.let[T.float32] = t0[i * j * v_i0 * T.int64(144) + task * T.int64(64) + i_1 * T.int64(64) + i * j * co * T.int64(16) + ci + T.int64(32)]
                                acc[T.int64(2), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(2), T.int64(0), l])
                                acc[T.int64(2), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(2), T.int64(1), l])
                                acc[T.int64(2), T.int64(2), l] = T.fma(x_6, x_2, acc[T.int64(2), T.int64(2), l])
                                acc[T.int64(2), T.int64(3), l] = T.fma(x_6, x_3, acc[T.int64(2), T.int64(3), l])
                                x_7: T.let[T.float32] = t0[i * j * v_i0 * T.int64(144) + task * T.int64(64) + i_1 * T.int64(64) + i * j * co * T.int64(16) + ci + T.int64(48)]
                                acc[T.int64(3), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(3), T.int64(0), l])
                                acc[T.int64(3), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(3), T.int64(1), l])
                                acc[T.int64(3), T.int64(2), l] = T.fma(x_7, x_2, acc[T.int64(3), T.int64(2), l])
                                acc[T.int64(3), T.int64(3), l] = T.fma(x_7, x_3, acc[T.int64(3), T.int64(3), l])
                        for r in T.unroll(T.int64(4)):
                            for l in T.vectorized(T.int64(16)):
                                t3[i * j * v_i0 * T.int64(192) + i * j * t * T.int64(64) + task * T.int64(64) + i_1 * T.int64(64) + r * T.int64(16) + l] = acc[r, T.int64(0), l]
                                t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(16) + i * j * t * T.int64(64) + task * T.int64(64) + i_1 * T.int64(64) + r * T.int64(16) + l] = acc[r, T.int64(1), l]
                                t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(32) + i * j * t * T.int64(64) + task * T.int64(64) + i_1 * T.int64(64) + r * T.int64(16) + l] = acc[r, T.int64(2), l]
                                t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(48) + i * j * t * T.int64(64) + task * T.int64(64) + i_1 * T.int64(64) + r * T.int64(16) + l] = acc[r, T.int64(3), l]
                for t_1 in range(i * j - i * j // T.int64(4) * T.int64(4)):
                    acc = T.alloc_local((T.int64(1), T.int64(4), T.int64(16)))
                    for v in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(16)):
                            acc[T.int64(0), v, l] = T.float32(0.0)
                    for co, ci in T.grid(T.int64(9), T.int64(16)):
                        for l in T.vectorized(T.int64(16)):
                            x: T.let[T.float32] = T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16)], T.int64(4096))
                            x_1: T.let[T.float32] = T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16) + T.int64(2304)], T.int64(4096))
                            x_2: T.let[T.float32] = T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16) + T.int64(4608)], T.int64(4096))
                            x_3: T.let[T.float32] = T.prefetch(t1[t * T.int64(9216) + l + co * T.int64(256) + ci * T.int64(16) + T.int64(6912)], T.int64(4096))
                            x_4: T.let[T.float32] = t0[i * j * v_i0 * T.int64(144) + i * j // T.int64(4) * T.int64(64) + t_1 * T.int64(16) + i * j * co * T.int64(16) + ci]
                            acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                            acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                            acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                            acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                    for l in T.vectorized(T.int64(16)):
                        t3[i * j * v_i0 * T.int64(192) + i * j * t * T.int64(64) + i * j // T.int64(4) * T.int64(64) + t_1 * T.int64(16) + l] = acc[T.int64(0), T.int64(0), l]
                        t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(16) + i * j * t * T.int64(64) + i * j // T.int64(4) * T.int64(64) + t_1 * T.int64(16) + l] = acc[T.int64(0), T.int64(1), l]
                        t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(32) + i * j * t * T.int64(64) + i * j // T.int64(4) * T.int64(64) + t_1 * T.int64(16) + l] = acc[T.int64(0), T.int64(2), l]
                        t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(48) + i * j * t * T.int64(64) + i * j // T.int64(4) * T.int64(64) + t_1 * T.int64(16) + l] = acc[T.int64(0), T.int64(3), l]
            for task in T.parallel(T.Select(n * i * j * T.int64(27648) >= T.int64(100000), i * j // T.int64(4), T.int64(1))):
                for i_1 in range(T.Select(n * i * j * T.int64(27648) >= T.int64(100000), T.int64(1), i * j // T.int64(4))):
                    acc = T.alloc_local((T.int64(4), T.int64(4), T.int64(16)))
                    for r in T.unroll(T.int64(4)):
                        for v in T.unroll(T.int64(4)):
                            for l in T.vectorized(T.int64(16)):
                                acc[r, v, l] = T.float32(0.0)
                    for co, ci in T.grid(T.int64(9), T.int64(16)):
                        for l in T.vectorized(T.int64(16)):
                            x: T.let[T.float32] = T.prefetch(T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(18432)], T.int64(4096)), (task + i_1) % T.int64(2) * T.int64(18432) + co * T.int64(1024) + ci * T.int64(64))
                            x_1: T.let[T.float32] = T.prefetch(T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(20736)], T.int64(4096)), (task + i_1) % T.int64(2) * T.int64(18432) + co * T.int64(1024) + ci * T.int64(64) - T.int64(9152))
                            x_2: T.let[T.float32] = T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(23040)], T.int64(4096))
                            x_3: T.let[T.float32] = T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(25344)], T.int64(4096))
                            x_4: T.let[T.float32] = t0[i * j * v_i0 * T.int64(144) + task * T.int64(64) + i_1 * T.int64(64) + i * j * co * T.int64(16) + ci]
                            acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                            acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                            acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                            acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                            x_5: T.let[T.float32] = t0[i * j * v_i0 * T.int64(144) + task * T.int64(64) + i_1 * T.int64(64) + i * j * co * T.int64(16) + ci + T.int64(16)]
                            acc[T.int64(1), T.int64(0), l] = T.fma(x_5, x, acc[T.int64(1), T.int64(0), l])
                            acc[T.int64(1), T.int64(1), l] = T.fma(x_5, x_1, acc[T.int64(1), T.int64(1), l])
                            acc[T.int64(1), T.int64(2), l] = T.fma(x_5, x_2, acc[T.int64(1), T.int64(2), l])
                            acc[T.int64(1), T.int64(3), l] = T.fma(x_5, x_3, acc[T.int64(1), T.int64(3), l])
                            x_6: T.let[T.float32] = t0[i * j * v_i0 * T.int64(144) + task * T.int64(64) + i_1 * T.int64(64) + i * j * co * T.int64(16) + ci + T.int64(32)]
                            acc[T.int64(2), T.int64(0), l] = T.fma(x_6, x, acc[T.int64(2), T.int64(0), l])
                            acc[T.int64(2), T.int64(1), l] = T.fma(x_6, x_1, acc[T.int64(2), T.int64(1), l])
                            acc[T.int64(2), T.int64(2), l] = T.fma(x_6, x_2, acc[T.int64(2), T.int64(2), l])
                            acc[T.int64(2), T.int64(3), l] = T.fma(x_6, x_3, acc[T.int64(2), T.int64(3), l])
                            x_7: T.let[T.float32] = t0[i * j * v_i0 * T.int64(144) + task * T.int64(64) + i_1 * T.int64(64) + i * j * co * T.int64(16) + ci + T.int64(48)]
                            acc[T.int64(3), T.int64(0), l] = T.fma(x_7, x, acc[T.int64(3), T.int64(0), l])
                            acc[T.int64(3), T.int64(1), l] = T.fma(x_7, x_1, acc[T.int64(3), T.int64(1), l])
                            acc[T.int64(3), T.int64(2), l] = T.fma(x_7, x_2, acc[T.int64(3), T.int64(2), l])
                            acc[T.int64(3), T.int64(3), l] = T.fma(x_7, x_3, acc[T.int64(3), T.int64(3), l])
                    for r in T.unroll(T.int64(4)):
                        for l in T.vectorized(T.int64(16)):
                            t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(128) + task * T.int64(64) + i_1 * T.int64(64) + r * T.int64(16) + l] = acc[r, T.int64(0), l]
                            t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(144) + task * T.int64(64) + i_1 * T.int64(64) + r * T.int64(16) + l] = acc[r, T.int64(1), l]
                            t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(160) + task * T.int64(64) + i_1 * T.int64(64) + r * T.int64(16) + l] = acc[r, T.int64(2), l]
                            t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(176) + task * T.int64(64) + i_1 * T.int64(64) + r * T.int64(16) + l] = acc[r, T.int64(3), l]
            for t in range(i * j - i * j // T.int64(4) * T.int64(4)):
                acc = T.alloc_local((T.int64(1), T.int64(4), T.int64(16)))
                for v in T.unroll(T.int64(4)):
                    for l in T.vectorized(T.int64(16)):
                        acc[T.int64(0), v, l] = T.float32(0.0)
                for co, ci in T.grid(T.int64(9), T.int64(16)):
                    for l in T.vectorized(T.int64(16)):
                        x: T.let[T.float32] = T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(18432)], T.int64(4096))
                        x_1: T.let[T.float32] = T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(20736)], T.int64(4096))
                        x_2: T.let[T.float32] = T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(23040)], T.int64(4096))
                        x_3: T.let[T.float32] = T.prefetch(t1[l + co * T.int64(256) + ci * T.int64(16) + T.int64(25344)], T.int64(4096))
                        x_4: T.let[T.float32] = t0[i * j * v_i0 * T.int64(144) + i * j // T.int64(4) * T.int64(64) + t * T.int64(16) + i * j * co * T.int64(16) + ci]
                        acc[T.int64(0), T.int64(0), l] = T.fma(x_4, x, acc[T.int64(0), T.int64(0), l])
                        acc[T.int64(0), T.int64(1), l] = T.fma(x_4, x_1, acc[T.int64(0), T.int64(1), l])
                        acc[T.int64(0), T.int64(2), l] = T.fma(x_4, x_2, acc[T.int64(0), T.int64(2), l])
                        acc[T.int64(0), T.int64(3), l] = T.fma(x_4, x_3, acc[T.int64(0), T.int64(3), l])
                for l in T.vectorized(T.int64(16)):
                    t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(128) + i * j // T.int64(4) * T.int64(64) + t * T.int64(16) + l] = acc[T.int64(0), T.int64(0), l]
                    t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(144) + i * j // T.int64(4) * T.int64(64) + t * T.int64(16) + l] = acc[T.int64(0), T.int64(1), l]
                    t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(160) + i * j // T.int64(4) * T.int64(64) + t * T.int64(16) + l] = acc[T.int64(0), T.int64(2), l]
                    t3[i * j * v_i0 * T.int64(192) + i * j * T.int64(176) + i * j // T.int64(4) * T.int64(64) + t * T.int64(16) + l] = acc[T.int64(0), T.int64(3), l]
    for task in T.parallel(T.Select((i * j + T.int64(15)) // T.int64(16) * n * T.int64(6144) >= T.int64(100000), n * T.int64(12), T.int64(1))):
        for m in range(T.Select((i * j + T.int64(15)) // T.int64(16) * n * T.int64(6144) >= T.int64(100000), T.int64(1), n * T.int64(12))):
            for m_0, ci_1 in T.grid(i * j // T.int64(16), T.int64(16)):
                for m_1 in T.vectorized(T.int64(16)):
                    t2[m_0 * T.int64(16) + m_1 + i * j * task * T.int64(16) + i * j * m * T.int64(16) + i * j * ci_1] = t3[m_0 * T.int64(256) + m_1 * T.int64(16) + i * j * task * T.int64(16) + i * j * m * T.int64(16) + ci_1]
            for m_0 in range(i * j // T.int64(16), (i * j + T.int64(15)) // T.int64(16)):
                for ci_1 in range(T.int64(16)):
                    for m_1 in T.vectorized(T.int64(16)):
                        if m_0 * T.int64(16) + m_1 < i * j:
                            t2[m_0 * T.int64(16) + m_1 + i * j * task * T.int64(16) + i * j * m * T.int64(16) + i * j * ci_1] = t3[m_0 * T.int64(256) + m_1 * T.int64(16) + i * j * task * T.int64(16) + i * j * m * T.int64(16) + ci_1]
