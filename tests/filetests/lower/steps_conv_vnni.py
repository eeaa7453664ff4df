# after: steps
# precision: bf16
# amx
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 16, 28, 28), dtype="float32"), y: R.Tensor((1, 16, 14, 14), dtype="float32")) -> R.Tuple(R.Tensor((1, 192, 14, 14), dtype="float32"), R.Tensor((1, 192, 14, 14), dtype="float32")):
        u: R.Tensor((32, 16, 1, 1), dtype="float32") = R.zeros(R.shape([32, 16, 1, 1]), dtype="float32")
        v: R.Tensor((192, 32, 3, 3), dtype="float32") = R.zeros(R.shape([192, 32, 3, 3]), dtype="float32")
        t: R.Tensor((96, 16, 1, 1), dtype="float32") = R.zeros(R.shape([96, 16, 1, 1]), dtype="float32")
        w: R.Tensor((192, 96, 1, 1), dtype="float32") = R.zeros(R.shape([192, 96, 1, 1]), dtype="float32")
        a: R.Tensor((1, 32, 28, 28), dtype="float32") = R.nn.conv2d(x, u)
        b: R.Tensor((1, 192, 14, 14), dtype="float32") = R.nn.conv2d(a, v, strides=[2, 2], padding=[1, 1, 1, 1])
        c: R.Tensor((1, 96, 14, 14), dtype="float32") = R.nn.conv2d(y, t)
        d: R.Tensor((1, 192, 14, 14), dtype="float32") = R.nn.conv2d(c, w)
        return (b, d)
# ----
conv
  step  pairs: v_i1 split into blocks of 8
  step  conv: v_i1 split into blocks of 16
  step  conv: v_k0 split into blocks of 8
  step  bias: v_i1 split into blocks of 16
  step  pairs: parallel i2
  step  pairs: vectorize ci
  step  words: parallel c of words #3
  step  words: vectorize c of words #5
  step  conv: tile of 32 rows by 2 vectors of 16 lanes, depth over m, k; outer loops over (), columns inside; threads share tiles of rows; VNNI-packed bfloat16 on AMX tiles
  step  conv: tensorize -> 4 tile_dot_bf16, 4 tile_load, 4 tile_store, 4 tile_zero
  step  conv: tensorize -> 2 tile_dot_bf16, 3 tile_load, 2 tile_store, 2 tile_zero
  step  conv: VNNI pairs of two blocks interleaved
  step  bias: collapse_axes i2, i3 -> m
  step  bias: partition m at 192 -> m, m_tail
  step  bias: vectorize m_tail
  step  bias: split m by 16 -> m_0, m_1
  step  bias: vectorize m_1
  stage pairs: elementwise
  stage conv: gemm
  stage bias: elementwise
conv1
  step  pairs: v_i1 split into blocks of 8
  step  conv: v_i1 split into blocks of 16
  step  conv: v_k0 split into blocks of 8
  step  bias: v_i1 split into blocks of 16
  step  pairs: collapse_axes i3, ci -> m
  step  pairs: collapse_axes i2, m -> m
  step  pairs: collapse_axes co, m -> m
  step  pairs: split m by 16 -> m_0, m_1
  step  pairs: vectorize m_1
  step  words: parallel c of words #2
  step  words: vectorize c of words #3
  step  conv: tile of 32 rows by 2 vectors of 16 lanes, depth over pair, k; outer loops over (), columns inside; threads share tiles of rows; VNNI-packed bfloat16 on AMX tiles
  step  conv: tensorize -> 4 tile_dot_bf16, 4 tile_load, 4 tile_store, 4 tile_zero
  step  conv: tensorize -> 2 tile_dot_bf16, 3 tile_load, 2 tile_store, 2 tile_zero
  step  conv: VNNI pairs of two blocks interleaved
  step  bias: collapse_axes i2, i3 -> m
  step  bias: partition m at 192 -> m, m_tail
  step  bias: vectorize m_tail
  step  bias: split m by 16 -> m_0, m_1
  step  bias: vectorize m_1
  stage pairs: elementwise
  stage conv: gemm
  stage bias: elementwise
