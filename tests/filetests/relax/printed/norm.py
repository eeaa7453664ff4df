# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((1, 4, 6, 5), dtype="float32"), p1: R.Tensor((4,), dtype="float32"), p2: R.Tensor((4,), dtype="float32"), p3: R.Tensor((4,), dtype="float32"), p4: R.Tensor((5,), dtype="float32"), p5: R.Tensor((5,), dtype="float32")) -> R.Tuple(R.Tensor((1, 4, 6, 5), dtype="float32"), R.Tensor((1, 4, 6, 5), dtype="float32"), R.Tuple(R.Tensor((1, 4, 6, 5), dtype="float32"), R.Tensor((4,), dtype="float32"), R.Tensor((4,), dtype="float32")), R.Tuple(R.Tensor((1, 4, 6, 5), dtype="float32"), R.Tensor((4,), dtype="float32"), R.Tensor((4,), dtype="float32")), R.Tensor((1, 4, 6, 5), dtype="float32"), R.Tensor((1, 4, 6, 5), dtype="float32"), R.Tensor((1, 4, 6, 5), dtype="float32")):
        lv: R.Tensor((1, 4, 6, 5), dtype="float32") = R.nn.layer_norm(p0, p4, p5, axes=[-1], epsilon=1.0000000000000001e-05, center=True, scale=True)
        lv1: R.Tensor((1, 4, 6, 5), dtype="float32") = R.nn.layer_norm(p0, p4, p5, axes=[-1], epsilon=0.01, center=True, scale=True)
        gv: R.Tensor((1, 4, 1, 1), dtype="float32") = R.reshape(p2, R.shape([1, 4, 1, 1]))
        gv1: R.Tensor((1, 4, 1, 1), dtype="float32") = R.reshape(p3, R.shape([1, 4, 1, 1]))
        gv2: R.Tensor((1, 4, 6, 5), dtype="float32") = R.subtract(p0, gv)
        gv3: R.Tensor((1, 4, 1, 1), dtype="float32") = R.add(gv1, R.const(9.9999997473787516e-06, "float32"))
        gv4: R.Tensor((1, 4, 1, 1), dtype="float32") = R.sqrt(gv3)
        gv5: R.Tensor((1, 4, 6, 5), dtype="float32") = R.divide(gv2, gv4)
        gv6: R.Tensor((1, 4, 1, 1), dtype="float32") = R.reshape(p1, R.shape([1, 4, 1, 1]))
        gv7: R.Tensor((1, 4, 6, 5), dtype="float32") = R.multiply(gv5, gv6)
        gv8: R.Tensor((1, 4, 1, 1), dtype="float32") = R.reshape(p2, R.shape([1, 4, 1, 1]))
        gv9: R.Tensor((1, 4, 6, 5), dtype="float32") = R.add(gv7, gv8)
        gv10: R.Tensor((1, 4, 1, 1), dtype="float32") = R.reshape(p2, R.shape([1, 4, 1, 1]))
        gv11: R.Tensor((1, 4, 1, 1), dtype="float32") = R.reshape(p3, R.shape([1, 4, 1, 1]))
        gv12: R.Tensor((1, 4, 6, 5), dtype="float32") = R.subtract(p0, gv10)
        gv13: R.Tensor((1, 4, 1, 1), dtype="float32") = R.add(gv11, R.const(9.9999997473787516e-06, "float32"))
        gv14: R.Tensor((1, 4, 1, 1), dtype="float32") = R.sqrt(gv13)
        gv15: R.Tensor((1, 4, 6, 5), dtype="float32") = R.divide(gv12, gv14)
        gv16: R.Tensor((1, 2, 2, 6, 5), dtype="float32") = R.reshape(p0, R.shape([1, 2, 2, 6, 5]))
        gv17: R.Tensor((1, 2, 1, 1, 1), dtype="float32") = R.mean(gv16, axis=[2, 3, 4], keepdims=True)
        gv18: R.Tensor((1, 2, 2, 6, 5), dtype="float32") = R.subtract(gv16, gv17)
        gv19: R.Tensor((1, 2, 2, 6, 5), dtype="float32") = R.multiply(gv18, gv18)
        gv20: R.Tensor((1, 2, 1, 1, 1), dtype="float32") = R.mean(gv19, axis=[2, 3, 4], keepdims=True)
        gv21: R.Tensor((1, 2, 1, 1, 1), dtype="float32") = R.add(gv20, R.const(9.9999997473787516e-06, "float32"))
        gv22: R.Tensor((1, 2, 1, 1, 1), dtype="float32") = R.sqrt(gv21)
        gv23: R.Tensor((1, 2, 2, 6, 5), dtype="float32") = R.divide(gv18, gv22)
        gv24: R.Tensor((1, 4, 6, 5), dtype="float32") = R.reshape(gv23, R.shape([1, 4, 6, 5]))
        gv25: R.Tensor((1, 4, 1, 1), dtype="float32") = R.reshape(p1, R.shape([1, 4, 1, 1]))
        gv26: R.Tensor((1, 4, 6, 5), dtype="float32") = R.multiply(gv24, gv25)
        gv27: R.Tensor((1, 4, 1, 1), dtype="float32") = R.reshape(p2, R.shape([1, 4, 1, 1]))
        lv4: R.Tensor((1, 4, 6, 5), dtype="float32") = R.add(gv26, gv27)
        gv28: R.Tensor((1, 4, 1, 1), dtype="float32") = R.mean(p0, axis=[2, 3], keepdims=True)
        gv29: R.Tensor((1, 4, 6, 5), dtype="float32") = R.subtract(p0, gv28)
        gv30: R.Tensor((1, 4, 6, 5), dtype="float32") = R.multiply(gv29, gv29)
        gv31: R.Tensor((1, 4, 1, 1), dtype="float32") = R.mean(gv30, axis=[2, 3], keepdims=True)
        gv32: R.Tensor((1, 4, 1, 1), dtype="float32") = R.add(gv31, R.const(9.9999997473787516e-06, "float32"))
        gv33: R.Tensor((1, 4, 1, 1), dtype="float32") = R.sqrt(gv32)
        gv34: R.Tensor((1, 4, 6, 5), dtype="float32") = R.divide(gv29, gv33)
        gv35: R.Tensor((1, 4, 1, 1), dtype="float32") = R.reshape(p1, R.shape([1, 4, 1, 1]))
        gv36: R.Tensor((1, 4, 6, 5), dtype="float32") = R.multiply(gv34, gv35)
        gv37: R.Tensor((1, 4, 1, 1), dtype="float32") = R.reshape(p2, R.shape([1, 4, 1, 1]))
        lv5: R.Tensor((1, 4, 6, 5), dtype="float32") = R.add(gv36, gv37)
        gv38: R.Tensor((1, 4, 6, 5), dtype="float32") = R.multiply(p0, p0)
        gv39: R.Tensor((1, 4, 6, 1), dtype="float32") = R.mean(gv38, axis=[3], keepdims=True)
        gv40: R.Tensor((1, 4, 6, 1), dtype="float32") = R.add(gv39, R.const(9.9999997473787516e-06, "float32"))
        gv41: R.Tensor((1, 4, 6, 1), dtype="float32") = R.sqrt(gv40)
        gv42: R.Tensor((1, 4, 6, 5), dtype="float32") = R.divide(p0, gv41)
        lv6: R.Tensor((1, 4, 6, 5), dtype="float32") = R.multiply(gv42, p4)
        gv43: R.Tuple(R.Tensor((1, 4, 6, 5), dtype="float32"), R.Tensor((4,), dtype="float32"), R.Tensor((4,), dtype="float32")) = (gv9, p2, p3)
        gv44: R.Tuple(R.Tensor((1, 4, 6, 5), dtype="float32"), R.Tensor((4,), dtype="float32"), R.Tensor((4,), dtype="float32")) = (gv15, p2, p3)
        gv_45: R.Tuple(R.Tensor((1, 4, 6, 5), dtype="float32"), R.Tensor((1, 4, 6, 5), dtype="float32"), R.Tuple(R.Tensor((1, 4, 6, 5), dtype="float32"), R.Tensor((4,), dtype="float32"), R.Tensor((4,), dtype="float32")), R.Tuple(R.Tensor((1, 4, 6, 5), dtype="float32"), R.Tensor((4,), dtype="float32"), R.Tensor((4,), dtype="float32")), R.Tensor((1, 4, 6, 5), dtype="float32"), R.Tensor((1, 4, 6, 5), dtype="float32"), R.Tensor((1, 4, 6, 5), dtype="float32")) = (lv, lv1, gv43, gv44, lv4, lv5, lv6)
        gv46: R.Tensor((1, 4, 6, 5), dtype="float32") = gv_45[0]
        gv47: R.Tensor((1, 4, 6, 5), dtype="float32") = gv_45[1]
        gv48: R.Tuple(R.Tensor((1, 4, 6, 5), dtype="float32"), R.Tensor((4,), dtype="float32"), R.Tensor((4,), dtype="float32")) = gv_45[2]
        gv49: R.Tuple(R.Tensor((1, 4, 6, 5), dtype="float32"), R.Tensor((4,), dtype="float32"), R.Tensor((4,), dtype="float32")) = gv_45[3]
        gv50: R.Tensor((1, 4, 6, 5), dtype="float32") = gv_45[4]
        gv51: R.Tensor((1, 4, 6, 5), dtype="float32") = gv_45[5]
        gv52: R.Tensor((1, 4, 6, 5), dtype="float32") = gv_45[6]
        return (gv46, gv47, gv48, gv49, gv50, gv51, gv52)
