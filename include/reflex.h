/* The C interface of Reflex: engines, programs, sessions, values.
 *
 * Functions that can fail return a ReflexStatus; kind, message and backtrace of the last failure
 * of a thread are in reflex_error_kind() and its neighbours. ReflexValue has the layout of
 * tvm-ffi's TVMFFIAny, ReflexTensor that of DLPack's DLTensor: pointers to either may be cast.
 * Values that functions return are owned by the caller, who frees them with reflex_free().
 * Arguments are borrowed. Compact tensors are passed in place; strided ones are copied for the call.
 *
 * Threads: any thread may use an engine or a program at any time, also while others do. A session is
 * used by one thread at a time, and may be another one's for the next call; a second call meanwhile is
 * refused with REFLEX_STATUS_INPUT. reflex_cancel() and reflex_cancel_reset() may be called at any time
 * by any thread. Values may be copied and freed by any thread; nothing locks the data of tensors, so
 * one that is written belongs to its writer. Frees need that no other thread is in a call on the same
 * handle. Errors are each thread's own. Memory limits and registered functions are the process's.
 *
 * Versions: REFLEX_VERSION is that of this header, reflex_version() that of the library. A program runs
 * with later libraries of the same minor version, which the soname has.
 *
 * The examples share an `engine`, a `program` from the file `model`, a `session` of it, and `args`:
 * two tensors of shapes [2, 8] and [8, 5] that its function `main` takes. `f32` is the element type;
 * `read_file` allocates and fills memory.
 * CHECK(condition) and CHECK_OK(call) end the process where they fail. tests/interface_docs.rs runs them.
 *
 * Written by cbindgen from src/capi; tests/c_header.rs keeps it current. */


#ifndef REFLEX_H
#define REFLEX_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define REFLEX_VERSION_MAJOR 0
#define REFLEX_VERSION_MINOR 1
#define REFLEX_VERSION_PATCH 0
#define REFLEX_VERSION "0.1.0"

/* A reference-counted object of tvm-ffi. */
typedef struct ReflexObject ReflexObject;

/**
 * The result of a call: success, or the kind of its error.
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
   * The model needs something that is not supported.
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
 * Kinds of values. Views are of the kind of what they show.
 */
typedef enum ReflexKind {
  /**
   * Nothing.
   */
  REFLEX_KIND_NONE = 0,
  /**
   * An integer, in `payload.v_int64`.
   */
  REFLEX_KIND_INT = 1,
  /**
   * A boolean, in `payload.v_int64`.
   */
  REFLEX_KIND_BOOL = 2,
  /**
   * A float, in `payload.v_float64`.
   */
  REFLEX_KIND_FLOAT = 3,
  /**
   * A string, for `reflex_as_string`.
   */
  REFLEX_KIND_STRING = 4,
  /**
   * A tensor, for `reflex_as_tensor`.
   */
  REFLEX_KIND_TENSOR = 5,
  /**
   * A tuple or array, for `reflex_count` and `reflex_item`.
   */
  REFLEX_KIND_TUPLE = 6,
  /**
   * A shape, for `reflex_count` and `reflex_item`.
   */
  REFLEX_KIND_SHAPE = 7,
  /**
   * A packed function, for `reflex_call_function`.
   */
  REFLEX_KIND_FUNCTION = 8,
  /**
   * Another value, such as a closure, a map or a module.
   */
  REFLEX_KIND_OTHER = 9,
} ReflexKind;

/**
 * Formats of models in memory.
 */
typedef enum ReflexFormat {
  /**
   * ONNX.
   */
  REFLEX_FORMAT_ONNX = 0,
  /**
   * TVMScript.
   */
  REFLEX_FORMAT_SCRIPT = 1,
  /**
   * A shared library: an artifact, or an executable that TVM exported.
   */
  REFLEX_FORMAT_LIBRARY = 2,
  /**
   * Relay text.
   */
  REFLEX_FORMAT_RELAY = 3,
  /**
   * An executable of TVM's Relay virtual machine.
   */
  REFLEX_FORMAT_RELAY_EXECUTABLE = 4,
  /**
   * Nodes of TVM's IR as JSON.
   */
  REFLEX_FORMAT_NODES = 5,
  /**
   * A program that PyTorch exported (`.pt2`).
   */
  REFLEX_FORMAT_TORCH = 6,
} ReflexFormat;

/**
 * The way functions run. All modes give the same bits.
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
 * The allocator of tensors: the use of memory that a run releases.
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
   * The state of the tiers, function by function.
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
 * A client's session at this process, over any connection.
 */
typedef struct ReflexServer ReflexServer;

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
 * A device that holds data.
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
   * The type index of the value, as tvm-ffi numbers them.
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
   * The name of the function that is called.
   */
  const char *callee;
  /**
   * The function that is called, as a value: a packed function, or a closure of the program.
   */
  const struct ReflexValue *callable;
  /**
   * The arguments.
   */
  const struct ReflexValue *args;
  /**
   * The number of arguments.
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
 * Options of `reflex_time`: calls and measurements.
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
   * Tier policy, such as `threshold=10,compile=sync` or `off`; null is that of the variable
   * `REFLEX_TIER`.
   */
  const char *tier;
  /**
   * Arithmetic of f32 matmuls and convolutions in models that are compiled: `f32`,
   * `f32-fast`, `bf16` or `int8`; null is `f32`.
   */
  const char *precision;
  /**
   * The goal of models that are compiled: `speed`, or `size` for weights of no more bytes than the
   * model's; null is `speed`.
   */
  const char *optimize_for;
  /**
   * Symbolic dimensions of inputs that are constants in models that are compiled, such as
   * `batch=1,height=320` (free dimension overrides); null is none.
   */
  const char *dims;
} ReflexEngineOptions;

