# after: fuse_operators
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32"), s: R.Tensor((64,), dtype="float32")) -> R.Tuple(R.Tensor((n, 64), dtype="float32"), R.Tensor((), dtype="float32")):
        y: R.Tensor((n, 64), dtype="float32") = R.multiply(x, s)
        most: R.Tensor((), dtype="float32") = R.max(y, axis=[0, 1], keepdims=False)
        least: R.Tensor((), dtype="float32") = R.min(y, axis=[0, 1], keepdims=False)
        a: R.Tensor((), dtype="float32") = R.maximum(most, R.const(0.0, "float32"))
        b: R.Tensor((), dtype="float32") = R.minimum(least, R.const(0.0, "float32"))
        span: R.Tensor((), dtype="float32") = R.subtract(a, b)
        scale: R.Tensor((), dtype="float32") = R.divide(span, R.const(255.0, "float32"))
        z: R.Tensor((n, 64), dtype="float32") = R.divide(y, scale)
        return (z, scale)
# ----
# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32"), s: R.Tensor((64,), dtype="float32")) -> R.Tuple(R.Tensor((n, 64), dtype="float32"), R.Tensor((), dtype="float32")):
        cls = Module
        y_all = R.call_tir(cls.fused_mul_max_min_max_min_2more, (x, s), out_ty=[R.Tensor((n, 64), dtype="float32"), R.Tensor((), dtype="float32")])
        y: R.Tensor((n, 64), dtype="float32") = y_all[0]
        scale: R.Tensor((), dtype="float32") = y_all[1]
        z = R.call_tir(cls.div, (y, scale), out_ty=R.Tensor((n, 64), dtype="float32"))
        return (z, scale)

    @T.prim_func(s_tir=True)
    def fused_mul_max_min_max_min_2more(t0: T.Buffer((n, T.int64(64)), "float32"), t1: T.Buffer((T.int64(64),), "float32"), t2: T.Buffer((n, T.int64(64)), "float32"), t8: T.Buffer((), "float32")):
        # with T.sblock("root"):
        t3 = T.sblock_alloc_buffer(())
        t4 = T.sblock_alloc_buffer(())
        t5 = T.sblock_alloc_buffer(())
        t6 = T.sblock_alloc_buffer(())
        t7 = T.sblock_alloc_buffer(())
        for i0, i1 in T.grid(n, T.int64(64)):
            with T.sblock("binary"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t0[v_i0, v_i1], t1[v_i1])
                T.writes(t2[v_i0, v_i1])
                t2[v_i0, v_i1] = t0[v_i0, v_i1] * t1[v_i1]
        for k0, k1 in T.grid(n, T.int64(64)):
            with T.sblock("reduce"):
                v_k0, v_k1 = T.axis.remap("RR", [k0, k1])
                T.reads(t2[v_k0, v_k1])
                T.writes(t3[()])
                with T.init():
                    t3[()] = T.float32("-inf")
                t3[()] = T.max(t3[()], t2[v_k0, v_k1])
        for k0, k1 in T.grid(n, T.int64(64)):
            with T.sblock("reduce_1"):
                v_k0, v_k1 = T.axis.remap("RR", [k0, k1])
                T.reads(t2[v_k0, v_k1])
                T.writes(t4[()])
                with T.init():
                    t4[()] = T.float32("inf")
                t4[()] = T.min(t4[()], t2[v_k0, v_k1])
        with T.sblock("binary_1"):
            T.reads(t3[()])
            T.writes(t5[()])
            t5[()] = T.max(t3[()], T.float32(0.0))
        with T.sblock("binary_2"):
            T.reads(t4[()])
            T.writes(t6[()])
            t6[()] = T.min(t4[()], T.float32(0.0))
        with T.sblock("binary_3"):
            T.reads(t5[()], t6[()])
            T.writes(t7[()])
            t7[()] = t5[()] - t6[()]
        with T.sblock("binary_4"):
            T.reads(t7[()])
            T.writes(t8[()])
            t8[()] = t7[()] / T.float32(255.0)

    @T.prim_func(s_tir=True)
    def div(t0: T.Buffer((n, T.int64(64)), "float32"), t1: T.Buffer((), "float32"), t2: T.Buffer((n, T.int64(64)), "float32")):
        # with T.sblock("root"):
        for i0, i1 in T.grid(n, T.int64(64)):
            with T.sblock("binary"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t0[v_i0, v_i1], t1[()])
                T.writes(t2[v_i0, v_i1])
                t2[v_i0, v_i1] = t0[v_i0, v_i1] / t1[()]
