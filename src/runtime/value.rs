//! The tagged value: owned [`Any`] and borrowed [`AnyView`].
//!
//! An `Any` owns a reference when it holds an object, and nothing otherwise. An
//! `AnyView` is what arguments are passed as: the same 16 bytes, borrowing. Views
//! may also hold borrowed strings and bytes (`RawStr`, `ByteArrayPtr`), which
//! become owned ones when a view is made into an `Any`.
//!
//! Conversions follow tvm-ffi: integers accept booleans, floats accept integers and
//! booleans, everything else is exact; a mismatch is a `TypeError`.
//!
//! Decision: docs/decisions/0001-tvm-ffi-values.md

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::abi::{
    DLDevice, DLTensor, TVMFFIAny, TVMFFIByteArray, TVMFFIObject, type_index as index,
};

use crate::dtype::DType;
use crate::error::Error;
use crate::object::{self, ObjectRef, ObjectType};
use crate::string::{Bytes, Str};
use crate::types;

mod convert;

pub(crate) use convert::impl_object_conversions;

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
// SAFETY: as for Send: shared use only reads plain data or a Sync object.
unsafe impl Sync for Any {}

/// A borrowed value, valid for `'a`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct AnyView<'a>(TVMFFIAny, PhantomData<&'a ()>);

// SAFETY: as for Any; borrowed strings are shared references.
unsafe impl Send for AnyView<'_> {}
// SAFETY: as for Send: shared use only reads plain data, shared references or a Sync object.
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

    /// The type index of the value.
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
            // SAFETY: an owned value of an object kind owns a strong reference, which is released here.
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

    /// The type index of the value.
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
            // SAFETY: values of these type indices have an integer payload.
            index::INT | index::BOOL => Some(unsafe { self.0.payload.int }),
            _ => None,
        }
    }

    /// A float, integer or boolean.
    #[inline]
    pub fn as_float(&self) -> Option<f64> {
        match self.0.type_index {
            // SAFETY: values of this type index have a float payload.
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
            // SAFETY: values of this type index have an element type as payload.
            index::DATA_TYPE => Some(unsafe { self.0.payload.dtype }),
            _ => self.as_str()?.parse().ok(),
        }
    }

    /// A device.
    pub fn as_device(&self) -> Option<DLDevice> {
        match self.0.type_index {
            // SAFETY: values of this type index have a device as payload.
            index::DEVICE => Some(unsafe { self.0.payload.device }),
            _ => None,
        }
    }

    /// An untyped pointer; None stands for null.
    pub fn as_opaque(&self) -> Option<*mut c_void> {
        match self.0.type_index {
            // SAFETY: values of this type index have a pointer payload.
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

    /// Whether the same bits are an owned value, once an object in it is counted.
    #[inline]
    pub fn is_owned_kind(&self) -> bool {
        !matches!(
            self.0.type_index,
            index::RAW_STR | index::BYTE_ARRAY_PTR | index::OBJECT_RVALUE_REF
        )
    }

    /// An owned value of the same meaning; borrowed strings and bytes are copied.
    #[inline]
    pub fn to_owned(&self) -> Any {
        if !self.is_owned_kind() {
            return self.own_special();
        }
        let owned = ManuallyDrop::new(Any(self.0));
        // The clone counts the reference; the bits in `owned` never do.
        Any::clone(&owned)
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
        let taken =
            unsafe { self.0.payload.ptr.cast::<*mut TVMFFIObject>().replace(std::ptr::null_mut()) };
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
    // SAFETY: the caller passes a live byte array whose bytes outlive `'a`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;

    #[test]
    fn plain_values_convert_as_tvm_ffi_does() {
        let (int, flag, float) = (Any::from(-3_i64), Any::from(true), Any::from(2.5));
        assert_eq!(f64::try_from(&int).unwrap(), -3.0);
        assert_eq!(i64::try_from(&flag).unwrap(), 1);
        assert!(bool::try_from(&int).unwrap());
        let error = i64::try_from(&float).unwrap_err();
        assert_eq!(error.to_string(), "TypeError: expected `int`, got `float`");
        assert!(i64::try_from(Any::NONE).is_err());
        assert_eq!(DType::try_from(Any::from("int8")).unwrap(), DType::I8);
        assert_eq!(DType::try_from(Any::from(DType::BF16)).unwrap(), DType::BF16);
        assert_eq!(DLDevice::try_from(Any::from(DLDevice::CPU)).unwrap(), DLDevice::CPU);
        assert!(Any::from(None::<Shape>).is_none());
        assert_eq!(format!("{:?}", [int, flag, float, Any::NONE]), "[-3, true, 2.5, None]");
    }

    #[test]
    fn every_copy_of_an_object_is_counted() {
        let shape = Shape::new(&[3]);
        let count = || shape.object().strong_count();
        let value = Any::from(shape.clone());
        let copy = value.clone();
        let viewed = value.view().to_owned();
        assert_eq!(count(), 4);
        let mut slot = viewed;
        let taken = slot.take();
        assert!(slot.is_none() && count() == 4);
        let raw = taken.into_raw();
        assert_eq!(count(), 4);
        // SAFETY: `into_raw` returned this owned value, and the test uses it once.
        drop(unsafe { Any::from_raw(raw) });
        drop((value, copy, slot));
        assert_eq!(count(), 1);
    }

    #[test]
    fn borrowed_forms_become_owned_ones() {
        let text = AnyView::from(c"borrowed from C").to_owned();
        assert_eq!(text.type_index(), index::STR);
        let content = b"bytes\0 and more";
        let array = TVMFFIByteArray { data: content.as_ptr().cast(), size: content.len() };
        let pointer = std::ptr::from_ref(&array).cast_mut().cast();
        // SAFETY: the array and its bytes outlive the view.
        let view = unsafe { AnyView::from_raw(TVMFFIAny::pointer(index::BYTE_ARRAY_PTR, pointer)) };
        assert_eq!(view.as_bytes(), Some(&content[..]));
        assert_eq!(&*Bytes::try_from(view.to_owned()).unwrap(), content);
    }

    #[test]
    fn rvalue_references_are_moved_out_of() {
        let shape = Shape::new(&[3]);
        let mut slot = shape.clone().into_object().into_raw().as_ptr();
        let raw = TVMFFIAny::pointer(index::OBJECT_RVALUE_REF, (&raw mut slot).cast());
        // SAFETY: the slot holds a reference of its own, for the callee to take.
        let moved = unsafe { AnyView::from_raw(raw) }.to_owned();
        assert!(slot.is_null());
        assert_eq!(shape.object().strong_count(), 2);
        assert!(moved.downcast_ref::<Shape>().unwrap().object().same(shape.object()));
        // SAFETY: as above, but there is nothing left to take.
        assert!(unsafe { AnyView::from_raw(raw) }.to_owned().is_none());
    }

    #[test]
    fn owned_values_are_arguments_as_they_are() {
        let values = [Any::from(1_i64), Any::from(Shape::new(&[5]))];
        let args = AnyView::slice(&values);
        assert_eq!(args[0].as_int(), Some(1));
        assert_eq!(&**args[1].downcast_ref::<Shape>().unwrap(), [5]);
        // SAFETY: there are no arguments, so the null pointer is not read.
        assert!(unsafe { AnyView::slice_from_raw(std::ptr::null(), 0) }.is_empty());
    }
}
