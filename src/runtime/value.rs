//! The tagged value: owned [`Any`] and borrowed [`AnyView`].
//!
//! An `Any` owns a reference when it holds an object, and nothing otherwise. An
//! `AnyView` is what arguments are passed as: the same 16 bytes, borrowing. Views
//! may also hold borrowed strings and bytes (`RawStr`, `ByteArrayPtr`), which
//! become owned ones when a view is made into an `Any`.
//!
//! Conversions follow tvm-ffi: integers accept booleans, floats accept integers and
//! booleans, everything else is exact; a mismatch is a `TypeError`.

use std::ffi::{CStr, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::abi::{AnyPayload, DLDevice, DLTensor, TVMFFIAny, TVMFFIByteArray, type_index as index};
use crate::dtype::DType;
use crate::error::Error;
use crate::object::{self, ObjectRef, ObjectType};
use crate::string::{Bytes, Str};
use crate::types;

/// An owned value.
///
/// ```
/// use reflex_runtime::{string::Str, value::Any};
/// let value = Any::from(3_i64);
/// assert_eq!(i64::try_from(&value).unwrap(), 3);
/// assert_eq!(f64::try_from(&value).unwrap(), 3.0);
/// let error = Str::try_from(value).unwrap_err();
/// assert_eq!(error.to_string(), "TypeError: expected `ffi.String`, got `int`");
/// ```
#[repr(transparent)]
pub struct Any(TVMFFIAny);

// SAFETY: plain data, or a pointer whose use is unsafe, or an object, which is Send.
unsafe impl Send for Any {}
// SAFETY: as for Send.
unsafe impl Sync for Any {}

/// A borrowed value, valid for `'a`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct AnyView<'a>(TVMFFIAny, PhantomData<&'a ()>);

// SAFETY: as for Any; borrowed strings are shared references.
unsafe impl Send for AnyView<'_> {}
// SAFETY: as for Send.
unsafe impl Sync for AnyView<'_> {}

impl Any {
    /// No value.
    pub const NONE: Any = Any(TVMFFIAny::NONE);

    /// Takes over a value.
    ///
    /// # Safety
    /// `raw` is a valid owned value (never a view-only kind, and an object meets the
    /// contract of [`ObjectRef::from_raw`]), whose ownership moves here.
    #[inline]
    pub const unsafe fn from_raw(raw: TVMFFIAny) -> Any {
        Any(raw)
    }

    /// Hands the value to the caller, who must release it.
    #[inline]
    pub fn into_raw(self) -> TVMFFIAny {
        ManuallyDrop::new(self).0
    }

    /// The value, still owned by `self`.
    #[inline]
    pub fn as_raw(&self) -> &TVMFFIAny {
        &self.0
    }

    /// An untyped pointer.
    #[inline]
    pub fn opaque(pointer: *mut c_void) -> Any {
        Any(TVMFFIAny::pointer(index::OPAQUE_PTR, pointer))
    }

    /// Borrows the value.
    #[inline]
    pub fn view(&self) -> AnyView<'_> {
        AnyView(self.0, PhantomData)
    }

    /// Takes the value and leaves None.
    #[inline]
    pub fn take(&mut self) -> Any {
        std::mem::replace(self, Any::NONE)
    }

    /// What the value is.
    #[inline]
    pub fn type_index(&self) -> i32 {
        self.0.type_index
    }

    /// Whether there is no value.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.0.type_index == index::NONE
    }

    /// A string of any representation. None if it is not UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        str_of(&self.0)
    }

    /// The object in the value as type `T`, if it is one.
    #[inline]
    pub fn downcast_ref<T: ObjectType>(&self) -> Option<&T> {
        downcast_ref(&self.0)
    }

    /// The object in the value, whatever its type.
    #[inline]
    pub fn object_ref(&self) -> Option<&ObjectRef> {
        object_ref(&self.0)
    }
}

impl Default for Any {
    #[inline]
    fn default() -> Any {
        Any::NONE
    }
}

impl Clone for Any {
    #[inline]
    fn clone(&self) -> Any {
        if self.0.type_index >= index::STATIC_OBJECT_BEGIN {
            // SAFETY: an owned value of an object kind holds a strong reference.
            unsafe { object::increment(self.0.payload.obj) };
        }
        Any(self.0)
    }
}

