@T.prim_func(s_tir=True)
def statements(A: T.Buffer((16,), "float32"), x: T.int64, H: T.Buffer((4,), "float16"), I0: T.Buffer((16,), "int32"), B: T.Buffer((16,), "float32")):
    for i in T.parallel(4):
        t = T.alloc_buffer((4,), "float32", scope="local")
        for j in T.unroll(4):
            t[j] = A[i * 4 + j]
        for j in T.serial(1, 4, annotations={"pragma": "x", "n": 3, "b": True}):
            if j > 2 and not (I0[i] == 3):
                B[i * 4 + j] = t[j]
            elif (I0[j] < 3) == (j < 2):
                B[I0[j]] = T.Select(I0[i] << 2 & 7 | ~I0[j] > 3, T.float32("inf"), -t[j])
            else:
                B[i * 4 + j] = t[j] * T.float32(0.1) + T.Cast("float32", x)
        s: T.let[T.float32] = t[0] - (t[1] - t[2]) / (t[3] * t[3])
        while t[0] < s:
            t[0] = t[0] * 2.0 + T.reinterpret("float32", I0[i])
            H[i] = T.float16(0.1) + T.Cast("float16", T.nearbyint(T.pow(s, t[0])))
            I0[i] = T.truncdiv(I0[i], -3) + T.min(I0[i], T.max(I0[i], 4)) % 5 - (I0[i] - 1) * 2

# ----
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def statements(A: T.Buffer((T.int64(16),), "float32"), x: T.int64, H: T.Buffer((T.int64(4),), "float16"), I0: T.Buffer((T.int64(16),), "int32"), B: T.Buffer((T.int64(16),), "float32")):
    for i in T.parallel(T.int64(4)):
        t = T.alloc_local((T.int64(4),))
        for j in T.unroll(T.int64(4)):
            t[j] = A[i * T.int64(4) + j]
        for j in T.serial(T.int64(1), T.int64(4), annotations={"b": True, "n": 3, "pragma": "x"}):
            if j > T.int64(2) and not I0[i] == 3:
                B[i * T.int64(4) + j] = t[j]
            else:
                if (I0[j] < 3) == (j < T.int64(2)):
                    B[I0[j]] = T.Select(I0[i] << 2 & 7 | ~I0[j] > 3, T.float32("inf"), t[j] * T.float32(-1.0))
                else:
                    B[i * T.int64(4) + j] = t[j] * T.float32(0.10000000000000001) + T.Cast("float32", x)
        s: T.let[T.float32] = t[T.int64(0)] - (t[T.int64(1)] - t[T.int64(2)]) / (t[T.int64(3)] * t[T.int64(3)])
        while t[T.int64(0)] < s:
            t[T.int64(0)] = t[T.int64(0)] * T.float32(2.0) + T.reinterpret("float32", I0[i])
            H[i] = T.float16(0.10000000000000001) + T.Cast("float16", T.nearbyint(T.pow(s, t[T.int64(0)])))
            I0[i] = T.Div(I0[i], -3) + T.min(I0[i], T.max(I0[i], 4)) % 5 - (I0[i] - 1) * 2
