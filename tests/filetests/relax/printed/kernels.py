# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

m = TypeVar("m")
n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def add1(A: T.Buffer((T.int64(4),), "float32"), B: T.Buffer((T.int64(4),), "float32")):
        # with T.sblock("root"):
        for i in range(T.int64(4)):
            with T.sblock("b"):
                v = T.axis.spatial(T.int64(4), i)
                T.reads(A[v])
                T.writes(B[v])
                B[v] = A[v] + T.float32(1.0)

    @T.prim_func(s_tir=True)
    def two(X: T.Buffer((m,), "float32"), n: T.int64, Y: T.Buffer((m,), "float32"), Z: T.Buffer((m,), "float32")):
        # with T.sblock("root"):
        for i in range(m):
            with T.sblock("b"):
                v = T.axis.spatial(m, i)
                T.reads(X[v])
                T.writes(Y[v], Z[v])
                Y[v] = X[v]
                Z[v] = X[v] * T.Cast("float32", n)

    @R.function(pure=False)
    def main(x: R.Tensor((4,), dtype="float32"), y: R.Tensor((4,), dtype="float32"), z: R.Tensor((n,), dtype="float32")) -> R.Tuple(R.Tensor((n,), dtype="float32"), R.Tensor(dtype="float32", ndim=2)):
        d_0 = T.int64()
        d_1 = T.int64()
        cls = Module
        cls.add1(x, y)
        a = R.call_tir(cls.add1, (y,), out_ty=R.Tensor((4,), dtype="float32"))
        gv6_all = R.call_tir(cls.two, (z, n * 2), out_ty=[R.Tensor((n,), dtype="float32"), R.Tensor((n,), dtype="float32")])
        gv6: R.Tensor((n,), dtype="float32") = gv6_all[0]
        gv4: R.Tensor((n,), dtype="float32") = gv6_all[1]
        c: R.Tensor((4,), dtype="float32") = R.call_packed("foo", a, n + 1, 3, ty_args=(R.Tensor((4,), dtype="float32"),))
        d: R.Tensor((d_0, d_1), dtype="float32") = R.call_packed("bar", c, gv4, ty_args=(R.Tensor((d_0, d_1), dtype="float32"),))
        return (gv6, d)
