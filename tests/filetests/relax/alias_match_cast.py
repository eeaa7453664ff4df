# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3, 3), dtype="float32"), w: R.Tensor((3, 3), dtype="float32")) -> R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Tensor(dtype="float32", ndim=2), R.Tensor((3, 3), dtype="float32")):
        n = T.int64()
        a: R.Tensor((3, 3), dtype="float32") = R.matmul(x, w, out_dtype=None)
        b: R.Tensor((n, 3), dtype="float32") = R.match_cast(a, R.Tensor((n, 3), dtype="float32"))
        c: R.Tensor((3, 3), dtype="float32") = R.matmul(w, x, out_dtype=None)
        d: R.Tensor((n, 3), dtype="float32") = R.match_cast(c, R.Tensor((n, 3), dtype="float32"))
        e: R.Tensor((3, 3), dtype="float32") = R.matmul(w, w, out_dtype=None)
        f: R.Tensor((3, 3), dtype="float32") = R.matmul(e, x, out_dtype=None)
        gv6: R.Tensor((n, 3), dtype="float32") = R.subtract(b, d)
        return (gv6, b, f)
# case
# in float32 (3,3) 1 -4 1 -3 -3 -1 -1 1 1
# in float32 (3,3) 1 -2 1 -0 2 -2 -6 -1 4
# out float32 (3,3) -11 -14 9 7 9 3 0 -28 2
# out float32 (3,3) -5 -11 13 3 1 -1 -7 3 1
# out float32 (3,3) 7 50 11 6 -78 -6 -60 114 -24
