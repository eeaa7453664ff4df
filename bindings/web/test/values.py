# Functions over values of every kind, for the tests of the package for browsers.
from tvm.script import ir as I
from tvm.script import relax as R
from typing import TypeVar

m = TypeVar("m")
n = TypeVar("n")


@I.ir_module
class Module:
    @R.function
    def twice(x: R.Tensor((m, n), dtype="float32")) -> R.Tensor((m, n), dtype="float32"):
        with R.dataflow():
            y: R.Tensor((m, n), dtype="float32") = R.add(x, x)
            R.output(y)
        return y

    @R.function
    def pair(x: R.Tensor((m, n), dtype="float32")) -> R.Tuple(R.Tensor((m, n), dtype="float32"), R.Tensor((), dtype="float32")):
        with R.dataflow():
            total: R.Tensor((), dtype="float32") = R.sum(x)
            both: R.Tuple(R.Tensor((m, n), dtype="float32"), R.Tensor((), dtype="float32")) = (x, total)
            R.output(both)
        return both

    @R.function
    def shape(x: R.Tensor((m, n), dtype="float32")) -> R.Shape(ndim=2):
        s: R.Shape([m, n]) = R.shape_of(x)
        return s

    @R.function
    def count(x: R.Tensor((n,), dtype="int64")) -> R.Tensor((n,), dtype="int64"):
        y: R.Tensor((n,), dtype="int64") = R.add(x, R.const(1, "int64"))
        return y
