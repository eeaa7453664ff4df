# after: steps
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 24, 4), dtype="float32")) -> R.Tensor((1, 64, 4), dtype="float32"):
        w: R.Tensor((64, 24, 3), dtype="float32") = R.full(R.shape([64, 24, 3]), R.const(0.5, "float32"), dtype="float32")
        a: R.Tensor((1, 64, 4), dtype="float32") = R.nn.conv1d(x, w, strides=[1], padding=[1, 1])
        b: R.Tensor((1, 64, 4), dtype="float32") = R.nn.relu(a)
        return b
# ----
fused_conv_max
  step  bias: inlined into its readers
  step  pad: vectorize i2
  step  conv: tile of 4 rows by 2 vectors of 8 lanes, depth over v_k0, v_k1; outer loops over (), columns inside; no threads
  step  conv, 4 rows by 2 vectors: distribute_loops r, v, l over 2
  step  conv, 4 rows by 2 vectors: reorder k0, k1, r of conv, v of conv, l of conv
  step  conv, 4 rows by 2 vectors: decompose_reduction conv k0 -> conv_init
  step  conv, 4 rows by 2 vectors: unroll r of conv_init
  step  conv, 4 rows by 2 vectors: unroll v of conv_init
  step  conv, 4 rows by 2 vectors: vectorize l of conv_init
  step  conv, 4 rows by 2 vectors: reorder l, r, v of conv
  step  conv, 4 rows by 2 vectors: vectorize l of conv
  step  conv, 4 rows by 2 vectors: unroll_and_jam conv r, v of conv
  step  conv, 4 rows by 2 vectors: unroll r of conv_store
  step  conv, 4 rows by 2 vectors: reorder l, v of conv_store
  step  conv, 4 rows by 2 vectors: vectorize l of conv_store
  step  conv, 4 rows by 2 vectors: unroll_and_jam conv_store v of conv_store
  step  binary: vectorize i2
  stage pad: elementwise
  stage conv: gemm
  stage binary: elementwise
