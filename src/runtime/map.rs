//! Maps and dicts: values by key, in the order of insertion. A map does not change; a dict may, under
//! the hands of all who share it.
//!
//! Both have tvm-ffi's layouts, of which there are two: an array of pairs, and a hash table. Those made
//! here are arrays, in a process with libtvm_ffi up to four entries, as there; it makes larger ones. A
//! look-up here walks through the entries.

use std::collections::HashMap;
use std::ptr::NonNull;

use crate::abi::{
    MAP_BLOCK, MAP_NO_ENTRY, MAP_SMALL, TVMFFIAny, TVMFFIDenseMapCell, TVMFFIDenseMapEntry,
    TVMFFIMapCell, type_index,
};
use crate::error::Error;
use crate::host;
use crate::object::{self, ObjectRef, ObjectType};
use crate::value::{Any, AnyView, impl_object_conversions};

/// The most entries of an array where libtvm_ffi can make a hash table.
const MOST_LISTED: usize = 4;

/// A reference to a map.
///
/// ```
/// use reflex_runtime::{map::Map, value::Any};
/// let map = Map::new([(Any::from("a"), Any::from(1_i64))]).unwrap();
/// assert_eq!(i64::try_from(map.get(&Any::from("a").view()).unwrap()).unwrap(), 1);
/// assert!(map.get(&Any::from("b").view()).is_none());
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct Map(ObjectRef);

/// A reference to a dict.
///
/// ```
/// use reflex_runtime::{map::Dict, value::Any};
/// let dict = Dict::new([(Any::from(1_i64), Any::from("one"))]).unwrap();
/// assert_eq!(dict.entries().len(), 1);
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct Dict(ObjectRef);

// SAFETY: transparent; reads the cell that every `ffi.Map` has.
unsafe impl ObjectType for Map {
    const KEY: &'static str = "ffi.Map";
    #[inline]
    fn type_index() -> i32 {
        type_index::MAP
    }
}

// SAFETY: transparent; reads the cell that every `ffi.Dict` has.
unsafe impl ObjectType for Dict {
    const KEY: &'static str = "ffi.Dict";
    #[inline]
    fn type_index() -> i32 {
        type_index::DICT
    }
}

impl_object_conversions!(Map);
impl_object_conversions!(Dict);

type Pair = (Any, Any);

macro_rules! methods {
    ($type:ident, $maker:literal, $index:expr) => {
        impl $type {
            /// One of these entries; of those with one key the last.
            pub fn new(entries: impl IntoIterator<Item = Pair>) -> Result<$type, Error> {
                let entries = unique(entries);
                if entries.len() > MOST_LISTED
                    && let Some(make) = host::get().and_then(|host| host.global($maker))
                {
                    let flat: Vec<_> = entries
                        .iter()
                        .flat_map(|(key, value)| [key.view(), value.view()])
                        .collect();
                    return make.call(&flat)?.try_into();
                }
                Ok($type(listed($index, entries)))
            }

            /// The value of a key.
            pub fn get(&self, key: &AnyView<'_>) -> Option<Any> {
                let key = Key::of(key);
                let found =
                    self.entries().into_iter().find(|(known, _)| Key::of(&known.view()) == key);
                found.map(|(_, value)| value)
            }

            /// The keys and values at this moment, in the order of insertion.
            pub fn entries(&self) -> Vec<Pair> {
                // SAFETY: every object of the type has one of the two cells; one that C++ code changes
                // while another thread reads it breaks tvm-ffi's own rule.
                unsafe { entries(self.0.cell::<TVMFFIMapCell>()) }
            }

            /// The number of entries.
            pub fn len(&self) -> usize {
                // SAFETY: as for `entries`.
                unsafe { (*self.0.cell::<TVMFFIMapCell>()).size as usize }
            }

            /// Whether there are no entries.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }
    };
}

methods!(Map, "ffi.Map", type_index::MAP);
methods!(Dict, "ffi.Dict", type_index::DICT);

/// The part of a key by which it equals others: text and bytes by content, objects by identity, the rest by bits.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Text(String),
    Bytes(Vec<u8>),
    Bits(i32, i64),
}

impl Key {
    fn of(key: &AnyView<'_>) -> Key {
        match (key.as_str(), key.as_bytes()) {
            (Some(text), _) => Key::Text(text.to_owned()),
            (_, Some(bytes)) => Key::Bytes(bytes.to_vec()),
            _ => {
                let raw = key.as_raw();
                // SAFETY: all payloads have eight bytes that are initialised.
                Key::Bits(raw.type_index, unsafe { raw.payload.int })
            }
        }
    }
}

