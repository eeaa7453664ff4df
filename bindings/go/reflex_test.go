package reflex

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"
)

// The folder of models that `./x bindings` writes.
func models(t *testing.T) string {
	folder := os.Getenv("REFLEX_BINDING_MODELS")
	if folder == "" {
		t.Skip("REFLEX_BINDING_MODELS is not set; ./x bindings sets it")
	}
	return folder
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

var failing = &Error{Kind: "ValueError", Message: "nothing is given"}

// back answers by the kind of its argument.
func back(args ...any) (any, error) {
	switch x := args[0].(type) {
	case nil:
		return nil, fmt.Errorf("back: %w", failing)
	case bool:
		return !x, nil
	case int64:
		return x + 1, nil
	case float64:
		return x / 2, nil
	case string:
		return "hello " + x, nil
	case Tuple:
		return Tuple{x[len(x)-1], x[0]}, nil
	case Shape:
		return append(Shape{7}, x...), nil
	case *Function:
		return x.Call(int64(20))
	case *Tensor:
		data := must(Data[float32](x))
		doubled := make([]float32, len(data))
		for i, element := range data {
			doubled[i] = 2 * element
		}
		shape := x.Shape()
		x.Close()
		return TensorOf(shape, doubled)
	}
	panic("an argument of another kind")
}

var register sync.Once

func open(t *testing.T, model string) *Program {
	register.Do(func() {
		if err := Register("bindings.back", back); err != nil {
			panic(err)
		}
	})
	engine := must(NewEngine(Options{Threads: 1}))
	defer engine.Close()
	return must(engine.Load(filepath.Join(models(t), model)))
}

func floats(t *testing.T, value any) []float32 {
	tensor, ok := value.(*Tensor)
	if !ok {
		t.Fatalf("a %T, no tensor", value)
	}
	defer tensor.Close()
	return append([]float32{}, must(Data[float32](tensor))...)
}

func TestModelsFromFilesAndMemory(t *testing.T) {
	path := filepath.Join(models(t), "linear.onnx")
	engine := must(NewEngine(Options{Threads: 2, Tier: "threshold=10"}))
	bytes := must(os.ReadFile(path))
	saved := filepath.Join(t.TempDir(), "linear.so")
	compiled := must(engine.Load(path))
	if err := compiled.Save(saved); err != nil {
		t.Fatal(err)
	}
	programs := []*Program{compiled, must(engine.LoadBytes(ONNX, bytes)), must(engine.Load(saved))}
	engine.Close()
	for _, program := range programs {
		inputs, outputs, err := program.Signature("main")
		if err != nil || len(inputs) != 1 || len(outputs) != 1 {
			t.Fatal(inputs, outputs, err)
		}
		want := TensorInfo{Name: "x", DType: Float32, Shape: []int64{-1, 3}, Symbols: []string{"n", ""}}
		if !reflect.DeepEqual(inputs[0], want) {
			t.Fatalf("%+v", inputs[0])
		}
		if names := must(program.Functions()); !reflect.DeepEqual(names, []string{"main"}) {
			t.Fatal(names)
		}
		for _, mode := range []Mode{Tiered, Bytecode, Compiled} {
			session := must(program.Session(mode))
			x := must(TensorOf([]int64{2, 3}, []float32{3, 2, 0, 0, 1, 2}))
			y := floats(t, must(session.Call("main", x)))
			if !reflect.DeepEqual(y, []float32{7.5, 0, 0, 6.5}) {
				t.Fatal(y)
			}
			if calls := must(session.WarmUp("main", x)); calls == 0 {
				t.Fatal("no call")
			}
			x.Close()
			session.Close()
		}
		program.Close()
		if _, err := program.Session(Tiered); err == nil || err.Error() != "reflex: the program is closed" {
			t.Fatal(err)
		}
	}
}

func TestValuesOfEveryKindGoBothWays(t *testing.T) {
	program := open(t, "values.py")
	session := must(program.Session(Tiered))
	program.Close()
	object := must(must(Lookup("ffi.Map")).Call("key", 1))
	for _, row := range []struct{ given, want any }{
		{true, false},
		{int64(41), int64(42)},
		{int8(-2), int64(-1)},
		{uint16(9), int64(10)},
		{0.5, 0.25},
		{float32(-3), -1.5},
		{"wörld\x00!", "hello wörld\x00!"},
		{Tuple{"a", nil, int64(2)}, Tuple{int64(2), "a"}},
		{Shape{2, 3}, Shape{7, 2, 3}},
		{Func(func(args ...any) (any, error) { return args[0].(int64) * 2, nil }), int64(40)},
	} {
		if got := must(session.Call("back", row.given)); !reflect.DeepEqual(got, row.want) {
			t.Errorf("%v gives %v", row.given, got)
		}
	}
	if _, ok := object.(*Object); !ok {
		t.Errorf("a map is a %T", object)
	}
	x := must(NewTensor(Float32, []int64{2, 2}))
	copy(must(Data[float32](x)), []float32{1, 2, 3, 4})
	if y := floats(t, must(session.Call("back", x))); !reflect.DeepEqual(y, []float32{2, 4, 6, 8}) {
		t.Error(y)
	}
	if shape := must(session.Call("shape", x)); !reflect.DeepEqual(shape, Shape{2, 2}) {
		t.Error(shape)
	}
	flat := must(TensorOf([]int64{3}, []float32{1, 2, 3}))
	pair := must(session.Call("pair", flat)).(Tuple)
	if a, b := floats(t, pair[0]), floats(t, pair[1]); !reflect.DeepEqual([][]float32{a, b}, [][]float32{{2, 3, 4}, {1, 4, 9}}) {
		t.Error(a, b)
	}
	counted := must(session.Call("count", must(TensorOf([]int64{2}, []int64{math.MaxInt64 - 1, -5})))).(*Tensor)
	if data := must(Data[int64](counted)); data[0] != math.MaxInt64 || data[1] != -4 || counted.DType() != Int64 {
		t.Error(data, counted.DType())
	}
	if empty := must(TensorOf([]int64{0, 3}, []float32{})); len(must(Data[float32](empty))) != 0 || empty.Shape()[1] != 3 {
		t.Error("an empty tensor has elements")
	}
}

func TestErrorsSayWhatAndWhere(t *testing.T) {
	program := open(t, "values.py")
	session := must(program.Session(Tiered))
	fails := func(err error, kind, text string, status int) {
		t.Helper()
		var failure *Error
		if !errors.As(err, &failure) || failure.Kind != kind || !strings.Contains(failure.Message, text) || failure.Status != status {
			t.Errorf("%#v", err)
		}
	}
	_, err := session.Call("back", nil)
	fails(err, "ValueError", "nothing is given", StatusRun)
	if failure := err.(*Error); failure.Backtrace == "" {
		t.Error("no backtrace")
	}
	_, err = session.Call("back", Func(func(...any) (any, error) { panic("so what") }))
	fails(err, "RuntimeError", "panic: so what", StatusRun)
	_, err = session.Call("nothing")
	fails(err, "AttributeError", "nothing", StatusRun)
	_, err = session.Call("pair")
	fails(err, "InternalError", "expects 1 argument", StatusRun)
	_, err = must(NewEngine(Options{})).Load("no/such.onnx")
	fails(err, "OSError", "no/such.onnx", StatusIO)
	_, err = must(NewEngine(Options{})).LoadBytes(Library, nil)
	if err == nil {
		t.Error("an empty library is opened")
	}
	_, err = Lookup("no.such.function")
	fails(err, "ValueError", "no.such.function", StatusInput)
	if _, err = session.Call("back", struct{}{}); err == nil || !strings.Contains(err.Error(), "no value of programs") {
		t.Error(err)
	}
	x := must(TensorOf([]int64{1}, []float32{1}))
	if _, err = Data[float64](x); err == nil || !strings.Contains(err.Error(), "float32, not of float64") {
		t.Error(err)
	}
	x.Close()
	x.Close()
	if _, err = session.Call("back", x); err == nil || !strings.Contains(err.Error(), "the tensor is closed") {
		t.Error(err)
	}
	if err = session.SetFuel(0); err != nil {
		t.Error(err)
	}
	_, err = session.Call("back", 1)
	fails(err, "reflex.FuelExhausted", "", StatusFuel)
	if err = session.SetFuel(NoFuelLimit); err != nil {
		t.Error(err)
	}
	if err = session.SetTimeout(0); err != nil {
		t.Error(err)
	}
	if _, err = session.Call("back", 1); err.(*Error).Status != StatusDeadline {
		t.Error(err)
	}
	if err = session.SetTimeout(-time.Second); err != nil {
		t.Error(err)
	}
	canceller := must(session.Canceller())
	if err = canceller.Cancel(); err != nil {
		t.Error(err)
	}
	if _, err = session.Call("back", 1); err.(*Error).Status != StatusCancelled {
		t.Error(err)
	}
	if err = canceller.Reset(); err != nil {
		t.Error(err)
	}
	canceller.Close()
	if answer := must(session.Call("back", 1)); answer != int64(2) {
		t.Error(answer)
	}
}

func TestWhatIsClosedDuringACallIsFreedAfterIt(t *testing.T) {
	program := open(t, "values.py")
	session := must(program.Session(Tiered))
	program.Close()
	answer, err := session.Call("back", Func(func(...any) (any, error) {
		session.Close()
		return "closed", nil
	}))
	if err != nil || answer != "closed" {
		t.Error(answer, err)
	}
	if _, err := session.Call("back", 1); err == nil || !strings.Contains(err.Error(), "the session is closed") {
		t.Error(err)
	}
}

func TestGoroutinesShareAProgram(t *testing.T) {
	program := open(t, "linear.onnx")
	defer program.Close()
	var group sync.WaitGroup
	for worker := 0; worker < 8; worker++ {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			session := must(program.Session(Tiered))
			defer session.Close()
			for i := 0; i < 200; i++ {
				x := must(TensorOf([]int64{1, 3}, []float32{float32(worker), float32(i), 0}))
				y := floats(t, must(session.Call("main", x)))
				want := float32(worker) + 2*float32(i) + 0.5
				if y[0] != want {
					t.Errorf("%v instead of %v", y[0], want)
				}
				x.Close()
			}
		}(worker)
	}
	group.Wait()
}

