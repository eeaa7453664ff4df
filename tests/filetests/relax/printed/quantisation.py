# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((2, 3, 4), dtype="float32"), p1: R.Tensor((3,), dtype="float32"), p2: R.Tensor((3,), dtype="int32"), p3: R.Tensor((1,), dtype="float32")) -> R.Tuple(R.Tensor((2, 3, 4), dtype="int32"), R.Tensor((2, 3, 4), dtype="int32"), R.Tensor((2, 3, 4), dtype="float32")):
        lv: R.Tensor((3,), dtype="int8") = R.astype(p2, dtype="int8")
        gv: R.Tensor((1, 3, 1), dtype="float32") = R.reshape(p1, R.shape([1, 3, 1]))
        gv1: R.Tensor((1, 3, 1), dtype="int8") = R.reshape(lv, R.shape([1, 3, 1]))
        gv2: R.Tensor((1, 3, 1), dtype="float32") = R.astype(gv1, dtype="float32")
        gv3: R.Tensor((2, 3, 4), dtype="float32") = R.divide(p0, gv)
        gv4: R.Tensor((2, 3, 4), dtype="float32") = R.round(gv3)
        gv5: R.Tensor((2, 3, 4), dtype="float32") = R.add(gv4, gv2)
        gv6: R.Tensor((2, 3, 4), dtype="float32") = R.minimum(gv5, R.const(127.0, "float32"))
        gv7: R.Tensor((2, 3, 4), dtype="float32") = R.maximum(gv6, R.const(-128.0, "float32"))
        lv1: R.Tensor((2, 3, 4), dtype="int8") = R.astype(gv7, dtype="int8")
        lv2: R.Tensor((2, 3, 4), dtype="int32") = R.astype(lv1, dtype="int32")
        lv3: R.Tensor((1,), dtype="float32") = R.abs(p3)
        gv8: R.Tensor((), dtype="float32") = R.reshape(lv3, R.shape([]))
        gv9: R.Tensor((), dtype="int8") = R.reshape(R.const(7, "int8"), R.shape([]))
        gv10: R.Tensor((), dtype="float32") = R.astype(gv9, dtype="float32")
        gv11: R.Tensor((2, 3, 4), dtype="float32") = R.divide(p0, gv8)
        gv12: R.Tensor((2, 3, 4), dtype="float32") = R.round(gv11)
        gv13: R.Tensor((2, 3, 4), dtype="float32") = R.add(gv12, gv10)
        gv14: R.Tensor((2, 3, 4), dtype="float32") = R.minimum(gv13, R.const(255.0, "float32"))
        gv15: R.Tensor((2, 3, 4), dtype="float32") = R.nn.relu(gv14)
        lv4: R.Tensor((2, 3, 4), dtype="uint8") = R.astype(gv15, dtype="uint8")
        lv5: R.Tensor((2, 3, 4), dtype="int32") = R.astype(lv4, dtype="int32")
        lv6: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(p0, R.const(20.0, "float32"))
        lv7: R.Tensor((2, 3, 4), dtype="int8") = R.astype(lv6, dtype="int8")
        lv8: R.Tensor((3,), dtype="int8") = R.astype(p2, dtype="int8")
        gv16: R.Tensor((1, 3, 1), dtype="float32") = R.reshape(p1, R.shape([1, 3, 1]))
        gv17: R.Tensor((1, 3, 1), dtype="int8") = R.reshape(lv8, R.shape([1, 3, 1]))
        gv18: R.Tensor((1, 3, 1), dtype="int32") = R.astype(gv17, dtype="int32")
        gv19: R.Tensor((2, 3, 4), dtype="int32") = R.astype(lv7, dtype="int32")
        gv20: R.Tensor((2, 3, 4), dtype="int32") = R.subtract(gv19, gv18)
        gv21: R.Tensor((2, 3, 4), dtype="float32") = R.astype(gv20, dtype="float32")
        lv9: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(gv21, gv16)
        gv_22: R.Tuple(R.Tensor((2, 3, 4), dtype="int32"), R.Tensor((2, 3, 4), dtype="int32"), R.Tensor((2, 3, 4), dtype="float32")) = (lv2, lv5, lv9)
        return (lv2, lv5, lv9)
