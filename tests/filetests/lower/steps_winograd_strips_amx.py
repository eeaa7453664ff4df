# after: steps
# amx
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 16, 40, 38), dtype="float32")) -> R.Tensor((1, 32, 40, 38), dtype="float32"):
        u: R.Tensor((32, 16, 1, 1), dtype="float32") = R.zeros(R.shape([32, 16, 1, 1]), dtype="float32")
        v: R.Tensor((32, 32, 3, 3), dtype="float32") = R.zeros(R.shape([32, 32, 3, 3]), dtype="float32")
        a: R.Tensor((1, 32, 40, 38), dtype="float32") = R.nn.conv2d(x, u)
        b: R.Tensor((1, 32, 40, 38), dtype="float32") = R.nn.conv2d(a, v, padding=[1, 1, 1, 1])
        c: R.Tensor((1, 32, 40, 38), dtype="float32") = R.nn.relu(b)
        return c
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
  step  conv, 8 rows by 2 vectors: distribute_loops r, v, l over 2
  step  conv, 8 rows by 2 vectors: reorder k0, r of conv, v of conv, l of conv
  step  conv, 8 rows by 2 vectors: decompose_reduction conv k0 -> conv_init
  step  conv, 8 rows by 2 vectors: unroll r of conv_init
  step  conv, 8 rows by 2 vectors: unroll v of conv_init
  step  conv, 8 rows by 2 vectors: vectorize l of conv_init
  step  conv, 8 rows by 2 vectors: reorder l, r, v of conv
  step  conv, 8 rows by 2 vectors: vectorize l of conv
  step  conv, 8 rows by 2 vectors: unroll_and_jam conv r, v of conv
  step  conv, 8 rows by 2 vectors: cache_read_at conv_store acc r of conv_store Local -> acc_local
  step  conv, 8 rows by 2 vectors: unroll r of acc_local
  step  conv, 8 rows by 2 vectors: unroll v of acc_local
  step  conv, 8 rows by 2 vectors: vectorize l of acc_local
  step  conv, 8 rows by 2 vectors: reorder l, v of conv_store
  step  conv, 8 rows by 2 vectors: vectorize l of conv_store
  step  conv, 8 rows by 2 vectors: unroll_and_jam conv_store v of conv_store
  stage conv: gemm
  stage bias: epilogue of gemm
fused_conv_max
  step  pad: v_i1 split into blocks of 16
  step  input_tiles: v_i5 split into blocks of 16
  step  output_tiles: v_i1 split into blocks of 16
  step  bias: v_i1 split into blocks of 16
  step  input_tiles, products, output_tiles: in strips of 2 rows of tiles
  step  pad: vectorize ci
  step  input_tiles: constant matrices of 6x6 and 6x6 unrolled for each column and row of a tile, vectors of 16 lanes
  step  products: tile of 10 rows by 2 vectors of 16 lanes, depth over v_k0; outer loops over (m), columns inside; no threads
  step  products, 10 rows by 2 vectors: distribute_loops r, v, l over 2
  step  products, 10 rows by 2 vectors: reorder k0, r of products, v of products, l of products
  step  products, 10 rows by 2 vectors: decompose_reduction products k0 -> products_init
  step  products, 10 rows by 2 vectors: unroll r of products_init
  step  products, 10 rows by 2 vectors: unroll v of products_init
  step  products, 10 rows by 2 vectors: vectorize l of products_init
  step  products, 10 rows by 2 vectors: reorder l, r, v of products
  step  products, 10 rows by 2 vectors: vectorize l of products
  step  products, 10 rows by 2 vectors: unroll_and_jam products r, v of products
  step  products, 10 rows by 2 vectors: unroll r of products_store
  step  products, 10 rows by 2 vectors: reorder l, v of products_store
  step  products, 10 rows by 2 vectors: vectorize l of products_store
  step  products, 10 rows by 2 vectors: unroll_and_jam products_store v of products_store
  step  output_tiles: constant matrices of 4x6 and 4x6 unrolled for each column and row of a tile, vectors of 16 lanes
  step  input_tiles, products, output_tiles: threads share the strips
  step  bias: collapse_axes i2, i3 -> m
  step  bias: split ci by 16 -> ci_0, ci_1
  step  bias: split m by 16 -> m_0, m_1
  step  bias: reorder co, ci_0, m_0, ci_1, m_1
  step  bias: vectorize m_1
  step  binary: collapse_axes i2, i3 -> m
  step  binary: collapse_axes i1, m -> m
  step  binary: partition m at 47104 -> m, m_tail
  step  binary: split m by 2048 -> m_0, m_1
  step  binary: split m_1 by 16 -> m_1_0, m_1_1
  step  binary: vectorize m_1_1
  step  binary: parallel m_0
  step  binary: split m_tail by 16 -> m_tail_0, m_tail_1
  step  binary: vectorize m_tail_1
  stage pad: elementwise
  stage input_tiles: winograd transform
  stage products: gemm
  stage output_tiles: winograd transform
  stage bias: elementwise
  stage binary: elementwise
