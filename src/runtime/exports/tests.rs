//! The exports, called as C would.

use super::*;
use crate::abi::type_index;
use crate::shape::Shape;

fn bytes(text: &str) -> TVMFFIByteArray {
    TVMFFIByteArray { data: text.as_ptr().cast(), size: text.len() }
}

#[test]
fn every_exported_symbol_has_an_address() {
    let mut ours: Vec<&str> = table().chain(backend::table()).map(|(name, _)| name).collect();
    ours.sort_unstable();
    assert_eq!(ours, EXPORTED_SYMBOLS);
}

#[test]
fn functions_can_be_made_registered_and_called_from_c() {
    unsafe extern "C" fn first(
        _: *mut c_void,
        args: *const TVMFFIAny,
        count: i32,
        result: *mut TVMFFIAny,
    ) -> c_int {
        // SAFETY: the test below passes valid arguments and a writable result.
        unsafe {
            if count == 0 {
                let parts = [c"no ".as_ptr(), std::ptr::null(), c"arguments".as_ptr()];
                TVMFFIErrorSetRaisedFromCStrParts(c"IndexError".as_ptr(), parts.as_ptr(), 3);
                return -1;
            }
            TVMFFIAnyViewToOwnedAny(args, result)
        }
    }
    let name = bytes("test.exports.first");
    let (mut made, mut found) = (std::ptr::null_mut(), std::ptr::null_mut());
    let shape = Shape::new(&[1]);
    // SAFETY: all pointers are to locals, and handles are used while live.
    unsafe {
        assert_eq!(TVMFFIFunctionCreate(std::ptr::null_mut(), first, None, &mut made), 0);
        assert_eq!(TVMFFIFunctionSetGlobal(&name, made, 0), 0);
        assert_eq!(TVMFFIFunctionSetGlobal(&name, made, 0), -1);
        assert_eq!(Error::take_raised().unwrap().kind(), "ValueError");
        assert_eq!(TVMFFIFunctionSetGlobal(&name, made, 1), 0);
        assert_eq!(TVMFFIFunctionGetGlobal(&name, &mut found), 0);
        assert_eq!(found, made);
        let mut args = [*AnyView::from(&shape).as_raw()];
        let mut result = TVMFFIAny::NONE;
        assert_eq!(TVMFFIFunctionCall(found, args.as_mut_ptr(), 1, &mut result), 0);
        assert_eq!(Shape::try_from(Any::from_raw(result)).unwrap(), shape);
        assert_eq!(TVMFFIFunctionCall(found, args.as_mut_ptr(), 0, &mut result), -1);
        let mut error = std::ptr::null_mut();
        TVMFFIErrorMoveFromRaised(&mut error);
        TVMFFIErrorSetRaised(error);
        assert_eq!(TVMFFIObjectDecRef(error), 0);
        assert_eq!(Error::take_raised().unwrap().to_string(), "IndexError: no arguments");
        TVMFFIObjectDecRef(made);
        TVMFFIObjectDecRef(found);
        TVMFFIFunctionGetGlobal(&bytes("test.exports.absent"), &mut found);
        assert!(found.is_null());
    }
    assert!(registry::remove("test.exports.first").unwrap().object().is_unique());
}

#[test]
fn types_are_found_and_allocated() {
    let mut index = 0;
    // SAFETY: all pointers are to locals that outlive the calls.
    unsafe {
        assert_eq!(TVMFFITypeKeyToIndex(&bytes("ffi.Shape"), &mut index), 0);
        assert_eq!(index, 69);
        let key = bytes("test.exports.Type");
        assert_eq!(TVMFFITypeKeyToIndex(&key, &mut index), -1);
        assert_eq!(Error::take_raised().unwrap().kind(), "KeyError");
        assert_eq!(TVMFFITypeGetOrAllocIndex(&key, -1, 1, 0, 1, -2), -2);
        let new = TVMFFITypeGetOrAllocIndex(&key, -1, 1, 0, 1, 64);
        assert!(new >= 128);
        assert_eq!(TVMFFITypeGetOrAllocIndex(&key, -1, 1, 0, 1, -2), new);
    }
}

#[test]
fn handles_are_initialised_once() {
    unsafe extern "C" fn make(out: *mut *mut c_void) -> c_int {
        // SAFETY: `out` is writable; the address is only compared.
        unsafe { out.write(std::ptr::without_provenance_mut(8)) };
        0
    }
    unsafe extern "C" fn fail(_: *mut *mut c_void) -> c_int {
        Error::runtime_error("no handle").raise();
        -1
    }
    unsafe extern "C" fn unmake(handle: *mut c_void) -> c_int {
        assert_eq!(handle.addr(), 8);
        0
    }
    let mut handle = std::ptr::null_mut();
    // SAFETY: the handle is a local, and only this test changes it.
    unsafe {
        assert_eq!(TVMFFIHandleInitOnce(&mut handle, fail), -1);
        assert_eq!(Error::take_raised().unwrap().message(), "no handle");
        assert_eq!(TVMFFIHandleInitOnce(&mut handle, make), 0);
        assert_eq!(TVMFFIHandleInitOnce(&mut handle, fail), 0);
        assert_eq!(TVMFFIHandleDeinitOnce(&mut handle, unmake), 0);
    }
    assert!(handle.is_null());
}

