# after: steps
# precision: f32-fast
# amx
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 768), dtype="float32"), w: R.Tensor((768, 384), dtype="float32"), v: R.Tensor((768, 64), dtype="float32")) -> R.Tuple(R.Tensor(("n", 384), dtype="float32"), R.Tensor(("n", 64), dtype="float32")):
        h: R.Tensor(("n", 384), dtype="float32") = R.matmul(x, w)
        y: R.Tensor(("n", 384), dtype="float32") = R.nn.relu(h)
        z: R.Tensor(("n", 64), dtype="float32") = R.matmul(x, v)
        return (y, z)
# ----
fused_mat_mul_max
  step  terms: specialize p where n * 384 >= 5000, else p_else
  step  terms: split p by 2048 -> p_0, p_1
  step  terms: split p_1 by 16 -> p_1_0, p_1_1
  step  terms: vectorize p_1_1
  step  terms: parallel p_0
  step  terms: split p_else by 16 -> p_else_0, p_else_1
  step  terms: vectorize p_else_1
  step  terms: parallel c of terms
  step  terms: split c of terms #2 by 16 -> c_0, c_1
  step  terms: vectorize c_1
  step  terms: specialize p where n * 384 >= 4000, else p_else
  step  terms: split p by 2048 -> p_0, p_1
  step  terms: split p_1 by 16 -> p_1_0, p_1_1
  step  terms: vectorize p_1_1
  step  terms: parallel p_0
  step  terms: split p_else by 16 -> p_else_0, p_else_1
  step  terms: vectorize p_else_1
  step  terms: parallel c of terms
  step  terms: split c of terms #2 by 16 -> c_0, c_1
  step  terms: vectorize c_1
  step  matmul: tile of 32 rows by 2 vectors of 16 lanes, depth over v_k0; outer loops over (), columns inside; threads share tiles of columns; split-bf16 on AMX tiles
  step  matmul: blocks of 2 tiles of rows
  step  matmul: tensorize -> 12 tile_dot_bf16, 8 tile_load, 4 tile_store, 4 tile_zero
  step  matmul: tensorize -> 6 tile_dot_bf16, 6 tile_load, 2 tile_store, 2 tile_zero
  step  matmul, 4 rows by 2 vectors: distribute_loops r, v, l over 2
  step  matmul, 4 rows by 2 vectors: reorder k0, r of matmul, v of matmul, l of matmul
  step  matmul, 4 rows by 2 vectors: decompose_reduction matmul k0 -> matmul_init
  step  matmul, 4 rows by 2 vectors: unroll r of matmul_init
  step  matmul, 4 rows by 2 vectors: unroll v of matmul_init
  step  matmul, 4 rows by 2 vectors: vectorize l of matmul_init
  step  matmul, 4 rows by 2 vectors: reorder l, r, v of matmul
  step  matmul, 4 rows by 2 vectors: vectorize l of matmul
  step  matmul, 4 rows by 2 vectors: unroll_and_jam matmul r, v of matmul
  step  matmul, 4 rows by 2 vectors: cache_read_at matmul_store acc r of matmul_store Local -> acc_local
  step  matmul, 4 rows by 2 vectors: unroll r of acc_local
  step  matmul, 4 rows by 2 vectors: unroll v of acc_local
  step  matmul, 4 rows by 2 vectors: vectorize l of acc_local
  step  matmul, 4 rows by 2 vectors: reorder l, v of matmul_store
  step  matmul, 4 rows by 2 vectors: vectorize l of matmul_store
  step  matmul, 4 rows by 2 vectors: unroll_and_jam matmul_store v of matmul_store
  step  matmul, 1 rows by 2 vectors: distribute_loops r, v, l over 2
  step  matmul, 1 rows by 2 vectors: reorder k0, r of matmul, v of matmul, l of matmul
  step  matmul, 1 rows by 2 vectors: decompose_reduction matmul k0 -> matmul_init
  step  matmul, 1 rows by 2 vectors: unroll r of matmul_init
  step  matmul, 1 rows by 2 vectors: unroll v of matmul_init
  step  matmul, 1 rows by 2 vectors: vectorize l of matmul_init
  step  matmul, 1 rows by 2 vectors: reorder l, r, v of matmul
  step  matmul, 1 rows by 2 vectors: vectorize l of matmul
  step  matmul, 1 rows by 2 vectors: unroll_and_jam matmul r, v of matmul
  step  matmul, 1 rows by 2 vectors: unroll r of matmul_store
  step  matmul, 1 rows by 2 vectors: reorder l, v of matmul_store
  step  matmul, 1 rows by 2 vectors: vectorize l of matmul_store
  step  matmul, 1 rows by 2 vectors: unroll_and_jam matmul_store v of matmul_store
  step  matmul: tile of 8 rows by 2 vectors of 16 lanes, depth over v_k0; outer loops over (), columns inside; threads share tiles of columns
  step  matmul, 8 rows by 2 vectors: distribute_loops r, v, l over 2
  step  matmul, 8 rows by 2 vectors: reorder k0, r of matmul, v of matmul, l of matmul
  step  matmul, 8 rows by 2 vectors: decompose_reduction matmul k0 -> matmul_init
  step  matmul, 8 rows by 2 vectors: unroll r of matmul_init
  step  matmul, 8 rows by 2 vectors: unroll v of matmul_init
  step  matmul, 8 rows by 2 vectors: vectorize l of matmul_init
  step  matmul, 8 rows by 2 vectors: reorder l, r, v of matmul
  step  matmul, 8 rows by 2 vectors: vectorize l of matmul
  step  matmul, 8 rows by 2 vectors: unroll_and_jam matmul r, v of matmul
  step  matmul, 8 rows by 2 vectors: cache_read_at matmul_store acc r of matmul_store Local -> acc_local
  step  matmul, 8 rows by 2 vectors: unroll r of acc_local
  step  matmul, 8 rows by 2 vectors: unroll v of acc_local
  step  matmul, 8 rows by 2 vectors: vectorize l of acc_local
  step  matmul, 8 rows by 2 vectors: reorder l, v of matmul_store
  step  matmul, 8 rows by 2 vectors: vectorize l of matmul_store
  step  matmul, 8 rows by 2 vectors: unroll_and_jam matmul_store v of matmul_store
  step  matmul: bf16x3 where exponents allow
  stage matmul: split-bf16
  stage binary: epilogue of split-bf16
