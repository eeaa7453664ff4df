/* The C interface of Reflex: engines, programs, sessions, values.
 *
 * Functions that can fail return a ReflexStatus; kind, message and backtrace of the last failure
 * of a thread are in reflex_error_kind() and its neighbours. ReflexValue has the layout of
 * tvm-ffi's TVMFFIAny, ReflexTensor that of DLPack's DLTensor: pointers to either may be cast.
 * Values that functions give are owned: give them back with reflex_free(). Arguments are
 * borrowed.
 *
 * Written by cbindgen from src/capi; tests/c_header.rs keeps it current. */


#ifndef REFLEX_H
#define REFLEX_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* A reference-counted object of tvm-ffi. */
typedef struct ReflexObject ReflexObject;

/**
 * What a call came to.
 */
typedef enum ReflexStatus {
  /**
   * Done.
   */
  REFLEX_STATUS_OK = 0,
  /**
   * A file cannot be read or written.
   */
  REFLEX_STATUS_IO = 1,
  /**
   * The model or program is malformed.
   */
  REFLEX_STATUS_MODEL = 2,
  /**
   * The model needs something that is not built.
   */
  REFLEX_STATUS_UNSUPPORTED = 3,
  /**
   * An argument does not fit.
   */
  REFLEX_STATUS_INPUT = 4,
  /**
   * Compilation failed.
   */
  REFLEX_STATUS_COMPILE = 5,
  /**
   * Execution failed; the error's kind says more.
   */
  REFLEX_STATUS_RUN = 6,
  /**
   * The run was cancelled.
   */
  REFLEX_STATUS_CANCELLED = 7,
  /**
   * The run went on past its deadline.
   */
  REFLEX_STATUS_DEADLINE_EXCEEDED = 8,
  /**
   * The run used up its fuel.
   */
  REFLEX_STATUS_FUEL_EXHAUSTED = 9,
  /**
   * Calls were nested deeper than allowed.
   */
  REFLEX_STATUS_STACK_OVERFLOW = 10,
  /**
   * A defect of this library.
   */
  REFLEX_STATUS_INTERNAL = 11,
} ReflexStatus;

/**
 * How functions run. All modes give the same bits.
 */
typedef enum ReflexMode {
  /**
   * The interpreter first; what is hot becomes machine code.
   */
  REFLEX_MODE_TIERED = 0,
  /**
   * The interpreter.
   */
  REFLEX_MODE_BYTECODE = 1,
  /**
   * Every function translated to machine code when the session opens.
   */
  REFLEX_MODE_COMPILED = 2,
} ReflexMode;

/**
 * What becomes of the memory of tensors that a run gives up.
 */
typedef enum ReflexAllocator {
  /**
   * It is kept for reuse, within bounds.
   */
  REFLEX_ALLOCATOR_POOLED = 0,
  /**
   * It goes back to the system at once.
   */
  REFLEX_ALLOCATOR_NAIVE = 1,
} ReflexAllocator;

/**
 * Forms in which a program is printed.
 */
typedef enum ReflexText {
  /**
   * Instructions, as TVM prints them.
   */
  REFLEX_TEXT_TEXT = 0,
  /**
   * A Python script for TVM's `ExecBuilder`.
   */
  REFLEX_TEXT_PYTHON = 1,
  /**
   * Sizes and counts.
   */
  REFLEX_TEXT_STATS = 2,
  /**
   * What the tiers made of the functions so far.
   */
  REFLEX_TEXT_TIERS = 3,
} ReflexText;

/**
 * Stops a session's run from another thread.
 */
typedef struct ReflexCanceller ReflexCanceller;

/**
 * Loads models.
 */
typedef struct ReflexEngine ReflexEngine;

/**
 * A loaded model, shared by any number of sessions on any threads.
 */
typedef struct ReflexProgram ReflexProgram;

/**
 * One thread's running state of a program.
 */
typedef struct ReflexSession ReflexSession;

/**
 * An element type, laid out as DLPack's `DLDataType`.
 */
typedef struct ReflexDType {
  /**
   * Kind of number: 0 signed, 1 unsigned, 2 float, 4 bfloat, 6 bool; see [`code`].
   */
  uint8_t code;
  /**
   * Bits of one lane.
   */
  uint8_t bits;
  /**
   * Vector lanes; 1 for a scalar. TVM stores scalable vectors as negative counts.
   */
  uint16_t lanes;
} ReflexDType;

