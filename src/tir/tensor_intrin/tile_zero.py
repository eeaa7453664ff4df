# from typing import TypeVar
# from tvm.script import tirx as T

rows = TypeVar("rows")
words = TypeVar("words")
@T.prim_func(s_tir=True)
def tile_zero(tile: T.Buffer((rows, words), "float32")):
    for i, j in T.grid(rows, words):
        tile[i, j] = T.float32(0)
