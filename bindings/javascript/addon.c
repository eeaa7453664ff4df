/* Reflex for Node.js over Node-API. index.js has the classes; here are handles, conversions of values,
 * and JavaScript functions as packed functions.
 *
 * JavaScript runs on the thread of its environment alone. A packed function that is called there runs at
 * once; one that a thread of an asynchronous call reaches is sent to that thread and waited for. On any
 * other thread it fails: that thread may be one that JavaScript itself waits for. */
#include <node_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <reflex.h>

/* Results of fewer bytes are copied into memory of JavaScript's, which costs less than a foreign buffer. */
#define COPIED_BYTES 4096

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const napi_type_tag TAG = {0x5265666c65784a53, 0x76616c7565733031};

typedef struct {
    napi_ref tensor_class, error_class;
    pthread_t thread;
} Instance;

static Instance *instance(napi_env env) {
    Instance *found = NULL;
    napi_get_instance_data(env, (void **)&found);
    return found;
}

/* --- errors ------------------------------------------------------------------------------- */

static napi_value throw_text(napi_env env, const char *message) {
    napi_throw_type_error(env, "ERR_REFLEX_ARGUMENT", message);
    return NULL;
}

typedef struct {
    int status;
    char *kind, *message, *backtrace;
} Failure;

/* The last error of this thread. */
static Failure failure_of(ReflexStatus status) {
    return (Failure){status, strdup(reflex_error_kind()), strdup(reflex_error_message()),
                     strdup(reflex_error_backtrace())};
}

static napi_value text(napi_env env, const char *data) {
    napi_value made = NULL;
    napi_create_string_utf8(env, data ? data : "", NAPI_AUTO_LENGTH, &made);
    return made;
}

/* An object of the class for errors; frees the failure. */
static napi_value error_object(napi_env env, Failure failure) {
    napi_value class, args[4], made = NULL;
    napi_get_reference_value(env, instance(env)->error_class, &class);
    args[0] = text(env, failure.kind);
    args[1] = text(env, failure.message);
    napi_create_int32(env, failure.status, &args[2]);
    args[3] = text(env, failure.backtrace);
    napi_new_instance(env, class, COUNT(args), args, &made);
    free(failure.kind);
    free(failure.message);
    free(failure.backtrace);
    return made;
}

static napi_value throw_status(napi_env env, ReflexStatus status) {
    napi_value error = error_object(env, failure_of(status));
    if (error) napi_throw(env, error);
    return NULL;
}

/* --- handles ------------------------------------------------------------------------------ */

typedef enum { ENGINE, PROGRAM, SESSION, CANCELLER, VALUE, FUNCTION } What;

/* What an object of JavaScript owns. It is freed once it is closed and no call uses it. Only the thread of
 * the environment touches it. */
typedef struct {
    What what;
    void *raw;
    ReflexValue value;
    int users;
    bool closed;
} Handle;

static void release(Handle *handle) {
    if (!handle->closed || handle->users > 0) return;
    switch (handle->what) {
    case ENGINE: reflex_engine_free(handle->raw); break;
    case PROGRAM: reflex_program_free(handle->raw); break;
    case SESSION: reflex_session_free(handle->raw); break;
    case CANCELLER: reflex_canceller_free(handle->raw); break;
    case VALUE: case FUNCTION: reflex_free(&handle->value); break;
    }
    handle->raw = NULL;
}

static void close_handle(Handle *handle) {
    if (handle->closed) return;
    handle->closed = true;
    release(handle);
}

static void finalize_handle(napi_env env, void *data, void *hint) {
    (void)env, (void)hint;
    close_handle(data);
    free(data);
}

static Handle *new_handle(What what, void *raw) {
    Handle *handle = calloc(1, sizeof *handle);
    handle->what = what;
    handle->raw = raw;
    handle->value = reflex_none();
    return handle;
}

/* Lets an object own a handle, or frees it. */
static bool adopt(napi_env env, napi_value object, Handle *handle) {
    if (napi_type_tag_object(env, object, &TAG) == napi_ok &&
        napi_wrap(env, object, handle, finalize_handle, NULL, NULL) == napi_ok) return true;
    finalize_handle(env, handle, NULL);
    return false;
}

static napi_value wrapped(napi_env env, Handle *handle) {
    napi_value object = NULL;
    if (napi_create_object(env, &object) != napi_ok) return NULL;
    return adopt(env, object, handle) ? object : NULL;
}

/* The handle of an object that has one, else null. */
static Handle *handle_of(napi_env env, napi_value object) {
    bool tagged = false;
    void *data = NULL;
    if (napi_check_object_type_tag(env, object, &TAG, &tagged) != napi_ok || !tagged) return NULL;
    napi_unwrap(env, object, &data);
    return data;
}

static Handle *open_handle(napi_env env, napi_value object, What what) {
    Handle *handle = handle_of(env, object);
    if (!handle || handle->what != what) return throw_text(env, "not a handle of this kind"), NULL;
    if (handle->closed) return throw_text(env, "it has been disposed of"), NULL;
    return handle;
}

static void done(Handle *handle) {
    --handle->users;
    release(handle);
}

/* --- from JavaScript ----------------------------------------------------------------------- */

typedef struct {
    const char *name;
    ReflexDType dtype;
    napi_typedarray_type array;
} Element;

