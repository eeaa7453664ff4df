# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((3, 4), dtype="float32"), p1: R.Tensor((3,), dtype="int64"), p2: R.Tensor((1, 4), dtype="int64"), p3: R.Tensor((1, 4), dtype="float32"), p4: R.Tensor((2, 2), dtype="int64"), p5: R.Tensor((2,), dtype="float32")) -> R.Tuple(R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 3), dtype="float32"), R.Tensor((3, 3), dtype="float32"), R.Tensor((1, 4), dtype="float32"), R.Tensor((2,), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((3, 2), dtype="int32")), R.Tensor((3, 2), dtype="int64"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="int32")):
        lv: R.Tensor((3, 4), dtype="float32") = R.take(p0, p1, axis=0, mode="fast")
        gv: R.Tensor((3,), dtype="int64") = R.minimum(p1, R.const(3, "int64"))
        gv1: R.Tensor((3,), dtype="int64") = R.nn.relu(gv)
        lv1: R.Tensor((3, 3), dtype="float32") = R.take(p0, gv1, axis=1, mode="fast")
        lv2: R.Tensor((3,), dtype="int64") = R.subtract(p1, R.const(2, "int64"))
        gv2: R.Tensor((3,), dtype="int64") = R.floor_mod(lv2, R.const(4, "int64"))
        lv3: R.Tensor((3, 3), dtype="float32") = R.take(p0, gv2, axis=1, mode="fast")
        lv4: R.Tensor((1, 4), dtype="float32") = R.gather_elements(p0, p2, axis=0)
        lv5: R.Tensor((2,), dtype="float32") = R.gather_nd(p0, p4, batch_dims=0)
        lv6: R.Tensor((3, 4), dtype="float32") = R.scatter_elements(p0, p2, p3, axis=0, reduction="update")
        lv7: R.Tensor((3, 4), dtype="float32") = R.scatter_elements(p0, p2, p3, axis=0, reduction="add")
        lv8: R.Tensor((3, 4), dtype="float32") = R.scatter_nd(p0, p4, p5, reduction="update")
        lv9: R.Tensor((3, 4), dtype="float32") = R.scatter_nd(p0, p4, p5, reduction="add")
        gv3_all: R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((3, 2), dtype="int64")) = R.topk(p0, k=2, axis=1, ret_type="both", largest=True, dtype="int64")
        gv3: R.Tensor((3, 2), dtype="float32") = gv3_all[0]
        gv4: R.Tensor((3, 2), dtype="int64") = gv3_all[1]
        gv5: R.Tensor((3, 2), dtype="int32") = R.astype(gv4, dtype="int32")
        gv6_all: R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((3, 2), dtype="int64")) = R.topk(p0, k=2, axis=1, ret_type="both", largest=False, dtype="int64")
        gv6: R.Tensor((3, 2), dtype="float32") = gv6_all[0]
        lv11: R.Tensor((3, 2), dtype="int64") = gv6_all[1]
        lv12_all: R.Tuple(R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="int64")) = R.topk(p0, k=3, axis=0, ret_type="both", largest=True, dtype="int64")
        lv12: R.Tensor((3, 4), dtype="float32") = lv12_all[0]
        gv7: R.Tensor((3, 4), dtype="int64") = lv12_all[1]
        lv13_all: R.Tuple(R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="int64")) = R.topk(p0, k=4, axis=1, ret_type="both", largest=False, dtype="int64")
        lv13: R.Tensor((3, 4), dtype="float32") = lv13_all[0]
        gv8: R.Tensor((3, 4), dtype="int64") = lv13_all[1]
        gv9_all: R.Tuple(R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="int64")) = R.topk(p0, k=3, axis=0, ret_type="both", largest=True, dtype="int64")
        gv9: R.Tensor((3, 4), dtype="float32") = gv9_all[0]
        gv10: R.Tensor((3, 4), dtype="int64") = gv9_all[1]
        lv14: R.Tensor((3, 4), dtype="int32") = R.astype(gv10, dtype="int32")
        gv11: R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((3, 2), dtype="int32")) = (gv3, gv5)
        gv_12: R.Tuple(R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 3), dtype="float32"), R.Tensor((3, 3), dtype="float32"), R.Tensor((1, 4), dtype="float32"), R.Tensor((2,), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((3, 2), dtype="int32")), R.Tensor((3, 2), dtype="int64"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="int32")) = (lv, lv1, lv3, lv4, lv5, lv6, lv7, lv8, lv9, gv11, lv11, lv12, lv13, lv14)
        return (lv, lv1, lv3, lv4, lv5, lv6, lv7, lv8, lv9, gv11, lv11, lv12, lv13, lv14)
