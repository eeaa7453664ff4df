# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((3, 2, 4), dtype="float32"), p1: R.Tensor((9,), dtype="int64"), p2: R.Tensor((4, 3), dtype="int64"), p3: R.Tensor((2, 2), dtype="int32"), p4: R.Tensor((9,), dtype="bool")) -> R.Tuple(R.Tensor(dtype="int64", ndim=2), R.Tensor(dtype="int64", ndim=2), R.Tensor(dtype="int64", ndim=2), R.Tensor(dtype="int64", ndim=2), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="float32", ndim=1), R.Tuple(R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1)), R.Tuple(R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1)), R.Tuple(R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1)), R.Tuple(R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1)), R.Tuple(R.Tensor(dtype="int64", ndim=2), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1)), R.Tuple(R.Tensor(dtype="int64", ndim=2), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1))):
        with R.dataflow():
            lv: R.Tensor(dtype="int64", ndim=2) = R.nonzero(p0)
            lv1: R.Tensor(dtype="int64", ndim=2) = R.nonzero(p1)
            lv2: R.Tensor(dtype="int64", ndim=2) = R.nonzero(p3)
            lv3: R.Tensor(dtype="int64", ndim=2) = R.nonzero(p4)
            lv4: R.Tensor(dtype="int64", ndim=1) = R.unique(p1, True, False, False, False)
            lv5: R.Tensor(dtype="float32", ndim=1) = R.unique(p0, False, False, False, False)
            lv6: R.Tuple(R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1)) = R.unique(p1, True, True, True, True)
            lv7: R.Tuple(R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1)) = R.unique(p1, False, True, True, True)
            lv8: R.Tuple(R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1)) = R.unique(p1, True, False, False, True)
            lv9: R.Tuple(R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1)) = R.unique(p1, False, False, True, False)
            lv10: R.Tuple(R.Tensor(dtype="int64", ndim=2), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1)) = R.unique(p2, True, True, True, True, 0)
            lv11: R.Tuple(R.Tensor(dtype="int64", ndim=2), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1)) = R.unique(p2, True, True, False, True, -1)
            gv: R.Tuple(R.Tensor(dtype="int64", ndim=2), R.Tensor(dtype="int64", ndim=2), R.Tensor(dtype="int64", ndim=2), R.Tensor(dtype="int64", ndim=2), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="float32", ndim=1), R.Tuple(R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1)), R.Tuple(R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1)), R.Tuple(R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1)), R.Tuple(R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1)), R.Tuple(R.Tensor(dtype="int64", ndim=2), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1)), R.Tuple(R.Tensor(dtype="int64", ndim=2), R.Tensor(dtype="int64", ndim=1), R.Tensor(dtype="int64", ndim=1))) = lv, lv1, lv2, lv3, lv4, lv5, lv6, lv7, lv8, lv9, lv10, lv11
            R.output(gv)
        return gv
# case
# in float32 (3,2,4) 2 2 2 2 0 2 2 0 0 0 2 2 1 1 2 0 2 2 0 2 2 0 1 2
# in int64 (9) 3 -2 1 0 0 2 2 0 3
# in int64 (4,3) 1 0 3 3 1 0 1 0 3 0 9 9
# in int32 (2,2) 0 0 0 0
# in bool (9) 1 0 0 0 0 1 1 0 1
# out int64 (3,17) 0 0 0 0 0 0 1 1 1 1 1 2 2 2 2 2 2 0 0 0 0 1 1 0 0 1 1 1 0 0 0 1 1 1 0 1 2 3 1 2 2 3 0 1 2 0 1 3 0 2 3
# out int64 (1,6) 0 1 2 5 6 8
# out int64 (2,0)
# out int64 (1,4) 0 5 6 8
# out int64 (5) -2 0 1 2 3
# out float32 (3) 2 0 1
# out int64 (5) -2 0 1 2 3
# out int64 (5) 1 3 2 5 0
# out int64 (9) 4 0 2 1 1 3 3 1 4
# out int64 (5) 1 3 1 2 2
# out int64 (5) 3 -2 1 0 2
# out int64 (5) 0 1 2 3 5
# out int64 (9) 0 1 2 3 3 4 4 3 0
# out int64 (5) 2 1 1 3 2
# out int64 (5) -2 0 1 2 3
# out int64 (5) 1 3 1 2 2
# out int64 (5) 3 -2 1 0 2
# out int64 (9) 0 1 2 3 3 4 4 3 0
# out int64 (3,3) 0 9 9 1 0 3 3 1 0
# out int64 (3) 3 0 1
# out int64 (4) 1 2 1 0
# out int64 (3) 1 2 1
# out int64 (4,3) 0 1 3 1 3 0 0 1 3 9 0 9
# out int64 (3) 1 0 2
# out int64 (3) 1 1 1
