//! The C layouts that generated code, TVM-built libraries and hosts agree on.
//!
//! Everything here mirrors `tvm/ffi/c_api.h` (tvm-ffi 0.1.14) and `dlpack.h` 1.3:
//! plain data with no behaviour. Emitters use the offset constants of this file,
//! never numbers; the assertions at its end tie them to the structs.
//!
//! Decision: docs/decisions/0001-tvm-ffi-values.md

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::AtomicU64;

use crate::dtype::DType;

/// This file's text: machine code that outlives its process is tied to it.
pub const CONTRACT: &str = include_str!("abi.rs");

/// Type indices: values below [`STATIC_OBJECT_BEGIN`](type_index::STATIC_OBJECT_BEGIN)
/// are plain data, the rest are reference-counted objects.
pub mod type_index {
    /// No value; the payload is zero.
    pub const NONE: i32 = 0;
    /// Signed 64-bit integer.
    pub const INT: i32 = 1;
    /// Boolean, stored as an integer.
    pub const BOOL: i32 = 2;
    /// IEEE binary64.
    pub const FLOAT: i32 = 3;
    /// Untyped pointer.
    pub const OPAQUE_PTR: i32 = 4;
    /// `DLDataType`.
    pub const DATA_TYPE: i32 = 5;
    /// `DLDevice`.
    pub const DEVICE: i32 = 6;
    /// Borrowed `DLTensor*`.
    pub const DL_TENSOR_PTR: i32 = 7;
    /// Borrowed NUL-terminated string; views only.
    pub const RAW_STR: i32 = 8;
    /// Borrowed `TVMFFIByteArray*`; views only.
    pub const BYTE_ARRAY_PTR: i32 = 9;
    /// Pointer to an object reference that the callee may take; views only.
    pub const OBJECT_RVALUE_REF: i32 = 10;
    /// String of at most seven bytes, inline.
    pub const SMALL_STR: i32 = 11;
    /// Bytes, at most seven, inline.
    pub const SMALL_BYTES: i32 = 12;
    /// First object index; also the root type `ffi.Object`.
    pub const STATIC_OBJECT_BEGIN: i32 = 64;
    /// `ffi.Object`.
    pub const OBJECT: i32 = 64;
    /// `ffi.String`.
    pub const STR: i32 = 65;
    /// `ffi.Bytes`.
    pub const BYTES: i32 = 66;
    /// `ffi.Error`.
    pub const ERROR: i32 = 67;
    /// `ffi.Function`.
    pub const FUNCTION: i32 = 68;
    /// `ffi.Shape`.
    pub const SHAPE: i32 = 69;
    /// `ffi.Tensor`.
    pub const TENSOR: i32 = 70;
    /// `ffi.Array`.
    pub const ARRAY: i32 = 71;
    /// `ffi.Map`.
    pub const MAP: i32 = 72;
    /// `ffi.Module`.
    pub const MODULE: i32 = 73;
    /// `ffi.OpaquePyObject`.
    pub const OPAQUE_PY_OBJECT: i32 = 74;
    /// `ffi.List`.
    pub const LIST: i32 = 75;
    /// `ffi.Dict`.
    pub const DICT: i32 = 76;
    /// First index handed out at run time.
    pub const DYNAMIC_BEGIN: i32 = 128;
}

/// Deleter flag: the last strong reference was released: drop the contents.
pub const DELETE_STRONG: c_int = 1;
/// Deleter flag: the last weak reference was released: free the memory.
pub const DELETE_WEAK: c_int = 2;

/// One strong reference in the combined count.
pub const STRONG_ONE: u64 = 1;
/// One weak reference in the combined count.
pub const WEAK_ONE: u64 = 1 << 32;
/// The count of a fresh object: one strong reference, and the weak one that all
/// strong references share.
pub const BOTH_ONE: u64 = STRONG_ONE | WEAK_ONE;

/// Called with the object and [`DELETE_STRONG`] and/or [`DELETE_WEAK`].
pub type Deleter = unsafe extern "C" fn(this: *mut c_void, flags: c_int);

