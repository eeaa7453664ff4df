# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((2, 3), dtype="float32"), c: R.Tensor((), dtype="bool")) -> R.Tensor((2, 3), dtype="float32"):
        s: R.Any = R.memory.alloc_storage(R.shape([24]), 0, R.str("global"), R.dtype("float32"))
        y: R.Tensor((2, 3), dtype="float32") = R.memory.alloc_tensor(s, 0, R.shape([2, 3]), R.dtype("float32"), 0)
        z: R.Tensor((2, 3), dtype="float32") = R.builtin.alloc_tensor(R.shape([2, 3]), R.dtype("float32"), 0, R.str("global"))
        R.memory.kill_tensor(y)
        R.memory.kill_storage(s)
        R.assert_op(c, format=R.str("not so"))
        R.print(c, format=R.str("the condition is {}"))
        w: R.Tensor((2, 3), dtype="float32") = R.call_inplace_packed("vm.builtin.copy", x, inplace_indices=[0], ty_args=(R.Tensor((2, 3), dtype="float32"),))
        return w
# case
# in float32 (2,3) 2.93799996 -0.713999987 2.75500011 2.329 -0.869000018 -3.33400011
# in bool () 1
# out float32 (2,3) 2.93799996 -0.713999987 2.75500011 2.329 -0.869000018 -3.33400011
