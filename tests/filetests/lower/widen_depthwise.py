# after: widen_depthwise
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 16, 16, 16), dtype="uint8"), w: R.Tensor((16, 1, 3, 3), dtype="int8"), v: R.Tensor((16, 1, 17, 17), dtype="uint8")) -> R.Tuple(R.Tensor((1, 16, 14, 14), dtype="int32"), R.Tensor((1, 16, 16, 16), dtype="int32")):
        a: R.Tensor((1, 16, 14, 14), dtype="int32") = R.reflex.conv_integer(x, w, strides=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=16)
        # 289 products of uint8 may be more than float32 counts to.
        b: R.Tensor((1, 16, 16, 16), dtype="int32") = R.reflex.conv_integer(x, v, strides=[1, 1], padding=[8, 8, 8, 8], dilation=[1, 1], groups=16)
        return (a, b)
# ----
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 16, 16, 16), dtype="uint8"), w: R.Tensor((16, 1, 3, 3), dtype="int8"), v: R.Tensor((16, 1, 17, 17), dtype="uint8")) -> R.Tuple(R.Tensor((1, 16, 14, 14), dtype="int32"), R.Tensor((1, 16, 16, 16), dtype="int32")):
        gv: R.Tensor((1, 16, 16, 16), dtype="float32") = R.astype(x, dtype="float32")
        gv1: R.Tensor((16, 1, 3, 3), dtype="float32") = R.astype(w, dtype="float32")
        gv2: R.Tensor((1, 16, 14, 14), dtype="float32") = R.nn.conv2d(gv, gv1, strides=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=16, data_layout="NCHW", kernel_layout="OIHW", out_layout="NCHW", out_dtype=None)
        a: R.Tensor((1, 16, 14, 14), dtype="int32") = R.astype(gv2, dtype="int32")
        b: R.Tensor((1, 16, 16, 16), dtype="int32") = R.reflex.conv_integer(x, v, strides=[1, 1], padding=[8, 8, 8, 8], dilation=[1, 1], groups=16)
        return (a, b)