/// The header of every object.
#[repr(C)]
#[derive(Debug)]
pub struct TVMFFIObject {
    /// Strong count in the low 32 bits, weak count in the high 32.
    pub combined_ref_count: AtomicU64,
    /// The type index of the object.
    pub type_index: i32,
    /// Zero.
    pub padding: u32,
    /// Destroys the object; none for immortal ones.
    pub deleter: Option<Deleter>,
}

/// The payload of a [`TVMFFIAny`].
///
/// cbindgen:field-names=[v_int64, v_float64, v_ptr, v_obj, v_dtype, v_device, v_bytes]
#[repr(C)]
#[derive(Clone, Copy)]
pub union AnyPayload {
    /// Integers and booleans.
    pub int: i64,
    /// Floats.
    pub float: f64,
    /// Untyped pointers, `DLTensor*`, strings.
    pub ptr: *mut c_void,
    /// Objects.
    pub obj: *mut TVMFFIObject,
    /// Element types.
    pub dtype: DType,
    /// Devices.
    pub device: DLDevice,
    /// Small strings.
    pub bytes: [u8; 8],
}

/// A tagged value: 16 bytes, passed by pointer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TVMFFIAny {
    /// The type index of the value, as tvm-ffi numbers them.
    pub type_index: i32,
    /// Length of a small string; zero for everything else.
    pub small_len: u32,
    /// The value.
    pub payload: AnyPayload,
}

impl TVMFFIAny {
    /// The None value.
    pub const NONE: TVMFFIAny = TVMFFIAny::int_like(type_index::NONE, 0);

    /// A value whose payload is an integer.
    pub const fn int_like(type_index: i32, int: i64) -> TVMFFIAny {
        TVMFFIAny { type_index, small_len: 0, payload: AnyPayload { int } }
    }

    /// A value whose payload is a pointer.
    pub const fn pointer(type_index: i32, ptr: *mut c_void) -> TVMFFIAny {
        TVMFFIAny { type_index, small_len: 0, payload: AnyPayload { ptr } }
    }
}

/// Borrowed bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TVMFFIByteArray {
    /// First byte.
    pub data: *const c_char,
    /// Number of bytes.
    pub size: usize,
}

/// The cell of a shape, after its header.
#[repr(C)]
#[derive(Debug)]
pub struct TVMFFIShapeCell {
    /// First dimension.
    pub data: *const i64,
    /// Number of dimensions.
    pub size: usize,
}

/// The cell of an array or list, after its header.
#[repr(C)]
#[derive(Debug)]
pub struct TVMFFISeqCell {
    /// First item.
    pub data: *mut TVMFFIAny,
    /// Items in use.
    pub size: i64,
    /// Items allocated.
    pub capacity: i64,
    /// Frees `data` when it is not inside the object.
    pub data_deleter: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// Flags of a field.
pub mod field_flag {
    /// It has a default value.
    pub const HAS_DEFAULT: i64 = 1 << 1;
    /// The setter is a function object and no pointer to code.
    pub const SETTER_IS_FUNCTION: i64 = 1 << 11;
}

/// Reads a field of an object.
pub type FieldGetter = unsafe extern "C" fn(field: *mut c_void, result: *mut TVMFFIAny) -> c_int;

/// A field of a type.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TVMFFIFieldInfo {
    /// Its name.
    pub name: TVMFFIByteArray,
    /// For people.
    pub doc: TVMFFIByteArray,
    /// JSON.
    pub metadata: TVMFFIByteArray,
    /// [`field_flag`]s and others.
    pub flags: i64,
    /// Bytes.
    pub size: i64,
    /// Of the address.
    pub alignment: i64,
    /// From the object's header.
    pub offset: i64,
    /// Reads it.
    pub getter: Option<FieldGetter>,
    /// Writes it: code, or a function object.
    pub setter: *mut c_void,
    /// The value of a new object, or a function that makes it.
    pub default_value_or_factory: TVMFFIAny,
    /// The index of its type, where that is fixed.
    pub field_static_type_index: i32,
}

/// A method of a type.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TVMFFIMethodInfo {
    /// Its name.
    pub name: TVMFFIByteArray,
    /// For people.
    pub doc: TVMFFIByteArray,
    /// JSON.
    pub metadata: TVMFFIByteArray,
    /// Whether it takes an object first.
    pub flags: i64,
    /// The function, or another value.
    pub method: TVMFFIAny,
}

