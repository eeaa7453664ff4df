#include "glue.h"

#include "_cgo_export.h"

static int call(void *self, const ReflexValue *args, int32_t count, ReflexValue *result) {
    return reflexGoCall((uintptr_t)self, (ReflexValue *)args, count, result);
}

static void drop(void *self) { reflexGoDrop((uintptr_t)self); }

enum ReflexStatus glue_function(uintptr_t handle, ReflexValue *out) {
    return reflex_function(call, (void *)handle, drop, out);
}

enum ReflexStatus glue_register(const char *name, uintptr_t handle) {
    return reflex_register_global_func(name, call, (void *)handle, drop);
}
