# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def add1(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        # with T.sblock("root"):
        for i in range(4):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                T.reads(A[v])
                T.writes(B[v])
                B[v] = A[v] + T.float32(1.0)

    @R.function
    def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        cls = Module
        a: R.Tensor((4,), dtype="float32") = R.call_tir_with_grad(cls.add1, (x,), out_ty=R.Tensor((4,), dtype="float32"), te_grad_name="add1_grad", te_grad_kwargs={"k": 1.0})
        return a
