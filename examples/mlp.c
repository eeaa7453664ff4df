/* Calls a compiled model from C in every way that C has.
 *
 * usage: mlp MODEL      (tests/filetests/relax/mlp.py, or a .so made from it)
 *
 * cc mlp.c $(pkg-config --cflags --libs reflex) -o mlp      after ./x install PREFIX
 */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "reflex.h"

static int check(ReflexStatus status, const char *what) {
    if (status == REFLEX_STATUS_OK) return 1;
    fprintf(stderr, "%s: status %d, %s: %s\n%s", what, status, reflex_error_kind(),
            reflex_error_message(), reflex_error_backtrace());
    return 0;
}

#define TRY(call) do { if (!check((call), #call)) return 1; } while (0)
#define EXPECT(truth) do { if (!(truth)) { fprintf(stderr, "not so: %s\n", #truth); return 1; } } while (0)

/* A packed function of ours: the first argument plus one. */
static int add_one(void *self, const ReflexValue *args, int32_t count, ReflexValue *result) {
    (void)self;
    *result = reflex_int(count > 0 ? args[0].payload.v_int64 + 1 : 0);
    return 0;
}

/* Counts calls, and skips none. */
static int32_t count_calls(void *data, const ReflexCall *call) {
    if (call->result == NULL) ++*(int *)data;
    return 0;
}

static void *cancel_soon(void *canceller) {
    usleep(20000);
    reflex_cancel(canceller);
    return NULL;
}

