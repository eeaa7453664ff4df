from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 32, 28, 28), dtype="float32"), w: R.Tensor((64, 32, 3, 3), dtype="float32")) -> R.Tensor((1, 64, 28, 28), dtype="float32"):
        with R.dataflow():
            y: R.Tensor((1, 64, 28, 28), dtype="float32") = R.nn.conv2d(x, w, strides=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], groups=1, data_layout="NCHW", kernel_layout="OIHW", out_layout="NCHW", out_dtype=None)
            R.output(y)
        return y
