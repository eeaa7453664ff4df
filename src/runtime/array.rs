//! Arrays: immutable lists of values. Tuples of the graph language are arrays.

use std::ffi::{c_int, c_void};
use std::ops::Deref;
use std::ptr::{self, NonNull};

use crate::abi::{DELETE_STRONG, DELETE_WEAK, Deleter, TVMFFIAny, TVMFFISeqCell, type_index};
use crate::alloc::pool;
use crate::object::{self, Body, ObjectRef, ObjectType, Release};
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

/// The cell of an array made here: items live behind it. [`delete`] drops them.
#[repr(transparent)]
struct Items(TVMFFISeqCell);

/// Marks arrays made here.
static DELETER: Deleter = delete;

/// The deleter of arrays of this crate, whose items lie at [`ARRAY_ITEMS`](crate::abi::ARRAY_ITEMS).
/// Machine code gives it to those that it makes.
pub fn deleter() -> Deleter {
    DELETER
}

const _: () = assert!(crate::abi::ARRAY_ITEMS == size_of::<Body<Items>>());

/// The deleter of arrays made here. Items are released in order and depth first, as recursion would
/// release them, but arrays in arrays, and those in closures, by a loop: lists may be long.
///
/// # Safety
/// As for every deleter: `this` is an array made here, and `flags` tells which kinds of
/// references are all released.
unsafe extern "C" fn delete(this: *mut c_void, flags: c_int) {
    let array = this.cast::<Body<Items>>();
    // SAFETY: without strong references the items are ours to release, and without weak ones the
    // memory, which came from the pool.
    unsafe {
        match (flags & DELETE_STRONG != 0, flags & DELETE_WEAK != 0) {
            (true, true) => release_nested(array),
            (true, false) => release_items(array),
            (false, true) => free(array),
            (false, false) => {}
        }
    }
}

/// Releases the items of an array whose memory stays, by recursion.
///
/// # Safety
/// Nothing else uses the items.
unsafe fn release_items(array: *mut Body<Items>) {
    // SAFETY: the cell describes items that it owns.
    unsafe {
        let cell = &raw mut (*array).cell.0;
        let items =
            ptr::slice_from_raw_parts_mut((*cell).data.cast::<Any>(), (*cell).size as usize);
        (*cell).size = 0;
        ptr::drop_in_place(items);
        if let Some(free) = (*cell).data_deleter {
            // A caller that moved the items elsewhere left this to free them.
            free((*cell).data.cast::<c_void>());
        }
    }
}

/// Releases an array and its items, and arrays whose last reference is an item. Each links to the one
/// around it by its `capacity`, and counts down its items. The memory of one goes before its last item,
/// so that a long list is walked once.
///
/// # Safety
/// No reference to the array is left.
unsafe fn release_nested(array: *mut Body<Items>) {
    // SAFETY: every array of the chain has no reference left, so nothing else uses its cell, and its
    // memory is freed behind the last use of it.
    unsafe {
        let mut here = start(array, ptr::null_mut());
        while !here.is_null() {
            let cell = &raw mut (*here).cell.0;
            let item = match (*cell).size {
                0 => Any::NONE,
                _ => (*cell).data.cast::<Any>().read(),
            };
            (*cell).data = (*cell).data.wrapping_add(1);
            (*cell).size -= 1;
            if (*cell).size <= 0 {
                let around = ptr::with_exposed_provenance_mut((*cell).capacity as usize);
                free(here);
                here = around;
            }
            if let Some(nested) = release(item) {
                here = start(nested, here);
            }
        }
    }
}

/// Begins to release an array inside `around`.
///
/// # Safety
/// No reference to the array is left.
unsafe fn start(array: *mut Body<Items>, around: *mut Body<Items>) -> *mut Body<Items> {
    // SAFETY: nothing else uses the cell.
    unsafe {
        let cell = &raw mut (*array).cell.0;
        if (*cell).data_deleter.is_some() {
            // Items that were moved elsewhere: C++ code grew the array.
            release_items(array);
        }
        (*cell).capacity = around.expose_provenance() as i64;
    }
    array
}

