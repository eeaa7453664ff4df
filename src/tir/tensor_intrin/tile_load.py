# from typing import TypeVar
# from tvm.script import tirx as T

rows = TypeVar("rows")
words = TypeVar("words")
@T.prim_func(s_tir=True)
def tile_load(tile: T.Buffer((rows, words), "uint32"), memory: T.Buffer((rows, words), "uint32")):
    for i, j in T.grid(rows, words):
        tile[i, j] = memory[i, j]