/**
 * An input or output of a function.
 */
typedef struct ReflexTensorInfo {
  /**
   * The model's name for it.
   */
  const char *name;
  /**
   * Element type; of 0 bits if the program does not say.
   */
  struct ReflexDType dtype;
  /**
   * Number of dimensions.
   */
  int32_t ndim;
  /**
   * `ndim` dimensions; -1 for one that each call chooses.
   */
  const int64_t *shape;
  /**
   * `ndim` names: null for a known dimension, else its name, or an expression over names. Equal
   * names are equal sizes.
   */
  const char *const *symbols;
} ReflexTensorInfo;

/**
 * The inputs and outputs of a function, in the order of calls.
 */
typedef struct ReflexSignature {
  /**
   * Inputs.
   */
  const struct ReflexTensorInfo *inputs;
  /**
   * Their number.
   */
  uint32_t input_count;
  /**
   * Outputs, those of tuples one after another.
   */
  const struct ReflexTensorInfo *outputs;
  /**
   * Their number; 0 if the program does not describe them, as TVM's exports do not.
   */
  uint32_t output_count;
} ReflexSignature;

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
 * Options of a session. Zeroes are the defaults.
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
   * Where the session computes, such as `cpu`; null is `cpu`. A program for several CPUs takes a list, such as
   * `cpu:0,cpu:1`, or `cpu` for all.
   */
  const char *device;
  /**
   * The allocators of CPUs with others than `allocator`, such as `cpu:1=naive`; null is none.
   */
  const char *allocators;
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
   * `ndim` dimensions.
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
 * Returns the kind of the last error of this thread, such as `TypeError`; empty before the first one.
 * Valid until the next failure on this thread.
 *
 * Example:
 *     ReflexProgram *none;
 *     CHECK(reflex_engine_load(engine, "no/such.onnx", &none) == REFLEX_STATUS_IO);
 *     CHECK(strcmp(reflex_error_kind(), "OSError") == 0);
 */
const char *reflex_error_kind(void);

/**
 * Returns the message of the last error of this thread. Valid until the next failure on this thread.
 *
 * Example:
 *     ReflexProgram *none;
 *     CHECK(reflex_engine_load(engine, "no/such.onnx", &none) != REFLEX_STATUS_OK);
 *     fprintf(stderr, "%s\n", reflex_error_message());
 */
const char *reflex_error_message(void);

/**
 * Returns the backtrace of the last error of this thread: a line for each function of the program
 * that was active, innermost first. Valid until the next failure on this thread.
 *
 * Example:
 *     ReflexValue y, swapped[] = {args[1], args[0]};
 *     CHECK(reflex_call(session, "main", swapped, 2, &y) == REFLEX_STATUS_RUN);
 *     CHECK(strlen(reflex_error_backtrace()) > 0);
 */
const char *reflex_error_backtrace(void);

/**
 * Returns the version of this library, such as `0.1.0`.
 *
 * Example:
 *     printf("Reflex %s\n", reflex_version());
 */
const char *reflex_version(void);

/**
 * Shows every call of the session to `callback`, until it is replaced or null. Meanwhile everything
 * is interpreted. `deleter`, when not null, frees `data` at the end.
 *
 * Example:
 *     int calls = 0;
 *     ReflexValue y;
 *     CHECK_OK(reflex_set_instrument(session, count_calls, &calls, NULL));
 *     CHECK_OK(reflex_call(session, "main", args, 2, &y));
 *     CHECK_OK(reflex_set_instrument(session, NULL, NULL, NULL));
 *     CHECK(calls > 0);
 *     reflex_free(&y);
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
 * Times a function in place: `seconds` receives the seconds per call of each of the
 * `timing.repeat` measurements.
 *
 * Example:
 *     ReflexTiming timing = {.number = 3, .repeat = 2};
 *     double seconds[2];
 *     CHECK_OK(reflex_time(session, "main", args, 2, timing, seconds));
 *
 * Requires:
 * Pointers are null or valid; `seconds` holds an element for every measurement.
 */
enum ReflexStatus reflex_time(struct ReflexSession *session,
                              const char *name,
                              const struct ReflexValue *args,
                              int32_t count,
                              struct ReflexTiming timing,
                              double *seconds);

