# after: fuse_operators
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import tirx as T
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def matmul(x: T.Buffer((n, T.int64(8)), "float32"), w: T.Buffer((T.int64(8), T.int64(5)), "float32"), y: T.Buffer((n, T.int64(5)), "float32")):
        for i0, i1, k in T.grid(n, T.int64(5), T.int64(8)):
            with T.sblock("matmul"):
                v_i0, v_i1, v_k = T.axis.remap("SSR", [i0, i1, k])
                with T.init():
                    y[v_i0, v_i1] = T.float32(0.0)
                y[v_i0, v_i1] = y[v_i0, v_i1] + x[v_i0, v_k] * w[v_k, v_i1]

    @T.prim_func(private=True, s_tir=True)
    def relu(h: T.Buffer((n, T.int64(5)), "float32"), y: T.Buffer((n, T.int64(5)), "float32")):
        for i0, i1 in T.grid(n, T.int64(5)):
            with T.sblock("relu"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                y[v_i0, v_i1] = T.max(h[v_i0, v_i1], T.float32(0.0))

    @T.prim_func(private=True, s_tir=True)
    def alone(h: T.Buffer((n, T.int64(5)), "float32"), y: T.Buffer((n, T.int64(5)), "float32")):
        T.func_attr({"op_pattern": 8})
        for i0, i1 in T.grid(n, T.int64(5)):
            with T.sblock("alone"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                y[v_i0, v_i1] = h[v_i0, v_i1] + T.float32(1.0)

    @T.prim_func(private=True, s_tir=True)
    def scheduled(h: T.Buffer((n, T.int64(5)), "float32"), y: T.Buffer((n, T.int64(5)), "float32")):
        for i0 in T.parallel(n):
            for i1 in T.serial(T.int64(5)):
                with T.sblock("scheduled"):
                    v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                    y[v_i0, v_i1] = h[v_i0, v_i1] * T.float32(2.0)

    @R.function
    def main(x: R.Tensor((n, 8), dtype="float32"), w: R.Tensor((8, 5), dtype="float32")) -> R.Tensor((n, 5), dtype="float32"):
        cls = Module
        h = R.call_tir(cls.matmul, (x, w), out_ty=R.Tensor((n, 5), dtype="float32"))
        r = R.call_tir(cls.relu, (h,), out_ty=R.Tensor((n, 5), dtype="float32"))
        e = R.exp(r)
        a = R.call_tir(cls.alone, (e,), out_ty=R.Tensor((n, 5), dtype="float32"))
        s = R.call_tir(cls.scheduled, (a,), out_ty=R.Tensor((n, 5), dtype="float32"))
        return s
# ----
# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def matmul(x: T.Buffer((n, T.int64(8)), "float32"), w: T.Buffer((T.int64(8), T.int64(5)), "float32"), y: T.Buffer((n, T.int64(5)), "float32")):
        # with T.sblock("root"):
        for i0, i1, k in T.grid(n, T.int64(5), T.int64(8)):
            with T.sblock("matmul"):
                v_i0, v_i1, v_k = T.axis.remap("SSR", [i0, i1, k])
                T.reads(x[v_i0, v_k], w[v_k, v_i1])
                T.writes(y[v_i0, v_i1])
                with T.init():
                    y[v_i0, v_i1] = T.float32(0.0)
                y[v_i0, v_i1] = y[v_i0, v_i1] + x[v_i0, v_k] * w[v_k, v_i1]

    @T.prim_func(private=True, s_tir=True)
    def relu(h: T.Buffer((n, T.int64(5)), "float32"), y: T.Buffer((n, T.int64(5)), "float32")):
        # with T.sblock("root"):
        for i0, i1 in T.grid(n, T.int64(5)):
            with T.sblock("relu"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(h[v_i0, v_i1])
                T.writes(y[v_i0, v_i1])
                y[v_i0, v_i1] = T.max(h[v_i0, v_i1], T.float32(0.0))

    @T.prim_func(private=True, s_tir=True)
    def alone(h: T.Buffer((n, T.int64(5)), "float32"), y: T.Buffer((n, T.int64(5)), "float32")):
        T.func_attr({"op_pattern": 8})
        # with T.sblock("root"):
        for i0, i1 in T.grid(n, T.int64(5)):
            with T.sblock("alone"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(h[v_i0, v_i1])
                T.writes(y[v_i0, v_i1])
                y[v_i0, v_i1] = h[v_i0, v_i1] + T.float32(1.0)

    @T.prim_func(private=True, s_tir=True)
    def scheduled(h: T.Buffer((n, T.int64(5)), "float32"), y: T.Buffer((n, T.int64(5)), "float32")):
        # with T.sblock("root"):
        for i0 in T.parallel(n):
            for i1 in range(T.int64(5)):
                with T.sblock("scheduled"):
                    v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                    T.reads(h[v_i0, v_i1])
                    T.writes(y[v_i0, v_i1])
                    y[v_i0, v_i1] = h[v_i0, v_i1] * T.float32(2.0)

    @R.function
    def main(x: R.Tensor((n, 8), dtype="float32"), w: R.Tensor((8, 5), dtype="float32")) -> R.Tensor((n, 5), dtype="float32"):
        cls = Module
        e = R.call_tir(cls.fused_matmul_relu_exp, (x, w), out_ty=R.Tensor((n, 5), dtype="float32"))
        a = R.call_tir(cls.alone, (e,), out_ty=R.Tensor((n, 5), dtype="float32"))
        s = R.call_tir(cls.scheduled, (a,), out_ty=R.Tensor((n, 5), dtype="float32"))
        return s

    @T.prim_func(s_tir=True)
    def fused_matmul_relu_exp(t0: T.Buffer((n, T.int64(8)), "float32"), t1: T.Buffer((T.int64(8), T.int64(5)), "float32"), t4: T.Buffer((n, T.int64(5)), "float32")):
        # with T.sblock("root"):
        t2 = T.sblock_alloc_buffer((n, T.int64(5)))
        t3 = T.sblock_alloc_buffer((n, T.int64(5)))
        for i0, i1, k in T.grid(n, T.int64(5), T.int64(8)):
            with T.sblock("matmul"):
                v_i0, v_i1, v_k = T.axis.remap("SSR", [i0, i1, k])
                T.reads(t0[v_i0, v_k], t1[v_k, v_i1])
                T.writes(t2[v_i0, v_i1])
                with T.init():
                    t2[v_i0, v_i1] = T.float32(0.0)
                t2[v_i0, v_i1] = t2[v_i0, v_i1] + t0[v_i0, v_k] * t1[v_k, v_i1]
        for i0, i1 in T.grid(n, T.int64(5)):
            with T.sblock("relu"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t2[v_i0, v_i1])
                T.writes(t3[v_i0, v_i1])
                t3[v_i0, v_i1] = T.max(t2[v_i0, v_i1], T.float32(0.0))
        for i0, i1 in T.grid(n, T.int64(5)):
            with T.sblock("unary"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t3[v_i0, v_i1])
                T.writes(t4[v_i0, v_i1])
                t4[v_i0, v_i1] = T.exp(t3[v_i0, v_i1])
