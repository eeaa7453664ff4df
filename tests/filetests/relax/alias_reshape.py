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
# in float32 (3,3) 0 3 2 -1 -1 -1 1 -0 1
# in float32 (3,3) -4 3 -0 1 -0 -1 1 2 -0
# out float32 (9) 8 19 8 3 -8 0 -1 4 0
# out float32 (9) 24 -8 -6 -3 -4 1 -5 8 -2
# out float32 (9) -3 -15 -11 -1 3 1 -2 1 0
