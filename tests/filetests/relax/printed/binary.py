# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((2, 3, 4), dtype="float32"), p1: R.Tensor((2, 3, 4), dtype="float32"), p2: R.Tensor((2, 3, 4), dtype="float32"), p3: R.Tensor((2, 3, 4), dtype="bool"), p4: R.Tensor((2, 3, 4), dtype="bool"), p5: R.Tensor((4,), dtype="int64"), p6: R.Tensor((4,), dtype="int64")) -> R.Tuple(R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((2, 3, 4), dtype="int32"), R.Tensor((4,), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((4,), dtype="int64")):
        lv: R.Tensor((2, 3, 4), dtype="float32") = R.add(p0, p1)
        lv1: R.Tensor((2, 3, 4), dtype="float32") = R.subtract(p0, p1)
        lv2: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(p0, p1)
        lv3: R.Tensor((2, 3, 4), dtype="float32") = R.divide(p0, p1)
        lv4: R.Tensor((2, 3, 4), dtype="float32") = R.minimum(p0, p1)
        lv5: R.Tensor((2, 3, 4), dtype="float32") = R.maximum(p0, p1)
        lv6: R.Tensor((2, 3, 4), dtype="float32") = R.floor_mod(p0, p1)
        lv7: R.Tensor((2, 3, 4), dtype="float32") = R.mod(p0, p1)
        lv8: R.Tensor((2, 3, 4), dtype="bool") = R.equal(p0, p1)
        lv9: R.Tensor((2, 3, 4), dtype="bool") = R.not_equal(p0, p1)
        lv10: R.Tensor((2, 3, 4), dtype="bool") = R.less(p0, p1)
        lv11: R.Tensor((2, 3, 4), dtype="bool") = R.less_equal(p0, p1)
        lv12: R.Tensor((2, 3, 4), dtype="bool") = R.greater(p0, p1)
        lv13: R.Tensor((2, 3, 4), dtype="bool") = R.greater_equal(p0, p1)
        gv: R.Tensor((2, 3, 4), dtype="float32") = R.divide(p0, p1)
        lv14: R.Tensor((2, 3, 4), dtype="float32") = R.floor(gv)
        lv15: R.Tensor((2, 3, 4), dtype="float32") = R.power(p2, p1)
        lv16: R.Tensor((2, 3, 4), dtype="float32") = R.where(p3, p0, p1)
        gv1: R.Tensor((2, 3, 4), dtype="float32") = R.minimum(p0, R.const(1.5, "float32"))
        lv17: R.Tensor((2, 3, 4), dtype="float32") = R.maximum(gv1, R.const(-1.0, "float32"))
        lv18: R.Tensor((2, 3, 4), dtype="bool") = R.logical_and(p3, p4)
        lv19: R.Tensor((2, 3, 4), dtype="bool") = R.logical_or(p3, p4)
        lv20: R.Tensor((2, 3, 4), dtype="bool") = R.logical_xor(p3, p4)
        lv21: R.Tensor((2, 3, 4), dtype="bool") = R.logical_not(p3)
        lv22: R.Tensor((4,), dtype="int64") = R.divide(p5, p6)
        gv2: R.Tensor((4,), dtype="int64") = R.floor_mod(p5, p6)
        gv3: R.Tensor((4,), dtype="int64") = R.subtract(p5, gv2)
        lv23: R.Tensor((4,), dtype="int64") = R.divide(gv3, p6)
        lv24: R.Tensor((4,), dtype="int64") = R.mod(p5, p6)
        lv25: R.Tensor((4,), dtype="int64") = R.floor_mod(p5, p6)
        lv26: R.Tensor((4,), dtype="int64") = R.bitwise_and(p5, p6)
        lv27: R.Tensor((4,), dtype="int64") = R.bitwise_or(p5, p6)
        lv28: R.Tensor((4,), dtype="int64") = R.bitwise_xor(p5, p6)
        lv29: R.Tensor((4,), dtype="int64") = R.bitwise_not(p5)
        lv30: R.Tensor((4,), dtype="int64") = R.abs(p5)
        lv31: R.Tensor((4,), dtype="int64") = R.abs(p6)
        lv32: R.Tensor((4,), dtype="int64") = R.left_shift(lv30, lv31)
        lv33: R.Tensor((4,), dtype="int64") = R.abs(p6)
        lv34: R.Tensor((4,), dtype="int64") = R.right_shift(p5, lv33)
        lv35: R.Tensor((2, 3, 4), dtype="int32") = R.astype(p0, dtype="int32")
        lv36: R.Tensor((4,), dtype="float32") = R.astype(p5, dtype="float32")
        lv37: R.Tensor((2, 3, 4), dtype="float32") = R.astype(p3, dtype="float32")
        lv38: R.Tensor((2, 3, 4), dtype="float32") = R.add(p0, R.const(2.5, "float32"))
        lv39: R.Tensor((4,), dtype="int64") = R.multiply(p5, R.const(3, "int64"))
        gv_4: R.Tuple(R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((2, 3, 4), dtype="int32"), R.Tensor((4,), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((4,), dtype="int64")) = (lv, lv1, lv2, lv3, lv4, lv5, lv6, lv7, lv8, lv9, lv10, lv11, lv12, lv13, lv14, lv15, lv16, lv17, lv18, lv19, lv20, lv21, lv22, lv23, lv24, lv25, lv26, lv27, lv28, lv29, lv32, lv34, lv35, lv36, lv37, lv38, lv39)
        gv5: R.Tensor((2, 3, 4), dtype="float32") = gv_4[0]
        gv6: R.Tensor((2, 3, 4), dtype="float32") = gv_4[1]
        gv7: R.Tensor((2, 3, 4), dtype="float32") = gv_4[2]
        gv8: R.Tensor((2, 3, 4), dtype="float32") = gv_4[3]
        gv9: R.Tensor((2, 3, 4), dtype="float32") = gv_4[4]
        gv10: R.Tensor((2, 3, 4), dtype="float32") = gv_4[5]
        gv11: R.Tensor((2, 3, 4), dtype="float32") = gv_4[6]
        gv12: R.Tensor((2, 3, 4), dtype="float32") = gv_4[7]
        gv13: R.Tensor((2, 3, 4), dtype="bool") = gv_4[8]
        gv14: R.Tensor((2, 3, 4), dtype="bool") = gv_4[9]
        gv15: R.Tensor((2, 3, 4), dtype="bool") = gv_4[10]
        gv16: R.Tensor((2, 3, 4), dtype="bool") = gv_4[11]
        gv17: R.Tensor((2, 3, 4), dtype="bool") = gv_4[12]
        gv18: R.Tensor((2, 3, 4), dtype="bool") = gv_4[13]
        gv19: R.Tensor((2, 3, 4), dtype="float32") = gv_4[14]
        gv20: R.Tensor((2, 3, 4), dtype="float32") = gv_4[15]
        gv21: R.Tensor((2, 3, 4), dtype="float32") = gv_4[16]
        gv22: R.Tensor((2, 3, 4), dtype="float32") = gv_4[17]
        gv23: R.Tensor((2, 3, 4), dtype="bool") = gv_4[18]
        gv24: R.Tensor((2, 3, 4), dtype="bool") = gv_4[19]
        gv25: R.Tensor((2, 3, 4), dtype="bool") = gv_4[20]
        gv26: R.Tensor((2, 3, 4), dtype="bool") = gv_4[21]
        gv27: R.Tensor((4,), dtype="int64") = gv_4[22]
        gv28: R.Tensor((4,), dtype="int64") = gv_4[23]
        gv29: R.Tensor((4,), dtype="int64") = gv_4[24]
        gv30: R.Tensor((4,), dtype="int64") = gv_4[25]
        gv31: R.Tensor((4,), dtype="int64") = gv_4[26]
        gv32: R.Tensor((4,), dtype="int64") = gv_4[27]
        gv33: R.Tensor((4,), dtype="int64") = gv_4[28]
        gv34: R.Tensor((4,), dtype="int64") = gv_4[29]
        gv35: R.Tensor((4,), dtype="int64") = gv_4[30]
        gv36: R.Tensor((4,), dtype="int64") = gv_4[31]
        gv37: R.Tensor((2, 3, 4), dtype="int32") = gv_4[32]
        gv38: R.Tensor((4,), dtype="float32") = gv_4[33]
        gv39: R.Tensor((2, 3, 4), dtype="float32") = gv_4[34]
        gv40: R.Tensor((2, 3, 4), dtype="float32") = gv_4[35]
        gv41: R.Tensor((4,), dtype="int64") = gv_4[36]
        return (gv5, gv6, gv7, gv8, gv9, gv10, gv11, gv12, gv13, gv14, gv15, gv16, gv17, gv18, gv19, gv20, gv21, gv22, gv23, gv24, gv25, gv26, gv27, gv28, gv29, gv30, gv31, gv32, gv33, gv34, gv35, gv36, gv37, gv38, gv39, gv40, gv41)
