# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((3, 5), dtype="float32"), p1: R.Tensor((6, 1), dtype="float32"), p2: R.Tensor((6, 1), dtype="int64")) -> R.Tuple(R.Tensor((6, 1), dtype="int64"), R.Tensor((6, 1), dtype="int32")):
        with R.dataflow():
            lv: R.Tensor((6, 1), dtype="int64") = R.multinomial_from_uniform(p0, p1, p2, dtype="int64")
            lv1: R.Tensor((6, 1), dtype="int32") = R.multinomial_from_uniform(p0, p1, p2, dtype="int32")
            gv: R.Tuple(R.Tensor((6, 1), dtype="int64"), R.Tensor((6, 1), dtype="int32")) = lv, lv1
            R.output(gv)
        return gv
# case
# in float32 (3,5) 0.152894258 0.390016407 0.278592557 0.0681105778 0.11038629 0.135549292 0.310010314 0.136567429 0.33742848 0.0804444626 0.254410923 0.0156237055 0.2262979 0.174959928 0.328707546
# in float32 (6,1) 0.193750262 0.306506783 0.763955355 0.0365532339 0.174645364 0.87299037
# in int64 (6,1) 0 1 2 0 2 2
# out int64 (6,1) 1 1 4 0 0 4
# out int32 (6,1) 1 1 4 0 0 4
