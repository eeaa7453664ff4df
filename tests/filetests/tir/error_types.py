@T.prim_func(s_tir=True)
def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float64")):
    for i in range(4):
        B[i] = A[i] + B[i]

# ----
# error: line 4: operands of types float32 and float64
