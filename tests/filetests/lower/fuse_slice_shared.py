# after: fuse_operators
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 3), dtype="float32")) -> R.Tuple(R.Tensor((n, 1), dtype="float32"), R.Tensor((n, 1), dtype="bool")):
        s: R.Tensor((n, 1), dtype="float32") = R.strided_slice(x, axes=[1], begin=[1], end=[2])
        a: R.Tensor((n, 1), dtype="float32") = R.add(s, R.const(1.0, "float32"))
        b: R.Tensor((n, 1), dtype="bool") = R.less_equal(s, R.const(2.0, "float32"))
        return (a, b)
# ----
# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 3), dtype="float32")) -> R.Tuple(R.Tensor((n, 1), dtype="float32"), R.Tensor((n, 1), dtype="bool")):
        cls = Module
        a = R.call_tir(cls.fused_slice_add, (x,), out_ty=R.Tensor((n, 1), dtype="float32"))
        b = R.call_tir(cls.fused_slice_less_equal, (x,), out_ty=R.Tensor((n, 1), dtype="bool"))
        return (a, b)

    @T.prim_func(s_tir=True)
    def fused_slice_add(t0: T.Buffer((n, T.int64(3)), "float32"), t2: T.Buffer((n, T.int64(1)), "float32")):
        # with T.sblock("root"):
        t1 = T.sblock_alloc_buffer((n, T.int64(1)))
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("slice"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t0[v_i0, v_i1 + T.int64(1)])
                T.writes(t1[v_i0, v_i1])
                t1[v_i0, v_i1] = t0[v_i0, v_i1 + T.int64(1)]
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("binary"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t1[v_i0, T.int64(0)])
                T.writes(t2[v_i0, v_i1])
                t2[v_i0, v_i1] = t1[v_i0, T.int64(0)] + T.float32(1.0)

    @T.prim_func(s_tir=True)
    def fused_slice_less_equal(t0: T.Buffer((n, T.int64(3)), "float32"), t2: T.Buffer((n, T.int64(1)), "bool")):
        # with T.sblock("root"):
        t1 = T.sblock_alloc_buffer((n, T.int64(1)))
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("slice"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t0[v_i0, v_i1 + T.int64(1)])
                T.writes(t1[v_i0, v_i1])
                t1[v_i0, v_i1] = t0[v_i0, v_i1 + T.int64(1)]
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("binary"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t1[v_i0, T.int64(0)])
                T.writes(t2[v_i0, v_i1])
                t2[v_i0, v_i1] = t1[v_i0, T.int64(0)] <= T.float32(2.0)
