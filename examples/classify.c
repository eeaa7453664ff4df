/* Classifies an image and prints the five best classes.
 *
 * usage: classify MODEL LABELS IMAGE.ppm
 *
 * MODEL is pplcnet_orient.onnx, which tells how a page is turned, or a .so made from it; other models of
 * 224 by 224 pixels with ImageNet's means do as well. LABELS has a class on each line; `reflex info
 * pplcnet_orient.onnx` prints them, as `character` of its metadata. The latency goes to standard error.
 *
 * cc classify.c $(pkg-config --cflags --libs reflex) -o classify      after ./x install PREFIX
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "reflex.h"

enum { SIDE = 224 };
static const float MEAN[] = {0.485f, 0.456f, 0.406f}, DEVIATION[] = {0.229f, 0.224f, 0.225f};

#define TRY(call) do { if ((call) != REFLEX_STATUS_OK) fail(#call, reflex_error_message()); } while (0)

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

/* The middle square of an image at the model's size, the nearest pixel for each, as planes. */
static void read_image(const char *path, float *planes) {
    int width, height;
    FILE *file = fopen(path, "rb");
    if (file == NULL || fscanf(file, "P6 %d %d 255", &width, &height) != 2 || fgetc(file) == EOF ||
        width <= 0 || height <= 0 || width > 1 << 14 || height > 1 << 14)
        fail(path, "not a binary PPM image");
    size_t size = (size_t)3 * width * height;
    unsigned char *pixels = malloc(size);
    if (pixels == NULL || fread(pixels, 1, size, file) != size) fail(path, "cannot be read");
    fclose(file);
    int side = width < height ? width : height;
    for (int plane = 0; plane < 3; ++plane)
        for (int row = 0; row < SIDE; ++row)
            for (int column = 0; column < SIDE; ++column) {
                size_t y = (height - side) / 2 + row * side / SIDE;
                size_t x = (width - side) / 2 + column * side / SIDE;
                float value = pixels[3 * (y * width + x) + plane] / 255.0f;
                *planes++ = (value - MEAN[plane]) / DEVIATION[plane];
            }
    free(pixels);
}

/* Line `number` of a file; a question mark where there is none. */
static void print_line(const char *path, int64_t number) {
    char line[256] = "";
    FILE *file = fopen(path, "r");
    if (file == NULL) fail(path, "cannot be opened");
    for (int64_t i = 0; i <= number; ++i)
        if (fgets(line, sizeof line, file) == NULL) strcpy(line, "?");
    line[strcspn(line, "\n")] = 0;
    printf("%s\n", line);
    fclose(file);
}

int main(int argc, char **argv) {
    static float planes[3 * SIDE * SIDE];
    if (argc != 4) fail("usage", "classify MODEL LABELS IMAGE.ppm");
    read_image(argv[3], planes);
    ReflexEngine *engine;
    ReflexProgram *program;
    ReflexSession *session;
    TRY(reflex_engine_new(NULL, &engine));
    TRY(reflex_engine_load(engine, argv[1], &program));
    TRY(reflex_session_new(program, REFLEX_MODE_TIERED, &session));

    int64_t shape[] = {1, 3, SIDE, SIDE};
    ReflexDType f32 = {2, 32, 1};
    ReflexTensor image = {planes, {1, 0}, 4, f32, shape, NULL, 0};
    ReflexValue input = reflex_tensor_view(&image), output;
    struct timespec from, to;
    TRY(reflex_warm_up(session, "main", &input, 1, NULL));
    clock_gettime(CLOCK_MONOTONIC, &from);
    TRY(reflex_call(session, "main", &input, 1, &output));
    clock_gettime(CLOCK_MONOTONIC, &to);
    fprintf(stderr, "%.2f ms\n",
            (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6);

    const ReflexTensor *tensor = reflex_as_tensor(&output);
    if (tensor == NULL || tensor->ndim != 2) fail(argv[1], "it gives no scores");
    const float *scores = (const float *)((const char *)tensor->data + tensor->byte_offset);
    int64_t classes = tensor->shape[1], shown[5];
    for (int place = 0; place < 5 && place < classes; ++place) {
        int64_t best = -1;
        for (int64_t i = 0; i < classes; ++i) {
            int taken = 0;
            for (int before = 0; before < place; ++before) taken |= shown[before] == i;
            if (!taken && (best < 0 || scores[i] > scores[best])) best = i;
        }
        shown[place] = best;
        printf("%.3f ", scores[best]);
        print_line(argv[2], best);
    }
    reflex_free(&output);
    reflex_session_free(session);
    reflex_program_free(program);
    reflex_engine_free(engine);
    return 0;
}