/// The construction and comparison of objects of a type.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TVMFFITypeMetadata {
    /// For people.
    pub doc: TVMFFIByteArray,
    /// Makes an object with default fields.
    pub creator: Option<unsafe extern "C" fn(result: *mut *mut TVMFFIObject) -> c_int>,
    /// Bytes of an object.
    pub total_size: i32,
    /// The kind of structural equality.
    pub structural_eq_hash_kind: i32,
}

/// An attribute of types.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TVMFFITypeAttrColumn {
    /// The value for each type index from the first one.
    pub data: *const TVMFFIAny,
    /// Values.
    pub size: i32,
    /// The first type index.
    pub begin_index: i32,
}

/// The facts about a type.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TVMFFITypeInfo {
    /// Its index.
    pub type_index: i32,
    /// The number of its ancestors.
    pub type_depth: i32,
    /// Its key.
    pub type_key: TVMFFIByteArray,
    /// Its ancestors, the root first.
    pub type_ancestors: *const *const TVMFFITypeInfo,
    /// A hash of the key.
    pub type_key_hash: u64,
    /// Fields of its own.
    pub num_fields: i32,
    /// Methods of its own.
    pub num_methods: i32,
    /// The fields.
    pub fields: *const TVMFFIFieldInfo,
    /// The methods.
    pub methods: *const TVMFFIMethodInfo,
    /// Null until it is set.
    pub metadata: *const TVMFFITypeMetadata,
}

/// The cell of a map or dict, after its header. Entries are pairs of values.
#[repr(C)]
#[derive(Debug)]
pub struct TVMFFIMapCell {
    /// The first entry of a small map; blocks of a dense one.
    pub data: *mut c_void,
    /// Entries in use.
    pub size: u64,
    /// Entries allocated, with [`MAP_SMALL`] in a small map.
    pub slots: u64,
    /// Frees `data` when it is not inside the object.
    pub data_deleter: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// The cell of a dense map: a hash table whose entries are linked in the order of insertion.
#[repr(C)]
#[derive(Debug)]
pub struct TVMFFIDenseMapCell {
    /// The cell of small maps.
    pub map: TVMFFIMapCell,
    /// Of the hash.
    pub fib_shift: u32,
    /// The first entry, or [`MAP_NO_ENTRY`].
    pub first: u64,
    /// The last entry, or [`MAP_NO_ENTRY`].
    pub last: u64,
}

/// An entry of a dense map.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TVMFFIDenseMapEntry {
    /// The key.
    pub key: TVMFFIAny,
    /// The value.
    pub value: TVMFFIAny,
    /// The entry before it, or [`MAP_NO_ENTRY`].
    pub previous: u64,
    /// The entry after it, or [`MAP_NO_ENTRY`].
    pub next: u64,
}

/// Entries of a block of a dense map, before which as many bytes say which are in use.
pub const MAP_BLOCK: usize = 16;
/// The bit of `slots` that says that a map is small: an array of pairs.
pub const MAP_SMALL: u64 = 1 << 63;
/// The index of no entry.
pub const MAP_NO_ENTRY: u64 = u64::MAX;

/// Rewrites or extends an error's backtrace.
pub type UpdateBacktrace =
    unsafe extern "C" fn(this: *mut c_void, backtrace: *const TVMFFIByteArray, mode: i32);

/// The cell of an error, after its header.
#[repr(C)]
#[derive(Debug)]
pub struct TVMFFIErrorCell {
    /// Such as `TypeError`.
    pub kind: TVMFFIByteArray,
    /// For people.
    pub message: TVMFFIByteArray,
    /// Innermost call first.
    pub backtrace: TVMFFIByteArray,
    /// Changes `backtrace`; mode 0 replaces, 1 appends.
    pub update_backtrace: Option<UpdateBacktrace>,
    /// Owned error that caused this one, or null.
    pub cause_chain: *mut TVMFFIObject,
    /// Owned object with more about the error, or null.
    pub extra_context: *mut TVMFFIObject,
}

