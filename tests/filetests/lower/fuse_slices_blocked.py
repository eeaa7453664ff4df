# after: fuse_operators
# precision: bf16
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 16, 12, 14), dtype="float32")) -> R.Tensor((1, 32, 12, 14), dtype="float32"):
        u: R.Tensor((32, 16, 1, 1), dtype="float32") = R.zeros(R.shape([32, 16, 1, 1]), dtype="float32")
        v: R.Tensor((16, 16, 3, 3), dtype="float32") = R.zeros(R.shape([16, 16, 3, 3]), dtype="float32")
        w: R.Tensor((32, 48, 1, 1), dtype="float32") = R.zeros(R.shape([32, 48, 1, 1]), dtype="float32")
        a: R.Tensor((1, 32, 12, 14), dtype="float32") = R.nn.conv2d(x, u)
        b: R.Tensor((1, 16, 12, 14), dtype="float32") = R.strided_slice(a, axes=[1], begin=[0], end=[16])
        c: R.Tensor((1, 16, 12, 14), dtype="float32") = R.strided_slice(a, axes=[1], begin=[16], end=[32])
        d: R.Tensor((1, 16, 12, 14), dtype="float32") = R.nn.conv2d(c, v, padding=[1, 1, 1, 1])
        e: R.Tensor((1, 16, 12, 14), dtype="float32") = R.add(c, d)
        f: R.Tensor((1, 48, 12, 14), dtype="float32") = R.concat((b, c, e), axis=1)
        g: R.Tensor((1, 32, 12, 14), dtype="float32") = R.nn.conv2d(f, w)
        return g
