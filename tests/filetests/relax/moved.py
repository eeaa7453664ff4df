# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    I.module_global_infos({"vdevice": [I.vdevice({"keys": ["cpu"], "kind": "llvm", "mtriple": "x86_64-conda-linux-gnu", "tag": ""}, 0, "global")]})
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32", vdevice="llvm:0:global"):
        a: R.Tensor((2, 3), dtype="float32", vdevice="llvm:0:global") = R.to_vdevice(x, dst_vdevice="llvm:0:global")
        gv1: R.Tensor((2, 3), dtype="float32", vdevice="llvm:0:global") = R.add(a, a)
        return gv1
# case
# in float32 (2,3) -2.45099998 -3.78299999 -1.06799996 -2.36400008 -0.727999985 1.24100006
# out float32 (2,3) -4.90199995 -7.56599998 -2.13599992 -4.72800016 -1.45599997 2.48200011
