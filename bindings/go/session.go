package reflex

// #include <stdlib.h>
// #include "glue.h"
import "C"

import (
	"math"
	"runtime"
	"time"
	"unsafe"
)

// A Mode is the way functions run. All modes give the same bits.
type Mode int32

const (
	// Tiered interprets first; what is hot becomes machine code.
	Tiered Mode = C.REFLEX_MODE_TIERED
	// Bytecode interprets.
	Bytecode Mode = C.REFLEX_MODE_BYTECODE
	// Compiled translates every function to machine code when the session opens.
	Compiled Mode = C.REFLEX_MODE_COMPILED
)

// A Session is the running state of a program. It runs one call at a time.
type Session struct{ handle[C.ReflexSession] }

// Session opens a session.
func (p *Program) Session(mode Mode) (*Session, error) {
	session := &Session{handle[C.ReflexSession]{what: "session", free: func(raw *C.ReflexSession) { C.reflex_session_free(raw) }}}
	err := with(&p.handle, func(raw *C.ReflexProgram) C.enum_ReflexStatus {
		return C.reflex_session_new(raw, C.int32_t(mode), &session.raw)
	})
	if err != nil {
		return nil, err
	}
	runtime.SetFinalizer(session, (*Session).Close)
	return session, nil
}

// Close frees the session, once no call runs.
func (s *Session) Close() { s.close() }

// Call calls a function of the program by name. A result may be a constant of the program, or an
// argument itself, whose data is not to be written.
func (s *Session) Call(function string, args ...any) (any, error) {
	given, err := newArguments(args)
	if err != nil {
		return nil, err
	}
	defer given.close()
	name := C.CString(function)
	defer C.free(unsafe.Pointer(name))
	var result C.ReflexValue
	err = with(&s.handle, func(raw *C.ReflexSession) C.enum_ReflexStatus {
		return C.reflex_call(raw, name, given.first(), given.count(), &result)
	})
	if err != nil {
		return nil, err
	}
	return taken(&result)
}

// WarmUp calls a function until nothing more of it is being compiled, and returns the number of calls.
func (s *Session) WarmUp(function string, args ...any) (uint64, error) {
	given, err := newArguments(args)
	if err != nil {
		return 0, err
	}
	defer given.close()
	name := C.CString(function)
	defer C.free(unsafe.Pointer(name))
	var calls C.uint64_t
	err = with(&s.handle, func(raw *C.ReflexSession) C.enum_ReflexStatus {
		return C.reflex_warm_up(raw, name, given.first(), given.count(), &calls)
	})
	return uint64(calls), err
}

// SetTimeout makes runs fail that go on for longer than so long from now; a negative one removes the
// limit. A kernel is not interrupted.
func (s *Session) SetTimeout(limit time.Duration) error {
	return with(&s.handle, func(raw *C.ReflexSession) C.enum_ReflexStatus {
		return C.reflex_set_deadline(raw, C.int64_t(limit.Nanoseconds()))
	})
}

// NoFuelLimit is the fuel of a session without a limit.
const NoFuelLimit uint64 = math.MaxUint64

// SetFuel limits what later runs may do: a unit for each function entered and each backward jump.
func (s *Session) SetFuel(fuel uint64) error {
	return with(&s.handle, func(raw *C.ReflexSession) C.enum_ReflexStatus {
		return C.reflex_set_fuel(raw, C.uint64_t(fuel))
	})
}

// A Canceller stops the runs of a session from another goroutine.
type Canceller struct{ handle[C.ReflexCanceller] }

// Canceller returns a handle that stops the session's runs.
func (s *Session) Canceller() (*Canceller, error) {
	canceller := &Canceller{handle[C.ReflexCanceller]{what: "canceller", free: func(raw *C.ReflexCanceller) { C.reflex_canceller_free(raw) }}}
	err := with(&s.handle, func(raw *C.ReflexSession) C.enum_ReflexStatus {
		return C.reflex_canceller_new(raw, &canceller.raw)
	})
	if err != nil {
		return nil, err
	}
	runtime.SetFinalizer(canceller, (*Canceller).Close)
	return canceller, nil
}

// Close frees the canceller.
func (c *Canceller) Close() { c.close() }

// Cancel makes the current run, and later ones until Reset, fail soon.
func (c *Canceller) Cancel() error {
	return with(&c.handle, func(raw *C.ReflexCanceller) C.enum_ReflexStatus { return C.reflex_cancel(raw) })
}

// Reset lets runs go on again.
func (c *Canceller) Reset() error {
	return with(&c.handle, func(raw *C.ReflexCanceller) C.enum_ReflexStatus { return C.reflex_cancel_reset(raw) })
}