static const Element ELEMENTS[] = {
    {"float32", {2, 32, 1}, napi_float32_array}, {"float64", {2, 64, 1}, napi_float64_array},
    {"float16", {2, 16, 1}, napi_uint16_array},  {"bfloat16", {4, 16, 1}, napi_uint16_array},
    {"int8", {0, 8, 1}, napi_int8_array},        {"int16", {0, 16, 1}, napi_int16_array},
    {"int32", {0, 32, 1}, napi_int32_array},     {"int64", {0, 64, 1}, napi_bigint64_array},
    {"uint8", {1, 8, 1}, napi_uint8_array},      {"uint16", {1, 16, 1}, napi_uint16_array},
    {"uint32", {1, 32, 1}, napi_uint32_array},   {"uint64", {1, 64, 1}, napi_biguint64_array},
    {"bool", {6, 8, 1}, napi_uint8_array},
};

static bool same_dtype(ReflexDType a, ReflexDType b) {
    return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

static const Element *element_of(ReflexDType dtype) {
    for (size_t i = 0; i < COUNT(ELEMENTS); ++i)
        if (same_dtype(ELEMENTS[i].dtype, dtype)) return &ELEMENTS[i];
    return NULL;
}

/* A string that the caller frees; null, with an exception, for another value. */
static char *string_of(napi_env env, napi_value value, size_t *size) {
    size_t length;
    if (napi_get_value_string_utf8(env, value, NULL, 0, &length) != napi_ok)
        return throw_text(env, "a string is expected"), NULL;
    char *data = malloc(length + 1);
    napi_get_value_string_utf8(env, value, data, length + 1, &length);
    if (size) *size = length;
    return data;
}

/* As above, for the library, whose strings end in NUL. */
static char *name_of(napi_env env, napi_value value) {
    size_t size;
    char *data = string_of(env, value, &size);
    if (data && strlen(data) != size) {
        free(data);
        return throw_text(env, "there is a NUL in the string"), NULL;
    }
    return data;
}

/* Values for a call. Those that are owned are freed after it; tensors of JavaScript's are views of its
 * memory, and `tensors` has what describes them. */
typedef struct {
    uint32_t count;
    ReflexValue *values;
    bool *owned;
    ReflexTensor **tensors;
    bool copied;
} Arguments;

static void free_arguments(Arguments *args) {
    for (uint32_t i = 0; i < args->count; ++i) {
        if (args->owned[i]) reflex_free(&args->values[i]);
        free(args->tensors[i]);
    }
    free(args->values);
    free(args->owned);
    free(args->tensors);
}

static bool make_function(napi_env env, napi_value function, ReflexValue *out);
static bool to_arguments(napi_env env, napi_value array, bool copied, Arguments *args);

static bool own(napi_env env, Arguments *args, uint32_t i, ReflexStatus status) {
    if (status != REFLEX_STATUS_OK) return throw_status(env, status), false;
    return args->owned[i] = true;
}

/* Fills the shape of a view from an array of numbers, and returns the number of elements, or -1. */
static int64_t dims_of(napi_env env, napi_value shape, int64_t *dims, uint32_t ndim) {
    int64_t count = 1;
    for (uint32_t d = 0; d < ndim; ++d) {
        napi_value dim;
        if (napi_get_element(env, shape, d, &dim) != napi_ok ||
            napi_get_value_int64(env, dim, &dims[d]) != napi_ok || dims[d] < 0 ||
            __builtin_mul_overflow(count, dims[d], &count)) return -1;
    }
    return count;
}

static bool tensor_argument(napi_env env, napi_value value, Arguments *args, uint32_t i) {
    napi_value dtype, shape, data;
    uint32_t ndim;
    char name[16] = "";
    napi_typedarray_type type;
    size_t length, offset;
    void *memory;
    const Element *element = NULL;
    if (napi_get_named_property(env, value, "dtype", &dtype) != napi_ok ||
        napi_get_named_property(env, value, "shape", &shape) != napi_ok ||
        napi_get_named_property(env, value, "data", &data) != napi_ok) return false;
    if (napi_get_value_string_utf8(env, dtype, name, sizeof name, NULL) == napi_ok)
        for (size_t e = 0; e < COUNT(ELEMENTS); ++e)
            if (strcmp(ELEMENTS[e].name, name) == 0) element = &ELEMENTS[e];
    if (!element || napi_get_array_length(env, shape, &ndim) != napi_ok ||
        napi_get_typedarray_info(env, data, &type, &length, &memory, NULL, &offset) != napi_ok ||
        type != element->array) return throw_text(env, "the data of a tensor are not of its dtype"), false;
    ReflexTensor *tensor = malloc(sizeof *tensor + ndim * sizeof(int64_t));
    int64_t *dims = (int64_t *)(tensor + 1);
    args->tensors[i] = tensor;
    if (dims_of(env, shape, dims, ndim) != (int64_t)length)
        return throw_text(env, "a tensor has other elements than its shape says (or was disposed of)"), false;
    if (args->copied)
        return own(env, args, i, reflex_tensor(element->dtype, dims, ndim, memory, &args->values[i]));
    *tensor = (ReflexTensor){memory, {1, 0}, (int32_t)ndim, element->dtype, dims, NULL, 0};
    args->values[i] = reflex_tensor_view(tensor);
    return true;
}

static bool number_argument(napi_env env, napi_value value, ReflexValue *out) {
    double number;
    napi_get_value_double(env, value, &number);
    bool whole = number >= -9007199254740991.0 && number <= 9007199254740991.0 &&
                 number == (double)(int64_t)number;
    *out = whole ? reflex_int((int64_t)number) : reflex_float(number);
    return true;
}

static bool object_argument(napi_env env, napi_value value, Arguments *args, uint32_t i) {
    napi_value class;
    bool is = false;
    napi_get_reference_value(env, instance(env)->tensor_class, &class);
    if (napi_instanceof(env, value, class, &is) == napi_ok && is) return tensor_argument(env, value, args, i);
    if (napi_is_array(env, value, &is) == napi_ok && is) {
        Arguments items;
        if (!to_arguments(env, value, args->copied, &items)) return false;
        bool made = own(env, args, i, reflex_tuple(items.values, (int32_t)items.count, &args->values[i]));
        free_arguments(&items);
        return made;
    }
    Handle *handle = handle_of(env, value);
    if (!handle || handle->what < VALUE) return throw_text(env, "an object is no value of programs"), false;
    return own(env, args, i, reflex_copy(&handle->value, &args->values[i]));
}

static bool to_argument(napi_env env, napi_value value, Arguments *args, uint32_t i) {
    napi_valuetype type;
    ReflexValue *out = &args->values[i];
    bool truth;
    int64_t integer;
    napi_typeof(env, value, &type);
    switch (type) {
    case napi_undefined: case napi_null: return true;
    case napi_boolean:
        napi_get_value_bool(env, value, &truth);
        *out = reflex_bool(truth);
        return true;
    case napi_number: return number_argument(env, value, out);
    case napi_bigint:
        napi_get_value_bigint_int64(env, value, &integer, &truth);
        if (!truth) return throw_text(env, "an integer has more than 64 bits"), false;
        *out = reflex_int(integer);
        return true;
    case napi_string: {
        size_t size;
        char *data = string_of(env, value, &size);
        bool made = own(env, args, i, reflex_string(data, size, out));
        free(data);
        return made;
    }
    case napi_function: {
        Handle *handle = handle_of(env, value);
        if (handle) return own(env, args, i, reflex_copy(&handle->value, out));
        return args->owned[i] = make_function(env, value, out);
    }
    case napi_object: return object_argument(env, value, args, i);
    default: return throw_text(env, "a value is none of programs"), false;
    }
}

/* Converts an array; `copied` tensors are the library's. On failure an exception is pending. */
static bool to_arguments(napi_env env, napi_value array, bool copied, Arguments *args) {
    uint32_t count;
    if (napi_get_array_length(env, array, &count) != napi_ok) return throw_text(env, "an array is expected"), false;
    *args = (Arguments){count, calloc(count + 1, sizeof(ReflexValue)), calloc(count + 1, sizeof(bool)),
                        calloc(count + 1, sizeof(ReflexTensor *)), copied};
    for (uint32_t i = 0; i < count; ++i) {
        napi_value item;
        args->values[i] = reflex_none();
        if (napi_get_element(env, array, i, &item) == napi_ok && to_argument(env, item, args, i)) continue;
        bool pending;
        if (napi_is_exception_pending(env, &pending) == napi_ok && !pending) throw_text(env, "an argument cannot be read");
        free_arguments(args);
        return false;
    }
    return true;
}

/* --- to JavaScript ------------------------------------------------------------------------- */

static napi_value from_value(napi_env env, ReflexValue *value);

static int64_t bytes_of(const ReflexTensor *tensor) {
    int64_t bytes = tensor->dtype.bits / 8;
    for (int32_t d = 0; d < tensor->ndim; ++d) bytes *= tensor->shape[d];
    return bytes;
}

static bool is_compact(const ReflexTensor *tensor) {
    int64_t expected = 1;
    for (int32_t d = tensor->ndim - 1; d >= 0 && tensor->strides; --d) {
        if (tensor->shape[d] != 1 && tensor->strides[d] != expected) return false;
        expected *= tensor->shape[d];
    }
    return true;
}

/* JavaScript's last use of memory of a tensor. */
static void free_buffer(napi_env env, void *data, void *hint) {
    (void)data;
    Handle *owner = hint;
    int64_t now;
    if (!owner->closed) napi_adjust_external_memory(env, -bytes_of(reflex_as_tensor(&owner->value)), &now);
    close_handle(owner);
    free(owner);
}

/* A buffer with the elements of a tensor, which it takes; `owner` is set where the memory stays the tensor's. */
static napi_value buffer_of(napi_env env, ReflexValue *value, Handle **owner) {
    const ReflexTensor *tensor = reflex_as_tensor(value);
    void *data = (char *)tensor->data + tensor->byte_offset;
    int64_t bytes = bytes_of(tensor), now;
    napi_value buffer = NULL;
    *owner = NULL;
    if (bytes >= COPIED_BYTES) {
        Handle *kept = new_handle(VALUE, NULL);
        kept->value = *value;
        if (napi_create_external_arraybuffer(env, data, (size_t)bytes, free_buffer, kept, &buffer) == napi_ok) {
            napi_adjust_external_memory(env, bytes, &now);
            *value = reflex_none();
            *owner = kept;
            return buffer;
        }
        /* A host without foreign buffers. */
        free(kept);
    }
    void *copy = NULL;
    if (napi_create_arraybuffer(env, (size_t)bytes, &copy, &buffer) == napi_ok && bytes > 0)
        memcpy(copy, data, (size_t)bytes);
    reflex_free(value);
    return buffer;
}

static napi_value tensor_result(napi_env env, ReflexValue *value) {
    const ReflexTensor *tensor = reflex_as_tensor(value);
    const Element *element = element_of(tensor->dtype);
    if (!element || tensor->device.device_type != 1 || !is_compact(tensor)) {
        reflex_free(value);
        return throw_text(env, "JavaScript has no array for this tensor");
    }
    size_t length = (size_t)(bytes_of(tensor) / (tensor->dtype.bits / 8));
    napi_value args[4], class, made = NULL;
    napi_create_array_with_length(env, (size_t)tensor->ndim, &args[1]);
    for (int32_t d = 0; d < tensor->ndim; ++d) {
        napi_value dim;
        napi_create_int64(env, tensor->shape[d], &dim);
        napi_set_element(env, args[1], (uint32_t)d, dim);
    }
    Handle *owner;
    napi_value buffer = buffer_of(env, value, &owner);
    if (!buffer || napi_create_typedarray(env, element->array, length, buffer, 0, &args[0]) != napi_ok) return NULL;
    args[2] = text(env, element->name);
    napi_get_undefined(env, &args[3]);
    if (owner) napi_create_external(env, owner, NULL, NULL, &args[3]);
    napi_get_reference_value(env, instance(env)->tensor_class, &class);
    napi_new_instance(env, class, COUNT(args), args, &made);
    return made;
}

/* releaseTensor(owner, buffer): frees a tensor's memory now; its buffer is empty from then on. */
static napi_value release_tensor(napi_env env, napi_callback_info info) {
    napi_value args[2];
    size_t count = COUNT(args);
    Handle *owner = NULL;
    int64_t now;
    napi_get_cb_info(env, info, &count, args, NULL, NULL);
    /* A buffer that was transferred may have been freed, and `owner` with it. */
    bool gone = true;
    if (napi_is_detached_arraybuffer(env, args[1], &gone) != napi_ok || gone ||
        napi_get_value_external(env, args[0], (void **)&owner) != napi_ok || owner->closed) return NULL;
    ReflexValue value = owner->value;
    int64_t bytes = bytes_of(reflex_as_tensor(&value));
    owner->closed = true;
    owner->value = reflex_none();
    if (napi_detach_arraybuffer(env, args[1]) == napi_ok) {
        reflex_free(&value);
        napi_adjust_external_memory(env, -bytes, &now);
    } else {
        owner->closed = false;
        owner->value = value;
    }
    return NULL;
}

static napi_value call_function(napi_env env, napi_callback_info info);

static napi_value function_result(napi_env env, ReflexValue *value) {
    Handle *handle = new_handle(FUNCTION, NULL);
    napi_value function = NULL;
    handle->value = *value;
    napi_create_function(env, "packed", NAPI_AUTO_LENGTH, call_function, handle, &function);
    return adopt(env, function, handle) ? function : NULL;
}

static napi_value items_result(napi_env env, ReflexValue *value) {
    int64_t count = reflex_count(value);
    napi_value array;
    napi_create_array_with_length(env, (size_t)count, &array);
    for (int64_t i = 0; i < count; ++i) {
        ReflexValue item;
        napi_value next = NULL;
        ReflexStatus status = reflex_item(value, (uint32_t)i, &item);
        if (status != REFLEX_STATUS_OK) throw_status(env, status);
        else next = from_value(env, &item);
        if (!next) {
            array = NULL;
            break;
        }
        napi_set_element(env, array, (uint32_t)i, next);
    }
    reflex_free(value);
    return array;
}

/* Makes a value of JavaScript's of an owned one, which it takes; null with an exception. */
static napi_value from_value(napi_env env, ReflexValue *value) {
    napi_value made = NULL;
    const char *data;
    size_t size;
    int64_t integer = value->payload.v_int64;
    switch (reflex_kind(value)) {
    case REFLEX_KIND_NONE: napi_get_null(env, &made); break;
    case REFLEX_KIND_BOOL: napi_get_boolean(env, integer != 0, &made); break;
    case REFLEX_KIND_FLOAT: napi_create_double(env, value->payload.v_float64, &made); break;
    case REFLEX_KIND_INT:
        if (integer >= -9007199254740991 && integer <= 9007199254740991) napi_create_int64(env, integer, &made);
        else napi_create_bigint_int64(env, integer, &made);
        break;
    case REFLEX_KIND_STRING:
        if (reflex_as_string(value, &data, &size) == REFLEX_STATUS_OK) napi_create_string_utf8(env, data, size, &made);
        reflex_free(value);
        break;
    case REFLEX_KIND_TENSOR: return tensor_result(env, value);
    case REFLEX_KIND_TUPLE: case REFLEX_KIND_SHAPE: return items_result(env, value);
    case REFLEX_KIND_FUNCTION: return function_result(env, value);
    case REFLEX_KIND_OTHER: {
        Handle *handle = new_handle(VALUE, NULL);
        handle->value = *value;
        return wrapped(env, handle);
    }
    }
    return made;
}

/* --- packed functions in JavaScript ------------------------------------------------------------ */

/* Its users are the packed function and the queue of the environment, which end on different threads. */
typedef struct {
    napi_env env;
    napi_ref function;
    napi_threadsafe_function queue;
    pthread_t thread;
    pthread_mutex_t mutex;
    int users;
    bool gone; /* the environment has ended */
} Callback;

/* A call that another thread waits for. */
typedef struct {
    Callback *callback;
    const ReflexValue *args;
    int32_t count;
    ReflexValue *result;
    Failure failure;
    bool failed, finished;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
} Request;

/* Whether this thread runs an asynchronous call, so that JavaScript's does not wait for it. */
static _Thread_local bool asynchronous;

static void leave(Callback *callback, bool gone) {
    pthread_mutex_lock(&callback->mutex);
    int left = --callback->users;
    callback->gone |= gone;
    pthread_mutex_unlock(&callback->mutex);
    if (left > 0) return;
    pthread_mutex_destroy(&callback->mutex);
    free(callback);
}

static void drop_function(void *self) {
    Callback *callback = self;
    pthread_mutex_lock(&callback->mutex);
    bool gone = callback->gone;
    pthread_mutex_unlock(&callback->mutex);
    if (!gone) napi_release_threadsafe_function(callback->queue, napi_tsfn_release);
    leave(callback, false);
}

static void queue_ended(napi_env env, void *data, void *hint) {
    (void)hint;
    Callback *callback = data;
    napi_delete_reference(env, callback->function);
    leave(callback, true);
}

static char *property(napi_env env, napi_value object, const char *name) {
    napi_value value;
    napi_valuetype type;
    if (napi_get_named_property(env, object, name, &value) != napi_ok ||
        napi_typeof(env, value, &type) != napi_ok || type != napi_string) return NULL;
    return string_of(env, value, NULL);
}

/* The exception that is pending, as an error of the library's. */
static Failure pending_failure(napi_env env) {
    napi_value error, written;
    napi_valuetype type = napi_undefined;
    Failure failure = {REFLEX_STATUS_RUN, NULL, NULL, NULL};
    if (napi_get_and_clear_last_exception(env, &error) == napi_ok) napi_typeof(env, error, &type);
    if (type == napi_object) {
        failure.kind = property(env, error, "kind");
        if (!failure.kind) failure.kind = property(env, error, "name");
        failure.message = property(env, error, "message");
    } else if (type != napi_undefined && napi_coerce_to_string(env, error, &written) == napi_ok) {
        failure.message = string_of(env, written, NULL);
    }
    if (!failure.kind) failure.kind = strdup("Error");
    if (!failure.message) failure.message = strdup("a JavaScript function failed");
    napi_get_and_clear_last_exception(env, &error);
    return failure;
}

/* Calls the function on its own thread; false with an exception. */
static bool run_function(Callback *callback, const ReflexValue *args, int32_t count, ReflexValue *result) {
    napi_env env = callback->env;
    napi_value function, receiver, answer, array, *given = calloc((size_t)count + 1, sizeof *given);
    bool worked = true;
    for (int32_t i = 0; i < count && worked; ++i) {
        ReflexValue owned = reflex_none();
        ReflexStatus status = reflex_copy(&args[i], &owned);
        if (status != REFLEX_STATUS_OK) throw_status(env, status);
        else given[i] = from_value(env, &owned);
        worked = given[i] != NULL;
    }
    if (worked) {
        napi_get_reference_value(env, callback->function, &function);
        napi_get_undefined(env, &receiver);
        worked = napi_call_function(env, receiver, function, (size_t)count, given, &answer) == napi_ok;
    }
    free(given);
    if (!worked) return false;
    Arguments returned;
    napi_create_array_with_length(env, 1, &array);
    napi_set_element(env, array, 0, answer);
    if (!to_arguments(env, array, false, &returned)) return false;
    ReflexStatus status = reflex_copy(&returned.values[0], result);
    free_arguments(&returned);
    if (status != REFLEX_STATUS_OK) return throw_status(env, status), false;
    return true;
}

static bool run_in_scope(Callback *callback, const ReflexValue *args, int32_t count, ReflexValue *result,
                         Failure *failure) {
    napi_handle_scope scope;
    napi_open_handle_scope(callback->env, &scope);
    bool worked = run_function(callback, args, count, result);
    if (!worked) *failure = pending_failure(callback->env);
    napi_close_handle_scope(callback->env, scope);
    return worked;
}

static int raise_failure(Failure failure) {
    int raised = reflex_raise(failure.kind, failure.message);
    free(failure.kind);
    free(failure.message);
    free(failure.backtrace);
    return raised;
}

static void answer_request(napi_env env, napi_value function, void *data, void *context) {
    (void)function, (void)data;
    Request *request = context;
    if (!env) request->failure = (Failure){REFLEX_STATUS_RUN, strdup("RuntimeError"), strdup("JavaScript has ended"), NULL};
    bool worked = env && run_in_scope(request->callback, request->args, request->count, request->result, &request->failure);
    pthread_mutex_lock(&request->mutex);
    request->failed = !worked;
    request->finished = true;
    pthread_cond_signal(&request->changed);
    pthread_mutex_unlock(&request->mutex);
}

static int call_elsewhere(Callback *callback, const ReflexValue *args, int32_t count, ReflexValue *result) {
    if (!asynchronous)
        return reflex_raise("RuntimeError", "a JavaScript function was called on a thread that JavaScript may wait for");
    Request request = {.callback = callback, .args = args, .count = count, .result = result};
    pthread_mutex_init(&request.mutex, NULL);
    pthread_cond_init(&request.changed, NULL);
    pthread_mutex_lock(&callback->mutex);
    bool gone = callback->gone;
    pthread_mutex_unlock(&callback->mutex);
    if (gone || napi_call_threadsafe_function(callback->queue, &request, napi_tsfn_blocking) != napi_ok)
        return reflex_raise("RuntimeError", "JavaScript has ended");
    pthread_mutex_lock(&request.mutex);
    while (!request.finished) pthread_cond_wait(&request.changed, &request.mutex);
    pthread_mutex_unlock(&request.mutex);
    pthread_cond_destroy(&request.changed);
    pthread_mutex_destroy(&request.mutex);
    return request.failed ? raise_failure(request.failure) : 0;
}

static int call_javascript(void *self, const ReflexValue *args, int32_t count, ReflexValue *result) {
    Callback *callback = self;
    Failure failure = {0};
    if (!pthread_equal(callback->thread, pthread_self())) return call_elsewhere(callback, args, count, result);
    if (callback->gone) return reflex_raise("RuntimeError", "JavaScript has ended");
    return run_in_scope(callback, args, count, result, &failure) ? 0 : raise_failure(failure);
}

static Callback *new_callback(napi_env env, napi_value function) {
    Callback *callback = calloc(1, sizeof *callback);
    callback->env = env;
    callback->thread = instance(env)->thread;
    callback->users = 2;
    pthread_mutex_init(&callback->mutex, NULL);
    napi_create_reference(env, function, 1, &callback->function);
    if (napi_create_threadsafe_function(env, NULL, NULL, text(env, "reflex"), 0, 1, callback, queue_ended, NULL,
                                        answer_request, &callback->queue) != napi_ok) {
        napi_delete_reference(env, callback->function);
        free(callback);
        return throw_text(env, "no queue for calls from other threads"), NULL;
    }
    napi_unref_threadsafe_function(env, callback->queue);
    return callback;
}

static bool make_function(napi_env env, napi_value function, ReflexValue *out) {
    Callback *callback = new_callback(env, function);
    if (!callback) return false;
    ReflexStatus status = reflex_function(call_javascript, callback, drop_function, out);
    if (status != REFLEX_STATUS_OK) return throw_status(env, status), false;
    return true;
}

/* --- exports -------------------------------------------------------------------------------- */

#define ARGS(n)                                                                                     \
    napi_value args[n];                                                                             \
    size_t given = n;                                                                               \
    napi_get_cb_info(env, info, &given, args, NULL, NULL)

static napi_value number(napi_env env, double value) {
    napi_value made = NULL;
    napi_create_double(env, value, &made);
    return made;
}

/* dispose(handle) */
static napi_value dispose(napi_env env, napi_callback_info info) {
    ARGS(1);
    Handle *handle = handle_of(env, args[0]);
    if (handle) close_handle(handle);
    return NULL;
}

/* newEngine(threads, device, kernelCache, tier, precision, optimizeFor, dims): strings or undefined */
static napi_value new_engine(napi_env env, napi_callback_info info) {
    ARGS(7);
    char *texts[6] = {0};
    napi_valuetype type;
    uint32_t threads = 0;
    napi_value made = NULL;
    bool fits = true;
    napi_get_value_uint32(env, args[0], &threads);
    for (int i = 0; i < 6 && fits; ++i)
        if (napi_typeof(env, args[i + 1], &type) == napi_ok && type != napi_undefined)
            fits = (texts[i] = name_of(env, args[i + 1])) != NULL;
    ReflexEngineOptions options = {.device = texts[0], .threads = threads, .kernel_cache = texts[1], .tier = texts[2],
                                   .precision = texts[3], .optimize_for = texts[4],
                                   .dims = texts[5]};
    ReflexEngine *engine;
    ReflexStatus status = fits ? reflex_engine_new(&options, &engine) : REFLEX_STATUS_OK;
    if (status != REFLEX_STATUS_OK) throw_status(env, status);
    else if (fits) made = wrapped(env, new_handle(ENGINE, engine));
    for (int i = 0; i < 6; ++i) free(texts[i]);
    return made;
}

/* load(engine, path) */
static napi_value load(napi_env env, napi_callback_info info) {
    ARGS(2);
    Handle *engine = open_handle(env, args[0], ENGINE);
    char *path = engine ? name_of(env, args[1]) : NULL;
    if (!path) return NULL;
    ReflexProgram *program;
    ReflexStatus status = reflex_engine_load(engine->raw, path, &program);
    free(path);
    if (status != REFLEX_STATUS_OK) return throw_status(env, status);
    return wrapped(env, new_handle(PROGRAM, program));
}

/* loadBytes(engine, format, bytes) */
static napi_value load_bytes(napi_env env, napi_callback_info info) {
    ARGS(3);
    Handle *engine = open_handle(env, args[0], ENGINE);
    int32_t format = -1;
    void *data;
    size_t size;
    if (!engine) return NULL;
    napi_get_value_int32(env, args[1], &format);
    if (napi_get_typedarray_info(env, args[2], NULL, &size, &data, NULL, NULL) != napi_ok)
        return throw_text(env, "a model in memory is a Uint8Array");
    ReflexProgram *program;
    ReflexStatus status = reflex_engine_load_bytes(engine->raw, format, data, size, &program);
    if (status != REFLEX_STATUS_OK) return throw_status(env, status);
    return wrapped(env, new_handle(PROGRAM, program));
}

/* save(program, path) */
static napi_value save(napi_env env, napi_callback_info info) {
    ARGS(2);
    Handle *program = open_handle(env, args[0], PROGRAM);
    char *path = program ? name_of(env, args[1]) : NULL;
    if (!path) return NULL;
    ReflexStatus status = reflex_program_save(program->raw, path);
    free(path);
    return status == REFLEX_STATUS_OK ? NULL : throw_status(env, status);
}

/* functions(program) */
static napi_value functions(napi_env env, napi_callback_info info) {
    ARGS(1);
    Handle *program = open_handle(env, args[0], PROGRAM);
    napi_value array;
    ReflexValue name;
    if (!program) return NULL;
    napi_create_array(env, &array);
    for (uint32_t i = 0; reflex_program_function(program->raw, i, &name) == REFLEX_STATUS_OK; ++i)
        napi_set_element(env, array, i, from_value(env, &name));
    return array;
}

static napi_value infos(napi_env env, const ReflexTensorInfo *first, uint32_t count) {
    napi_value array, object, shape, null;
    napi_create_array_with_length(env, count, &array);
    napi_get_null(env, &null);
    for (uint32_t i = 0; i < count; ++i) {
        const ReflexTensorInfo *info = &first[i];
        const Element *element = element_of(info->dtype);
        napi_create_object(env, &object);
        napi_create_array_with_length(env, (size_t)info->ndim, &shape);
        for (int32_t d = 0; d < info->ndim; ++d)
            napi_set_element(env, shape, (uint32_t)d,
                             info->symbols[d] ? text(env, info->symbols[d]) : number(env, (double)info->shape[d]));
        napi_set_named_property(env, object, "name", text(env, info->name));
        napi_set_named_property(env, object, "dtype", element ? text(env, element->name) : null);
        napi_set_named_property(env, object, "shape", shape);
        napi_set_element(env, array, i, object);
    }
    return array;
}

/* signature(program, function) */
static napi_value signature(napi_env env, napi_callback_info info) {
    ARGS(2);
    Handle *program = open_handle(env, args[0], PROGRAM);
    char *name = program ? name_of(env, args[1]) : NULL;
    if (!name) return NULL;
    ReflexSignature found;
    ReflexStatus status = reflex_program_signature(program->raw, name, &found);
    free(name);
    if (status != REFLEX_STATUS_OK) return throw_status(env, status);
    napi_value object;
    napi_create_object(env, &object);
    napi_set_named_property(env, object, "inputs", infos(env, found.inputs, found.input_count));
    napi_set_named_property(env, object, "outputs", infos(env, found.outputs, found.output_count));
    return object;
}

/* newSession(program, mode) */
static napi_value new_session(napi_env env, napi_callback_info info) {
    ARGS(2);
    Handle *program = open_handle(env, args[0], PROGRAM);
    int32_t mode = -1;
    if (!program) return NULL;
    napi_get_value_int32(env, args[1], &mode);
    ReflexSession *session;
    ReflexStatus status = reflex_session_new(program->raw, mode, &session);
    if (status != REFLEX_STATUS_OK) return throw_status(env, status);
    return wrapped(env, new_handle(SESSION, session));
}

/* call(session, name, args) and warmUp(session, name, args) */
static napi_value run(napi_env env, napi_callback_info info, bool warm) {
    ARGS(3);
    Handle *session = open_handle(env, args[0], SESSION);
    char *name = session ? name_of(env, args[1]) : NULL;
    Arguments values;
    if (!name) return NULL;
    if (!to_arguments(env, args[2], false, &values)) return free(name), NULL;
    ReflexValue result = reflex_none();
    uint64_t calls = 0;
    ++session->users;
    ReflexStatus status =
        warm ? reflex_warm_up(session->raw, name, values.values, (int32_t)values.count, &calls)
             : reflex_call(session->raw, name, values.values, (int32_t)values.count, &result);
    napi_value made = NULL;
    if (status != REFLEX_STATUS_OK) throw_status(env, status);
    else made = warm ? number(env, (double)calls) : from_value(env, &result);
    done(session);
    free_arguments(&values);
    free(name);
    return made;
}

static napi_value call(napi_env env, napi_callback_info info) { return run(env, info, false); }
static napi_value warm_up(napi_env env, napi_callback_info info) { return run(env, info, true); }

/* A call of a session on a thread of Node's pool. */
typedef struct {
    napi_async_work work;
    napi_deferred deferred;
    Handle *session;
    napi_ref object;
    char *name;
    Arguments args;
    ReflexValue result;
    ReflexStatus status;
    Failure failure;
} Job;

static void execute(napi_env env, void *data) {
    (void)env;
    Job *job = data;
    asynchronous = true;
    job->status = reflex_call(job->session->raw, job->name, job->args.values, (int32_t)job->args.count, &job->result);
    asynchronous = false;
    if (job->status != REFLEX_STATUS_OK) job->failure = failure_of(job->status);
}

static void complete(napi_env env, napi_status status, void *data) {
    (void)status;
    Job *job = data;
    napi_value made = NULL;
    if (job->status == REFLEX_STATUS_OK && (made = from_value(env, &job->result))) {
        napi_resolve_deferred(env, job->deferred, made);
    } else {
        if (job->status != REFLEX_STATUS_OK) made = error_object(env, job->failure);
        else napi_get_and_clear_last_exception(env, &made);
        napi_reject_deferred(env, job->deferred, made);
    }
    done(job->session);
    napi_delete_reference(env, job->object);
    napi_delete_async_work(env, job->work);
    free_arguments(&job->args);
    free(job->name);
    free(job);
}

/* callAsync(session, name, args) */
static napi_value call_async(napi_env env, napi_callback_info info) {
    ARGS(3);
    Handle *session = open_handle(env, args[0], SESSION);
    char *name = session ? name_of(env, args[1]) : NULL;
    napi_value promise;
    Arguments values;
    if (!name) return NULL;
    if (!to_arguments(env, args[2], true, &values)) return free(name), NULL;
    Job *job = calloc(1, sizeof *job);
    *job = (Job){.session = session, .name = name, .args = values, .result = reflex_none()};
    ++session->users;
    napi_create_promise(env, &job->deferred, &promise);
    napi_create_reference(env, args[0], 1, &job->object);
    napi_create_async_work(env, NULL, text(env, "reflex.call"), execute, complete, job, &job->work);
    napi_queue_async_work(env, job->work);
    return promise;
}

/* setFuel(session, BigInt) */
static napi_value set_fuel(napi_env env, napi_callback_info info) {
    ARGS(2);
    Handle *session = open_handle(env, args[0], SESSION);
    uint64_t fuel;
    bool whole;
    if (!session) return NULL;
    if (napi_get_value_bigint_uint64(env, args[1], &fuel, &whole) != napi_ok || !whole)
        return throw_text(env, "fuel is a BigInt of 64 bits");
    ReflexStatus status = reflex_set_fuel(session->raw, fuel);
    return status == REFLEX_STATUS_OK ? NULL : throw_status(env, status);
}

/* setDeadline(session, milliseconds) */
static napi_value set_deadline(napi_env env, napi_callback_info info) {
    ARGS(2);
    Handle *session = open_handle(env, args[0], SESSION);
    double milliseconds;
    if (!session) return NULL;
    if (napi_get_value_double(env, args[1], &milliseconds) != napi_ok || !(milliseconds < 9e12))
        return throw_text(env, "a deadline is a number of milliseconds");
    ReflexStatus status = reflex_set_deadline(session->raw, milliseconds < 0 ? -1 : (int64_t)(milliseconds * 1e6));
    return status == REFLEX_STATUS_OK ? NULL : throw_status(env, status);
}

/* canceller(session) */
static napi_value canceller(napi_env env, napi_callback_info info) {
    ARGS(1);
    Handle *session = open_handle(env, args[0], SESSION);
    ReflexCanceller *made;
    if (!session) return NULL;
    ReflexStatus status = reflex_canceller_new(session->raw, &made);
    return status == REFLEX_STATUS_OK ? wrapped(env, new_handle(CANCELLER, made)) : throw_status(env, status);
}

/* cancel(canceller, stop) */
static napi_value cancel(napi_env env, napi_callback_info info) {
    ARGS(2);
    Handle *handle = open_handle(env, args[0], CANCELLER);
    bool stop = true;
    if (!handle) return NULL;
    napi_get_value_bool(env, args[1], &stop);
    ReflexStatus status = stop ? reflex_cancel(handle->raw) : reflex_cancel_reset(handle->raw);
    return status == REFLEX_STATUS_OK ? NULL : throw_status(env, status);
}

/* register(name, function) */
static napi_value register_function(napi_env env, napi_callback_info info) {
    ARGS(2);
    napi_valuetype type = napi_undefined;
    napi_typeof(env, args[1], &type);
    if (type != napi_function) return throw_text(env, "a function is expected");
    char *name = name_of(env, args[0]);
    Callback *callback = name ? new_callback(env, args[1]) : NULL;
    ReflexStatus status = REFLEX_STATUS_OK;
    if (callback) status = reflex_register_global_func(name, call_javascript, callback, drop_function);
    free(name);
    return status == REFLEX_STATUS_OK ? NULL : throw_status(env, status);
}

/* lookup(name) */
static napi_value lookup(napi_env env, napi_callback_info info) {
    ARGS(1);
    char *name = name_of(env, args[0]);
    ReflexValue found;
    if (!name) return NULL;
    ReflexStatus status = reflex_get_global_func(name, &found);
    free(name);
    return status == REFLEX_STATUS_OK ? function_result(env, &found) : throw_status(env, status);
}

/* The body of functions that are the library's. */
static napi_value call_function(napi_env env, napi_callback_info info) {
    size_t count = 0;
    Handle *handle;
    napi_value array, *given;
    napi_get_cb_info(env, info, &count, NULL, NULL, NULL);
    given = calloc(count + 1, sizeof *given);
    napi_get_cb_info(env, info, &count, given, NULL, (void **)&handle);
    napi_create_array_with_length(env, count, &array);
    for (size_t i = 0; i < count; ++i) napi_set_element(env, array, (uint32_t)i, given[i]);
    free(given);
    Arguments values;
    ReflexValue result = reflex_none();
    if (!to_arguments(env, array, false, &values)) return NULL;
    ReflexStatus status = reflex_call_function(&handle->value, values.values, (int32_t)values.count, &result);
    napi_value made = status == REFLEX_STATUS_OK ? from_value(env, &result) : throw_status(env, status);
    free_arguments(&values);
    return made;
}

/* init(Tensor, ReflexError) */
static napi_value set_classes(napi_env env, napi_callback_info info) {
    ARGS(2);
    napi_create_reference(env, args[0], 1, &instance(env)->tensor_class);
    napi_create_reference(env, args[1], 1, &instance(env)->error_class);
    return text(env, reflex_version());
}

static void free_instance(napi_env env, void *data, void *hint) {
    (void)hint;
    Instance *ended = data;
    napi_delete_reference(env, ended->tensor_class);
    napi_delete_reference(env, ended->error_class);
    free(ended);
}

static napi_value init(napi_env env, napi_value exports) {
    static const struct {
        const char *name;
        napi_callback call;
    } EXPORTS[] = {
        {"init", set_classes},       {"dispose", dispose},        {"newEngine", new_engine},
        {"load", load},              {"loadBytes", load_bytes},   {"save", save},
        {"functions", functions},    {"signature", signature},    {"newSession", new_session},
        {"call", call},              {"warmUp", warm_up},         {"callAsync", call_async},
        {"setFuel", set_fuel},       {"setDeadline", set_deadline}, {"canceller", canceller},
        {"cancel", cancel},          {"register", register_function}, {"lookup", lookup},
        {"releaseTensor", release_tensor},
    };
    Instance *made = calloc(1, sizeof *made);
    made->thread = pthread_self();
    napi_set_instance_data(env, made, free_instance, NULL);
    for (size_t i = 0; i < COUNT(EXPORTS); ++i) {
        napi_value function;
        napi_create_function(env, EXPORTS[i].name, NAPI_AUTO_LENGTH, EXPORTS[i].call, NULL, &function);
        napi_set_named_property(env, exports, EXPORTS[i].name, function);
    }
    return exports;
}

NAPI_MODULE(reflex, init)
