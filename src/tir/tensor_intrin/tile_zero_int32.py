# from typing import TypeVar
# from tvm.script import tirx as T

rows = TypeVar("rows")
words = TypeVar("words")
@T.prim_func(s_tir=True)
def tile_zero_int32(tile: T.Buffer((rows, words), "int32")):
    for i, j in T.grid(rows, words):
        tile[i, j] = T.int32(0)
