/* A Triton backend that computes nothing: each output is 256 zeros. What it costs is what Triton costs.
   benches/serving.py builds it. Declared by hand from version 1 of `tritonbackend.h`. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef void *Error;
Error TRITONBACKEND_RequestOutputCount(void *request, uint32_t *count);
Error TRITONBACKEND_RequestOutputName(void *request, uint32_t index, const char **name);
Error TRITONBACKEND_RequestRelease(void *request, uint32_t flags);
Error TRITONBACKEND_ResponseNew(void **response, void *request);
Error TRITONBACKEND_ResponseOutput(void *response, void **output, const char *name, uint32_t datatype,
                                   const int64_t *shape, uint32_t rank);
Error TRITONBACKEND_OutputBuffer(void *output, void **buffer, uint64_t bytes, uint32_t *memory, int64_t *memory_id);
Error TRITONBACKEND_ResponseSend(void *response, uint32_t flags, Error error);
Error TRITONBACKEND_ModelInstanceReportStatistics(void *instance, void *request, bool success, uint64_t start,
                                                  uint64_t compute_start, uint64_t compute_end, uint64_t end);
Error TRITONBACKEND_ModelInstanceReportBatchStatistics(void *instance, uint64_t batch, uint64_t start,
                                                       uint64_t compute_start, uint64_t compute_end, uint64_t end);

enum { FP32 = 11, FINAL = 1, RELEASE_ALL = 1 };
static const int64_t SHAPE[] = {2, 1, 128};

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static Error answer(void *request) {
    void *response;
    uint32_t count;
    Error error = TRITONBACKEND_ResponseNew(&response, request);
    if (!error) error = TRITONBACKEND_RequestOutputCount(request, &count);
    for (uint32_t index = 0; !error && index < count; index++) {
        const char *name;
        void *output, *buffer;
        uint32_t memory = 0;
        int64_t id = 0;
        const uint64_t bytes = 256 * sizeof(float);
        error = TRITONBACKEND_RequestOutputName(request, index, &name);
        if (!error) error = TRITONBACKEND_ResponseOutput(response, &output, name, FP32, SHAPE, 3);
        if (!error) error = TRITONBACKEND_OutputBuffer(output, &buffer, bytes, &memory, &id);
        if (!error) memset(buffer, 0, bytes);
    }
    return error ? error : TRITONBACKEND_ResponseSend(response, FINAL, NULL);
}

Error TRITONBACKEND_ModelInstanceExecute(void *instance, void **requests, uint32_t count) {
    for (uint32_t at = 0; at < count; at++) {
        const uint64_t start = now();
        Error error = answer(requests[at]);
        if (error) return error;
        const uint64_t end = now();
        TRITONBACKEND_ModelInstanceReportStatistics(instance, requests[at], true, start, start, end, end);
        TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, 1, start, start, end, end);
        error = TRITONBACKEND_RequestRelease(requests[at], RELEASE_ALL);
        if (error) return error;
    }
    return NULL;
}
