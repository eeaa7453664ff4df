# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((2, 3, 4), dtype="float32"), p1: R.Tensor((2, 3, 4), dtype="float32"), p2: R.Tensor((2, 3, 4), dtype="float32")) -> R.Tuple(R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32")):
        lv: R.Tensor((2, 3, 4), dtype="float32") = R.negative(p0)
        lv1: R.Tensor((2, 3, 4), dtype="float32") = R.abs(p0)
        lv2: R.Tensor((2, 3, 4), dtype="float32") = R.sign(p0)
        lv3: R.Tensor((2, 3, 4), dtype="float32") = R.exp(p0)
        lv4: R.Tensor((2, 3, 4), dtype="float32") = R.sin(p0)
        lv5: R.Tensor((2, 3, 4), dtype="float32") = R.cos(p0)
        lv6: R.Tensor((2, 3, 4), dtype="float32") = R.tanh(p0)
        lv7: R.Tensor((2, 3, 4), dtype="float32") = R.sinh(p0)
        lv8: R.Tensor((2, 3, 4), dtype="float32") = R.cosh(p0)
        lv9: R.Tensor((2, 3, 4), dtype="float32") = R.atan(p0)
        lv10: R.Tensor((2, 3, 4), dtype="float32") = R.asinh(p0)
        lv11: R.Tensor((2, 3, 4), dtype="float32") = R.erf(p0)
        lv12: R.Tensor((2, 3, 4), dtype="float32") = R.sigmoid(p0)
        lv13: R.Tensor((2, 3, 4), dtype="float32") = R.floor(p0)
        lv14: R.Tensor((2, 3, 4), dtype="float32") = R.ceil(p0)
        lv15: R.Tensor((2, 3, 4), dtype="float32") = R.round(p0)
        gv: R.Tensor((2, 3, 4), dtype="bool") = R.less(p0, R.const(0.0, "float32"))
        gv1: R.Tensor((2, 3, 4), dtype="float32") = R.ceil(p0)
        gv2: R.Tensor((2, 3, 4), dtype="float32") = R.floor(p0)
        lv16: R.Tensor((2, 3, 4), dtype="float32") = R.where(gv, gv1, gv2)
        lv17: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(p0, p0)
        lv18: R.Tensor((2, 3, 4), dtype="bool") = R.isnan(p0)
        lv19: R.Tensor((2, 3, 4), dtype="bool") = R.isinf(p0)
        gv3: R.Tensor((2, 3, 4), dtype="bool") = R.isnan(p0)
        gv4: R.Tensor((2, 3, 4), dtype="bool") = R.isinf(p0)
        gv5: R.Tensor((2, 3, 4), dtype="bool") = R.logical_or(gv3, gv4)
        lv20: R.Tensor((2, 3, 4), dtype="bool") = R.logical_not(gv5)
        lv21: R.Tensor((2, 3, 4), dtype="float32") = R.log(p1)
        lv22: R.Tensor((2, 3, 4), dtype="float32") = R.sqrt(p1)
        gv6: R.Tensor((2, 3, 4), dtype="float32") = R.sqrt(p1)
        lv23: R.Tensor((2, 3, 4), dtype="float32") = R.reflex.reciprocal(gv6)
        lv24: R.Tensor((2, 3, 4), dtype="float32") = R.asin(p2)
        lv25: R.Tensor((2, 3, 4), dtype="float32") = R.acos(p2)
        lv26: R.Tensor((2, 3, 4), dtype="float32") = R.atanh(p2)
        lv27: R.Tensor((2, 3, 4), dtype="float32") = R.tan(p2)
        gv_7: R.Tuple(R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32")) = (lv, lv1, lv2, lv3, lv4, lv5, lv6, lv7, lv8, lv9, lv10, lv11, lv12, lv13, lv14, lv15, lv16, lv17, lv18, lv19, lv20, lv21, lv22, lv23, lv24, lv25, lv26, lv27)
        gv8: R.Tensor((2, 3, 4), dtype="float32") = gv_7[0]
        gv9: R.Tensor((2, 3, 4), dtype="float32") = gv_7[1]
        gv10: R.Tensor((2, 3, 4), dtype="float32") = gv_7[2]
        gv11: R.Tensor((2, 3, 4), dtype="float32") = gv_7[3]
        gv12: R.Tensor((2, 3, 4), dtype="float32") = gv_7[4]
        gv13: R.Tensor((2, 3, 4), dtype="float32") = gv_7[5]
        gv14: R.Tensor((2, 3, 4), dtype="float32") = gv_7[6]
        gv15: R.Tensor((2, 3, 4), dtype="float32") = gv_7[7]
        gv16: R.Tensor((2, 3, 4), dtype="float32") = gv_7[8]
        gv17: R.Tensor((2, 3, 4), dtype="float32") = gv_7[9]
        gv18: R.Tensor((2, 3, 4), dtype="float32") = gv_7[10]
        gv19: R.Tensor((2, 3, 4), dtype="float32") = gv_7[11]
        gv20: R.Tensor((2, 3, 4), dtype="float32") = gv_7[12]
        gv21: R.Tensor((2, 3, 4), dtype="float32") = gv_7[13]
        gv22: R.Tensor((2, 3, 4), dtype="float32") = gv_7[14]
        gv23: R.Tensor((2, 3, 4), dtype="float32") = gv_7[15]
        gv24: R.Tensor((2, 3, 4), dtype="float32") = gv_7[16]
        gv25: R.Tensor((2, 3, 4), dtype="float32") = gv_7[17]
        gv26: R.Tensor((2, 3, 4), dtype="bool") = gv_7[18]
        gv27: R.Tensor((2, 3, 4), dtype="bool") = gv_7[19]
        gv28: R.Tensor((2, 3, 4), dtype="bool") = gv_7[20]
        gv29: R.Tensor((2, 3, 4), dtype="float32") = gv_7[21]
        gv30: R.Tensor((2, 3, 4), dtype="float32") = gv_7[22]
        gv31: R.Tensor((2, 3, 4), dtype="float32") = gv_7[23]
        gv32: R.Tensor((2, 3, 4), dtype="float32") = gv_7[24]
        gv33: R.Tensor((2, 3, 4), dtype="float32") = gv_7[25]
        gv34: R.Tensor((2, 3, 4), dtype="float32") = gv_7[26]
        gv35: R.Tensor((2, 3, 4), dtype="float32") = gv_7[27]
        return (gv8, gv9, gv10, gv11, gv12, gv13, gv14, gv15, gv16, gv17, gv18, gv19, gv20, gv21, gv22, gv23, gv24, gv25, gv26, gv27, gv28, gv29, gv30, gv31, gv32, gv33, gv34, gv35)
