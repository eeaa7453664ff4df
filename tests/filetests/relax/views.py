# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32"), y: R.Tensor((n, 4), dtype="int32")) -> R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((2, 3), dtype="int32"), R.Tensor(("n * 2", 2), dtype="float32")):
        with R.dataflow():
            lv: R.Any = R.null_value()
            a: R.Tensor((3, 2), dtype="float32") = R.memory.view(x, R.shape([3, 2]), lv, R.tuple())
            b: R.Tensor((2, 3), dtype="int32") = R.memory.view(x, R.shape([2, 3]), R.dtype("int32"), R.tuple())
            c: R.Tensor((n * 2, 2), dtype="float32") = R.memory.view(y, R.shape([n * 2, 2]), R.dtype("float32"), R.tuple())
            gv: R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((2, 3), dtype="int32"), R.Tensor((n * 2, 2), dtype="float32")) = a, b, c
            R.output(gv)
        return gv
# case
# in float32 (2,3) 1.33299994 -0.589999974 -0.291999996 2.65199995 -0.64200002 1.19799995
# in int32 (3,4) 5 0 5 0 2 0 1 2 5 1 5 8
# out float32 (3,2) 1.33299994 -0.589999974 -0.291999996 2.65199995 -0.64200002 1.19799995
# out int32 (2,3) 1068146622 -1089009091 -1097498362 1076476510 -1088136675 1067014160
# out float32 (6,2) 7.00649232e-45 0 7.00649232e-45 0 2.80259693e-45 0 1.40129846e-45 2.80259693e-45 7.00649232e-45 1.40129846e-45 7.00649232e-45 1.12103877e-44
