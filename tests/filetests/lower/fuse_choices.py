# after: fuse_operators
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 3), dtype="float32")) -> R.Tensor((n, 1), dtype="float32"):
        x0: R.Tensor((n, 1), dtype="float32") = R.strided_slice(x, axes=[1], begin=[0], end=[1])
        x1: R.Tensor((n, 1), dtype="float32") = R.strided_slice(x, axes=[1], begin=[1], end=[2])
        x2: R.Tensor((n, 1), dtype="float32") = R.strided_slice(x, axes=[1], begin=[2], end=[3])
        p0: R.Tensor((n, 1), dtype="bool") = R.less_equal(x0, R.const(0.5, "float32"))
        c0: R.Tensor((n, 1), dtype="float32") = R.where(p0, R.const(1.0, "float32"), R.const(0.0, "float32"))
        p1: R.Tensor((n, 1), dtype="bool") = R.less_equal(x1, R.const(1.5, "float32"))
        c1: R.Tensor((n, 1), dtype="float32") = R.where(p1, R.const(2.0, "float32"), c0)
        p2: R.Tensor((n, 1), dtype="bool") = R.less_equal(x2, R.const(2.5, "float32"))
        c2: R.Tensor((n, 1), dtype="float32") = R.where(p2, R.const(3.0, "float32"), c1)
        p3: R.Tensor((n, 1), dtype="bool") = R.less_equal(x0, R.const(3.5, "float32"))
        c3: R.Tensor((n, 1), dtype="float32") = R.where(p3, R.const(4.0, "float32"), c2)
        p4: R.Tensor((n, 1), dtype="bool") = R.less_equal(x1, R.const(4.5, "float32"))
        c4: R.Tensor((n, 1), dtype="float32") = R.where(p4, R.const(5.0, "float32"), c3)
        p5: R.Tensor((n, 1), dtype="bool") = R.less_equal(x2, R.const(5.5, "float32"))
        c5: R.Tensor((n, 1), dtype="float32") = R.where(p5, R.const(6.0, "float32"), c4)
        p6: R.Tensor((n, 1), dtype="bool") = R.less_equal(x0, R.const(6.5, "float32"))
        c6: R.Tensor((n, 1), dtype="float32") = R.where(p6, R.const(7.0, "float32"), c5)
        p7: R.Tensor((n, 1), dtype="bool") = R.less_equal(x1, R.const(7.5, "float32"))
        c7: R.Tensor((n, 1), dtype="float32") = R.where(p7, R.const(8.0, "float32"), c6)
        p8: R.Tensor((n, 1), dtype="bool") = R.less_equal(x2, R.const(8.5, "float32"))
        c8: R.Tensor((n, 1), dtype="float32") = R.where(p8, R.const(9.0, "float32"), c7)
        p9: R.Tensor((n, 1), dtype="bool") = R.less_equal(x0, R.const(9.5, "float32"))
        c9: R.Tensor((n, 1), dtype="float32") = R.where(p9, R.const(10.0, "float32"), c8)
        p10: R.Tensor((n, 1), dtype="bool") = R.less_equal(x1, R.const(10.5, "float32"))
        c10: R.Tensor((n, 1), dtype="float32") = R.where(p10, R.const(11.0, "float32"), c9)
        p11: R.Tensor((n, 1), dtype="bool") = R.less_equal(x2, R.const(11.5, "float32"))
        c11: R.Tensor((n, 1), dtype="float32") = R.where(p11, R.const(12.0, "float32"), c10)
        p12: R.Tensor((n, 1), dtype="bool") = R.less_equal(x0, R.const(12.5, "float32"))
        c12: R.Tensor((n, 1), dtype="float32") = R.where(p12, R.const(13.0, "float32"), c11)
        p13: R.Tensor((n, 1), dtype="bool") = R.less_equal(x1, R.const(13.5, "float32"))
        c13: R.Tensor((n, 1), dtype="float32") = R.where(p13, R.const(14.0, "float32"), c12)
        p14: R.Tensor((n, 1), dtype="bool") = R.less_equal(x2, R.const(14.5, "float32"))
        c14: R.Tensor((n, 1), dtype="float32") = R.where(p14, R.const(15.0, "float32"), c13)
        p15: R.Tensor((n, 1), dtype="bool") = R.less_equal(x0, R.const(15.5, "float32"))
        c15: R.Tensor((n, 1), dtype="float32") = R.where(p15, R.const(16.0, "float32"), c14)
        return c15