/**
 * A place where data lives.
 */
typedef struct ReflexDevice {
  /**
   * Kind of device; 1 is the CPU.
   */
  int32_t device_type;
  /**
   * Which one of that kind.
   */
  int32_t device_id;
} ReflexDevice;

/**
 * The payload of a [`TVMFFIAny`].
 *
 */
typedef union ReflexPayload {
  /**
   * Integers and booleans.
   */
  int64_t v_int64;
  /**
   * Floats.
   */
  double v_float64;
  /**
   * Untyped pointers, `DLTensor*`, strings.
   */
  void *v_ptr;
  /**
   * Objects.
   */
  ReflexObject *v_obj;
  /**
   * Element types.
   */
  struct ReflexDType v_dtype;
  /**
   * Devices.
   */
  struct ReflexDevice v_device;
  /**
   * Small strings.
   */
  uint8_t v_bytes[8];
} ReflexPayload;

/**
 * A tagged value: 16 bytes, passed by pointer.
 */
typedef struct ReflexValue {
  /**
   * What the value is: one of tvm-ffi's type indices.
   */
  int32_t type_index;
  /**
   * Length of a small string; zero for everything else.
   */
  uint32_t small_len;
  /**
   * The value.
   */
  union ReflexPayload payload;
} ReflexValue;

/**
 * A call that is about to run or has run.
 */
typedef struct ReflexCall {
  /**
   * The function that calls.
   */
  const char *function;
  /**
   * Its instruction.
   */
  uint32_t instruction;
  /**
   * What it calls.
   */
  const char *callee;
  /**
   * The arguments.
   */
  const struct ReflexValue *args;
  /**
   * How many.
   */
  int32_t count;
  /**
   * Null before the call, the result after it.
   */
  const struct ReflexValue *result;
} ReflexCall;

/**
 * Sees calls. The answer is 0 to go on, and -1 with an error raised by tvm-ffi's functions to
 * end the run. Before a call, 1 skips it: its result is None, and nothing is seen after it.
 */
typedef int32_t (*ReflexInstrument)(void *data, const struct ReflexCall *call);

/**
 * How often `reflex_time` runs a function.
 */
typedef struct ReflexTiming {
  /**
   * Calls whose mean is one measurement; at least 1.
   */
  uint32_t number;
  /**
   * Measurements; at least 1.
   */
  uint32_t repeat;
  /**
   * Each measurement takes at least so many milliseconds; `number` grows until it does.
   */
  uint32_t min_repeat_ms;
  /**
   * Pause between measurements, milliseconds.
   */
  uint32_t cooldown_ms;
} ReflexTiming;

/**
 * Options of an engine. Zeroes are the defaults.
 */
typedef struct ReflexEngineOptions {
  /**
   * Where programs run, such as `cpu`; null is `cpu`.
   */
  const char *device;
  /**
   * Threads for parallel kernels, the caller's included; 0 is 1.
   */
  uint32_t threads;
  /**
   * Bytes of released memory that each thread of the process keeps for reuse; 0 leaves the
   * limit as it is, `UINT64_MAX` keeps nothing.
   */
  uint64_t cache_bytes;
  /**
   * Folder of compiled kernels; null is the user's cache folder.
   */
  const char *kernel_cache;
  /**
   * When programs become machine code, such as `threshold=10,compile=sync` or `off`; null is
   * what the variable `REFLEX_TIER` says.
   */
  const char *tier;
  /**
   * Arithmetic of f32 products in models that are compiled: `f32`, `f32-fast` or `bf16`; null is
   * `f32`.
   */
  const char *precision;
} ReflexEngineOptions;

/**
 * Memory of tensors in this process, in bytes.
 */
typedef struct ReflexMemory {
  /**
   * In use now.
   */
  uint64_t live;
  /**
   * Most that was ever in use at once.
   */
  uint64_t peak_live;
  /**
   * In use or kept for reuse.
   */
  uint64_t resident;
  /**
   * Most that was ever resident.
   */
  uint64_t peak_resident;
} ReflexMemory;

/**
 * How a session is opened. Zeroes are the defaults.
 */
typedef struct ReflexSessionOptions {
  /**
   * A `ReflexMode`.
   */
  int32_t mode;
  /**
   * A `ReflexAllocator`.
   */
  int32_t allocator;
  /**
   * Where the session computes, such as `cpu`; null is `cpu`.
   */
  const char *device;
} ReflexSessionOptions;

