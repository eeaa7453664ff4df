# Functions over values of every kind, for the tests of the bindings.
from tvm.script import ir as I
from tvm.script import relax as R
from typing import TypeVar

n = TypeVar("n")


@I.ir_module
class Module:
    @R.function(pure=False)
    def back(x: R.Any) -> R.Any:
        y: R.Any = R.call_packed("bindings.back", x, ty_args=(R.Any,))
        return y

    @R.function
    def pair(x: R.Tensor((n,), dtype="float32")) -> R.Tuple(R.Tensor((n,), dtype="float32"), R.Tensor((n,), dtype="float32")):
        with R.dataflow():
            a: R.Tensor((n,), dtype="float32") = R.add(x, R.const(1.0, "float32"))
            b: R.Tensor((n,), dtype="float32") = R.multiply(x, x)
            both: R.Tuple(R.Tensor((n,), dtype="float32"), R.Tensor((n,), dtype="float32")) = (a, b)
            R.output(both)
        return both

    @R.function
    def shape(x: R.Tensor((n, 2), dtype="float32")) -> R.Shape(ndim=2):
        s: R.Shape([n, 2]) = R.shape_of(x)
        return s

    @R.function
    def count(x: R.Tensor((n,), dtype="int64")) -> R.Tensor((n,), dtype="int64"):
        y: R.Tensor((n,), dtype="int64") = R.add(x, R.const(1, "int64"))
        return y
