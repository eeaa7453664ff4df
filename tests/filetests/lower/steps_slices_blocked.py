# after: steps
# precision: bf16
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 16, 12, 14), dtype="float32")) -> R.Tensor((1, 32, 12, 14), dtype="float32"):
        u: R.Tensor((32, 16, 1, 1), dtype="float32") = R.zeros(R.shape([32, 16, 1, 1]), dtype="float32")
        v: R.Tensor((16, 16, 3, 3), dtype="float32") = R.zeros(R.shape([16, 16, 3, 3]), dtype="float32")
        w: R.Tensor((32, 48, 1, 1), dtype="float32") = R.zeros(R.shape([32, 48, 1, 1]), dtype="float32")
        a: R.Tensor((1, 32, 12, 14), dtype="float32") = R.nn.conv2d(x, u)
        b: R.Tensor((1, 16, 12, 14), dtype="float32") = R.strided_slice(a, axes=[1], begin=[0], end=[16])
        c: R.Tensor((1, 16, 12, 14), dtype="float32") = R.strided_slice(a, axes=[1], begin=[16], end=[32])
        d: R.Tensor((1, 16, 12, 14), dtype="float32") = R.nn.conv2d(c, v, padding=[1, 1, 1, 1])
        e: R.Tensor((1, 16, 12, 14), dtype="float32") = R.add(c, d)
        f: R.Tensor((1, 48, 12, 14), dtype="float32") = R.concat((b, c, e), axis=1)
        g: R.Tensor((1, 32, 12, 14), dtype="float32") = R.nn.conv2d(f, w)
        return g
# ----
conv
  step  conv: v_i1 split into blocks of 16
  step  bias: v_i1 split into blocks of 16
  step  pairs: collapse_axes i2, i3 -> m
  step  pairs: partition m at 160 -> m, m_tail
  step  pairs: vectorize m_tail
  step  pairs: split m by 16 -> m_0, m_1
  step  pairs: vectorize m_1
  step  conv: tile of 12 rows by 2 vectors of 16 lanes, depth over v_k0; outer loops over (), columns inside; no threads; dot products of VNNI-packed bfloat16
  step  conv, 12 rows by 2 vectors: distribute_loops r, v, l over 2
  step  conv, 12 rows by 2 vectors: reorder k0, r of conv, v of conv, l of conv
  step  conv, 12 rows by 2 vectors: decompose_reduction conv k0 -> conv_init
  step  conv, 12 rows by 2 vectors: unroll r of conv_init
  step  conv, 12 rows by 2 vectors: unroll v of conv_init
  step  conv, 12 rows by 2 vectors: vectorize l of conv_init
  step  conv, 12 rows by 2 vectors: reorder l, r, v of conv
  step  conv, 12 rows by 2 vectors: vectorize l of conv
  step  conv, 12 rows by 2 vectors: unroll_and_jam conv r, v of conv
  step  conv, 12 rows by 2 vectors: cache_read_at conv_store acc r of conv_store Local -> acc_local
  step  conv, 12 rows by 2 vectors: unroll r of acc_local
  step  conv, 12 rows by 2 vectors: unroll v of acc_local
  step  conv, 12 rows by 2 vectors: vectorize l of acc_local
  step  conv, 12 rows by 2 vectors: reorder l, v of conv_store
  step  conv, 12 rows by 2 vectors: vectorize l of conv_store
  step  conv, 12 rows by 2 vectors: unroll_and_jam conv_store v of conv_store
  stage pairs: elementwise
  stage conv: gemm
  stage bias: epilogue of gemm
