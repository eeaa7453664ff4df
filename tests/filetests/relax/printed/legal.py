# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def add(lv: T.Buffer((T.int64(3), T.int64(4)), "float32"), p2: T.Buffer((T.int64(4),), "float32"), T_add: T.Buffer((T.int64(3), T.int64(4)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for ax0, ax1 in T.grid(T.int64(3), T.int64(4)):
            with T.sblock("T_add"):
                v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                T.reads(lv[v_ax0, v_ax1], p2[v_ax1])
                T.writes(T_add[v_ax0, v_ax1])
                T_add[v_ax0, v_ax1] = lv[v_ax0, v_ax1] + p2[v_ax1]

    @T.prim_func(private=True, s_tir=True)
    def add1(lv16: T.Buffer((T.int64(2), T.int64(4)), "float32"), p2: T.Buffer((T.int64(4),), "float32"), T_add: T.Buffer((T.int64(2), T.int64(4)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for ax0, ax1 in T.grid(T.int64(2), T.int64(4)):
            with T.sblock("T_add"):
                v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                T.reads(lv16[v_ax0, v_ax1], p2[v_ax1])
                T.writes(T_add[v_ax0, v_ax1])
                T_add[v_ax0, v_ax1] = lv16[v_ax0, v_ax1] + p2[v_ax1]

    @T.prim_func(private=True, s_tir=True)
    def expand_dims(lv18: T.Buffer((T.int64(3), T.int64(4)), "float32"), expand_dims: T.Buffer((T.int64(1), T.int64(3), T.int64(4)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i0, i1, i2 in T.grid(T.int64(1), T.int64(3), T.int64(4)):
            with T.sblock("expand_dims"):
                v_i0, v_i1, v_i2 = T.axis.remap("SSS", [i0, i1, i2])
                T.reads(lv18[v_i1, v_i2])
                T.writes(expand_dims[v_i0, v_i1, v_i2])
                expand_dims[v_i0, v_i1, v_i2] = lv18[v_i1, v_i2]

    @T.prim_func(private=True, s_tir=True)
    def gelu(lv1: T.Buffer((T.int64(3), T.int64(4)), "float32"), T_multiply: T.Buffer((T.int64(3), T.int64(4)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        T_multiply_1 = T.sblock_alloc_buffer((T.int64(3), T.int64(4)))
        compute = T.sblock_alloc_buffer((T.int64(3), T.int64(4)))
        T_multiply_2 = T.sblock_alloc_buffer((T.int64(3), T.int64(4)))
        T_add = T.sblock_alloc_buffer((T.int64(3), T.int64(4)))
        for ax0, ax1 in T.grid(T.int64(3), T.int64(4)):
            with T.sblock("T_multiply"):
                v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                T.reads(lv1[v_ax0, v_ax1])
                T.writes(T_multiply_1[v_ax0, v_ax1])
                T_multiply_1[v_ax0, v_ax1] = lv1[v_ax0, v_ax1] * T.float32(0.70710678118654757)
        for i0, i1 in T.grid(T.int64(3), T.int64(4)):
            with T.sblock("compute"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(T_multiply_1[v_i0, v_i1])
                T.writes(compute[v_i0, v_i1])
                compute[v_i0, v_i1] = T.erf(T_multiply_1[v_i0, v_i1])
        for ax0, ax1 in T.grid(T.int64(3), T.int64(4)):
            with T.sblock("T_multiply_1"):
                v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                T.reads(compute[v_ax0, v_ax1])
                T.writes(T_multiply_2[v_ax0, v_ax1])
                T_multiply_2[v_ax0, v_ax1] = compute[v_ax0, v_ax1] * T.float32(0.5)
        for ax0, ax1 in T.grid(T.int64(3), T.int64(4)):
            with T.sblock("T_add"):
                v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                T.reads(T_multiply_2[v_ax0, v_ax1])
                T.writes(T_add[v_ax0, v_ax1])
                T_add[v_ax0, v_ax1] = T.float32(0.5) + T_multiply_2[v_ax0, v_ax1]
        for ax0, ax1 in T.grid(T.int64(3), T.int64(4)):
            with T.sblock("T_multiply_2"):
                v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                T.reads(lv1[v_ax0, v_ax1], T_add[v_ax0, v_ax1])
                T.writes(T_multiply[v_ax0, v_ax1])
                T_multiply[v_ax0, v_ax1] = lv1[v_ax0, v_ax1] * T_add[v_ax0, v_ax1]

    @T.prim_func(private=True, s_tir=True)
    def matmul(p0: T.Buffer((T.int64(3), T.int64(4)), "float32"), p1: T.Buffer((T.int64(4), T.int64(4)), "float32"), matmul: T.Buffer((T.int64(3), T.int64(4)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i0, i1, k in T.grid(T.int64(3), T.int64(4), T.int64(4)):
            with T.sblock("matmul"):
                v_i0, v_i1, v_k = T.axis.remap("SSR", [i0, i1, k])
                T.reads(p0[v_i0, v_k], p1[v_k, v_i1])
                T.writes(matmul[v_i0, v_i1])
                with T.init():
                    matmul[v_i0, v_i1] = T.float32(0.0)
                matmul[v_i0, v_i1] = matmul[v_i0, v_i1] + p0[v_i0, v_k] * p1[v_k, v_i1]

    @T.prim_func(private=True, s_tir=True)
    def multiply(lv3: T.Buffer((T.int64(4), T.int64(3)), "float32"), lv3_1: T.Buffer((T.int64(4), T.int64(3)), "float32"), T_multiply: T.Buffer((T.int64(4), T.int64(3)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for ax0, ax1 in T.grid(T.int64(4), T.int64(3)):
            with T.sblock("T_multiply"):
                v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                T.reads(lv3[v_ax0, v_ax1], lv3_1[v_ax0, v_ax1])
                T.writes(T_multiply[v_ax0, v_ax1])
                T_multiply[v_ax0, v_ax1] = lv3[v_ax0, v_ax1] * lv3_1[v_ax0, v_ax1]

    @T.prim_func(private=True, s_tir=True)
    def multiply1(lv2: T.Buffer((T.int64(3), T.int64(4)), "float32"), lv2_1: T.Buffer((T.int64(3), T.int64(4)), "float32"), T_multiply: T.Buffer((T.int64(3), T.int64(4)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for ax0, ax1 in T.grid(T.int64(3), T.int64(4)):
            with T.sblock("T_multiply"):
                v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                T.reads(lv2[v_ax0, v_ax1], lv2_1[v_ax0, v_ax1])
                T.writes(T_multiply[v_ax0, v_ax1])
                T_multiply[v_ax0, v_ax1] = lv2[v_ax0, v_ax1] * lv2_1[v_ax0, v_ax1]

    @T.prim_func(private=True, s_tir=True)
    def multiply2(lv19: T.Buffer((T.int64(1), T.int64(3), T.int64(4)), "float32"), T_multiply: T.Buffer((T.int64(1), T.int64(3), T.int64(4)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for ax0, ax1, ax2 in T.grid(T.int64(1), T.int64(3), T.int64(4)):
            with T.sblock("T_multiply"):
                v_ax0, v_ax1, v_ax2 = T.axis.remap("SSS", [ax0, ax1, ax2])
                T.reads(lv19[v_ax0, v_ax1, v_ax2])
                T.writes(T_multiply[v_ax0, v_ax1, v_ax2])
                T_multiply[v_ax0, v_ax1, v_ax2] = lv19[v_ax0, v_ax1, v_ax2] * T.float32(2.0)

    @T.prim_func(private=True, s_tir=True)
    def relu(p0: T.Buffer((T.int64(3), T.int64(4)), "float32"), compute: T.Buffer((T.int64(3), T.int64(4)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i0, i1 in T.grid(T.int64(3), T.int64(4)):
            with T.sblock("compute"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(p0[v_i0, v_i1])
                T.writes(compute[v_i0, v_i1])
                compute[v_i0, v_i1] = T.max(p0[v_i0, v_i1], T.float32(0.0))

    @T.prim_func(private=True, s_tir=True)
    def softmax(lv10: T.Buffer((T.int64(3), T.int64(4)), "float32"), T_softmax_norm: T.Buffer((T.int64(3), T.int64(4)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        T_softmax_maxelem = T.sblock_alloc_buffer((T.int64(3),))
        T_softmax_exp = T.sblock_alloc_buffer((T.int64(3), T.int64(4)))
        T_softmax_expsum = T.sblock_alloc_buffer((T.int64(3),))
        for i0, k in T.grid(T.int64(3), T.int64(4)):
            with T.sblock("T_softmax_maxelem"):
                v_i0, v_k = T.axis.remap("SR", [i0, k])
                T.reads(lv10[v_i0, v_k])
                T.writes(T_softmax_maxelem[v_i0])
                with T.init():
                    T_softmax_maxelem[v_i0] = T.float32(-340282346638528859811704183484516925440.0)
                T_softmax_maxelem[v_i0] = T.max(T_softmax_maxelem[v_i0], lv10[v_i0, v_k])
        for i0, i1 in T.grid(T.int64(3), T.int64(4)):
            with T.sblock("T_softmax_exp"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(lv10[v_i0, v_i1], T_softmax_maxelem[v_i0])
                T.writes(T_softmax_exp[v_i0, v_i1])
                T_softmax_exp[v_i0, v_i1] = T.exp(lv10[v_i0, v_i1] - T_softmax_maxelem[v_i0])
        for i0, k in T.grid(T.int64(3), T.int64(4)):
            with T.sblock("T_softmax_expsum"):
                v_i0, v_k = T.axis.remap("SR", [i0, k])
                T.reads(T_softmax_exp[v_i0, v_k])
                T.writes(T_softmax_expsum[v_i0])
                with T.init():
                    T_softmax_expsum[v_i0] = T.float32(0.0)
                T_softmax_expsum[v_i0] = T_softmax_expsum[v_i0] + T_softmax_exp[v_i0, v_k]
        for i0, i1 in T.grid(T.int64(3), T.int64(4)):
            with T.sblock("T_softmax_norm"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(T_softmax_exp[v_i0, v_i1], T_softmax_expsum[v_i0])
                T.writes(T_softmax_norm[v_i0, v_i1])
                T.sblock_attr({"axis": 1})
                T_softmax_norm[v_i0, v_i1] = T_softmax_exp[v_i0, v_i1] / T_softmax_expsum[v_i0]

    @T.prim_func(private=True, s_tir=True)
    def subtract(p0: T.Buffer((T.int64(3), T.int64(4)), "float32"), p2: T.Buffer((T.int64(4),), "float32"), T_subtract: T.Buffer((T.int64(3), T.int64(4)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for ax0, ax1 in T.grid(T.int64(3), T.int64(4)):
            with T.sblock("T_subtract"):
                v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                T.reads(p0[v_ax0, v_ax1], p2[v_ax1])
                T.writes(T_subtract[v_ax0, v_ax1])
                T_subtract[v_ax0, v_ax1] = p0[v_ax0, v_ax1] - p2[v_ax1]

    @T.prim_func(private=True, s_tir=True)
    def sum(lv4: T.Buffer((T.int64(4), T.int64(3)), "float32"), lv4_red: T.Buffer((T.int64(4), T.int64(1)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for ax0, ax1, k1 in T.grid(T.int64(4), T.int64(1), T.int64(3)):
            with T.sblock("lv4_red"):
                v_ax0, v_ax1, v_k1 = T.axis.remap("SSR", [ax0, ax1, k1])
                T.reads(lv4[v_ax0, v_k1])
                T.writes(lv4_red[v_ax0, v_ax1])
                with T.init():
                    lv4_red[v_ax0, v_ax1] = T.float32(0.0)
                lv4_red[v_ax0, v_ax1] = lv4_red[v_ax0, v_ax1] + lv4[v_ax0, v_k1]

    @T.prim_func(private=True, s_tir=True)
    def sum1(lv7: T.Buffer((T.int64(3), T.int64(4)), "float32"), lv7_red: T.Buffer((T.int64(4),), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for ax0, k0 in T.grid(T.int64(4), T.int64(3)):
            with T.sblock("lv7_red"):
                v_ax0, v_k0 = T.axis.remap("SR", [ax0, k0])
                T.reads(lv7[v_k0, v_ax0])
                T.writes(lv7_red[v_ax0])
                with T.init():
                    lv7_red[v_ax0] = T.float32(0.0)
                lv7_red[v_ax0] = lv7_red[v_ax0] + lv7[v_k0, v_ax0]

    @T.prim_func(private=True, s_tir=True)
    def take(p0: T.Buffer((T.int64(3), T.int64(4)), "float32"), B: T.Buffer((T.int64(2),), "int64"), T_take: T.Buffer((T.int64(2), T.int64(4)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for ax0, ax1 in T.grid(T.int64(2), T.int64(4)):
            with T.sblock("T_take"):
                v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                T.reads(p0[B[v_ax0], v_ax1], B[v_ax0])
                T.writes(T_take[v_ax0, v_ax1])
                T_take[v_ax0, v_ax1] = p0[B[v_ax0], v_ax1]

    @T.prim_func(private=True, s_tir=True)
    def tir_exp(lv6: T.Buffer((T.int64(3), T.int64(4)), "float32"), compute: T.Buffer((T.int64(3), T.int64(4)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i0, i1 in T.grid(T.int64(3), T.int64(4)):
            with T.sblock("compute"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(lv6[v_i0, v_i1])
                T.writes(compute[v_i0, v_i1])
                compute[v_i0, v_i1] = T.exp(lv6[v_i0, v_i1])

    @T.prim_func(private=True, s_tir=True)
    def tir_exp1(lv14: T.Buffer((T.int64(4), T.int64(3)), "float32"), compute: T.Buffer((T.int64(4), T.int64(3)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i0, i1 in T.grid(T.int64(4), T.int64(3)):
            with T.sblock("compute"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(lv14[v_i0, v_i1])
                T.writes(compute[v_i0, v_i1])
                compute[v_i0, v_i1] = T.exp(lv14[v_i0, v_i1])

    @T.prim_func(private=True, s_tir=True)
    def tir_negative(lv13: T.Buffer((T.int64(4), T.int64(3)), "float32"), compute: T.Buffer((T.int64(4), T.int64(3)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i0, i1 in T.grid(T.int64(4), T.int64(3)):
            with T.sblock("compute"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(lv13[v_i0, v_i1])
                T.writes(compute[v_i0, v_i1])
                compute[v_i0, v_i1] = lv13[v_i0, v_i1] * T.float32(-1.0)

    @T.prim_func(private=True, s_tir=True)
    def tir_sqrt(lv8: T.Buffer((T.int64(4),), "float32"), compute: T.Buffer((T.int64(4),), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i0 in range(T.int64(4)):
            with T.sblock("compute"):
                v_i0 = T.axis.spatial(T.int64(4), i0)
                T.reads(lv8[v_i0])
                T.writes(compute[v_i0])
                compute[v_i0] = T.sqrt(lv8[v_i0])

    @T.prim_func(private=True, s_tir=True)
    def transpose(lv2: T.Buffer((T.int64(3), T.int64(4)), "float32"), T_transpose: T.Buffer((T.int64(4), T.int64(3)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for ax0, ax1 in T.grid(T.int64(4), T.int64(3)):
            with T.sblock("T_transpose"):
                v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                T.reads(lv2[v_ax1, v_ax0])
                T.writes(T_transpose[v_ax0, v_ax1])
                T_transpose[v_ax0, v_ax1] = lv2[v_ax1, v_ax0]

    @R.function
    def main(p0: R.Tensor((3, 4), dtype="float32"), p1: R.Tensor((4, 4), dtype="float32"), p2: R.Tensor((4,), dtype="float32")) -> R.Tuple(R.Tensor((4, 1), dtype="float32"), R.Tensor((4,), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((4, 3), dtype="float32"), R.Tensor((2, 4), dtype="float32"), R.Tensor((1, 3, 4), dtype="float32")):
        cls = Module
        lv = R.call_tir(cls.matmul, (p0, p1), out_ty=R.Tensor((3, 4), dtype="float32"))
        lv1 = R.call_tir(cls.add, (lv, p2), out_ty=R.Tensor((3, 4), dtype="float32"))
        lv2 = R.call_tir(cls.gelu, (lv1,), out_ty=R.Tensor((3, 4), dtype="float32"))
        lv3 = R.call_tir(cls.transpose, (lv2,), out_ty=R.Tensor((4, 3), dtype="float32"))
        lv4 = R.call_tir(cls.multiply, (lv3, lv3), out_ty=R.Tensor((4, 3), dtype="float32"))
        lv5 = R.call_tir(cls.sum, (lv4,), out_ty=R.Tensor((4, 1), dtype="float32"))
        lv6 = R.call_tir(cls.subtract, (p0, p2), out_ty=R.Tensor((3, 4), dtype="float32"))
        lv7 = R.call_tir(cls.tir_exp, (lv6,), out_ty=R.Tensor((3, 4), dtype="float32"))
        lv8 = R.call_tir(cls.sum1, (lv7,), out_ty=R.Tensor((4,), dtype="float32"))
        lv9 = R.call_tir(cls.tir_sqrt, (lv8,), out_ty=R.Tensor((4,), dtype="float32"))
        lv10 = R.call_tir(cls.multiply1, (lv2, lv2), out_ty=R.Tensor((3, 4), dtype="float32"))
        lv11 = R.call_tir(cls.softmax, (lv10,), out_ty=R.Tensor((3, 4), dtype="float32"))
        lv12 = R.call_tir(cls.add, (p0, p2), out_ty=R.Tensor((3, 4), dtype="float32"))
        lv13 = R.call_tir(cls.transpose, (lv12,), out_ty=R.Tensor((4, 3), dtype="float32"))
        lv14 = R.call_tir(cls.tir_negative, (lv13,), out_ty=R.Tensor((4, 3), dtype="float32"))
        lv15 = R.call_tir(cls.tir_exp1, (lv14,), out_ty=R.Tensor((4, 3), dtype="float32"))
        lv16 = R.call_tir(cls.take, (p0, R.const([2, 0], "int64")), out_ty=R.Tensor((2, 4), dtype="float32"))
        lv17 = R.call_tir(cls.add1, (lv16, p2), out_ty=R.Tensor((2, 4), dtype="float32"))
        lv18 = R.call_tir(cls.relu, (p0,), out_ty=R.Tensor((3, 4), dtype="float32"))
        lv19 = R.call_tir(cls.expand_dims, (lv18,), out_ty=R.Tensor((1, 3, 4), dtype="float32"))
        lv20 = R.call_tir(cls.multiply2, (lv19,), out_ty=R.Tensor((1, 3, 4), dtype="float32"))
        gv: R.Tuple(R.Tensor((4, 1), dtype="float32"), R.Tensor((4,), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((4, 3), dtype="float32"), R.Tensor((2, 4), dtype="float32"), R.Tensor((1, 3, 4), dtype="float32")) = (lv5, lv9, lv11, lv15, lv17, lv20)
        return (lv5, lv9, lv11, lv15, lv17, lv20)
