//! Reference-counted objects: the header's protocol, owned references, creation.
//!
//! Counting follows tvm-ffi exactly, so objects may be shared with C++ and Python
//! in both directions: relaxed increments, release decrements, an acquire fence
//! before the deleter, and one weak reference held by all strong ones together.
//!
//! Objects are shared between threads, and so are their contents: the
//! constructors of this crate require `Send + Sync`, and references adopted from
//! raw pointers carry it as part of their `unsafe` contract.

use std::any::TypeId;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::abi::{
    BOTH_ONE, DELETE_STRONG, DELETE_WEAK, Deleter, STRONG_ONE, TVMFFIObject, WEAK_ONE, type_index,
};
use crate::alloc::pool;
use crate::types;

/// Adds a strong reference.
///
/// # Safety
/// `object` points to a live object on which the caller holds a strong reference.
#[inline(always)]
pub unsafe fn increment(object: *const TVMFFIObject) {
    // SAFETY: the caller holds a strong reference, so the object is live.
    unsafe { &*object }.combined_ref_count.fetch_add(STRONG_ONE, Ordering::Relaxed);
}

/// Releases a strong reference, and destroys the object if it was the last.
///
/// # Safety
/// `object` points to a live object; the caller owns the reference that is released.
#[inline(always)]
pub unsafe fn decrement(object: *mut TVMFFIObject) {
    // SAFETY: the caller's reference is the one that is released.
    if let Some(before) = unsafe { release_strong(object) } {
        // SAFETY: that was the last strong reference.
        unsafe { destroy(object, before) };
    }
}

/// Releases a strong reference; the combined count before, if it was the last.
///
/// # Safety
/// As for [`decrement`]; after the last, the caller destroys the object.
#[inline(always)]
unsafe fn release_strong(object: *mut TVMFFIObject) -> Option<u64> {
    // SAFETY: the caller owns a strong reference, so the object is live.
    let count = unsafe { &(*object).combined_ref_count };
    // No other thread can add a reference to an object whose only one is ours, so there is no
    // race; this path saves the locked subtraction.
    if count.load(Ordering::Acquire) == BOTH_ONE {
        return Some(BOTH_ONE);
    }
    let before = count.fetch_sub(STRONG_ONE, Ordering::Release);
    (before == BOTH_ONE || before as u32 == 1).then_some(before)
}

/// Releases a strong reference. If it was the last and there is no weak one, the object is the
/// caller's to take apart.
///
/// # Safety
/// As for [`decrement`].
#[inline]
pub(crate) unsafe fn release_to_owner(object: *mut TVMFFIObject) -> bool {
    // SAFETY: the caller's reference is the one that is released.
    match unsafe { release_strong(object) } {
        Some(BOTH_ONE) => {
            fence(Ordering::Acquire);
            true
        }
        Some(before) => {
            // SAFETY: that was the last strong reference.
            unsafe { destroy(object, before) };
            false
        }
        None => false,
    }
}

/// # Safety
/// The caller just took the strong count of `object` from one to zero, and the
/// combined count before was `before`.
#[cold]
#[inline(never)]
unsafe fn destroy(object: *mut TVMFFIObject, before: u64) {
    fence(Ordering::Acquire);
    // SAFETY: the memory lives until the weak count is zero too.
    let Some(deleter) = (unsafe { (*object).deleter }) else {
        return;
    };
    if before == BOTH_ONE {
        // SAFETY: no reference of either kind is left.
        return unsafe { deleter(object.cast(), DELETE_STRONG | DELETE_WEAK) };
    }
    // SAFETY: no strong reference is left; the shared weak one is still ours.
    unsafe { deleter(object.cast(), DELETE_STRONG) };
    // SAFETY: as above, the memory is still there.
    let weak = unsafe { &*object }.combined_ref_count.fetch_sub(WEAK_ONE, Ordering::Release);
    if weak == WEAK_ONE {
        fence(Ordering::Acquire);
        // SAFETY: that was the last reference of any kind.
        unsafe { deleter(object.cast(), DELETE_WEAK) };
    }
}

/// An owned strong reference to some object.
#[repr(transparent)]
pub struct ObjectRef(NonNull<TVMFFIObject>);

