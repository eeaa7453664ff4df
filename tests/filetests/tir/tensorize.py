# from tvm.script import tirx as T
# step: tensorize zero:0 tile_zero
# step: tensorize load_a:0 tile_load
# step: tensorize load_b:0 tile_dot_bf16
# step: tensorize load_b:0 tile_load
# step: tensorize store:0 tile_store

@T.prim_func(s_tir=True)
def product(a: T.Buffer((64, 48), "uint32"), b: T.Buffer((48, 64), "uint32"), y: T.Buffer((64, 64), "float32")):
    c = T.sblock_alloc_buffer((16, 16), scope="tile")
    ta = T.sblock_alloc_buffer((16, 12), "uint32", scope="tile")
    tb = T.sblock_alloc_buffer((12, 16), "uint32", scope="tile")
    for i, j in T.grid(16, 16):
        with T.sblock("zero"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads()
            T.writes(c[vi, vj])
            c[vi, vj] = T.float32(0)
    for i, j in T.grid(16, 12):
        with T.sblock("load_a"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(a[vi + 32, vj + 12])
            T.writes(ta[vi, vj])
            ta[vi, vj] = a[vi + 32, vj + 12]
    for i, j in T.grid(12, 16):
        with T.sblock("load_b"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(b[vi + 12, vj + 16])
            T.writes(tb[vi, vj])
            tb[vi, vj] = b[vi + 12, vj + 16]
    T.tile_dot_bf16(c, ta, tb)
    for i, j in T.grid(16, 16):
        with T.sblock("store"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(c[vi, vj])
            T.writes(y[vi + 32, vj + 16])
            y[vi + 32, vj + 16] = c[vi, vj]
# ----
# refused: tensorize of `i` refused: it is no tile_dot_bf16: its statements are others
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def product(a: T.Buffer((T.int64(64), T.int64(48)), "uint32"), b: T.Buffer((T.int64(48), T.int64(64)), "uint32"), y: T.Buffer((T.int64(64), T.int64(64)), "float32")):
    c = T.sblock_alloc_buffer((T.int64(16), T.int64(16)), scope="tile")
    ta = T.sblock_alloc_buffer((T.int64(16), T.int64(12)), "uint32", scope="tile")
    tb = T.sblock_alloc_buffer((T.int64(12), T.int64(16)), "uint32", scope="tile")
    T.tile_zero(c)
    T.tile_load(ta, a[T.int64(1548)], T.int64(48))
    T.tile_load(tb, b[T.int64(784)], T.int64(64))
    T.tile_dot_bf16(c, ta, tb)
    T.tile_store(c, y[T.int64(2064)], T.int64(64))
