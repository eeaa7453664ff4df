//! Facts about types beside their keys: parents, fields, methods, metadata and attributes, which C
//! and C++ code registers and reads.
//!
//! The records that readers get pointers to stay for ever, and so do older lists of fields where one is
//! added: types are registered a few times each, when libraries are loaded. As in tvm-ffi, readers of a
//! type must not run beside its registration.

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::Mutex;

use crate::abi::{
    TVMFFIAny, TVMFFIByteArray, TVMFFIFieldInfo, TVMFFIMethodInfo, TVMFFITypeAttrColumn,
    TVMFFITypeInfo, TVMFFITypeMetadata, field_flag, type_index,
};
use crate::error::Error;
use crate::types;
use crate::value::AnyView;

/// The deepest hierarchy of types.
const MAX_DEPTH: usize = 64;
/// The largest index of a type with an attribute: columns have an entry for each smaller one.
const MAX_ATTRIBUTED: i32 = 1 << 20;

/// A record that readers have pointers to.
struct Record(UnsafeCell<TVMFFITypeInfo>);

// SAFETY: it is changed under the lock of `TABLE`; readers of other languages keep to tvm-ffi's rule that
// a type is not read while it is registered.
unsafe impl Sync for Record {}
// SAFETY: as for Sync; it points to memory that stays for ever.
unsafe impl Send for Record {}

/// A column of attributes that readers have pointers to.
struct Column(UnsafeCell<TVMFFITypeAttrColumn>);

// SAFETY: as for `Record`.
unsafe impl Sync for Column {}
// SAFETY: as for `Record`.
unsafe impl Send for Column {}

#[derive(Default)]
struct Table {
    parents: HashMap<i32, i32>,
    records: HashMap<i32, &'static Record>,
    fields: HashMap<i32, Vec<TVMFFIFieldInfo>>,
    methods: HashMap<i32, Vec<TVMFFIMethodInfo>>,
    columns: HashMap<String, &'static Column>,
    attributes: HashMap<String, Vec<TVMFFIAny>>,
}

// SAFETY: what the raw pointers in it lead to stays for ever and is only read.
unsafe impl Send for Table {}

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

/// Gives a type its index, and its parent before any record of it is made.
pub(crate) fn insert(key: &str, static_index: i32, parent: i32) -> i32 {
    let mut table = TABLE.lock();
    let index = types::insert(key, static_index);
    if parent >= 0 && parent != index {
        table.parents.entry(index).or_insert(parent);
    }
    index
}

/// The record of a type; it stays for ever.
pub(crate) fn record(index: i32) -> Result<*const TVMFFITypeInfo, Error> {
    TABLE.lock().record(index, MAX_DEPTH).map(|record| record.0.get().cast_const())
}

/// A copy of a list that stays for ever, and its length.
fn published<T: Copy + 'static>(list: &[T]) -> (*const T, i32) {
    let list: &'static [T] = Box::leak(list.into());
    (list.as_ptr(), i32::try_from(list.len()).unwrap_or(i32::MAX))
}

/// Adds a field.
///
/// # Safety
/// The description is as `c_api.h` demands: its getter and setter belong to code that stays loaded.
pub(crate) unsafe fn add_field(index: i32, field: &TVMFFIFieldInfo) -> Result<(), Error> {
    let mut table = TABLE.lock();
    let record = table.record(index, MAX_DEPTH)?;
    let fields = table.fields.entry(index).or_default();
    // SAFETY: the names are live bytes, the caller's and our own.
    let same = |known: &TVMFFIFieldInfo| unsafe { bytes(&known.name) == bytes(&field.name) };
    if fields.iter().any(same) {
        // SAFETY: as above.
        let name = String::from_utf8_lossy(unsafe { bytes(&field.name) }).into_owned();
        let key = types::key_of(index);
        return Err(Error::runtime_error(format!("`{key}` has a field `{name}` already")));
    }
    let mut field = *field;
    // SAFETY: the caller's strings and values are live.
    unsafe {
        field.name = kept(&field.name);
        field.doc = kept(&field.doc);
        field.metadata = kept(&field.metadata);
        let has_default = field.flags & field_flag::HAS_DEFAULT != 0;
        let default = if has_default { field.default_value_or_factory } else { TVMFFIAny::NONE };
        field.default_value_or_factory = AnyView::from_raw(default).to_owned().into_raw();
        if field.flags & field_flag::SETTER_IS_FUNCTION != 0 && !field.setter.is_null() {
            let setter = TVMFFIAny::pointer(type_index::FUNCTION, field.setter);
            std::mem::forget(AnyView::from_raw(setter).to_owned());
        }
    }
    fields.push(field);
    let published = published(fields);
    // SAFETY: the lock is held, and readers keep to the rule of the module.
    unsafe {
        let record = &mut *record.0.get();
        (record.fields, record.num_fields) = published;
    }
    Ok(())
}

/// Adds a method.
///
/// # Safety
/// As for [`add_field`].
pub(crate) unsafe fn add_method(index: i32, method: &TVMFFIMethodInfo) -> Result<(), Error> {
    let mut table = TABLE.lock();
    let record = table.record(index, MAX_DEPTH)?;
    let mut method = *method;
    // SAFETY: the caller's strings and values are live.
    unsafe {
        method.name = kept(&method.name);
        method.doc = kept(&method.doc);
        method.metadata = kept(&method.metadata);
        method.method = AnyView::from_raw(method.method).to_owned().into_raw();
    }
    let methods = table.methods.entry(index).or_default();
    methods.push(method);
    let published = published(methods);
    // SAFETY: as in `add_field`.
    unsafe {
        let record = &mut *record.0.get();
        (record.methods, record.num_methods) = published;
    }
    Ok(())
}

