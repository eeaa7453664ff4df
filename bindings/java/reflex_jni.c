/* Reflex for Java over JNI. What is decided is decided in Java: here are one function for each of the C
 * interface that Java needs, and packed functions that call Java. Values are pointers to ReflexValue in
 * memory of C's, which Java owns. */
#include <jni.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <reflex.h>

#define EXPORT(type, name) JNIEXPORT type JNICALL Java_reflex_Native_##name

static JavaVM *vm;
static jclass native_class, error_class;
static jmethodID invoke_method, error_constructor;
static pthread_key_t attached;

static void detach(void *on) {
    if (on) (*vm)->DetachCurrentThread(vm);
}

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *java, void *reserved) {
    (void)reserved;
    JNIEnv *env;
    vm = java;
    if ((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_10) != JNI_OK || pthread_key_create(&attached, detach)) return JNI_ERR;
    jclass native = (*env)->FindClass(env, "reflex/Native");
    jclass error = native ? (*env)->FindClass(env, "reflex/ReflexException") : NULL;
    if (!error) return JNI_ERR;
    native_class = (*env)->NewGlobalRef(env, native);
    error_class = (*env)->NewGlobalRef(env, error);
    invoke_method = (*env)->GetStaticMethodID(env, native, "invoke", "(Lreflex/PackedFunction;[J)J");
    error_constructor = (*env)->GetMethodID(env, error, "<init>", "([B[BI[B)V");
    return invoke_method && error_constructor ? JNI_VERSION_10 : JNI_ERR;
}

/* --- text and errors ----------------------------------------------------------------------- */

/* Texts are UTF-8 as arrays of bytes, since JNI's own form of it is another. */
static jbyteArray bytes_of(JNIEnv *env, const char *data, size_t size) {
    jbyteArray array = (*env)->NewByteArray(env, (jsize)size);
    if (array) (*env)->SetByteArrayRegion(env, array, 0, (jsize)size, (const jbyte *)data);
    return array;
}

/* A string that the caller frees; null for null, and with an exception where there is no memory. */
static char *text_of(JNIEnv *env, jbyteArray array) {
    if (!array) return NULL;
    jsize size = (*env)->GetArrayLength(env, array);
    char *text = malloc((size_t)size + 1);
    (*env)->GetByteArrayRegion(env, array, 0, size, (jbyte *)text);
    text[size] = 0;
    return text;
}

/* Whether the status is that of success; else throws the error of this thread. */
static bool fine(JNIEnv *env, ReflexStatus status) {
    if (status == REFLEX_STATUS_OK) return true;
    const char *texts[] = {reflex_error_kind(), reflex_error_message(), reflex_error_backtrace()};
    jbyteArray arrays[3];
    for (int i = 0; i < 3; ++i)
        if (!(arrays[i] = bytes_of(env, texts[i], strlen(texts[i])))) return false;
    jobject error = (*env)->NewObject(env, error_class, error_constructor, arrays[0], arrays[1], (jint)status, arrays[2]);
    if (error) (*env)->Throw(env, error);
    return false;
}

/* --- values -------------------------------------------------------------------------------- */

static jlong kept(ReflexValue value) {
    ReflexValue *owned = malloc(sizeof value);
    *owned = value;
    return (jlong)owned;
}

static jlong kept_if(JNIEnv *env, ReflexStatus status, ReflexValue *value) {
    return fine(env, status) ? kept(*value) : 0;
}

EXPORT(void, freeValue)(JNIEnv *env, jclass class, jlong value) {
    (void)env, (void)class;
    reflex_free((ReflexValue *)value);
    free((ReflexValue *)value);
}

EXPORT(jlong, copyValue)(JNIEnv *env, jclass class, jlong value) {
    (void)class;
    ReflexValue copy;
    return kept_if(env, reflex_copy((ReflexValue *)value, &copy), &copy);
}

EXPORT(jint, kind)(JNIEnv *env, jclass class, jlong value) {
    (void)env, (void)class;
    return (jint)reflex_kind((ReflexValue *)value);
}

EXPORT(jlong, word)(JNIEnv *env, jclass class, jlong value) {
    (void)env, (void)class;
    return ((ReflexValue *)value)->payload.v_int64;
}

EXPORT(jbyteArray, text)(JNIEnv *env, jclass class, jlong value) {
    (void)class;
    const char *data;
    size_t size;
    if (!fine(env, reflex_as_string((ReflexValue *)value, &data, &size))) return NULL;
    return bytes_of(env, data, size);
}

