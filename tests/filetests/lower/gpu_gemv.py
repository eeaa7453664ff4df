# after: steps
# gpu: cuda:sm_80
# A matrix by a vector: a block for each row, whose thread that has the sum computes the epilogue.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(w: R.Tensor((100, 1280), dtype="float32"), x: R.Tensor((1280, 1), dtype="float32"), b: R.Tensor((100, 1), dtype="float32")) -> R.Tensor((100, 1), dtype="float32"):
        with R.dataflow():
            p: R.Tensor((100, 1), dtype="float32") = R.matmul(w, x)
            s: R.Tensor((100, 1), dtype="float32") = R.add(p, b)
            a: R.Tensor((100, 1), dtype="float32") = R.nn.relu(s)
            R.output(a)
        return a
# ----
fused_mat_mul_add_max
  step  binary: inlined into its readers
  step  matmul: 1 rows, 256 threads share 1 columns of weights contiguous along steps, 2 loads of 4 at once
  stage matmul: gemv; not transpose: no place for an epilogue; not map: no place for an epilogue; not gemv, in order: too few columns for a thread each