conv1
  step  pairs: v_i1 split into blocks of 8
  step  conv: v_i1 split into blocks of 16
  step  conv: v_k0 split into blocks of 8
  step  bias: v_i1 split into blocks of 16
  step  pairs: inlined into its readers
  step  conv: tile of 12 rows by 2 vectors of 16 lanes, depth over co, ci; outer loops over (), columns inside; threads share tiles of rows; dot products of VNNI-packed bfloat16
  step  conv, 12 rows by 2 vectors: distribute_loops r, v, l over 2
  step  conv, 12 rows by 2 vectors: reorder co, ci, r of conv, v of conv, l of conv
  step  conv, 12 rows by 2 vectors: decompose_reduction conv co -> conv_init
  step  conv, 12 rows by 2 vectors: unroll r of conv_init
  step  conv, 12 rows by 2 vectors: unroll v of conv_init
  step  conv, 12 rows by 2 vectors: vectorize l of conv_init
  step  conv, 12 rows by 2 vectors: reorder l, r, v of conv
  step  conv, 12 rows by 2 vectors: vectorize l of conv
  step  conv, 12 rows by 2 vectors: unroll_and_jam conv r, v of conv
  step  conv, 12 rows by 2 vectors: unroll r of conv_store
  step  conv, 12 rows by 2 vectors: reorder l, v of conv_store
  step  conv, 12 rows by 2 vectors: vectorize l of conv_store
  step  conv, 12 rows by 2 vectors: unroll_and_jam conv_store v of conv_store
  step  bias: collapse_axes i2, i3 -> m
  step  bias: partition m at 160 -> m, m_tail
  step  bias: vectorize m_tail
  step  bias: split m by 16 -> m_0, m_1
  step  bias: vectorize m_1
  stage conv: gemm
  stage bias: elementwise
fused_conv_add_cast
  step  bias: inlined into its readers
  step  binary: inlined into its readers
  step  pairs: vectorize i1
  step  conv: tile of 7 rows by 1 vectors of 16 lanes, depth over v_k0, v_k1, v_k2; outer loops over (v_i2), columns inside; threads share the outermost loop; dot products of VNNI-packed bfloat16
  step  conv, 7 rows by 1 vectors: distribute_loops r, v, l over 2
  step  conv, 7 rows by 1 vectors: reorder k0, k1, k2, r of conv, v of conv, l of conv
  step  conv, 7 rows by 1 vectors: decompose_reduction conv k0 -> conv_init
  step  conv, 7 rows by 1 vectors: unroll r of conv_init
  step  conv, 7 rows by 1 vectors: unroll v of conv_init
  step  conv, 7 rows by 1 vectors: vectorize l of conv_init
  step  conv, 7 rows by 1 vectors: reorder l, r, v of conv
  step  conv, 7 rows by 1 vectors: vectorize l of conv
  step  conv, 7 rows by 1 vectors: unroll_and_jam conv r, v of conv
  step  conv, 7 rows by 1 vectors: cache_read_at conv_store acc r of conv_store Local -> acc_local
  step  conv, 7 rows by 1 vectors: unroll r of acc_local
  step  conv, 7 rows by 1 vectors: unroll v of acc_local
  step  conv, 7 rows by 1 vectors: vectorize l of acc_local
  step  conv, 7 rows by 1 vectors: reorder l, v of conv_store
  step  conv, 7 rows by 1 vectors: vectorize l of conv_store
  step  conv, 7 rows by 1 vectors: unroll_and_jam conv_store v of conv_store
  stage pairs: elementwise
  stage conv: gemm
  stage cast: epilogue of gemm
fused_slice_cast_cast_concat
  step  slice: inlined into its readers
  step  cast: inlined into its readers
  step  cast_1: inlined into its readers
  step  part0: collapse_axes i3, i1 -> m
  step  part0: collapse_axes i2, m -> m
  step  part0: split m by 16 -> m_0, m_1
  step  part0: vectorize m_1
  step  part1: collapse_axes i3, i1 -> m
  step  part1: collapse_axes i2, m -> m
  step  part1: split m by 16 -> m_0, m_1
  step  part1: vectorize m_1
  step  part2: collapse_axes i3, i1 -> m
  step  part2: collapse_axes i2, m -> m
  step  part2: split m by 32 -> m_0, m_1
  step  part2: vectorize m_1
  stage part0: elementwise
  stage part1: elementwise
  stage part2: elementwise
slice
  step  slice: collapse_axes i3, i1 -> m
  step  slice: collapse_axes i2, m -> m
  step  slice: split m by 16 -> m_0, m_1
  step  slice: vectorize m_1
  stage slice: elementwise
