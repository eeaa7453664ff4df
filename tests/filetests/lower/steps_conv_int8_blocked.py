# after: steps
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 16, 12, 14), dtype="uint8")) -> R.Tensor((1, 32, 12, 14), dtype="int32"):
        u: R.Tensor((16, 16, 3, 3), dtype="int8") = R.ones((16, 16, 3, 3), dtype="int8")
        w: R.Tensor((32, 16, 1, 1), dtype="int8") = R.ones((32, 16, 1, 1), dtype="int8")
        a: R.Tensor((1, 16, 12, 14), dtype="int32") = R.reflex.conv_integer(x, u, strides=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], groups=1)
        b: R.Tensor((1, 16, 12, 14), dtype="float32") = R.divide(R.astype(a, dtype="float32"), R.const(48.0999985, "float32"))
        c: R.Tensor((1, 16, 12, 14), dtype="float32") = R.minimum(R.maximum(R.round(b), R.const(0.0, "float32")), R.const(255.0, "float32"))
        d: R.Tensor((1, 16, 12, 14), dtype="uint8") = R.astype(c, dtype="uint8")
        e: R.Tensor((1, 32, 12, 14), dtype="int32") = R.reflex.conv_integer(d, w, strides=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1)
        return e
# ----
conv_integer
  step  conv: v_i1 split into blocks of 16
  step  bias: v_i1 split into blocks of 16
  step  words: collapse_axes i3, i1 -> m
  step  words: collapse_axes i2, m -> m
  step  words: split m by 8 -> m_0, m_1
  step  words: vectorize m_1
  step  conv: tile of 6 rows by 2 vectors of 8 lanes, depth over v_k0; outer loops over (co), columns inside; no threads; dot products of VNNI-packed 8-bit integers
  step  conv, 6 rows by 2 vectors: distribute_loops r, v, l over 2
  step  conv, 6 rows by 2 vectors: reorder k0, r of conv, v of conv, l of conv
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
  step  bias: collapse_axes i2, i3 -> m
  step  bias: split m by 8 -> m_0, m_1
  step  bias: vectorize m_1
  stage words: elementwise
  stage conv: gemm
  stage bias: elementwise
fused_conv_integer_cast_div_round_max_2more
  step  bias: inlined into its readers
  step  cast: inlined into its readers
  step  binary: inlined into its readers
  step  unary: inlined into its readers
  step  binary_1: inlined into its readers
  step  binary_2: inlined into its readers
  step  cast_1: multiply_by_reciprocal of 1 scales
  step  words: split i3 by 8 -> i3_0, i3_1
  step  words: vectorize i3_1
  step  conv: tile of 5 rows by 2 vectors of 8 lanes, depth over v_k0, v_k1, v_k2; outer loops over (v_i2), columns inside; no threads; dot products of VNNI-packed 8-bit integers
  step  conv, 5 rows by 2 vectors: distribute_loops r, v, l over 2
  step  conv, 5 rows by 2 vectors: reorder k0, k1, k2, r of conv, v of conv, l of conv
  step  conv, 5 rows by 2 vectors: decompose_reduction conv k0 -> conv_init
  step  conv, 5 rows by 2 vectors: unroll r of conv_init
  step  conv, 5 rows by 2 vectors: unroll v of conv_init
  step  conv, 5 rows by 2 vectors: vectorize l of conv_init
  step  conv, 5 rows by 2 vectors: reorder l, r, v of conv
  step  conv, 5 rows by 2 vectors: vectorize l of conv
  step  conv, 5 rows by 2 vectors: unroll_and_jam conv r, v of conv
  step  conv, 5 rows by 2 vectors: cache_read_at conv_store acc r of conv_store Local -> acc_local
  step  conv, 5 rows by 2 vectors: unroll r of acc_local
  step  conv, 5 rows by 2 vectors: unroll v of acc_local
  step  conv, 5 rows by 2 vectors: vectorize l of acc_local
  step  conv, 5 rows by 2 vectors: reorder l, v of conv_store
  step  conv, 5 rows by 2 vectors: vectorize l of conv_store
  step  conv, 5 rows by 2 vectors: unroll_and_jam conv_store v of conv_store
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
  stage words: elementwise
  stage conv: gemm
  stage cast_1: epilogue of gemm
