/* Finds speech in a sound file with silero's voice activity detector, whose state stays in place.
 *
 * usage: vad MODEL FILE.wav      (silero_vad.onnx or a .so made from it; 16 kHz, mono, 16 bits)
 *
 * cc vad.c $(pkg-config --cflags --libs reflex) -o vad      after ./x install PREFIX
 *
 * Answers go to standard output, latencies to standard error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "reflex.h"

enum { WINDOW = 512, CONTEXT = 64, RATE = 16000 };

#define TRY(call) do { if ((call) != REFLEX_STATUS_OK) fail(#call, reflex_error_message()); } while (0)

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

/* The samples of a wave file, from -1 to 1, and their number. The head is 44 bytes, as most have it. */
static float *read_wave(const char *path, size_t *count) {
    unsigned char head[44];
    const unsigned char pcm_mono_16_khz[] = {1, 0, 1, 0, 0x80, 0x3e, 0, 0};
    FILE *file = fopen(path, "rb");
    if (file == NULL || fread(head, 1, 44, file) != 44 || memcmp(head + 8, "WAVEfmt ", 8) != 0 ||
        memcmp(head + 20, pcm_mono_16_khz, 8) != 0 || memcmp(head + 36, "data", 4) != 0)
        fail(path, "not a wave file of 16 kHz and one channel");
    *count = (head[40] | head[41] << 8 | head[42] << 16 | (size_t)head[43] << 24) / 2;
    int16_t *samples = malloc(*count * sizeof *samples + 1);
    float *values = malloc(*count * sizeof *values + 1);
    if (samples == NULL || values == NULL) fail(path, "too large");
    *count = fread(samples, sizeof *samples, *count, file);
    for (size_t i = 0; i < *count; ++i) values[i] = samples[i] / 32768.0f;
    free(samples);
    fclose(file);
    return values;
}

/* A tensor of zeros that owns its memory, and its elements. */
static float *zeros(const int64_t *shape, uint32_t ndim, ReflexValue *value) {
    ReflexDType f32 = {2, 32, 1};
    TRY(reflex_tensor(f32, shape, ndim, NULL, value));
    return reflex_as_tensor(value)->data;
}

static int ascending(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void print_speech(const float *probabilities, size_t start, size_t end) {
    double sum = 0;
    for (size_t i = start; i < end; ++i) sum += probabilities[i];
    printf("speech from %.2f to %.2f s, probability %.3f\n", (double)(start * WINDOW) / RATE,
           (double)(end * WINDOW) / RATE, sum / (double)(end - start));
}

int main(int argc, char **argv) {
    if (argc != 3) fail("usage", "vad MODEL FILE.wav");
    size_t count;
    float *samples = read_wave(argv[2], &count);
    size_t calls = count / WINDOW;
    float *probabilities = calloc(calls + 1, sizeof *probabilities);
    double *times = calloc(calls + 1, sizeof *times), sum = 0;
    ReflexEngine *engine;
    ReflexProgram *program;
    ReflexSession *session;
    TRY(reflex_engine_new(NULL, &engine));
    TRY(reflex_engine_load(engine, argv[1], &program));
    TRY(reflex_session_new(program, REFLEX_MODE_TIERED, &session));

    int64_t window_shape[] = {1, CONTEXT + WINDOW}, state_shape[] = {2, 1, 128}, one[] = {1, 1}, rate = RATE;
    ReflexDType i64 = {0, 64, 1};
    ReflexValue inputs[3], outputs[2];
    float *window = zeros(window_shape, 2, &inputs[0]), *probability = zeros(one, 2, &outputs[0]);
    zeros(state_shape, 3, &inputs[1]);
    TRY(reflex_tensor(i64, NULL, 0, &rate, &inputs[2]));
    outputs[1] = inputs[1]; /* the state that a run returns is the one that the next run reads */
    TRY(reflex_warm_up(session, "main", inputs, 3, NULL));
    TRY(reflex_set_input(session, "main", inputs, 3));
    TRY(reflex_bind_outputs(session, "main", outputs, 2));
    for (size_t i = 0; i < calls; ++i) {
        struct timespec from, to;
        memmove(window, window + WINDOW, CONTEXT * sizeof *window);
        memcpy(window + CONTEXT, samples + i * WINDOW, WINDOW * sizeof *window);
        clock_gettime(CLOCK_MONOTONIC, &from);
        TRY(reflex_invoke_stateful(session, "main"));
        clock_gettime(CLOCK_MONOTONIC, &to);
        times[i] = (double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_nsec - from.tv_nsec) / 1e3;
        sum += times[i];
        probabilities[i] = *probability;
    }

    /* Speech: from a probability of 0.5 until four windows in a row are below 0.35. */
    size_t start = calls, end = 0;
    for (size_t i = 0; i < calls; ++i) {
        if (probabilities[i] >= 0.5f && start == calls) start = i;
        if (probabilities[i] >= 0.35f) end = i + 1;
        if (start < calls && (i + 1 - end >= 4 || i + 1 == calls)) {
            print_speech(probabilities, start, end);
            start = calls;
        }
    }
    qsort(times, calls, sizeof *times, ascending);
    if (calls > 0)
        fprintf(stderr, "%zu calls: mean %.1f us, 99th percentile %.1f us\n", calls, sum / (double)calls,
                times[calls * 99 / 100]);
    for (int i = 0; i < 3; ++i) reflex_free(&inputs[i]);
    reflex_free(&outputs[0]);
    reflex_session_free(session);
    reflex_program_free(program);
    reflex_engine_free(engine);
    free(samples), free(probabilities), free(times);
    return 0;
}
