# after: steps
# gpu: cuda:sm_80
# A matrix product.
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 64), dtype="float32"), w: R.Tensor((64, 128), dtype="float32")) -> R.Tensor((n, 128), dtype="float32"):
        a: R.Tensor((n, 128), dtype="float32") = R.matmul(x, w)
        return a
# ----
mat_mul
  step  matmul: tiles of 64 x 64 in shared memory, 16 steps at once, 4 x 4 results a thread; 256 threads of 128 registers at most, 17408 bytes of shared memory, 2 blocks on a multiprocessor
  stage matmul: gemm; not transpose: not a move to another axis; not map: not a map over an axis; not gemv, in order: many rows; not gemv: many rows; not gemm, warp-specialised: not on this GPU; not gemm, tensor cores: element type; not gemm, split-k: extents not known; not gemm, terms: not in this precision
