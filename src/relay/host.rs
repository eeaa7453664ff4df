//! Values of data types as callers from outside have them.
//!
//! | value | inside | outside |
//! |---|---|---|
//! | tensor, closure | itself | itself |
//! | tuple | an array of 0 and the fields | an array of the fields |
//! | value of a data type | an array of the constructor's tag and the fields | the same |
//!
//! A field is never an integer, so that an array which begins with one is a data value. A number
//! that a caller passes becomes a scalar tensor, int32, float32 or bool, as in TVM's Python.
//!
//! Both directions walk values without recursion, visit what is shared once, and keep what needs no
//! change.

use std::collections::HashMap;

use reflex_runtime::abi::type_index;
use reflex_runtime::array::Array;
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;
use reflex_runtime::function::check_arity;
use reflex_runtime::object::ObjectType;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};

/// The name by which bytecode calls [`from_host`].
pub const FROM_HOST: &str = "relay.from_host";
/// The name by which bytecode calls [`to_host`].
pub const TO_HOST: &str = "relay.to_host";

/// Tag of tuples.
const TUPLE: i64 = 0;

/// `(value)`: an argument in the form that it has inside.
pub fn from_host(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity(FROM_HOST, args, 1)?;
    match args[0].downcast_ref::<Array>() {
        None => leaf(args[0].to_owned()),
        Some(value) => walk(value, &leaf, &|items, changed| match tag(items) {
            Some(_) => changed.map(Array::new),
            None => {
                let fields = changed.unwrap_or_else(|| items.to_vec());
                Some(Array::new([vec![Any::from(TUPLE)], fields].concat()))
            }
        }),
    }
}

/// `(value)`: a result in the form that it has outside.
pub fn to_host(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity(TO_HOST, args, 1)?;
    match args[0].downcast_ref::<Array>() {
        None => Ok(args[0].to_owned()),
        Some(value) => walk(value, &Ok, &|items, changed| match tag(items) {
            Some(TUPLE) => {
                let items = changed.as_deref().unwrap_or(items);
                Some(Array::new(items[1..].to_vec()))
            }
            _ => changed.map(Array::new),
        }),
    }
}

/// The fields of a value as it is inside.
pub(crate) fn fields(value: &Array) -> Result<&[Any], Error> {
    match tag(value) {
        Some(_) => Ok(&value[1..]),
        None => Err(Error::type_error("expected a data value, got a tuple without a tag")),
    }
}

fn tag(items: &[Any]) -> Option<i64> {
    items.first().filter(|first| first.type_index() == type_index::INT)?.view().as_int()
}

/// A field from outside: a number as the tensor that it stands for.
fn leaf(value: Any) -> Result<Any, Error> {
    let view = value.view();
    let tensor = match value.type_index() {
        type_index::INT => {
            let number = view.as_int().unwrap_or_default();
            let number = i32::try_from(number).map_err(|_| {
                Error::value_error(format!("{number} exceeds int32; pass a tensor"))
            })?;
            Tensor::from_slice(&[], &[number])
        }
        type_index::FLOAT => Tensor::from_slice(&[], &[view.as_float().unwrap_or_default() as f32]),
        type_index::BOOL => {
            Tensor::from_bytes(&[], DType::BOOL, &[u8::from(view.as_bool() == Some(true))])
        }
        _ => return Ok(value),
    };
    Ok(tensor?.into())
}

/// An array whose items are being changed.
struct Visit {
    value: Array,
    /// The next item to change.
    next: usize,
    /// The items so far, from the first one on that differs.
    changed: Option<Vec<Any>>,
}

impl Visit {
    fn new(value: Array) -> Visit {
        // The tag stays.
        let next = usize::from(tag(&value).is_some());
        Visit { value, next, changed: None }
    }

    /// Takes the next item's new form.
    fn take(&mut self, item: Any) {
        let same = |old: &Any| match (old.object_ref(), item.object_ref()) {
            (Some(old), Some(new)) => old.as_ptr() == new.as_ptr(),
            _ => false,
        };
        if self.changed.is_none() && !same(&self.value[self.next]) {
            self.changed = Some(self.value[..self.next].to_vec());
        }
        if let Some(changed) = &mut self.changed {
            changed.push(item);
        }
        self.next += 1;
    }
}

/// An array's new form, given its items and, if one of them changed, all new ones; None if it
/// stays.
type Finish<'f> = &'f dyn Fn(&[Any], Option<Vec<Any>>) -> Option<Array>;

/// Changes a value from its leaves up.
fn walk(
    value: &Array,
    leaf: &dyn Fn(Any) -> Result<Any, Error>,
    finish: Finish<'_>,
) -> Result<Any, Error> {
    let mut done: HashMap<usize, Any> = HashMap::new();
    let mut visits = vec![Visit::new(value.clone())];
    loop {
        let Some(visit) = visits.last_mut() else {
            return Err(Error::runtime_error("a value without items to visit"));
        };
        if let Some(item) = visit.value.get(visit.next) {
            match item.downcast_ref::<Array>() {
                None => {
                    let item = leaf(item.clone())?;
                    visit.take(item);
                }
                Some(inner) => match done.get(&address(inner)) {
                    Some(item) => {
                        let item = item.clone();
                        visit.take(item);
                    }
                    None => {
                        let inner = Visit::new(inner.clone());
                        visits.push(inner);
                    }
                },
            }
            continue;
        }
        let Some(Visit { value, changed, .. }) = visits.pop() else { continue };
        let new: Any = finish(&value, changed).unwrap_or_else(|| value.clone()).into();
        match visits.last_mut() {
            None => return Ok(new),
            Some(outer) => {
                done.insert(address(&value), new.clone());
                outer.take(new);
            }
        }
    }
}

/// Identity of an array that something keeps alive.
fn address(value: &Array) -> usize {
    value.object().as_ptr().addr()
}
