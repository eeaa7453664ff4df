# after: bytecode
from typing import TypeVar
from tvm.script import ir as I
from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 8), dtype="float32"), w: R.Tensor((8, 8), dtype="float32")) -> R.Tensor((n, 8), dtype="float32"):
        a: R.Tensor((n, 8), dtype="float32") = R.matmul(x, w)
        b: R.Tensor((n, 8), dtype="float32") = R.matmul(a, w)
        c: R.Tensor((n, 8), dtype="float32") = R.matmul(b, w)
        d: R.Tensor((n, 8), dtype="float32") = R.matmul(c, w)
        return d
# ----
@main:
  call  vm.builtin.alloc_shape_heap in: %vm, i1      dst: %2
  call  vm.builtin.check_tensor_info in: %0, i2, c[0], c[1] dst: %void
  call  vm.builtin.check_tensor_info in: %1, i2, c[0], c[2] dst: %void
  call  vm.builtin.match_shape in: %0, %2, i2, i1, i0, i0, i8, c[1] dst: %void
  call  vm.builtin.match_shape in: %1, %void, i2, i0, i8, i0, i8, c[2] dst: %void
  call  vm.builtin.make_shape in: %2, i2, i1, i0, i0, i8 dst: %3
  call  vm.builtin.alloc_storage in: %vm, %3, i0, c[0], c[3] dst: %4
  call  vm.builtin.alloc_tensor in: %4, i0, %3, c[0] dst: %5
  call  mat_mul          in: %0, %1, %5   dst: %void
  call  vm.builtin.alloc_storage in: %vm, %3, i0, c[0], c[3] dst: %6
  call  vm.builtin.alloc_tensor in: %6, i0, %3, c[0] dst: %7
  call  vm.builtin.null_value in:              dst: %6
  call  mat_mul          in: %5, %1, %7   dst: %void
  call  vm.builtin.null_value in:              dst: %5
  call  vm.builtin.alloc_tensor in: %4, i0, %3, c[0] dst: %8
  call  vm.builtin.null_value in:              dst: %4
  call  mat_mul          in: %7, %1, %8   dst: %void
  call  vm.builtin.null_value in:              dst: %7
  call  vm.builtin.alloc_storage in: %vm, %3, i0, c[0], c[3] dst: %9
  call  vm.builtin.alloc_tensor in: %9, i0, %3, c[0] dst: %10
  call  vm.builtin.null_value in:              dst: %9
  call  mat_mul          in: %8, %1, %10  dst: %void
  call  vm.builtin.null_value in:              dst: %8
  ret   %10

@vm.builtin.alloc_shape_heap packed_func;

@vm.builtin.check_tensor_info packed_func;

@vm.builtin.match_shape packed_func;

@vm.builtin.make_shape packed_func;

@vm.builtin.alloc_storage packed_func;

@vm.builtin.alloc_tensor packed_func;

@mat_mul packed_func;

@vm.builtin.null_value packed_func;