/**
 * Calls a function once with every call inside counted and timed. `table` receives a table of
 * callees as a string that the caller frees. `trace`, when not null, is a file for the time line,
 * which Perfetto opens. `result` may be null.
 *
 * Example:
 *     ReflexValue table;
 *     CHECK_OK(reflex_profile(session, "main", args, 2, NULL, &table, NULL));
 *     reflex_free(&table);
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
 * Returns a function of the interface that languages with tvm-ffi have, by its name there; the caller frees
 * it. Among them are `rpc_connect` (sessions at servers of `reflex serve`), `load_module` (programs as
 * modules), and `ir_load`, `ir_script` and others (nodes of the IR). `src/capi/packed.rs` lists
 * them and says what each takes; Python's interface is written over them.
 *
 * Example:
 *     ReflexValue connect, remote, at[] = {reflex_string_view("127.0.0.1:1"), reflex_string_view("")};
 *     CHECK_OK(reflex_interface_function("rpc_connect", &connect));
 *     CHECK(reflex_call_function(&connect, at, 2, &remote) == REFLEX_STATUS_RUN); // No server listens there.
 *     reflex_free(&connect);
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_interface_function(const char *name,
                                            struct ReflexValue *out);

/**
 * Makes an engine; `options` may be null.
 *
 * Example:
 *     ReflexEngineOptions options = {.threads = 2, .tier = "threshold=20", .optimize_for = "size"};
 *     ReflexEngine *other;
 *     CHECK_OK(reflex_engine_new(&options, &other));
 *     reflex_engine_free(other);
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_engine_new(const struct ReflexEngineOptions *options,
                                    struct ReflexEngine **out);

/**
 * Frees an engine; its programs stay.
 *
 * Example:
 *     ReflexEngine *other;
 *     CHECK_OK(reflex_engine_new(NULL, &other));
 *     reflex_engine_free(other);
 *
 * Requires:
 * `engine` is null or came from `reflex_engine_new`, and is used no more.
 */
void reflex_engine_free(struct ReflexEngine *engine);

/**
 * Loads a model: `.onnx`, `.pt2` and `.py` are compiled, `.so` is opened (which runs machine code of
 * its author's choice).
 *
 * Example:
 *     ReflexProgram *loaded;
 *     CHECK_OK(reflex_engine_load(engine, model, &loaded));
 *     reflex_program_free(loaded);
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_engine_load(const struct ReflexEngine *engine,
                                     const char *path,
                                     struct ReflexProgram **out);

/**
 * Loads an executable of TVM's Relay virtual machine: `executable` is the path of a `.ro`, or of a
 * `.so` that holds one. `kernels` is the library with its kernels, null for the `.so` of the same
 * name; `params` is the file of its late-bound constants, null if it has none.
 *
 * Example:
 *     ReflexProgram *relay = NULL;
 *     CHECK(reflex_engine_load_relay(engine, "no/such.ro", NULL, NULL, &relay) == REFLEX_STATUS_IO);
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_engine_load_relay(const struct ReflexEngine *engine,
                                           const char *executable,
                                           const char *kernels,
                                           const char *params,
                                           struct ReflexProgram **out);

/**
 * Loads a model from `size` bytes at `data`, which are copied; `format` is a `ReflexFormat`.
 * External data of an ONNX model needs `reflex_engine_load`.
 *
 * Example:
 *     char *bytes;
 *     size_t size = read_file(model, &bytes);
 *     ReflexFormat format = strstr(model, ".onnx") ? REFLEX_FORMAT_ONNX : REFLEX_FORMAT_LIBRARY;
 *     ReflexProgram *loaded;
 *     CHECK_OK(reflex_engine_load_bytes(engine, format, bytes, size, &loaded));
 *     free(bytes);
 *     reflex_program_free(loaded);
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_engine_load_bytes(const struct ReflexEngine *engine,
                                           int32_t format,
                                           const void *data,
                                           size_t size,
                                           struct ReflexProgram **out);

/**
 * Makes an engine with the options of another one and a pipeline of its own: `default` or `minimal`, and
 * edits separated by commas. `-PASS` leaves a pass out, `PASS.OPTION=VALUE` sets an option,
 * `order=A+B` sets the passes and their order, `after:PASS=NAME` and `before:PASS=NAME` put in a function
 * that is registered by this name, or `LIBRARY.so:FUNCTION`: it takes the module as TVMScript and gives
 * one.
 *
 * Example:
 *     ReflexEngine *plain;
 *     CHECK_OK(reflex_engine_with_pipeline(engine, "default,-simplify", &plain));
 *     reflex_engine_free(plain);
 *     CHECK(reflex_engine_with_pipeline(engine, "-nothing", &plain) == REFLEX_STATUS_INPUT);
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_engine_with_pipeline(const struct ReflexEngine *engine,
                                              const char *pipeline,
                                              struct ReflexEngine **out);

/**
 * Makes an engine with the options of another one, whose pipeline begins with a dispatch: what a pattern
 * matches becomes a call of a packed function, or of one that an external code generator makes.
 * `description` is JSON: `name`, `pattern` with its `nodes` and its `root`, `annotations` with numbers of
 * nodes, and the names of registered functions: `check`, and `packed` or `external`. The page on
 * operators from outside lists the kinds of nodes.
 *
 * Example:
 *     ReflexEngine *mine;
 *     const char *description = "{\"name\": \"docs.relu\", \"packed\": \"docs.relu\", \"pattern\":"
 *         "{\"nodes\": [{\"kind\": \"op\", \"name\": \"relax.nn.relu\", \"args\": null}], \"root\": 0}}";
 *     CHECK_OK(reflex_engine_with_dispatch(engine, description, &mine));
 *     reflex_engine_free(mine);
 *     CHECK(reflex_engine_with_dispatch(engine, "{}", &mine) == REFLEX_STATUS_INPUT);
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_engine_with_dispatch(const struct ReflexEngine *engine,
                                              const char *description,
                                              struct ReflexEngine **out);

/**
 * Registers an operator for the process: TVMScript calls it `R.SPACE.NAME`, ONNX `NAME` of the domain
 * `SPACE`. `description` is JSON: `name`, `operands` as fewest and most, `attrs` with `name`, `kind` and
 * `default`, `fusion`, `kernel_text`, and the names of registered functions: `infer`, `kernel`,
 * `packed`. Without `infer` the result has the type of the first operand.
 *
 * Example:
 *     CHECK_OK(reflex_register_operator("{\"name\": \"docs.same\", \"packed\": \"docs.same\"}"));
 *     CHECK(reflex_register_operator("{\"name\": \"docs.same\", \"packed\": \"docs.same\"}") == REFLEX_STATUS_INPUT);
 *
 * Requires:
 * `description` is null or valid.
 */
