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
        return (lv, lv1, lv2, lv3, lv4, lv5, lv6, lv7, lv8, lv9, lv10, lv11, lv12, lv13, lv14, lv15, lv16, lv17)
