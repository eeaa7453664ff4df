//! Packed functions: anything callable through the one calling convention.
//!
//! A call allocates nothing: arguments are borrowed views on the caller's stack, and
//! the result is returned by value. Rust closures run behind a panic barrier, since
//! their callers may be generated code or C.
//!
//! Functions made from native code are trusted to do what their `unsafe`
//! constructors demand, including that what they write to (output tensors) is not
//! read or written by another thread meanwhile; callers keep that promise.

use std::any::Any as StdAny;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::{SafeCall, TVMFFIAny, TVMFFIFunctionCell, TVMFFIObject, type_index};
use crate::error::Error;
use crate::object::{self, ObjectRef, ObjectType};
use crate::value::{Any, AnyView, impl_object_conversions};

/// A reference to a packed function.
///
/// ```
/// use reflex_runtime::{function::{self, Function}, value::{Any, AnyView}};
/// let add = Function::new(|args| {
///     Ok(Any::from(function::arg::<i64>(args, 0)? + function::arg::<i64>(args, 1)?))
/// });
/// let sum = add.call(&[AnyView::from(2_i64), AnyView::from(3_i64)]).unwrap();
/// assert_eq!(i64::try_from(sum).unwrap(), 5);
/// let error = add.call(&[AnyView::from(2_i64)]).unwrap_err();
/// assert_eq!(error.to_string(), "TypeError: argument 1 is missing: 1 given");
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct Function(ObjectRef);

// SAFETY: transparent; reads the cell that every `ffi.Function` has.
unsafe impl ObjectType for Function {
    const KEY: &'static str = "ffi.Function";
    #[inline]
    fn type_index() -> i32 {
        type_index::FUNCTION
    }
}

impl_object_conversions!(Function);

/// The cell of a function made here, and what its code needs.
#[repr(C)]
struct Cell<T> {
    function: TVMFFIFunctionCell,
    state: T,
}

/// A C callback: code, its handle, and how to drop the handle.
struct Callback {
    handle: *mut c_void,
    call: SafeCall,
    deleter: Option<unsafe extern "C" fn(*mut c_void)>,
}

impl Drop for Callback {
    fn drop(&mut self) {
        if let Some(deleter) = self.deleter {
            // SAFETY: the handle came with this deleter, and is used no more.
            unsafe { deleter(self.handle) };
        }
    }
}