#[test]
fn tensors_cross_as_dlpack() {
    let tensor = Tensor::from_slice(&[2], &[3.0_f32, 4.0]).unwrap();
    let (mut managed, mut back) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: all pointers are to locals, and handles are used while live.
    unsafe {
        assert_eq!(TVMFFITensorToDLPack(tensor.object().as_ptr(), &mut managed), 0);
        assert_eq!(TVMFFITensorFromDLPack(managed, 64, 1, &mut back), 0);
        let back = share_as::<Tensor>(back).unwrap();
        assert_eq!(back.to_vec::<f32>().unwrap(), [3.0, 4.0]);
        object::decrement(back.object().as_ptr());
    }
    assert!(!tensor.is_shared());
}

/// The bytes of an array, as text.
fn shown(array: &TVMFFIByteArray) -> String {
    // SAFETY: the tests pass arrays of live bytes.
    unsafe { text(array) }.into_owned()
}

#[test]
fn types_have_parents_fields_methods_and_metadata() {
    unsafe extern "C" fn getter(field: *mut c_void, result: *mut TVMFFIAny) -> c_int {
        // SAFETY: the test passes an integer and a writable result.
        unsafe { result.write(Any::from(*field.cast::<i64>()).into_raw()) };
        0
    }
    let (parent, child) = (bytes("test.exports.Parent"), bytes("test.exports.Child"));
    // SAFETY: all pointers are to locals, and records stay for ever.
    unsafe {
        let parent = TVMFFITypeGetOrAllocIndex(&parent, -1, 1, 0, 1, 64);
        let child = TVMFFITypeGetOrAllocIndex(&child, -1, 2, 0, 1, parent);
        let info = &*TVMFFIGetTypeInfo(child);
        assert_eq!((info.type_index, info.type_depth), (child, 2));
        assert_eq!(shown(&info.type_key), "test.exports.Child");
        let ancestors = std::slice::from_raw_parts(info.type_ancestors, 2);
        assert_eq!(((*ancestors[0]).type_index, (*ancestors[1]).type_index), (64, parent));
        let mut field = TVMFFIFieldInfo {
            name: bytes("count"),
            doc: bytes("a number"),
            metadata: bytes("{}"),
            flags: crate::abi::field_flag::HAS_DEFAULT,
            size: 8,
            alignment: 8,
            offset: 24,
            getter: Some(getter),
            setter: std::ptr::null_mut(),
            default_value_or_factory: Any::from(7_i64).into_raw(),
            field_static_type_index: 1,
        };
        assert_eq!(TVMFFITypeRegisterField(child, &field), 0);
        assert_eq!(TVMFFITypeRegisterField(child, &field), -1);
        assert!(Error::take_raised().unwrap().message().contains("a field `count` already"));
        field.name = bytes("size");
        field.flags = 0;
        assert_eq!(TVMFFITypeRegisterField(child, &field), 0);
        let fields = std::slice::from_raw_parts(info.fields, 2);
        assert_eq!((info.num_fields, shown(&fields[1].name)), (2, "size".to_owned()));
        assert_eq!(fields[0].default_value_or_factory.payload.int, 7);
        assert_eq!(fields[1].default_value_or_factory.type_index, 0);
        let (mut number, mut value) = (41_i64, TVMFFIAny::NONE);
        fields[0].getter.unwrap()((&raw mut number).cast(), &mut value);
        assert_eq!(value.payload.int, 41);
        let function = Any::from(Function::new(|_| Ok(Any::from(3_i64))));
        let method = TVMFFIMethodInfo {
            name: bytes("three"),
            doc: bytes(""),
            metadata: bytes(""),
            flags: 0,
            method: *function.as_raw(),
        };
        assert_eq!(TVMFFITypeRegisterMethod(child, &method), 0);
        drop(function);
        let three = AnyView::from_raw((*info.methods).method).downcast_ref::<Function>().cloned();
        assert_eq!(i64::try_from(three.unwrap().call(&[]).unwrap()).unwrap(), 3);
        let metadata = TVMFFITypeMetadata {
            doc: bytes("a child"),
            creator: None,
            total_size: 32,
            structural_eq_hash_kind: 1,
        };
        assert_eq!(TVMFFITypeRegisterMetadata(child, &metadata), 0);
        assert_eq!(TVMFFITypeRegisterMetadata(child, &metadata), -1);
        drop(Error::take_raised());
        assert_eq!(
            (shown(&(*info.metadata).doc), (*info.metadata).total_size),
            ("a child".to_owned(), 32)
        );
        assert!(TVMFFIGetTypeInfo(1 << 30).is_null() && TVMFFIGetTypeInfo(-1).is_null());
        assert_eq!(TVMFFITypeRegisterField(1 << 30, &field), -1);
        drop(Error::take_raised());
    }
}

#[test]
fn types_have_attributes() {
    let (name, key) = (bytes("test.attribute"), bytes("test.exports.Attributed"));
    // SAFETY: all pointers are to locals, and columns stay for ever.
    unsafe {
        assert!(TVMFFIGetTypeAttrColumn(&name).is_null());
        let index = TVMFFITypeGetOrAllocIndex(&key, -1, 1, 0, 1, 64);
        let value = Any::from(5_i64).into_raw();
        assert_eq!(TVMFFITypeRegisterAttr(type_index::NONE, &name, &value), 0);
        let column = &*TVMFFIGetTypeAttrColumn(&name);
        assert_eq!(column.size, 0);
        assert_eq!(TVMFFITypeRegisterAttr(index, &name, &value), 0);
        assert_eq!((column.size, column.begin_index), (index + 1, 0));
        assert_eq!((*column.data.add(index as usize)).payload.int, 5);
        for bad in [index, -5, i32::MAX] {
            assert_eq!(TVMFFITypeRegisterAttr(bad, &name, &value), -1);
            drop(Error::take_raised());
        }
    }
}
