from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((8, 3, 56, 56), dtype="float32")) -> R.Tensor((8, 128, 28, 28), dtype="float32"):
        with R.dataflow():
            u0: R.Tensor((1728,), dtype="float32") = R.arange(0, 1728, 1, dtype="float32")
            u1: R.Tensor((1728,), dtype="float32") = R.sin(u0)
            u: R.Tensor((64, 3, 3, 3), dtype="float32") = R.reshape(u1, R.shape([64, 3, 3, 3]))
            v0: R.Tensor((36864,), dtype="float32") = R.arange(0, 36864, 1, dtype="float32")
            v1: R.Tensor((36864,), dtype="float32") = R.sin(v0)
            v2: R.Tensor((36864,), dtype="float32") = R.multiply(v1, R.const(0.0625, dtype="float32"))
            v: R.Tensor((64, 64, 3, 3), dtype="float32") = R.reshape(v2, R.shape([64, 64, 3, 3]))
            w0: R.Tensor((73728,), dtype="float32") = R.tile(v2, (2,))
            w: R.Tensor((128, 64, 3, 3), dtype="float32") = R.reshape(w0, R.shape([128, 64, 3, 3]))
            a: R.Tensor((8, 64, 56, 56), dtype="float32") = R.nn.conv2d(x, u, padding=[1, 1, 1, 1])
            b: R.Tensor((8, 64, 56, 56), dtype="float32") = R.nn.relu(a)
            c: R.Tensor((8, 64, 56, 56), dtype="float32") = R.nn.conv2d(b, v, padding=[1, 1, 1, 1])
            d: R.Tensor((8, 64, 56, 56), dtype="float32") = R.nn.relu(c)
            y: R.Tensor((8, 128, 28, 28), dtype="float32") = R.nn.conv2d(d, w, strides=[2, 2], padding=[1, 1, 1, 1])
            R.output(y)
        return y
