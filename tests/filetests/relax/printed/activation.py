# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((2, 3, 4), dtype="float32"), p1: R.Tensor((3,), dtype="float32")) -> R.Tuple(R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 12), dtype="float32")):
        lv: R.Tensor((2, 3, 4), dtype="float32") = R.nn.relu(p0)
        gv: R.Tensor((2, 3, 4), dtype="float32") = R.minimum(p0, R.const(6.0, "float32"))
        lv1: R.Tensor((2, 3, 4), dtype="float32") = R.nn.relu(gv)
        gv1: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(p0, R.const(0.10000000149011612, "float32"))
        gv2: R.Tensor((2, 3, 4), dtype="bool") = R.greater(p0, R.const(0.0, "float32"))
        lv2: R.Tensor((2, 3, 4), dtype="float32") = R.where(gv2, p0, gv1)
        gv3: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(p0, R.const(0.70710676908493042, "float32"))
        gv4: R.Tensor((2, 3, 4), dtype="float32") = R.erf(gv3)
        gv5: R.Tensor((2, 3, 4), dtype="float32") = R.add(gv4, R.const(1.0, "float32"))
        gv6: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(p0, R.const(0.5, "float32"))
        lv3: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(gv6, gv5)
        gv7: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(p0, p0)
        gv8: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(gv7, R.const(0.044714998453855515, "float32"))
        gv9: R.Tensor((2, 3, 4), dtype="float32") = R.add(gv8, R.const(1.0, "float32"))
        gv10: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(gv9, p0)
        gv11: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(gv10, R.const(0.79788458347320557, "float32"))
        gv12: R.Tensor((2, 3, 4), dtype="float32") = R.tanh(gv11)
        gv13: R.Tensor((2, 3, 4), dtype="float32") = R.add(gv12, R.const(1.0, "float32"))
        gv14: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(p0, R.const(0.5, "float32"))
        lv4: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(gv14, gv13)
        gv15: R.Tensor((2, 3, 4), dtype="float32") = R.sigmoid(p0)
        lv5: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(p0, gv15)
        gv16: R.Tensor((2, 3, 4), dtype="float32") = R.exp(p0)
        gv17: R.Tensor((2, 3, 4), dtype="float32") = R.subtract(gv16, R.const(1.0, "float32"))
        gv18: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(gv17, R.const(1.6732631921768188, "float32"))
        gv19: R.Tensor((2, 3, 4), dtype="bool") = R.greater(p0, R.const(0.0, "float32"))
        gv20: R.Tensor((2, 3, 4), dtype="float32") = R.where(gv19, p0, gv18)
        lv6: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(gv20, R.const(1.0507010221481323, "float32"))
        gv21: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(p0, R.const(1.0, "float32"))
        gv22: R.Tensor((2, 3, 4), dtype="float32") = R.exp(gv21)
        gv23: R.Tensor((2, 3, 4), dtype="float32") = R.add(gv22, R.const(1.0, "float32"))
        gv24: R.Tensor((2, 3, 4), dtype="float32") = R.log(gv23)
        gv25: R.Tensor((2, 3, 4), dtype="float32") = R.divide(gv24, R.const(1.0, "float32"))
        gv26: R.Tensor((2, 3, 4), dtype="bool") = R.greater(gv21, R.const(20.0, "float32"))
        lv7: R.Tensor((2, 3, 4), dtype="float32") = R.where(gv26, p0, gv25)
        gv27: R.Tensor((1, 3, 1), dtype="float32") = R.reshape(p1, R.shape([1, 3, 1]))
        gv28: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(p0, gv27)
        gv29: R.Tensor((2, 3, 4), dtype="bool") = R.greater(p0, R.const(0.0, "float32"))
        lv8: R.Tensor((2, 3, 4), dtype="float32") = R.where(gv29, p0, gv28)
        lv9: R.Tensor((2, 12), dtype="float32") = R.reshape(p0, R.shape([2, 12]))
        gv_30: R.Tuple(R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 12), dtype="float32")) = (lv, lv1, lv2, lv3, lv4, lv5, lv6, lv7, lv8, lv9)
        gv31: R.Tensor((2, 3, 4), dtype="float32") = gv_30[0]
        gv32: R.Tensor((2, 3, 4), dtype="float32") = gv_30[1]
        gv33: R.Tensor((2, 3, 4), dtype="float32") = gv_30[2]
        gv34: R.Tensor((2, 3, 4), dtype="float32") = gv_30[3]
        gv35: R.Tensor((2, 3, 4), dtype="float32") = gv_30[4]
        gv36: R.Tensor((2, 3, 4), dtype="float32") = gv_30[5]
        gv37: R.Tensor((2, 3, 4), dtype="float32") = gv_30[6]
        gv38: R.Tensor((2, 3, 4), dtype="float32") = gv_30[7]
        gv39: R.Tensor((2, 3, 4), dtype="float32") = gv_30[8]
        gv40: R.Tensor((2, 12), dtype="float32") = gv_30[9]
        return (gv31, gv32, gv33, gv34, gv35, gv36, gv37, gv38, gv39, gv40)