/// Sets the metadata of a type, once.
///
/// # Safety
/// As for [`add_field`].
pub(crate) unsafe fn set_metadata(index: i32, data: &TVMFFITypeMetadata) -> Result<(), Error> {
    let mut table = TABLE.lock();
    let record = table.record(index, MAX_DEPTH)?;
    let mut data = *data;
    // SAFETY: the caller's string is live, the lock is held, and readers keep to the rule.
    unsafe {
        let record = &mut *record.0.get();
        if !record.metadata.is_null() {
            let key = types::key_of(index);
            return Err(Error::runtime_error(format!("`{key}` has its metadata already")));
        }
        data.doc = kept(&data.doc);
        record.metadata = Box::leak(Box::new(data));
    }
    Ok(())
}

/// Sets an attribute of a type, once; for the type None it makes the column alone.
///
/// # Safety
/// `value` is a valid value.
pub(crate) unsafe fn set_attribute(index: i32, name: &str, value: &TVMFFIAny) -> Result<(), Error> {
    let mut table = TABLE.lock();
    let column = table.column(name);
    if index == type_index::NONE {
        return Ok(());
    }
    let place = usize::try_from(index).ok().filter(|_| index <= MAX_ATTRIBUTED);
    let place = place
        .ok_or_else(|| Error::value_error(format!("no type of index {index} has attributes")))?;
    let values = table.attributes.entry(name.to_owned()).or_default();
    if values.len() <= place {
        values.resize(place + 1, TVMFFIAny::NONE);
    }
    if values[place].type_index != type_index::NONE {
        let key = types::key_of(index);
        return Err(Error::runtime_error(format!("`{key}` has an attribute `{name}` already")));
    }
    // SAFETY: as the caller vouches.
    values[place] = unsafe { AnyView::from_raw(*value) }.to_owned().into_raw();
    let list: &'static [TVMFFIAny] = Box::leak(values.clone().into_boxed_slice());
    let size = i32::try_from(list.len()).unwrap_or(i32::MAX);
    // SAFETY: as in `add_field`.
    unsafe {
        *column.0.get() = TVMFFITypeAttrColumn { data: list.as_ptr(), size, begin_index: 0 };
    }
    Ok(())
}

/// The attributes called `name` by type index, or null if there are none; they stay for ever.
pub(crate) fn column(name: &str) -> *const TVMFFITypeAttrColumn {
    let table = TABLE.lock();
    table.columns.get(name).map_or(std::ptr::null(), |column| column.0.get().cast_const())
}

impl Table {
    fn record(&mut self, index: i32, depth: usize) -> Result<&'static Record, Error> {
        if let Some(record) = self.records.get(&index) {
            return Ok(record);
        }
        let key = types::key_of(index);
        if depth == 0 || types::find(&key) != Some(index) {
            return Err(Error::runtime_error(format!("no type has the index {index}")));
        }
        let of_objects = (index > type_index::OBJECT).then_some(type_index::OBJECT);
        let parent = self.parents.get(&index).copied().or(of_objects);
        let mut ancestors = vec![];
        if let Some(parent) = parent {
            let parent = self.record(parent, depth - 1)?.0.get();
            // SAFETY: records stay for ever; the lock is held.
            unsafe {
                let count = (*parent).type_depth.max(0) as usize;
                ancestors.extend((0..count).map(|at| *(*parent).type_ancestors.add(at)));
            }
            ancestors.push(parent.cast_const());
        }
        let ancestors: &'static [*const TVMFFITypeInfo] = Box::leak(ancestors.into_boxed_slice());
        let key: &'static str = Box::leak(key.into_boxed_str());
        let record = TVMFFITypeInfo {
            type_index: index,
            type_depth: i32::try_from(ancestors.len()).unwrap_or(i32::MAX),
            type_key: TVMFFIByteArray { data: key.as_ptr().cast(), size: key.len() },
            type_ancestors: ancestors.as_ptr(),
            type_key_hash: hash_of(key),
            num_fields: 0,
            num_methods: 0,
            fields: std::ptr::null(),
            methods: std::ptr::null(),
            metadata: std::ptr::null(),
        };
        let record: &'static Record = Box::leak(Box::new(Record(UnsafeCell::new(record))));
        self.records.insert(index, record);
        Ok(record)
    }

    fn column(&mut self, name: &str) -> &'static Column {
        self.columns.entry(name.to_owned()).or_insert_with(|| {
            let none = TVMFFITypeAttrColumn { data: std::ptr::null(), size: 0, begin_index: 0 };
            Box::leak(Box::new(Column(UnsafeCell::new(none))))
        })
    }
}

/// The FNV-1a hash, which is the same in every process.
fn hash_of(key: &str) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    key.bytes().fold(BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// # Safety
/// The array describes live bytes, or is empty.
unsafe fn bytes(array: &TVMFFIByteArray) -> &[u8] {
    if array.size == 0 || array.data.is_null() {
        return &[];
    }
    // SAFETY: as the caller vouches.
    unsafe { std::slice::from_raw_parts(array.data.cast(), array.size) }
}

/// A copy of bytes that stays for ever, and ends in a NUL for C.
///
/// # Safety
/// As for [`bytes`].
unsafe fn kept(array: &TVMFFIByteArray) -> TVMFFIByteArray {
    // SAFETY: as the caller vouches.
    let mut copy = unsafe { bytes(array) }.to_vec();
    let size = copy.len();
    copy.push(0);
    TVMFFIByteArray { data: Box::leak(copy.into_boxed_slice()).as_ptr().cast(), size }
}