/// The entries of a value that is a map or a dict.
///
/// ```
/// use reflex_runtime::map::{Dict, entries_of};
/// use reflex_runtime::value::Any;
/// let dict = Any::from(Dict::new([(Any::from("a"), Any::from(1_i64))]).unwrap());
/// assert_eq!(entries_of(&dict.view()).unwrap().len(), 1);
/// assert!(entries_of(&Any::from(1_i64).view()).is_err());
/// ```
pub fn entries_of(value: &AnyView<'_>) -> Result<Vec<(Any, Any)>, Error> {
    let owned = value.to_owned_copy()?;
    match (owned.downcast_ref::<Map>(), owned.downcast_ref::<Dict>()) {
        (Some(map), _) => Ok(map.entries()),
        (_, Some(dict)) => Ok(dict.entries()),
        _ => Err(Error::type_error(format!("{owned:?} in the place of a map"))),
    }
}

/// The entries, of those with one key the last at the place of the first.
fn unique(entries: impl IntoIterator<Item = Pair>) -> Vec<Pair> {
    let mut places: HashMap<Key, usize> = HashMap::new();
    let mut kept: Vec<Pair> = vec![];
    for (key, value) in entries {
        match places.entry(Key::of(&key.view())) {
            std::collections::hash_map::Entry::Occupied(place) => kept[*place.get()].1 = value,
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(kept.len());
                kept.push((key, value));
            }
        }
    }
    kept
}

/// The cell of those made here. C++ code makes a dense one of it in place, for which there is room.
#[repr(transparent)]
struct Cell(TVMFFIDenseMapCell);

/// A map or dict whose entries are an array behind its cell.
fn listed(index: i32, entries: Vec<Pair>) -> ObjectRef {
    let count = entries.len();
    object::create(index, size_of::<[TVMFFIAny; 2]>() * count, |tail| {
        let first = tail.cast::<TVMFFIAny>();
        for (at, (key, value)) in entries.into_iter().enumerate() {
            // SAFETY: there is room for two values for each entry.
            unsafe {
                first.add(2 * at).write(key.into_raw());
                first.add(2 * at + 1).write(value.into_raw());
            }
        }
        let map = TVMFFIMapCell {
            data: first.as_ptr().cast(),
            size: count as u64,
            slots: MAP_SMALL | count as u64,
            data_deleter: None,
        };
        Cell(TVMFFIDenseMapCell { map, fib_shift: 0, first: MAP_NO_ENTRY, last: MAP_NO_ENTRY })
    })
}

/// The entries of a map.
///
/// # Safety
/// `cell` is that of a live map, which nothing changes meanwhile.
unsafe fn entries(cell: *const TVMFFIMapCell) -> Vec<Pair> {
    let mut found = vec![];
    // SAFETY: the visited values are those of the map, which owns them.
    let copy = |at: NonNull<TVMFFIAny>| unsafe { (*at.as_ptr().cast::<Any>()).clone() };
    // SAFETY: as the caller vouches.
    unsafe { visit(cell, |key, value| found.push((copy(key), copy(value)))) };
    found
}

