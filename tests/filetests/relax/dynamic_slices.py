# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((4, 4), dtype="float32"), p1: R.Tensor((2,), dtype="int64"), p2: R.Tensor((2,), dtype="int64"), p3: R.Tensor((2,), dtype="int64"), p4: R.Tensor((2,), dtype="int64"), p5: R.Tensor((2,), dtype="int64"), p6: R.Tensor((2,), dtype="int64"), p7: R.Tensor((2,), dtype="int64"), p8: R.Tensor((2,), dtype="int64"), p9: R.Tensor((2,), dtype="int64"), p10: R.Tensor((2,), dtype="int64"), p11: R.Tensor((2,), dtype="int64"), p12: R.Tensor((2,), dtype="int64")) -> R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Tensor(dtype="float32", ndim=2), R.Tensor(dtype="float32", ndim=2), R.Tensor(dtype="float32", ndim=2)):
        with R.dataflow():
            lv: R.Tensor(dtype="float32", ndim=2) = R.dynamic_strided_slice(p0, p1, p2, p3)
            lv1: R.Tensor(dtype="float32", ndim=2) = R.dynamic_strided_slice(p0, p4, p5, p6)
            lv2: R.Tensor(dtype="float32", ndim=2) = R.dynamic_strided_slice(p0, p7, p8, p9)
            lv3: R.Tensor(dtype="float32", ndim=2) = R.dynamic_strided_slice(p0, p10, p11, p12)
            gv: R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Tensor(dtype="float32", ndim=2), R.Tensor(dtype="float32", ndim=2), R.Tensor(dtype="float32", ndim=2)) = lv, lv1, lv2, lv3
            R.output(gv)
        return gv
# case
# in float32 (4,4) 0.117039882 0.814006507 0.497867405 0.248279199 0.776686132 0.979228318 0.538343251 0.737150252 0.992760718 0.0301274955 0.598977625 0.967295289 0.117336571 0.223101497 0.550228417 0.722327292
# in int64 (2) 1 -3
# in int64 (2) 4 10
# in int64 (2) 2 1
# in int64 (2) 3 3
# in int64 (2) -10 0
# in int64 (2) -2 -1
# in int64 (2) 0 0
# in int64 (2) 4 4
# in int64 (2) 1 1
# in int64 (2) -2 1
# in int64 (2) -1 1
# in int64 (2) 1 1
# out float32 (2,3) 0.979228318 0.538343251 0.737150252 0.223101497 0.550228417 0.722327292
# out float32 (2,3) 0.722327292 0.550228417 0.223101497 0.737150252 0.538343251 0.979228318
# out float32 (4,4) 0.117039882 0.814006507 0.497867405 0.248279199 0.776686132 0.979228318 0.538343251 0.737150252 0.992760718 0.0301274955 0.598977625 0.967295289 0.117336571 0.223101497 0.550228417 0.722327292
# out float32 (1,0)
