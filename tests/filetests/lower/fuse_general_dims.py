# after: fuse_operators
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 4, n, 8), dtype="float32"), w: R.Tensor((4, 4, 3, 3), dtype="float32")) -> R.Tensor((1, 8, ((n + 1) // 2 + 1) // 2, 2), dtype="float32"):
        a: R.Tensor((1, 4, (n + 1) // 2, 4), dtype="float32") = R.nn.conv2d(x, w, strides=[2, 2], padding=[1, 1, 1, 1])
        b: R.Tensor((1, 4, ((n + 1) // 2 + 1) // 2, 2), dtype="float32") = R.nn.conv2d(a, w, strides=[2, 2], padding=[1, 1, 1, 1])
        c: R.Tensor((1, 8, ((n + 1) // 2 + 1) // 2, 2), dtype="float32") = R.concat((b, b), axis=1)
        return c
# ----
# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

d0 = TypeVar("d0")
n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 4, n, 8), dtype="float32"), w: R.Tensor((4, 4, 3, 3), dtype="float32")) -> R.Tensor((1, 8, "((n + 1) // 2 + 1) // 2", 2), dtype="float32"):
        cls = Module
        a = R.call_tir(cls.conv, (x, w), out_ty=R.Tensor((1, 4, (n + 1) // 2, 4), dtype="float32"))
        b = R.call_tir(cls.conv1, (a, w), out_ty=R.Tensor((1, 4, ((n + 1) // 2 + 1) // 2, 2), dtype="float32"))
        c = R.call_tir(cls.concat, (b,), out_ty=R.Tensor((1, 8, ((n + 1) // 2 + 1) // 2, 2), dtype="float32"))
        return c

    @T.prim_func(s_tir=True)
    def conv(t0: T.Buffer((T.int64(1), T.int64(4), n, T.int64(8)), "float32"), t1: T.Buffer((T.int64(4), T.int64(4), T.int64(3), T.int64(3)), "float32"), t2: T.Buffer((T.int64(1), T.int64(4), "(n + T.int64(1)) // T.int64(2)", T.int64(4)), "float32")):
        # with T.sblock("root"):
        t3 = T.sblock_alloc_buffer((T.int64(1), T.int64(4), n + T.int64(2), T.int64(10)))
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(4), n + T.int64(2), T.int64(10)):
            with T.sblock("pad"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t0[v_i0, v_i1, v_i2 - T.int64(1), v_i3 - T.int64(1)])
                T.writes(t3[v_i0, v_i1, v_i2, v_i3])
                t3[v_i0, v_i1, v_i2, v_i3] = T.if_then_else(v_i2 - T.int64(1) >= T.int64(0) and v_i2 - T.int64(1) < n and v_i3 - T.int64(1) >= T.int64(0) and v_i3 - T.int64(1) < T.int64(8), t0[v_i0, v_i1, v_i2 - T.int64(1), v_i3 - T.int64(1)], T.float32(0.0))
        for i0, i1, i2, i3, k0, k1, k2 in T.grid(T.int64(1), T.int64(4), (n + T.int64(1)) // T.int64(2), T.int64(4), T.int64(4), T.int64(3), T.int64(3)):
            with T.sblock("conv"):
                v_i0, v_i1, v_i2, v_i3, v_k0, v_k1, v_k2 = T.axis.remap("SSSSRRR", [i0, i1, i2, i3, k0, k1, k2])
                T.reads(t1[v_i1, v_k0, v_k1, v_k2], t3[v_i0, v_k0, v_i2 * T.int64(2) + v_k1, v_i3 * T.int64(2) + v_k2])
                T.writes(t2[v_i0, v_i1, v_i2, v_i3])
                with T.init():
                    t2[v_i0, v_i1, v_i2, v_i3] = T.float32(0.0)
                t2[v_i0, v_i1, v_i2, v_i3] = T.fma(t1[v_i1, v_k0, v_k1, v_k2], t3[v_i0, v_k0, v_i2 * T.int64(2) + v_k1, v_i3 * T.int64(2) + v_k2], t2[v_i0, v_i1, v_i2, v_i3])

    @T.prim_func(s_tir=True)
    def conv1(t0: T.Buffer((T.int64(1), T.int64(4), d0, T.int64(4)), "float32"), t1: T.Buffer((T.int64(4), T.int64(4), T.int64(3), T.int64(3)), "float32"), t2: T.Buffer((T.int64(1), T.int64(4), "(d0 + T.int64(1)) // T.int64(2)", T.int64(2)), "float32")):
        # with T.sblock("root"):
        t3 = T.sblock_alloc_buffer((T.int64(1), T.int64(4), d0 + T.int64(2), T.int64(6)))
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(4), d0 + T.int64(2), T.int64(6)):
            with T.sblock("pad"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t0[v_i0, v_i1, v_i2 - T.int64(1), v_i3 - T.int64(1)])
                T.writes(t3[v_i0, v_i1, v_i2, v_i3])
                t3[v_i0, v_i1, v_i2, v_i3] = T.if_then_else(v_i2 - T.int64(1) >= T.int64(0) and v_i2 - T.int64(1) < d0 and v_i3 - T.int64(1) >= T.int64(0) and v_i3 - T.int64(1) < T.int64(4), t0[v_i0, v_i1, v_i2 - T.int64(1), v_i3 - T.int64(1)], T.float32(0.0))
        for i0, i1, i2, i3, k0, k1, k2 in T.grid(T.int64(1), T.int64(4), (d0 + T.int64(1)) // T.int64(2), T.int64(2), T.int64(4), T.int64(3), T.int64(3)):
            with T.sblock("conv"):
                v_i0, v_i1, v_i2, v_i3, v_k0, v_k1, v_k2 = T.axis.remap("SSSSRRR", [i0, i1, i2, i3, k0, k1, k2])
                T.reads(t1[v_i1, v_k0, v_k1, v_k2], t3[v_i0, v_k0, v_i2 * T.int64(2) + v_k1, v_i3 * T.int64(2) + v_k2])
                T.writes(t2[v_i0, v_i1, v_i2, v_i3])
                with T.init():
                    t2[v_i0, v_i1, v_i2, v_i3] = T.float32(0.0)
                t2[v_i0, v_i1, v_i2, v_i3] = T.fma(t1[v_i1, v_k0, v_k1, v_k2], t3[v_i0, v_k0, v_i2 * T.int64(2) + v_k1, v_i3 * T.int64(2) + v_k2], t2[v_i0, v_i1, v_i2, v_i3])

    @T.prim_func(s_tir=True)
    def concat(t0: T.Buffer((T.int64(1), T.int64(4), d0, T.int64(2)), "float32"), t1: T.Buffer((T.int64(1), T.int64(8), d0, T.int64(2)), "float32")):
        # with T.sblock("root"):
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(4), d0, T.int64(2)):
            with T.sblock("part0"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t0[v_i0, v_i1, v_i2, v_i3])
                T.writes(t1[v_i0, v_i1, v_i2, v_i3])
                t1[v_i0, v_i1, v_i2, v_i3] = t0[v_i0, v_i1, v_i2, v_i3]
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(4), d0, T.int64(2)):
            with T.sblock("part1"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t0[v_i0, v_i1, v_i2, v_i3])
                T.writes(t1[v_i0, v_i1 + T.int64(4), v_i2, v_i3])
                t1[v_i0, v_i1 + T.int64(4), v_i2, v_i3] = t0[v_i0, v_i1, v_i2, v_i3]
