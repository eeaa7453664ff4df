package reflex

// #include <stdlib.h>
// #include "glue.h"
import "C"

import (
	"fmt"
	"reflect"
	"runtime"
	"unsafe"
)

// A DType is an element type, as DLPack has it.
type DType struct {
	Code  uint8
	Bits  uint8
	Lanes uint16
}

// Element types.
var (
	Int8     = DType{0, 8, 1}
	Int16    = DType{0, 16, 1}
	Int32    = DType{0, 32, 1}
	Int64    = DType{0, 64, 1}
	Uint8    = DType{1, 8, 1}
	Uint16   = DType{1, 16, 1}
	Uint32   = DType{1, 32, 1}
	Uint64   = DType{1, 64, 1}
	Float16  = DType{2, 16, 1}
	Float32  = DType{2, 32, 1}
	Float64  = DType{2, 64, 1}
	Bfloat16 = DType{4, 16, 1}
	Bool     = DType{6, 8, 1}
)

func dtypeOf(raw C.ReflexDType) DType {
	return DType{uint8(raw.code), uint8(raw.bits), uint16(raw.lanes)}
}

func (d DType) String() string {
	name, ok := map[uint8]string{0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}[d.Code]
	switch {
	case !ok:
		return fmt.Sprintf("dtype(%d, %d, %d)", d.Code, d.Bits, d.Lanes)
	case d == Bool:
		return name
	case d.Lanes != 1:
		return fmt.Sprintf("%s%dx%d", name, d.Bits, d.Lanes)
	}
	return fmt.Sprintf("%s%d", name, d.Bits)
}

