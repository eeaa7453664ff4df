# step: unroll_and_jam C C:0
# step: distribute_loops C:0
# step: fuse_adjacent C:0 D:0
# step: fuse_adjacent C:1 D:1
# step: store_at C C:1 local
# step: split C:1 8
# step: distribute_loops C:0
# step: reorder C:3 C:0 C:1 C:2
# step: decompose_reduction C C:0
# step: reorder C:3 C:1 C:2
# step: vectorize C:1
# step: unroll_and_jam C C:2
# step: cache_read_at D C D:0 local
# step: reorder D:2 D:1
# step: vectorize D:1
# step: unroll_and_jam D D:2

@T.prim_func(s_tir=True)
def dense(a: T.Buffer((T.int64(2), T.int64(5)), "float32"), b: T.Buffer((T.int64(5), T.int64(12)), "float32"), d: T.Buffer((T.int64(2), T.int64(12)), "float32")):
    C = T.sblock_alloc_buffer((T.int64(2), T.int64(12)))
    for i, j, k in T.grid(T.int64(2), T.int64(12), T.int64(5)):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + a[vi, vk] * b[vk, vj]
    for i, j in T.grid(T.int64(2), T.int64(12)):
        with T.sblock("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            d[vi, vj] = T.max(C[vi, vj], T.float32(0))

# ----
# refused: unroll_and_jam of `C` refused: it has an init, or reads other elements of what it writes
# refused: distribute_loops of `i` refused: there is one statement in it
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def dense(a: T.Buffer((T.int64(2), T.int64(5)), "float32"), b: T.Buffer((T.int64(5), T.int64(12)), "float32"), d: T.Buffer((T.int64(2), T.int64(12)), "float32")):
    # with T.sblock("root"):
    C = T.alloc_local((T.int64(2), T.int64(2), T.int64(8)))
    for i, j_0, j_1 in T.grid(T.int64(2), T.int64(2), T.int64(8)):
        with T.sblock("C_init"):
            vi = T.axis.spatial(T.int64(2), i)
            vj = T.axis.spatial(T.int64(12), j_0 * T.int64(8) + j_1)
            v_j_0, v_j_1 = T.axis.remap("SS", [j_0, j_1])
            T.where(j_0 * T.int64(8) + j_1 < T.int64(12))
            T.reads()
            T.writes(C[vi, v_j_0, v_j_1])
            C[vi, v_j_0, v_j_1] = T.float32(0.0)
    for k in range(T.int64(5)):
        for j_1 in T.vectorized(T.int64(8)):
            with T.sblock("C"):
                vk, v_j_1 = T.axis.remap("RS", [k, j_1])
                T.reads(C[T.int64(0), T.int64(0), v_j_1], a[T.int64(0), vk], b[vk, v_j_1], C[T.int64(0), T.int64(1), v_j_1], b[vk, v_j_1 + T.int64(8)], C[T.int64(1), T.int64(0), v_j_1], a[T.int64(1), vk], C[T.int64(1), T.int64(1), v_j_1])
                T.writes(C[T.int64(0), T.int64(0), v_j_1], C[T.int64(0), T.int64(1), v_j_1], C[T.int64(1), T.int64(0), v_j_1], C[T.int64(1), T.int64(1), v_j_1])
                C[T.int64(0), T.int64(0), v_j_1] = C[T.int64(0), T.int64(0), v_j_1] + a[T.int64(0), vk] * b[vk, v_j_1]
                if v_j_1 + T.int64(8) < T.int64(12):
                    C[T.int64(0), T.int64(1), v_j_1] = C[T.int64(0), T.int64(1), v_j_1] + a[T.int64(0), vk] * b[vk, v_j_1 + T.int64(8)]
                C[T.int64(1), T.int64(0), v_j_1] = C[T.int64(1), T.int64(0), v_j_1] + a[T.int64(1), vk] * b[vk, v_j_1]
                if v_j_1 + T.int64(8) < T.int64(12):
                    C[T.int64(1), T.int64(1), v_j_1] = C[T.int64(1), T.int64(1), v_j_1] + a[T.int64(1), vk] * b[vk, v_j_1 + T.int64(8)]
    C_local = T.alloc_local((T.int64(2), T.int64(2), T.int64(8)))
    for i, j_0, j_1 in T.grid(T.int64(2), T.int64(2), T.int64(8)):
        with T.sblock("C_local"):
            v_i, v_j_0, v_j_1 = T.axis.remap("SSS", [i, j_0, j_1])
            T.where(j_0 * T.int64(8) + j_1 < T.int64(12))
            T.reads(C[v_i, v_j_0, v_j_1])
            T.writes(C_local[v_i, v_j_0, v_j_1])
            C_local[v_i, v_j_0, v_j_1] = C[v_i, v_j_0, v_j_1]
    for i in range(T.int64(2)):
        for j_1 in T.vectorized(T.int64(8)):
            with T.sblock("D"):
                vi, v_j_1, v_i, v_j_1_1 = T.axis.remap("SSSS", [i, j_1, i, j_1])
                T.reads(C_local[v_i, T.int64(0), v_j_1_1], C_local[v_i, T.int64(1), v_j_1_1])
                T.writes(d[vi, v_j_1], d[vi, v_j_1 + T.int64(8)])
                d[vi, v_j_1] = T.max(C_local[v_i, T.int64(0), v_j_1_1], T.float32(0.0))
                if v_j_1 + T.int64(8) < T.int64(12):
                    d[vi, v_j_1 + T.int64(8)] = T.max(C_local[v_i, T.int64(1), v_j_1_1], T.float32(0.0))
