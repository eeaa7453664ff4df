# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 8), dtype="float32"), w: R.Tensor((8, 5), dtype="float32")) -> R.Tensor((n, 5), dtype="float32"):
        h: R.Tensor((n, 5), dtype="float32") = R.matmul(x, w, out_dtype=None)
        r: R.Tensor((n, 5), dtype="float32") = R.nn.relu(h)
        out: R.Tensor((n, 5), dtype="float32") = R.add(r, R.const(1.0, "float32"))
        return out
