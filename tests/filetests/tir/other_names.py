@T.prim_func(s_tir=True)
def other_names(A: T.Buffer((2, 3), "float32", elem_offset=offset), H: T.Buffer((), "int64"), B: T.Buffer((2, 3), "float32")):
    T.func_attr({"target": T.target({"host": {"keys": ["cpu"], "kind": "c"}, "keys": ["cpu"], "kind": "llvm"}), "tirx.noalias": True})
    A_1 = T.decl_buffer((6,), data=A.data, elem_offset=0)
    H_1 = T.decl_buffer((1,), "int64", data=H.data)
    B_1 = T.decl_buffer((6,), data=B.data, align=8)
    B_2 = T.decl_buffer((2, 3), data=B_1.data)
    with T.attr({"pragma_scope": "seq"}):
        for i, j in T.grid(2, 3):
            B_1[i * 3 + j] = A_1[i * 3 + j + offset] * T.Cast("float32", H_1[0])
        B_2[0, 0] = B_1[5]

# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def other_names(A: T.Buffer((T.int64(2), T.int64(3)), "float32"), H: T.Buffer((), "int64"), B: T.Buffer((T.int64(2), T.int64(3)), "float32")):
    T.func_attr({"tirx.noalias": True})
    for i, j in T.grid(T.int64(2), T.int64(3)):
        B[i * T.int64(3) + j] = A[i * T.int64(3) + j] * T.Cast("float32", H[T.int64(0)])
    B[T.int64(0), T.int64(0)] = B[T.int64(5)]
