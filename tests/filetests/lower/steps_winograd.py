# after: steps
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 16, 16, 14), dtype="float32")) -> R.Tensor((1, 32, 16, 14), dtype="float32"):
        u: R.Tensor((32, 16, 1, 1), dtype="float32") = R.zeros(R.shape([32, 16, 1, 1]), dtype="float32")
        v: R.Tensor((32, 32, 3, 3), dtype="float32") = R.zeros(R.shape([32, 32, 3, 3]), dtype="float32")
        a: R.Tensor((1, 32, 16, 14), dtype="float32") = R.nn.conv2d(x, u)
        b: R.Tensor((1, 32, 16, 14), dtype="float32") = R.nn.conv2d(a, v, padding=[1, 1, 1, 1])
        c: R.Tensor((1, 32, 16, 14), dtype="float32") = R.nn.relu(b)
        return c
# ----
conv
  step  conv: v_i1 split into blocks of 16
  step  bias: v_i1 split into blocks of 16
  step  conv: tile of 4 rows by 2 vectors of 8 lanes, depth over v_k0; outer loops over (co), columns inside; threads share tiles of rows
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
  stage conv: gemm
  stage bias: epilogue of gemm
fused_conv_max
  step  pad: v_i1 split into blocks of 16
  step  input_tiles: v_i5 split into blocks of 16
  step  output_tiles: v_i1 split into blocks of 16
  step  bias: v_i1 split into blocks of 16
  step  pad: parallel i2
  step  pad: split ci by 8 -> ci_0, ci_1
  step  pad: vectorize ci_1
  step  input_tiles: constant matrices of 6x6 and 6x6 unrolled for each column and row of a tile, vectors of 16 lanes
  step  products: tile of 4 rows by 2 vectors of 8 lanes, depth over v_k0; outer loops over (m), columns inside; threads share the outermost loop
  step  products, 4 rows by 2 vectors: distribute_loops r, v, l over 2
  step  products, 4 rows by 2 vectors: reorder k0, r of products, v of products, l of products
  step  products, 4 rows by 2 vectors: decompose_reduction products k0 -> products_init
  step  products, 4 rows by 2 vectors: unroll r of products_init
  step  products, 4 rows by 2 vectors: unroll v of products_init
  step  products, 4 rows by 2 vectors: vectorize l of products_init
  step  products, 4 rows by 2 vectors: reorder l, r, v of products
  step  products, 4 rows by 2 vectors: vectorize l of products
  step  products, 4 rows by 2 vectors: unroll_and_jam products r, v of products
  step  products, 4 rows by 2 vectors: unroll r of products_store
  step  products, 4 rows by 2 vectors: reorder l, v of products_store
  step  products, 4 rows by 2 vectors: vectorize l of products_store
  step  products, 4 rows by 2 vectors: unroll_and_jam products_store v of products_store
  step  output_tiles: constant matrices of 4x6 and 4x6 unrolled for each column and row of a tile, vectors of 16 lanes
  step  bias: collapse_axes i2, i3 -> m
  step  bias: split m by 8 -> m_0, m_1
  step  bias: vectorize m_1
  step  binary: collapse_axes i2, i3 -> m
  step  binary: collapse_axes i1, m -> m
  step  binary: split m by 8 -> m_0, m_1
  step  binary: vectorize m_1
  stage pad: elementwise
  stage input_tiles: winograd transform
  stage products: gemm
  stage output_tiles: winograd transform
  stage bias: elementwise
  stage binary: elementwise