/// The one calling convention: arguments borrowed, result owned; 0 is success and
/// -1 means that the thread's error slot is set. The caller sets `result` to None.
pub type SafeCall = unsafe extern "C" fn(
    handle: *mut c_void,
    args: *const TVMFFIAny,
    num_args: i32,
    result: *mut TVMFFIAny,
) -> c_int;

/// The cell of a function, after its header.
#[repr(C)]
#[derive(Debug)]
pub struct TVMFFIFunctionCell {
    /// Called with the function object itself as `this`.
    pub safe_call: SafeCall,
    /// For C++ callers of C++ functions; null here.
    pub cpp_call: *mut c_void,
}

/// The allocation header before every object in memory.
#[repr(C)]
#[derive(Debug)]
pub struct TVMFFIObjectAllocHeader {
    /// Frees the object's memory, given the object's address.
    pub delete_space: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// A device that holds data.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DLDevice {
    /// Kind of device; 1 is the CPU.
    pub device_type: i32,
    /// Which one of that kind.
    pub device_id: i32,
}

impl DLDevice {
    /// Device kind of host memory.
    pub const KIND_CPU: i32 = 1;
    /// Device kind of the memory of a CUDA device.
    pub const KIND_CUDA: i32 = 2;
    /// Device kind of host memory that CUDA devices reach (pinned).
    pub const KIND_CUDA_HOST: i32 = 3;
    /// Host memory.
    pub const CPU: DLDevice = DLDevice::cpu(0);

    /// The CPU under another number. All of them are host memory.
    pub const fn cpu(device_id: i32) -> DLDevice {
        DLDevice { device_type: DLDevice::KIND_CPU, device_id }
    }

    /// A CUDA device.
    pub const fn cuda(device_id: i32) -> DLDevice {
        DLDevice { device_type: DLDevice::KIND_CUDA, device_id }
    }

    /// Whether this is a CPU, of any number.
    #[inline]
    pub const fn is_cpu(self) -> bool {
        self.device_type == DLDevice::KIND_CPU
    }

    /// Whether host code can touch its memory.
    #[inline]
    pub const fn is_host(self) -> bool {
        matches!(self.device_type, DLDevice::KIND_CPU | DLDevice::KIND_CUDA_HOST)
    }
}

impl std::fmt::Display for DLDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.device_type {
            DLDevice::KIND_CPU => "cpu",
            DLDevice::KIND_CUDA => "cuda",
            DLDevice::KIND_CUDA_HOST => "cuda_host",
            other => return write!(f, "device ({other}, {})", self.device_id),
        };
        write!(f, "{kind}:{}", self.device_id)
    }
}

impl Default for DLDevice {
    fn default() -> DLDevice {
        DLDevice::CPU
    }
}

/// A strided view of memory, as DLPack has it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DLTensor {
    /// Base address; `byte_offset` is added to it.
    pub data: *mut c_void,
    /// Where `data` lives.
    pub device: DLDevice,
    /// Number of dimensions.
    pub ndim: i32,
    /// Element type.
    pub dtype: DType,
    /// `ndim` dimensions.
    pub shape: *mut i64,
    /// `ndim` strides in elements; null means compact (before DLPack 1.2).
    pub strides: *mut i64,
    /// Added to `data`.
    pub byte_offset: u64,
}

/// DLPack's unversioned owner of a tensor.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The data.
    pub dl_tensor: DLTensor,
    /// The producer's own.
    pub manager_ctx: *mut c_void,
    /// Releases the tensor and this struct.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// DLPack version numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLPackVersion {
    /// Changes when the ABI does.
    pub major: u32,
    /// Changes when something is added.
    pub minor: u32,
}

/// The version this crate produces.
pub const DLPACK_VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 3 };
/// DLPack flag: consumers must not write.
pub const DLPACK_READ_ONLY: u64 = 1;
/// DLPack flag: sub-byte elements take a byte each.
pub const DLPACK_SUBBYTE_PADDED: u64 = 1 << 2;

/// DLPack's owner of a tensor since 1.0.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// The producer's version of DLPack.
    pub version: DLPackVersion,
    /// The producer's own.
    pub manager_ctx: *mut c_void,
    /// Releases the tensor and this struct.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// [`DLPACK_READ_ONLY`] and others.
    pub flags: u64,
    /// The data.
    pub dl_tensor: DLTensor,
}

