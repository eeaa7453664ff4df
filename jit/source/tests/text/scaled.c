/* C11 of a kernel, by Reflex. To compile it:
 *     cc -std=c11 -O2 -ffp-contract=off -fPIC -shared kernels.c -o kernels.so -lm
 * Fused multiply-adds are written as such; a compiler that makes others, or that reorders sums, changes results.
 * Pointer variables whose names begin with __TVM are filled by who loads the library; with -DREFLEX_EXTERN_SLOTS they are
 * those of another file. */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#if defined(__FAST_MATH__) || (FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16)
#error "kernels have other results with -ffast-math, or where intermediate results are wider than their types"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__) && defined(__FMA__) && !defined(__STRICT_ANSI__)
#pragma GCC optimize ("fp-contract=off")
#endif

typedef struct { int32_t type_index; uint32_t small_len; union { int64_t word; double number; void *pointer; } payload; } rf_any;
typedef struct { void *data; int32_t device_type, device_id, ndim; uint32_t dtype; int64_t *shape, *strides; uint64_t byte_offset; } rf_tensor;
typedef struct { void *sync_handle; int32_t num_task; } rf_tasks;
typedef int32_t (*rf_task)(int32_t, rf_tasks *, void *);
typedef int32_t (*rf_launch)(rf_task, void *, int32_t);
typedef void *(*rf_alloc)(int32_t, int32_t, uint64_t, int32_t, int32_t);
typedef int32_t (*rf_free)(int32_t, int32_t, void *);
typedef int32_t (*rf_look_up)(void *, const char *, void **);
typedef int32_t (*rf_invoke)(void *, rf_any *, int32_t, rf_any *);
extern void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int32_t count);
#if defined(REFLEX_EXTERN_SLOTS)
#define RF_SLOT(type, name) extern type name
#else
#define RF_SLOT(type, name) __attribute__((weak)) type name
#endif
RF_SLOT(rf_launch, __TVMBackendParallelLaunch);
RF_SLOT(rf_alloc, __TVMBackendAllocWorkspace);
RF_SLOT(rf_free, __TVMBackendFreeWorkspace);
RF_SLOT(rf_look_up, __TVMFFIEnvModLookupFromImports);
RF_SLOT(rf_invoke, __TVMFFIFunctionCall);
RF_SLOT(void *, __tvm_ffi__library_ctx);
_Static_assert(offsetof(rf_any, payload) == 8, "layout");
_Static_assert(offsetof(rf_tensor, data) == 0, "layout");
_Static_assert(offsetof(rf_tensor, device_type) == 8, "layout");
_Static_assert(offsetof(rf_tensor, ndim) == 16, "layout");
_Static_assert(offsetof(rf_tensor, dtype) == 20, "layout");
_Static_assert(offsetof(rf_tensor, shape) == 24, "layout");
_Static_assert(offsetof(rf_tensor, strides) == 32, "layout");
_Static_assert(offsetof(rf_tensor, byte_offset) == 40, "layout");
_Static_assert(sizeof(rf_any) == 16, "layout");
_Static_assert(sizeof(rf_tensor) == 48, "layout");

