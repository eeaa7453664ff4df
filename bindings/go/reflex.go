// Package reflex runs tensor programs: ONNX models, TVMScript, artifacts of `reflex compile` and
// executables that TVM exported.
//
//	engine, err := reflex.NewEngine(reflex.Options{Threads: 2})
//	program, err := engine.Load("model.onnx")
//	session, err := program.Session(reflex.Tiered)
//	x, err := reflex.TensorOf([]int64{1, 2}, []float32{8, 8})
//	y, err := session.Call("main", x)
//	probabilities, err := reflex.Data[float32](y.(*reflex.Tensor))
//
// Arguments and results of programs and packed functions are nil, bool, int64, float64, string,
// *Tensor, Shape, *Function, Tuple, and *Object for any other value. Arguments may also be integers and
// floats of other sizes, and Func.
//
// An engine or a program may be used by any goroutine at any time. A session runs one call at a time; a
// second one meanwhile is an error. Close frees what a handle holds; what is not closed is freed when the
// garbage collector finds it.
package reflex

// #cgo pkg-config: reflex
// #include <stdlib.h>
// #include "glue.h"
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

// An Error is a failure in the library or in a packed function.
type Error struct {
	// Kind names the error, such as "TypeError".
	Kind string
	// Message says what does not fit.
	Message string
	// Backtrace has a line for each function of the program that was active, innermost first.
	Backtrace string
	// Status is the kind of failure as C has it (ReflexStatus).
	Status int
}

func (e *Error) Error() string { return e.Kind + ": " + e.Message }

// Statuses of errors that programs ask for.
const (
	StatusIO          = int(C.REFLEX_STATUS_IO)
	StatusModel       = int(C.REFLEX_STATUS_MODEL)
	StatusUnsupported = int(C.REFLEX_STATUS_UNSUPPORTED)
	StatusInput       = int(C.REFLEX_STATUS_INPUT)
	StatusCompile     = int(C.REFLEX_STATUS_COMPILE)
	StatusRun         = int(C.REFLEX_STATUS_RUN)
	StatusCancelled   = int(C.REFLEX_STATUS_CANCELLED)
	StatusDeadline    = int(C.REFLEX_STATUS_DEADLINE_EXCEEDED)
	StatusFuel        = int(C.REFLEX_STATUS_FUEL_EXHAUSTED)
)

// try runs a call of the library on one thread, whose last error it takes.
func try(call func() C.enum_ReflexStatus) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	status := call()
	if status == C.REFLEX_STATUS_OK {
		return nil
	}
	return &Error{
		Kind:      C.GoString(C.reflex_error_kind()),
		Message:   C.GoString(C.reflex_error_message()),
		Backtrace: C.GoString(C.reflex_error_backtrace()),
		Status:    int(status),
	}
}

// Version returns the version of the library, such as "0.1.0".
func Version() string { return C.GoString(C.reflex_version()) }

// A handle owns a pointer of the library's. What is closed during a call is freed when the call has ended.
type handle[T any] struct {
	mutex  sync.Mutex
	raw    *T
	users  int
	closed bool
	free   func(*T)
	what   string
}

// open gives the pointer for a call, after which the caller calls done.
func (h *handle[T]) open() (*T, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.closed {
		return nil, fmt.Errorf("reflex: the %s is closed", h.what)
	}
	h.users++
	return h.raw, nil
}

func (h *handle[T]) done() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.users--
	h.release()
}

func (h *handle[T]) close() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.closed = true
	h.release()
}

// release frees what is closed and used no more.
func (h *handle[T]) release() {
	if h.closed && h.users == 0 && h.raw != nil {
		h.free(h.raw)
		h.raw = nil
	}
}

// with calls the library with the pointer of an open handle.
func with[T any](h *handle[T], call func(*T) C.enum_ReflexStatus) error {
	raw, err := h.open()
	if err != nil {
		return err
	}
	defer h.done()
	return try(func() C.enum_ReflexStatus { return call(raw) })
}

// Options of an engine. Zeroes are the defaults; `reflex.h` says what each may be.
type Options struct {
	// Threads is the number of threads for parallel kernels, the caller's included.
	Threads int
	// KernelCache is the folder of compiled kernels.
	KernelCache string
	// Tier is the tier policy, such as "threshold=10" or "off".
	Tier string
	// Precision is "f32", "f32-fast" or "bf16".
	Precision string
	// OptimizeFor is "speed" or "size".
	OptimizeFor string
	// Dims makes symbolic dimensions of inputs constants, such as "batch=1,height=320".
	Dims string
	// Device is where programs run, such as "cpu".
	Device string
}

// An Engine loads models.
type Engine struct{ handle[C.ReflexEngine] }

