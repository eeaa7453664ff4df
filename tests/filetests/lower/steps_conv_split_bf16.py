# after: steps
# precision: f32-fast
# amx
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 16, 28, 28), dtype="float32"), y: R.Tensor((1, 16, 14, 14), dtype="float32")) -> R.Tuple(R.Tensor((1, 192, 14, 14), dtype="float32"), R.Tensor((1, 192, 14, 14), dtype="float32")):
        u: R.Tensor((32, 16, 1, 1), dtype="float32") = R.zeros(R.shape([32, 16, 1, 1]), dtype="float32")
        v: R.Tensor((192, 32, 3, 3), dtype="float32") = R.zeros(R.shape([192, 32, 3, 3]), dtype="float32")
        t: R.Tensor((144, 16, 1, 1), dtype="float32") = R.zeros(R.shape([144, 16, 1, 1]), dtype="float32")
        w: R.Tensor((192, 144, 1, 1), dtype="float32") = R.zeros(R.shape([192, 144, 1, 1]), dtype="float32")
        a: R.Tensor((1, 32, 28, 28), dtype="float32") = R.nn.conv2d(x, u)
        b: R.Tensor((1, 192, 14, 14), dtype="float32") = R.nn.conv2d(a, v, strides=[2, 2], padding=[1, 1, 1, 1])
        c: R.Tensor((1, 144, 14, 14), dtype="float32") = R.nn.conv2d(y, t)
        d: R.Tensor((1, 192, 14, 14), dtype="float32") = R.nn.conv2d(c, w)
        return (b, d)
# ----
conv
  step  conv: v_i1 split into blocks of 16
  step  bias: v_i1 split into blocks of 16
  step  conv: tile of 12 rows by 2 vectors of 16 lanes, depth over v_k0; outer loops over (), columns inside; threads share tiles of rows
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
  stage conv: gemm; not split-bf16: too few multiply-adds for each element
  stage bias: epilogue of gemm
conv1
  step  pad: v_i1 split into blocks of 16
  step  conv: v_i1 split into blocks of 16
  step  conv: v_k0 split into blocks of 16
  step  bias: v_i1 split into blocks of 16
  step  pad: parallel i2
  step  pad: vectorize ci
  step  terms: parallel c of terms #3
  step  terms: vectorize c of terms #5
  step  terms: collapse_axes c of terms #2, c of terms #3 -> m
  step  terms: parallel c of terms
  step  terms: vectorize c of terms #3
  step  terms: parallel c of terms #3
  step  terms: vectorize c of terms #5
  step  terms: collapse_axes c of terms #2, c of terms #3 -> m
  step  terms: parallel c of terms
  step  terms: vectorize c of terms #3
  step  conv: tile of 32 rows by 2 vectors of 16 lanes, depth over m, ci; outer loops over (), columns inside; threads share tiles of rows; split-bf16 on AMX tiles
  step  conv: tensorize -> 12 tile_dot_bf16, 8 tile_load, 4 tile_store, 4 tile_zero
  step  conv: tensorize -> 6 tile_dot_bf16, 6 tile_load, 2 tile_store, 2 tile_zero
  step  conv: tile of 5 rows by 4 vectors of 16 lanes, depth over co, ci, v_k1, v_k2; outer loops over (v_i2), columns inside; threads share the outermost loop
  step  conv, 5 rows by 4 vectors: distribute_loops r, v, l over 2
  step  conv, 5 rows by 4 vectors: reorder co, ci, k1, k2, r of conv, v of conv, l of conv
  step  conv, 5 rows by 4 vectors: decompose_reduction conv co -> conv_init
  step  conv, 5 rows by 4 vectors: unroll r of conv_init
  step  conv, 5 rows by 4 vectors: unroll v of conv_init
  step  conv, 5 rows by 4 vectors: vectorize l of conv_init
  step  conv, 5 rows by 4 vectors: reorder l, r, v of conv
  step  conv, 5 rows by 4 vectors: vectorize l of conv
  step  conv, 5 rows by 4 vectors: unroll_and_jam conv r, v of conv
  step  conv, 5 rows by 4 vectors: unroll r of conv_store
  step  conv, 5 rows by 4 vectors: reorder l, v of conv_store
  step  conv, 5 rows by 4 vectors: vectorize l of conv_store
  step  conv, 5 rows by 4 vectors: unroll_and_jam conv_store v of conv_store
  step  conv, 4 rows by 4 vectors: distribute_loops r, v, l over 2
  step  conv, 4 rows by 4 vectors: reorder co, ci, k1, k2, r of conv, v of conv, l of conv
  step  conv, 4 rows by 4 vectors: decompose_reduction conv co -> conv_init
  step  conv, 4 rows by 4 vectors: unroll r of conv_init
  step  conv, 4 rows by 4 vectors: unroll v of conv_init
  step  conv, 4 rows by 4 vectors: vectorize l of conv_init
  step  conv, 4 rows by 4 vectors: reorder l, r, v of conv
  step  conv, 4 rows by 4 vectors: vectorize l of conv
  step  conv, 4 rows by 4 vectors: unroll_and_jam conv r, v of conv
  step  conv, 4 rows by 4 vectors: unroll r of conv_store
  step  conv, 4 rows by 4 vectors: reorder l, v of conv_store
  step  conv, 4 rows by 4 vectors: vectorize l of conv_store
  step  conv, 4 rows by 4 vectors: unroll_and_jam conv_store v of conv_store
  step  conv: bf16x3 where exponents allow
  step  bias: collapse_axes i2, i3 -> m
  step  bias: partition m at 192 -> m, m_tail
  step  bias: vectorize m_tail
  step  bias: split m by 16 -> m_0, m_1
  step  bias: vectorize m_1
  stage pad: elementwise
  stage conv: split-bf16
  stage bias: elementwise
