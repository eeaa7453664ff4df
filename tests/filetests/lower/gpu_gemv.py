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
  step  matmul, binary_1: fuse_adjacent i0 of matmul, i0 of binary_1
  step  matmul, binary_1: store_at matmul i0 Shared
  step  matmul, binary_1: split k0 by 4 -> k0_0, k0_1
  step  matmul, binary_1: split k0_0 by 32 -> k0_0_0, k0_0_1
  step  matmul, binary_1: rfactor matmul k0_0_1 -> matmul_rf
  step  matmul, binary_1: set_scope t2_rf Shared
  step  matmul, binary_1: reorder k0_0_1 of matmul_rf, k0_0_0, k0_1
  step  matmul, binary_1: cache_write_at matmul_rf k0_0_0 Local -> t2_rf_local
  step  matmul, binary_1: decompose_reduction matmul_rf k0_0_0 -> matmul_rf_init
  step  matmul, binary_1: bind k0_0_1 of matmul_rf_init to threadIdx.x
  step  matmul, binary_1: tree_reduce matmul k0_0_1 of matmul -> matmul_half
  step  matmul, binary_1: bind k0_0_1 of matmul_half to threadIdx.x
  step  matmul, binary_1: tree_reduce matmul k0_0_1 of matmul -> matmul_half_1
  step  matmul, binary_1: bind k0_0_1 of matmul_half_1 to threadIdx.x
  step  matmul, binary_1: tree_reduce matmul k0_0_1 of matmul -> matmul_half_2
  step  matmul, binary_1: bind k0_0_1 of matmul_half_2 to threadIdx.x
  step  matmul, binary_1: tree_reduce matmul k0_0_1 of matmul -> matmul_half_3
  step  matmul, binary_1: bind k0_0_1 of matmul_half_3 to threadIdx.x
  step  matmul, binary_1: tree_reduce matmul k0_0_1 of matmul
  step  matmul, binary_1: bind i0 to blockIdx.x
  stage matmul: row reduction; not transpose: no place for an epilogue; not map: no place for an epilogue; not gemm, tensor cores: both operands change along the rows of results; not gemm, split-k: both operands change along the rows of results; not gemm: both operands change along the rows of results