/**
 * A strided view of memory, as DLPack has it.
 */
typedef struct ReflexTensor {
  /**
   * Base address; `byte_offset` is added to it.
   */
  void *data;
  /**
   * Where `data` lives.
   */
  struct ReflexDevice device;
  /**
   * Number of dimensions.
   */
  int32_t ndim;
  /**
   * Element type.
   */
  struct ReflexDType dtype;
  /**
   * `ndim` extents.
   */
  int64_t *shape;
  /**
   * `ndim` strides in elements; null means compact (before DLPack 1.2).
   */
  int64_t *strides;
  /**
   * Added to `data`.
   */
  uint64_t byte_offset;
} ReflexTensor;

/**
 * The one calling convention: arguments borrowed, result owned; 0 is success and
 * -1 means that the thread's error slot is set. The caller sets `result` to None.
 */
typedef int (*ReflexFunction)(void *handle,
                              const struct ReflexValue *args,
                              int32_t num_args,
                              struct ReflexValue *result);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Kind of the last error of this thread, such as `TypeError`; empty before the first one.
 * Valid until the next failure on this thread.
 */
const char *reflex_error_kind(void);

/**
 * Message of the last error of this thread. Valid until the next failure on this thread.
 */
const char *reflex_error_message(void);

/**
 * Where the last error of this thread happened: a line for each function of the program that
 * was active, innermost first. Valid until the next failure on this thread.
 */
const char *reflex_error_backtrace(void);

/**
 * Version of this library, such as `0.1.0`.
 */
const char *reflex_version(void);

/**
 * Shows every call of the session to `callback`, until it is replaced or null. Meanwhile
 * everything is interpreted. `deleter`, when not null, releases `data` at the end.
 *
 * Requires:
 * Pointers are null or valid; the callback may be called on any thread that runs the session,
 * does not unwind, and does not use the session.
 */
enum ReflexStatus reflex_set_instrument(struct ReflexSession *session,
                                        ReflexInstrument callback,
                                        void *data,
                                        void (*deleter)(void*));

/**
 * Times a function in place: `seconds` gets the seconds per call of each of the
 * `timing.repeat` measurements.
 *
 * Requires:
 * Pointers are null or valid; `seconds` has room for every measurement.
 */
enum ReflexStatus reflex_time(struct ReflexSession *session,
                              const char *name,
                              const struct ReflexValue *args,
                              int32_t count,
                              struct ReflexTiming timing,
                              double *seconds);

/**
 * Calls a function once with every call inside counted and timed. `table` gets a table of
 * callees as a string that the caller frees. `trace`, when not null, is a file for the time
 * line, which Perfetto opens. `result` may be null.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_profile(struct ReflexSession *session,
                                 const char *name,
                                 const struct ReflexValue *args,
                                 int32_t count,
                                 const char *trace,
                                 struct ReflexValue *table,
                                 struct ReflexValue *result);

/**
 * Makes an engine; `options` may be null.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_engine_new(const struct ReflexEngineOptions *options,
                                    struct ReflexEngine **out);

/**
 * Gives an engine back; its programs stay.
 *
 * Requires:
 * `engine` is null or came from `reflex_engine_new`, and is used no more.
 */
void reflex_engine_free(struct ReflexEngine *engine);

/**
 * Loads a model: `.onnx` and `.py` are compiled, `.so` is opened (which runs machine code of
 * its author's choice).
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_engine_load(const struct ReflexEngine *engine,
                                     const char *path,
                                     struct ReflexProgram **out);

/**
 * Gives a program back; its sessions stay.
 *
 * Requires:
 * `program` is null or came from `reflex_engine_load`, and is used no more.
 */
void reflex_program_free(struct ReflexProgram *program);

/**
 * Writes a compiled model as a library that this function's counterpart and TVM open.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_program_save(const struct ReflexProgram *program, const char *path);

/**
 * Prints the program in a form, a `ReflexText`: a string that the caller frees.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_program_print(const struct ReflexProgram *program,
                                       int32_t form,
                                       struct ReflexValue *out);

/**
 * Name of function `index` of the program, or an error past the last: a string that the
 * caller frees.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_program_function(const struct ReflexProgram *program,
                                          uint32_t index,
                                          struct ReflexValue *out);

/**
 * Tells what memory tensors of this process take.
 *
 * Requires:
 * `out` is null or may be written.
 */
