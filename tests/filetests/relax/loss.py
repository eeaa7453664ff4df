# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((3, 4), dtype="float32"), p1: R.Tensor((3,), dtype="int64"), p2: R.Tensor((4,), dtype="float32"), p3: R.Tensor((2, 4, 3), dtype="float32"), p4: R.Tensor((2, 3), dtype="int64"), p5: R.Tensor((4,), dtype="float32"), p6: R.Tensor((), dtype="int64")) -> R.Tuple(R.Tensor((), dtype="float32"), R.Tensor((), dtype="float32"), R.Tensor((3,), dtype="float32"), R.Tensor((), dtype="float32"), R.Tensor((), dtype="float32")):
        with R.dataflow():
            lv: R.Tensor((), dtype="float32") = R.nn.nll_loss(p0, p1, p2, reduction="mean", ignore_index=-100)
            lv1: R.Tensor((), dtype="float32") = R.nn.nll_loss(p0, p1, p2, reduction="sum", ignore_index=3)
            lv2: R.Tensor((3,), dtype="float32") = R.nn.nll_loss(p0, p1, reduction="none", ignore_index=1)
            lv3: R.Tensor((), dtype="float32") = R.nn.nll_loss(p3, p4, p2, reduction="mean", ignore_index=2)
            lv4: R.Tensor((), dtype="float32") = R.nn.nll_loss(p5, p6, p2, reduction="mean", ignore_index=-100)
            gv: R.Tuple(R.Tensor((), dtype="float32"), R.Tensor((), dtype="float32"), R.Tensor((3,), dtype="float32"), R.Tensor((), dtype="float32"), R.Tensor((), dtype="float32")) = lv, lv1, lv2, lv3, lv4
            R.output(gv)
        return gv
# case
# in float32 (3,4) 0.500999987 -0.504999995 4.29099989 -1.29299998 0.527999997 0.574000001 1.23800004 0.924000025 0.871999979 1.98699999 -2.98699999 0.0430000015
# in int64 (3) 1 0 3
# in float32 (4) 4.30499983 2.6329999 4.98199987 3.1559999
# in float32 (2,4,3) 1.70500004 0.763999999 4.88000011 0.188999996 -0.920000017 0.305999994 -2.71099997 0.972000003 -0.192000002 0.68900001 0.748000026 -2.08999991 2.66100001 -2.00099993 1.80499995 -3.15799999 0.772000015 -1.61099994 0.114 -1.273 -4.33699989 -2.20000005 0.166999996 1.278
# in int64 (2,3) 1 0 3 2 2 1
# in float32 (4) -2.90799999 -4.21999979 -1.71399999 -0.39199999
# in int64 () 2
# out float32 () -0.106903397
# out float32 () -0.943374872
# out float32 (3) 0 -0.527999997 -0.0430000015
# out float32 () 0.554030418
# out float32 () 1.71399987
