//! Exchanges objects with the real libtvm_ffi: each side reads, counts and destroys
//! what the other made.
//!
//! The library is found through the Python interpreter that `REFLEX_TVM_PYTHON`
//! names; without it the tests are recorded as skipped. It is opened so
//! that it keeps to its own symbols, whatever this executable exports.

#[path = "../../../tests/common/skip.rs"]
mod skip;

use std::ffi::{CString, OsStr, c_int, c_void};
use std::process::Command;
use std::ptr::NonNull;
use std::sync::OnceLock;

use reflex_runtime::abi::{TVMFFIAny, TVMFFIByteArray, TVMFFIObject};
use reflex_runtime::array::Array;
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::object::{ObjectRef, ObjectType};
use reflex_runtime::shape::Shape;
use reflex_runtime::string::{Bytes, Str};
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};

/// The C API of the other side.
struct Theirs(usize);

impl Theirs {
    fn get() -> Option<&'static Theirs> {
        static OPENED: OnceLock<Theirs> = OnceLock::new();
        let python = skip::variable("REFLEX_TVM_PYTHON")?;
        Some(OPENED.get_or_init(|| Theirs::open(&python)))
    }

    fn open(python: &OsStr) -> Theirs {
        let script = "import tvm_ffi.libinfo as i; print(i.find_libtvm_ffi(), end='')";
        let output = Command::new(python).args(["-c", script]).output().expect("python runs");
        assert!(output.status.success(), "{} cannot import tvm_ffi", python.display());
        let path = CString::new(output.stdout).unwrap();
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_DEEPBIND;
        // SAFETY: the library is the installed tvm_ffi, whose initialisers the test trusts.
        let handle = unsafe { libc::dlopen(path.as_ptr(), flags) };
        assert!(!handle.is_null(), "cannot open {path:?}");
        Theirs(handle.expose_provenance())
    }

    /// A function of the C API, as the type the header gives it.
    ///
    /// # Safety
    /// `F` is that type.
    unsafe fn symbol<F: Copy>(&self, name: &str) -> F {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let name = CString::new(name).unwrap();
        // SAFETY: the handle is open, and stays so.
        let address =
            unsafe { libc::dlsym(std::ptr::with_exposed_provenance_mut(self.0), name.as_ptr()) };
        assert!(!address.is_null(), "{name:?}");
        // SAFETY: the caller vouches that `F` is the type of this function.
        unsafe { std::mem::transmute_copy(&address) }
    }

    /// One of their global functions, as one of our references.
    fn global(&self, name: &str) -> Function {
        type Get = unsafe extern "C" fn(*const TVMFFIByteArray, *mut *mut TVMFFIObject) -> c_int;
        let key = TVMFFIByteArray { data: name.as_ptr().cast(), size: name.len() };
        let mut found = std::ptr::null_mut();
        // SAFETY: the header's signature; a found function is owned by the caller.
        unsafe {
            assert_eq!(self.symbol::<Get>("TVMFFIFunctionGetGlobal")(&key, &mut found), 0);
            let found = NonNull::new(found).unwrap_or_else(|| panic!("{name} is not there"));
            Function::from_object_unchecked(ObjectRef::from_raw(found))
        }
    }

    /// Calls one of their functions, and takes the error from their slot.
    fn call(&self, function: &Function, args: &[AnyView<'_>]) -> Result<Any, Error> {
        type Take = unsafe extern "C" fn(*mut *mut TVMFFIObject);
        function.call(args).map_err(|_| {
            let mut raised = std::ptr::null_mut();
            // SAFETY: the header's signature; the error is owned by the caller.
            unsafe {
                self.symbol::<Take>("TVMFFIErrorMoveFromRaised")(&mut raised);
                let raised = NonNull::new(raised).expect("their error is raised");
                Error::from_object_unchecked(ObjectRef::from_raw(raised))
            }
        })
    }

    fn repr(&self, value: AnyView<'_>) -> String {
        let text = self.call(&self.global("ffi.ReprPrint"), &[value]).unwrap();
        Str::try_from(text).unwrap().to_string()
    }
}

#[test]
fn they_read_what_we_make() {
    let Some(theirs) = Theirs::get() else { return };
    let shape = Shape::new(&[2, 3]);
    let long = Any::from(Str::new("longer than seven bytes"));
    let array =
        Array::new([shape.clone().into(), long, Any::from("short"), 5_i64.into(), Any::NONE]);
    let text = theirs.repr(AnyView::from(&array));
    for part in ["2, 3", "longer than seven bytes", "short", "5", "None"] {
        assert!(text.contains(part), "{text}");
    }
    let size = theirs.call(&theirs.global("ffi.ArraySize"), &[AnyView::from(&array)]).unwrap();
    assert_eq!(i64::try_from(size).unwrap(), 5);
    let item = theirs.global("ffi.ArrayGetItem");
    let first = theirs.call(&item, &[AnyView::from(&array), 0_i64.into()]).unwrap();
    assert!(Shape::try_from(first).unwrap().object().same(shape.object()));
    let equal = theirs.global("ffi.RecursiveEq");
    let (one, other) = (Shape::new(&[7, 8]), Shape::new(&[7, 8]));
    let same = theirs.call(&equal, &[AnyView::from(&one), AnyView::from(&other)]).unwrap();
    assert!(bool::try_from(same).unwrap());
    drop(array);
    assert!(shape.object().is_unique());
}

