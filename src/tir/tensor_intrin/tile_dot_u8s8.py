# from typing import TypeVar
# from tvm.script import tirx as T

rows = TypeVar("rows")
words = TypeVar("words")
columns = TypeVar("columns")
@T.prim_func(s_tir=True)
def tile_dot_u8s8(sum: T.Buffer((rows, columns), "int32"), a: T.Buffer((rows, words), "uint32"), b: T.Buffer((words, columns), "uint32")):
    for i, j, k in T.grid(rows, columns, words):
        sum[i, j] = T.dot_u8s8(a[i, k], b[k, j], sum[i, j])
