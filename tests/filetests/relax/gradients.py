# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((3, 2), dtype="float32"), p1: R.Tensor((3, 4), dtype="float32"), p2: R.Tensor((2,), dtype="int64"), p3: R.Tensor((2, 4), dtype="float32"), p4: R.Tensor((2,), dtype="int64"), p5: R.Tensor((5,), dtype="float32"), p6: R.Tensor((3,), dtype="float32"), p7: R.Tensor((3,), dtype="int64"), p8: R.Tensor((), dtype="float32"), p9: R.Tensor((3,), dtype="int64"), p10: R.Tensor((4,), dtype="float32"), p11: R.Tensor((2, 4, 3), dtype="float32"), p12: R.Tensor((2, 3), dtype="int64"), p13: R.Tensor((2, 3), dtype="float32"), p14: R.Tensor((4,), dtype="float32"), p15: R.Tensor((), dtype="int64")) -> R.Tuple(R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((5,), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((2, 4, 3), dtype="float32"), R.Tensor((2, 4, 3), dtype="float32"), R.Tensor((4,), dtype="float32")):
        with R.dataflow():
            lv: R.Tensor((3, 4), dtype="float32") = R.grad.take_backward(p0, p1, p2, axis=1, mode="")
            lv1: R.Tensor((3, 4), dtype="float32") = R.grad.take_backward(p3, p1, p4, axis=0, mode="")
            lv2: R.Tensor((5,), dtype="float32") = R.grad.take_backward(p6, p5, p7, axis=None, mode="")
            lv3: R.Tensor((3, 4), dtype="float32") = R.grad.nll_loss_backward(p8, p1, p9, p10, reduction="mean", ignore_index=-100)
            lv4: R.Tensor((3, 4), dtype="float32") = R.grad.nll_loss_backward(p8, p1, p9, p10, reduction="sum", ignore_index=3)
            lv5: R.Tensor((3, 4), dtype="float32") = R.grad.nll_loss_backward(p6, p1, p9, reduction="none", ignore_index=1)
            lv6: R.Tensor((2, 4, 3), dtype="float32") = R.grad.nll_loss_backward(p8, p11, p12, p10, reduction="mean", ignore_index=2)
            lv7: R.Tensor((2, 4, 3), dtype="float32") = R.grad.nll_loss_backward(p13, p11, p12, p10, reduction="none", ignore_index=-100)
            lv8: R.Tensor((4,), dtype="float32") = R.grad.nll_loss_backward(p8, p14, p15, p10, reduction="mean", ignore_index=-100)
            gv: R.Tuple(R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((5,), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32"), R.Tensor((2, 4, 3), dtype="float32"), R.Tensor((2, 4, 3), dtype="float32"), R.Tensor((4,), dtype="float32")) = lv, lv1, lv2, lv3, lv4, lv5, lv6, lv7, lv8
            R.output(gv)
        return gv
# case
# in float32 (3,2) -0.00700000022 1.046 0.741999984 0.723999977 1.61899996 -1.20599997
# in float32 (3,4) -0.626999974 -1.32099998 -0.108000003 0.999000013 -0.0219999999 0.495999992 -1.91100001 0.147 -0.907000005 1.77499998 0.887000024 0.949000001
# in int64 (2) 1 3
# in float32 (2,4) -0.0579999983 0.612999976 0.657999992 -0.344000012 -0.497000009 -0.115000002 -0.605000019 -0.593999982
# in int64 (2) 2 2
# in float32 (5) -0.282999992 -0.727999985 0.765999973 -1.59599996 0.824000001
# in float32 (3) -0.625999987 -0.546000004 -1.35099995
# in int64 (3) 4 4 0
# in float32 () -0.143999994
# in int64 (3) 1 0 3
# in float32 (4) 0.247999996 0.191 0.533999979 0.0939999968
# in float32 (2,4,3) 1.82000005 0.409000009 -0.574000001 0.953000009 -0.128999993 0.593999982 0.612999976 -0.391000003 -1.92999995 -0.34799999 0.550999999 -0.379999995 0.43900001 0.980000019 -0.54400003 1.23099995 1.62199998 1.079 1.16499996 1.097 2.25500011 0.186000004 0.00200000009 0.602999985
# in int64 (2,3) 1 0 3 2 2 1
# in float32 (2,3) -0.907999992 -1.55299997 -0.882000029 0.372999996 0.47299999 -1.53600001
# in float32 (4) -1.88300002 -0.316000015 -0.187999994 -0.0489999987
# in int64 () 2
# out float32 (3,4) 0 -0.00700000022 0 1.046 0 0.741999984 0 0.723999977 0 1.61899996 0 -1.20599997
# out float32 (3,4) 0 0 0 0 0 0 0 0 -0.555000007 0.497999966 0.0529999733 -0.937999964
# out float32 (5) -1.35099995 0 0 0 -1.17199993
# out float32 (3,4) 0 0.0516022481 0 0 0.0670018718 0 0 0 0 0 0 0.0253958702
# out float32 (3,4) 0 0.027503999 0 0 0.0357119963 0 0 0 0 0 0 0
# out float32 (3,4) 0 0 0 0 0.546000004 0 0 0 0 0 0 1.35099995
# out float32 (2,4,3) 0 0.0493259653 0 0.0379889496 0 0 0 0 0 0 0 0.0186961312 0 0 0 0 0 0.0379889496 0 0 0 0 0 0
# out float32 (2,4,3) 0 0.385143995 0 0.173427999 0 0 0 0 0 0 0 0.0829079971 0 0 0 0 0 0.293375999 -0.199181989 -0.252581984 0 0 0 0
# out float32 (4) 0 0 0.143999994 0
