@T.prim_func(s_tir=True)
def f(A: T.Buffer((2, 3), "float32"), B: T.Buffer((2, 3), "float32")):
    A_1 = T.decl_buffer((3, 2), data=A.data)
    for i, j in T.grid(2, 3):
        B[i, j] = A_1[j, i]

# ----
# error: line 3: `A_1` is neither flat nor what `A` is
