//! The type table: keys of object types and their indices.
//!
//! Well-known types have fixed indices; every other key gets the next free one when
//! it is first asked for. Indices are never reused. The table is process-wide,
//! as tvm-ffi's is, so lookups by key belong to setup, not to steady state.

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::RwLock;

use crate::abi::type_index as index;
use crate::host;

const STATIC_TYPES: [(&str, i32); 26] = [
    ("None", index::NONE),
    ("int", index::INT),
    ("bool", index::BOOL),
    ("float", index::FLOAT),
    ("void*", index::OPAQUE_PTR),
    ("DataType", index::DATA_TYPE),
    ("Device", index::DEVICE),
    ("DLTensor*", index::DL_TENSOR_PTR),
    ("const char*", index::RAW_STR),
    ("TVMFFIByteArray*", index::BYTE_ARRAY_PTR),
    ("ObjectRValueRef", index::OBJECT_RVALUE_REF),
    ("ffi.SmallStr", index::SMALL_STR),
    ("ffi.SmallBytes", index::SMALL_BYTES),
    ("ffi.Object", index::OBJECT),
    ("ffi.String", index::STR),
    ("ffi.Bytes", index::BYTES),
    ("ffi.Error", index::ERROR),
    ("ffi.Function", index::FUNCTION),
    ("ffi.Shape", index::SHAPE),
    ("ffi.Tensor", index::TENSOR),
    ("ffi.Array", index::ARRAY),
    ("ffi.Map", index::MAP),
    ("ffi.Module", index::MODULE),
    ("ffi.OpaquePyObject", index::OPAQUE_PY_OBJECT),
    ("ffi.List", index::LIST),
    ("ffi.Dict", index::DICT),
];

struct Table {
    by_key: HashMap<String, i32>,
    by_index: HashMap<i32, String>,
    next: i32,
}

static TABLE: LazyLock<RwLock<Table>> = LazyLock::new(|| {
    let mut table =
        Table { by_key: HashMap::new(), by_index: HashMap::new(), next: index::DYNAMIC_BEGIN };
    for (key, index) in STATIC_TYPES {
        table.insert(key, index);
    }
    RwLock::new(table)
});

impl Table {
    fn insert(&mut self, key: &str, index: i32) {
        self.by_key.insert(key.to_owned(), index);
        self.by_index.insert(index, key.to_owned());
    }
}

/// The index of `key`, allocating a new one for an unknown key.
///
/// ```
/// use reflex_runtime::types;
/// assert_eq!(types::index_of("ffi.Tensor"), 70);
/// let index = types::index_of("example.Thing");
/// assert!(index >= 128);
/// assert_eq!(types::key_of(index), "example.Thing");
/// ```
pub fn index_of(key: &str) -> i32 {
    find(key).unwrap_or_else(|| insert(key, -1))
}

/// Records `key` under `fixed`, or under the next free index if that is negative or
/// taken. Returns the index that `key` has, which may be older.
pub(crate) fn insert(key: &str, fixed: i32) -> i32 {
    // Asked before the lock is taken: it may run code of another library.
    let shared = host::get().map(|host| host.type_index_of(key));
    let mut table = TABLE.write();
    if let Some(index) = table.by_key.get(key) {
        return *index;
    }
    if let Some(index) = shared {
        table.insert(key, index);
        return index;
    }
    let free = (0..index::DYNAMIC_BEGIN).contains(&fixed) && !table.by_index.contains_key(&fixed);
    let index = if free {
        fixed
    } else {
        table.next += 1;
        table.next - 1
    };
    table.insert(key, index);
    index
}

/// The index of `key`, if it has one.
pub fn find(key: &str) -> Option<i32> {
    TABLE.read().by_key.get(key).copied()
}

/// The key of `index`, or a description of an index that was never allocated.
pub fn key_of(index: i32) -> String {
    let table = TABLE.read();
    match table.by_index.get(&index) {
        Some(key) => key.clone(),
        None => format!("unknown type {index}"),
    }
}