// SAFETY: counts are atomic, and the module contract makes contents shareable.
unsafe impl Send for ObjectRef {}
// SAFETY: as for Send: counts are atomic, and the module contract makes contents shareable.
unsafe impl Sync for ObjectRef {}

impl ObjectRef {
    /// Takes over a strong reference.
    ///
    /// # Safety
    /// `object` points to a live object that may be shared between threads, whose
    /// layout is what its type index says; the caller's reference moves here.
    #[inline]
    pub unsafe fn from_raw(object: NonNull<TVMFFIObject>) -> ObjectRef {
        ObjectRef(object)
    }

    /// Hands the strong reference to the caller.
    #[inline]
    pub fn into_raw(self) -> NonNull<TVMFFIObject> {
        ManuallyDrop::new(self).0
    }

    /// The object, still owned by `self`.
    #[inline]
    pub fn as_ptr(&self) -> *mut TVMFFIObject {
        self.0.as_ptr()
    }

    /// The type index in the header.
    #[inline]
    pub fn type_index(&self) -> i32 {
        // SAFETY: `self` holds a strong reference, which keeps the object alive.
        unsafe { self.0.as_ref() }.type_index
    }

    /// The key of the object's type, such as `ffi.Tensor`.
    pub fn type_key(&self) -> String {
        types::key_of(self.type_index())
    }

    /// Strong references at this moment.
    #[inline]
    pub fn strong_count(&self) -> u32 {
        // SAFETY: `self` holds a strong reference, which keeps the object alive.
        unsafe { self.0.as_ref() }.combined_ref_count.load(Ordering::Relaxed) as u32
    }

    /// Returns true if this is the only reference of any kind, and then synchronises with the
    /// threads that released theirs.
    #[inline]
    pub fn is_unique(&self) -> bool {
        // SAFETY: `self` holds a strong reference, which keeps the object alive.
        unsafe { self.0.as_ref() }.combined_ref_count.load(Ordering::Acquire) == BOTH_ONE
    }

    /// Whether two references are to one object.
    #[inline]
    pub fn same(&self, other: &ObjectRef) -> bool {
        self.0 == other.0
    }

    /// The reference as type `T`, if the object is one.
    #[inline]
    pub fn downcast_ref<T: ObjectType>(&self) -> Option<&T> {
        if self.type_index() != T::type_index() {
            return None;
        }
        // SAFETY: `T` is a transparent wrapper of an `ObjectRef` (its contract), and
        // the object is of its type.
        Some(unsafe { &*std::ptr::from_ref(self).cast::<T>() })
    }

    /// The cell that follows the header.
    #[inline]
    pub(crate) fn cell<C>(&self) -> *mut C {
        // SAFETY: objects are at least a header long; the result stays in or one past it.
        unsafe { self.0.add(1) }.as_ptr().cast()
    }
}

impl Clone for ObjectRef {
    #[inline]
    fn clone(&self) -> ObjectRef {
        // SAFETY: `self` holds a strong reference, so the object is live.
        unsafe { increment(self.0.as_ptr()) };
        ObjectRef(self.0)
    }
}

impl Drop for ObjectRef {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `self` owns a strong reference, which is released here.
        unsafe { decrement(self.0.as_ptr()) };
    }
}

impl fmt::Debug for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({:p})", self.type_key(), self.0)
    }
}

/// A reference to objects of one type.
///
/// # Safety
/// The implementor is `repr(transparent)` over [`ObjectRef`] (directly or through
/// another such wrapper), and all that its safe methods read is there in every
/// object whose type index is [`type_index`](ObjectType::type_index).
pub unsafe trait ObjectType: Sized {
    /// The key of the type.
    const KEY: &'static str;

    /// The index of the type.
    fn type_index() -> i32;

    /// The untyped reference.
    #[inline]
    fn object(&self) -> &ObjectRef {
        // SAFETY: implementors are transparent wrappers of an `ObjectRef`.
        unsafe { &*std::ptr::from_ref(self).cast::<ObjectRef>() }
    }

    /// Erases the type.
    #[inline]
    fn into_object(self) -> ObjectRef {
        let this = ManuallyDrop::new(self);
        // SAFETY: same representation; `this` is not dropped, so ownership moves.
        unsafe { std::ptr::from_ref(&*this).cast::<ObjectRef>().read() }
    }

