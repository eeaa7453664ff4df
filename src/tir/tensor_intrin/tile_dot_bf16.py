# from typing import TypeVar
# from tvm.script import tirx as T

# A lower half of -0 times 0 adds nothing to what the upper halves give, whatever its sign, so
# `dot_bf16` is one multiply-add that neither takes nor gives subnormal numbers.
rows = TypeVar("rows")
words = TypeVar("words")
columns = TypeVar("columns")
@T.prim_func(s_tir=True)
def tile_dot_bf16(sum: T.Buffer((rows, columns), "float32"), a: T.Buffer((rows, words), "uint32"), b: T.Buffer((words, columns), "uint32")):
    for i, j in T.grid(rows, columns):
        low = T.alloc_local((1,))
        high = T.alloc_local((1,))
        low[0] = T.float32(0)
        high[0] = T.float32(0)
        for k in range(words):
            low[0] = T.dot_bf16(T.bitwise_or(T.shift_left(a[i, k], T.uint32(16)), T.uint32(32768)), T.shift_left(b[k, j], T.uint32(16)), low[0])
            high[0] = T.dot_bf16(T.bitwise_or(T.bitwise_and(a[i, k], T.uint32(4294901760)), T.uint32(32768)), T.bitwise_and(b[k, j], T.uint32(4294901760)), high[0])
        both: T.let[T.float32] = low[0] + high[0]
        both_1: T.let[T.float32] = T.Select(T.fabs(both) < T.float32(1.1754943508222875e-38), both * T.float32(0), both)
        old: T.let[T.float32] = T.Select(T.fabs(sum[i, j]) < T.float32(1.1754943508222875e-38), sum[i, j] * T.float32(0), sum[i, j])
        new: T.let[T.float32] = old + both_1
        sum[i, j] = T.Select(T.fabs(new) < T.float32(1.1754943508222875e-38), new * T.float32(0), new)
