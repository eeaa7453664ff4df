# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((2, 3, 4), dtype="float32")) -> R.Tuple(R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((), dtype="float32"), R.Tensor((3,), dtype="float32"), R.Tensor((), dtype="float32"), R.Tensor((2, 4), dtype="int64"), R.Tensor((2, 3, 1), dtype="int64"), R.Tensor((), dtype="int64"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((24,), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32")):
        lv: R.Tensor((2, 1, 4), dtype="float32") = R.sum(p0, axis=[1], keepdims=True)
        lv1: R.Tensor((2, 1, 4), dtype="float32") = R.mean(p0, axis=[1], keepdims=True)
        lv2: R.Tensor((2, 1, 4), dtype="float32") = R.max(p0, axis=[1], keepdims=True)
        lv3: R.Tensor((2, 1, 4), dtype="float32") = R.min(p0, axis=[1], keepdims=True)
        lv4: R.Tensor((2, 1, 4), dtype="float32") = R.prod(p0, axis=[1], keepdims=True)
        gv: R.Tensor((2, 1, 4), dtype="float32") = R.mean(p0, axis=[1], keepdims=True)
        gv1: R.Tensor((2, 3, 4), dtype="float32") = R.subtract(p0, gv)
        gv2: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(gv1, gv1)
        lv5: R.Tensor((2, 1, 4), dtype="float32") = R.mean(gv2, axis=[1], keepdims=True)
        gv3: R.Tensor((2, 1, 4), dtype="float32") = R.mean(p0, axis=[1], keepdims=True)
        gv4: R.Tensor((2, 3, 4), dtype="float32") = R.subtract(p0, gv3)
        gv5: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(gv4, gv4)
        gv6: R.Tensor((2, 1, 4), dtype="float32") = R.mean(gv5, axis=[1], keepdims=True)
        lv6: R.Tensor((2, 1, 4), dtype="float32") = R.sqrt(gv6)
        lv7: R.Tensor((), dtype="float32") = R.sum(p0, axis=[0, 1, 2], keepdims=False)
        lv8: R.Tensor((3,), dtype="float32") = R.max(p0, axis=[0, 2], keepdims=False)
        gv7: R.Tensor((1, 1, 1), dtype="float32") = R.mean(p0, axis=[0, 1, 2], keepdims=True)
        gv8: R.Tensor((2, 3, 4), dtype="float32") = R.subtract(p0, gv7)
        gv9: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(gv8, gv8)
        gv10: R.Tensor((1, 1, 1), dtype="float32") = R.mean(gv9, axis=[0, 1, 2], keepdims=True)
        lv9: R.Tensor((), dtype="float32") = R.reshape(gv10, R.shape([]))
        lv10: R.Tensor((2, 4), dtype="int64") = R.argmax(p0, axis=1, keepdims=False)
        lv11: R.Tensor((2, 3, 1), dtype="int64") = R.argmin(p0, axis=2, keepdims=True)
        gv11: R.Tensor((24,), dtype="float32") = R.reshape(p0, R.shape([24]))
        lv12: R.Tensor((), dtype="int64") = R.argmax(gv11, axis=0, keepdims=False)
        lv13: R.Tensor((2, 3, 4), dtype="float32") = R.cumsum(p0, axis=1, dtype=None, exclusive=False)
        gv12: R.Tensor((24,), dtype="float32") = R.reshape(p0, R.shape([24]))
        lv14: R.Tensor((24,), dtype="float32") = R.cumsum(gv12, axis=0, dtype=None, exclusive=False)
        lv15: R.Tensor((2, 3, 4), dtype="float32") = R.cumsum(p0, axis=0, dtype=None, exclusive=True)
        lv16: R.Tensor((2, 3, 4), dtype="float32") = R.nn.softmax(p0, axis=2)
        lv17: R.Tensor((2, 3, 4), dtype="float32") = R.nn.log_softmax(p0, axis=1)
        gv_13: R.Tuple(R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((), dtype="float32"), R.Tensor((3,), dtype="float32"), R.Tensor((), dtype="float32"), R.Tensor((2, 4), dtype="int64"), R.Tensor((2, 3, 1), dtype="int64"), R.Tensor((), dtype="int64"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((24,), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32")) = (lv, lv1, lv2, lv3, lv4, lv5, lv6, lv7, lv8, lv9, lv10, lv11, lv12, lv13, lv14, lv15, lv16, lv17)
        gv14: R.Tensor((2, 1, 4), dtype="float32") = gv_13[0]
        gv15: R.Tensor((2, 1, 4), dtype="float32") = gv_13[1]
        gv16: R.Tensor((2, 1, 4), dtype="float32") = gv_13[2]
        gv17: R.Tensor((2, 1, 4), dtype="float32") = gv_13[3]
        gv18: R.Tensor((2, 1, 4), dtype="float32") = gv_13[4]
        gv19: R.Tensor((2, 1, 4), dtype="float32") = gv_13[5]
        gv20: R.Tensor((2, 1, 4), dtype="float32") = gv_13[6]
        gv21: R.Tensor((), dtype="float32") = gv_13[7]
        gv22: R.Tensor((3,), dtype="float32") = gv_13[8]
        gv23: R.Tensor((), dtype="float32") = gv_13[9]
        gv24: R.Tensor((2, 4), dtype="int64") = gv_13[10]
        gv25: R.Tensor((2, 3, 1), dtype="int64") = gv_13[11]
        gv26: R.Tensor((), dtype="int64") = gv_13[12]
        gv27: R.Tensor((2, 3, 4), dtype="float32") = gv_13[13]
        gv28: R.Tensor((24,), dtype="float32") = gv_13[14]
        gv29: R.Tensor((2, 3, 4), dtype="float32") = gv_13[15]
        gv30: R.Tensor((2, 3, 4), dtype="float32") = gv_13[16]
        gv31: R.Tensor((2, 3, 4), dtype="float32") = gv_13[17]
        return (gv14, gv15, gv16, gv17, gv18, gv19, gv20, gv21, gv22, gv23, gv24, gv25, gv26, gv27, gv28, gv29, gv30, gv31)
