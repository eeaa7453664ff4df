# from tvm.script import ir as I
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
        f: R.Any = R.make_closure(cls.twice_and, (y,))
        a: R.Tensor((3,), dtype="float32") = R.invoke_closure(f, (x,), ty_args=(R.Tensor((3,), dtype="float32"),))
        b: R.Tensor((3,), dtype="float32") = R.invoke_pure_closure(f, (a,), ty_args=(R.Tensor((3,), dtype="float32"),))
        return (a, b)
# case
# in float32 (3) 1.70700002 1.22099996 4.71000004
# in float32 (3) 2.86400008 1.56900001 3.38100004
# out float32 (3) 6.27799988 4.01099968 12.8010006
# out float32 (3) 15.4200001 9.5909996 28.9830017