// Element is a type whose slices are data of tensors. Bits of float16 and bfloat16 are uint16.
type Element interface {
	bool | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

func dtypeFor[T Element]() DType {
	var zero T
	switch any(zero).(type) {
	case bool:
		return Bool
	case int8:
		return Int8
	case int16:
		return Int16
	case int32:
		return Int32
	case int64:
		return Int64
	case uint8:
		return Uint8
	case uint16:
		return Uint16
	case uint32:
		return Uint32
	case uint64:
		return Uint64
	case float32:
		return Float32
	}
	return Float64
}

// A Shape is the sizes of the dimensions of a tensor.
type Shape []int64

// A Tuple is several values in one.
type Tuple []any

// A value owns a value of the library's, in memory that the garbage collector does not move.
type value struct{ handle[C.ReflexValue] }

func (v *value) own(raw *C.ReflexValue, what string) {
	v.what = what
	v.free = func(raw *C.ReflexValue) {
		C.reflex_free(raw)
		C.free(unsafe.Pointer(raw))
	}
	v.raw = (*C.ReflexValue)(C.malloc(C.size_t(unsafe.Sizeof(*raw))))
	*v.raw = *raw
}

// A Tensor holds elements in memory of the library's. Programs read and write it in place.
type Tensor struct{ value }

// An Object is a value that Go has no type for, such as a map; it can be passed on.
type Object struct{ value }

// NewTensor makes a tensor of zeroes, to be filled through Data.
func NewTensor(dtype DType, shape []int64) (*Tensor, error) {
	return newTensor(dtype, shape, nil)
}

// TensorOf makes a tensor with a copy of elements in row-major order.
func TensorOf[T Element](shape []int64, elements []T) (*Tensor, error) {
	count := int64(1)
	for _, dim := range shape {
		count *= dim
	}
	if count != int64(len(elements)) {
		return nil, fmt.Errorf("reflex: %d elements for a tensor of shape %v", len(elements), shape)
	}
	var data unsafe.Pointer
	if count > 0 {
		data = unsafe.Pointer(&elements[0])
	}
	return newTensor(dtypeFor[T](), shape, data)
}

func newTensor(dtype DType, shape []int64, data unsafe.Pointer) (*Tensor, error) {
	var dims *C.int64_t
	if len(shape) > 0 {
		dims = (*C.int64_t)(unsafe.Pointer(&shape[0]))
	}
	kind := C.ReflexDType{C.uint8_t(dtype.Code), C.uint8_t(dtype.Bits), C.uint16_t(dtype.Lanes)}
	var made C.ReflexValue
	err := try(func() C.enum_ReflexStatus { return C.reflex_tensor(kind, dims, C.uint32_t(len(shape)), data, &made) })
	if err != nil {
		return nil, err
	}
	return tensor(&made), nil
}

func tensor(raw *C.ReflexValue) *Tensor {
	t := &Tensor{}
	t.own(raw, "tensor")
	runtime.SetFinalizer(t, (*Tensor).Close)
	return t
}

// Close frees the tensor. Its data must not be used any more.
func (t *Tensor) Close() { t.close() }

// DType returns the element type.
func (t *Tensor) DType() DType {
	raw, err := t.open()
	if err != nil {
		return DType{}
	}
	defer t.done()
	return dtypeOf(C.reflex_as_tensor(raw).dtype)
}

// Shape returns the sizes of the dimensions; nil once the tensor is closed.
func (t *Tensor) Shape() Shape {
	raw, err := t.open()
	if err != nil {
		return nil
	}
	defer t.done()
	view := C.reflex_as_tensor(raw)
	shape := Shape{}
	for _, dim := range unsafe.Slice(view.shape, int(view.ndim)) {
		shape = append(shape, int64(dim))
	}
	return shape
}

// Data returns the elements of a tensor in place, in row-major order; uint16 for float16 and bfloat16.
// They are valid until the tensor is closed: from the first call of Data on, Close alone frees it, since
// the garbage collector does not see who has the elements.
func Data[T Element](t *Tensor) ([]T, error) {
	raw, err := t.open()
	if err != nil {
		return nil, err
	}
	defer t.done()
	view := C.reflex_as_tensor(raw)
	has, asked := dtypeOf(view.dtype), dtypeFor[T]()
	bits := asked == Uint16 && (has == Float16 || has == Bfloat16)
	if has != asked && !bits {
		return nil, fmt.Errorf("reflex: the tensor is of %v, not of %v", has, asked)
	}
	if view.device.device_type != 1 {
		return nil, fmt.Errorf("reflex: the tensor is on device type %d", int(view.device.device_type))
	}
	count, compact := 1, 1
	for i := int(view.ndim) - 1; i >= 0; i-- {
		dim := int(unsafe.Slice(view.shape, int(view.ndim))[i])
		if view.strides != nil && dim > 1 && int(unsafe.Slice(view.strides, int(view.ndim))[i]) != compact {
			return nil, fmt.Errorf("reflex: the tensor has strides")
		}
		count, compact = count*dim, compact*dim
	}
	runtime.SetFinalizer(t, nil)
	if count == 0 {
		return []T{}, nil
	}
	return unsafe.Slice((*T)(unsafe.Add(view.data, int(view.byte_offset))), count), nil
}

// arguments are values for a call, with what they borrow.
type arguments struct {
	values []C.ReflexValue
	// owned has the positions of values that are freed after the call.
	owned []int
	held  []*value
}

func newArguments(args []any) (*arguments, error) {
	a := &arguments{values: make([]C.ReflexValue, len(args))}
	for i, arg := range args {
		if err := a.set(i, arg); err != nil {
			a.close()
			return nil, fmt.Errorf("argument %d: %w", i, err)
		}
	}
	return a, nil
}

func (a *arguments) first() *C.ReflexValue {
	if len(a.values) == 0 {
		return nil
	}
	return &a.values[0]
}

func (a *arguments) count() C.int32_t { return C.int32_t(len(a.values)) }

func (a *arguments) close() {
	for _, i := range a.owned {
		C.reflex_free(&a.values[i])
	}
	for _, held := range a.held {
		held.done()
	}
}

// borrow passes a handle's value, which stays open until the call has ended.
func (a *arguments) borrow(i int, v *value) error {
	raw, err := v.open()
	if err != nil {
		return err
	}
	a.held = append(a.held, v)
	a.values[i] = *raw
	return nil
}

// own passes a value that a call of the library makes.
func (a *arguments) own(i int, make func(*C.ReflexValue) C.enum_ReflexStatus) error {
	if err := try(func() C.enum_ReflexStatus { return make(&a.values[i]) }); err != nil {
		return err
	}
	a.owned = append(a.owned, i)
	return nil
}

func (a *arguments) set(i int, arg any) error {
	switch arg := arg.(type) {
	case nil:
		a.values[i] = C.reflex_none()
	case bool:
		a.values[i] = C.reflex_bool(C.bool(arg))
	case string:
		text := C.CString(arg)
		defer C.free(unsafe.Pointer(text))
		return a.own(i, func(out *C.ReflexValue) C.enum_ReflexStatus {
			return C.reflex_string(text, C.size_t(len(arg)), out)
		})
	case *Tensor:
		return a.borrow(i, &arg.value)
	case *Function:
		return a.borrow(i, &arg.value)
	case *Object:
		return a.borrow(i, &arg.value)
	case Func:
		return a.own(i, func(out *C.ReflexValue) C.enum_ReflexStatus { return makeFunction(arg, out) })
	case func(...any) (any, error):
		return a.set(i, Func(arg))
	case Shape:
		var dims *C.int64_t
		if len(arg) > 0 {
			dims = (*C.int64_t)(unsafe.Pointer(&arg[0]))
		}
		return a.own(i, func(out *C.ReflexValue) C.enum_ReflexStatus {
			return C.reflex_shape(dims, C.uint32_t(len(arg)), out)
		})
	case Tuple:
		items, err := newArguments(arg)
		if err != nil {
			return err
		}
		defer items.close()
		return a.own(i, func(out *C.ReflexValue) C.enum_ReflexStatus {
			return C.reflex_tuple(items.first(), items.count(), out)
		})
	default:
		number := reflect.ValueOf(arg)
		switch {
		case number.CanInt():
			a.values[i] = C.reflex_int(C.int64_t(number.Int()))
		case number.CanUint() && number.Uint() < 1<<63:
			a.values[i] = C.reflex_int(C.int64_t(number.Uint()))
		case number.CanFloat():
			a.values[i] = C.reflex_float(C.double(number.Float()))
		default:
			return fmt.Errorf("reflex: a %T is no value of programs", arg)
		}
	}
	return nil
}

// taken makes a Go value of an owned one, which it takes.
func taken(raw *C.ReflexValue) (any, error) {
	switch C.reflex_kind(raw) {
	case C.REFLEX_KIND_NONE:
		return nil, nil
	case C.REFLEX_KIND_INT:
		return int64(C.glue_int(raw)), nil
	case C.REFLEX_KIND_BOOL:
		return C.glue_int(raw) != 0, nil
	case C.REFLEX_KIND_FLOAT:
		return float64(C.glue_float(raw)), nil
	case C.REFLEX_KIND_TENSOR:
		return tensor(raw), nil
	case C.REFLEX_KIND_FUNCTION:
		return function(raw), nil
	case C.REFLEX_KIND_STRING:
		defer C.reflex_free(raw)
		var data *C.char
		var size C.size_t
		err := try(func() C.enum_ReflexStatus { return C.reflex_as_string(raw, &data, &size) })
		if err != nil {
			return nil, err
		}
		return C.GoStringN(data, C.int(size)), nil
	case C.REFLEX_KIND_TUPLE:
		defer C.reflex_free(raw)
		items, err := itemsOf(raw)
		return Tuple(items), err
	case C.REFLEX_KIND_SHAPE:
		defer C.reflex_free(raw)
		items, err := itemsOf(raw)
		shape := Shape{}
		for _, item := range items {
			shape = append(shape, item.(int64))
		}
		return shape, err
	}
	object := &Object{}
	object.own(raw, "object")
	runtime.SetFinalizer(object, (*Object).Close)
	return object, nil
}

// Close frees the object.
func (o *Object) Close() { o.close() }

func itemsOf(raw *C.ReflexValue) ([]any, error) {
	items := []any{}
	for i := C.uint32_t(0); int64(i) < int64(C.reflex_count(raw)); i++ {
		var item C.ReflexValue
		if err := try(func() C.enum_ReflexStatus { return C.reflex_item(raw, i, &item) }); err != nil {
			return nil, err
		}
		next, err := taken(&item)
		if err != nil {
			return nil, err
		}
		items = append(items, next)
	}
	return items, nil
}
