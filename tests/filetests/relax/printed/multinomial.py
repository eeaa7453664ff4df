# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((3, 5), dtype="float32"), p1: R.Tensor((6, 1), dtype="float32"), p2: R.Tensor((6, 1), dtype="int64")) -> R.Tuple(R.Tensor((6, 1), dtype="int64"), R.Tensor((6, 1), dtype="int32")):
        gv: R.Tensor((3, 5), dtype="float32") = R.cumsum(p0, axis=1, dtype=None, exclusive=False)
        gv1: R.Tensor((6,), dtype="int64") = R.reshape(p2, R.shape([6]))
        gv2: R.Tensor((6, 5), dtype="float32") = R.take(gv, gv1, axis=0, mode="fast")
        gv3: R.Tensor((6, 5), dtype="bool") = R.less_equal(gv2, p1)
        gv4: R.Tensor((6, 5), dtype="int64") = R.astype(gv3, dtype="int64")
        lv: R.Tensor((6, 1), dtype="int64") = R.sum(gv4, axis=[1], keepdims=True)
        gv5: R.Tensor((3, 5), dtype="float32") = R.cumsum(p0, axis=1, dtype=None, exclusive=False)
        gv6: R.Tensor((6,), dtype="int64") = R.reshape(p2, R.shape([6]))
        gv7: R.Tensor((6, 5), dtype="float32") = R.take(gv5, gv6, axis=0, mode="fast")
        gv8: R.Tensor((6, 5), dtype="bool") = R.less_equal(gv7, p1)
        gv9: R.Tensor((6, 5), dtype="int64") = R.astype(gv8, dtype="int64")
        gv10: R.Tensor((6, 1), dtype="int64") = R.sum(gv9, axis=[1], keepdims=True)
        lv1: R.Tensor((6, 1), dtype="int32") = R.astype(gv10, dtype="int32")
        gv_11: R.Tuple(R.Tensor((6, 1), dtype="int64"), R.Tensor((6, 1), dtype="int32")) = (lv, lv1)
        return (lv, lv1)