enum ReflexStatus reflex_register_operator(const char *description);

/**
 * Frees a program; its sessions stay.
 *
 * Example:
 *     ReflexProgram *loaded;
 *     CHECK_OK(reflex_engine_load(engine, model, &loaded));
 *     reflex_program_free(loaded);
 *
 * Requires:
 * `program` is null or came from `reflex_engine_load` or `reflex_engine_load_bytes`, and is used no more.
 */
void reflex_program_free(struct ReflexProgram *program);

/**
 * Writes a compiled model as a library that `reflex_engine_load` and TVM open.
 *
 * Example:
 *     // A program that was loaded from a library has been saved already.
 *     CHECK(reflex_program_save(program, "model.so") == REFLEX_STATUS_UNSUPPORTED);
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_program_save(const struct ReflexProgram *program, const char *path);

/**
 * Prints the program in a form, a `ReflexText`: a string that the caller frees.
 *
 * Example:
 *     ReflexValue text;
 *     CHECK_OK(reflex_program_print(program, REFLEX_TEXT_STATS, &text));
 *     reflex_free(&text);
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_program_print(const struct ReflexProgram *program,
                                       int32_t form,
                                       struct ReflexValue *out);

/**
 * Returns the name of function `index` of the program, or an error past the last: a string that the
 * caller frees.
 *
 * Example:
 *     ReflexValue name;
 *     for (uint32_t i = 0; reflex_program_function(program, i, &name) == REFLEX_STATUS_OK; ++i)
 *         reflex_free(&name);
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_program_function(const struct ReflexProgram *program,
                                          uint32_t index,
                                          struct ReflexValue *out);

/**
 * Returns the inputs and outputs of a function, such as `main`. What `out` points to is valid as long
 * as the program.
 *
 * Example:
 *     ReflexSignature signature;
 *     CHECK_OK(reflex_program_signature(program, "main", &signature));
 *     CHECK(signature.input_count == 2 && signature.output_count == 1);
 *     for (uint32_t i = 0; i < signature.input_count; ++i)
 *         printf("%s has %d dimensions\n", signature.inputs[i].name, signature.inputs[i].ndim);
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_program_signature(const struct ReflexProgram *program,
                                           const char *function,
                                           struct ReflexSignature *out);

/**
 * Returns the memory that tensors of this process take.
 *
 * Example:
 *     ReflexMemory memory;
 *     CHECK_OK(reflex_memory(&memory));
 *     CHECK(memory.peak_live >= memory.live);
 *
 * Requires:
 * `out` is null or may be written.
 */
enum ReflexStatus reflex_memory(struct ReflexMemory *out);

/**
 * Limits the memory that tensors of this process have in use at once, in bytes: beyond it, runs fail
 * with a `MemoryError`. `UINT64_MAX`, the default, is no limit.
 *
 * Example:
 *     reflex_set_memory_limit(UINT64_C(1) << 30);
 *     reflex_set_memory_limit(UINT64_MAX);
 */
void reflex_set_memory_limit(uint64_t bytes);

/**
 * Starts a client's session of TVM's RPC protocol 0.8.0 over a connection of the caller's, such as a
 * WebSocket. Files of the session lie in `files` and `contents` in `folder`, which are deleted with the
 * server. `allow_code` opens libraries that the client uploads, which runs machine code of its choice.
 *
 * Example:
 *     ReflexServer *server;
 *     CHECK_OK(reflex_server_new(engine, "/tmp/reflex-server", false, &server));
 *     reflex_server_free(server);
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_server_new(const struct ReflexEngine *engine,
                                    const char *folder,
                                    bool allow_code,
                                    struct ReflexServer **out);

/**
 * Takes bytes of the client, in pieces of any size, and answers the requests that are complete with them.
 * `answers` are bytes for the client, valid until the next call; after an error they may still say why. `open`
 * is false once the client has ended the session, and after an error there is none.
 *
 * Example:
 *     ReflexServer *server;
 *     CHECK_OK(reflex_server_new(engine, "/tmp/reflex-server", false, &server));
 *     const uint8_t shutdown[] = {4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0};
 *     const void *answers;
 *     size_t size;
 *     bool open;
 *     CHECK_OK(reflex_server_receive(server, shutdown, 8, &answers, &size, &open));
 *     CHECK(open && size == 0);
 *     CHECK_OK(reflex_server_receive(server, shutdown + 8, 4, &answers, &size, &open));
 *     CHECK(!open);
 *     reflex_server_free(server);
 *
 * Requires:
 * Pointers are null or valid; nothing else uses the server meanwhile.
 */
enum ReflexStatus reflex_server_receive(struct ReflexServer *server,
                                        const void *data,
                                        size_t size,
                                        const void **answers,
                                        size_t *answers_size,
                                        bool *open);

