# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 4), dtype="float32"), s: R.Tensor((2,), dtype="int64")) -> R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Tensor((), dtype="float32"), R.Tensor(dtype="float32", ndim=1)):
        m = T.int64()
        k = T.int64()
        shape: R.Shape(ndim=2) = R.tensor_to_shape(s)
        _: R.Shape([m, k]) = R.match_cast(shape, R.Shape([m, k]))
        y: R.Tensor((m, k), dtype="float32") = R.broadcast_to(R.const(0.0, "float32"), R.shape([m, k]))
        z: R.Tensor((m, 4), dtype="float32") = R.match_cast(x, R.Tensor((m, 4), dtype="float32"))
        t: R.Tuple(R.Tensor((m, k), dtype="float32"), R.Tensor((m, 4), dtype="float32")) = (y, z)
        u: R.Tensor((m, 4), dtype="float32") = t[1]
        gv6: R.Tensor((m, 4), dtype="float32") = R.add(u, u)
        gv7: R.Tensor((m, k), dtype="float32") = t[0]
        gv8: R.Tensor((), dtype="float32") = R.sum(gv7, axis=[0, 1], keepdims=False)
        gv9: R.Tensor((m * 4,), dtype="float32") = R.reshape(u, R.shape([m * 4]))
        return (gv6, gv8, gv9)
