# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3, 3), dtype="float32"), w: R.Tensor((3, 3), dtype="float32")) -> R.Tuple(R.Tensor((9,), dtype="float32"), R.Tensor((9,), dtype="float32"), R.Tensor((9,), dtype="float32")):
        a: R.Tensor((3, 3), dtype="float32") = R.matmul(x, w, out_dtype=None)
        b: R.Tensor((9,), dtype="float32") = R.reshape(a, R.shape([9]))
        c: R.Tensor((3, 3), dtype="float32") = R.matmul(w, x, out_dtype=None)
        gv3: R.Tensor((9, 1), dtype="float32") = R.reshape(c, R.shape([9, 1]))
        d: R.Tensor((9,), dtype="float32") = R.reshape(gv3, R.shape([9]))
        e: R.Tensor((3, 3), dtype="float32") = R.matmul(w, w, out_dtype=None)
        f: R.Tensor((9,), dtype="float32") = R.reshape(e, R.shape([9]))
        gv7: R.Tensor((9,), dtype="float32") = R.subtract(b, d)
        gv8: R.Tensor((9,), dtype="float32") = R.add(b, f)
        return (gv7, gv8, d)
# case
# in float32 (3,3) 1 -4 1 -3 -3 -1 -1 1 1
# in float32 (3,3) 1 -2 1 -0 2 -2 -6 -1 4
# out float32 (9) -11 -14 9 7 9 3 0 -28 2
# out float32 (9) -10 -18 22 15 7 -13 -37 9 13
# out float32 (9) 6 3 4 -4 -8 -4 -7 31 -1
