//! The beginning of every C text: its demands on the compiler, and the layouts and functions of tvm-ffi.

use std::fmt::Write as _;

use reflex_runtime::abi::{self, DLDevice, type_index};
use reflex_runtime::dtype::code;

/// Comment, headers, and what the compiler must not do.
pub fn head(kernels: &str) -> String {
    format!(
        "/* C11 of {kernels}, by Reflex. To compile it:
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
#error \"kernels have other results with -ffast-math, or where intermediate results are wider than their types\"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__) && defined(__FMA__) && !defined(__STRICT_ANSI__)
#pragma GCC optimize (\"fp-contract=off\")
#endif
"
    )
}

/// Layouts of values and tensors, the functions that hosts have, and how an entry fails.
pub fn entries() -> String {
    let mut text = String::from(LAYOUTS);
    let offsets = [
        ("rf_any, payload", abi::ANY_PAYLOAD),
        ("rf_tensor, data", abi::DLTENSOR_DATA),
        ("rf_tensor, device_type", abi::DLTENSOR_DEVICE),
        ("rf_tensor, ndim", abi::DLTENSOR_NDIM),
        ("rf_tensor, dtype", abi::DLTENSOR_DTYPE),
        ("rf_tensor, shape", abi::DLTENSOR_SHAPE),
        ("rf_tensor, strides", abi::DLTENSOR_STRIDES),
        ("rf_tensor, byte_offset", abi::DLTENSOR_BYTE_OFFSET),
    ];
    for (field, offset) in offsets {
        let _ = writeln!(text, "_Static_assert(offsetof({field}) == {offset}, \"layout\");");
    }
    let sizes = [("rf_any", abi::ANY_SIZE), ("rf_tensor", abi::DLTENSOR_SIZE)];
    for (name, size) in sizes {
        let _ = writeln!(text, "_Static_assert(sizeof({name}) == {size}, \"layout\");");
    }
    let numbers = [
        ("$NONE", type_index::NONE),
        ("$INT", type_index::INT),
        ("$BOOL", type_index::BOOL),
        ("$FLOAT", type_index::FLOAT),
        ("$TENSOR", type_index::TENSOR),
        ("$DL_TENSOR", type_index::DL_TENSOR_PTR),
        ("$RAW_STR", type_index::RAW_STR),
        ("$SMALL_STR", type_index::SMALL_STR),
        ("$STR", type_index::STR),
        ("$SHAPE", type_index::SHAPE),
        ("$ARRAY", type_index::ARRAY),
        ("$CPU", DLDevice::KIND_CPU),
        ("$DLTENSOR_OFFSET", abi::TENSOR_DLTENSOR as i32),
        ("$C_INT", i32::from(code::INT)),
        ("$C_UINT", i32::from(code::UINT)),
        ("$C_FLOAT", i32::from(code::FLOAT)),
        ("$C_BFLOAT", i32::from(code::BFLOAT)),
        ("$C_BOOL", i32::from(code::BOOL)),
    ];
    let fill = |text: String, (from, to): &(&str, i32)| {
        // `$INT)` and the like: names end where they are followed by none of their letters.
        replace_word(&text, from, &to.to_string())
    };
    text.push_str(&numbers.iter().fold(CHECKS.to_owned(), fill));
    text
}

/// Replaces a word that is no part of a longer one.
fn replace_word(text: &str, from: &str, to: &str) -> String {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let (before, behind) = (&rest[..at], &rest[at + from.len()..]);
        replaced.push_str(before);
        let longer = behind.starts_with(|c: char| c.is_ascii_uppercase() || c == '_');
        replaced.push_str(if longer { from } else { to });
        rest = behind;
    }
    replaced + rest
}

const LAYOUTS: &str = r#"
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
"#;

const CHECKS: &str = r#"
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
    const char *name = kind == $NONE ? "None" : kind == $INT ? "int" : kind == $BOOL ? "bool" : kind == $FLOAT ? "float"
        : kind == $RAW_STR || kind == $SMALL_STR || kind == $STR ? "a string" : kind == $SHAPE ? "a shape"
        : kind == $DL_TENSOR || kind == $TENSOR ? "a tensor" : kind == $ARRAY ? "an array" : 0;
    return name ? rf_raise("TypeError", where, text, name, "", "")
        : rf_raise("TypeError", where, text, "type index ", rf_digits(digits, kind), "");
}
static inline int32_t rf_fail_dtype(const char *where, const char *expected, uint32_t dtype) {
    uint32_t code = dtype & 255, bits = dtype >> 8 & 255, lanes = dtype >> 16;
    char width[24], count[24];
    const char *name = code == $C_INT ? "int" : code == $C_UINT ? "uint" : code == $C_FLOAT ? "float" : code == $C_BFLOAT ? "bfloat"
        : code == $C_BOOL ? "bool" : "a type of DLPack code and";
    const char *parts[6] = { where, expected, name, code == $C_BOOL ? "" : rf_digits(width, bits), lanes == 1 ? "" : "x",
        lanes == 1 ? "" : rf_digits(count, lanes) };
    TVMFFIErrorSetRaisedFromCStrParts("TypeError", parts, 6);
    return -1;
}
/* Checks a tensor argument. Extents that may be any are -1. */
static inline int32_t rf_tensor_arg(const rf_any *arg, const char *where, int32_t rank, uint32_t dtype, const char *expected,
    const char *ranks, const int64_t *extents, const rf_tensor **tensor, void **data) {
    const rf_tensor *t = (const rf_tensor *)arg->payload.pointer;
    int64_t count = 1;
    if (arg->type_index != $TENSOR && arg->type_index != $DL_TENSOR) return rf_fail_kind(where, "expected a tensor, got ", arg->type_index);
    if (t == 0) return rf_raise("TypeError", where, "expected a tensor, got a null pointer", "", "", "");
    if (arg->type_index == $TENSOR) t = (const rf_tensor *)((const char *)t + $DLTENSOR_OFFSET);
    if (t->ndim != rank) return rf_fail_number("ValueError", where, ranks, t->ndim);
    if (t->dtype != dtype) return rf_fail_dtype(where, expected, t->dtype);
    if (t->device_type != $CPU) return rf_fail_number("ValueError", where, "expected a tensor on the CPU, got device type ", t->device_type);
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

"#;
