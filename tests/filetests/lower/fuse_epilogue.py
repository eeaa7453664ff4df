# after: fuse_operators
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 8), dtype="float32"), w: R.Tensor((8, 5), dtype="float32"), b: R.Tensor((5,), dtype="float32")) -> R.Tensor((n, 5), dtype="float32"):
        h: R.Tensor((n, 5), dtype="float32") = R.matmul(x, w)
        s: R.Tensor((n, 5), dtype="float32") = R.add(h, b)
        r: R.Tensor((n, 5), dtype="float32") = R.nn.relu(s)
        return r
# ----
# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 8), dtype="float32"), w: R.Tensor((8, 5), dtype="float32"), b: R.Tensor((5,), dtype="float32")) -> R.Tensor((n, 5), dtype="float32"):
        cls = Module
        r = R.call_tir(cls.fused_mat_mul_add_max, (x, w, b), out_ty=R.Tensor((n, 5), dtype="float32"))
        return r

    @T.prim_func(s_tir=True)
    def fused_mat_mul_add_max(t0: T.Buffer((n, T.int64(8)), "float32"), t1: T.Buffer((T.int64(8), T.int64(5)), "float32"), t3: T.Buffer((T.int64(5),), "float32"), t5: T.Buffer((n, T.int64(5)), "float32")):
        # with T.sblock("root"):
        t2 = T.sblock_alloc_buffer((n, T.int64(5)))
        t4 = T.sblock_alloc_buffer((n, T.int64(5)))
        for i0, i1, k0 in T.grid(n, T.int64(5), T.int64(8)):
            with T.sblock("matmul"):
                v_i0, v_i1, v_k0 = T.axis.remap("SSR", [i0, i1, k0])
                T.reads(t0[v_i0, v_k0], t1[v_k0, v_i1])
                T.writes(t2[v_i0, v_i1])
                with T.init():
                    t2[v_i0, v_i1] = T.float32(0.0)
                t2[v_i0, v_i1] = T.fma(t0[v_i0, v_k0], t1[v_k0, v_i1], t2[v_i0, v_i1])
        for i0, i1 in T.grid(n, T.int64(5)):
            with T.sblock("binary"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t2[v_i0, v_i1], t3[v_i1])
                T.writes(t4[v_i0, v_i1])
                t4[v_i0, v_i1] = t2[v_i0, v_i1] + t3[v_i1]
        for i0, i1 in T.grid(n, T.int64(5)):
            with T.sblock("binary_1"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t4[v_i0, v_i1])
                T.writes(t5[v_i0, v_i1])
                t5[v_i0, v_i1] = T.max(t4[v_i0, v_i1], T.float32(0.0))