EXPORT(jlong, count)(JNIEnv *env, jclass class, jlong value) {
    (void)env, (void)class;
    return reflex_count((ReflexValue *)value);
}

EXPORT(jlong, item)(JNIEnv *env, jclass class, jlong value, jint index) {
    (void)class;
    ReflexValue item;
    return kept_if(env, reflex_item((ReflexValue *)value, (uint32_t)index, &item), &item);
}

/* The kinds of words in arguments, as Native.java numbers them. */
enum { WORD_NONE, WORD_INT, WORD_BOOL, WORD_FLOAT, WORD_VALUE };

/* Values of arguments, borrowed from Java; the caller frees the array. */
static ReflexValue *arguments(JNIEnv *env, jbyteArray kinds, jlongArray words, jsize *count) {
    *count = (*env)->GetArrayLength(env, kinds);
    size_t length = (size_t)*count + 1;
    jbyte *kind = malloc(length);
    jlong *word = malloc(length * sizeof *word);
    ReflexValue *values = malloc(length * sizeof *values);
    (*env)->GetByteArrayRegion(env, kinds, 0, *count, kind);
    (*env)->GetLongArrayRegion(env, words, 0, *count, word);
    for (jsize i = 0; i < *count; ++i) {
        double number;
        memcpy(&number, &word[i], sizeof number);
        values[i] = kind[i] == WORD_INT     ? reflex_int(word[i])
                    : kind[i] == WORD_BOOL  ? reflex_bool(word[i] != 0)
                    : kind[i] == WORD_FLOAT ? reflex_float(number)
                    : kind[i] == WORD_VALUE ? *(ReflexValue *)word[i]
                                            : reflex_none();
    }
    free(kind);
    free(word);
    return values;
}

EXPORT(jlong, scalar)(JNIEnv *env, jclass class, jbyteArray kinds, jlongArray words) {
    (void)class;
    jsize count;
    ReflexValue *values = arguments(env, kinds, words, &count);
    jlong made = kept(values[0]);
    free(values);
    return made;
}

EXPORT(jlong, string)(JNIEnv *env, jclass class, jbyteArray text) {
    (void)class;
    char *data = text_of(env, text);
    ReflexValue made;
    ReflexStatus status = reflex_string(data, (size_t)(*env)->GetArrayLength(env, text), &made);
    free(data);
    return kept_if(env, status, &made);
}

EXPORT(jlong, shape)(JNIEnv *env, jclass class, jlongArray dims) {
    (void)class;
    jsize count = (*env)->GetArrayLength(env, dims);
    jlong *data = (*env)->GetLongArrayElements(env, dims, NULL);
    ReflexValue made;
    ReflexStatus status = reflex_shape((const int64_t *)data, (uint32_t)count, &made);
    (*env)->ReleaseLongArrayElements(env, dims, data, JNI_ABORT);
    return kept_if(env, status, &made);
}

EXPORT(jlong, tuple)(JNIEnv *env, jclass class, jbyteArray kinds, jlongArray words) {
    (void)class;
    jsize count;
    ReflexValue made, *values = arguments(env, kinds, words, &count);
    ReflexStatus status = reflex_tuple(values, count, &made);
    free(values);
    return kept_if(env, status, &made);
}

/* --- tensors ------------------------------------------------------------------------------- */

static ReflexDType dtype_of(jint dtype) {
    return (ReflexDType){(uint8_t)(dtype >> 8), (uint8_t)dtype, 1};
}

EXPORT(jlong, newTensor)(JNIEnv *env, jclass class, jint dtype, jlongArray shape) {
    (void)class;
    jsize ndim = (*env)->GetArrayLength(env, shape);
    jlong *dims = (*env)->GetLongArrayElements(env, shape, NULL);
    ReflexValue made;
    ReflexStatus status = reflex_tensor(dtype_of(dtype), (const int64_t *)dims, (uint32_t)ndim, NULL, &made);
    (*env)->ReleaseLongArrayElements(env, shape, dims, JNI_ABORT);
    return kept_if(env, status, &made);
}

/* A view of a direct buffer, which Java keeps: the value, the tensor and its shape in one block. */
EXPORT(jlong, viewOf)(JNIEnv *env, jclass class, jobject buffer, jint dtype, jlongArray shape) {
    (void)class;
    jsize ndim = (*env)->GetArrayLength(env, shape);
    struct {
        ReflexValue value;
        ReflexTensor tensor;
        int64_t dims[];
    } *view = malloc(sizeof *view + (size_t)ndim * sizeof(int64_t));
    (*env)->GetLongArrayRegion(env, shape, 0, ndim, (jlong *)view->dims);
    view->tensor = (ReflexTensor){(*env)->GetDirectBufferAddress(env, buffer), {1, 0}, ndim, dtype_of(dtype),
                                  view->dims, NULL, 0};
    view->value = reflex_tensor_view(&view->tensor);
    return (jlong)view;
}

