# after: fuse_operators
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 2, 6, 6), dtype="float32"), s: R.Tensor((), dtype="float32")) -> R.Tensor((1, 2, 8, 8), dtype="float32"):
        d: R.Tensor((1, 2, 6, 6), dtype="float32") = R.divide(x, s)
        r: R.Tensor((1, 2, 6, 6), dtype="float32") = R.round(d)
        u: R.Tensor((1, 2, 6, 6), dtype="uint8") = R.astype(r, dtype="uint8")
        p: R.Tensor((1, 2, 8, 8), dtype="uint8") = R.nn.pad(u, pad_width=[0, 0, 0, 0, 1, 1, 1, 1], pad_value=0)
        f: R.Tensor((1, 2, 8, 8), dtype="float32") = R.astype(p, dtype="float32")
        return f
# ----
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 2, 6, 6), dtype="float32"), s: R.Tensor((), dtype="float32")) -> R.Tensor((1, 2, 8, 8), dtype="float32"):
        cls = Module
        f = R.call_tir(cls.fused_div_round_cast_pad_cast, (x, s), out_ty=R.Tensor((1, 2, 8, 8), dtype="float32"))
        return f

    @T.prim_func(s_tir=True)
    def fused_div_round_cast_pad_cast(t0: T.Buffer((T.int64(1), T.int64(2), T.int64(6), T.int64(6)), "float32"), t1: T.Buffer((), "float32"), t6: T.Buffer((T.int64(1), T.int64(2), T.int64(8), T.int64(8)), "float32")):
        # with T.sblock("root"):
        t2 = T.sblock_alloc_buffer((T.int64(1), T.int64(2), T.int64(6), T.int64(6)))
        t3 = T.sblock_alloc_buffer((T.int64(1), T.int64(2), T.int64(6), T.int64(6)))
        t4 = T.sblock_alloc_buffer((T.int64(1), T.int64(2), T.int64(6), T.int64(6)), "uint8")
        t5 = T.sblock_alloc_buffer((T.int64(1), T.int64(2), T.int64(8), T.int64(8)), "uint8")
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(2), T.int64(6), T.int64(6)):
            with T.sblock("binary"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t0[T.int64(0), v_i1, v_i2, v_i3], t1[()])
                T.writes(t2[v_i0, v_i1, v_i2, v_i3])
                t2[v_i0, v_i1, v_i2, v_i3] = t0[T.int64(0), v_i1, v_i2, v_i3] / t1[()]
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(2), T.int64(6), T.int64(6)):
            with T.sblock("unary"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t2[v_i0, v_i1, v_i2, v_i3])
                T.writes(t3[v_i0, v_i1, v_i2, v_i3])
                t3[v_i0, v_i1, v_i2, v_i3] = T.nearbyint(t2[v_i0, v_i1, v_i2, v_i3])
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(2), T.int64(6), T.int64(6)):
            with T.sblock("cast"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t3[v_i0, v_i1, v_i2, v_i3])
                T.writes(t4[v_i0, v_i1, v_i2, v_i3])
                t4[v_i0, v_i1, v_i2, v_i3] = T.Cast("uint8", t3[v_i0, v_i1, v_i2, v_i3])
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(2), T.int64(8), T.int64(8)):
            with T.sblock("pad"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t4[v_i0, v_i1, v_i2 - T.int64(1), v_i3 - T.int64(1)])
                T.writes(t5[v_i0, v_i1, v_i2, v_i3])
                t5[v_i0, v_i1, v_i2, v_i3] = T.if_then_else(v_i2 - T.int64(1) >= T.int64(0) and v_i2 - T.int64(1) < T.int64(6) and v_i3 - T.int64(1) >= T.int64(0) and v_i3 - T.int64(1) < T.int64(6), t4[v_i0, v_i1, v_i2 - T.int64(1), v_i3 - T.int64(1)], T.uint8(0))
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(2), T.int64(8), T.int64(8)):
            with T.sblock("cast_1"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t5[v_i0, v_i1, v_i2, v_i3])
                T.writes(t6[v_i0, v_i1, v_i2, v_i3])
                t6[v_i0, v_i1, v_i2, v_i3] = T.Cast("float32", t5[v_i0, v_i1, v_i2, v_i3])