impl Drop for Any {
    #[inline]
    fn drop(&mut self) {
        if self.0.type_index >= index::STATIC_OBJECT_BEGIN {
            // SAFETY: an owned value of an object kind gives up its strong reference.
            unsafe { object::decrement(self.0.payload.obj) };
        }
    }
}

impl<'a> AnyView<'a> {
    /// No value.
    pub const NONE: AnyView<'static> = AnyView(TVMFFIAny::NONE, PhantomData);

    /// Wraps raw bits.
    ///
    /// # Safety
    /// `raw` is a valid value, and what it points to stays valid for `'a`.
    #[inline]
    pub const unsafe fn from_raw(raw: TVMFFIAny) -> AnyView<'a> {
        AnyView(raw, PhantomData)
    }

    /// The arguments of a packed call.
    ///
    /// # Safety
    /// `args` points to `count` valid values that stay valid for `'a`; it may be
    /// null when `count` is not positive.
    #[inline]
    pub unsafe fn slice_from_raw(args: *const TVMFFIAny, count: i32) -> &'a [AnyView<'a>] {
        if count <= 0 {
            return &[];
        }
        // SAFETY: views are transparent wrappers; the rest is the caller's contract.
        unsafe { std::slice::from_raw_parts(args.cast(), count as usize) }
    }

    /// Owned values as arguments, without copying them.
    #[inline]
    pub fn slice(values: &'a [Any]) -> &'a [AnyView<'a>] {
        // SAFETY: both types are transparent wrappers of the same bits, and every
        // owned value is a valid view.
        unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
    }

    /// The raw bits.
    #[inline]
    pub fn as_raw(&self) -> &TVMFFIAny {
        &self.0
    }

    /// What the value is.
    #[inline]
    pub fn type_index(&self) -> i32 {
        self.0.type_index
    }

    /// The name of what the value is, for messages.
    pub fn type_key(&self) -> String {
        types::key_of(self.0.type_index)
    }

    /// Whether there is no value.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.0.type_index == index::NONE
    }

    /// An integer or boolean.
    #[inline]
    pub fn as_int(&self) -> Option<i64> {
        match self.0.type_index {
            // SAFETY: these kinds store an integer.
            index::INT | index::BOOL => Some(unsafe { self.0.payload.int }),
            _ => None,
        }
    }

    /// A float, integer or boolean.
    #[inline]
    pub fn as_float(&self) -> Option<f64> {
        match self.0.type_index {
            // SAFETY: this kind stores a float.
            index::FLOAT => Some(unsafe { self.0.payload.float }),
            _ => self.as_int().map(|int| int as f64),
        }
    }

    /// A boolean or integer, which is true unless zero.
    #[inline]
    pub fn as_bool(&self) -> Option<bool> {
        self.as_int().map(|int| int != 0)
    }

    /// A string of any representation. None if it is not UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        str_of(&self.0)
    }

    /// Bytes of any representation.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        bytes_of(&self.0)
    }

    /// An element type, or text that names one.
    pub fn as_dtype(&self) -> Option<DType> {
        match self.0.type_index {
            // SAFETY: this kind stores an element type.
            index::DATA_TYPE => Some(unsafe { self.0.payload.dtype }),
            _ => self.as_str()?.parse().ok(),
        }
    }

    /// A device.
    pub fn as_device(&self) -> Option<DLDevice> {
        match self.0.type_index {
            // SAFETY: this kind stores a device.
            index::DEVICE => Some(unsafe { self.0.payload.device }),
            _ => None,
        }
    }

    /// An untyped pointer; None stands for null.
    pub fn as_opaque(&self) -> Option<*mut c_void> {
        match self.0.type_index {
            // SAFETY: this kind stores a pointer.
            index::OPAQUE_PTR => Some(unsafe { self.0.payload.ptr }),
            index::NONE => Some(std::ptr::null_mut()),
            _ => None,
        }
    }

    /// The `DLTensor` of a tensor object or of a borrowed `DLTensor*`.
    #[inline]
    pub fn as_dltensor(&self) -> Option<&DLTensor> {
        match self.0.type_index {
            // SAFETY: tensor objects have a DLTensor after their header.
            index::TENSOR => Some(unsafe { &*self.0.payload.obj.add(1).cast() }),
            // SAFETY: the pointer is null or to a live DLTensor by the view's contract.
            index::DL_TENSOR_PTR => unsafe { self.0.payload.ptr.cast::<DLTensor>().as_ref() },
            _ => None,
        }
    }

    /// The object in the value as type `T`, if it is one.
    #[inline]
    pub fn downcast_ref<T: ObjectType>(&self) -> Option<&T> {
        downcast_ref(&self.0)
    }

    /// The object in the value, whatever its type.
    #[inline]
    pub fn object_ref(&self) -> Option<&ObjectRef> {
        object_ref(&self.0)
    }

    /// The error for a value that is not what was expected.
    #[cold]
    pub fn mismatch(&self, expected: &str) -> Error {
        Error::type_error(format!("expected `{expected}`, got `{}`", self.type_key()))
    }

    /// An owned value of the same meaning; borrowed strings and bytes are copied.
    #[inline]
    pub fn to_owned(&self) -> Any {
        match self.0.type_index {
            index::RAW_STR | index::BYTE_ARRAY_PTR | index::OBJECT_RVALUE_REF => self.own_special(),
            _ => {
                let owned = ManuallyDrop::new(Any(self.0));
                // The clone counts the reference; the bits in `owned` never do.
                Any::clone(&owned)
            }
        }
    }

    #[cold]
    fn own_special(&self) -> Any {
        match self.0.type_index {
            // SAFETY: a raw string is NUL-terminated and outlives the view.
            index::RAW_STR => unsafe {
                Str::from_bytes(CStr::from_ptr(self.0.payload.ptr.cast()).to_bytes()).into()
            },
            index::BYTE_ARRAY_PTR => Bytes::new(self.as_bytes().unwrap_or_default()).into(),
            _ => self.take_rvalue(),
        }
    }

    /// Moves the object out of an rvalue reference, as tvm-ffi's callees do.
    fn take_rvalue(&self) -> Any {
        // SAFETY: the payload points to the caller's object pointer, which the callee
        // may take by leaving null.
        let taken = unsafe {
            self.0.payload.ptr.cast::<*mut crate::abi::TVMFFIObject>().replace(std::ptr::null_mut())
        };
        match NonNull::new(taken) {
            // SAFETY: the reference that the caller held is now ours.
            Some(object) => Any::from(unsafe { ObjectRef::from_raw(object) }),
            None => Any::NONE,
        }
    }
}

