# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32"), y: R.Tensor((2, 3), dtype="float64")) -> R.Tensor((2, 3), dtype="float32"):
        b: R.Tensor((2, 3), dtype="float32") = R.astype(y, dtype="float32")
        gv2: R.Tensor((2, 3), dtype="float32") = R.add(x, b)
        return gv2
