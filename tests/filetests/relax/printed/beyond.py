# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((3, 4), dtype="float32"), p1: R.Tensor((3, 4), dtype="float32"), p2: R.Tensor((3, 4), dtype="float32"), p3: R.Tensor((2, 8, 2, 3), dtype="float32")) -> R.Tuple(R.Tensor((3, 4), dtype="float32"), R.Tensor((2, 2, 4, 6), dtype="float32"), R.Tensor((3, 4), dtype="float32")):
        gv: R.Tensor((3, 4), dtype="float32") = R.multiply(p0, p1)
        lv: R.Tensor((3, 4), dtype="float32") = R.add(gv, p2)
        gv1: R.Tensor((2, 2, 2, 2, 2, 3), dtype="float32") = R.reshape(p3, R.shape([2, 2, 2, 2, 2, 3]))
        gv2: R.Tensor((2, 2, 2, 2, 3, 2), dtype="float32") = R.permute_dims(gv1, axes=[0, 1, 4, 2, 5, 3])
        lv1: R.Tensor((2, 2, 4, 6), dtype="float32") = R.reshape(gv2, R.shape([2, 2, 4, 6]))
        gv_3: R.Tuple(R.Tensor((3, 4), dtype="float32"), R.Tensor((2, 2, 4, 6), dtype="float32"), R.Tensor((3, 4), dtype="float32")) = (lv, lv1, p0)
        return (lv, lv1, p0)