/// Releases an item. If that was the last reference to an array made here, the caller goes on with it.
fn release(item: Any) -> Option<*mut Body<Items>> {
    let raw = item.into_raw();
    if raw.type_index < type_index::STATIC_OBJECT_BEGIN {
        return None;
    }
    // SAFETY: a value of such a type owns a reference to an object, which is not null.
    let mut object = unsafe { ObjectRef::from_raw(NonNull::new_unchecked(raw.payload.obj)) };
    loop {
        if object::has_mark(&object, DELETER) {
            let array = object.into_raw().as_ptr();
            // SAFETY: `object` was a strong reference.
            let last = unsafe { object::release_to_owner(array) };
            return last.then_some(array.cast());
        }
        match object::release_rust(object) {
            Release::Link(next) => object = next,
            Release::Done => return None,
            Release::Other(object) => {
                drop(object);
                return None;
            }
        }
    }
}

/// # Safety
/// No reference to the array is left, and its items are released.
unsafe fn free(array: *mut Body<Items>) {
    // SAFETY: the caller vouches for that; the memory came from the pool.
    unsafe { pool::free(NonNull::new_unchecked(array.cast())) };
}

impl Array {
    /// An array of `items`.
    pub fn new<I>(items: I) -> Array
    where
        I: IntoIterator<Item = Any, IntoIter: ExactSizeIterator>,
    {
        let items = items.into_iter();
        let capacity = items.len();
        let fill = |tail: NonNull<u8>| Items::collect(tail.cast(), capacity, items);
        let tail = size_of::<Any>() * capacity;
        // SAFETY: the deleter is that of the cell.
        Array(unsafe { object::create_marked(type_index::ARRAY, DELETER, tail, fill) })
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

    /// A value that holds an array, as a closure does.
    struct Holder(Array);

    impl object::RustObject for Holder {
        const KEY: &'static str = "test.Holder";
        fn into_link(self) -> Option<ObjectRef> {
            Some(self.0.into_object())
        }
    }

    fn held(array: Array) -> Any {
        object::wrap(Holder(array)).into()
    }

    /// A list of `length` links, each `wrap`ped, which ends in `last`.
    fn list(length: usize, last: Any, wrap: impl Fn(Array) -> Any) -> Any {
        (0..length).fold(last, |rest, at| wrap(Array::new([Any::from(at as i64), rest])))
    }

    const LONG: usize = if cfg!(miri) { 2_000 } else { 1_000_000 };

    #[test]
    fn long_lists_are_released_without_recursion() {
        // The stack of a thread of tests would hold some thousand levels.
        let counted = Shape::new(&[4]);
        let last = || Any::from(counted.clone());
        drop(list(LONG, last(), Any::from));
        drop(list(LONG / 10, last(), held));
        drop(list(LONG / 10, last(), |array| {
            Array::new([Any::from(array), Any::from(7_i64)]).into()
        }));
        assert!(counted.object().is_unique());
    }

    #[test]
    fn shared_parts_of_lists_stay() {
        let counted = Shape::new(&[4]);
        let shared = list(3, Any::from(counted.clone()), Any::from);
        let (first, second) = (list(9, shared.clone(), held), list(9, shared.clone(), Any::from));
        drop(first);
        drop(shared);
        assert_eq!(counted.object().strong_count(), 2);
        drop(second);
        assert!(counted.object().is_unique());
    }

    /// Says when it is dropped.
    struct Witness(u8, std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

    impl object::RustObject for Witness {
        const KEY: &'static str = "test.Witness";
    }

    impl Drop for Witness {
        fn drop(&mut self) {
            self.1.lock().unwrap().push(self.0);
        }
    }

    #[test]
    fn items_are_released_in_order_and_depth_first() {
        let seen = std::sync::Arc::default();
        let witness = |at| Any::from(object::wrap(Witness(at, std::sync::Arc::clone(&seen))));
        let inner =
            Array::new([witness(1), held(Array::new([witness(2), witness(3)])), witness(4)]);
        drop(Array::new([witness(0), inner.into(), witness(5)]));
        assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_weak_reference_keeps_the_memory_alone() {
        let shape = Shape::new(&[4]);
        let inner = Array::new([Any::from(shape.clone())]);
        let raw = inner.object().as_ptr();
        // SAFETY: the object is live; the weak reference is released below, by its protocol.
        unsafe {
            let count = &(*raw).combined_ref_count;
            count.fetch_add(crate::abi::WEAK_ONE, std::sync::atomic::Ordering::Relaxed);
            drop(Array::new([inner.into()]));
            assert!(shape.object().is_unique());
            delete(raw.cast(), DELETE_WEAK);
        }
    }
}
