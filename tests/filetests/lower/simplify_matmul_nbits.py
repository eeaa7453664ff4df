# after: simplify
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3, 64), dtype="float32"), w: R.Tensor((48, 2, 16), dtype="uint8"), s: R.Tensor((48, 2), dtype="float32"), z: R.Tensor((48, 2), dtype="uint8")) -> R.Tensor((3, 48), dtype="float32"):
        a: R.Tensor((3, 48), dtype="float32") = R.reflex.matmul_nbits(x, w, s, z, bits=4, block=32)
        b: R.Tensor((3, 48), dtype="float32") = R.nn.relu(a)
        return b
# ----
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3, 64), dtype="float32"), w: R.Tensor((48, 2, 16), dtype="uint8"), s: R.Tensor((48, 2), dtype="float32"), z: R.Tensor((48, 2), dtype="uint8")) -> R.Tensor((3, 48), dtype="float32"):
        a: R.Tensor((3, 48), dtype="float32") = R.reflex.matmul_nbits(x, w, s, z, bits=4, block=32, activations="int8")
        b: R.Tensor((3, 48), dtype="float32") = R.nn.relu(a)
        return b
