# after: widen_half_products
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 3, 8, 8), dtype="float16"), w: R.Tensor((4, 3, 3, 3), dtype="float16"), y: R.Tensor((4, 6), dtype="bfloat16"), z: R.Tensor((6, 2), dtype="bfloat16"), f: R.Tensor((2, 4), dtype="float32")) -> R.Tuple(R.Tensor((1, 4, 6, 6), dtype="float16"), R.Tensor((2, 2), dtype="float32")):
        a: R.Tensor((1, 4, 6, 6), dtype="float16") = R.nn.conv2d(x, w, strides=[1, 1], padding=[0, 0, 0, 0])
        b: R.Tensor((4, 2), dtype="bfloat16") = R.matmul(y, z)
        c: R.Tensor((4, 2), dtype="float32") = R.astype(b, dtype="float32")
        d: R.Tensor((2, 2), dtype="float32") = R.matmul(f, c)
        e: R.Tensor((1, 4, 6, 6), dtype="float16") = R.nn.relu(a)
        return (e, d)

# ----
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 3, 8, 8), dtype="float16"), w: R.Tensor((4, 3, 3, 3), dtype="float16"), y: R.Tensor((4, 6), dtype="bfloat16"), z: R.Tensor((6, 2), dtype="bfloat16"), f: R.Tensor((2, 4), dtype="float32")) -> R.Tuple(R.Tensor((1, 4, 6, 6), dtype="float16"), R.Tensor((2, 2), dtype="float32")):
        gv: R.Tensor((1, 3, 8, 8), dtype="float32") = R.astype(x, dtype="float32")
        gv1: R.Tensor((4, 3, 3, 3), dtype="float32") = R.astype(w, dtype="float32")
        gv2: R.Tensor((1, 4, 6, 6), dtype="float32") = R.nn.conv2d(gv, gv1, strides=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, data_layout="NCHW", kernel_layout="OIHW", out_layout="NCHW", out_dtype=None)
        a: R.Tensor((1, 4, 6, 6), dtype="float16") = R.astype(gv2, dtype="float16")
        gv3: R.Tensor((4, 6), dtype="float32") = R.astype(y, dtype="float32")
        gv4: R.Tensor((6, 2), dtype="float32") = R.astype(z, dtype="float32")
        gv5: R.Tensor((4, 2), dtype="float32") = R.matmul(gv3, gv4, out_dtype=None)
        b: R.Tensor((4, 2), dtype="bfloat16") = R.astype(gv5, dtype="bfloat16")
        c: R.Tensor((4, 2), dtype="float32") = R.astype(b, dtype="float32")
        d: R.Tensor((2, 2), dtype="float32") = R.matmul(f, c, out_dtype=None)
        e: R.Tensor((1, 4, 6, 6), dtype="float16") = R.nn.relu(a)
        return (e, d)
