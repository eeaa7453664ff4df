# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((2, 3, 4), dtype="float32"), p1: R.Tensor((2, 3, 4), dtype="float32"), p2: R.Tensor((2, 3, 4), dtype="float32"), p3: R.Tensor((2, 3, 4), dtype="bool"), p4: R.Tensor((2, 3, 4), dtype="bool"), p5: R.Tensor((4,), dtype="int64"), p6: R.Tensor((4,), dtype="int64")) -> R.Tuple(R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((2, 3, 4), dtype="int32"), R.Tensor((4,), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((4,), dtype="int64")):
        with R.dataflow():
            lv: R.Tensor((2, 3, 4), dtype="float32") = R.add(p0, p1)
            lv1: R.Tensor((2, 3, 4), dtype="float32") = R.subtract(p0, p1)
            lv2: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(p0, p1)
            lv3: R.Tensor((2, 3, 4), dtype="float32") = R.divide(p0, p1)
            lv4: R.Tensor((2, 3, 4), dtype="float32") = R.minimum(p0, p1)
            lv5: R.Tensor((2, 3, 4), dtype="float32") = R.maximum(p0, p1)
            lv6: R.Tensor((2, 3, 4), dtype="float32") = R.floor_mod(p0, p1)
            lv7: R.Tensor((2, 3, 4), dtype="float32") = R.mod(p0, p1)
            lv8: R.Tensor((2, 3, 4), dtype="bool") = R.equal(p0, p1)
            lv9: R.Tensor((2, 3, 4), dtype="bool") = R.not_equal(p0, p1)
            lv10: R.Tensor((2, 3, 4), dtype="bool") = R.less(p0, p1)
            lv11: R.Tensor((2, 3, 4), dtype="bool") = R.less_equal(p0, p1)
            lv12: R.Tensor((2, 3, 4), dtype="bool") = R.greater(p0, p1)
            lv13: R.Tensor((2, 3, 4), dtype="bool") = R.greater_equal(p0, p1)
            lv14: R.Tensor((2, 3, 4), dtype="float32") = R.floor_divide(p0, p1)
            lv15: R.Tensor((2, 3, 4), dtype="float32") = R.power(p2, p1)
            lv16: R.Tensor((2, 3, 4), dtype="float32") = R.where(p3, p0, p1)
            lv17: R.Tensor((2, 3, 4), dtype="float32") = R.clip(p0, -1, T.float64(1.5))
            lv18: R.Tensor((2, 3, 4), dtype="bool") = R.logical_and(p3, p4)
            lv19: R.Tensor((2, 3, 4), dtype="bool") = R.logical_or(p3, p4)
            lv20: R.Tensor((2, 3, 4), dtype="bool") = R.logical_xor(p3, p4)
            lv21: R.Tensor((2, 3, 4), dtype="bool") = R.logical_not(p3)
            lv22: R.Tensor((4,), dtype="int64") = R.divide(p5, p6)
            lv23: R.Tensor((4,), dtype="int64") = R.floor_divide(p5, p6)
            lv24: R.Tensor((4,), dtype="int64") = R.mod(p5, p6)
            lv25: R.Tensor((4,), dtype="int64") = R.floor_mod(p5, p6)
            lv26: R.Tensor((4,), dtype="int64") = R.bitwise_and(p5, p6)
            lv27: R.Tensor((4,), dtype="int64") = R.bitwise_or(p5, p6)
            lv28: R.Tensor((4,), dtype="int64") = R.bitwise_xor(p5, p6)
            lv29: R.Tensor((4,), dtype="int64") = R.bitwise_not(p5)
            lv30: R.Tensor((4,), dtype="int64") = R.abs(p5)
            lv31: R.Tensor((4,), dtype="int64") = R.abs(p6)
            lv32: R.Tensor((4,), dtype="int64") = R.left_shift(lv30, lv31)
            lv33: R.Tensor((4,), dtype="int64") = R.abs(p6)
            lv34: R.Tensor((4,), dtype="int64") = R.right_shift(p5, lv33)
            lv35: R.Tensor((2, 3, 4), dtype="int32") = R.astype(p0, dtype="int32")
            lv36: R.Tensor((4,), dtype="float32") = R.astype(p5, dtype="float32")
            lv37: R.Tensor((2, 3, 4), dtype="float32") = R.astype(p3, dtype="float32")
            lv38: R.Tensor((2, 3, 4), dtype="float32") = R.add(p0, R.const(2.5, "float32"))
            lv39: R.Tensor((4,), dtype="int64") = R.multiply(p5, R.const(3, "int64"))
            gv: R.Tuple(R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((2, 3, 4), dtype="bool"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((4,), dtype="int64"), R.Tensor((2, 3, 4), dtype="int32"), R.Tensor((4,), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((4,), dtype="int64")) = lv, lv1, lv2, lv3, lv4, lv5, lv6, lv7, lv8, lv9, lv10, lv11, lv12, lv13, lv14, lv15, lv16, lv17, lv18, lv19, lv20, lv21, lv22, lv23, lv24, lv25, lv26, lv27, lv28, lv29, lv32, lv34, lv35, lv36, lv37, lv38, lv39
            R.output(gv)
        return gv
# case
# in float32 (2,3,4) 0.0680000037 2.7190001 2.44899988 -1.02100003 -0.596000016 -1.05499995 1.13900006 -0.112000003 1.49399996 -3.69499993 3.1329999 -0.193000004 1.36099994 -0.273000002 -0.758000016 0.925999999 1.64900005 -0.405000001 -0.305999994 1.37100005 -1.74100006 -3.02900004 0.790000021 -1.34099996
# in float32 (2,3,4) -3.84100008 -1.62800002 -0.935000002 -2.38599992 -2.9849999 0.0729999989 1.79400003 -0.465999991 -1.48699999 0.769999981 1.43400002 -0.600000024 1.08899999 2.08599997 -0.414000005 -1.62699997 0.694999993 0.495000005 2.19799995 -2.56900001 -1.32299995 -1.676 -3.46799994 0.252999991
# in float32 (2,3,4) 0.168000013 2.81900001 2.54899979 1.12100005 0.69600004 1.15499997 1.23900008 0.212000012 1.59399998 3.79499984 3.2329998 0.293000013 1.46099997 0.372999996 0.85800004 1.02600002 1.74900007 0.504999995 0.405999988 1.47100008 1.84100008 3.12899995 0.890000045 1.44099998
# in bool (2,3,4) 1 1 1 0 0 0 1 0 1 0 1 0 1 0 0 1 1 0 0 1 0 0 1 0
# in bool (2,3,4) 0 0 0 1 1 1 0 1 0 1 0 1 0 1 1 0 0 1 1 0 1 1 0 1
# in int64 (4) -7 7 -6 5
# in int64 (4) 2 -2 4 3
# out float32 (2,3,4) -3.773 1.09100008 1.51399994 -3.40700006 -3.58099985 -0.981999934 2.93300009 -0.578000009 0.00699996948 -2.92499995 4.56699991 -0.793000042 2.44999981 1.81299996 -1.17200005 -0.700999975 2.3440001 0.0900000036 1.89199996 -1.19799995 -3.06400013 -4.70499992 -2.67799997 -1.08799994
# out float32 (2,3,4) 3.90900016 4.34700012 3.38399982 1.36499989 2.38899994 -1.1279999 -0.654999971 0.353999972 2.98099995 -4.46500015 1.69899988 0.407000005 0.271999955 -2.35899997 -0.344000012 2.55299997 0.954000056 -0.899999976 -2.50399995 3.94000006 -0.418000102 -1.35300004 4.2579999 -1.59399998
# out float32 (2,3,4) -0.26118803 -4.42653227 -2.28981495 2.43610597 1.77906001 -0.0770149976 2.04336619 0.0521919988 -2.22157788 -2.84514999 4.49272203 0.115800008 1.48212898 -0.569477975 0.313812017 -1.50660193 1.14605498 -0.200475007 -0.672587991 -3.52209926 2.30334306 5.07660389 -2.73972011 -0.339272976
# out float32 (2,3,4) -0.0177037232 -1.67014742 -2.61925125 0.427912861 0.19966501 -14.452054 0.634894133 0.240343362 -1.00470746 -4.79870129 2.18479776 0.321666658 1.2497704 -0.130872488 1.83091784 -0.569145679 2.37266207 -0.818181813 -0.139217466 -0.533670723 1.31594872 1.80727923 -0.227797017 -5.30039549
# out float32 (2,3,4) -3.84100008 -1.62800002 -0.935000002 -2.38599992 -2.9849999 -1.05499995 1.13900006 -0.465999991 -1.48699999 -3.69499993 1.43400002 -0.600000024 1.08899999 -0.273000002 -0.758000016 -1.62699997 0.694999993 -0.405000001 -0.305999994 -2.56900001 -1.74100006 -3.02900004 -3.46799994 -1.34099996
# out float32 (2,3,4) 0.0680000037 2.7190001 2.44899988 -1.02100003 -0.596000016 0.0729999989 1.79400003 -0.112000003 1.49399996 0.769999981 3.1329999 -0.193000004 1.36099994 2.08599997 -0.414000005 0.925999999 1.64900005 0.495000005 2.19799995 1.37100005 -1.32299995 -1.676 0.790000021 0.252999991
# out float32 (2,3,4) -3.773 -0.536999941 -0.356000185 -1.02100003 -0.596000016 0.0400000811 1.13900006 -0.112000003 -1.48000002 0.154999971 0.264999866 -0.193000004 0.271999955 1.81299996 -0.344000012 -0.700999975 0.259000063 0.0900000036 1.89199996 -1.19799995 -0.418000102 -1.35300004 -2.67799997 0.176999927
# out float32 (2,3,4) 0.0680000037 1.09100008 0.578999877 -1.02100003 -0.596000016 -0.0329999626 1.13900006 -0.112000003 0.00699996948 -0.61500001 0.264999866 -0.193000004 0.271999955 -0.273000002 -0.344000012 0.925999999 0.259000063 -0.405000001 -0.305999994 1.37100005 -0.418000102 -1.35300004 0.790000021 -0.076000005
# out bool (2,3,4) 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
# out bool (2,3,4) 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
# out bool (2,3,4) 0 0 0 0 0 1 1 0 0 1 0 0 0 1 1 0 0 1 1 0 1 1 0 1
# out bool (2,3,4) 0 0 0 0 0 1 1 0 0 1 0 0 0 1 1 0 0 1 1 0 1 1 0 1
# out bool (2,3,4) 1 1 1 1 1 0 0 1 1 0 1 1 1 0 0 1 1 0 0 1 0 0 1 0
# out bool (2,3,4) 1 1 1 1 1 0 0 1 1 0 1 1 1 0 0 1 1 0 0 1 0 0 1 0
# out float32 (2,3,4) -1 -2 -3 0 0 -15 0 0 -2 -5 2 0 1 -1 1 -1 2 -1 -1 -1 1 1 -1 -6
# out float32 (2,3,4) 945.337708 0.18503131 0.41691184 0.761449277 2.94992733 1.01057482 1.46882474 2.06028581 0.499919266 2.79249907 5.37990427 2.08871627 1.51113784 0.127815828 1.06545782 0.959098518 1.47481966 0.713065207 0.137892365 0.371024847 0.445998937 0.147808805 1.4980123 1.09683669
# out float32 (2,3,4) 0.0680000037 2.7190001 2.44899988 -2.38599992 -2.9849999 0.0729999989 1.13900006 -0.465999991 1.49399996 0.769999981 3.1329999 -0.600000024 1.36099994 2.08599997 -0.414000005 0.925999999 1.64900005 0.495000005 2.19799995 1.37100005 -1.32299995 -1.676 0.790000021 0.252999991
# out float32 (2,3,4) 0.0680000037 1.5 1.5 -1 -0.596000016 -1 1.13900006 -0.112000003 1.49399996 -1 1.5 -0.193000004 1.36099994 -0.273000002 -0.758000016 0.925999999 1.5 -0.405000001 -0.305999994 1.37100005 -1 -1 0.790000021 -1
# out bool (2,3,4) 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
# out bool (2,3,4) 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
# out bool (2,3,4) 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
# out bool (2,3,4) 0 0 0 1 1 1 0 1 0 1 0 1 0 1 1 0 0 1 1 0 1 1 0 1
# out int64 (4) -3 -3 -1 1
# out int64 (4) -4 -4 -2 1
# out int64 (4) -1 1 -2 2
# out int64 (4) 1 -1 2 2
# out int64 (4) 0 6 0 1
# out int64 (4) -5 -1 -2 7
# out int64 (4) -5 -7 -2 6
# out int64 (4) 6 -8 5 -6
# out int64 (4) 28 28 96 40
# out int64 (4) -2 1 -1 0
# out int32 (2,3,4) 0 2 2 -1 0 -1 1 0 1 -3 3 0 1 0 0 0 1 0 0 1 -1 -3 0 -1
# out float32 (4) -7 7 -6 5
# out float32 (2,3,4) 1 1 1 0 0 0 1 0 1 0 1 0 1 0 0 1 1 0 0 1 0 0 1 0
# out float32 (2,3,4) 2.56800008 5.21899986 4.94899988 1.47899997 1.90400004 1.44500005 3.63899994 2.38800001 3.99399996 -1.19499993 5.6329999 2.30699992 3.86100006 2.227 1.74199998 3.42600012 4.14900017 2.09500003 2.19400001 3.87100005 0.758999944 -0.529000044 3.28999996 1.15900004
# out int64 (4) -21 21 -18 15
