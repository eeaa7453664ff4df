# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 4), dtype="float32"), s: R.Tensor((2,), dtype="int64")) -> R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Tensor((), dtype="float32"), R.Tensor(dtype="float32", ndim=1)):
        m = T.int64()
        k = T.int64()
        sh: R.Shape(ndim=2) = R.tensor_to_shape(s)
        _: R.Shape([m, k]) = R.match_cast(sh, R.Shape([m, k]))
        y: R.Tensor((m, k), dtype="float32") = R.zeros(R.shape([m, k]), dtype="float32")
        z: R.Tensor((m, 4), dtype="float32") = R.match_cast(x, R.Tensor((m, 4), dtype="float32"))
        t: R.Tuple(R.Tensor((m, k), dtype="float32"), R.Tensor((m, 4), dtype="float32")) = y, z
        u: R.Tensor((m, 4), dtype="float32") = t[1]
        gv6: R.Tensor((m, 4), dtype="float32") = R.add(u, u)
        gv7: R.Tensor((m, k), dtype="float32") = t[0]
        gv8: R.Tensor((), dtype="float32") = R.sum(gv7, axis=None, keepdims=False)
        gv9: R.Tensor((m * 4,), dtype="float32") = R.reshape(u, R.shape([m * 4]))
        return (gv6, gv8, gv9)
# case
# in float32 (3,4) -0.865999997 -1.79100001 0.474999994 -3.78500009 -0.551999986 -0.791999996 1.35699999 -2.5079999 3.42700005 -0.623000026 -2.27600002 2.77200007
# in int64 (2) 3 2
# out float32 (3,4) -1.73199999 -3.58200002 0.949999988 -7.57000017 -1.10399997 -1.58399999 2.71399999 -5.01599979 6.85400009 -1.24600005 -4.55200005 5.54400015
# out float32 () 0
# out float32 (12) -0.865999997 -1.79100001 0.474999994 -3.78500009 -0.551999986 -0.791999996 1.35699999 -2.5079999 3.42700005 -0.623000026 -2.27600002 2.77200007
