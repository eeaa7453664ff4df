use super::*;
use crate::shape::Shape;
use crate::tensor::Tensor;
use crate::value::AnyView;

/// A kernel that adds the bytes of its first tensor to the second's, and fails by a text when they
/// have other types than booleans of one bit.
unsafe extern "C" fn kernel(
    values: *const Payload,
    codes: *const c_int,
    count: c_int,
    result: *mut Payload,
    result_code: *mut c_int,
    _: *mut c_void,
) -> c_int {
    // SAFETY: the tests pass two tensors.
    unsafe {
        let tensor = |at: usize| (*values.add(at)).ptr.cast::<DLTensor>();
        let is_bool = |at: usize| (*tensor(at)).dtype == OLD_BOOL;
        if count != 2 || *codes != code::DL_TENSOR || !is_bool(0) || !is_bool(1) {
            TVMAPISetLastError(c"Assert fail: types".as_ptr());
            return -1;
        }
        let byte = |at: usize| (*tensor(at)).data.cast::<u8>();
        *byte(1) += *byte(0);
        result.write(Payload { int: 7 });
        result_code.write(code::INT);
    }
    0
}

fn run(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let (mut space, mut result) = (vec![Slot::EMPTY; args.len()], Any::NONE);
    call(kernel, "k", args, &mut space, &mut result)?;
    Ok(result)
}

#[test]
fn kernels_get_old_booleans_and_their_errors_are_kept() {
    let a = Tensor::from_bytes(&[], DType::BOOL, &[1]).unwrap();
    let b = Tensor::from_bytes(&[], DType::BOOL, &[0]).unwrap();
    let result = run(&[(&a).into(), (&b).into()]).unwrap();
    assert_eq!(i64::try_from(result).unwrap(), 7);
    // SAFETY: a tensor of one byte.
    assert_eq!(unsafe { *b.data_ptr() }, 1);
    let float = Tensor::from_slice(&[1], &[1.0_f32]).unwrap();
    let error = run(&[(&a).into(), (&float).into()]).unwrap_err();
    assert_eq!(error.to_string(), "RuntimeError: Assert fail: types");
    let error = run(&[(&a).into(), (&Shape::new(&[1])).into()]).unwrap_err();
    assert_eq!(error.to_string(), "TypeError: kernel `k` was given a ffi.Shape");
    let many = vec![AnyView::from(&a); INLINE + 1];
    assert_eq!(run(&many).unwrap_err().message(), "Assert fail: types");
}

#[test]
fn kernels_call_registered_functions() {
    let context = Context::default();
    let place = std::ptr::from_ref(&context).cast_mut().cast();
    let mut function = std::ptr::null_mut();
    let (mut result, mut result_code) = (Payload { int: 0 }, -1);
    let plus = Function::new(|args| Ok(Any::from(args[0].as_int().unwrap_or_default() + 1)));
    crate::registry::replace("test.legacy.plus", plus);
    // SAFETY: the context outlives the function; the arrays hold one value.
    unsafe {
        let name = c"test.legacy.plus".as_ptr();
        assert_eq!(TVMBackendGetFuncFromEnv(place, name, &mut function), 0);
        let (values, codes) = ([Payload { int: 41 }], [code::INT]);
        let (values, codes) = (values.as_ptr(), codes.as_ptr());
        assert_eq!(TVMFuncCall(function, values, codes, 1, &mut result, &mut result_code), 0);
        assert_eq!((result.int, result_code), (42, code::INT));
        let nothing = c"test.legacy.nothing".as_ptr();
        assert_eq!(TVMBackendGetFuncFromEnv(place, nothing, &mut function), -1);
    }
    let text = LAST_ERROR.with_borrow(String::clone);
    assert_eq!(text, "AttributeError: no registered function is `test.legacy.nothing`");
}

#[test]
fn bundles_are_read_or_refused() {
    let text = |out: &mut Vec<u8>, text: &[u8]| {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text);
    };
    let mut bundle = 2_u64.to_le_bytes().to_vec();
    text(&mut bundle, b"VMExecutable");
    text(&mut bundle, b"code");
    text(&mut bundle, b"_lib");
    let mut bytes = (bundle.len() as u64).to_le_bytes().to_vec();
    bytes.extend(&bundle);
    assert_eq!(&bytes[executable(&bytes).unwrap()], b"code");
    for end in 0..bytes.len() {
        assert!(executable(&bytes[..end]).is_err(), "{end}");
    }
    for at in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[at / 8] ^= 1 << (at % 8);
        // An error or a range inside.
        if let Ok(range) = executable(&bad) {
            assert!(range.end <= bad.len());
        }
    }
}
