# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((1, 2, 4, 4, 4), dtype="float32"), p1: R.Tensor((2, 2, 2, 2, 2), dtype="float32"), p2: R.Tensor((1, 2, 6), dtype="float32"), p3: R.Tensor((2, 2, 3), dtype="float32")) -> R.Tuple(R.Tensor((1, 2, 2, 2, 2), dtype="float32"), R.Tensor((1, 2, 2, 2, 2), dtype="float32"), R.Tensor((1, 2, 5, 5, 5), dtype="float32"), R.Tensor((1, 2, 8, 8, 8), dtype="float32"), R.Tensor((1, 2, 13), dtype="float32"), R.Tensor((1, 2, 3), dtype="float32"), R.Tensor((1, 2, 2, 2, 1), dtype="float32"), R.Tensor((1, 2, 5, 3, 8), dtype="float32"), R.Tensor((1, 2, 5, 3, 8), dtype="float32")):
        lv: R.Tensor((1, 2, 2, 2, 2), dtype="float32") = R.nn.max_pool3d(p0, pool_size=[2, 2, 2], strides=[2, 2, 2], dilation=[1, 1, 1], padding=[0, 0, 0, 0, 0, 0], ceil_mode=False, count_include_pad=False, layout="NCDHW", out_layout="NCDHW")
        lv1: R.Tensor((1, 2, 2, 2, 2), dtype="float32") = R.nn.avg_pool3d(p0, pool_size=[2, 2, 2], strides=[2, 2, 2], dilation=[1, 1, 1], padding=[0, 0, 0, 0, 0, 0], ceil_mode=False, count_include_pad=True, layout="NCDHW", out_layout="NCDHW")
        lv2: R.Tensor((1, 2, 5, 5, 5), dtype="float32") = R.nn.conv3d(p0, p1, strides=[1, 1, 1], padding=[1, 1, 1, 1, 1, 1], dilation=[1, 1, 1], groups=1, data_layout="NCDHW", kernel_layout="OIDHW", out_layout="NCDHW", out_dtype=None)
        lv3: R.Tensor((1, 2, 8, 8, 8), dtype="float32") = R.nn.conv3d_transpose(p0, p1, strides=[2, 2, 2], padding=[0, 0, 0, 0, 0, 0], output_padding=[0, 0, 0], dilation=[1, 1, 1], groups=1, data_layout="NCDHW", kernel_layout="IODHW", out_layout="NCDHW", out_dtype=None)
        lv4: R.Tensor((1, 2, 13), dtype="float32") = R.nn.conv1d_transpose(p2, p3, strides=[2], padding=[0, 0], output_padding=[0], dilation=[1], groups=1, data_layout="NCW", kernel_layout="IOW", out_layout="NCW", out_dtype=None)
        lv5: R.Tensor((1, 2, 3), dtype="float32") = R.nn.avg_pool1d(p2, pool_size=[2], strides=[2], dilation=[1], padding=[0, 0], ceil_mode=False, count_include_pad=False, layout="NCW", out_layout="NCW")
        lv6: R.Tensor((1, 2, 2, 2, 1), dtype="float32") = R.nn.avg_pool3d(p0, pool_size=[2, 2, 4], strides=[2, 2, 4], dilation=[1, 1, 1], padding=[0, 0, 0, 0, 0, 0], ceil_mode=False, count_include_pad=False, layout="NCDHW", out_layout="NCDHW")
        lv7: R.Tensor((1, 2, 5, 3, 8), dtype="float32") = R.reflex.resize(p0, R.shape([1, 2, 5, 3, 8]), method="linear", coordinate_transformation_mode="half_pixel", scales=None)
        lv8: R.Tensor((1, 2, 5, 3, 8), dtype="float32") = R.reflex.resize(p0, R.shape([1, 2, 5, 3, 8]), method="nearest", rounding_method="floor", coordinate_transformation_mode="asymmetric", scales=None)
        gv: R.Tuple(R.Tensor((1, 2, 2, 2, 2), dtype="float32"), R.Tensor((1, 2, 2, 2, 2), dtype="float32"), R.Tensor((1, 2, 5, 5, 5), dtype="float32"), R.Tensor((1, 2, 8, 8, 8), dtype="float32"), R.Tensor((1, 2, 13), dtype="float32"), R.Tensor((1, 2, 3), dtype="float32"), R.Tensor((1, 2, 2, 2, 1), dtype="float32"), R.Tensor((1, 2, 5, 3, 8), dtype="float32"), R.Tensor((1, 2, 5, 3, 8), dtype="float32")) = (lv, lv1, lv2, lv3, lv4, lv5, lv6, lv7, lv8)
        return (lv, lv1, lv2, lv3, lv4, lv5, lv6, lv7, lv8)