# ----
# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 3), dtype="float32")) -> R.Tensor((n, 1), dtype="float32"):
        cls = Module
        c15 = R.call_tir(cls.fused_slice_slice_slice_less_equal_where_30more, (x,), out_ty=R.Tensor((n, 1), dtype="float32"))
        return c15

    @T.prim_func(s_tir=True)
    def fused_slice_slice_slice_less_equal_where_30more(t0: T.Buffer((n, T.int64(3)), "float32"), t35: T.Buffer((n, T.int64(1)), "float32")):
        # with T.sblock("root"):
        t1 = T.sblock_alloc_buffer((n, T.int64(1)))
        t2 = T.sblock_alloc_buffer((n, T.int64(1)))
        t3 = T.sblock_alloc_buffer((n, T.int64(1)))
        t4 = T.sblock_alloc_buffer((n, T.int64(1)), "bool")
        t5 = T.sblock_alloc_buffer((n, T.int64(1)))
        t6 = T.sblock_alloc_buffer((n, T.int64(1)), "bool")
        t7 = T.sblock_alloc_buffer((n, T.int64(1)))
        t8 = T.sblock_alloc_buffer((n, T.int64(1)), "bool")
        t9 = T.sblock_alloc_buffer((n, T.int64(1)))
        t10 = T.sblock_alloc_buffer((n, T.int64(1)), "bool")
        t11 = T.sblock_alloc_buffer((n, T.int64(1)))
        t12 = T.sblock_alloc_buffer((n, T.int64(1)), "bool")
        t13 = T.sblock_alloc_buffer((n, T.int64(1)))
        t14 = T.sblock_alloc_buffer((n, T.int64(1)), "bool")
        t15 = T.sblock_alloc_buffer((n, T.int64(1)))
        t16 = T.sblock_alloc_buffer((n, T.int64(1)), "bool")
        t17 = T.sblock_alloc_buffer((n, T.int64(1)))
        t18 = T.sblock_alloc_buffer((n, T.int64(1)), "bool")
        t19 = T.sblock_alloc_buffer((n, T.int64(1)))
        t20 = T.sblock_alloc_buffer((n, T.int64(1)), "bool")
        t21 = T.sblock_alloc_buffer((n, T.int64(1)))
        t22 = T.sblock_alloc_buffer((n, T.int64(1)), "bool")
        t23 = T.sblock_alloc_buffer((n, T.int64(1)))
        t24 = T.sblock_alloc_buffer((n, T.int64(1)), "bool")
        t25 = T.sblock_alloc_buffer((n, T.int64(1)))
        t26 = T.sblock_alloc_buffer((n, T.int64(1)), "bool")
        t27 = T.sblock_alloc_buffer((n, T.int64(1)))
        t28 = T.sblock_alloc_buffer((n, T.int64(1)), "bool")
        t29 = T.sblock_alloc_buffer((n, T.int64(1)))
        t30 = T.sblock_alloc_buffer((n, T.int64(1)), "bool")
        t31 = T.sblock_alloc_buffer((n, T.int64(1)))
        t32 = T.sblock_alloc_buffer((n, T.int64(1)), "bool")
        t33 = T.sblock_alloc_buffer((n, T.int64(1)))
        t34 = T.sblock_alloc_buffer((n, T.int64(1)), "bool")
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("slice"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t0[v_i0, v_i1])
                T.writes(t1[v_i0, v_i1])
                t1[v_i0, v_i1] = t0[v_i0, v_i1]
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("slice_1"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t0[v_i0, v_i1 + T.int64(1)])
                T.writes(t2[v_i0, v_i1])
                t2[v_i0, v_i1] = t0[v_i0, v_i1 + T.int64(1)]
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("slice_2"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t0[v_i0, v_i1 + T.int64(2)])
                T.writes(t3[v_i0, v_i1])
                t3[v_i0, v_i1] = t0[v_i0, v_i1 + T.int64(2)]
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("binary"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t1[v_i0, T.int64(0)])
                T.writes(t4[v_i0, v_i1])
                t4[v_i0, v_i1] = t1[v_i0, T.int64(0)] <= T.float32(0.5)
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("where"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t4[v_i0, T.int64(0)])
                T.writes(t5[v_i0, v_i1])
                t5[v_i0, v_i1] = T.Select(t4[v_i0, T.int64(0)], T.float32(1.0), T.float32(0.0))
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("binary_1"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t2[v_i0, T.int64(0)])
                T.writes(t6[v_i0, v_i1])
                t6[v_i0, v_i1] = t2[v_i0, T.int64(0)] <= T.float32(1.5)
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("where_1"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t6[v_i0, T.int64(0)], t5[v_i0, T.int64(0)])
                T.writes(t7[v_i0, v_i1])
                t7[v_i0, v_i1] = T.Select(t6[v_i0, T.int64(0)], T.float32(2.0), t5[v_i0, T.int64(0)])
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("binary_2"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t3[v_i0, T.int64(0)])
                T.writes(t8[v_i0, v_i1])
                t8[v_i0, v_i1] = t3[v_i0, T.int64(0)] <= T.float32(2.5)
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("where_2"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t8[v_i0, T.int64(0)], t7[v_i0, T.int64(0)])
                T.writes(t9[v_i0, v_i1])
                t9[v_i0, v_i1] = T.Select(t8[v_i0, T.int64(0)], T.float32(3.0), t7[v_i0, T.int64(0)])
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("binary_3"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t1[v_i0, T.int64(0)])
                T.writes(t10[v_i0, v_i1])
                t10[v_i0, v_i1] = t1[v_i0, T.int64(0)] <= T.float32(3.5)
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("where_3"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t10[v_i0, T.int64(0)], t9[v_i0, T.int64(0)])
                T.writes(t11[v_i0, v_i1])
                t11[v_i0, v_i1] = T.Select(t10[v_i0, T.int64(0)], T.float32(4.0), t9[v_i0, T.int64(0)])
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("binary_4"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t2[v_i0, T.int64(0)])
                T.writes(t12[v_i0, v_i1])
                t12[v_i0, v_i1] = t2[v_i0, T.int64(0)] <= T.float32(4.5)
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("where_4"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t12[v_i0, T.int64(0)], t11[v_i0, T.int64(0)])
                T.writes(t13[v_i0, v_i1])
                t13[v_i0, v_i1] = T.Select(t12[v_i0, T.int64(0)], T.float32(5.0), t11[v_i0, T.int64(0)])
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("binary_5"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t3[v_i0, T.int64(0)])
                T.writes(t14[v_i0, v_i1])
                t14[v_i0, v_i1] = t3[v_i0, T.int64(0)] <= T.float32(5.5)
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("where_5"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t14[v_i0, T.int64(0)], t13[v_i0, T.int64(0)])
                T.writes(t15[v_i0, v_i1])
                t15[v_i0, v_i1] = T.Select(t14[v_i0, T.int64(0)], T.float32(6.0), t13[v_i0, T.int64(0)])
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("binary_6"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t1[v_i0, T.int64(0)])
                T.writes(t16[v_i0, v_i1])
                t16[v_i0, v_i1] = t1[v_i0, T.int64(0)] <= T.float32(6.5)
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("where_6"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t16[v_i0, T.int64(0)], t15[v_i0, T.int64(0)])
                T.writes(t17[v_i0, v_i1])
                t17[v_i0, v_i1] = T.Select(t16[v_i0, T.int64(0)], T.float32(7.0), t15[v_i0, T.int64(0)])
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("binary_7"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t2[v_i0, T.int64(0)])
                T.writes(t18[v_i0, v_i1])
                t18[v_i0, v_i1] = t2[v_i0, T.int64(0)] <= T.float32(7.5)
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("where_7"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t18[v_i0, T.int64(0)], t17[v_i0, T.int64(0)])
                T.writes(t19[v_i0, v_i1])
                t19[v_i0, v_i1] = T.Select(t18[v_i0, T.int64(0)], T.float32(8.0), t17[v_i0, T.int64(0)])
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("binary_8"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t3[v_i0, T.int64(0)])
                T.writes(t20[v_i0, v_i1])
                t20[v_i0, v_i1] = t3[v_i0, T.int64(0)] <= T.float32(8.5)
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("where_8"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t20[v_i0, T.int64(0)], t19[v_i0, T.int64(0)])
                T.writes(t21[v_i0, v_i1])
                t21[v_i0, v_i1] = T.Select(t20[v_i0, T.int64(0)], T.float32(9.0), t19[v_i0, T.int64(0)])
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("binary_9"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t1[v_i0, T.int64(0)])
                T.writes(t22[v_i0, v_i1])
                t22[v_i0, v_i1] = t1[v_i0, T.int64(0)] <= T.float32(9.5)
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("where_9"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t22[v_i0, T.int64(0)], t21[v_i0, T.int64(0)])
                T.writes(t23[v_i0, v_i1])
                t23[v_i0, v_i1] = T.Select(t22[v_i0, T.int64(0)], T.float32(10.0), t21[v_i0, T.int64(0)])
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("binary_10"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t2[v_i0, T.int64(0)])
                T.writes(t24[v_i0, v_i1])
                t24[v_i0, v_i1] = t2[v_i0, T.int64(0)] <= T.float32(10.5)
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("where_10"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t24[v_i0, T.int64(0)], t23[v_i0, T.int64(0)])
                T.writes(t25[v_i0, v_i1])
                t25[v_i0, v_i1] = T.Select(t24[v_i0, T.int64(0)], T.float32(11.0), t23[v_i0, T.int64(0)])
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("binary_11"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t3[v_i0, T.int64(0)])
                T.writes(t26[v_i0, v_i1])
                t26[v_i0, v_i1] = t3[v_i0, T.int64(0)] <= T.float32(11.5)
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("where_11"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t26[v_i0, T.int64(0)], t25[v_i0, T.int64(0)])
                T.writes(t27[v_i0, v_i1])
                t27[v_i0, v_i1] = T.Select(t26[v_i0, T.int64(0)], T.float32(12.0), t25[v_i0, T.int64(0)])
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("binary_12"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t1[v_i0, T.int64(0)])
                T.writes(t28[v_i0, v_i1])
                t28[v_i0, v_i1] = t1[v_i0, T.int64(0)] <= T.float32(12.5)
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("where_12"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t28[v_i0, T.int64(0)], t27[v_i0, T.int64(0)])
                T.writes(t29[v_i0, v_i1])
                t29[v_i0, v_i1] = T.Select(t28[v_i0, T.int64(0)], T.float32(13.0), t27[v_i0, T.int64(0)])
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("binary_13"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t2[v_i0, T.int64(0)])
                T.writes(t30[v_i0, v_i1])
                t30[v_i0, v_i1] = t2[v_i0, T.int64(0)] <= T.float32(13.5)
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("where_13"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t30[v_i0, T.int64(0)], t29[v_i0, T.int64(0)])
                T.writes(t31[v_i0, v_i1])
                t31[v_i0, v_i1] = T.Select(t30[v_i0, T.int64(0)], T.float32(14.0), t29[v_i0, T.int64(0)])
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("binary_14"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t3[v_i0, T.int64(0)])
                T.writes(t32[v_i0, v_i1])
                t32[v_i0, v_i1] = t3[v_i0, T.int64(0)] <= T.float32(14.5)
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("where_14"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t32[v_i0, T.int64(0)], t31[v_i0, T.int64(0)])
                T.writes(t33[v_i0, v_i1])
                t33[v_i0, v_i1] = T.Select(t32[v_i0, T.int64(0)], T.float32(15.0), t31[v_i0, T.int64(0)])
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("binary_15"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t1[v_i0, T.int64(0)])
                T.writes(t34[v_i0, v_i1])
                t34[v_i0, v_i1] = t1[v_i0, T.int64(0)] <= T.float32(15.5)
        for i0, i1 in T.grid(n, T.int64(1)):
            with T.sblock("where_15"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(t34[v_i0, T.int64(0)], t33[v_i0, T.int64(0)])
                T.writes(t35[v_i0, v_i1])
                t35[v_i0, v_i1] = T.Select(t34[v_i0, T.int64(0)], T.float32(16.0), t33[v_i0, T.int64(0)])