// NewEngine makes an engine.
func NewEngine(options Options) (*Engine, error) {
	var texts []unsafe.Pointer
	defer func() {
		for _, text := range texts {
			C.free(text)
		}
	}()
	text := func(s string) *C.char {
		if s == "" {
			return nil
		}
		c := C.CString(s)
		texts = append(texts, unsafe.Pointer(c))
		return c
	}
	given := C.ReflexEngineOptions{
		device:       text(options.Device),
		threads:      C.uint32_t(options.Threads),
		kernel_cache: text(options.KernelCache),
		tier:         text(options.Tier),
		precision:    text(options.Precision),
		optimize_for: text(options.OptimizeFor),
		dims:         text(options.Dims),
	}
	engine := &Engine{handle[C.ReflexEngine]{what: "engine", free: func(raw *C.ReflexEngine) { C.reflex_engine_free(raw) }}}
	if err := try(func() C.enum_ReflexStatus { return C.reflex_engine_new(&given, &engine.raw) }); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(engine, (*Engine).Close)
	return engine, nil
}

// Close frees the engine; its programs stay.
func (e *Engine) Close() { e.close() }

// Load loads a model: `.onnx` and `.py` are compiled, `.so` is opened, which runs machine code of its
// author's choice.
func (e *Engine) Load(path string) (*Program, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	program := newProgram()
	err := with(&e.handle, func(raw *C.ReflexEngine) C.enum_ReflexStatus {
		return C.reflex_engine_load(raw, name, &program.raw)
	})
	return finished(program, err)
}

// A Format of models in memory.
type Format int32

// Formats of models in memory.
const (
	ONNX    Format = C.REFLEX_FORMAT_ONNX
	Script  Format = C.REFLEX_FORMAT_SCRIPT
	Library Format = C.REFLEX_FORMAT_LIBRARY
	Relay   Format = C.REFLEX_FORMAT_RELAY
	Nodes   Format = C.REFLEX_FORMAT_NODES
	Torch   Format = C.REFLEX_FORMAT_TORCH
)

// LoadBytes loads a model from memory.
func (e *Engine) LoadBytes(format Format, model []byte) (*Program, error) {
	program := newProgram()
	var data unsafe.Pointer
	if len(model) > 0 {
		data = unsafe.Pointer(&model[0])
	}
	err := with(&e.handle, func(raw *C.ReflexEngine) C.enum_ReflexStatus {
		return C.reflex_engine_load_bytes(raw, C.int32_t(format), data, C.size_t(len(model)), &program.raw)
	})
	return finished(program, err)
}

// A Program is a loaded model, shared by any number of sessions.
type Program struct{ handle[C.ReflexProgram] }

func newProgram() *Program {
	return &Program{handle[C.ReflexProgram]{what: "program", free: func(raw *C.ReflexProgram) { C.reflex_program_free(raw) }}}
}

func finished(program *Program, err error) (*Program, error) {
	if err != nil {
		return nil, err
	}
	runtime.SetFinalizer(program, (*Program).Close)
	return program, nil
}

// Close frees the program; its sessions stay.
func (p *Program) Close() { p.close() }

// Save writes a compiled model as a library that Load and TVM open.
func (p *Program) Save(path string) error {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	return with(&p.handle, func(raw *C.ReflexProgram) C.enum_ReflexStatus { return C.reflex_program_save(raw, name) })
}

// Functions returns the names of the program's functions.
func (p *Program) Functions() ([]string, error) {
	var names []string
	for i := C.uint32_t(0); ; i++ {
		var name C.ReflexValue
		err := with(&p.handle, func(raw *C.ReflexProgram) C.enum_ReflexStatus {
			return C.reflex_program_function(raw, i, &name)
		})
		if failure, ok := err.(*Error); ok && failure.Status == StatusInput {
			return names, nil // past the last
		} else if err != nil {
			return nil, err
		}
		text, err := taken(&name)
		if err != nil {
			return nil, err
		}
		names = append(names, text.(string))
	}
}

// TensorInfo describes an input or output of a function.
type TensorInfo struct {
	// Name is the model's name for it.
	Name string
	// DType is its element type; zero if the program does not say.
	DType DType
	// Shape has -1 for a dimension that each call chooses.
	Shape []int64
	// Symbols has the name of such a dimension, and "" for others.
	Symbols []string
}

// Signature returns the inputs and outputs of a function, such as "main", in the order of calls.
func (p *Program) Signature(function string) (inputs, outputs []TensorInfo, err error) {
	raw, err := p.open()
	if err != nil {
		return nil, nil, err
	}
	defer p.done()
	name := C.CString(function)
	defer C.free(unsafe.Pointer(name))
	var signature C.ReflexSignature
	if err := try(func() C.enum_ReflexStatus { return C.reflex_program_signature(raw, name, &signature) }); err != nil {
		return nil, nil, err
	}
	return infos(signature.inputs, signature.input_count), infos(signature.outputs, signature.output_count), nil
}

func infos(first *C.ReflexTensorInfo, count C.uint32_t) []TensorInfo {
	var found []TensorInfo
	for _, info := range unsafe.Slice(first, int(count)) {
		next := TensorInfo{Name: C.GoString(info.name), DType: dtypeOf(info.dtype)}
		for i, dim := range unsafe.Slice(info.shape, int(info.ndim)) {
			symbol := ""
			if named := unsafe.Slice(info.symbols, int(info.ndim))[i]; named != nil {
				symbol = C.GoString(named)
			}
			next.Shape = append(next.Shape, int64(dim))
			next.Symbols = append(next.Symbols, symbol)
		}
		found = append(found, next)
	}
	return found
}
