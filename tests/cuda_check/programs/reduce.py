from tvm.script import ir as I
from tvm.script import relax as R
from typing import TypeVar

m = TypeVar("m")
n = TypeVar("n")


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((m, n), dtype="float32")) -> R.Tuple(R.Tensor((m,), dtype="float32"), R.Tensor((n,), dtype="float32"), R.Tensor((n, m), dtype="float32")):
        with R.dataflow():
            rows: R.Tensor((m,), dtype="float32") = R.sum(x, axis=[1], keepdims=False)
            columns: R.Tensor((n,), dtype="float32") = R.max(x, axis=[0], keepdims=False)
            turned: R.Tensor((n, m), dtype="float32") = R.permute_dims(x, axes=[1, 0])
            all: R.Tuple(R.Tensor((m,), dtype="float32"), R.Tensor((n,), dtype="float32"), R.Tensor((n, m), dtype="float32")) = (rows, columns, turned)
            R.output(all)
        return all