/**
 * Ends a session's server.
 *
 * Example:
 *     ReflexServer *server;
 *     CHECK_OK(reflex_server_new(engine, "/tmp/reflex-server", false, &server));
 *     reflex_server_free(server);
 *
 * Requires:
 * `server` is null or came from `reflex_server_new`, and is used no more.
 */
void reflex_server_free(struct ReflexServer *server);

/**
 * Opens a session; `mode` is a `ReflexMode`.
 *
 * Example:
 *     ReflexSession *compiled;
 *     CHECK_OK(reflex_session_new(program, REFLEX_MODE_COMPILED, &compiled));
 *     reflex_session_free(compiled);
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
 * Example:
 *     ReflexSessionOptions options = {.mode = REFLEX_MODE_BYTECODE,
 *                                     .allocator = REFLEX_ALLOCATOR_NAIVE};
 *     ReflexSession *other;
 *     CHECK_OK(reflex_session_open(program, &options, &other));
 *     reflex_session_free(other);
 *     options.device = "cpu";
 *     options.allocators = "cpu:0=naive,cpu:1=pooled";
 *     CHECK_OK(reflex_session_open(program, &options, &other));
 *     reflex_session_free(other);
 *     options.allocators = "cuda:0=naive";
 *     CHECK(reflex_session_open(program, &options, &other) == REFLEX_STATUS_INPUT);
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_session_open(const struct ReflexProgram *program,
                                      const struct ReflexSessionOptions *options,
                                      struct ReflexSession **out);

/**
 * Frees a session.
 *
 * Example:
 *     ReflexSession *other;
 *     CHECK_OK(reflex_session_new(program, REFLEX_MODE_TIERED, &other));
 *     reflex_session_free(other);
 *
 * Requires:
 * `session` is null or came from `reflex_session_new`, does not run, and is used no more.
 */
void reflex_session_free(struct ReflexSession *session);

/**
 * Calls a function by name, of the program or saved; the caller frees the result.
 *
 * A function may return a constant of the program or an argument itself, not a copy. Constants are
 * read-only to callers: copy them before writing.
 *
 * Example:
 *     ReflexValue y;
 *     CHECK_OK(reflex_call(session, "main", args, 2, &y));
 *     CHECK(reflex_as_tensor(&y)->ndim == 2);
 *     reflex_free(&y);
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
 * `calls`, which may be null, receives the number of calls.
 *
 * Example:
 *     uint64_t calls;
 *     CHECK_OK(reflex_warm_up(session, "main", args, 2, &calls));
 *     CHECK(calls > 0);
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
 * Returns the index of a function, for `reflex_call_index`.
 *
 * Example:
 *     uint32_t index;
 *     ReflexValue y;
 *     CHECK_OK(reflex_function_index(session, "main", &index));
 *     CHECK_OK(reflex_call_index(session, index, args, 2, &y));
 *     reflex_free(&y);
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_function_index(struct ReflexSession *session,
                                        const char *name,
                                        uint32_t *number);

/**
 * Calls a function by index, without a look-up; the caller frees the result.
 *
 * Example:
 *     uint32_t index;
 *     ReflexValue y;
 *     CHECK_OK(reflex_function_index(session, "main", &index));
 *     CHECK_OK(reflex_call_index(session, index, args, 2, &y));
 *     reflex_free(&y);
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
 * Calls a closure that a function of the program returned, or a function value; the caller frees
 * the result.
 *
 * Example:
 *     ReflexValue closure, two, one = reflex_int(1);
 *     CHECK_OK(reflex_register_global_func("docs.invoked", add_one, NULL, NULL));
 *     CHECK_OK(reflex_get_global_func("docs.invoked", &closure));
 *     CHECK_OK(reflex_invoke_closure(session, &closure, &one, 1, &two));
 *     CHECK(two.payload.v_int64 == 2);
 *     reflex_free(&closure);
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_invoke_closure(struct ReflexSession *session,
                                        const struct ReflexValue *closure,
                                        const struct ReflexValue *args,
                                        int32_t count,
                                        struct ReflexValue *result);

/**
 * Stores the arguments of a function for `reflex_invoke_stateful`. Borrowed tensors are
 * copied.
 *
 * Example:
 *     CHECK_OK(reflex_set_input(session, "main", args, 2));
 *     CHECK_OK(reflex_invoke_stateful(session, "main"));
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_set_input(struct ReflexSession *session,
                                   const char *name,
                                   const struct ReflexValue *args,
                                   int32_t count);

/**
 * Makes `reflex_invoke_stateful` write the results of a function to tensors: one for a
 * tensor result, one per item for a tuple. Inputs must be set first. Large results are not copied:
 * those that `reflex_get_output` gives are these tensors' memory then.
 *
 * Example:
 *     int64_t shape[] = {2, 5};
 *     ReflexValue y;
 *     CHECK_OK(reflex_tensor(f32, shape, 2, NULL, &y));
 *     CHECK_OK(reflex_set_input(session, "main", args, 2));
 *     CHECK_OK(reflex_bind_outputs(session, "main", &y, 1));
 *     CHECK_OK(reflex_invoke_stateful(session, "main"));
 *     reflex_free(&y);
 *
 * Requires:
 * Pointers are null or valid; `targets` are tensor values, whose memory is used by
 * this run alone.
 */