static void print(const char *name, const ReflexTensor *y) {
    printf("%s [%" PRId64 ", %" PRId64 "]:", name, y->shape[0], y->shape[1]);
    const float *data = (const float *)((const char *)y->data + y->byte_offset);
    for (int64_t i = 0; i < y->shape[0] * y->shape[1]; ++i) printf(" %.6g", data[i]);
    printf("\n");
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: mlp MODEL\n");
        return 2;
    }
    ReflexEngineOptions options = {.threads = 1, .tier = "threshold=20"};
    ReflexEngine *engine;
    ReflexProgram *program;
    ReflexSession *session;
    TRY(reflex_engine_new(&options, &engine));
    TRY(reflex_engine_load(engine, argv[1], &program));
    TRY(reflex_session_new(program, REFLEX_MODE_TIERED, &session));

    /* What it takes and gives, and whether the library is that of the header. */
    ReflexSignature signature;
    TRY(reflex_program_signature(program, "main", &signature));
    const ReflexTensorInfo *w_info = &signature.inputs[1];
    printf("%s is [%" PRId64 ", %" PRId64 "]\n", w_info->name, w_info->shape[0], w_info->shape[1]);
    EXPECT(signature.inputs[0].shape[0] == -1 && signature.inputs[0].symbols[0] != NULL);
    EXPECT(strcmp(signature.inputs[0].symbols[0], signature.outputs[0].symbols[0]) == 0);
    EXPECT(signature.output_count == 1 && w_info->symbols[0] == NULL && w_info->dtype.bits == 32);
    EXPECT(reflex_program_signature(program, "nothing", &signature) == REFLEX_STATUS_INPUT);
    EXPECT(strcmp(reflex_version(), REFLEX_VERSION) == 0);

    /* Our own memory, passed without a copy. */
    float x[2 * 8], w[8 * 5];
    for (int i = 0; i < 16; ++i) x[i] = (float)i / 16;
    for (int i = 0; i < 40; ++i) w[i] = (float)(i % 7) - 3;
    int64_t x_shape[] = {2, 8}, w_shape[] = {8, 5};
    ReflexDType f32 = {2, 32, 1};
    ReflexTensor x_tensor = {x, {1, 0}, 2, f32, x_shape, NULL, 0};
    ReflexTensor w_tensor = {w, {1, 0}, 2, f32, w_shape, NULL, 0};
    ReflexValue args[] = {reflex_tensor_view(&x_tensor), reflex_tensor_view(&w_tensor)};
    ReflexValue y;
    uint64_t warm;
    TRY(reflex_warm_up(session, "main", args, 2, &warm));
    printf("warm after %" PRIu64 " calls\n", warm);
    TRY(reflex_call(session, "main", args, 2, &y));
    print("call", reflex_as_tensor(&y));

    /* A strided view: x as the transpose of its transpose. */
    float x_transposed[8 * 2];
    for (int i = 0; i < 16; ++i) x_transposed[i % 8 * 2 + i / 8] = x[i];
    int64_t x_strides[] = {1, 2};
    ReflexTensor view = {x_transposed, {1, 0}, 2, f32, x_shape, x_strides, 0};
    ReflexValue strided[] = {reflex_tensor_view(&view), args[1]}, again;
    TRY(reflex_call(session, "main", strided, 2, &again));
    EXPECT(memcmp(reflex_as_tensor(&y)->data, reflex_as_tensor(&again)->data, 40) == 0);
    reflex_free(&again);

    /* By number, with values that own their memory. */
    uint32_t number;
    ReflexValue owned[2];
    TRY(reflex_function_index(session, "main", &number));
    TRY(reflex_tensor(f32, x_shape, 2, x, &owned[0]));
    TRY(reflex_tensor(f32, w_shape, 2, w, &owned[1]));
    TRY(reflex_call_index(session, number, owned, 2, &again));
    EXPECT(memcmp(reflex_as_tensor(&y)->data, reflex_as_tensor(&again)->data, 40) == 0);
    reflex_free(&again);

    /* Stored inputs, bound outputs. */
    ReflexValue target;
    int64_t y_shape[] = {2, 5}, arity;
    TRY(reflex_set_input(session, "main", args, 2));
    TRY(reflex_tensor(f32, y_shape, 2, NULL, &target));
    TRY(reflex_bind_outputs(session, "main", &target, 1));
    TRY(reflex_invoke_stateful(session, "main"));
    TRY(reflex_output_arity(session, "main", NULL, 0, &arity));
    EXPECT(arity == -1);
    TRY(reflex_get_output(session, "main", NULL, 0, &again));
    EXPECT(memcmp(reflex_as_tensor(&y)->data, reflex_as_tensor(&again)->data, 40) == 0);
    EXPECT(memcmp(reflex_as_tensor(&y)->data, reflex_as_tensor(&target)->data, 40) == 0);
    reflex_free(&again);
    reflex_free(&target);

    /* Saved with its last argument, and timed. */
    double seconds[3];
    ReflexTiming timing = {.number = 10, .repeat = 3};
    TRY(reflex_save_function(session, "main", "with_w", true, &args[1], 1));
    TRY(reflex_call(session, "with_w", args, 1, &again));
    EXPECT(memcmp(reflex_as_tensor(&y)->data, reflex_as_tensor(&again)->data, 40) == 0);
    reflex_free(&again);
    TRY(reflex_time(session, "with_w", args, 1, timing, seconds));
    EXPECT(seconds[0] > 0 && seconds[0] < 1 && seconds[2] > 0);

    /* Watched, and profiled. */
    int calls = 0;
    ReflexValue table;
    const char *text;
    size_t size;
    TRY(reflex_set_instrument(session, count_calls, &calls, NULL));
    TRY(reflex_call(session, "main", args, 2, &again));
    reflex_free(&again);
    TRY(reflex_set_instrument(session, NULL, NULL, NULL));
    EXPECT(calls > 0);
    TRY(reflex_profile(session, "main", args, 2, NULL, &table, NULL));
    TRY(reflex_as_string(&table, &text, &size));
    printf("%.*s", (int)size, text);
    reflex_free(&table);

    /* Packed functions both ways. */
    ReflexValue function, three, two = reflex_int(2);
    TRY(reflex_register_global_func("examples.add_one", add_one, NULL, NULL));
    TRY(reflex_get_global_func("examples.add_one", &function));
    TRY(reflex_call_function(&function, &two, 1, &three));
    EXPECT(three.payload.v_int64 == 3);
    reflex_free(&function);

    /* Errors say what kind, what and where; the session goes on. */
    EXPECT(reflex_call(session, "nothing", NULL, 0, &again) == REFLEX_STATUS_RUN);
    EXPECT(strcmp(reflex_error_kind(), "AttributeError") == 0);
    EXPECT(reflex_call(session, "main", args, 1, &again) == REFLEX_STATUS_RUN);
    printf("%s: %s\n", reflex_error_kind(), reflex_error_message());
    TRY(reflex_set_fuel(session, 0));
    EXPECT(reflex_call(session, "main", args, 2, &again) == REFLEX_STATUS_FUEL_EXHAUSTED);
    TRY(reflex_set_fuel(session, UINT64_MAX));
    TRY(reflex_set_deadline(session, 0));
    EXPECT(reflex_call(session, "main", args, 2, &again) == REFLEX_STATUS_DEADLINE_EXCEEDED);
    TRY(reflex_set_deadline(session, -1));

    /* Cancelled from another thread in the middle of a run that would take minutes. */
    ReflexCanceller *canceller;
    pthread_t thread;
    ReflexTiming endless = {.number = UINT32_MAX, .repeat = 1};
    TRY(reflex_canceller_new(session, &canceller));
    pthread_create(&thread, NULL, cancel_soon, canceller);
    EXPECT(reflex_time(session, "with_w", args, 1, endless, seconds) == REFLEX_STATUS_CANCELLED);
    pthread_join(thread, NULL);
    TRY(reflex_cancel_reset(canceller));
    reflex_canceller_free(canceller);
    TRY(reflex_call(session, "main", args, 2, &again));

    /* Another session of the program, which gives memory back to the system at once. */
    ReflexSession *other;
    ReflexSessionOptions naive = {.mode = REFLEX_MODE_BYTECODE,
                                  .allocator = REFLEX_ALLOCATOR_NAIVE, .device = "cuda"};
    EXPECT(reflex_session_open(program, &naive, &other) == REFLEX_STATUS_UNSUPPORTED);
    EXPECT(strstr(reflex_error_message(), "there is cpu") != NULL);
    naive.device = "cpu";
    TRY(reflex_session_open(program, &naive, &other));
    reflex_free(&again);
    TRY(reflex_call(other, "main", args, 2, &again));
    EXPECT(memcmp(reflex_as_tensor(&y)->data, reflex_as_tensor(&again)->data, 40) == 0);

    ReflexMemory memory;
    TRY(reflex_memory(&memory));
    EXPECT(memory.peak_live >= memory.live && memory.live > 0);
    reflex_set_memory_limit(memory.live);
    EXPECT(reflex_set_input(other, "main", args, 2) != REFLEX_STATUS_OK);
    EXPECT(strcmp(reflex_error_kind(), "MemoryError") == 0);
    reflex_set_memory_limit(UINT64_MAX);
    TRY(reflex_set_input(other, "main", args, 2));
    reflex_session_free(other);
    reflex_free(&again);
    reflex_free(&y);
    reflex_free(&owned[0]);
    reflex_free(&owned[1]);
    reflex_session_free(session);
    reflex_program_free(program);
    reflex_engine_free(engine);
    printf("done\n");
    return 0;
}
