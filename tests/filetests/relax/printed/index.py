# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((3, 4), dtype="float32"), p1: R.Tensor((3,), dtype="int64"), p2: R.Tensor((1, 4), dtype="int64"), p3: R.Tensor((1, 4), dtype="float32"), p4: R.Tensor((2, 2), dtype="int64"), p5: R.Tensor((2,), dtype="float32")) -> R.Tuple(R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 3), dtype="float32"), R.Tensor((3, 3), dtype="float32"), R.Tensor((1, 4), dtype="float32"), R.Tensor((2,), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((3, 2), dtype="int32")), R.Tensor((3, 2), dtype="int64"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="int32")):
        lv: R.Tensor((3, 4), dtype="float32") = R.take(p0, p1, axis=0, mode="fast")
        gv: R.Tensor((), dtype="int64") = R.reflex.dim_to_tensor(3)
        gv1: R.Tensor((3,), dtype="int64") = R.minimum(p1, gv)
        gv2: R.Tensor((3,), dtype="int64") = R.nn.relu(gv1)
        lv1: R.Tensor((3, 3), dtype="float32") = R.take(p0, gv2, axis=1, mode="fast")
        lv2: R.Tensor((3,), dtype="int64") = R.subtract(p1, R.const(2, "int64"))
        gv3: R.Tensor((), dtype="int64") = R.reflex.dim_to_tensor(4)
        gv4: R.Tensor((3,), dtype="int64") = R.floor_mod(lv2, gv3)
        lv3: R.Tensor((3, 3), dtype="float32") = R.take(p0, gv4, axis=1, mode="fast")
        lv4: R.Tensor((1, 4), dtype="float32") = R.gather_elements(p0, p2, axis=0)
        lv5: R.Tensor((2,), dtype="float32") = R.gather_nd(p0, p4, batch_dims=0)
        lv6: R.Tensor((3, 4), dtype="float32") = R.scatter_elements(p0, p2, p3, axis=0, reduction="update")
        lv7: R.Tensor((3, 4), dtype="float32") = R.scatter_elements(p0, p2, p3, axis=0, reduction="add")
        lv8: R.Tensor((3, 4), dtype="float32") = R.scatter_nd(p0, p4, p5, reduction="update")
        lv9: R.Tensor((3, 4), dtype="float32") = R.scatter_nd(p0, p4, p5, reduction="add")
        gv5_all: R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((3, 2), dtype="int64")) = R.topk(p0, k=2, axis=1, ret_type="both", largest=True, dtype="int64")
        gv5: R.Tensor((3, 2), dtype="float32") = gv5_all[0]
        gv6: R.Tensor((3, 2), dtype="int64") = gv5_all[1]
        gv7: R.Tensor((3, 2), dtype="int32") = R.astype(gv6, dtype="int32")
        gv8_all: R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((3, 2), dtype="int64")) = R.topk(p0, k=2, axis=1, ret_type="both", largest=False, dtype="int64")
        gv8: R.Tensor((3, 2), dtype="float32") = gv8_all[0]
        lv11: R.Tensor((3, 2), dtype="int64") = gv8_all[1]
        lv12_all: R.Tuple(R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="int64")) = R.topk(p0, k=3, axis=0, ret_type="both", largest=True, dtype="int64")
        lv12: R.Tensor((3, 4), dtype="float32") = lv12_all[0]
        gv9: R.Tensor((3, 4), dtype="int64") = lv12_all[1]
        lv13_all: R.Tuple(R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="int64")) = R.topk(p0, k=4, axis=1, ret_type="both", largest=False, dtype="int64")
        lv13: R.Tensor((3, 4), dtype="float32") = lv13_all[0]
        gv10: R.Tensor((3, 4), dtype="int64") = lv13_all[1]
        gv11_all: R.Tuple(R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="int64")) = R.topk(p0, k=3, axis=0, ret_type="both", largest=True, dtype="int64")
        gv11: R.Tensor((3, 4), dtype="float32") = gv11_all[0]
        gv12: R.Tensor((3, 4), dtype="int64") = gv11_all[1]
        lv14: R.Tensor((3, 4), dtype="int32") = R.astype(gv12, dtype="int32")
        gv13: R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((3, 2), dtype="int32")) = (gv5, gv7)
        gv_14: R.Tuple(R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 3), dtype="float32"), R.Tensor((3, 3), dtype="float32"), R.Tensor((1, 4), dtype="float32"), R.Tensor((2,), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((3, 2), dtype="int32")), R.Tensor((3, 2), dtype="int64"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="int32")) = (lv, lv1, lv3, lv4, lv5, lv6, lv7, lv8, lv9, gv13, lv11, lv12, lv13, lv14)
        gv15: R.Tensor((3, 4), dtype="float32") = gv_14[0]
        gv16: R.Tensor((3, 3), dtype="float32") = gv_14[1]
        gv17: R.Tensor((3, 3), dtype="float32") = gv_14[2]
        gv18: R.Tensor((1, 4), dtype="float32") = gv_14[3]
        gv19: R.Tensor((2,), dtype="float32") = gv_14[4]
        gv20: R.Tensor((3, 4), dtype="float32") = gv_14[5]
        gv21: R.Tensor((3, 4), dtype="float32") = gv_14[6]
        gv22: R.Tensor((3, 4), dtype="float32") = gv_14[7]
        gv23: R.Tensor((3, 4), dtype="float32") = gv_14[8]
        gv24: R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((3, 2), dtype="int32")) = gv_14[9]
        gv25: R.Tensor((3, 2), dtype="int64") = gv_14[10]
        gv26: R.Tensor((3, 4), dtype="float32") = gv_14[11]
        gv27: R.Tensor((3, 4), dtype="float32") = gv_14[12]
        gv28: R.Tensor((3, 4), dtype="int32") = gv_14[13]
        return (gv15, gv16, gv17, gv18, gv19, gv20, gv21, gv22, gv23, gv24, gv25, gv26, gv27, gv28)