mat_mul
  step  matmul: tile of 8 rows by 2 vectors of 16 lanes, depth over v_k0; outer loops over (), columns inside; threads share tiles of rows
  step  matmul, 8 rows by 2 vectors: distribute_loops r, v, l over 2
  step  matmul, 8 rows by 2 vectors: reorder k0, r of matmul, v of matmul, l of matmul
  step  matmul, 8 rows by 2 vectors: decompose_reduction matmul k0 -> matmul_init
  step  matmul, 8 rows by 2 vectors: unroll r of matmul_init
  step  matmul, 8 rows by 2 vectors: unroll v of matmul_init
  step  matmul, 8 rows by 2 vectors: vectorize l of matmul_init
  step  matmul, 8 rows by 2 vectors: reorder l, r, v of matmul
  step  matmul, 8 rows by 2 vectors: vectorize l of matmul
  step  matmul, 8 rows by 2 vectors: unroll_and_jam matmul r, v of matmul
  step  matmul, 8 rows by 2 vectors: unroll r of matmul_store
  step  matmul, 8 rows by 2 vectors: reorder l, v of matmul_store
  step  matmul, 8 rows by 2 vectors: vectorize l of matmul_store
  step  matmul, 8 rows by 2 vectors: unroll_and_jam matmul_store v of matmul_store
  step  matmul, 1 rows by 2 vectors: distribute_loops r, v, l over 2
  step  matmul, 1 rows by 2 vectors: reorder k0, r of matmul, v of matmul, l of matmul
  step  matmul, 1 rows by 2 vectors: decompose_reduction matmul k0 -> matmul_init
  step  matmul, 1 rows by 2 vectors: unroll r of matmul_init
  step  matmul, 1 rows by 2 vectors: unroll v of matmul_init
  step  matmul, 1 rows by 2 vectors: vectorize l of matmul_init
  step  matmul, 1 rows by 2 vectors: reorder l, r, v of matmul
  step  matmul, 1 rows by 2 vectors: vectorize l of matmul
  step  matmul, 1 rows by 2 vectors: unroll_and_jam matmul r, v of matmul
  step  matmul, 1 rows by 2 vectors: unroll r of matmul_store
  step  matmul, 1 rows by 2 vectors: reorder l, v of matmul_store
  step  matmul, 1 rows by 2 vectors: vectorize l of matmul_store
  step  matmul, 1 rows by 2 vectors: unroll_and_jam matmul_store v of matmul_store
  stage matmul: gemm; not split-bf16: too few multiply-adds for each element