#[test]
fn we_read_what_they_make() {
    let Some(theirs) = Theirs::get() else { return };
    let make = |name: &str, args: &[AnyView<'_>]| theirs.call(&theirs.global(name), args).unwrap();
    let shape = Shape::try_from(make("ffi.Shape", &[4_i64.into(), 5_i64.into()])).unwrap();
    assert_eq!(&*shape, [4, 5]);
    for text in [c"tiny", c"not at all tiny"] {
        let string = Str::try_from(make("ffi.String", &[text.into()])).unwrap();
        assert_eq!(&*string, text.to_str().unwrap());
    }
    let bytes = Bytes::new(b"\0\xff bytes of some length");
    let theirs_too = Bytes::try_from(make("ffi.Bytes", &[AnyView::from(&bytes)])).unwrap();
    assert_eq!(theirs_too, bytes);
    let tensor = Tensor::from_slice(&[2], &[1.0_f32, 2.0]).unwrap();
    let array = make("ffi.Array", &[(&tensor).into(), (&shape).into(), 3.5_f64.into()]);
    let array = Array::try_from(array).unwrap();
    assert!(array[0].downcast_ref::<Tensor>().unwrap().object().same(tensor.object()));
    assert_eq!(f64::try_from(&array[2]).unwrap(), 3.5);
    assert_eq!(tensor.object().strong_count(), 2);
    // The last reference is ours, the deleter theirs; it releases our tensor.
    drop(array);
    assert!(!tensor.is_shared() && shape.object().is_unique());
}

#[test]
fn they_call_our_functions_and_we_read_their_errors() {
    type Call = unsafe extern "C" fn(*mut c_void, *mut TVMFFIAny, i32, *mut TVMFFIAny) -> c_int;
    let Some(theirs) = Theirs::get() else { return };
    let ours = Function::new(|args| match args.first() {
        Some(first) => Ok(first.to_owned()),
        None => Err(Error::value_error("nothing to return")),
    });
    let shape = Shape::new(&[9]);
    let mut args = [*AnyView::from(&shape).as_raw()];
    let mut result = TVMFFIAny::NONE;
    // SAFETY: the header's signature; results are owned by the caller.
    unsafe {
        let call = theirs.symbol::<Call>("TVMFFIFunctionCall");
        assert_eq!(call(ours.handle(), args.as_mut_ptr(), 1, &mut result), 0);
        assert!(Shape::try_from(Any::from_raw(result)).unwrap().object().same(shape.object()));
        let mut unused = TVMFFIAny::NONE;
        assert_eq!(call(ours.handle(), args.as_mut_ptr(), 0, &mut unused), -1);
    }
    assert_eq!(Error::take_raised().unwrap().message(), "nothing to return");
    let item = theirs.global("ffi.ArrayGetItem");
    let error = theirs.call(&item, &[AnyView::from(&Array::new([])), 0_i64.into()]).unwrap_err();
    assert_eq!(error.kind(), "IndexError");
    assert!(!error.message().is_empty() && error.object().is_unique());
    let error = theirs.call(&item, &[AnyView::from(&shape), 0_i64.into()]).unwrap_err();
    assert_eq!(error.kind(), "TypeError");
    assert!(error.message().contains("ffi.Shape"), "{error}");
}

#[test]
fn tensors_cross_both_ways_without_a_copy() {
    type Export = unsafe extern "C" fn(*mut TVMFFIObject, *mut *mut c_void) -> c_int;
    type Import = unsafe extern "C" fn(*mut c_void, i32, i32, *mut *mut TVMFFIObject) -> c_int;
    let Some(theirs) = Theirs::get() else { return };
    let ours = Tensor::from_slice(&[2, 2], &[1_i64, 2, 3, 4]).unwrap();
    let (mut managed, mut imported) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the header's signatures; each result is owned by the next step.
    let there_and_back = unsafe {
        let export = theirs.symbol::<Export>("TVMFFITensorToDLPackVersioned");
        let import = theirs.symbol::<Import>("TVMFFITensorFromDLPackVersioned");
        assert_eq!(export(ours.object().as_ptr(), &mut managed), 0);
        assert_eq!(import(managed, 64, 1, &mut imported), 0);
        let made = ObjectRef::from_raw(NonNull::new(imported).unwrap());
        let made = Tensor::from_object_unchecked(made);
        let managed = made.to_dlpack_versioned();
        Tensor::from_dlpack_versioned(managed).unwrap()
    };
    assert_eq!(there_and_back.data_ptr(), ours.data_ptr());
    assert_eq!(there_and_back.to_vec::<i64>().unwrap(), [1, 2, 3, 4]);
    assert!(ours.is_shared());
    drop(there_and_back);
    assert!(!ours.is_shared());
}
