# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def twice_and(x: R.Tensor((3,), dtype="float32"), y: R.Tensor((3,), dtype="float32")) -> R.Tensor((3,), dtype="float32"):
        gv: R.Tensor((3,), dtype="float32") = R.add(x, x)
        gv1: R.Tensor((3,), dtype="float32") = R.add(gv, y)
        return gv1

    @R.function(pure=False)
    def main(x: R.Tensor((3,), dtype="float32"), y: R.Tensor((3,), dtype="float32")) -> R.Tuple(R.Tensor((3,), dtype="float32"), R.Tensor((3,), dtype="float32")):
        cls = Module
        gv: R.Callable = cls.twice_and
        f: R.Callable = R.call_packed("vm.builtin.make_closure", gv, y, ty_args=(R.Callable,))
        gv1: R.Any = R.reflex.machine()
        a: R.Tensor((3,), dtype="float32") = R.call_packed("vm.builtin.invoke_closure", gv1, f, x, ty_args=(R.Tensor((3,), dtype="float32"),))
        gv2: R.Any = R.reflex.machine()
        b: R.Tensor((3,), dtype="float32") = R.call_packed("vm.builtin.invoke_closure", gv2, f, a, ty_args=(R.Tensor((3,), dtype="float32"),))
        return (a, b)
