# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def reflex_own0(y: T.Buffer((T.int64(2), T.int64(3)), "float32")):
        # with T.sblock("root"):
        for i0, i1 in T.grid(T.int64(2), T.int64(3)):
            with T.sblock("own"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads()
                T.writes(y[v_i0, v_i1])
                y[v_i0, v_i1] = T.float32(0.0)

    @T.prim_func(s_tir=True)
    def reflex_own1(y: T.Buffer((T.int64(2), T.int64(3)), "float32")):
        # with T.sblock("root"):
        for i0, i1 in T.grid(T.int64(2), T.int64(3)):
            with T.sblock("own"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads()
                T.writes(y[v_i0, v_i1])
                y[v_i0, v_i1] = T.float32(0.0)

    @R.function(pure=False)
    def main(x: R.Tensor((2, 3), dtype="float32"), c: R.Tensor((), dtype="bool")) -> R.Tensor((2, 3), dtype="float32"):
        cls = Module
        s: R.Any = R.null_value()
        y = R.call_tir(cls.reflex_own0, (), out_ty=R.Tensor((2, 3), dtype="float32"))
        z = R.call_tir(cls.reflex_own1, (), out_ty=R.Tensor((2, 3), dtype="float32"))
        gv: R.Any = R.str("not so")
        gv1: R.Any = R.call_packed("relax.run.assert_op", c, gv, ty_args=(R.Any,))
        gv2: R.Any = R.str("the condition is {}")
        gv3: R.Any = R.call_packed("relax.run.print", gv2, c, ty_args=(R.Any,))
        w: R.Tensor((2, 3), dtype="float32") = R.call_packed("vm.builtin.copy", x, ty_args=(R.Tensor((2, 3), dtype="float32"),))
        return w