/* The element type: code and bits; -1 for one with lanes. */
EXPORT(jint, dtype)(JNIEnv *env, jclass class, jlong value) {
    (void)env, (void)class;
    ReflexDType dtype = reflex_as_tensor((ReflexValue *)value)->dtype;
    return dtype.lanes == 1 ? dtype.code << 8 | dtype.bits : -1;
}

EXPORT(jlongArray, dims)(JNIEnv *env, jclass class, jlong value) {
    (void)class;
    const ReflexTensor *tensor = reflex_as_tensor((ReflexValue *)value);
    jlongArray dims = (*env)->NewLongArray(env, tensor->ndim);
    if (dims) (*env)->SetLongArrayRegion(env, dims, 0, tensor->ndim, (const jlong *)tensor->shape);
    return dims;
}

/* The memory of a tensor as a direct buffer; null where it is not compact or not the CPU's. */
EXPORT(jobject, buffer)(JNIEnv *env, jclass class, jlong value) {
    (void)class;
    const ReflexTensor *tensor = reflex_as_tensor((ReflexValue *)value);
    int64_t count = 1;
    for (int32_t d = tensor->ndim - 1; d >= 0; --d) {
        if (tensor->strides && tensor->shape[d] != 1 && tensor->strides[d] != count) return NULL;
        count *= tensor->shape[d];
    }
    if (tensor->device.device_type != 1) return NULL;
    return (*env)->NewDirectByteBuffer(env, (char *)tensor->data + tensor->byte_offset, count * (tensor->dtype.bits / 8));
}

/* --- packed functions ------------------------------------------------------------------------ */

static JNIEnv *environment(void) {
    JNIEnv *env = NULL;
    if ((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_10) == JNI_OK) return env;
    if ((*vm)->AttachCurrentThreadAsDaemon(vm, (void **)&env, NULL) != JNI_OK) return NULL;
    pthread_setspecific(attached, vm);
    return env;
}

/* Java takes copies of the arguments, sets the error itself, and then answers 0. */
static int call_java(void *self, const ReflexValue *args, int32_t count, ReflexValue *result) {
    JNIEnv *env = environment();
    if (!env) return reflex_raise("RuntimeError", "Java has ended");
    if ((*env)->PushLocalFrame(env, 16) != JNI_OK) return reflex_raise("MemoryError", "Java has no memory for a call");
    jlongArray values = (*env)->NewLongArray(env, count);
    for (int32_t i = 0; i < count && values; ++i) {
        ReflexValue copy = reflex_none();
        if (!fine(env, reflex_copy(&args[i], &copy))) break;
        jlong owned = kept(copy);
        (*env)->SetLongArrayRegion(env, values, i, 1, &owned);
    }
    jlong answer = 0;
    if (!(*env)->ExceptionCheck(env))
        answer = (*env)->CallStaticLongMethod(env, native_class, invoke_method, (jobject)self, values);
    if ((*env)->ExceptionCheck(env)) {
        (*env)->ExceptionClear(env);
        reflex_raise("RuntimeError", "a Java function failed");
        answer = 0;
    }
    (*env)->PopLocalFrame(env, NULL);
    if (!answer) return -1;
    *result = *(ReflexValue *)answer;
    free((ReflexValue *)answer);
    return 0;
}

static void drop_java(void *self) {
    JNIEnv *env = environment();
    if (env) (*env)->DeleteGlobalRef(env, self);
}

EXPORT(void, raise)(JNIEnv *env, jclass class, jbyteArray kind, jbyteArray message) {
    (void)class;
    char *texts[] = {text_of(env, kind), text_of(env, message)};
    reflex_raise(texts[0], texts[1]);
    free(texts[0]);
    free(texts[1]);
}

EXPORT(jlong, function)(JNIEnv *env, jclass class, jobject body) {
    (void)class;
    ReflexValue made;
    jobject kept_body = (*env)->NewGlobalRef(env, body);
    return kept_if(env, reflex_function(call_java, kept_body, drop_java, &made), &made);
}

EXPORT(void, register)(JNIEnv *env, jclass class, jbyteArray name, jobject body) {
    (void)class;
    char *text = text_of(env, name);
    ReflexStatus status = reflex_register_global_func(text, call_java, (*env)->NewGlobalRef(env, body), drop_java);
    free(text);
    fine(env, status);
}