fused_conv_cast
  step  conv: v_i1 split into blocks of 16
  step  bias: v_i1 split into blocks of 16
  step  cast: v_i1 split into blocks of 16
  step  bias: inlined into its readers
  step  pairs: collapse_axes i2, i3 -> m
  step  pairs: parallel i1
  step  pairs: split m by 16 -> m_0, m_1
  step  pairs: vectorize m_1
  step  conv: tile of 12 rows by 2 vectors of 16 lanes, depth over v_k0; outer loops over (), columns inside; threads share tiles of rows; dot products of VNNI-packed bfloat16
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
  step  conv, 4 rows by 2 vectors: distribute_loops r, v, l over 2
  step  conv, 4 rows by 2 vectors: reorder k0, r of conv, v of conv, l of conv
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
  stage pairs: elementwise
  stage conv: gemm
  stage cast: epilogue of gemm
fused_conv_cast1
  step  conv: v_i1 split into blocks of 16
  step  bias: v_i1 split into blocks of 16
  step  cast: v_i1 split into blocks of 16
  step  bias: inlined into its readers
  step  pairs: collapse_axes i2, i3 -> m
  step  pairs: partition m at 192 -> m, m_tail
  step  pairs: vectorize m_tail
  step  pairs: split m by 16 -> m_0, m_1
  step  pairs: vectorize m_1
  step  conv: tile of 8 rows by 3 vectors of 16 lanes, depth over v_k0; outer loops over (), columns inside; threads share tiles of rows; dot products of VNNI-packed bfloat16
  step  conv, 8 rows by 3 vectors: distribute_loops r, v, l over 2
  step  conv, 8 rows by 3 vectors: reorder k0, r of conv, v of conv, l of conv
  step  conv, 8 rows by 3 vectors: decompose_reduction conv k0 -> conv_init
  step  conv, 8 rows by 3 vectors: unroll r of conv_init
  step  conv, 8 rows by 3 vectors: unroll v of conv_init
  step  conv, 8 rows by 3 vectors: vectorize l of conv_init
  step  conv, 8 rows by 3 vectors: reorder l, r, v of conv
  step  conv, 8 rows by 3 vectors: vectorize l of conv
  step  conv, 8 rows by 3 vectors: unroll_and_jam conv r, v of conv
  step  conv, 8 rows by 3 vectors: cache_read_at conv_store acc r of conv_store Local -> acc_local
  step  conv, 8 rows by 3 vectors: unroll r of acc_local
  step  conv, 8 rows by 3 vectors: unroll v of acc_local
  step  conv, 8 rows by 3 vectors: vectorize l of acc_local
  step  conv, 8 rows by 3 vectors: reorder l, v of conv_store
  step  conv, 8 rows by 3 vectors: vectorize l of conv_store
  step  conv, 8 rows by 3 vectors: unroll_and_jam conv_store v of conv_store
  step  conv, 4 rows by 3 vectors: distribute_loops r, v, l over 2
  step  conv, 4 rows by 3 vectors: reorder k0, r of conv, v of conv, l of conv
  step  conv, 4 rows by 3 vectors: decompose_reduction conv k0 -> conv_init
  step  conv, 4 rows by 3 vectors: unroll r of conv_init
  step  conv, 4 rows by 3 vectors: unroll v of conv_init
  step  conv, 4 rows by 3 vectors: vectorize l of conv_init
  step  conv, 4 rows by 3 vectors: reorder l, r, v of conv
  step  conv, 4 rows by 3 vectors: vectorize l of conv
  step  conv, 4 rows by 3 vectors: unroll_and_jam conv r, v of conv
  step  conv, 4 rows by 3 vectors: cache_read_at conv_store acc r of conv_store Local -> acc_local
  step  conv, 4 rows by 3 vectors: unroll r of acc_local
  step  conv, 4 rows by 3 vectors: unroll v of acc_local
  step  conv, 4 rows by 3 vectors: vectorize l of acc_local
  step  conv, 4 rows by 3 vectors: reorder l, v of conv_store
  step  conv, 4 rows by 3 vectors: vectorize l of conv_store
  step  conv, 4 rows by 3 vectors: unroll_and_jam conv_store v of conv_store
  stage pairs: elementwise
  stage conv: gemm
  stage cast: epilogue of gemm
