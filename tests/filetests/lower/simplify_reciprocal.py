# after: eliminate_dead_code
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32"), w: R.Tensor((3, 4), dtype="float32")) -> R.Tuple(R.Tensor((2, 4), dtype="float32"), R.Tensor((2, 4), dtype="float32"), R.Tensor((2, 3), dtype="float32")):
        y: R.Tensor((2, 4), dtype="float32") = R.matmul(x, w)
        a: R.Tensor((2, 4), dtype="float32") = R.add(y, R.const(3.0, "float32"))
        b: R.Tensor((2, 4), dtype="float32") = R.clip(a, 0, 6)
        c: R.Tensor((2, 4), dtype="float32") = R.multiply(y, b)
        swish: R.Tensor((2, 4), dtype="float32") = R.divide(c, R.const(6.0, "float32"))
        scaled: R.Tensor((2, 4), dtype="float32") = R.divide(y, R.const(0.1, "float32"))
        rounded: R.Tensor((2, 4), dtype="float32") = R.round(scaled)
        whole: R.Tensor((2, 3), dtype="float32") = R.divide(x, R.const(3.0, "float32"))
        return (swish, rounded, whole)
# ----
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32"), w: R.Tensor((3, 4), dtype="float32")) -> R.Tuple(R.Tensor((2, 4), dtype="float32"), R.Tensor((2, 4), dtype="float32"), R.Tensor((2, 3), dtype="float32")):
        y: R.Tensor((2, 4), dtype="float32") = R.matmul(x, w, out_dtype=None)
        a: R.Tensor((2, 4), dtype="float32") = R.add(y, R.const(3.0, "float32"))
        gv: R.Tensor((2, 4), dtype="float32") = R.minimum(a, R.const(6.0, "float32"))
        b: R.Tensor((2, 4), dtype="float32") = R.nn.relu(gv)
        c: R.Tensor((2, 4), dtype="float32") = R.multiply(y, b)
        swish: R.Tensor((2, 4), dtype="float32") = R.multiply(c, R.const(0.1666666716337204, "float32"))
        scaled: R.Tensor((2, 4), dtype="float32") = R.divide(y, R.const(0.10000000149011612, "float32"))
        rounded: R.Tensor((2, 4), dtype="float32") = R.round(scaled)
        whole: R.Tensor((2, 3), dtype="float32") = R.divide(x, R.const(3.0, "float32"))
        return (swish, rounded, whole)
