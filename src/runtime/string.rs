//! Strings and byte strings.
//!
//! Up to seven bytes live inside the value; longer ones in an object. Both forms
//! are one type to users of this module, as they are in tvm-ffi.

use std::fmt;
use std::ops::Deref;

use crate::abi::{AnyPayload, TVMFFIAny, TVMFFIByteArray, type_index as index};
use crate::error::Error;
use crate::object;
use crate::value::{self, Any, AnyView};

/// Longest content that is stored inside the value.
pub const MAX_SMALL: usize = 7;

/// An owned string.
///
/// ```
/// use reflex_runtime::{string::Str, value::Any};
/// let short = Any::from(Str::new("main"));
/// let long = Any::from(Str::new("a longer one"));
/// assert!(short.object_ref().is_none() && long.object_ref().is_some());
/// assert_eq!(&*Str::try_from(long).unwrap(), "a longer one");
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct Str(Any);

/// An owned byte string.
#[derive(Clone)]
#[repr(transparent)]
pub struct Bytes(Any);

fn make(content: &[u8], small: i32, large: i32) -> Any {
    if content.len() <= MAX_SMALL {
        let mut bytes = [0; 8];
        bytes[..content.len()].copy_from_slice(content);
        let raw = TVMFFIAny {
            type_index: small,
            small_len: content.len() as u32,
            payload: AnyPayload { bytes },
        };
        // SAFETY: the value is a small string with valid length and bytes, which owns no object.
        return unsafe { Any::from_raw(raw) };
    }
    // One more byte, so that C sees a terminated string.
    let object = object::create(large, content.len() + 1, |tail| {
        // SAFETY: the tail is as long as the content and the NUL.
        unsafe {
            tail.as_ptr().copy_from_nonoverlapping(content.as_ptr(), content.len());
            tail.add(content.len()).write(0);
        }
        TVMFFIByteArray { data: tail.as_ptr().cast(), size: content.len() }
    });
    object.into()
}

impl Str {
    /// Copies `text`.
    pub fn new(text: &str) -> Str {
        Str(make(text.as_bytes(), index::SMALL_STR, index::STR))
    }

    /// Copies bytes, replacing what is not UTF-8.
    pub fn from_bytes(bytes: &[u8]) -> Str {
        Str::new(&String::from_utf8_lossy(bytes))
    }
}

impl Deref for Str {
    type Target = str;
    fn deref(&self) -> &str {
        // Construction checks that the content is UTF-8.
        value::str_of(self.0.as_raw()).unwrap_or_default()
    }
}

impl Bytes {
    /// Copies `content`.
    pub fn new(content: &[u8]) -> Bytes {
        Bytes(make(content, index::SMALL_BYTES, index::BYTES))
    }
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        value::bytes_of(self.0.as_raw()).unwrap_or_default()
    }
}

macro_rules! conversions {
    ($type:ident, $read:path, $name:literal) => {
        impl From<$type> for Any {
            fn from(value: $type) -> Any {
                value.0
            }
        }
        impl<'a> From<&'a $type> for AnyView<'a> {
            fn from(value: &'a $type) -> AnyView<'a> {
                value.0.view()
            }
        }
        impl TryFrom<Any> for $type {
            type Error = Error;
            fn try_from(value: Any) -> Result<$type, Error> {
                match $read(value.as_raw()) {
                    Some(_) => Ok($type(value)),
                    None => Err(value.view().mismatch($name)),
                }
            }
        }
        impl TryFrom<AnyView<'_>> for $type {
            type Error = Error;
            fn try_from(view: AnyView<'_>) -> Result<$type, Error> {
                view.to_owned().try_into()
            }
        }
        impl TryFrom<&Any> for $type {
            type Error = Error;
            fn try_from(value: &Any) -> Result<$type, Error> {
                value.clone().try_into()
            }
        }
        impl PartialEq for $type {
            fn eq(&self, other: &$type) -> bool {
                **self == **other
            }
        }
        impl Eq for $type {}
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&**self, f)
            }
        }
    };
}

conversions!(Str, value::str_of, "ffi.String");
conversions!(Bytes, value::bytes_of, "ffi.Bytes");

impl fmt::Display for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}

impl From<&str> for Str {
    fn from(text: &str) -> Str {
        Str::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_hold_their_content() {
        for text in ["", "1234567", "12345678", "π is irrational"] {
            let value = Any::from(Str::new(text));
            assert_eq!(value.as_str(), Some(text));
            assert_eq!(&*Str::try_from(value.view()).unwrap(), text);
            assert_eq!(value.object_ref().is_some(), text.len() > MAX_SMALL);
            assert_eq!(&*Bytes::new(text.as_bytes()), text.as_bytes());
        }
        assert!(Str::try_from(Any::from(Bytes::new(b"bytes"))).is_err());
        let raw = AnyView::from(c"from C, and long");
        assert_eq!(&*Str::try_from(raw).unwrap(), "from C, and long");
    }

    #[test]
    fn long_strings_end_in_nul_for_c() {
        let text = Any::from(Str::new("longer than seven"));
        let object = text.object_ref().unwrap();
        // SAFETY: a string object has a byte array after its header.
        let array = unsafe { &*object.cell::<TVMFFIByteArray>() };
        // SAFETY: `make` puts a NUL after the content.
        assert_eq!(unsafe { *array.data.add(array.size) }, 0);
    }
}
