# after: steps
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3, 64), dtype="float32"), w: R.Tensor((48, 2, 16), dtype="uint8"), s: R.Tensor((48, 2), dtype="float32"), z: R.Tensor((48, 2), dtype="uint8")) -> R.Tensor((3, 48), dtype="float32"):
        a: R.Tensor((3, 48), dtype="float32") = R.reflex.matmul_nbits(x, w, s, z, bits=4, block=32)
        b: R.Tensor((3, 48), dtype="float32") = R.nn.relu(a)
        return b
# ----
fused_mat_mul_nbits_max
  step  inverse: inlined into its readers
  step  magnitude, step, rounded, total, less, words: fuse_adjacent i0 of magnitude, i0 of step
  step  magnitude, step, rounded, total, less, words: fuse_adjacent i0 of magnitude, i0 of rounded
  step  magnitude, step, rounded, total, less, words: fuse_adjacent i0 of magnitude, i0 of total
  step  magnitude, step, rounded, total, less, words: fuse_adjacent i0 of magnitude, i0 of less
  step  magnitude, step, rounded, total, less, words: fuse_adjacent i0 of magnitude, i0 of words
  step  magnitude, step, rounded, total, less, words: fuse_adjacent i1 of magnitude, i1 of step
  step  magnitude, step, rounded, total, less, words: fuse_adjacent i1 of magnitude, i1 of rounded
  step  magnitude, step, rounded, total, less, words: fuse_adjacent i1 of magnitude, i1 of total
  step  magnitude, step, rounded, total, less, words: fuse_adjacent i1 of magnitude, i1 of less
  step  magnitude, step, rounded, total, less, words: fuse_adjacent i1 of magnitude, i1 of words
  step  magnitude, step, rounded, total, less, words: store_at magnitude i1 Local
  step  magnitude, step, rounded, total, less, words: store_at rounded i1 Local
  step  magnitude, step, rounded, total, less, words: store_at total i1 Local
  step  magnitude: rfactor magnitude k0 of magnitude -> magnitude_rf
  step  magnitude: set_scope t5_rf Local
  step  magnitude: decompose_reduction magnitude_rf k0 of magnitude_rf -> magnitude_rf_init
  step  magnitude: split k0 of magnitude_rf_init by 8 -> k0_0, k0_1
  step  magnitude: vectorize k0_1
  step  magnitude: unroll k0_0
  step  magnitude: split k0 of magnitude_rf by 8 -> k0_0, k0_1
  step  magnitude: vectorize k0_1 of magnitude_rf
  step  magnitude: unroll k0_0 of magnitude_rf
  step  magnitude: tree_reduce magnitude k0 of magnitude -> magnitude_half
  step  magnitude: split k0 of magnitude_half by 8 -> k0_0, k0_1
  step  magnitude: vectorize k0_1 of magnitude_half
  step  magnitude: unroll k0_0 of magnitude_half
  step  magnitude: tree_reduce magnitude k0 of magnitude -> magnitude_half_1
  step  magnitude: vectorize k0 of magnitude_half_1
  step  magnitude: tree_reduce magnitude k0 of magnitude -> magnitude_half_2
  step  magnitude: vectorize k0 of magnitude_half_2
  step  magnitude: tree_reduce magnitude k0 of magnitude -> magnitude_half_3
  step  magnitude: vectorize k0 of magnitude_half_3
  step  magnitude: tree_reduce magnitude k0 of magnitude
  step  rounded: split i2 of rounded by 8 -> i2_0, i2_1
  step  rounded: vectorize i2_1
  step  total: rfactor total k0 of total -> total_rf
  step  total: set_scope t9_rf Local
  step  total: decompose_reduction total_rf k0 of total_rf -> total_rf_init
  step  total: split k0 of total_rf_init by 8 -> k0_0, k0_1
  step  total: vectorize k0_1 of total_rf_init
  step  total: unroll k0_0 of total_rf_init
  step  total: split k0 of total_rf by 8 -> k0_0, k0_1
  step  total: vectorize k0_1 of total_rf
  step  total: unroll k0_0 of total_rf
  step  total: tree_reduce total k0 of total -> total_half
  step  total: split k0 of total_half by 8 -> k0_0, k0_1
  step  total: vectorize k0_1 of total_half
  step  total: unroll k0_0 of total_half
  step  total: tree_reduce total k0 of total -> total_half_1
  step  total: vectorize k0 of total_half_1
  step  total: tree_reduce total k0 of total -> total_half_2
  step  total: vectorize k0 of total_half_2
  step  total: tree_reduce total k0 of total -> total_half_3
  step  total: vectorize k0 of total_half_3
  step  total: tree_reduce total k0 of total
  step  words: vectorize i2
  step  codes: parallel i1
  step  codes: split i3 by 8 -> i3_0, i3_1
  step  codes: vectorize i3_1
  step  part: tile of 3 rows by 4 vectors of 8 lanes, depth over m; outer loops over (v_i1), columns inside; no threads; dot products of VNNI-packed 8-bit integers
  step  part, 3 rows by 4 vectors: distribute_loops r, v, l over 2
  step  part, 3 rows by 4 vectors: reorder m, r of part, v of part, l of part
  step  part, 3 rows by 4 vectors: decompose_reduction part m -> part_init
  step  part, 3 rows by 4 vectors: unroll r of part_init
  step  part, 3 rows by 4 vectors: unroll v of part_init
  step  part, 3 rows by 4 vectors: vectorize l of part_init
  step  part, 3 rows by 4 vectors: reorder l, r, v of part
  step  part, 3 rows by 4 vectors: vectorize l of part
  step  part, 3 rows by 4 vectors: unroll_and_jam part r, v of part
  step  part, 3 rows by 4 vectors: unroll r of part_store
  step  part, 3 rows by 4 vectors: reorder l, v of part_store
  step  part, 3 rows by 4 vectors: vectorize l of part_store
  step  part, 3 rows by 4 vectors: unroll_and_jam part_store v of part_store
  step  part, 3 rows by 2 vectors: distribute_loops r, v, l over 2
  step  part, 3 rows by 2 vectors: reorder m, r of part, v of part, l of part
  step  part, 3 rows by 2 vectors: decompose_reduction part m -> part_init
  step  part, 3 rows by 2 vectors: unroll r of part_init
  step  part, 3 rows by 2 vectors: unroll v of part_init
  step  part, 3 rows by 2 vectors: vectorize l of part_init
  step  part, 3 rows by 2 vectors: reorder l, r, v of part
  step  part, 3 rows by 2 vectors: vectorize l of part
  step  part, 3 rows by 2 vectors: unroll_and_jam part r, v of part
  step  part, 3 rows by 2 vectors: unroll r of part_store
  step  part, 3 rows by 2 vectors: reorder l, v of part_store
  step  part, 3 rows by 2 vectors: vectorize l of part_store
  step  part, 3 rows by 2 vectors: unroll_and_jam part_store v of part_store
  step  matmul, binary: fuse_adjacent i0 of matmul, i0 of binary
  step  matmul, binary: fuse_adjacent i1 of matmul, i1 of binary
  step  matmul, binary: store_at matmul i1 Local
  step  matmul: rfactor matmul k0 -> matmul_rf
  step  matmul: set_scope t4_rf Local
  step  matmul: decompose_reduction matmul_rf k0 of matmul_rf -> matmul_rf_init
  step  matmul: vectorize k0 of matmul_rf_init
  step  matmul: vectorize k0 of matmul_rf
  step  matmul: tree_reduce matmul k0 of matmul
  stage magnitude: row reduction
  stage step: elementwise
  stage rounded: elementwise
  stage total: row reduction
  stage less: elementwise
  stage words: elementwise
  stage codes: elementwise
  stage part: gemm
  stage matmul: row reduction
  stage binary: elementwise
