# after: steps
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 8, 16, 16), dtype="uint8"), w: R.Tensor((12, 8, 3, 3), dtype="int8")) -> R.Tensor((1, 12, 16, 16), dtype="int32"):
        a: R.Tensor((1, 12, 16, 16), dtype="int32") = R.reflex.conv_integer(x, w, strides=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], groups=1)
        return a
# ----
conv_integer
  step  words: partition i3 at 16 -> i3, i3_tail
  step  words: vectorize i3_tail
  step  words: split i3 by 8 -> i3_0, i3_1
  step  words: vectorize i3_1
  step  words1: collapse_axes i2, i3 -> m
  step  words1: collapse_axes i0, i1 -> m
  step  words1: partition m at 8 -> m, m_tail
  step  words1: vectorize m of words1 #2
  step  conv: tile of 6 rows by 2 vectors of 8 lanes, depth over v_k0, v_k1, v_k2; outer loops over (v_i2), columns inside; no threads; dot products of VNNI-packed 8-bit integers
  step  conv, 6 rows by 2 vectors: distribute_loops r, v, l over 2
  step  conv, 6 rows by 2 vectors: reorder k0, k1, k2, r of conv, v of conv, l of conv
  step  conv, 6 rows by 2 vectors: decompose_reduction conv k0 -> conv_init
  step  conv, 6 rows by 2 vectors: unroll r of conv_init
  step  conv, 6 rows by 2 vectors: unroll v of conv_init
  step  conv, 6 rows by 2 vectors: vectorize l of conv_init
  step  conv, 6 rows by 2 vectors: reorder l, r, v of conv
  step  conv, 6 rows by 2 vectors: vectorize l of conv
  step  conv, 6 rows by 2 vectors: unroll_and_jam conv r, v of conv
  step  conv, 6 rows by 2 vectors: unroll r of conv_store
  step  conv, 6 rows by 2 vectors: reorder l, v of conv_store
  step  conv, 6 rows by 2 vectors: vectorize l of conv_store
  step  conv, 6 rows by 2 vectors: unroll_and_jam conv_store v of conv_store
  stage words: elementwise
  stage words1: elementwise
  stage conv: gemm