EXPORT(jlong, lookup)(JNIEnv *env, jclass class, jbyteArray name) {
    (void)class;
    char *text = text_of(env, name);
    ReflexValue found;
    ReflexStatus status = reflex_get_global_func(text, &found);
    free(text);
    return kept_if(env, status, &found);
}

EXPORT(jlong, callFunction)(JNIEnv *env, jclass class, jlong function, jbyteArray kinds, jlongArray words) {
    (void)class;
    jsize count;
    ReflexValue result, *values = arguments(env, kinds, words, &count);
    ReflexStatus status = reflex_call_function((ReflexValue *)function, values, count, &result);
    free(values);
    return kept_if(env, status, &result);
}

/* --- engines, programs, sessions -------------------------------------------------------------- */

EXPORT(jbyteArray, version)(JNIEnv *env, jclass class) {
    (void)class;
    return bytes_of(env, reflex_version(), strlen(reflex_version()));
}

EXPORT(jlong, newEngine)(JNIEnv *env, jclass class, jint threads, jobjectArray texts) {
    (void)class;
    char *text[6];
    for (jsize i = 0; i < 6; ++i) {
        jobject array = (*env)->GetObjectArrayElement(env, texts, i);
        text[i] = text_of(env, array);
        (*env)->DeleteLocalRef(env, array);
    }
    ReflexEngineOptions options = {.device = text[0], .threads = (uint32_t)threads, .kernel_cache = text[1],
                                   .tier = text[2], .precision = text[3], .optimize_for = text[4],
                                   .dims = text[5]};
    ReflexEngine *engine = NULL;
    ReflexStatus status = reflex_engine_new(&options, &engine);
    for (int i = 0; i < 6; ++i) free(text[i]);
    return fine(env, status) ? (jlong)engine : 0;
}

EXPORT(void, freeEngine)(JNIEnv *env, jclass class, jlong engine) {
    (void)env, (void)class;
    reflex_engine_free((ReflexEngine *)engine);
}

EXPORT(jlong, load)(JNIEnv *env, jclass class, jlong engine, jbyteArray path) {
    (void)class;
    char *text = text_of(env, path);
    ReflexProgram *program = NULL;
    ReflexStatus status = reflex_engine_load((ReflexEngine *)engine, text, &program);
    free(text);
    return fine(env, status) ? (jlong)program : 0;
}

EXPORT(jlong, loadBytes)(JNIEnv *env, jclass class, jlong engine, jint format, jbyteArray model) {
    (void)class;
    char *data = text_of(env, model);
    ReflexProgram *program = NULL;
    ReflexStatus status = reflex_engine_load_bytes((ReflexEngine *)engine, format, data,
                                                   (size_t)(*env)->GetArrayLength(env, model), &program);
    free(data);
    return fine(env, status) ? (jlong)program : 0;
}

EXPORT(void, freeProgram)(JNIEnv *env, jclass class, jlong program) {
    (void)env, (void)class;
    reflex_program_free((ReflexProgram *)program);
}

EXPORT(void, save)(JNIEnv *env, jclass class, jlong program, jbyteArray path) {
    (void)class;
    char *text = text_of(env, path);
    ReflexStatus status = reflex_program_save((ReflexProgram *)program, text);
    free(text);
    fine(env, status);
}

/* The name of a function; 0 past the last. */
EXPORT(jlong, functionName)(JNIEnv *env, jclass class, jlong program, jint index) {
    (void)env, (void)class;
    ReflexValue name;
    bool there = reflex_program_function((ReflexProgram *)program, (uint32_t)index, &name) == REFLEX_STATUS_OK;
    return there ? kept(name) : 0;
}

/* One input or output: its name, element type, dimensions, and the names of dimensions or null. */
static jobjectArray info_of(JNIEnv *env, jclass objects, jclass texts, const ReflexTensorInfo *info) {
    jobjectArray row = (*env)->NewObjectArray(env, 3, objects, NULL);
    jlongArray numbers = (*env)->NewLongArray(env, info->ndim + 1);
    jobjectArray names = (*env)->NewObjectArray(env, info->ndim, texts, NULL);
    if (!row || !numbers || !names) return NULL;
    jlong dtype = info->dtype.bits == 0 ? -1 : info->dtype.code << 8 | info->dtype.bits;
    (*env)->SetLongArrayRegion(env, numbers, 0, 1, &dtype);
    (*env)->SetLongArrayRegion(env, numbers, 1, info->ndim, (const jlong *)info->shape);
    for (int32_t d = 0; d < info->ndim; ++d) {
        if (!info->symbols[d]) continue;
        jbyteArray name = bytes_of(env, info->symbols[d], strlen(info->symbols[d]));
        (*env)->SetObjectArrayElement(env, names, d, name);
        (*env)->DeleteLocalRef(env, name);
    }
    (*env)->SetObjectArrayElement(env, row, 0, bytes_of(env, info->name, strlen(info->name)));
    (*env)->SetObjectArrayElement(env, row, 1, numbers);
    (*env)->SetObjectArrayElement(env, row, 2, names);
    return row;
}