enum ReflexStatus reflex_bind_outputs(struct ReflexSession *session,
                                      const char *name,
                                      const struct ReflexValue *targets,
                                      int32_t count);

/**
 * Runs a function on its stored arguments and keeps the result.
 *
 * Example:
 *     CHECK_OK(reflex_set_input(session, "main", args, 2));
 *     CHECK_OK(reflex_invoke_stateful(session, "main"));
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_invoke_stateful(struct ReflexSession *session, const char *name);

/**
 * Returns the number of items of the kept result of a function, -1 when it is not a tuple. `path`
 * walks into nested tuples first.
 *
 * Example:
 *     CHECK_OK(reflex_set_input(session, "main", args, 2));
 *     CHECK_OK(reflex_invoke_stateful(session, "main"));
 *     int64_t arity;
 *     CHECK_OK(reflex_output_arity(session, "main", NULL, 0, &arity));
 *     CHECK(arity == -1); // a tensor
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
 * Returns an item of the kept result of a function, which must not be a tuple; the caller frees it.
 *
 * Example:
 *     CHECK_OK(reflex_set_input(session, "main", args, 2));
 *     CHECK_OK(reflex_invoke_stateful(session, "main"));
 *     ReflexValue y;
 *     CHECK_OK(reflex_get_output(session, "main", NULL, 0, &y));
 *     reflex_free(&y);
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
 * Example:
 *     ReflexValue y;
 *     CHECK_OK(reflex_save_function(session, "main", "with_w", true, &args[1], 1));
 *     CHECK_OK(reflex_call(session, "with_w", args, 1, &y));
 *     reflex_free(&y);
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
 * Limits what later runs may do: a unit of fuel for each function entered and each backward jump.
 * `UINT64_MAX`, the default, is no limit.
 *
 * Example:
 *     ReflexValue y;
 *     CHECK_OK(reflex_set_fuel(session, 0));
 *     CHECK(reflex_call(session, "main", args, 2, &y) == REFLEX_STATUS_FUEL_EXHAUSTED);
 *     CHECK_OK(reflex_set_fuel(session, UINT64_MAX));
 *
 * Requires:
 * `session` is null or live.
 */
enum ReflexStatus reflex_set_fuel(struct ReflexSession *session,
                                  uint64_t fuel);

/**
 * Returns the fuel that is left; `UINT64_MAX` if there is no limit, as at first.
 *
 * Example:
 *     uint64_t fuel;
 *     CHECK_OK(reflex_set_fuel(session, 100));
 *     CHECK_OK(reflex_fuel(session, &fuel));
 *     CHECK(fuel == 100);
 *     CHECK_OK(reflex_set_fuel(session, UINT64_MAX));
 *     CHECK_OK(reflex_fuel(session, &fuel));
 *     CHECK(fuel == UINT64_MAX);
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_fuel(struct ReflexSession *session, uint64_t *fuel);

/**
 * Makes runs fail that go on for longer than so many nanoseconds from now; a negative number removes
 * the deadline. A kernel is not interrupted.
 *
 * Example:
 *     ReflexValue y;
 *     CHECK_OK(reflex_set_deadline(session, 0));
 *     CHECK(reflex_call(session, "main", args, 2, &y) == REFLEX_STATUS_DEADLINE_EXCEEDED);
 *     CHECK_OK(reflex_set_deadline(session, -1));
 *
 * Requires:
 * `session` is null or live.
 */
enum ReflexStatus reflex_set_deadline(struct ReflexSession *session,
                                      int64_t nanoseconds);

/**
 * Returns a handle that stops the session's runs from any thread.
 *
 * Example:
 *     ReflexCanceller *canceller;
 *     ReflexValue y;
 *     CHECK_OK(reflex_canceller_new(session, &canceller));
 *     CHECK_OK(reflex_cancel(canceller)); // usually from another thread
 *     CHECK(reflex_call(session, "main", args, 2, &y) == REFLEX_STATUS_CANCELLED);
 *     CHECK_OK(reflex_cancel_reset(canceller));
 *     reflex_canceller_free(canceller);
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_canceller_new(struct ReflexSession *session,
                                       struct ReflexCanceller **out);

/**
 * Makes the current run, and later ones until a reset, fail soon. Any thread may call it.
 *
 * Example:
 *     ReflexCanceller *canceller;
 *     ReflexValue y;
 *     CHECK_OK(reflex_canceller_new(session, &canceller));
 *     CHECK_OK(reflex_cancel(canceller)); // usually from another thread
 *     CHECK(reflex_call(session, "main", args, 2, &y) == REFLEX_STATUS_CANCELLED);
 *     CHECK_OK(reflex_cancel_reset(canceller));
 *     reflex_canceller_free(canceller);
 *
 * Requires:
 * `canceller` is null or live.
 */
enum ReflexStatus reflex_cancel(const struct ReflexCanceller *canceller);

/**
 * Lets runs go on again after `reflex_cancel`.
 *
 * Example:
 *     ReflexCanceller *canceller;
 *     ReflexValue y;
 *     CHECK_OK(reflex_canceller_new(session, &canceller));
 *     CHECK_OK(reflex_cancel(canceller)); // usually from another thread
 *     CHECK(reflex_call(session, "main", args, 2, &y) == REFLEX_STATUS_CANCELLED);
 *     CHECK_OK(reflex_cancel_reset(canceller));
 *     reflex_canceller_free(canceller);
 *
 * Requires:
 * `canceller` is null or live.
 */
