/* OpenCL C 1.2, by Reflex. Build it with -cl-fp32-correctly-rounded-divide-sqrt, and without options that relax
 * arithmetic. Fused multiply-adds are written as such. */
#pragma OPENCL FP_CONTRACT OFF
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
static inline uint rf_bits(float value) { return as_uint(value); }
static inline float rf_float(uint bits) { return as_float(bits); }
static inline float rf_from_f16(ushort code) {
    uint sign = (uint)(code & 0x8000u) << 16, rest = (uint)(code & 0x7fffu) << 13;
    if (rest < 0x00800000u) return rf_float(sign | rf_bits((float)(code & 0x7fffu) * 5.9604644775390625e-8f));
    return rf_float(sign | (rest + (rest < 0x0f800000u ? 0x38000000u : 0x70000000u)));
}
static inline float rf_max_f32(float a, float b) { return a > b || a != a ? a : b; }
static inline float rf_min_f32(float a, float b) { return a < b || a != a ? a : b; }
static inline int rf_sub_i32(int a, int b) { return (int)((uint)a - (uint)b); }
static inline int rf_shr_i32(int a, int b) { return (int)(a >> (b >= 0 && b < 32 ? b : 32 - 1)); }
static inline int rf_add_i32(int a, int b) { return (int)((uint)a + (uint)b); }
static inline int rf_shl_i32(int a, int b) { return b >= 0 && b < 32 ? (int)((uint)a << b) : 0; }
static inline ushort rf_to_f16(float value) {
    uint bits = rf_bits(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return (ushort)(sign | 0x7e00u);
    if (size >= 0x477ff000u) return (ushort)(sign | 0x7c00u);
    if (size < 0x38800000u) return (ushort)(sign | (rf_bits(rf_float(size) + 0.5f) - 0x3f000000u));
    return (ushort)(sign | (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13);
}
static inline float rf_round_f16(float value) { return rf_from_f16(rf_to_f16(value)); }

/* grid 2, 1, 1; block 32, 1, 1; 128 bytes of shared memory */
__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void kernel_kernel(__global const float *x, __global float *restrict y) {
    __local float s[32] __attribute__((aligned(16)));
    const long b = (long)get_group_id(0);
    const long tx = (long)get_local_id(0);
    s[tx] = x[b * 32 + tx] * 3.0f + 1.0f;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    y[b * 32 + tx] = sqrt(s[31 - tx]) / x[tx];
}

/* grid 2, 1, 1; block 32, 1, 1; 128 bytes of shared memory */
__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void lanes(__global const float *x, __global float *restrict y) {
    __local float s[32] __attribute__((aligned(16)));
    const long b = (long)get_group_id(0);
    const long tx = (long)get_local_id(0);
    {
        float x_lanes[4];
        vstore4(vload4(0, x + (b * 32 + (tx >> 3) * 8)), 0, x_lanes);
        float y_lanes[4];
#pragma unroll
        for (long v = 0; v < 4; ++v) {
            y_lanes[v] = x_lanes[v] * 3.0f + x[tx];
        }
        vstore4(vload4(0, y_lanes), 0, y + (b * 32 + (tx >> 3) * 8));
    }
}

/* grid 2, 1, 1; block 32, 1, 1; 128 bytes of shared memory */
__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void exponential(__global const ushort *x, __global double *restrict y) {
    __local float s[32] __attribute__((aligned(16)));
    const long b = (long)get_group_id(0);
    const long tx = (long)get_local_id(0);
    const float x_1 = rf_from_f16(x[tx]);
    const float x_2 = rf_min_f32(rf_max_f32(x_1, -176.0f), 89.0f);
    const float t = fma(x_2, 1.442695f, 12582912.0f);
    const float n = t - 12582912.0f;
    const float r = fma(n, -1.4286068e-6f, fma(n, -0.69314575f, x_2));
    const int n_1 = rf_sub_i32((int)rf_bits(t), 1262485504);
    const int half_1 = rf_shr_i32(n_1, 1);
    y[b * 32 + tx] = (double)rf_round_f16(fma(fma(fma(fma(fma(fma(0.0013814465f, r, 0.008368781f), r, 0.041668393f), r, 0.1666652f), r, 0.49999994f), r, 1.0f), r, 1.0f) * rf_float((uint)rf_shl_i32(rf_add_i32(half_1, 127), 23)) * rf_float((uint)rf_shl_i32(rf_add_i32(rf_sub_i32(n_1, half_1), 127), 23)));
}
