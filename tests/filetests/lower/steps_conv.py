# after: steps
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 24, 20, 20), dtype="float32"), w: R.Tensor((32, 24, 3, 3), dtype="float32")) -> R.Tensor((1, 32, 10, 10), dtype="float32"):
        a: R.Tensor((1, 32, 10, 10), dtype="float32") = R.nn.conv2d(x, w, strides=[2, 2], padding=[1, 1, 1, 1])
        b: R.Tensor((1, 32, 10, 10), dtype="float32") = R.nn.relu(a)
        return b
# ----
fused_conv_max
  step  conv: columns packed into phases
  step  pad: inlined into its readers
  step  phases: parallel p of phases
  step  phases: partition p of phases #4 at 8 -> p of phases #4, p_tail
  step  phases: vectorize p_tail
  step  phases: vectorize p of phases #4
  step  conv: tile of 4 rows by 2 vectors of 8 lanes, depth over v_k0, v_k1, v_k2; outer loops over (v_i2), columns inside; threads share the outermost loop
  step  conv, 4 rows by 2 vectors: distribute_loops r, v, l over 2
  step  conv, 4 rows by 2 vectors: reorder k0, k1, k2, r of conv, v of conv, l of conv
  step  conv, 4 rows by 2 vectors: decompose_reduction conv k0 -> conv_init
  step  conv, 4 rows by 2 vectors: unroll r of conv_init
  step  conv, 4 rows by 2 vectors: unroll v of conv_init
  step  conv, 4 rows by 2 vectors: vectorize l of conv_init
  step  conv, 4 rows by 2 vectors: reorder l, r, v of conv
  step  conv, 4 rows by 2 vectors: vectorize l of conv
  step  conv, 4 rows by 2 vectors: unroll_and_jam conv r, v of conv
  step  conv, 4 rows by 2 vectors: cache_read_at conv_store acc r of conv_store Local -> acc_local
  step  conv, 4 rows by 2 vectors: unroll r of acc_local
  step  conv, 4 rows by 2 vectors: unroll v of acc_local
  step  conv, 4 rows by 2 vectors: vectorize l of acc_local
  step  conv, 4 rows by 2 vectors: reorder l, v of conv_store
  step  conv, 4 rows by 2 vectors: vectorize l of conv_store
  step  conv, 4 rows by 2 vectors: unroll_and_jam conv_store v of conv_store
  stage phases: elementwise
  stage conv: gemm
  stage binary: epilogue of gemm
