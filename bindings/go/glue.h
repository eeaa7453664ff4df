/* What cgo cannot say in Go: members of the union of a value, and functions as callbacks. */
#ifndef REFLEX_GO_GLUE_H
#define REFLEX_GO_GLUE_H

#include <reflex.h>

static inline int64_t glue_int(const ReflexValue *value) { return value->payload.v_int64; }
static inline double glue_float(const ReflexValue *value) { return value->payload.v_float64; }

/* Packed functions over a handle of a Go function, which they free. */
enum ReflexStatus glue_function(uintptr_t handle, ReflexValue *out);
enum ReflexStatus glue_register(const char *name, uintptr_t handle);

#endif
