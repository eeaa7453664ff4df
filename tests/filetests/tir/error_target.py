@T.prim_func(s_tir=True)
def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    T.func_attr({"target": T.target({"keys": ["cuda", "gpu"], "kind": "cuda"})})
    for i in range(4):
        B[i] = A[i]

# ----
# error: line 3: `T.target({"keys": ["cuda", "gpu"], "kind": "cuda"})` is not supported
