# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32"), y: R.Tensor((2, 3), dtype="float64")) -> R.Tensor((2, 3), dtype="float32"):
        a: R.Tensor((2, 3), dtype="float32") = R.hint_on_device(x, R.device(device_type=1, index=0), "global")
        b: R.Tensor((2, 3), dtype="float32") = R.wrap_param(y, dtype="float32")
        gv2: R.Tensor((2, 3), dtype="float32") = R.add(a, b)
        return gv2
# case
# in float32 (2,3) -0.598999977 -0.93599999 2.06699991 1.81599998 -2.40400004 1.255
# in float64 (2,3) -0.958999991 0.917999983 -0.963 -2.94400001 2.03299999 0.904999971
# out float32 (2,3) -1.55799997 -0.0180000067 1.10399985 -1.12800002 -0.371000051 2.15999985
