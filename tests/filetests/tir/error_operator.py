@T.prim_func(s_tir=True)
def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = T.popcount(A[i])

# ----
# error: line 4: `T.popcount(A[i])` is not supported
