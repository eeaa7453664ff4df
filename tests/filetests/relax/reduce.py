# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((2, 3, 4), dtype="float32")) -> R.Tuple(R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((), dtype="float32"), R.Tensor((3,), dtype="float32"), R.Tensor((), dtype="float32"), R.Tensor((2, 4), dtype="int64"), R.Tensor((2, 3, 1), dtype="int64"), R.Tensor((), dtype="int64"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((24,), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32")):
        with R.dataflow():
            lv: R.Tensor((2, 1, 4), dtype="float32") = R.sum(p0, axis=[1], keepdims=True)
            lv1: R.Tensor((2, 1, 4), dtype="float32") = R.mean(p0, axis=[1], keepdims=True)
            lv2: R.Tensor((2, 1, 4), dtype="float32") = R.max(p0, axis=[1], keepdims=True)
            lv3: R.Tensor((2, 1, 4), dtype="float32") = R.min(p0, axis=[1], keepdims=True)
            lv4: R.Tensor((2, 1, 4), dtype="float32") = R.prod(p0, axis=[1], keepdims=True)
            lv5: R.Tensor((2, 1, 4), dtype="float32") = R.variance(p0, axis=[1], keepdims=True)
            lv6: R.Tensor((2, 1, 4), dtype="float32") = R.std(p0, axis=[1], keepdims=True)
            lv7: R.Tensor((), dtype="float32") = R.sum(p0, axis=None, keepdims=False)
            lv8: R.Tensor((3,), dtype="float32") = R.max(p0, axis=[0, -1], keepdims=False)
            lv9: R.Tensor((), dtype="float32") = R.variance(p0, axis=None, keepdims=False)
            lv10: R.Tensor((2, 4), dtype="int64") = R.argmax(p0, axis=1, keepdims=False)
            lv11: R.Tensor((2, 3, 1), dtype="int64") = R.argmin(p0, axis=-1, keepdims=True)
            lv12: R.Tensor((), dtype="int64") = R.argmax(p0, axis=None, keepdims=False)
            lv13: R.Tensor((2, 3, 4), dtype="float32") = R.cumsum(p0, axis=1, dtype=None, exclusive=False)
            lv14: R.Tensor((24,), dtype="float32") = R.cumsum(p0, axis=None, dtype=None, exclusive=False)
            lv15: R.Tensor((2, 3, 4), dtype="float32") = R.cumsum(p0, axis=0, dtype=None, exclusive=True)
            lv16: R.Tensor((2, 3, 4), dtype="float32") = R.nn.softmax(p0, axis=-1)
            lv17: R.Tensor((2, 3, 4), dtype="float32") = R.nn.log_softmax(p0, axis=1)
            gv: R.Tuple(R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((2, 1, 4), dtype="float32"), R.Tensor((), dtype="float32"), R.Tensor((3,), dtype="float32"), R.Tensor((), dtype="float32"), R.Tensor((2, 4), dtype="int64"), R.Tensor((2, 3, 1), dtype="int64"), R.Tensor((), dtype="int64"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((24,), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((2, 3, 4), dtype="float32")) = lv, lv1, lv2, lv3, lv4, lv5, lv6, lv7, lv8, lv9, lv10, lv11, lv12, lv13, lv14, lv15, lv16, lv17
            R.output(gv)
        return gv
# case
# in float32 (2,3,4) 0.0680000037 2.7190001 2.44899988 -1.02100003 -0.596000016 -1.05499995 1.13900006 -0.112000003 1.49399996 -3.69499993 3.1329999 -0.193000004 1.36099994 -0.273000002 -0.758000016 0.925999999 1.64900005 -0.405000001 -0.305999994 1.37100005 -1.74100006 -3.02900004 0.790000021 -1.34099996
# out float32 (2,1,4) 0.965999961 -2.03099966 6.72099972 -1.32599998 1.26899993 -3.70700002 -0.273999989 0.95599997
# out float32 (2,1,4) 0.321999997 -0.676999867 2.24033332 -0.442000002 0.422999978 -1.23566663 -0.0913333297 0.318666667
# out float32 (2,1,4) 1.49399996 2.7190001 3.1329999 -0.112000003 1.64900005 -0.273000002 0.790000021 1.37100005
# out float32 (2,1,4) -0.596000016 -3.69499993 1.13900006 -1.02100003 -1.74100006 -3.02900004 -0.758000016 -1.34099996
# out float32 (2,1,4) -0.0605488345 10.5992737 8.73922443 -0.0220699385 -3.90730715 -0.334901392 0.183238924 -1.70246112
# out float32 (2,1,4) 0.760274589 6.9280076 0.684443474 0.168713987 2.35527205 1.61092627 0.422424912 1.41025102
# out float32 (2,1,4) 0.871937275 2.63211083 0.827310979 0.410748094 1.53468955 1.26922274 0.649942219 1.18753994
# out float32 () 2.57400036
# out float32 (3) 2.7190001 1.64900005 3.1329999
# out float32 () 2.73005676
# out int64 (2,4) 2 0 2 1 1 0 2 1
# out int64 (2,3,1) 3 1 1 2 1 1
# out int64 () 10
# out float32 (2,3,4) 0.0680000037 2.7190001 2.44899988 -1.02100003 -0.527999997 1.66400015 3.58799982 -1.13300002 0.965999961 -2.03099966 6.72099972 -1.32599998 1.36099994 -0.273000002 -0.758000016 0.925999999 3.00999999 -0.677999973 -1.06400001 2.29699993 1.26899993 -3.70700002 -0.273999989 0.95599997
# out float32 (24) 0.0680000037 2.78700018 5.23600006 4.21500015 3.6190002 2.56400013 3.70300007 3.59100008 5.08500004 1.3900001 4.52299976 4.32999992 5.69099998 5.41800022 4.66000032 5.58600044 7.23500061 6.8300004 6.52400017 7.89500046 6.15400028 3.12500024 3.9150002 2.57400036
# out float32 (2,3,4) 0 0 0 0 0 0 0 0 0 0 0 0 0.0680000037 2.7190001 2.44899988 -1.02100003 -0.596000016 -1.05499995 1.13900006 -0.112000003 1.49399996 -3.69499993 3.1329999 -0.193000004
# out float32 (2,3,4) 0.0379932486 0.538295984 0.410924017 0.0127867348 0.112064958 0.0708155707 0.635288239 0.181831211 0.157712072 0.000879651809 0.812219799 0.0291883908 0.509537578 0.099434942 0.0612218194 0.329805672 0.493319839 0.0632539541 0.0698365644 0.373589545 0.0652157739 0.0179879386 0.819505811 0.0972905084
# out float32 (2,3,4) -1.73638868 -0.0243008081 -1.17914999 -1.75277197 -2.40038872 -3.79830098 -2.48914981 -0.843771935 -0.310388744 -6.43830061 -0.49515 -0.924771905 -0.866561174 -0.662629426 -1.98423886 -0.979871154 -0.578561068 -0.794629455 -1.53223872 -0.534871101 -3.96856117 -3.41862941 -0.436238766 -3.24687099