/// The content of a string of any representation, if it is UTF-8.
pub(crate) fn str_of(raw: &TVMFFIAny) -> Option<&str> {
    let bytes = match raw.type_index {
        index::SMALL_STR => small_bytes(raw)?,
        // SAFETY: a raw string is NUL-terminated and outlives the value.
        index::RAW_STR => unsafe { CStr::from_ptr(raw.payload.ptr.cast()) }.to_bytes(),
        index::STR => large_bytes(raw),
        _ => return None,
    };
    std::str::from_utf8(bytes).ok()
}

/// The content of a byte string of any representation.
pub(crate) fn bytes_of(raw: &TVMFFIAny) -> Option<&[u8]> {
    match raw.type_index {
        index::SMALL_BYTES => small_bytes(raw),
        // SAFETY: the pointer is to a live byte array by the view's contract.
        index::BYTE_ARRAY_PTR => Some(unsafe { slice_of(raw.payload.ptr.cast()) }),
        index::BYTES => Some(large_bytes(raw)),
        _ => None,
    }
}

fn small_bytes(raw: &TVMFFIAny) -> Option<&[u8]> {
    // SAFETY: small strings store bytes; a length over the maximum is refused.
    unsafe { &raw.payload.bytes }.get(..raw.small_len as usize)
}

/// Call only for string and bytes objects.
fn large_bytes(raw: &TVMFFIAny) -> &[u8] {
    // SAFETY: both kinds of object have a byte array after their header.
    unsafe { slice_of(raw.payload.obj.add(1).cast()) }
}

/// # Safety
/// `array` points to a live byte array whose bytes outlive `'a`.
pub(crate) unsafe fn slice_of<'a>(array: *const TVMFFIByteArray) -> &'a [u8] {
    // SAFETY: by the caller's contract.
    unsafe {
        let TVMFFIByteArray { data, size } = *array;
        if size == 0 { &[] } else { std::slice::from_raw_parts(data.cast(), size) }
    }
}

