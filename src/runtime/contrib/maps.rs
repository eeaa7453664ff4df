//! tvm-ffi's global functions on maps and dicts, for processes without libtvm_ffi.

use crate::error::Error;
use crate::function;
use crate::map::{Dict, Map};
use crate::value::{Any, AnyView};

/// Keys and values in turn, as entries.
fn pairs(args: &[AnyView<'_>]) -> Result<Vec<(Any, Any)>, Error> {
    if !args.len().is_multiple_of(2) {
        return Err(Error::value_error(format!(
            "{} arguments are no keys with values",
            args.len()
        )));
    }
    args.chunks_exact(2)
        .map(|pair| Ok((pair[0].to_owned_copy()?, pair[1].to_owned_copy()?)))
        .collect()
}

/// `(key, value, ...)`: a map.
pub(super) fn map(args: &[AnyView<'_>]) -> Result<Any, Error> {
    Ok(Map::new(pairs(args)?)?.into())
}

/// `(key, value, ...)`: a dict.
pub(super) fn dict(args: &[AnyView<'_>]) -> Result<Any, Error> {
    Ok(Dict::new(pairs(args)?)?.into())
}

/// A map or a dict.
enum Either {
    Map(Map),
    Dict(Dict),
}

impl Either {
    fn of(args: &[AnyView<'_>]) -> Result<Either, Error> {
        match function::arg::<Dict>(args, 0) {
            Ok(dict) => Ok(Either::Dict(dict)),
            Err(_) => Ok(Either::Map(function::arg(args, 0)?)),
        }
    }

    /// The value of the key that is argument 1.
    fn get(&self, args: &[AnyView<'_>]) -> Result<Option<Any>, Error> {
        let key = args.get(1).ok_or_else(|| Error::type_error("argument 1 is missing: 1 given"))?;
        Ok(match self {
            Either::Map(map) => map.get(key),
            Either::Dict(dict) => dict.get(key),
        })
    }
}

/// `(map or dict)`: the number of entries.
pub(super) fn size(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let size = match Either::of(args)? {
        Either::Map(map) => map.len(),
        Either::Dict(dict) => dict.len(),
    };
    Ok(Any::from(i64::try_from(size).unwrap_or(i64::MAX)))
}

/// `(map or dict, key)`: 1 if the key is there, else 0.
pub(super) fn count(args: &[AnyView<'_>]) -> Result<Any, Error> {
    Ok(Any::from(i64::from(Either::of(args)?.get(args)?.is_some())))
}

/// `(map or dict, key)`: the value of the key.
pub(super) fn get_item(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let missing = || Error::new("KeyError", "key is not in the map".to_owned());
    Either::of(args)?.get(args)?.ok_or_else(missing)
}