enum ReflexStatus reflex_memory(struct ReflexMemory *out);

/**
 * Bounds what tensors of this process have in use at once, in bytes: beyond it, runs fail with
 * a `MemoryError`. `UINT64_MAX` is no bound, which is how it begins.
 */
void reflex_set_memory_limit(uint64_t bytes);

/**
 * Opens a session; `mode` is a `ReflexMode`.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_session_new(const struct ReflexProgram *program,
                                     int32_t mode,
                                     struct ReflexSession **out);

/**
 * Opens a session with options.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_session_open(const struct ReflexProgram *program,
                                      const struct ReflexSessionOptions *options,
                                      struct ReflexSession **out);

/**
 * Gives a session back.
 *
 * Requires:
 * `session` is null or came from `reflex_session_new`, does not run, and is used no more.
 */
void reflex_session_free(struct ReflexSession *session);

/**
 * Calls a function by name, of the program or saved; the caller frees the result.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_call(struct ReflexSession *session,
                              const char *name,
                              const struct ReflexValue *args,
                              int32_t count,
                              struct ReflexValue *result);

/**
 * Calls a function by name until nothing more of it is being compiled, and drops the results.
 * `calls`, which may be null, takes how often that was.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_warm_up(struct ReflexSession *session,
                                 const char *name,
                                 const struct ReflexValue *args,
                                 int32_t count,
                                 uint64_t *calls);

/**
 * The number of a function, for `reflex_call_index`.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_function_index(struct ReflexSession *session,
                                        const char *name,
                                        uint32_t *number);

/**
 * Calls a function by number, without a look-up; the caller frees the result.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_call_index(struct ReflexSession *session,
                                    uint32_t number,
                                    const struct ReflexValue *args,
                                    int32_t count,
                                    struct ReflexValue *result);

/**
 * Stores the arguments of a function for `reflex_invoke_stateful`. Borrowed tensors are
 * copied.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_set_input(struct ReflexSession *session,
                                   const char *name,
                                   const struct ReflexValue *args,
                                   int32_t count);

/**
 * Makes `reflex_invoke_stateful` copy the results of a function into tensors: one for a
 * tensor result, one per item for a tuple. Inputs must be set first.
 *
 * Requires:
 * Pointers are null or valid; `targets` are tensor values, whose memory nobody else uses
 * during a run.
 */
enum ReflexStatus reflex_bind_outputs(struct ReflexSession *session,
                                      const char *name,
                                      const struct ReflexValue *targets,
                                      int32_t count);

/**
 * Runs a function on its stored arguments and keeps the result.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_invoke_stateful(struct ReflexSession *session, const char *name);

/**
 * Items of the kept result of a function, -1 when it is not a tuple. `path` walks into nested
 * tuples first.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_output_arity(struct ReflexSession *session,
                                      const char *name,
                                      const uint32_t *path,
                                      uint32_t depth,
                                      int64_t *arity);

/**
 * An item of the kept result of a function, which must not be a tuple; the caller frees it.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_get_output(struct ReflexSession *session,
                                    const char *name,
                                    const uint32_t *path,
                                    uint32_t depth,
                                    struct ReflexValue *result);

/**
 * Saves a function with its last arguments under another name. Without `include_return`
 * calls of it give nothing. Borrowed tensors are copied.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_save_function(struct ReflexSession *session,
                                       const char *name,
                                       const char *saved,
                                       bool include_return,
                                       const struct ReflexValue *args,
                                       int32_t count);

/**
 * Limits what later runs may do: one unit for each function entered and each backward jump.
 * `UINT64_MAX` is no limit.
 *
 * Requires:
 * `session` is null or live.
 */
enum ReflexStatus reflex_set_fuel(struct ReflexSession *session, uint64_t fuel);

/**
 * What is left of the fuel.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_fuel(struct ReflexSession *session, uint64_t *fuel);

/**
 * Makes runs fail that go on for longer than so many nanoseconds from now; negative takes the
 * deadline away. A kernel is not interrupted.
 *
 * Requires:
 * `session` is null or live.
 */
enum ReflexStatus reflex_set_deadline(struct ReflexSession *session, int64_t nanoseconds);

/**
 * A handle that stops the session's runs from any thread.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_canceller_new(struct ReflexSession *session,
                                       struct ReflexCanceller **out);

/**
 * Makes the current run, and later ones until a reset, fail soon. Any thread may call it.
 *
 * Requires:
 * `canceller` is null or live.
 */
