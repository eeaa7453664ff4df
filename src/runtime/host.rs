//! A libtvm_ffi that is in the process already, such as Python's.
//!
//! Where its symbols come first in the global scope, kernels that we load raise
//! their errors in its slot, and its objects carry indices of its type table. So our
//! errors go to its slot too, where its callers expect them, new type keys get its indices, and
//! its global functions are found after ours. The first look-up decides which library comes first:
//! a program that wants to share with libtvm_ffi loads it, globally, before us. Loading
//! it after our symbols are global is not supported, since it would call some of ours instead of
//! its own.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

use crate::abi::{TVMFFIByteArray, TVMFFIObject, type_index};
use crate::function::Function;
use crate::object::{ObjectRef, ObjectType};

/// The functions of libtvm_ffi that we share state through.
#[derive(Clone, Copy)]
pub(crate) struct Host {
    take_raised: unsafe extern "C" fn(*mut *mut TVMFFIObject),
    set_raised: unsafe extern "C" fn(*mut TVMFFIObject),
    get_global: unsafe extern "C" fn(*const TVMFFIByteArray, *mut *mut TVMFFIObject) -> i32,
    type_index_of: unsafe extern "C" fn(*const TVMFFIByteArray, i32, i32, i32, i32, i32) -> i32,
}

/// The host's library, if there is one before us.
pub(crate) fn get() -> Option<&'static Host> {
    static HOST: OnceLock<Option<Host>> = OnceLock::new();
    HOST.get_or_init(find).as_ref()
}

fn find() -> Option<Host> {
    let take_raised = foreign(c"TVMFFIErrorMoveFromRaised")?;
    let set_raised = foreign(c"TVMFFIErrorSetRaised")?;
    let get_global = foreign(c"TVMFFIFunctionGetGlobal")?;
    let type_index_of = foreign(c"TVMFFITypeGetOrAllocIndex")?;
    // SAFETY: functions of these names have these types, by `c_api.h`.
    unsafe {
        Some(Host {
            take_raised: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(*mut *mut TVMFFIObject),
            >(take_raised),
            set_raised: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut TVMFFIObject)>(
                set_raised,
            ),
            get_global: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(*const TVMFFIByteArray, *mut *mut TVMFFIObject) -> i32,
            >(get_global),
            type_index_of: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(*const TVMFFIByteArray, i32, i32, i32, i32, i32) -> i32,
            >(type_index_of),
        })
    }
}

/// The symbol that libraries loaded from now on find under `name`, unless it is ours.
fn foreign(name: &CStr) -> Option<*mut c_void> {
    let found = global_symbol(name)?;
    (object_of(found) != object_of(foreign as *const c_void)).then_some(found)
}

/// The base address of the executable or library that has `address`.
fn object_of(address: *const c_void) -> *const c_void {
    // SAFETY: an all-zero Dl_info is a valid one to overwrite.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for; the result is a local.
    unsafe { libc::dladdr(address, &mut info) };
    info.dli_fbase
}

/// The symbol `name` of the global scope: of the executable, the libraries it links, and those
/// opened globally. `RTLD_DEFAULT` would add the scope of the library that this
/// code may be in, which others do not see.
pub(crate) fn global_symbol(name: &CStr) -> Option<*mut c_void> {
    if cfg!(miri) {
        return None;
    }
    // SAFETY: a null name asks for the global scope; the handle needs no closing, as
    // what it stands for stays.
    let found = unsafe {
        let global = libc::dlopen(std::ptr::null(), libc::RTLD_LAZY);
        if global.is_null() { global } else { libc::dlsym(global, name.as_ptr()) }
    };
    (!found.is_null()).then_some(found)
}

impl Host {
    /// Takes the error out of this thread's slot in libtvm_ffi.
    pub(crate) fn take_raised(&self) -> Option<ObjectRef> {
        let mut raised = std::ptr::null_mut();
        // SAFETY: a function of libtvm_ffi, called as its header says; the error it
        // writes is owned by the caller.
        unsafe {
            (self.take_raised)(&mut raised);
            NonNull::new(raised).map(|object| ObjectRef::from_raw(object))
        }
    }

    /// Puts an error in this thread's slot in libtvm_ffi.
    pub(crate) fn set_raised(&self, error: &ObjectRef) {
        // SAFETY: a function of libtvm_ffi, called as its header says: it takes a
        // reference of its own.
        unsafe { (self.set_raised)(error.as_ptr()) };
    }

