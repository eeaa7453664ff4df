//! Arrays: immutable lists of values. Tuples of the graph language are arrays.

use std::ffi::c_void;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::abi::{TVMFFIAny, TVMFFISeqCell, type_index};
use crate::object::{self, ObjectRef, ObjectType};
use crate::value::{Any, impl_object_conversions};

/// A reference to an array.
///
/// ```
/// use reflex_runtime::{array::Array, value::Any};
/// let pair = Array::new([Any::from(1_i64), Any::from(2.5)]);
/// assert_eq!(f64::try_from(&pair[1]).unwrap(), 2.5);
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct Array(ObjectRef);

// SAFETY: transparent; reads the cell that every `ffi.Array` has.
unsafe impl ObjectType for Array {
    const KEY: &'static str = "ffi.Array";
    #[inline]
    fn type_index() -> i32 {
        type_index::ARRAY
    }
}

impl_object_conversions!(Array);

/// The cell of an array made here: items live behind it.
#[repr(transparent)]
struct Items(TVMFFISeqCell);

impl Drop for Items {
    fn drop(&mut self) {
        let cell = &self.0;
        let items = std::ptr::slice_from_raw_parts_mut(cell.data.cast::<Any>(), cell.size as usize);
        // SAFETY: the cell owns its items, and is being dropped.
        unsafe { std::ptr::drop_in_place(items) };
        if let Some(free) = cell.data_deleter {
            // SAFETY: a caller that moved the items elsewhere left this to free them.
            unsafe { free(cell.data.cast::<c_void>()) };
        }
    }
}

impl Array {
    /// An array of `items`.
    pub fn new<I>(items: I) -> Array
    where
        I: IntoIterator<Item = Any, IntoIter: ExactSizeIterator>,
    {
        let items = items.into_iter();
        let capacity = items.len();
        Array(object::create(type_index::ARRAY, size_of::<Any>() * capacity, |tail| {
            Items::collect(tail.cast(), capacity, items)
        }))
    }

    /// Overwrites item `index` with None; returns true if there is such an item.
    ///
    /// # Safety
    /// No borrow of an item of this array is alive, on any thread.
    pub unsafe fn reset_item(&self, index: usize) -> bool {
        // SAFETY: every `ffi.Array` has a `TVMFFISeqCell` after its header.
        let cell = unsafe { &*self.0.cell::<TVMFFISeqCell>() };
        if index >= cell.size as usize {
            return false;
        }
        // SAFETY: in bounds, and the caller vouches that no borrow of an item is alive.
        unsafe { *cell.data.cast::<Any>().add(index) = Any::NONE };
        true
    }
}

impl Items {
    /// Writes at most `capacity` items to `data`, which is large enough for them.
    fn collect(data: NonNull<Any>, capacity: usize, items: impl Iterator<Item = Any>) -> Items {
        let mut size = 0;
        for item in items.take(capacity) {
            // SAFETY: the caller provides memory for `capacity` items, and `size` is below that.
            unsafe { data.add(size).write(item) };
            size += 1;
        }
        Items(TVMFFISeqCell {
            data: data.as_ptr().cast::<TVMFFIAny>(),
            size: size as i64,
            capacity: capacity as i64,
            data_deleter: None,
        })
    }
}

impl Deref for Array {
    type Target = [Any];
    #[inline]
    fn deref(&self) -> &[Any] {
        // SAFETY: every `ffi.Array` has a `TVMFFISeqCell` after its header.
        let cell = unsafe { &*self.0.cell::<TVMFFISeqCell>() };
        if cell.size == 0 {
            return &[];
        }
        // SAFETY: the cell describes items that live as long as the object; only
        // `reset_item` changes one, and its contract excludes borrows.
        unsafe { std::slice::from_raw_parts(cell.data.cast::<Any>(), cell.size as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;

    #[test]
    fn items_are_owned() {
        let shape = Shape::new(&[4]);
        let array = Array::new([Any::from(shape.clone()), Any::from(1_i64), Any::NONE]);
        assert_eq!(array.len(), 3);
        assert_eq!(shape.object().strong_count(), 2);
        // SAFETY: no borrow of an item is alive.
        assert!(unsafe { array.reset_item(0) });
        // SAFETY: no borrow of an item is alive.
        assert!(!unsafe { array.reset_item(3) });
        assert!(shape.object().is_unique() && array[0].is_none());
        let nested = Array::new([Any::from(array), Any::from(shape.clone())]);
        drop(nested);
        assert!(shape.object().is_unique());
        assert!(Array::new([]).is_empty());
    }
}