/// Shows the places of the keys and values of a map, in the order of insertion.
///
/// # Safety
/// As for [`entries`].
unsafe fn visit(
    cell: *const TVMFFIMapCell,
    mut show: impl FnMut(NonNull<TVMFFIAny>, NonNull<TVMFFIAny>),
) {
    // SAFETY: the layouts are tvm-ffi's, with `size` entries that are in use.
    unsafe {
        if (*cell).slots & MAP_SMALL != 0 {
            let first = (*cell).data.cast::<TVMFFIAny>();
            for at in 0..(*cell).size as usize {
                let key = NonNull::new_unchecked(first.add(2 * at));
                show(key, key.add(1));
            }
            return;
        }
        const BLOCK: usize = MAP_BLOCK * (1 + size_of::<TVMFFIDenseMapEntry>());
        let mut next = (*cell.cast::<TVMFFIDenseMapCell>()).first;
        for _ in 0..(*cell).size {
            let (block, place) = (next as usize / MAP_BLOCK, next as usize % MAP_BLOCK);
            let block = (*cell).data.cast::<u8>().add(block * BLOCK + MAP_BLOCK);
            let entry = block.cast::<TVMFFIDenseMapEntry>().add(place);
            // Read first: the visitor may release the entry.
            next = (*entry).next;
            show(
                NonNull::new_unchecked(&raw mut (*entry).key),
                NonNull::new_unchecked(&raw mut (*entry).value),
            );
        }
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        let cell = &raw mut self.0.map;
        // SAFETY: the last reference to the map is gone, so its entries are released here, once.
        unsafe {
            visit(cell, |key, value| {
                drop(key.as_ptr().cast::<Any>().read());
                drop(value.as_ptr().cast::<Any>().read());
            });
            if let Some(free) = (*cell).data_deleter {
                free((*cell).data);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;

    use super::*;
    use crate::shape::Shape;

    fn long(at: usize) -> Any {
        Any::from(format!("the key with number {at}").as_str())
    }

    #[test]
    fn entries_keep_their_order_and_are_released() {
        let shape = Shape::new(&[3]);
        let entries = || (0..9).map(|at| (long(at), Any::from(shape.clone())));
        let map = Map::new(entries()).unwrap();
        assert_eq!((map.len(), map.is_empty(), shape.object().strong_count()), (9, false, 10));
        let keys: Vec<String> = map.entries().iter().map(|(key, _)| format!("{key:?}")).collect();
        assert!(keys.is_sorted() && keys.len() == 9);
        assert!(map.get(&long(8).view()).is_some() && map.get(&long(9).view()).is_none());
        drop(map);
        drop(Dict::new(entries()).unwrap());
        assert!(shape.object().is_unique());
    }

    #[test]
    fn keys_are_equal_by_content() {
        let (shape, other) = (Any::from(Shape::new(&[1])), Any::from(Shape::new(&[1])));
        let map = Map::new([
            (long(1), 1_i64.into()),
            (Any::from(1_i64), 2_i64.into()),
            (Any::from(true), 3_i64.into()),
            (long(1), 4_i64.into()),
            (shape.clone(), 5_i64.into()),
        ])
        .unwrap();
        let get = |key: &Any| map.get(&key.view()).map(|value| i64::try_from(value).unwrap());
        assert_eq!((map.len(), get(&long(1)), get(&Any::from(true))), (4, Some(4), Some(3)));
        assert_eq!((get(&shape), get(&other), get(&Any::from(1.0))), (Some(5), None, None));
        let value = Any::from(map.clone());
        assert_eq!(value.type_index(), type_index::MAP);
        assert!(Map::try_from(&value).is_ok() && Dict::try_from(&value).is_err());
        assert!(Map::new([]).unwrap().is_empty());
    }

    /// A dense map by hand: two blocks, entries out of order.
    #[test]
    fn hash_tables_of_cpp_code_are_read_and_released() {
        const BLOCK: usize = MAP_BLOCK * (1 + size_of::<TVMFFIDenseMapEntry>());
        static FREED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        unsafe extern "C" fn free(data: *mut c_void) {
            FREED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            // SAFETY: the test made it with this layout.
            unsafe {
                std::alloc::dealloc(
                    data.cast(),
                    std::alloc::Layout::from_size_align_unchecked(2 * BLOCK, 8),
                )
            };
        }
        let shape = Shape::new(&[3]);
        let dict = Dict::new([]).unwrap();
        // SAFETY: the layout is tvm-ffi's; the cell has room for a dense one.
        unsafe {
            let data = std::alloc::alloc_zeroed(std::alloc::Layout::from_size_align_unchecked(
                2 * BLOCK,
                8,
            ));
            let places = [20_u64, 3, 31];
            for (at, place) in places.iter().enumerate() {
                let block = data.add(*place as usize / MAP_BLOCK * BLOCK + MAP_BLOCK);
                let entry = block.cast::<TVMFFIDenseMapEntry>().add(*place as usize % MAP_BLOCK);
                entry.write(TVMFFIDenseMapEntry {
                    key: Any::from(at as i64).into_raw(),
                    value: Any::from(shape.clone()).into_raw(),
                    previous: at.checked_sub(1).map_or(MAP_NO_ENTRY, |before| places[before]),
                    next: places.get(at + 1).copied().unwrap_or(MAP_NO_ENTRY),
                });
            }
            let cell = dict.0.cell::<TVMFFIDenseMapCell>();
            let map =
                TVMFFIMapCell { data: data.cast(), size: 3, slots: 31, data_deleter: Some(free) };
            cell.write(TVMFFIDenseMapCell { map, fib_shift: 59, first: 20, last: 31 });
        }
        let keys = dict.entries().into_iter().map(|(key, _)| i64::try_from(key).unwrap());
        assert_eq!(keys.collect::<Vec<_>>(), [0, 1, 2]);
        assert!(dict.get(&1_i64.into()).is_some() && shape.object().strong_count() == 4);
        drop(dict);
        assert!(shape.object().is_unique());
        assert_eq!(FREED.load(std::sync::atomic::Ordering::Relaxed), 1);
    }
}