EXPORT(jobjectArray, signature)(JNIEnv *env, jclass class, jlong program, jbyteArray function, jboolean outputs) {
    (void)class;
    char *text = text_of(env, function);
    ReflexSignature signature;
    ReflexStatus status = reflex_program_signature((ReflexProgram *)program, text, &signature);
    free(text);
    if (!fine(env, status)) return NULL;
    jclass objects = (*env)->FindClass(env, "java/lang/Object"), texts = (*env)->FindClass(env, "[B");
    uint32_t count = outputs ? signature.output_count : signature.input_count;
    jobjectArray rows = (*env)->NewObjectArray(env, (jsize)count, objects, NULL);
    for (uint32_t i = 0; i < count && rows; ++i) {
        if ((*env)->PushLocalFrame(env, 16) != JNI_OK) return NULL;
        jobjectArray row = info_of(env, objects, texts, &(outputs ? signature.outputs : signature.inputs)[i]);
        row = (*env)->PopLocalFrame(env, row);
        if (!row) return NULL;
        (*env)->SetObjectArrayElement(env, rows, (jsize)i, row);
        (*env)->DeleteLocalRef(env, row);
    }
    return rows;
}

EXPORT(jlong, newSession)(JNIEnv *env, jclass class, jlong program, jint mode) {
    (void)class;
    ReflexSession *session = NULL;
    return fine(env, reflex_session_new((ReflexProgram *)program, mode, &session)) ? (jlong)session : 0;
}

EXPORT(void, freeSession)(JNIEnv *env, jclass class, jlong session) {
    (void)env, (void)class;
    reflex_session_free((ReflexSession *)session);
}

EXPORT(jlong, call)(JNIEnv *env, jclass class, jlong session, jbyteArray name, jbyteArray kinds, jlongArray words) {
    (void)class;
    jsize count;
    char *text = text_of(env, name);
    ReflexValue result, *values = arguments(env, kinds, words, &count);
    ReflexStatus status = reflex_call((ReflexSession *)session, text, values, count, &result);
    free(values);
    free(text);
    return kept_if(env, status, &result);
}

EXPORT(jlong, warmUp)(JNIEnv *env, jclass class, jlong session, jbyteArray name, jbyteArray kinds, jlongArray words) {
    (void)class;
    jsize count;
    uint64_t calls = 0;
    char *text = text_of(env, name);
    ReflexValue *values = arguments(env, kinds, words, &count);
    ReflexStatus status = reflex_warm_up((ReflexSession *)session, text, values, count, &calls);
    free(values);
    free(text);
    return fine(env, status) ? (jlong)calls : 0;
}

EXPORT(void, setFuel)(JNIEnv *env, jclass class, jlong session, jlong fuel) {
    (void)class;
    fine(env, reflex_set_fuel((ReflexSession *)session, fuel < 0 ? UINT64_MAX : (uint64_t)fuel));
}

EXPORT(void, setDeadline)(JNIEnv *env, jclass class, jlong session, jlong nanoseconds) {
    (void)class;
    fine(env, reflex_set_deadline((ReflexSession *)session, nanoseconds));
}

EXPORT(jlong, newCanceller)(JNIEnv *env, jclass class, jlong session) {
    (void)class;
    ReflexCanceller *canceller = NULL;
    return fine(env, reflex_canceller_new((ReflexSession *)session, &canceller)) ? (jlong)canceller : 0;
}

EXPORT(void, cancel)(JNIEnv *env, jclass class, jlong canceller, jboolean stop) {
    (void)class;
    fine(env, stop ? reflex_cancel((ReflexCanceller *)canceller) : reflex_cancel_reset((ReflexCanceller *)canceller));
}

EXPORT(void, freeCanceller)(JNIEnv *env, jclass class, jlong canceller) {
    (void)env, (void)class;
    reflex_canceller_free((ReflexCanceller *)canceller);
}