#[inline]
fn object_ref(raw: &TVMFFIAny) -> Option<&ObjectRef> {
    if raw.type_index < index::STATIC_OBJECT_BEGIN {
        return None;
    }
    // SAFETY: object kinds store a live, non-null object pointer, which is what an
    // `ObjectRef` is; the borrow of `raw` keeps it from being dropped.
    Some(unsafe { &*(&raw const raw.payload.obj).cast::<ObjectRef>() })
}

#[inline]
fn downcast_ref<T: ObjectType>(raw: &TVMFFIAny) -> Option<&T> {
    if raw.type_index != T::type_index() {
        return None;
    }
    // SAFETY: the value's type index is its object's; `T` wraps an `ObjectRef`.
    Some(unsafe { &*(&raw const raw.payload.obj).cast::<T>() })
}

fn payload_of<T>(type_index: i32, write: impl FnOnce(&mut AnyPayload, T), value: T) -> TVMFFIAny {
    let mut raw = TVMFFIAny::int_like(type_index, 0);
    write(&mut raw.payload, value);
    raw
}

fn raw_int(value: i64) -> TVMFFIAny {
    TVMFFIAny::int_like(index::INT, value)
}

fn raw_bool(value: bool) -> TVMFFIAny {
    TVMFFIAny::int_like(index::BOOL, i64::from(value))
}

fn raw_float(value: f64) -> TVMFFIAny {
    TVMFFIAny { type_index: index::FLOAT, small_len: 0, payload: AnyPayload { float: value } }
}

fn raw_dtype(value: DType) -> TVMFFIAny {
    payload_of(index::DATA_TYPE, |payload, dtype| payload.dtype = dtype, value)
}

fn raw_device(value: DLDevice) -> TVMFFIAny {
    payload_of(index::DEVICE, |payload, device| payload.device = device, value)
}

macro_rules! plain {
    ($($type:ty => $make:ident via $read:ident, $name:literal;)*) => { $(
        impl From<$type> for Any {
            #[inline]
            fn from(value: $type) -> Any {
                Any($make(value.into()))
            }
        }
        impl From<$type> for AnyView<'static> {
            #[inline]
            fn from(value: $type) -> AnyView<'static> {
                AnyView($make(value.into()), PhantomData)
            }
        }
        impl TryFrom<AnyView<'_>> for $type {
            type Error = Error;
            #[inline]
            fn try_from(view: AnyView<'_>) -> Result<$type, Error> {
                view.$read().ok_or_else(|| view.mismatch($name))
            }
        }
        impl TryFrom<&Any> for $type {
            type Error = Error;
            #[inline]
            fn try_from(value: &Any) -> Result<$type, Error> {
                value.view().try_into()
            }
        }
        impl TryFrom<Any> for $type {
            type Error = Error;
            #[inline]
            fn try_from(value: Any) -> Result<$type, Error> {
                value.view().try_into()
            }
        }
    )* };
}

plain! {
    i64 => raw_int via as_int, "int";
    bool => raw_bool via as_bool, "bool";
    f64 => raw_float via as_float, "float";
    DType => raw_dtype via as_dtype, "DataType";
    DLDevice => raw_device via as_device, "Device";
}

macro_rules! widened {
    ($($type:ty => $make:ident;)*) => { $(
        impl From<$type> for Any {
            #[inline]
            fn from(value: $type) -> Any {
                Any($make(value.into()))
            }
        }
        impl From<$type> for AnyView<'static> {
            #[inline]
            fn from(value: $type) -> AnyView<'static> {
                AnyView($make(value.into()), PhantomData)
            }
        }
    )* };
}

widened! {
    i32 => raw_int;
    u32 => raw_int;
    f32 => raw_float;
}

impl From<()> for Any {
    #[inline]
    fn from((): ()) -> Any {
        Any::NONE
    }
}

impl From<&str> for Any {
    fn from(text: &str) -> Any {
        Str::new(text).into()
    }
}

impl<T: ObjectType> From<T> for Any {
    #[inline]
    fn from(object: T) -> Any {
        let object = object.into_object();
        let type_index = object.type_index();
        Any(TVMFFIAny::pointer(type_index, object.into_raw().as_ptr().cast()))
    }
}