    /// Adds the type without a check.
    ///
    /// # Safety
    /// The object is of this type.
    #[inline]
    unsafe fn from_object_unchecked(object: ObjectRef) -> Self {
        let object = ManuallyDrop::new(object);
        // SAFETY: same representation; `object` is not dropped, so ownership moves.
        unsafe { std::ptr::from_ref(&*object).cast::<Self>().read() }
    }
}

// SAFETY: trivially a wrapper of itself; reads only the header.
unsafe impl ObjectType for ObjectRef {
    const KEY: &'static str = "ffi.Object";
    fn type_index() -> i32 {
        type_index::OBJECT
    }
}

/// An object that this crate made: header, then the cell of its type.
#[repr(C)]
pub(crate) struct Body<C> {
    pub(crate) header: TVMFFIObject,
    pub(crate) cell: C,
}

/// Makes an object with `tail` spare bytes behind the cell, initialised by `fill`
/// with the address of the first spare byte.
///
/// `C` is dropped in place when the last strong reference is released.
#[inline]
pub(crate) fn create<C>(
    type_index: i32,
    tail: usize,
    fill: impl FnOnce(NonNull<u8>) -> C,
) -> ObjectRef {
    // SAFETY: the deleter is that of the cell.
    unsafe { create_marked(type_index, delete::<C>, tail, fill) }
}

/// [`create`] with a deleter that marks the object: one function may have several
/// addresses, so the one to compare with later must be the one given here.
///
/// # Safety
/// `deleter` does what [`delete`] does for `C`.
#[inline(always)]
pub(crate) unsafe fn create_marked<C>(
    type_index: i32,
    deleter: Deleter,
    tail: usize,
    fill: impl FnOnce(NonNull<u8>) -> C,
) -> ObjectRef {
    const { assert!(align_of::<Body<C>>() <= pool::ALIGN) };
    let size = size_of::<Body<C>>().checked_add(tail).expect("object sizes fit an address space");
    let body = pool::allocate(size).cast::<Body<C>>();
    // SAFETY: the block has `size` bytes, so the tail begins one `Body` in.
    let cell = fill(unsafe { body.add(1) }.cast());
    let header = TVMFFIObject {
        combined_ref_count: AtomicU64::new(BOTH_ONE),
        type_index,
        padding: 0,
        deleter: Some(deleter),
    };
    // SAFETY: fresh memory of sufficient size, aligned to 16.
    unsafe { body.write(Body { header, cell }) };
    ObjectRef(body.cast())
}

/// Whether the object was made by [`create_marked`] with this deleter.
#[inline]
pub(crate) fn has_mark(object: &ObjectRef, mark: Deleter) -> bool {
    // SAFETY: `object` holds a strong reference, which keeps the object alive.
    let deleter = unsafe { (*object.as_ptr()).deleter };
    deleter.is_some_and(|deleter| std::ptr::fn_addr_eq(deleter, mark))
}

/// The deleter of objects with a cell of type `C`.
///
/// # Safety
/// As for every deleter: `this` is an object made by [`create`] for `C`, and `flags`
/// tells which kinds of references are all released.
pub(crate) unsafe extern "C" fn delete<C>(this: *mut c_void, flags: c_int) {
    let body = this.cast::<Body<C>>();
    if flags & DELETE_STRONG != 0 {
        // SAFETY: the last strong reference is gone, so no thread reads the cell.
        unsafe { std::ptr::drop_in_place(&raw mut (*body).cell) };
    }
    if flags & DELETE_WEAK != 0 {
        // SAFETY: no reference is left; the memory came from the pool.
        unsafe { pool::free(NonNull::new_unchecked(this.cast())) };
    }
}

/// A Rust value with a type key, which can live in an object.
pub trait RustObject: Send + Sync + 'static {
    /// The key under which the type is registered, such as `vm.Storage`.
    const KEY: &'static str;

    /// Drops the value but for one object, which the caller releases. Where values own objects that
    /// own such values, a chain of them is then released link by link and not by recursion.
    fn into_link(self) -> Option<ObjectRef>
    where
        Self: Sized,
    {
        None
    }
}

