# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def add1(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float32")):
        # with T.sblock("root"):
        for i in range(1):
            with T.sblock("b"):
                v = T.axis.spatial(1, i)
                T.reads(A[v])
                T.writes(B[v])
                B[v] = A[v] + T.float32(1.0)

    @T.prim_func(s_tir=True)
    def dec(I0: T.Buffer((1,), "int64"), C: T.Buffer((), "bool")):
        with T.sblock("b"):
            T.reads()
            T.writes()
            I0[0] = I0[0] - T.int64(1)
            C[()] = I0[0] > T.int64(0)

    @R.function(pure=False)
    def loop(i: R.Tensor((1,), dtype="int64"), c: R.Tensor((), dtype="bool"), x: R.Tensor((1,), dtype="float32"), y: R.Tensor((1,), dtype="float32")) -> R.Tensor((1,), dtype="float32"):
        cls = Module
        cls.dec(i, c)
        cls.add1(x, y)
        if c:
            r_then: R.Tensor((1,), dtype="float32") = cls.loop(i, c, x, y)
            r: R.Tensor((1,), dtype="float32") = r_then
        else:
            r: R.Tensor((1,), dtype="float32") = y
        return r