impl<T: ObjectType> From<Option<T>> for Any {
    #[inline]
    fn from(object: Option<T>) -> Any {
        object.map_or(Any::NONE, Any::from)
    }
}

impl<'a, T: ObjectType> From<&'a T> for AnyView<'a> {
    #[inline]
    fn from(object: &'a T) -> AnyView<'a> {
        let object = object.object();
        AnyView(TVMFFIAny::pointer(object.type_index(), object.as_ptr().cast()), PhantomData)
    }
}

impl<'a> From<&'a Any> for AnyView<'a> {
    #[inline]
    fn from(value: &'a Any) -> AnyView<'a> {
        value.view()
    }
}

impl<'a> From<&'a CStr> for AnyView<'a> {
    #[inline]
    fn from(text: &'a CStr) -> AnyView<'a> {
        AnyView(TVMFFIAny::pointer(index::RAW_STR, text.as_ptr().cast_mut().cast()), PhantomData)
    }
}

impl<'a> From<&'a DLTensor> for AnyView<'a> {
    #[inline]
    fn from(tensor: &'a DLTensor) -> AnyView<'a> {
        let pointer = std::ptr::from_ref(tensor).cast_mut().cast();
        AnyView(TVMFFIAny::pointer(index::DL_TENSOR_PTR, pointer), PhantomData)
    }
}

/// Implements the conversions from values to a typed reference.
macro_rules! impl_object_conversions {
    ($type:ty) => {
        impl TryFrom<$crate::value::AnyView<'_>> for $type {
            type Error = $crate::error::Error;
            #[inline]
            fn try_from(view: $crate::value::AnyView<'_>) -> Result<$type, Self::Error> {
                match view.downcast_ref::<$type>() {
                    Some(object) => Ok(object.clone()),
                    None => Err(view.mismatch(<$type as $crate::object::ObjectType>::KEY)),
                }
            }
        }
        impl TryFrom<&$crate::value::Any> for $type {
            type Error = $crate::error::Error;
            #[inline]
            fn try_from(value: &$crate::value::Any) -> Result<$type, Self::Error> {
                value.view().try_into()
            }
        }
        impl TryFrom<$crate::value::Any> for $type {
            type Error = $crate::error::Error;
            #[inline]
            fn try_from(value: $crate::value::Any) -> Result<$type, Self::Error> {
                if value.downcast_ref::<$type>().is_none() {
                    return Err(value.view().mismatch(<$type as $crate::object::ObjectType>::KEY));
                }
                let raw = value.into_raw();
                // SAFETY: the value is an object of this type, and its reference moves.
                Ok(unsafe {
                    let object = std::ptr::NonNull::new_unchecked(raw.payload.obj);
                    <$type as $crate::object::ObjectType>::from_object_unchecked(
                        $crate::object::ObjectRef::from_raw(object),
                    )
                })
            }
        }
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&$crate::value::AnyView::from(self), f)
            }
        }
    };
}
pub(crate) use impl_object_conversions;

impl fmt::Debug for AnyView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.type_index {
            index::NONE => f.write_str("None"),
            index::INT => write!(f, "{}", self.as_int().unwrap_or_default()),
            index::BOOL => write!(f, "{}", self.as_bool().unwrap_or_default()),
            index::FLOAT => write!(f, "{:?}", self.as_float().unwrap_or_default()),
            index::DATA_TYPE => write!(f, "{}", self.as_dtype().unwrap_or(DType::VOID)),
            index::DEVICE => write!(f, "{:?}", self.as_device().unwrap_or_default()),
            index::STR | index::SMALL_STR | index::RAW_STR => match self.as_str() {
                Some(text) => write!(f, "{text:?}"),
                None => f.write_str("string that is not UTF-8"),
            },
            index::SHAPE => match self.downcast_ref::<crate::shape::Shape>() {
                Some(shape) => write!(f, "Shape{:?}", &**shape),
                None => f.write_str("Shape"),
            },
            _ => match self.object_ref() {
                Some(object) => write!(f, "{object:?}"),
                None => f.write_str(&self.type_key()),
            },
        }
    }
}

impl fmt::Debug for Any {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}