enum ReflexStatus reflex_cancel_reset(const struct ReflexCanceller *canceller);

/**
 * Frees a canceller.
 *
 * Example:
 *     ReflexCanceller *canceller;
 *     CHECK_OK(reflex_canceller_new(session, &canceller));
 *     reflex_canceller_free(canceller);
 *
 * Requires:
 * `canceller` is null or came from `reflex_canceller_new`, and is used no more.
 */
void reflex_canceller_free(struct ReflexCanceller *canceller);

/**
 * Returns the kind of a value; that of nothing for null.
 *
 * Example:
 *     ReflexValue text = reflex_string_view("cpu"), number = reflex_float(0.5);
 *     CHECK(reflex_kind(&text) == REFLEX_KIND_STRING);
 *     CHECK(reflex_kind(&number) == REFLEX_KIND_FLOAT);
 *     CHECK(reflex_kind(&args[0]) == REFLEX_KIND_TENSOR);
 *
 * Requires:
 * `value` is null or valid.
 */
enum ReflexKind reflex_kind(const struct ReflexValue *value);

/**
 * Returns the value that stands for nothing.
 *
 * Example:
 *     ReflexValue none = reflex_none();
 *     CHECK(reflex_as_tensor(&none) == NULL);
 */
struct ReflexValue reflex_none(void);

/**
 * Makes an integer.
 *
 * Example:
 *     CHECK(reflex_int(7).payload.v_int64 == 7);
 */
struct ReflexValue reflex_int(int64_t value);

/**
 * Makes a boolean.
 *
 * Example:
 *     CHECK(reflex_bool(true).payload.v_int64 == 1);
 */
struct ReflexValue reflex_bool(bool value);

/**
 * Makes a float.
 *
 * Example:
 *     CHECK(reflex_float(0.5).payload.v_float64 == 0.5);
 */
struct ReflexValue reflex_float(double value);

/**
 * Makes a view of a tensor of the caller's, for the call that it is an argument of.
 *
 * Example:
 *     float data[2] = {1, 2};
 *     int64_t shape[] = {2};
 *     ReflexTensor tensor = {data, {1, 0}, 1, f32, shape, NULL, 0};
 *     ReflexValue view = reflex_tensor_view(&tensor);
 *     CHECK(reflex_as_tensor(&view) == &tensor);
 */
struct ReflexValue reflex_tensor_view(struct ReflexTensor *tensor);

/**
 * Makes a view of a string of the caller's, for the call that it is an argument of.
 *
 * Example:
 *     const char *data;
 *     size_t size;
 *     ReflexValue text = reflex_string_view("cpu");
 *     CHECK_OK(reflex_as_string(&text, &data, &size));
 *     CHECK(size == 3);
 */
struct ReflexValue reflex_string_view(const char *text);

/**
 * Makes a tensor with memory of its own; `data`, when not null, is copied into it, else it is zero.
 *
 * Example:
 *     int64_t shape[] = {2, 3};
 *     ReflexValue zeros;
 *     CHECK_OK(reflex_tensor(f32, shape, 2, NULL, &zeros));
 *     reflex_free(&zeros);
 *
 * Requires:
 * `shape` is `ndim` dimensions, `data` null or as many elements in row-major order, `out` valid.
 */
enum ReflexStatus reflex_tensor(struct ReflexDType dtype,
                                const int64_t *shape,
                                uint32_t ndim,
                                const void *data,
                                struct ReflexValue *out);

/**
 * Makes a string of `size` bytes of UTF-8, which are copied, NUL among them or not.
 *
 * Example:
 *     const char *data;
 *     size_t size;
 *     ReflexValue text;
 *     CHECK_OK(reflex_string("a\0b", 3, &text));
 *     CHECK_OK(reflex_as_string(&text, &data, &size));
 *     CHECK(size == 3);
 *     reflex_free(&text);
 *
 * Requires:
 * `data` is `size` bytes, `out` valid.
 */
enum ReflexStatus reflex_string(const char *data, size_t size, struct ReflexValue *out);

/**
 * Makes a shape.
 *
 * Example:
 *     int64_t dims[] = {2, 3};
 *     ReflexValue shape;
 *     CHECK_OK(reflex_shape(dims, 2, &shape));
 *     CHECK(reflex_count(&shape) == 2);
 *     reflex_free(&shape);
 *
 * Requires:
 * `dims` is `count` dimensions, `out` valid.
 */
enum ReflexStatus reflex_shape(const int64_t *dims, uint32_t count, struct ReflexValue *out);

/**
 * Makes a tuple of copies of `items`; views of tensors and strings among them are copied.
 *
 * Example:
 *     ReflexValue pair;
 *     CHECK_OK(reflex_tuple(args, 2, &pair));
 *     CHECK(reflex_count(&pair) == 2);
 *     reflex_free(&pair);
 *
 * Requires:
 * `items` is `count` valid values, `out` valid.
 */
enum ReflexStatus reflex_tuple(const struct ReflexValue *items,
                               int32_t count,
                               struct ReflexValue *out);

/**
 * Makes another reference to the same value; both are freed.
 *
 * Example:
 *     ReflexValue owned;
 *     CHECK_OK(reflex_copy(&args[0], &owned));
 *     reflex_free(&owned);
 *
 * Requires:
 * `value` is null or valid, `out` valid.
 */