/// Environment of one parallel launch.
#[repr(C)]
#[derive(Debug)]
pub struct TVMParallelGroupEnv {
    /// The launcher's own.
    pub sync_handle: *mut c_void,
    /// Parts in this launch.
    pub num_task: i32,
}

/// One part of a parallel loop: 0 is success, -1 means the part's thread has an error.
pub type ParallelLambda = unsafe extern "C" fn(
    task_id: c_int,
    penv: *mut TVMParallelGroupEnv,
    cdata: *mut c_void,
) -> c_int;

/// Bytes of a [`TVMFFIAny`].
pub const ANY_SIZE: usize = 16;
/// Offset of the payload in a [`TVMFFIAny`].
pub const ANY_PAYLOAD: usize = 8;
/// Bytes of an object header; where the cell of a typed object begins.
pub const OBJECT_HEADER_SIZE: usize = 24;
/// Offset of the type index in an object header.
pub const OBJECT_TYPE_INDEX: usize = 8;
/// Offset of the deleter in an object header.
pub const OBJECT_DELETER: usize = 16;
/// Offset of the `DLTensor` in a tensor object.
pub const TENSOR_DLTENSOR: usize = OBJECT_HEADER_SIZE;
/// Offset of what keeps the data of a tensor of this crate alive: a value, an object or None, where
/// the tensor is a view or lies on a storage.
pub const TENSOR_OWNER: usize = TENSOR_DLTENSOR + DLTENSOR_SIZE;
/// The first word of the owner of a tensor of this crate whose data is its own.
pub const TENSOR_OWNER_BLOCK: i64 = type_index::OBJECT as i64 + 1;
/// Offset of the dimensions of a tensor of this crate; its strides follow them.
pub const TENSOR_DIMS: usize = TENSOR_OWNER + 48;
/// Offset of the data pointer in a `DLTensor`.
pub const DLTENSOR_DATA: usize = 0;
/// Offset of the device in a `DLTensor`.
pub const DLTENSOR_DEVICE: usize = DLTensorLayout::OF_MACHINE_CODE.device;
/// Offset of the rank in a `DLTensor`.
pub const DLTENSOR_NDIM: usize = DLTensorLayout::OF_MACHINE_CODE.ndim;
/// Offset of the element type in a `DLTensor`.
pub const DLTENSOR_DTYPE: usize = DLTensorLayout::OF_MACHINE_CODE.dtype;
/// Offset of the shape pointer in a `DLTensor`.
pub const DLTENSOR_SHAPE: usize = DLTensorLayout::OF_MACHINE_CODE.shape;
/// Offset of the strides pointer in a `DLTensor`.
pub const DLTENSOR_STRIDES: usize = DLTensorLayout::OF_MACHINE_CODE.strides;
/// Offset of the byte offset in a `DLTensor`.
pub const DLTENSOR_BYTE_OFFSET: usize = DLTensorLayout::OF_MACHINE_CODE.byte_offset;
/// Bytes of a `DLTensor`.
pub const DLTENSOR_SIZE: usize = DLTensorLayout::OF_MACHINE_CODE.size;

/// Offsets in a `DLTensor` where pointers have some number of bytes: 8 where tiers run, and 4 in WebAssembly.
#[derive(Clone, Copy, Debug)]
pub struct DLTensorLayout {
    /// The device.
    pub device: usize,
    /// The rank.
    pub ndim: usize,
    /// The element type.
    pub dtype: usize,
    /// The shape pointer.
    pub shape: usize,
    /// The strides pointer.
    pub strides: usize,
    /// The byte offset.
    pub byte_offset: usize,
    /// Bytes of it all.
    pub size: usize,
}

impl DLTensorLayout {
    /// That of this process.
    pub const HOST: DLTensorLayout = DLTensorLayout::of(size_of::<usize>());
    /// That of the systems that have tiers of machine code.
    const OF_MACHINE_CODE: DLTensorLayout = DLTensorLayout::of(8);

