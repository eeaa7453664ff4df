# after: steps
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 40, 28, 28), dtype="float32")) -> R.Tensor((1, 48, 28, 28), dtype="float32"):
        u: R.Tensor((240, 40, 1, 1), dtype="float32") = R.zeros(R.shape([240, 40, 1, 1]), dtype="float32")
        v: R.Tensor((240, 1, 5, 5), dtype="float32") = R.zeros(R.shape([240, 1, 5, 5]), dtype="float32")
        w: R.Tensor((40, 240, 1, 1), dtype="float32") = R.zeros(R.shape([40, 240, 1, 1]), dtype="float32")
        s: R.Tensor((48, 40, 1, 1), dtype="float32") = R.zeros(R.shape([48, 40, 1, 1]), dtype="float32")
        a: R.Tensor((1, 240, 28, 28), dtype="float32") = R.nn.conv2d(x, u)
        b: R.Tensor((1, 240, 28, 28), dtype="float32") = R.nn.conv2d(a, v, padding=[2, 2, 2, 2], groups=240)
        c: R.Tensor((1, 40, 28, 28), dtype="float32") = R.nn.conv2d(b, w)
        d: R.Tensor((1, 48, 28, 28), dtype="float32") = R.nn.conv2d(c, s)
        return d
# ----
conv
  step  conv: v_i1 split into blocks of 16
  step  bias: v_i1 split into blocks of 16
  step  conv: tile of 4 rows by 2 vectors of 8 lanes, depth over v_k0; outer loops over (co), columns inside; threads share the outermost loop
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
conv1
  step  pad: v_i1 split into blocks of 16
  step  conv: v_i1 split into blocks of 16
  step  bias: v_i1 split into blocks of 16
  step  pad: split ci by 8 -> ci_0, ci_1
  step  pad: vectorize ci_1
  step  conv: tile of 4 rows by 2 vectors of 8 lanes, depth over v_k1, v_k2; outer loops over (v_i2), columns inside; no threads
  step  conv, 4 rows by 2 vectors: distribute_loops r, v, l over 2
  step  conv, 4 rows by 2 vectors: reorder k1, k2, r of conv, v of conv, l of conv
  step  conv, 4 rows by 2 vectors: decompose_reduction conv k1 -> conv_init
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
  step  pad, conv: plane by plane of a block of channels
  step  pad, conv: threads share the planes
  stage pad: elementwise
  stage conv: gemm
  stage bias: epilogue of gemm
conv2
  step  conv: v_i1 split into blocks of 8
  step  conv: v_k0 split into blocks of 16
  step  bias: v_i1 split into blocks of 8
  step  conv: tile of 4 rows by 3 vectors of 8 lanes, depth over co, ci; outer loops over (), columns inside; threads share tiles of rows
  step  conv, 4 rows by 3 vectors: distribute_loops r, v, l over 2
  step  conv, 4 rows by 3 vectors: reorder co, ci, r of conv, v of conv, l of conv
  step  conv, 4 rows by 3 vectors: decompose_reduction conv co -> conv_init
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
  step  conv, 4 rows by 2 vectors: distribute_loops r, v, l over 2
  step  conv, 4 rows by 2 vectors: reorder co, ci, r of conv, v of conv, l of conv
  step  conv, 4 rows by 2 vectors: decompose_reduction conv co -> conv_init
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
conv3
  step  conv: v_i1 split into blocks of 16
  step  conv: v_k0 split into blocks of 8
  step  bias: v_i1 split into blocks of 16
  step  conv: tile of 4 rows by 2 vectors of 8 lanes, depth over co, ci; outer loops over (co), columns inside; threads share tiles of rows
  step  conv, 4 rows by 2 vectors: distribute_loops r, v, l over 2
  step  conv, 4 rows by 2 vectors: reorder co, ci, r of conv, v of conv, l of conv
  step  conv, 4 rows by 2 vectors: decompose_reduction conv co -> conv_init
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
  step  bias: collapse_axes i2, i3 -> m
  step  bias: split ci by 16 -> ci_0, ci_1
  step  bias: split m by 8 -> m_0, m_1
  step  bias: reorder co, ci_0, m_0, ci_1, m_1
  step  bias: vectorize m_1
  stage conv: gemm
  stage bias: elementwise