static inline char *rf_digits(char buffer[24], int64_t value) {
    char *at = buffer + 23;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    *at = 0;
    do { *--at = (char)('0' + rest % 10); rest /= 10; } while (rest != 0);
    if (value < 0) *--at = '-';
    return at;
}
static inline int32_t rf_raise(const char *kind, const char *where, const char *text, const char *a, const char *b, const char *c) {
    const char *parts[5] = { where, text, a, b, c };
    TVMFFIErrorSetRaisedFromCStrParts(kind, parts, 5);
    return -1;
}
static inline int32_t rf_fail_number(const char *kind, const char *where, const char *text, int64_t got) {
    char digits[24];
    return rf_raise(kind, where, text, rf_digits(digits, got), "", "");
}
static inline int32_t rf_fail_expected(const char *where, const char *text, int64_t expected, int64_t got) {
    char one[24], other[24];
    return rf_raise("ValueError", where, text, rf_digits(one, expected), ", got ", rf_digits(other, got));
}
static inline int32_t rf_fail_extent(const char *where, int32_t dim, const char *text, int64_t expected, int64_t got) {
    char number[24], one[24], other[24];
    const char *parts[7] = { where, text, rf_digits(number, dim), ": expected ", rf_digits(one, expected), ", got ",
        rf_digits(other, got) };
    TVMFFIErrorSetRaisedFromCStrParts("ValueError", parts, 7);
    return -1;
}
static inline int32_t rf_fail_kind(const char *where, const char *text, int32_t kind) {
    char digits[24];
    const char *name = kind == 0 ? "None" : kind == 1 ? "int" : kind == 2 ? "bool" : kind == 3 ? "float"
        : kind == 8 || kind == 11 || kind == 65 ? "a string" : kind == 69 ? "a shape"
        : kind == 7 || kind == 70 ? "a tensor" : kind == 71 ? "an array" : 0;
    return name ? rf_raise("TypeError", where, text, name, "", "")
        : rf_raise("TypeError", where, text, "type index ", rf_digits(digits, kind), "");
}
static inline int32_t rf_fail_dtype(const char *where, const char *expected, uint32_t dtype) {
    uint32_t code = dtype & 255, bits = dtype >> 8 & 255, lanes = dtype >> 16;
    char width[24], count[24];
    const char *name = code == 0 ? "int" : code == 1 ? "uint" : code == 2 ? "float" : code == 4 ? "bfloat"
        : code == 6 ? "bool" : "a type of DLPack code and";
    const char *parts[6] = { where, expected, name, code == 6 ? "" : rf_digits(width, bits), lanes == 1 ? "" : "x",
        lanes == 1 ? "" : rf_digits(count, lanes) };
    TVMFFIErrorSetRaisedFromCStrParts("TypeError", parts, 6);
    return -1;
}
/* Checks a tensor argument. Extents that may be any are -1. */
static inline int32_t rf_tensor_arg(const rf_any *arg, const char *where, int32_t rank, uint32_t dtype, const char *expected,
    const char *ranks, const int64_t *extents, const rf_tensor **tensor, void **data) {
    const rf_tensor *t = (const rf_tensor *)arg->payload.pointer;
    int64_t count = 1;
    if (arg->type_index != 70 && arg->type_index != 7) return rf_fail_kind(where, "expected a tensor, got ", arg->type_index);
    if (t == 0) return rf_raise("TypeError", where, "expected a tensor, got a null pointer", "", "", "");
    if (arg->type_index == 70) t = (const rf_tensor *)((const char *)t + 24);
    if (t->ndim != rank) return rf_fail_number("ValueError", where, ranks, t->ndim);
    if (t->dtype != dtype) return rf_fail_dtype(where, expected, t->dtype);
    if (t->device_type != 1) return rf_fail_number("ValueError", where, "expected a tensor on the CPU, got device type ", t->device_type);
    for (int32_t d = 0; d < rank; ++d) {
        if (extents[d] >= 0 && t->shape[d] != extents[d]) return rf_fail_extent(where, d, "dimension ", extents[d], t->shape[d]);
        if (t->shape[d] < 0) {
            char number[24], got[24];
            const char *parts[5] = { where, "dimension ", rf_digits(number, d), ": expected an extent, got ", rf_digits(got, t->shape[d]) };
            TVMFFIErrorSetRaisedFromCStrParts("ValueError", parts, 5);
            return -1;
        }
    }
    for (int32_t d = rank - 1; d >= 0; --d) count = (int64_t)((uint64_t)count * (uint64_t)t->shape[d]);
    if (t->strides != 0 && count != 0) {
        int64_t behind = count;
        for (int32_t d = 0; d < rank; ++d) {
            behind /= t->shape[d];
            if (t->shape[d] != 1 && t->strides[d] != behind) return rf_fail_extent(where, d, "stride of dimension ", behind, t->strides[d]);
        }
    }
    if (t->data == 0 && count != 0) return rf_raise("ValueError", where, "the data pointer is null", "", "", "");
    *tensor = t;
    *data = (char *)t->data + t->byte_offset;
    return 0;
}