# ----
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 16, 12, 14), dtype="float32")) -> R.Tensor((1, 32, 12, 14), dtype="float32"):
        cls = Module
        a = R.call_tir(cls.conv, (x, metadata["ir.GenericConst"][0]), out_ty=R.Tensor((1, 2, 12, 14, 16), dtype="float32"))
        c = R.call_tir(cls.slice, (a,), out_ty=R.Tensor((1, 1, 12, 14, 16), dtype="float32"))
        e_rounded = R.call_tir(cls.fused_conv_add_cast, (c, metadata["ir.GenericConst"][1]), out_ty=R.Tensor((1, 1, 12, 14, 16), dtype="bfloat16"))
        f = R.call_tir(cls.fused_slice_cast_cast_concat, (a, c, e_rounded), out_ty=R.Tensor((1, 3, 12, 14, 16), dtype="bfloat16"))
        g = R.call_tir(cls.conv1, (f, metadata["ir.GenericConst"][2]), out_ty=R.Tensor((1, 32, 12, 14), dtype="float32"))
        return g

    @T.prim_func(s_tir=True)
    def conv(t0: T.Buffer((T.int64(1), T.int64(16), T.int64(12), T.int64(14)), "float32"), t1: T.Buffer((T.int64(2), T.int64(8), T.int64(16)), "uint32"), t2: T.Buffer((T.int64(1), T.int64(2), T.int64(12), T.int64(14), T.int64(16)), "float32")):
        # with T.sblock("root"):
        t3 = T.sblock_alloc_buffer((T.int64(1), T.int64(8), T.int64(12), T.int64(14)), "uint32")
        t4 = T.sblock_alloc_buffer((T.int64(1), T.int64(2), T.int64(12), T.int64(14), T.int64(16)))
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(8), T.int64(12), T.int64(14)):
            with T.sblock("pairs"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t0[v_i0, v_i1 * T.int64(2), v_i2, v_i3], t0[v_i0, v_i1 * T.int64(2) + T.int64(1), v_i2, v_i3])
                T.writes(t3[v_i0, v_i1, v_i2, v_i3])
                t3[v_i0, v_i1, v_i2, v_i3] = T.pair_bf16(t0[v_i0, v_i1 * T.int64(2), v_i2, v_i3], t0[v_i0, v_i1 * T.int64(2) + T.int64(1), v_i2, v_i3])
        for i0, i1, i2, i3, k0, k1, k2 in T.grid(T.int64(1), T.int64(32), T.int64(12), T.int64(14), T.int64(8), T.int64(1), T.int64(1)):
            with T.sblock("conv"):
                v_i0, v_i1, v_i2, v_i3, v_k0, v_k1, v_k2 = T.axis.remap("SSSSRRR", [i0, i1, i2, i3, k0, k1, k2])
                T.reads(t1[v_i1 // T.int64(16), v_k0 + v_k1 + v_k2, v_i1 % T.int64(16)], t3[v_i0, v_k0, v_i2 + v_k1, v_i3 + v_k2])
                T.writes(t4[v_i0, v_i1 // T.int64(16), v_i2, v_i3, v_i1 % T.int64(16)])
                with T.init():
                    t4[v_i0, v_i1 // T.int64(16), v_i2, v_i3, v_i1 % T.int64(16)] = T.float32(0.0)
                t4[v_i0, v_i1 // T.int64(16), v_i2, v_i3, v_i1 % T.int64(16)] = T.dot_bf16(t1[v_i1 // T.int64(16), v_k0 + v_k1 + v_k2, v_i1 % T.int64(16)], t3[v_i0, v_k0, v_i2 + v_k1, v_i3 + v_k2], t4[v_i0, v_i1 // T.int64(16), v_i2, v_i3, v_i1 % T.int64(16)])
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(32), T.int64(12), T.int64(14)):
            with T.sblock("bias"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t4[v_i0, v_i1 // T.int64(16), v_i2, v_i3, v_i1 % T.int64(16)])
                T.writes(t2[v_i0, v_i1 // T.int64(16), v_i2, v_i3, v_i1 % T.int64(16)])
                t2[v_i0, v_i1 // T.int64(16), v_i2, v_i3, v_i1 % T.int64(16)] = t4[v_i0, v_i1 // T.int64(16), v_i2, v_i3, v_i1 % T.int64(16)]

    @T.prim_func(s_tir=True)
    def slice(t0: T.Buffer((T.int64(1), T.int64(2), T.int64(12), T.int64(14), T.int64(16)), "float32"), t1: T.Buffer((T.int64(1), T.int64(1), T.int64(12), T.int64(14), T.int64(16)), "float32")):
        # with T.sblock("root"):
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(16), T.int64(12), T.int64(14)):
            with T.sblock("slice"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t0[v_i0, T.int64(1), v_i2, v_i3, v_i1])
                T.writes(t1[v_i0, T.int64(0), v_i2, v_i3, v_i1])
                t1[v_i0, T.int64(0), v_i2, v_i3, v_i1] = t0[v_i0, T.int64(1), v_i2, v_i3, v_i1]

    @T.prim_func(s_tir=True)
    def fused_conv_add_cast(t0: T.Buffer((T.int64(1), T.int64(1), T.int64(12), T.int64(14), T.int64(16)), "float32"), t1: T.Buffer((T.int64(1), T.int64(72), T.int64(16)), "uint32"), t6: T.Buffer((T.int64(1), T.int64(1), T.int64(12), T.int64(14), T.int64(16)), "bfloat16")):
        # with T.sblock("root"):
        t2 = T.sblock_alloc_buffer((T.int64(1), T.int64(1), T.int64(12), T.int64(14), T.int64(16)))
        t3 = T.sblock_alloc_buffer((T.int64(1), T.int64(1), T.int64(14), T.int64(16), T.int64(8)), "uint32")
        t4 = T.sblock_alloc_buffer((T.int64(1), T.int64(1), T.int64(12), T.int64(14), T.int64(16)))
        t5 = T.sblock_alloc_buffer((T.int64(1), T.int64(1), T.int64(12), T.int64(14), T.int64(16)))
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(8), T.int64(14), T.int64(16)):
            with T.sblock("pairs"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t0[v_i0, T.int64(0), v_i2 - T.int64(1), v_i3 - T.int64(1), v_i1 * T.int64(2)], t0[v_i0, T.int64(0), v_i2 - T.int64(1), v_i3 - T.int64(1), v_i1 * T.int64(2) + T.int64(1)])
                T.writes(t3[v_i0, T.int64(0), v_i2, v_i3, v_i1])
                t3[v_i0, T.int64(0), v_i2, v_i3, v_i1] = T.if_then_else(v_i2 - T.int64(1) >= T.int64(0) and v_i2 - T.int64(1) < T.int64(12) and v_i3 - T.int64(1) >= T.int64(0) and v_i3 - T.int64(1) < T.int64(14), T.pair_bf16(t0[v_i0, T.int64(0), v_i2 - T.int64(1), v_i3 - T.int64(1), v_i1 * T.int64(2)], t0[v_i0, T.int64(0), v_i2 - T.int64(1), v_i3 - T.int64(1), v_i1 * T.int64(2) + T.int64(1)]), T.uint32(0))
        for i0, i1, i2, i3, k0, k1, k2 in T.grid(T.int64(1), T.int64(16), T.int64(12), T.int64(14), T.int64(8), T.int64(3), T.int64(3)):
            with T.sblock("conv"):
                v_i0, v_i1, v_i2, v_i3, v_k0, v_k1, v_k2 = T.axis.remap("SSSSRRR", [i0, i1, i2, i3, k0, k1, k2])
                T.reads(t1[T.int64(0), v_k0 * T.int64(9) + v_k1 * T.int64(3) + v_k2, v_i1], t3[v_i0, T.int64(0), v_i2 + v_k1, v_i3 + v_k2, v_k0])
                T.writes(t4[v_i0, T.int64(0), v_i2, v_i3, v_i1])
                with T.init():
                    t4[v_i0, T.int64(0), v_i2, v_i3, v_i1] = T.float32(0.0)
                t4[v_i0, T.int64(0), v_i2, v_i3, v_i1] = T.dot_bf16(t1[T.int64(0), v_k0 * T.int64(9) + v_k1 * T.int64(3) + v_k2, v_i1], t3[v_i0, T.int64(0), v_i2 + v_k1, v_i3 + v_k2, v_k0], t4[v_i0, T.int64(0), v_i2, v_i3, v_i1])
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(16), T.int64(12), T.int64(14)):
            with T.sblock("bias"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t4[v_i0, T.int64(0), v_i2, v_i3, v_i1])
                T.writes(t2[v_i0, T.int64(0), v_i2, v_i3, v_i1])
                t2[v_i0, T.int64(0), v_i2, v_i3, v_i1] = t4[v_i0, T.int64(0), v_i2, v_i3, v_i1]
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(16), T.int64(12), T.int64(14)):
            with T.sblock("binary"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t0[T.int64(0), T.int64(0), v_i2, v_i3, v_i1], t2[T.int64(0), T.int64(0), v_i2, v_i3, v_i1])
                T.writes(t5[v_i0, T.int64(0), v_i2, v_i3, v_i1])
                t5[v_i0, T.int64(0), v_i2, v_i3, v_i1] = t0[T.int64(0), T.int64(0), v_i2, v_i3, v_i1] + t2[T.int64(0), T.int64(0), v_i2, v_i3, v_i1]
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(16), T.int64(12), T.int64(14)):
            with T.sblock("cast"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t5[v_i0, T.int64(0), v_i2, v_i3, v_i1])
                T.writes(t6[v_i0, T.int64(0), v_i2, v_i3, v_i1])
                t6[v_i0, T.int64(0), v_i2, v_i3, v_i1] = T.Cast("bfloat16", t5[v_i0, T.int64(0), v_i2, v_i3, v_i1])

    @T.prim_func(s_tir=True)
    def fused_slice_cast_cast_concat(t0: T.Buffer((T.int64(1), T.int64(2), T.int64(12), T.int64(14), T.int64(16)), "float32"), t3: T.Buffer((T.int64(1), T.int64(1), T.int64(12), T.int64(14), T.int64(16)), "float32"), t5: T.Buffer((T.int64(1), T.int64(1), T.int64(12), T.int64(14), T.int64(16)), "bfloat16"), t6: T.Buffer((T.int64(1), T.int64(3), T.int64(12), T.int64(14), T.int64(16)), "bfloat16")):
        # with T.sblock("root"):
        t1 = T.sblock_alloc_buffer((T.int64(1), T.int64(1), T.int64(12), T.int64(14), T.int64(16)))
        t2 = T.sblock_alloc_buffer((T.int64(1), T.int64(1), T.int64(12), T.int64(14), T.int64(16)), "bfloat16")
        t4 = T.sblock_alloc_buffer((T.int64(1), T.int64(1), T.int64(12), T.int64(14), T.int64(16)), "bfloat16")
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(16), T.int64(12), T.int64(14)):
            with T.sblock("slice"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t0[v_i0, T.int64(0), v_i2, v_i3, v_i1])
                T.writes(t1[v_i0, T.int64(0), v_i2, v_i3, v_i1])
                t1[v_i0, T.int64(0), v_i2, v_i3, v_i1] = t0[v_i0, T.int64(0), v_i2, v_i3, v_i1]
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(16), T.int64(12), T.int64(14)):
            with T.sblock("cast"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t1[v_i0, T.int64(0), v_i2, v_i3, v_i1])
                T.writes(t2[v_i0, T.int64(0), v_i2, v_i3, v_i1])
                t2[v_i0, T.int64(0), v_i2, v_i3, v_i1] = T.Cast("bfloat16", t1[v_i0, T.int64(0), v_i2, v_i3, v_i1])
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(16), T.int64(12), T.int64(14)):
            with T.sblock("cast_1"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t3[v_i0, T.int64(0), v_i2, v_i3, v_i1])
                T.writes(t4[v_i0, T.int64(0), v_i2, v_i3, v_i1])
                t4[v_i0, T.int64(0), v_i2, v_i3, v_i1] = T.Cast("bfloat16", t3[v_i0, T.int64(0), v_i2, v_i3, v_i1])
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(16), T.int64(12), T.int64(14)):
            with T.sblock("part0"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t2[v_i0, T.int64(0), v_i2, v_i3, v_i1])
                T.writes(t6[v_i0, T.int64(0), v_i2, v_i3, v_i1])
                t6[v_i0, T.int64(0), v_i2, v_i3, v_i1] = t2[v_i0, T.int64(0), v_i2, v_i3, v_i1]
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(16), T.int64(12), T.int64(14)):
            with T.sblock("part1"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t4[v_i0, T.int64(0), v_i2, v_i3, v_i1])
                T.writes(t6[v_i0, T.int64(1), v_i2, v_i3, v_i1])
                t6[v_i0, T.int64(1), v_i2, v_i3, v_i1] = t4[v_i0, T.int64(0), v_i2, v_i3, v_i1]
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(16), T.int64(12), T.int64(14)):
            with T.sblock("part2"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t5[v_i0, T.int64(0), v_i2, v_i3, v_i1])
                T.writes(t6[v_i0, T.int64(2), v_i2, v_i3, v_i1])
                t6[v_i0, T.int64(2), v_i2, v_i3, v_i1] = t5[v_i0, T.int64(0), v_i2, v_i3, v_i1]

    @T.prim_func(s_tir=True)
    def conv1(t0: T.Buffer((T.int64(1), T.int64(3), T.int64(12), T.int64(14), T.int64(16)), "bfloat16"), t1: T.Buffer((T.int64(2), T.int64(24), T.int64(16)), "uint32"), t2: T.Buffer((T.int64(1), T.int64(32), T.int64(12), T.int64(14)), "float32")):
        # with T.sblock("root"):
        t3 = T.sblock_alloc_buffer((T.int64(1), T.int64(3), T.int64(12), T.int64(14), T.int64(8)), "uint32")
        t4 = T.sblock_alloc_buffer((T.int64(1), T.int64(2), T.int64(12), T.int64(14), T.int64(16)))
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(24), T.int64(12), T.int64(14)):
            with T.sblock("pairs"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t0[v_i0, v_i1 // T.int64(8), v_i2, v_i3, v_i1 % T.int64(8) * T.int64(2)], t0[v_i0, v_i1 // T.int64(8), v_i2, v_i3, v_i1 % T.int64(8) * T.int64(2) + T.int64(1)])
                T.writes(t3[v_i0, v_i1 // T.int64(8), v_i2, v_i3, v_i1 % T.int64(8)])
                t3[v_i0, v_i1 // T.int64(8), v_i2, v_i3, v_i1 % T.int64(8)] = T.pair_bf16(t0[v_i0, v_i1 // T.int64(8), v_i2, v_i3, v_i1 % T.int64(8) * T.int64(2)], t0[v_i0, v_i1 // T.int64(8), v_i2, v_i3, v_i1 % T.int64(8) * T.int64(2) + T.int64(1)])
        for i0, i1, i2, i3, k0, k1, k2 in T.grid(T.int64(1), T.int64(32), T.int64(12), T.int64(14), T.int64(24), T.int64(1), T.int64(1)):
            with T.sblock("conv"):
                v_i0, v_i1, v_i2, v_i3, v_k0, v_k1, v_k2 = T.axis.remap("SSSSRRR", [i0, i1, i2, i3, k0, k1, k2])
                T.reads(t1[v_i1 // T.int64(16), v_k0 + v_k1 + v_k2, v_i1 % T.int64(16)], t3[v_i0, v_k0 // T.int64(8), v_i2 + v_k1, v_i3 + v_k2, v_k0 % T.int64(8)])
                T.writes(t4[v_i0, v_i1 // T.int64(16), v_i2, v_i3, v_i1 % T.int64(16)])
                with T.init():
                    t4[v_i0, v_i1 // T.int64(16), v_i2, v_i3, v_i1 % T.int64(16)] = T.float32(0.0)
                t4[v_i0, v_i1 // T.int64(16), v_i2, v_i3, v_i1 % T.int64(16)] = T.dot_bf16(t1[v_i1 // T.int64(16), v_k0 + v_k1 + v_k2, v_i1 % T.int64(16)], t3[v_i0, v_k0 // T.int64(8), v_i2 + v_k1, v_i3 + v_k2, v_k0 % T.int64(8)], t4[v_i0, v_i1 // T.int64(16), v_i2, v_i3, v_i1 % T.int64(16)])
        for i0, i1, i2, i3 in T.grid(T.int64(1), T.int64(32), T.int64(12), T.int64(14)):
            with T.sblock("bias"):
                v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
                T.reads(t4[v_i0, v_i1 // T.int64(16), v_i2, v_i3, v_i1 % T.int64(16)])
                T.writes(t2[v_i0, v_i1, v_i2, v_i3])
                t2[v_i0, v_i1, v_i2, v_i3] = t4[v_i0, v_i1 // T.int64(16), v_i2, v_i3, v_i1 % T.int64(16)]

# Metadata omitted: 3 constants, 8704 bytes.
# metadata["ir.GenericConst"][0]: uint32[2, 8, 16], 1024 bytes
# metadata["ir.GenericConst"][1]: uint32[1, 72, 16], 4608 bytes
# metadata["ir.GenericConst"][2]: uint32[2, 24, 16], 3072 bytes
