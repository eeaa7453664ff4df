# after: steps
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 32, 20, 20), dtype="float32"), w: R.Tensor((32, 1, 3, 3), dtype="float32")) -> R.Tensor((1, 32, 20, 20), dtype="float32"):
        a: R.Tensor((1, 32, 20, 20), dtype="float32") = R.nn.conv2d(x, w, padding=[1, 1, 1, 1], groups=32)
        return a
# ----
conv
  step  pad: parallel i1
  step  pad: partition i3 at 16 -> i3, i3_tail
  step  pad: vectorize i3_tail
  step  pad: split i3 by 8 -> i3_0, i3_1
  step  pad: vectorize i3_1
  step  conv: tile of 2 rows by 3 vectors of 8 lanes, depth over v_k1, v_k2; outer loops over (v_i1), columns inside; threads share the outermost loop
  step  conv, 2 rows by 3 vectors: distribute_loops r, v, l over 2
  step  conv, 2 rows by 3 vectors: reorder k1, k2, r of conv, v of conv, l of conv
  step  conv, 2 rows by 3 vectors: decompose_reduction conv k1 -> conv_init
  step  conv, 2 rows by 3 vectors: unroll r of conv_init
  step  conv, 2 rows by 3 vectors: unroll v of conv_init
  step  conv, 2 rows by 3 vectors: vectorize l of conv_init
  step  conv, 2 rows by 3 vectors: reorder l, r, v of conv
  step  conv, 2 rows by 3 vectors: vectorize l of conv
  step  conv, 2 rows by 3 vectors: unroll_and_jam conv r, v of conv
  step  conv, 2 rows by 3 vectors: unroll r of conv_store
  step  conv, 2 rows by 3 vectors: reorder l, v of conv_store
  step  conv, 2 rows by 3 vectors: vectorize l of conv_store
  step  conv, 2 rows by 3 vectors: unroll_and_jam conv_store v of conv_store
  stage pad: elementwise
  stage conv: gemm
