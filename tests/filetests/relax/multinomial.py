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
# in float32 (3,5) 0.0835395902 0.370337754 0.0920276865 0.263847679 0.190247297 0.441317439 0.161159083 0.131815895 0.159995615 0.1057119 0.234917089 0.187217698 0.248979777 0.041715987 0.287169486
# in float32 (6,1) 0.542758107 0.974114478 0.988435626 0.0147426464 0.601821423 0.254154831
# in int64 (6,1) 0 1 2 0 2 2
# out int64 (6,1) 2 4 4 0 2 1
# out int32 (6,1) 2 4 4 0 2 1