    /// A global function of libtvm_ffi.
    pub(crate) fn global(&self, name: &str) -> Option<Function> {
        let name = TVMFFIByteArray { data: name.as_ptr().cast(), size: name.len() };
        let mut function = std::ptr::null_mut();
        // SAFETY: a function of libtvm_ffi, called as its header says; what it writes is
        // null or a function that the caller owns.
        unsafe {
            if (self.get_global)(&name, &mut function) != 0 {
                drop(self.take_raised());
                return None;
            }
            let function = ObjectRef::from_raw(NonNull::new(function)?);
            Some(Function::from_object_unchecked(function))
        }
    }

    /// The index of a type without parents but `ffi.Object`.
    pub(crate) fn type_index_of(&self, key: &str) -> i32 {
        const DYNAMIC: i32 = -1;
        let (depth, child_slots, can_overflow) = (1, 0, 1);
        let key = TVMFFIByteArray { data: key.as_ptr().cast(), size: key.len() };
        // SAFETY: a function of libtvm_ffi, called as its header says.
        unsafe {
            (self.type_index_of)(
                &key,
                DYNAMIC,
                depth,
                child_slots,
                can_overflow,
                type_index::OBJECT,
            )
        }
    }
}

#[cfg(test)]
#[path = "../../tests/common/skip.rs"]
mod skip;

#[cfg(test)]
mod tests {
    use std::ffi::{CString, c_char};
    use std::process::Command;

    use super::*;
    use crate::error::Error;
    use crate::{registry, types};

    /// Where the child process below finds libtvm_ffi.
    const LIBRARY: &str = "REFLEX_TEST_LIBTVM_FFI";

    /// The state is per process, so the test runs in one of its own.
    #[test]
    #[cfg_attr(miri, ignore = "needs a child process")]
    fn an_earlier_libtvm_ffi_is_shared_with() {
        let Some(python) = skip::variable("REFLEX_TVM_PYTHON") else { return };
        let script = "import tvm_ffi.libinfo as i; print(i.find_libtvm_ffi(), end='')";
        let found = Command::new(python).args(["-c", script]).output().unwrap();
        assert!(found.status.success(), "the interpreter cannot import tvm_ffi");
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "host::tests::child", "--ignored", "--nocapture"])
            .env(LIBRARY, String::from_utf8(found.stdout).unwrap())
            .output()
            .unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    }

    #[test]
    #[ignore = "part of another test, which starts it"]
    fn child() {
        type Raise = unsafe extern "C" fn(*const c_char, *const c_char);
        type Find = unsafe extern "C" fn(*const TVMFFIByteArray, *mut i32) -> i32;
        let Ok(path) = std::env::var(LIBRARY) else { return };
        let path = CString::new(path).unwrap();
        // SAFETY: the library is tvm_ffi's own, which the test trusts to initialise itself.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        assert!(!handle.is_null());
        let symbol = |name: &CStr| foreign(name).expect("libtvm_ffi has it");
        let key = "test.host.Type";
        let index = types::index_of(key);
        let mut theirs = 0;
        // SAFETY: the functions of these names have these signatures, by `c_api.h`.
        unsafe {
            let find = std::mem::transmute::<*mut c_void, Find>(symbol(c"TVMFFITypeKeyToIndex"));
            let array = TVMFFIByteArray { data: key.as_ptr().cast(), size: key.len() };
            assert_eq!(find(&array, &mut theirs), 0);
            let raise = symbol(c"TVMFFIErrorSetRaisedFromCStr");
            let raise = std::mem::transmute::<*mut c_void, Raise>(raise);
            raise(c"ValueError".as_ptr(), c"raised over there".as_ptr());
        }
        assert_eq!(index, theirs);
        let error = Error::take_raised().expect("their slot is looked at");
        assert_eq!(error.to_string(), "ValueError: raised over there");
        assert!(Error::take_raised().is_none());
        error.raise();
        let theirs = get().expect("it is there").take_raised().expect("raised in their slot");
        assert_eq!(theirs.type_index(), type_index::ERROR);
        assert!(registry::get("ffi.Array").is_some() && registry::get("no.such").is_none());
    }
}
