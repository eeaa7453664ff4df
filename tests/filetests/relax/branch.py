# from typing import TypeVar
# from tvm.script import ir as I
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
            p: R.Tuple(R.Tensor((n,), dtype="float32"), R.Tensor((n,), dtype="float32")) = a, z
        else:
            p: R.Tuple(R.Tensor((n,), dtype="float32"), R.Tensor((n,), dtype="float32")) = y, x
        gv8: R.Tensor((n,), dtype="float32") = p[1]
        gv9: R.Tensor((n,), dtype="float32") = p[0]
        gv10: R.Tensor((n,), dtype="float32") = R.multiply(gv9, z)
        return (gv8, gv10)
# case
# in bool () 1
# in float32 (3) 2.90300012 -1.52999997 -2.21600008
# out float32 (3) 11.6120005 -6.11999989 -8.86400032
# out float32 (3) 168.548187 46.817997 98.2131195
# case
# in bool () 0
# in float32 (2) 1.68900001 -2.19099998
# out float32 (2) 1.68900001 -2.19099998
# out float32 (2) 5.70544195 9.60096169
