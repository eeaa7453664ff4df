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
# in float32 (3,5) 0.259931833 0.217883274 0.410887092 0.0334335081 0.0778642818 0.0541214719 0.219376072 0.221866667 0.387800992 0.116834812 0.225451455 0.232250288 0.219772995 0.0831483677 0.239376843
# in float32 (6,1) 0.776767194 0.721924841 0.474085271 0.648074865 0.529366553 0.869173944
# in int64 (6,1) 0 1 2 0 2 2
# out int64 (6,1) 2 3 2 2 2 4
# out int32 (6,1) 2 3 2 2 2 4
