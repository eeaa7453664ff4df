/* CUDA C, by Reflex. Compile it without --use_fast_math; products are written such that none becomes part of a fused
 * multiply-add. Shared memory is dynamic: a launch says how much. */
static __device__ __forceinline__ unsigned int rf_bits(float value) { return __float_as_uint(value); }
static __device__ __forceinline__ float rf_float(unsigned int bits) { return __uint_as_float(bits); }
static __device__ __forceinline__ float rf_from_f16(unsigned short code) {
    unsigned int sign = (unsigned int)(code & 0x8000u) << 16, rest = (unsigned int)(code & 0x7fffu) << 13;
    if (rest < 0x00800000u) return rf_float(sign | rf_bits((float)(code & 0x7fffu) * 5.9604644775390625e-8f));
    return rf_float(sign | (rest + (rest < 0x0f800000u ? 0x38000000u : 0x70000000u)));
}
static __device__ __forceinline__ float rf_max_f32(float a, float b) { return a > b || a != a ? a : b; }
static __device__ __forceinline__ float rf_min_f32(float a, float b) { return a < b || a != a ? a : b; }
static __device__ __forceinline__ int rf_sub_i32(int a, int b) { return (int)((unsigned int)a - (unsigned int)b); }
static __device__ __forceinline__ int rf_shr_i32(int a, int b) { return (int)(a >> (b >= 0 && b < 32 ? b : 32 - 1)); }
static __device__ __forceinline__ int rf_add_i32(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }
static __device__ __forceinline__ int rf_shl_i32(int a, int b) { return b >= 0 && b < 32 ? (int)((unsigned int)a << b) : 0; }
static __device__ __forceinline__ unsigned short rf_to_f16(float value) {
    unsigned int bits = rf_bits(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return (unsigned short)(sign | 0x7e00u);
    if (size >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u);
    if (size < 0x38800000u) return (unsigned short)(sign | (rf_bits(rf_float(size) + 0.5f) - 0x3f000000u));
    return (unsigned short)(sign | (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13);
}
static __device__ __forceinline__ float rf_round_f16(float value) { return rf_from_f16(rf_to_f16(value)); }

/* grid 2, 1, 1; block 32, 1, 1; 128 bytes of shared memory */
extern "C" __global__ void __launch_bounds__(32) kernel_kernel(const float *x, float *__restrict__ y) {
    extern __shared__ __align__(16) unsigned char shared_memory[];
    float *const s = (float *)(shared_memory + 0);
    const long long b = (long long)blockIdx.x;
    const long long tx = (long long)threadIdx.x;
    s[tx] = __fmul_rn(x[b * 32 + tx], 3.0f) + 1.0f;
    __syncthreads();
    y[b * 32 + tx] = __fsqrt_rn(s[31 - tx]) / x[tx];
}

/* grid 2, 1, 1; block 32, 1, 1; 128 bytes of shared memory */
extern "C" __global__ void __launch_bounds__(32) lanes(const float *x, float *__restrict__ y) {
    extern __shared__ __align__(16) unsigned char shared_memory[];
    float *const s = (float *)(shared_memory + 0);
    const long long b = (long long)blockIdx.x;
    const long long tx = (long long)threadIdx.x;
    {
        __align__(16) float x_lanes[4];
        *(uint4 *)(x_lanes) = *(const uint4 *)(x + (b * 32 + (tx >> 3) * 8));
        __align__(16) float y_lanes[4];
#pragma unroll
        for (long long v = 0; v < 4; ++v) {
            y_lanes[v] = __fmul_rn(x_lanes[v], 3.0f) + x[tx];
        }
        *(uint4 *)(y + (b * 32 + (tx >> 3) * 8)) = *(const uint4 *)(y_lanes);
    }
}

/* grid 2, 1, 1; block 32, 1, 1; 128 bytes of shared memory */
extern "C" __global__ void __launch_bounds__(32) exponential(const unsigned short *x, double *__restrict__ y) {
    extern __shared__ __align__(16) unsigned char shared_memory[];
    float *const s = (float *)(shared_memory + 0);
    const long long b = (long long)blockIdx.x;
    const long long tx = (long long)threadIdx.x;
    const float x_1 = rf_from_f16(x[tx]);
    const float x_2 = rf_min_f32(rf_max_f32(x_1, -176.0f), 89.0f);
    const float t = __fmaf_rn(x_2, 1.442695f, 12582912.0f);
    const float n = t - 12582912.0f;
    const float r = __fmaf_rn(n, -1.4286068e-6f, __fmaf_rn(n, -0.69314575f, x_2));
    const int n_1 = rf_sub_i32((int)rf_bits(t), 1262485504);
    const int half_1 = rf_shr_i32(n_1, 1);
    y[b * 32 + tx] = (double)rf_round_f16(__fmul_rn(__fmul_rn(__fmaf_rn(__fmaf_rn(__fmaf_rn(__fmaf_rn(__fmaf_rn(__fmaf_rn(0.0013814465f, r, 0.008368781f), r, 0.041668393f), r, 0.1666652f), r, 0.49999994f), r, 1.0f), r, 1.0f), rf_float((unsigned int)rf_shl_i32(rf_add_i32(half_1, 127), 23))), rf_float((unsigned int)rf_shl_i32(rf_add_i32(rf_sub_i32(n_1, half_1), 127), 23))));
}