func resident(t *testing.T) int {
	var pages, resident int
	must(fmt.Sscan(string(must(os.ReadFile("/proc/self/statm"))), &pages, &resident))
	return resident * os.Getpagesize()
}

func TestMemoryStaysFlat(t *testing.T) {
	program := open(t, "values.py")
	session := must(program.Session(Tiered))
	elements := make([]float32, 16<<10)
	round := func() {
		x := must(TensorOf([]int64{int64(len(elements))}, elements))
		must(session.Call("back", x)).(*Tensor).Close()
		pair := must(session.Call("pair", x)).(Tuple)
		pair[0].(*Tensor).Close()
		pair[1].(*Tensor).Close()
		must(session.Call("back", "text"))
		if _, err := session.Call("back", nil); err == nil {
			t.Fatal("no error")
		}
		must(session.Call("back", Func(func(args ...any) (any, error) { return args[0], nil })))
		x.Close()
	}
	for i := 0; i < 1000; i++ {
		round()
	}
	debug.FreeOSMemory()
	before := resident(t)
	for i := 0; i < 10000; i++ {
		round()
	}
	debug.FreeOSMemory()
	grown := resident(t) - before
	t.Logf("%d bytes more after 10,000 rounds", grown)
	// A tensor that leaks in each round would take 640 MiB.
	if grown > 32<<20 {
		t.Errorf("memory grows by %d bytes", grown)
	}
}
