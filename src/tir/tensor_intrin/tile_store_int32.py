# from typing import TypeVar
# from tvm.script import tirx as T

rows = TypeVar("rows")
words = TypeVar("words")
@T.prim_func(s_tir=True)
def tile_store_int32(tile: T.Buffer((rows, words), "int32"), memory: T.Buffer((rows, words), "int32")):
    for i, j in T.grid(rows, words):
        memory[i, j] = tile[i, j]
