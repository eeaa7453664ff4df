# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def twice(x: R.Tensor((n,), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        gv: R.Tensor((n,), dtype="float32") = R.add(x, x)
        return gv

    @R.function
    def main(c: R.Tensor((), dtype="bool"), x: R.Tensor((n,), dtype="float32")) -> R.Tuple(R.Tensor((n,), dtype="float32"), R.Tensor((n,), dtype="float32")):
        cls = Module
        if c:
            y_then: R.Tensor((n,), dtype="float32") = cls.twice(x)
            y: R.Tensor((n,), dtype="float32") = y_then
        else:
            y_else: R.Tensor((n,), dtype="float32") = R.negative(x)
            y: R.Tensor((n,), dtype="float32") = y_else
        z: R.Tensor((n,), dtype="float32") = cls.twice(y)
        if c:
            a: R.Tensor((n,), dtype="float32") = R.add(z, x)
            gv9_all: R.Tuple(R.Tensor((n,), dtype="float32"), R.Tensor((n,), dtype="float32")) = (a, z)
        else:
            gv9_all: R.Tuple(R.Tensor((n,), dtype="float32"), R.Tensor((n,), dtype="float32")) = (y, x)
        gv9: R.Tensor((n,), dtype="float32") = gv9_all[0]
        gv8: R.Tensor((n,), dtype="float32") = gv9_all[1]
        gv10: R.Tensor((n,), dtype="float32") = R.multiply(gv9, z)
        return (gv8, gv10)