    /// That for pointers of so many bytes.
    pub const fn of(pointer: usize) -> DLTensorLayout {
        let device = pointer;
        let (ndim, dtype, shape) = (device + 8, device + 12, device + 16);
        let strides = shape + pointer;
        let byte_offset = (strides + pointer).next_multiple_of(8);
        DLTensorLayout { device, ndim, dtype, shape, strides, byte_offset, size: byte_offset + 8 }
    }
}
/// Offset of `safe_call` in a function object.
pub const FUNCTION_SAFE_CALL: usize = OBJECT_HEADER_SIZE;
/// Offset of the dimensions pointer in a shape object.
pub const SHAPE_DATA: usize = OBJECT_HEADER_SIZE;
/// Offset of the dimension count in a shape object.
pub const SHAPE_SIZE: usize = OBJECT_HEADER_SIZE + 8;
/// Offset of the data pointer in a storage object of this crate.
pub const STORAGE_DATA: usize = OBJECT_HEADER_SIZE;
/// Offset of the byte count in a storage object of this crate.
pub const STORAGE_BYTES: usize = OBJECT_HEADER_SIZE + 8;
/// Offset of the items pointer in an array object.
pub const ARRAY_DATA: usize = OBJECT_HEADER_SIZE;
/// Offset of the item count in an array object.
pub const ARRAY_SIZE: usize = OBJECT_HEADER_SIZE + 8;
/// Offset of the number of items that an array object has room for.
pub const ARRAY_CAPACITY: usize = OBJECT_HEADER_SIZE + 16;
/// Offset of the function that frees items outside of an array object, or null.
pub const ARRAY_DATA_DELETER: usize = OBJECT_HEADER_SIZE + 24;
/// Offset of the first item of an array object of this crate, whose items lie behind its cell.
pub const ARRAY_ITEMS: usize = OBJECT_HEADER_SIZE + 32;
/// Bytes of an object's block before its header: the size of the block, then the
/// [`TVMFFIObjectAllocHeader`].
pub const BLOCK_PREFIX: usize = 16;
/// Blocks of objects are multiples of this size. Each multiple is a class with a free list.
pub const BLOCK_GRANULE: usize = 32;
/// Largest block that has a free list, in bytes.
pub const MAX_FREE_BLOCK: usize = 512;
/// Bytes of a free list; those of a thread lie one behind the other, by class. A free block keeps its
/// allocation header, and its first word links to the next one.
pub const FREE_LIST_SIZE: usize = 32;
/// Offset of the first free block, or null, in a free list.
pub const FREE_LIST_HEAD: usize = 0;
/// Offset of the number of free blocks in a free list.
pub const FREE_LIST_LEN: usize = 8;
/// Ranks, from 0 on, of which a thread lists free tensors.
pub const FREE_TENSOR_RANKS: usize = 5;
/// Size classes of free tensors of a rank: multiples of [`FREE_TENSOR_STEP`].
pub const FREE_TENSOR_SIZES: usize = 8;
/// Bytes between size classes of free tensors.
pub const FREE_TENSOR_STEP: usize = 64;
/// Offset of a pointer to the bytes that free tensors may be taken for, behind the lists of a thread. It
/// is null where there is no free tensor.
pub const FREE_TENSORS_RESERVE: usize = FREE_TENSOR_RANKS * FREE_TENSOR_SIZES * FREE_LIST_SIZE;
/// Offset of a pointer to the limit of memory, behind the lists of a thread.
pub const FREE_TENSORS_LIMIT: usize = FREE_TENSORS_RESERVE + 8;

/// The free list of tensors of a rank whose block is of the size class of `bytes`. A free tensor is whole,
/// but for its first word, which links to the next one.
#[inline]
pub const fn free_tensor_class(rank: usize, bytes: usize) -> Option<usize> {
    if rank >= FREE_TENSOR_RANKS || bytes > FREE_TENSOR_SIZES * FREE_TENSOR_STEP {
        return None;
    }
    Some(rank * FREE_TENSOR_SIZES + bytes.saturating_sub(1) / FREE_TENSOR_STEP)
}

