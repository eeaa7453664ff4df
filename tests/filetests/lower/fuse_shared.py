# after: fuse_operators
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n,), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        a: R.Tensor((n,), dtype="float32") = R.exp(x)
        b: R.Tensor((n,), dtype="float32") = R.negative(a)
        c: R.Tensor((n,), dtype="float32") = R.tanh(a)
        d: R.Tensor((n,), dtype="float32") = R.add(b, c)
        return d
# ----
# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n,), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        cls = Module
        d = R.call_tir(cls.fused_exp_neg_tanh_add, (x,), out_ty=R.Tensor((n,), dtype="float32"))
        return d

    @T.prim_func(s_tir=True)
    def fused_exp_neg_tanh_add(t0: T.Buffer((n,), "float32"), t4: T.Buffer((n,), "float32")):
        # with T.sblock("root"):
        t1 = T.sblock_alloc_buffer((n,))
        t2 = T.sblock_alloc_buffer((n,))
        t3 = T.sblock_alloc_buffer((n,))
        for i0 in range(n):
            with T.sblock("unary"):
                v_i0 = T.axis.spatial(n, i0)
                T.reads(t0[v_i0])
                T.writes(t1[v_i0])
                t1[v_i0] = T.exp(t0[v_i0])
        for i0 in range(n):
            with T.sblock("unary_1"):
                v_i0 = T.axis.spatial(n, i0)
                T.reads(t1[v_i0])
                T.writes(t2[v_i0])
                t2[v_i0] = t1[v_i0] * T.float32(-1.0)
        for i0 in range(n):
            with T.sblock("unary_2"):
                v_i0 = T.axis.spatial(n, i0)
                T.reads(t1[v_i0])
                T.writes(t3[v_i0])
                t3[v_i0] = T.tanh(t1[v_i0])
        for i0 in range(n):
            with T.sblock("binary"):
                v_i0 = T.axis.spatial(n, i0)
                T.reads(t2[v_i0], t3[v_i0])
                T.writes(t4[v_i0])
                t4[v_i0] = t2[v_i0] + t3[v_i0]
