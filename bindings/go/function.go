package reflex

// #include <stdlib.h>
// #include "glue.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/cgo"
	"unsafe"
)

// A Func is a packed function in Go. Programs call it on any of their threads. An error that it returns,
// or a panic, is the error of the call: an *Error keeps its kind, others are a RuntimeError. Tensors
// among its arguments are its own, and may be kept; those that are not closed wait for the garbage collector.
type Func func(args ...any) (any, error)

// A Function is a packed function, in Go or another language.
type Function struct{ value }

func function(raw *C.ReflexValue) *Function {
	f := &Function{}
	f.own(raw, "function")
	runtime.SetFinalizer(f, (*Function).Close)
	return f
}

// NewFunction makes a packed function without a name.
func NewFunction(f Func) (*Function, error) {
	var made C.ReflexValue
	if err := try(func() C.enum_ReflexStatus { return makeFunction(f, &made) }); err != nil {
		return nil, err
	}
	return function(&made), nil
}

func makeFunction(f Func, out *C.ReflexValue) C.enum_ReflexStatus {
	return C.glue_function(C.uintptr_t(cgo.NewHandle(f)), out)
}

// Register registers a packed function, which programs and other languages find by name.
func Register(name string, f Func) error {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	return try(func() C.enum_ReflexStatus { return C.glue_register(text, C.uintptr_t(cgo.NewHandle(f))) })
}

// Lookup returns the packed function that programs find under a name.
func Lookup(name string) (*Function, error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var found C.ReflexValue
	err := try(func() C.enum_ReflexStatus { return C.reflex_get_global_func(text, &found) })
	if err != nil {
		return nil, err
	}
	return function(&found), nil
}

// Close frees the function.
func (f *Function) Close() { f.close() }

// Call calls the function.
func (f *Function) Call(args ...any) (any, error) {
	given, err := newArguments(args)
	if err != nil {
		return nil, err
	}
	defer given.close()
	var result C.ReflexValue
	err = with(&f.handle, func(raw *C.ReflexValue) C.enum_ReflexStatus {
		return C.reflex_call_function(raw, given.first(), given.count(), &result)
	})
	if err != nil {
		return nil, err
	}
	return taken(&result)
}

func raise(err error) C.int {
	kind, message := "RuntimeError", err.Error()
	var failure *Error
	if errors.As(err, &failure) {
		kind, message = failure.Kind, failure.Message
	}
	k, m := C.CString(kind), C.CString(message)
	defer C.free(unsafe.Pointer(k))
	defer C.free(unsafe.Pointer(m))
	return C.int(C.reflex_raise(k, m))
}

//export reflexGoCall
func reflexGoCall(self C.uintptr_t, args *C.ReflexValue, count C.int32_t, result *C.ReflexValue) (status C.int) {
	defer func() {
		if reason := recover(); reason != nil {
			status = raise(fmt.Errorf("panic: %v", reason))
		}
	}()
	given := make([]any, 0, int(count))
	for i := range unsafe.Slice(args, int(count)) {
		var owned C.ReflexValue
		borrowed := &unsafe.Slice(args, int(count))[i]
		if err := try(func() C.enum_ReflexStatus { return C.reflex_copy(borrowed, &owned) }); err != nil {
			return raise(err)
		}
		arg, err := taken(&owned)
		if err != nil {
			return raise(err)
		}
		given = append(given, arg)
	}
	answer, err := cgo.Handle(self).Value().(Func)(given...)
	if err != nil {
		return raise(err)
	}
	returned, err := newArguments([]any{answer})
	if err != nil {
		return raise(err)
	}
	defer returned.close()
	if err := try(func() C.enum_ReflexStatus { return C.reflex_copy(returned.first(), result) }); err != nil {
		return raise(err)
	}
	return 0
}

//export reflexGoDrop
func reflexGoDrop(self C.uintptr_t) { cgo.Handle(self).Delete() }