const _: () = {
    use std::mem::offset_of;
    assert!(cfg!(target_endian = "little"));
    let layout = DLTensorLayout::HOST;
    assert!(size_of::<DLTensor>() == layout.size && offset_of!(DLTensor, data) == DLTENSOR_DATA);
    assert!(offset_of!(DLTensor, device) == layout.device);
    assert!(offset_of!(DLTensor, ndim) == layout.ndim);
    assert!(offset_of!(DLTensor, dtype) == layout.dtype);
    assert!(offset_of!(DLTensor, shape) == layout.shape);
    assert!(offset_of!(DLTensor, strides) == layout.strides);
    assert!(offset_of!(DLTensor, byte_offset) == layout.byte_offset);
    assert!(size_of::<TVMFFIAny>() == ANY_SIZE && offset_of!(TVMFFIAny, payload) == ANY_PAYLOAD);
    assert!(size_of::<TVMFFIObject>() == OBJECT_HEADER_SIZE);
};

// The numbers of this file are those of 64-bit systems, which alone have tiers of machine code.
const _: () = if cfg!(target_pointer_width = "64") {
    use std::mem::offset_of;
    assert!(size_of::<usize>() == 8);
    assert!(size_of::<TVMFFIAny>() == ANY_SIZE && align_of::<TVMFFIAny>() == 8);
    assert!(offset_of!(TVMFFIAny, small_len) == 4);
    assert!(offset_of!(TVMFFIAny, payload) == ANY_PAYLOAD);
    assert!(size_of::<TVMFFIObject>() == OBJECT_HEADER_SIZE);
    assert!(size_of::<TVMFFIFieldInfo>() == 120 && offset_of!(TVMFFIFieldInfo, getter) == 80);
    assert!(size_of::<TVMFFIMethodInfo>() == 72 && size_of::<TVMFFITypeMetadata>() == 32);
    assert!(size_of::<TVMFFITypeInfo>() == 72 && offset_of!(TVMFFITypeInfo, fields) == 48);
    assert!(size_of::<TVMFFITypeAttrColumn>() == 16);
    assert!(size_of::<TVMFFIMapCell>() == 32 && size_of::<TVMFFIDenseMapCell>() == 56);
    assert!(size_of::<TVMFFIDenseMapEntry>() == 48);
    assert!(offset_of!(TVMFFIObject, combined_ref_count) == 0);
    assert!(offset_of!(TVMFFIObject, type_index) == OBJECT_TYPE_INDEX);
    assert!(offset_of!(TVMFFIObject, deleter) == OBJECT_DELETER);
    assert!(size_of::<DLTensor>() == DLTENSOR_SIZE);
    assert!(offset_of!(DLTensor, data) == DLTENSOR_DATA);
    assert!(offset_of!(DLTensor, device) == DLTENSOR_DEVICE);
    assert!(offset_of!(DLTensor, ndim) == DLTENSOR_NDIM);
    assert!(offset_of!(DLTensor, dtype) == DLTENSOR_DTYPE);
    assert!(offset_of!(DLTensor, shape) == DLTENSOR_SHAPE);
    assert!(offset_of!(DLTensor, strides) == DLTENSOR_STRIDES);
    assert!(offset_of!(DLTensor, byte_offset) == DLTENSOR_BYTE_OFFSET);
    assert!(size_of::<DLManagedTensor>() == 64);
    assert!(offset_of!(DLManagedTensorVersioned, flags) == 24);
    assert!(offset_of!(DLManagedTensorVersioned, dl_tensor) == 32);
    assert!(size_of::<TVMFFIErrorCell>() == 72);
    assert!(offset_of!(TVMFFIErrorCell, update_backtrace) == 48);
    assert!(size_of::<TVMFFISeqCell>() == 32 && size_of::<TVMFFIShapeCell>() == 16);
    let cell = OBJECT_HEADER_SIZE;
    assert!(cell + offset_of!(TVMFFISeqCell, data) == ARRAY_DATA);
    assert!(cell + offset_of!(TVMFFISeqCell, size) == ARRAY_SIZE);
    assert!(cell + offset_of!(TVMFFISeqCell, capacity) == ARRAY_CAPACITY);
    assert!(cell + offset_of!(TVMFFISeqCell, data_deleter) == ARRAY_DATA_DELETER);
    assert!(size_of::<TVMFFIObjectAllocHeader>() + size_of::<usize>() == BLOCK_PREFIX);
    assert!(offset_of!(TVMFFIFunctionCell, safe_call) == 0);
    assert!(offset_of!(TVMParallelGroupEnv, num_task) == 8);
};
