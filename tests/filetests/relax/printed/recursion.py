# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def count(n: R.Tensor((), dtype="int64"), x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        cls = Module
        more: R.Tensor((), dtype="bool") = R.greater(n, R.const(0, "int64"))
        if more:
            m: R.Tensor((), dtype="int64") = R.subtract(n, R.const(1, "int64"))
            y: R.Tensor((2,), dtype="float32") = R.multiply(x, R.const(2.0, "float32"))
            r_then: R.Tensor((2,), dtype="float32") = cls.count(m, y)
            r: R.Tensor((2,), dtype="float32") = r_then
        else:
            r: R.Tensor((2,), dtype="float32") = x
        return r

    @R.function
    def main(n: R.Tensor((), dtype="int64"), x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        cls = Module
        r: R.Tensor((2,), dtype="float32") = cls.count(n, x)
        return r
