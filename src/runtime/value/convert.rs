//! Conversions between values and what they hold, and the text of values.

use std::ffi::CStr;
use std::fmt;
use std::marker::PhantomData;

use super::{Any, AnyView};
use crate::abi::{AnyPayload, DLDevice, DLTensor, TVMFFIAny, type_index as index};
use crate::dtype::DType;
use crate::error::Error;
use crate::object::ObjectType;
use crate::string::Str;

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