enum ReflexStatus reflex_cancel(const struct ReflexCanceller *canceller);

/**
 * Lets runs go on again.
 *
 * Requires:
 * `canceller` is null or live.
 */
enum ReflexStatus reflex_cancel_reset(const struct ReflexCanceller *canceller);

/**
 * Gives a canceller back.
 *
 * Requires:
 * `canceller` is null or came from `reflex_canceller_new`, and is used no more.
 */
void reflex_canceller_free(struct ReflexCanceller *canceller);

/**
 * The value that stands for nothing.
 */
struct ReflexValue reflex_none(void);

/**
 * An integer.
 */
struct ReflexValue reflex_int(int64_t value);

/**
 * A boolean.
 */
struct ReflexValue reflex_bool(bool value);

/**
 * A float.
 */
struct ReflexValue reflex_float(double value);

/**
 * A tensor of the caller's, borrowed for the call that it is an argument of.
 */
struct ReflexValue reflex_tensor_view(struct ReflexTensor *tensor);

/**
 * A string of the caller's, borrowed for the call that it is an argument of.
 */
struct ReflexValue reflex_string_view(const char *text);

/**
 * A tensor with memory of its own; `data`, when not null, is copied into it.
 *
 * Requires:
 * `shape` is `ndim` extents, `data` null or as many elements in row-major order, `out` valid.
 */
enum ReflexStatus reflex_tensor(struct ReflexDType dtype,
                                const int64_t *shape,
                                uint32_t ndim,
                                const void *data,
                                struct ReflexValue *out);

/**
 * A shape.
 *
 * Requires:
 * `extents` is `count` extents, `out` valid.
 */
enum ReflexStatus reflex_shape(const int64_t *extents, uint32_t count, struct ReflexValue *out);

/**
 * A tuple of copies of `items`; borrowed tensors and strings among them are copied.
 *
 * Requires:
 * `items` is `count` valid values, `out` valid.
 */
enum ReflexStatus reflex_tuple(const struct ReflexValue *items,
                               int32_t count,
                               struct ReflexValue *out);

/**
 * Another reference to the same value; both are freed.
 *
 * Requires:
 * `value` is null or valid, `out` valid.
 */
enum ReflexStatus reflex_copy(const struct ReflexValue *value, struct ReflexValue *out);

/**
 * Gives a value back and leaves none in its place. Values that hold no object are left alone,
 * so every value may be freed.
 *
 * Requires:
 * `value` is null or an owned value.
 */
void reflex_free(struct ReflexValue *value);

/**
 * The tensor in a value, valid as long as the value; null when it is none.
 *
 * Requires:
 * `value` is null or valid.
 */
const struct ReflexTensor *reflex_as_tensor(const struct ReflexValue *value);

/**
 * The string in a value: its first byte (it need not end in NUL) and size, valid as long as
 * the value stays where it is.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_as_string(const struct ReflexValue *value,
                                   const char **data,
                                   size_t *size);

/**
 * Items of a tuple or extents of a shape; -1 for anything else.
 *
 * Requires:
 * `value` is null or valid.
 */
int64_t reflex_count(const struct ReflexValue *value);

/**
 * Item `index` of a tuple or extent of a shape; the caller frees it.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_item(const struct ReflexValue *value,
                              uint32_t index,
                              struct ReflexValue *out);

/**
 * Registers a packed function that programs and other languages find by `name`; `deleter`,
 * when not null, releases `self_` with the function.
 *
 * Requires:
 * `call` keeps tvm-ffi's calling convention with `self_` as its first argument, from any
 * thread; `deleter` may be called from any thread.
 */
enum ReflexStatus reflex_register_global_func(const char *name,
                                              ReflexFunction call,
                                              void *self_,
                                              void (*deleter)(void*));

/**
 * Finds a registered packed function; the caller frees it.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_get_global_func(const char *name, struct ReflexValue *out);

/**
 * The packed function `name` of a shared library, where its symbol is `__tvm_ffi_<name>`; the
 * caller frees it, and the library stays loaded with it. Opening a library runs machine code of
 * its author's choice.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_library_function(const char *path,
                                          const char *name,
                                          struct ReflexValue *out);

/**
 * Calls a packed function.
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_call_function(const struct ReflexValue *function,
                                       const struct ReflexValue *args,
                                       int32_t count,
                                       struct ReflexValue *out);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* REFLEX_H */
