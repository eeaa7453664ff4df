# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32"), y: R.Tensor((n, 4), dtype="int32")) -> R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((2, 3), dtype="int32"), R.Tensor(("n * 2", 2), dtype="float32")):
        lv: R.Any = R.null_value()
        a: R.Tensor((3, 2), dtype="float32") = R.reshape(x, R.shape([3, 2]))
        gv: R.Tensor((2, 3), dtype="int32") = R.reflex.bitcast(x, dtype="int32")
        b: R.Tensor((2, 3), dtype="int32") = R.reshape(gv, R.shape([2, 3]))
        gv1: R.Tensor((n, 4), dtype="float32") = R.reflex.bitcast(y, dtype="float32")
        c: R.Tensor((n * 2, 2), dtype="float32") = R.reshape(gv1, R.shape([n * 2, 2]))
        gv_2: R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((2, 3), dtype="int32"), R.Tensor((n * 2, 2), dtype="float32")) = (a, b, c)
        return (a, b, c)