impl Function {
    /// A function that runs a Rust closure. A panic in it becomes an error.
    pub fn new<F>(closure: F) -> Function
    where
        F: Fn(&[AnyView<'_>]) -> Result<Any, Error> + Send + Sync + 'static,
    {
        Function::in_place(move |args, result| {
            *result = closure(args)?;
            Ok(())
        })
    }

    /// [`Function::new`] of a closure that stores its result in the None it is given, which
    /// saves a copy.
    pub fn in_place<F>(closure: F) -> Function
    where
        F: Fn(&[AnyView<'_>], &mut Any) -> Result<(), Error> + Send + Sync + 'static,
    {
        make(call_closure::<F>, closure)
    }

    /// A function that runs native code directly and keeps `owner` alive.
    ///
    /// # Safety
    /// `call` follows the calling convention from any thread for as long as `owner`
    /// lives, does not interpret its first argument, and does not unwind.
    pub unsafe fn from_native<T: Send + Sync + 'static>(call: SafeCall, owner: T) -> Function {
        make(call, owner)
    }

    /// A function that runs a C callback with its own handle.
    ///
    /// # Safety
    /// `call` follows the calling convention with `handle` as its first argument,
    /// from any thread, and does not unwind; `deleter` releases `handle`, from any
    /// thread.
    pub unsafe fn from_callback(
        call: SafeCall,
        handle: *mut c_void,
        deleter: Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> Function {
        make(call_callback, Callback { handle, call, deleter })
    }

    /// Calls the function.
    #[inline]
    pub fn call(&self, args: &[AnyView<'_>]) -> Result<Any, Error> {
        let mut result = TVMFFIAny::NONE;
        // SAFETY: the function is alive, the arguments are borrowed views, and the
        // result is None, as the convention demands.
        let status = unsafe {
            let count = args.len() as i32;
            (self.safe_call())(self.handle(), args.as_ptr().cast(), count, &mut result)
        };
        if status == 0 {
            // SAFETY: a successful callee leaves an owned value.
            Ok(unsafe { Any::from_raw(result) })
        } else {
            Err(Error::of_failed_call())
        }
    }

    /// The code to call, with [`handle`](Function::handle) as its first argument.
    #[inline]
    pub fn safe_call(&self) -> SafeCall {
        // SAFETY: every `ffi.Function` has this cell after its header.
        unsafe { (*self.0.cell::<TVMFFIFunctionCell>()).safe_call }
    }

    /// The first argument of the code: the object itself.
    #[inline]
    pub fn handle(&self) -> *mut c_void {
        self.0.as_ptr().cast()
    }
}

fn make<T>(safe_call: SafeCall, state: T) -> Function {
    let function = TVMFFIFunctionCell { safe_call, cpp_call: std::ptr::null_mut() };
    Function(object::create(type_index::FUNCTION, 0, |_| Cell { function, state }))
}

/// # Safety
/// `this` is a function object whose cell is a `Cell<T>`.
#[inline(always)]
unsafe fn state<'a, T>(this: *mut c_void) -> &'a T {
    // SAFETY: the caller passes a function whose cell is a `Cell<T>`; its caller keeps it alive.
    unsafe { &(*this.cast::<TVMFFIObject>().add(1).cast::<Cell<T>>()).state }
}

unsafe extern "C" fn call_closure<F>(
    this: *mut c_void,
    args: *const TVMFFIAny,
    count: i32,
    result: *mut TVMFFIAny,
) -> c_int
where
    F: Fn(&[AnyView<'_>], &mut Any) -> Result<(), Error>,
{
    // SAFETY: `Function::in_place` pairs this code with an `F`; the arguments are valid
    // for the call, by the calling convention.
    let (closure, args) = unsafe { (state::<F>(this), AnyView::slice_from_raw(args, count)) };
    let mut value = Any::NONE;
    match guard(|| closure(args, &mut value)) {
        Ok(()) => {
            // SAFETY: the caller passes a None to overwrite.
            unsafe { result.write(value.into_raw()) };
            0
        }
        Err(error) => {
            error.raise();
            -1
        }
    }
}

unsafe extern "C" fn call_callback(
    this: *mut c_void,
    args: *const TVMFFIAny,
    count: i32,
    result: *mut TVMFFIAny,
) -> c_int {
    // SAFETY: `from_callback` pairs this code with a `Callback`, whose contract covers
    // the inner call.
    unsafe {
        let callback = state::<Callback>(this);
        (callback.call)(callback.handle, args, count, result)
    }
}

/// Runs `body`, turning a panic into an error. Nothing unwinds past this.
#[inline(always)]
pub fn guard<T>(body: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(outcome) => outcome,
        Err(payload) => Err(panicked(payload)),
    }
}

#[cold]
fn panicked(payload: Box<dyn StdAny + Send>) -> Error {
    let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "no message".to_owned(),
    };
    // A payload whose own destructor panics must not unwind either; what that panics with stays.
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
    Error::new("InternalError", format!("panic: {text}"))
}

/// Argument `index` as a `T`; the error names the argument.
#[inline]
pub fn arg<'a, T>(args: &[AnyView<'a>], index: usize) -> Result<T, Error>
where
    T: TryFrom<AnyView<'a>, Error = Error>,
{
    let Some(view) = args.get(index) else { return Err(missing(args.len(), index)) };
    T::try_from(*view).map_err(|error| at(&error, index))
}

/// Argument `index` borrowed as an object of type `T`; the error names the argument.
#[inline]
pub fn arg_ref<'a, T: ObjectType>(args: &'a [AnyView<'_>], index: usize) -> Result<&'a T, Error> {
    let Some(view) = args.get(index) else { return Err(missing(args.len(), index)) };
    view.downcast_ref().ok_or_else(|| at(&view.mismatch(T::KEY), index))
}

/// Checks the number of arguments of the function called `name`.
#[inline]
pub fn check_arity(name: &str, args: &[AnyView<'_>], expected: usize) -> Result<(), Error> {
    if args.len() == expected { Ok(()) } else { Err(wrong_arity(name, args.len(), expected)) }
}

#[cold]
fn missing(given: usize, index: usize) -> Error {
    Error::type_error(format!("argument {index} is missing: {given} given"))
}

#[cold]
fn wrong_arity(name: &str, given: usize, expected: usize) -> Error {
    Error::type_error(format!("`{name}` takes {expected} arguments, {given} given"))
}

#[cold]
fn at(error: &Error, index: usize) -> Error {
    Error::new(&error.kind(), format!("argument {index}: {}", error.message()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::alloc::pool;
    use crate::shape::Shape;

    #[test]
    fn closures_own_their_state() {
        let state = Arc::new(AtomicUsize::new(0));
        let inner = Arc::clone(&state);
        let count = Function::new(move |args| {
            Ok(Any::from(inner.fetch_add(args.len(), Ordering::Relaxed) as i64))
        });
        let shape = Shape::new(&[1]);
        count.call(&[AnyView::from(&shape), AnyView::NONE]).unwrap();
        assert_eq!(i64::try_from(count.call(&[]).unwrap()).unwrap(), 2);
        assert!(shape.object().is_unique());
        drop(count);
        assert_eq!(Arc::strong_count(&state), 1);
    }

    #[test]
    fn failures_and_panics_are_errors() {
        let fails = Function::new(|args| Err(args[0].mismatch("bool")));
        let error = fails.call(&[AnyView::from(1_i64)]).unwrap_err();
        assert_eq!(error.to_string(), "TypeError: expected `bool`, got `int`");
        let error = fails.call(&[]).unwrap_err();
        assert_eq!(error.kind(), "InternalError");
        assert!(error.message().starts_with("panic: index out of bounds"), "{error}");
        assert!(Error::take_raised().is_none());
    }

    #[test]
    fn arguments_are_checked() {
        let args = [AnyView::from(1_i64)];
        assert!(check_arity("f", &args, 1).is_ok());
        let error = check_arity("f", &args, 2).unwrap_err();
        assert_eq!(error.to_string(), "TypeError: `f` takes 2 arguments, 1 given");
        let error = arg_ref::<Shape>(&args, 0).unwrap_err();
        assert_eq!(error.message(), "argument 0: expected `ffi.Shape`, got `int`");
    }

    #[test]
    fn calls_allocate_nothing() {
        let identity = Function::new(|args| Ok(args[0].to_owned()));
        let value = Any::from(Shape::new(&[1, 2, 3]));
        let before = pool::heap_allocations();
        for _ in 0..100 {
            let shape = Shape::new(&[4, 5]);
            identity.call(&[value.view()]).unwrap();
            identity.call(&[AnyView::from(&shape)]).unwrap();
        }
        assert!(pool::heap_allocations() <= before + 1);
    }

    #[test]
    fn callbacks_get_their_handle() {
        unsafe extern "C" fn call(
            handle: *mut c_void,
            _: *const TVMFFIAny,
            count: i32,
            result: *mut TVMFFIAny,
        ) -> c_int {
            // SAFETY: the handle is the counter below; the result is writable.
            unsafe {
                let calls = (*handle.cast::<AtomicUsize>()).fetch_add(1, Ordering::Relaxed);
                result.write(Any::from(calls as i64).into_raw());
            }
            if count == 0 { 0 } else { -1 }
        }
        unsafe extern "C" fn delete(handle: *mut c_void) {
            // SAFETY: the handle is the counter below, which outlives the function.
            unsafe { (*handle.cast::<AtomicUsize>()).store(100, Ordering::Relaxed) };
        }
        let counter = AtomicUsize::new(0);
        let handle = std::ptr::from_ref(&counter).cast_mut().cast();
        // SAFETY: the counter outlives the function; both callbacks take it.
        let function = unsafe { Function::from_callback(call, handle, Some(delete)) };
        function.call(&[]).unwrap();
        assert_eq!(i64::try_from(function.call(&[]).unwrap()).unwrap(), 1);
        let error = function.call(&[AnyView::NONE]).unwrap_err();
        assert_eq!(error.message(), "a function failed without setting an error");
        drop(function);
        assert_eq!(counter.load(Ordering::Relaxed), 100);
    }
}