/// The cell of an object with a Rust value.
#[repr(C)]
struct RustCell<T> {
    drop_value: unsafe fn(*mut c_void) -> Option<ObjectRef>,
    id: TypeId,
    value: T,
}

/// Offset of the value in an object made by [`wrap`].
pub const fn value_offset<T: RustObject>() -> usize {
    std::mem::offset_of!(Body<RustCell<T>>, cell) + std::mem::offset_of!(RustCell<T>, value)
}

/// Marks objects made by [`wrap`]. Read from here for every comparison, so that
/// the address of the function is one and the same.
static RUST_DELETER: Deleter = delete_rust;

/// Wraps a Rust value into an object of dynamic type.
///
/// ```
/// use reflex_runtime::object::{self, RustObject};
/// struct Counter(u32);
/// impl RustObject for Counter { const KEY: &'static str = "example.Counter"; }
/// let object = object::wrap(Counter(3));
/// assert_eq!(object.type_key(), "example.Counter");
/// assert_eq!(object::get::<Counter>(&object).unwrap().0, 3);
/// ```
pub fn wrap<T: RustObject>(value: T) -> ObjectRef {
    let cell = RustCell { drop_value: drop_value::<T>, id: TypeId::of::<T>(), value };
    // SAFETY: `delete_rust` drops what a `RustCell` says to drop.
    unsafe { create_marked(types::index_of(T::KEY), RUST_DELETER, 0, |_| cell) }
}

/// The index of the type of objects that [`wrap`] makes of such values.
pub fn type_of<T: RustObject>() -> i32 {
    types::index_of(T::KEY)
}

/// The Rust value in an object made by [`wrap`] with the same type.
#[inline]
pub fn get<T: RustObject>(object: &ObjectRef) -> Option<&T> {
    if !has_mark(object, RUST_DELETER) {
        return None;
    }
    let body = object.as_ptr().cast::<Body<RustCell<T>>>();
    // SAFETY: the deleter says that `wrap` made the object, so the id is there
    // whatever the value's type; `value` is read only when it is a `T`.
    unsafe { ((*body).cell.id == TypeId::of::<T>()).then(|| &(*body).cell.value) }
}

/// # Safety
/// `this` is an object made by `wrap::<T>` whose value is used no more.
unsafe fn drop_value<T: RustObject>(this: *mut c_void) -> Option<ObjectRef> {
    let body = this.cast::<Body<RustCell<T>>>();
    // SAFETY: the caller passes an object made by `wrap::<T>`, whose value is used no more.
    unsafe { (&raw mut (*body).cell.value).read() }.into_link()
}

/// The way in which an object is released.
pub(crate) enum Release {
    /// It was the last reference to an object made by [`wrap`], which has been destroyed but for this
    /// object: the caller releases it.
    Link(ObjectRef),
    /// The reference has been released.
    Done,
    /// Nothing has been released: the object was not made by [`wrap`].
    Other(ObjectRef),
}

/// Releases an object that was made by [`wrap`].
pub(crate) fn release_rust(object: ObjectRef) -> Release {
    if !has_mark(&object, RUST_DELETER) {
        return Release::Other(object);
    }
    let object = object.into_raw();
    // SAFETY: `object` was a strong reference; if it was the last, the value is used no more.
    unsafe {
        if !release_to_owner(object.as_ptr()) {
            return Release::Done;
        }
        let cell = object.as_ptr().cast::<Body<RustCell<()>>>();
        let link = ((*cell).cell.drop_value)(object.as_ptr().cast());
        pool::free(object.cast());
        link.map_or(Release::Done, Release::Link)
    }
}

unsafe extern "C" fn delete_rust(this: *mut c_void, flags: c_int) {
    let mut link = None;
    if flags & DELETE_STRONG != 0 {
        let cell = this.cast::<Body<RustCell<()>>>();
        // SAFETY: `wrap` made the object; the function was made for its type, and
        // this is the last strong reference.
        link = unsafe { ((*cell).cell.drop_value)(this) };
    }
    if flags & DELETE_WEAK != 0 {
        // SAFETY: no reference is left; the memory came from the pool.
        unsafe { pool::free(NonNull::new_unchecked(this.cast())) };
    }
    drop(link);
}
