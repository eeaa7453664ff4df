# after: steps
# gpu: cuda:sm_80
# A row by weights contiguous along columns: four threads read two sectors of a row of weights.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 1024), dtype="float32"), w: R.Tensor((1024, 1000), dtype="float32"), b: R.Tensor((1, 1000), dtype="float32")) -> R.Tensor((1, 1000), dtype="float32"):
        with R.dataflow():
            p: R.Tensor((1, 1000), dtype="float32") = R.matmul(x, w)
            s: R.Tensor((1, 1000), dtype="float32") = R.add(p, b)
            R.output(s)
        return s
# ----
fused_mat_mul_add
  step  matmul: 1 rows, 64 threads share 4 columns of weights contiguous along columns, 8 loads of 4 at once
  stage matmul: gemv; not transpose: no place for an epilogue; not map: no place for an epilogue; not gemv, in order: too few columns for a thread each