static inline int64_t rf_mul_i64(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static inline float rf_max_f32(float a, float b) { return a > b || a != a ? a : b; }
static inline uint32_t rf_bits(float value) {
    union { float value; uint32_t bits; } both = { value };
    return both.bits;
}
static inline float rf_float(uint32_t bits) {
    union { uint32_t bits; float value; } both = { bits };
    return both.value;
}
static inline float rf_from_f16(uint16_t code) {
    uint32_t sign = (uint32_t)(code & 0x8000u) << 16, rest = (uint32_t)(code & 0x7fffu) << 13;
    if (rest < 0x00800000u) return rf_float(sign | rf_bits((float)(code & 0x7fffu) * 5.9604644775390625e-8f));
    return rf_float(sign | (rest + (rest < 0x0f800000u ? 0x38000000u : 0x70000000u)));
}
static inline uint16_t rf_to_f16(float value) {
    uint32_t bits = rf_bits(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (size >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (size < 0x38800000u) return (uint16_t)(sign | (rf_bits(rf_float(size) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13);
}
static inline float rf_round_f16(float value) { return rf_from_f16(rf_to_f16(value)); }

struct rf_part1_scaled { int64_t min, extent; int64_t v0; float *b0; int64_t *b1; float *b2; };
static int32_t rf_part1_scaled(int64_t begin, int64_t end, const struct rf_part1_scaled *all) {
    const int64_t n = all->v0;
    (void)n;
    const float *x = all->b0;
    const int64_t *i = all->b1;
    float *s = all->b2;
    for (int64_t r = begin; r < end; ++r) {
        for (int64_t v = 0; v < 8; ++v) {
            s[r * 8 + v] = rf_mul_i64(i[r], i[r]) < 9 ? x[r * 8 + v] * 0.5f : 0.0f;
        }
    }
    return 0;
}
static int32_t rf_part1_scaled_task(int32_t id, rf_tasks *tasks, void *data) {
    const struct rf_part1_scaled *all = (const struct rf_part1_scaled *)data;
    const int64_t step = (all->extent + tasks->num_task - 1) / tasks->num_task, begin = id * step, end = begin + step;
    return rf_part1_scaled(all->min + (begin < all->extent ? begin : all->extent), all->min + (end < all->extent ? end : all->extent), all);
}
int32_t __reflex_raw_scaled(const float *x, const int64_t *i, uint16_t *restrict y, int64_t n) {
    uint64_t bytes = 4;
    bool fits = true;
    fits &= (uint64_t)(n) == 0 || bytes <= UINT64_MAX / (uint64_t)(n);
    bytes *= (uint64_t)(n);
    fits &= (uint64_t)(8) == 0 || bytes <= UINT64_MAX / (uint64_t)(8);
    bytes *= (uint64_t)(8);
    float *const s = (float *)__TVMBackendAllocWorkspace(1, 0, !fits ? UINT64_MAX : bytes != 0 ? bytes : 1, 2, 32);
    if (s == 0) {
        return -1;
    }
    {
        struct rf_part1_scaled all = { 0, n, n, (float *)x, (int64_t *)i, (float *)s };
        const int32_t failed = all.extent <= 1 ? rf_part1_scaled(all.min, all.min + all.extent, &all) : __TVMBackendParallelLaunch(rf_part1_scaled_task, &all, 0);
        if (failed != 0) {
            __TVMBackendFreeWorkspace(1, 0, s);
            return failed;
        }
    }
    for (int64_t r = 0; r < n; ++r) {
#pragma GCC unroll 8
        for (int64_t v = 0; v < 8; ++v) {
            y[r * 8 + v] = rf_to_f16(rf_max_f32(s[r * 8 + v], s[(n - r - 1) * 8 + (v >> 1)]));
        }
    }
    __TVMBackendFreeWorkspace(1, 0, s);
    return 0;
}

int32_t __tvm_ffi_scaled(void *self, const rf_any *args, int32_t count, rf_any *result) {
    (void)self; (void)result; (void)args;
    if (count != 3) return rf_fail_number("TypeError", "scaled: ", "expected 3 arguments, got ", count);
    const rf_tensor *tensors[3];
    void *pointers[3];
    int32_t wrong;
    wrong = rf_tensor_arg(&args[0], "scaled: argument 0 (x): ", 2, 0x12002u, "expected dtype float32, got ", "expected 2 dimensions, got ", (const int64_t[]){ -1, 8 }, &tensors[0], &pointers[0]);
    if (wrong != 0) return wrong;
    const int64_t n = tensors[0]->shape[0];
    wrong = rf_tensor_arg(&args[1], "scaled: argument 1 (i): ", 1, 0x14000u, "expected dtype int64, got ", "expected 1 dimensions, got ", (const int64_t[]){ -1 }, &tensors[1], &pointers[1]);
    if (wrong != 0) return wrong;
    wrong = rf_tensor_arg(&args[2], "scaled: argument 2 (y): ", 2, 0x11002u, "expected dtype float16, got ", "expected 2 dimensions, got ", (const int64_t[]){ -1, 8 }, &tensors[2], &pointers[2]);
    if (wrong != 0) return wrong;
    if (tensors[1]->shape[0] != (n)) return rf_fail_expected("scaled: argument 1 (i): ", "dimension 0: expected ", n, tensors[1]->shape[0]);
    if (tensors[2]->shape[0] != (n)) return rf_fail_expected("scaled: argument 2 (y): ", "dimension 0: expected ", n, tensors[2]->shape[0]);
    return __reflex_raw_scaled((float *)pointers[0], (int64_t *)pointers[1], (uint16_t *)pointers[2], n);
}
