# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p0: R.Tensor((1, 4, 6, 5), dtype="float32"), p1: R.Tensor((6, 2, 3, 3), dtype="float32"), p2: R.Tensor((4, 3, 2, 2), dtype="float32"), p3: R.Tensor((1, 3, 8), dtype="float32"), p4: R.Tensor((2, 3, 3), dtype="float32")) -> R.Tuple(R.Tensor((1, 6, 3, 3), dtype="float32"), R.Tensor((1, 6, 4, 5), dtype="float32"), R.Tensor((1, 6, 13, 10), dtype="float32"), R.Tensor((1, 2, 8), dtype="float32"), R.Tensor((1, 4, 4, 5), dtype="float32"), R.Tensor((1, 4, 4, 3), dtype="float32"), R.Tensor((1, 4, 6, 4), dtype="float32"), R.Tensor((1, 3, 3), dtype="float32"), R.Tensor((1, 3, 7), dtype="float32"), R.Tensor((1, 4, 1, 1), dtype="float32"), R.Tensor((1, 4, 3, 5), dtype="float32"), R.Tensor((1, 4, 9, 7), dtype="float32"), R.Tensor((1, 4, 3, 10), dtype="float32")):
        lv: R.Tensor((1, 6, 3, 3), dtype="float32") = R.nn.conv2d(p0, p1, strides=[2, 2], padding=[1, 1, 1, 1], dilation=[1, 1], groups=2, data_layout="NCHW", kernel_layout="OIHW", out_layout="NCHW", out_dtype=None)
        lv1: R.Tensor((1, 6, 4, 5), dtype="float32") = R.nn.conv2d(p0, p1, strides=[1, 1], padding=[0, 1, 2, 1], dilation=[2, 1], groups=2, data_layout="NCHW", kernel_layout="OIHW", out_layout="NCHW", out_dtype=None)
        lv2: R.Tensor((1, 6, 13, 10), dtype="float32") = R.nn.conv2d_transpose(p0, p2, strides=[2, 2], padding=[0, 0, 0, 0], output_padding=[1, 0], dilation=[1, 1], groups=2, data_layout="NCHW", kernel_layout="IOHW", out_layout="NCHW", out_dtype=None)
        lv3: R.Tensor((1, 2, 8), dtype="float32") = R.nn.conv1d(p3, p4, strides=[1], padding=[1, 1], dilation=[1], groups=1, data_layout="NCW", kernel_layout="OIW", out_layout="NCW", out_dtype=None)
        lv4: R.Tensor((1, 4, 4, 5), dtype="float32") = R.nn.max_pool2d(p0, pool_size=[2, 3], strides=[2, 1], dilation=[1, 1], padding=[1, 1, 1, 1], ceil_mode=True, count_include_pad=False, layout="NCHW", out_layout="NCHW")
        lv5: R.Tensor((1, 4, 4, 3), dtype="float32") = R.nn.avg_pool2d(p0, pool_size=[2, 2], strides=[2, 2], dilation=[1, 1], padding=[1, 1, 1, 1], ceil_mode=False, count_include_pad=False, layout="NCHW", out_layout="NCHW")
        lv6: R.Tensor((1, 4, 6, 4), dtype="float32") = R.nn.avg_pool2d(p0, pool_size=[3, 2], strides=[1, 1], dilation=[1, 1], padding=[1, 0, 1, 0], ceil_mode=False, count_include_pad=True, layout="NCHW", out_layout="NCHW")
        lv7: R.Tensor((1, 3, 3), dtype="float32") = R.nn.max_pool1d(p3, pool_size=[3], strides=[2], dilation=[1], padding=[0, 0], ceil_mode=False, count_include_pad=False, layout="NCW", out_layout="NCW")
        lv8: R.Tensor((1, 3, 7), dtype="float32") = R.nn.avg_pool1d(p3, pool_size=[2], strides=[1], dilation=[1], padding=[0, 0], ceil_mode=False, count_include_pad=True, layout="NCW", out_layout="NCW")
        lv9: R.Tensor((1, 4, 1, 1), dtype="float32") = R.mean(p0, axis=[2, 3], keepdims=True)
        lv10: R.Tensor((1, 4, 3, 5), dtype="float32") = R.nn.avg_pool2d(p0, pool_size=[2, 1], strides=[2, 1], dilation=[1, 1], padding=[0, 0, 0, 0], ceil_mode=False, count_include_pad=False, layout="NCHW", out_layout="NCHW")
        lv11: R.Tensor((1, 4, 9, 7), dtype="float32") = R.image.resize2d(p0, R.shape([9, 7]), roi=[0.0, 0.0, 0.0, 0.0], layout="NCHW", method="linear", coordinate_transformation_mode="half_pixel", rounding_method="", cubic_alpha=-0.75, cubic_exclude=0, extrapolation_value=0.0, out_dtype=None)
        lv12: R.Tensor((1, 4, 3, 10), dtype="float32") = R.image.resize2d(p0, R.shape([3, 10]), roi=[0.0, 0.0, 0.0, 0.0], layout="NCHW", method="nearest_neighbor", coordinate_transformation_mode="asymmetric", rounding_method="floor", cubic_alpha=-0.75, cubic_exclude=0, extrapolation_value=0.0, out_dtype=None)
        gv: R.Tuple(R.Tensor((1, 6, 3, 3), dtype="float32"), R.Tensor((1, 6, 4, 5), dtype="float32"), R.Tensor((1, 6, 13, 10), dtype="float32"), R.Tensor((1, 2, 8), dtype="float32"), R.Tensor((1, 4, 4, 5), dtype="float32"), R.Tensor((1, 4, 4, 3), dtype="float32"), R.Tensor((1, 4, 6, 4), dtype="float32"), R.Tensor((1, 3, 3), dtype="float32"), R.Tensor((1, 3, 7), dtype="float32"), R.Tensor((1, 4, 1, 1), dtype="float32"), R.Tensor((1, 4, 3, 5), dtype="float32"), R.Tensor((1, 4, 9, 7), dtype="float32"), R.Tensor((1, 4, 3, 10), dtype="float32")) = (lv, lv1, lv2, lv3, lv4, lv5, lv6, lv7, lv8, lv9, lv10, lv11, lv12)
        return (lv, lv1, lv2, lv3, lv4, lv5, lv6, lv7, lv8, lv9, lv10, lv11, lv12)
