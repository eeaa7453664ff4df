/* Calls a packed function many times, as a host in C does. */
#include <stdint.h>

typedef struct { int32_t type_index; uint32_t zero; union { int64_t i; void *p; } v; } Any;

int TVMFFIFunctionCall(void *function, Any *args, int32_t count, Any *result);
int TVMFFIObjectDecRef(void *object);

int repeat(void *function, Any *args, int32_t count, int64_t times) {
  for (int64_t at = 0; at < times; ++at) {
    Any result = {0};
    int status = TVMFFIFunctionCall(function, args, count, &result);
    if (status) return status;
    if (result.type_index >= 64) TVMFFIObjectDecRef(result.v.p);
  }
  return 0;
}

typedef int (*CallNumber)(void *, uint32_t, const Any *, int32_t, Any *);

int repeat_number(void *call, void *session, uint32_t number, Any *args, int64_t times) {
  for (int64_t at = 0; at < times; ++at) {
    Any result = {0};
    int status = ((CallNumber)call)(session, number, args, 1, &result);
    if (status) return status;
    if (result.type_index >= 64) TVMFFIObjectDecRef(result.v.p);
  }
  return 0;
}