enum ReflexStatus reflex_copy(const struct ReflexValue *value, struct ReflexValue *out);

/**
 * Frees a value and replaces it by none. Values that hold no object are left alone, so every value
 * may be freed.
 *
 * Example:
 *     ReflexValue none = reflex_none();
 *     reflex_free(&none); // every value may be freed
 *
 * Requires:
 * `value` is null or an owned value.
 */
void reflex_free(struct ReflexValue *value);

/**
 * Returns the tensor in a value, valid as long as the value; null for a value of another type.
 *
 * Example:
 *     CHECK(reflex_as_tensor(&args[0])->shape[1] == 8);
 *     ReflexValue number = reflex_int(1);
 *     CHECK(reflex_as_tensor(&number) == NULL);
 *
 * Requires:
 * `value` is null or valid.
 */
const struct ReflexTensor *reflex_as_tensor(const struct ReflexValue *value);

/**
 * Returns the string in a value: its first byte (it need not end in NUL) and size, valid as long as
 * the value stays where it is.
 *
 * Example:
 *     const char *data;
 *     size_t size;
 *     ReflexValue text;
 *     CHECK_OK(reflex_program_print(program, REFLEX_TEXT_TEXT, &text));
 *     CHECK_OK(reflex_as_string(&text, &data, &size));
 *     printf("%.*s", (int)size, data);
 *     reflex_free(&text);
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_as_string(const struct ReflexValue *value,
                                   const char **data,
                                   size_t *size);

/**
 * Returns the number of items of a tuple or of dimensions of a shape; -1 for anything else.
 *
 * Example:
 *     ReflexValue number = reflex_int(1);
 *     CHECK(reflex_count(&number) == -1);
 *
 * Requires:
 * `value` is null or valid.
 */
int64_t reflex_count(const struct ReflexValue *value);

/**
 * Returns item `index` of a tuple or dimension `index` of a shape; the caller frees it.
 *
 * Example:
 *     int64_t dims[] = {2, 3};
 *     ReflexValue shape, last;
 *     CHECK_OK(reflex_shape(dims, 2, &shape));
 *     CHECK_OK(reflex_item(&shape, 1, &last));
 *     CHECK(last.payload.v_int64 == 3);
 *     reflex_free(&shape);
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_item(const struct ReflexValue *value,
                              uint32_t index,
                              struct ReflexValue *out);

/**
 * Makes a packed function without a name, as an argument or a result; `deleter`, when not null, frees
 * `self_` with the function. The caller frees the value.
 *
 * Example:
 *     ReflexValue function, two, one = reflex_int(1);
 *     CHECK_OK(reflex_function(add_one, NULL, NULL, &function));
 *     CHECK_OK(reflex_call_function(&function, &one, 1, &two));
 *     CHECK(two.payload.v_int64 == 2);
 *     reflex_free(&function);
 *
 * Requires:
 * `call` keeps tvm-ffi's calling convention with `self_` as its first argument, from any
 * thread; `deleter` may be called from any thread; `out` is null or may be written.
 */
enum ReflexStatus reflex_function(ReflexFunction call,
                                  void *self_,
                                  void (*deleter)(void*),
                                  struct ReflexValue *out);

/**
 * Sets the error of a packed function of the caller's, which returns the result of this: -1.
 *
 * Example:
 *     // In a packed function:
 *     //     return reflex_raise("ValueError", "the argument is negative");
 *     CHECK(reflex_raise("ValueError", "never taken") == -1);
 *
 * Requires:
 * `kind` and `message` are null or end in NUL.
 */
int32_t reflex_raise(const char *kind, const char *message);

/**
 * Registers a packed function that programs and other languages find by `name`, as
 * `tvm.register_global_func` does; `deleter`, when not null, frees `self_` with the function.
 *
 * Example:
 *     CHECK_OK(reflex_register_global_func("docs.add_one", add_one, NULL, NULL));
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
 * Returns the packed function that programs find under a name, a builtin or one that was registered;
 * the caller frees it.
 *
 * Example:
 *     ReflexValue function, two, one = reflex_int(1);
 *     CHECK_OK(reflex_register_global_func("docs.found", add_one, NULL, NULL));
 *     CHECK_OK(reflex_get_global_func("docs.found", &function));
 *     CHECK_OK(reflex_call_function(&function, &one, 1, &two));
 *     CHECK(two.payload.v_int64 == 2);
 *     reflex_free(&function);
 *
 * Requires:
 * Pointers are null or valid.
 */
enum ReflexStatus reflex_get_global_func(const char *name,
                                         struct ReflexValue *out);

/**
 * Returns the packed function `name` of a shared library, where its symbol is `__tvm_ffi_<name>`; the
 * caller frees it, and the library stays loaded with it. Opening a library runs machine code of
 * its author's choice.
 *
 * Example:
 *     ReflexValue function;
 *     CHECK(reflex_library_function("no/such.so", "f", &function) == REFLEX_STATUS_IO);
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
 * Example:
 *     ReflexValue function, two, one = reflex_int(1);
 *     CHECK_OK(reflex_register_global_func("docs.called", add_one, NULL, NULL));
 *     CHECK_OK(reflex_get_global_func("docs.called", &function));
 *     CHECK_OK(reflex_call_function(&function, &one, 1, &two));
 *     CHECK(two.payload.v_int64 == 2);
 *     reflex_free(&function);
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