conv2
  step  conv: v_i1 split into blocks of 16
  step  bias: v_i1 split into blocks of 16
  step  conv: tile of 8 rows by 3 vectors of 16 lanes, depth over v_k0; outer loops over (), columns inside; threads share tiles of rows
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
  stage conv: gemm; not split-bf16: too few multiply-adds for each element
  stage bias: epilogue of gemm
conv3
  step  conv: v_i1 split into blocks of 16
  step  conv: v_k0 split into blocks of 16
  step  bias: v_i1 split into blocks of 16
  step  terms: parallel c of terms
  step  terms: vectorize c of terms #3
  step  terms: collapse_axes c of terms #3, c of terms #4 -> m
  step  terms: parallel c of terms
  step  terms: split m by 16 -> m_0, m_1
  step  terms: vectorize m_1
  step  terms: parallel c of terms
  step  terms: vectorize c of terms #3
  step  terms: collapse_axes c of terms #3, c of terms #4 -> m
  step  terms: parallel c of terms
  step  terms: split m by 16 -> m_0, m_1
  step  terms: vectorize m_1
  step  conv: tile of 32 rows by 2 vectors of 16 lanes, depth over pair, ci; outer loops over (), columns inside; threads share tiles of rows; split-bf16 on AMX tiles
  step  conv: tensorize -> 12 tile_dot_bf16, 8 tile_load, 4 tile_store, 4 tile_zero
  step  conv: tensorize -> 6 tile_dot_bf16, 6 tile_load, 2 tile_store, 2 tile_zero
  step  conv: tile of 6 rows by 4 vectors of 16 lanes, depth over co, ci; outer loops over (), columns inside; threads share tiles of rows
  step  conv, 6 rows by 4 vectors: distribute_loops r, v, l over 2
  step  conv, 6 rows by 4 vectors: reorder co, ci, r of conv, v of conv, l of conv
  step  conv, 6 rows by 4 vectors: decompose_reduction conv co -> conv_init
  step  conv, 6 rows by 4 vectors: unroll r of conv_init
  step  conv, 6 rows by 4 vectors: unroll v of conv_init
  step  conv, 6 rows by 4 vectors: vectorize l of conv_init
  step  conv, 6 rows by 4 vectors: reorder l, r, v of conv
  step  conv, 6 rows by 4 vectors: vectorize l of conv
  step  conv, 6 rows by 4 vectors: unroll_and_jam conv r, v of conv
  step  conv, 6 rows by 4 vectors: unroll r of conv_store
  step  conv, 6 rows by 4 vectors: reorder l, v of conv_store
  step  conv, 6 rows by 4 vectors: vectorize l of conv_store
  step  conv, 6 rows by 4 vectors: unroll_and_jam conv_store v of conv_store
  step  conv, 4 rows by 4 vectors: distribute_loops r, v, l over 2
  step  conv, 4 rows by 4 vectors: reorder co, ci, r of conv, v of conv, l of conv
  step  conv, 4 rows by 4 vectors: decompose_reduction conv co -> conv_init
  step  conv, 4 rows by 4 vectors: unroll r of conv_init
  step  conv, 4 rows by 4 vectors: unroll v of conv_init
  step  conv, 4 rows by 4 vectors: vectorize l of conv_init
  step  conv, 4 rows by 4 vectors: reorder l, r, v of conv
  step  conv, 4 rows by 4 vectors: vectorize l of conv
  step  conv, 4 rows by 4 vectors: unroll_and_jam conv r, v of conv
  step  conv, 4 rows by 4 vectors: unroll r of conv_store
  step  conv, 4 rows by 4 vectors: reorder l, v of conv_store
  step  conv, 4 rows by 4 vectors: vectorize l of conv_store
  step  conv, 4 rows by 4 vectors: unroll_and_jam conv_store v of conv_store
  step  conv: bf16x3 where exponents allow
  step  bias: collapse_axes i2, i3 -> m
  step  bias: partition m at 192 -> m, m_tail
  step  bias: vectorize m_tail
  step  bias: split m by 16 -> m_0, m_1
  step  bias: vectorize m_1
  stage conv: split-bf16
  stage bias: elementwise
