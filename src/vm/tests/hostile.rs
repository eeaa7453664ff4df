//! Bytes that are not an executable: refused with an offset, or safe to run.

#[path = "../../../tests/common/property.rs"]
mod property;

use std::sync::Arc;

use property::property;
use reflex_runtime::dtype::DType;
use reflex_runtime::value::Any;
use reflex_vm::builder::ExecBuilder;
use reflex_vm::bytecode::{Arg, Args, Instr, Reg};
use reflex_vm::executable::{ConstData, Constant, Executable, FuncKind, Function, TensorConst};
use reflex_vm::program::Program;
use reflex_vm::serialize::{from_bytes, from_shared, to_bytes};
use reflex_vm::session::{Options, Session};
use reflex_vm::verify::{VerifyError, verify};

fn sample() -> Executable {
    let mut b = ExecBuilder::new();
    b.function_with_params("main", &["x"]).unwrap();
    let (top, done) = (b.label().unwrap(), b.label().unwrap());
    let data = ConstData::copy_of(&[1, 0, 0, 0, 2, 0, 0, 0]);
    let tensor = b.tensor(TensorConst { dtype: DType::I32, shape: [2].into(), data });
    let (shape, text) = (b.shape(&[2, -1]), b.string("context"));
    let (float, large) = (b.float(-0.5), b.int(i64::MIN));
    let f = b.f("main");
    b.emit_call("vm.builtin.make_tuple", &[tensor, shape, text, float, large, f], b.r(1)).unwrap();
    b.emit_call("vm.builtin.tuple_getitem", &[b.r(1), b.imm(0).unwrap()], b.r(2)).unwrap();
    b.emit_call("vm.builtin.shape_of", &[b.r(2)], b.r(3)).unwrap();
    b.emit_call("vm.builtin.copy", &[b.r(0)], b.r(4)).unwrap();
    b.bind(top).unwrap();
    b.emit_if(Reg(4), done).unwrap();
    b.emit_call("vm.builtin.null_value", &[], b.r(4)).unwrap();
    b.emit_call("vm.builtin.copy", &[b.imm(0).unwrap()], b.r(4)).unwrap();
    b.emit_goto(top).unwrap();
    b.bind(done).unwrap();
    b.emit_call("vm.builtin.make_closure", &[f, b.r(3)], b.r(5)).unwrap();
    b.emit_ret(Reg(5)).unwrap();
    b.end_function().unwrap();
    b.finish().unwrap()
}

/// Runs whatever verifies, with little fuel; the outcome does not matter.
fn run(exec: Executable) {
    let Ok(exec) = verify(exec) else { return };
    let Ok(program) = Program::load(exec, &[]) else { return };
    let program = Arc::new(program);
    let options = Options { stack_slots: 1 << 16, depth_limit: 1000, ..Options::default() };
    let mut session = Session::new(&program, options).unwrap();
    session.set_fuel(Some(10_000));
    for func in 0..program.executable().functions.len() as u32 {
        let Some(code) = program.function(func) else { continue };
        let args = vec![Any::from(1_i64); code.num_args.min(64) as usize];
        let _ = session.call_func(func, reflex_runtime::value::AnyView::slice(&args));
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn every_truncation_is_refused_with_an_offset() {
    let bytes = to_bytes(&sample());
    assert_eq!(from_bytes(&bytes).unwrap(), sample());
    for len in 0..bytes.len() {
        let error = from_bytes(&bytes[..len]).unwrap_err();
        assert!(error.offset <= len, "{error}");
    }
    let mut longer = bytes;
    longer.push(0);
    assert!(from_bytes(&longer).unwrap_err().to_string().contains("1 bytes left over"));
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn every_flipped_bit_is_refused_or_safe() {
    let bytes = to_bytes(&sample());
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            if let Ok(exec) = from_bytes(&damaged) {
                run(exec);
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn random_words_in_the_code_are_refused_or_safe() {
    let exec = sample();
    property(3000, |u| {
        let mut damaged = exec.clone();
        for _ in 0..u.int_in_range(1..=4)? {
            let at = u.choose_index(damaged.instr_data.len())?;
            damaged.instr_data[at] = match u.int_in_range(0..=3)? {
                0 => u.arbitrary()?,
                1 => u.int_in_range(-4..=12)?,
                2 => damaged.instr_data[u.choose_index(exec.instr_data.len())?],
                _ => (u.int_in_range(0..=4)? << 56) | u.int_in_range(0..=12)?,
            };
        }
        run(damaged);
        Ok(())
    });
}

#[test]
fn huge_counts_do_not_allocate() {
    let bytes = to_bytes(&sample());
    let mut damaged = bytes.clone();
    // The count of functions follows the magic, the length of the version and the version.
    damaged[20..28].copy_from_slice(&u64::MAX.to_le_bytes());
    let error = from_bytes(&damaged).unwrap_err();
    assert_eq!(error.offset, 20);
    assert!(error.to_string().contains("exceeds what the remaining bytes can hold"), "{error}");
}

#[test]
fn aligned_tensors_of_a_mapping_are_used_in_place() {
    let exec = sample();
    let bytes = to_bytes(&exec);
    let data = |e: &Executable| match &e.constants[0] {
        Constant::Tensor(tensor) => tensor.data.clone(),
        other => panic!("{other:?}"),
    };
    let needle = data(&exec);
    let at = bytes.windows(8).position(|w| w == needle.bytes()).unwrap();
    for skew in [0, 8] {
        // Place the blob so that the tensor's data is `skew` bytes past a line.
        let pad = (64 - at % 64) % 64 + skew;
        let mut file = vec![0; pad];
        file.extend_from_slice(&bytes);
        let owner: Arc<dyn AsRef<[u8]> + Send + Sync> =
            Arc::new(reflex_runtime::aligned_bytes::AlignedBytes::copy_of(&file));
        let read = from_shared(&owner, pad..file.len()).unwrap();
        assert_eq!(read, exec);
        let inside = (*owner).as_ref().as_ptr_range().contains(&data(&read).bytes().as_ptr());
        assert_eq!(inside, skew == 0);
    }
}

fn faults(change: impl FnOnce(&mut Executable)) -> String {
    let mut exec = sample();
    change(&mut exec);
    let error: VerifyError = verify(exec).unwrap_err();
    error.to_string()
}

/// Replaces instruction `index` by one of the same length.
fn patch(exec: &mut Executable, index: usize, instr: Instr<'_>) {
    let mut words = Vec::new();
    instr.encode(&mut words);
    assert_eq!(words.len(), exec.instr(index).unwrap().words());
    let at = exec.instr_offset[index] as usize;
    exec.instr_data[at..at + words.len()].copy_from_slice(&words);
}

#[test]
fn faults_name_their_place() {
    let call = |args: &[Arg]| args.iter().map(|a| a.encode()).collect::<Vec<_>>();
    let reg9 = call(&[Arg::Reg(Reg(9))]);
    let const9 = call(&[Arg::Const(9)]);
    let func9 = call(&[Arg::Func(99)]);
    let cases: Vec<(String, &str)> = vec![
        (
            faults(|e| patch(e, 3, Instr::Call { dst: Reg(4), callee: 5, args: Args(&reg9) })),
            "function `main`, instruction 3, argument 0: %9 is not a register",
        ),
        (
            faults(|e| patch(e, 3, Instr::Call { dst: Reg(4), callee: 5, args: Args(&const9) })),
            "argument 0: c[9] is not in the constant pool",
        ),
        (
            faults(|e| patch(e, 3, Instr::Call { dst: Reg(4), callee: 5, args: Args(&func9) })),
            "argument 0: f[99] is not in the function table",
        ),
        (
            faults(|e| patch(e, 3, Instr::Call { dst: Reg(6), callee: 5, args: Args(&reg9) })),
            "instruction 3: destination %6 is not a register",
        ),
        (
            faults(|e| patch(e, 3, Instr::Call { dst: Reg(4), callee: -1, args: Args(&const9) })),
            "instruction 3: callee -1 is not in the function table",
        ),
        (
            faults(|e| patch(e, 4, Instr::If { cond: Reg(4), false_offset: 6 })),
            "instruction 4: jump by 6 leaves the function",
        ),
        (
            faults(|e| patch(e, 4, Instr::If { cond: Reg(4), false_offset: 1 })),
            "instruction 4: jump by 1 is not allowed here",
        ),
        (
            faults(|e| patch(e, 4, Instr::If { cond: Reg::VOID, false_offset: 4 })),
            "instruction 4: condition %void is not a register",
        ),
        (
            faults(|e| patch(e, 7, Instr::Goto { offset: 0 })),
            "instruction 7: jump by 0 is not allowed here",
        ),
        (
            faults(|e| patch(e, 7, Instr::Goto { offset: -8 })),
            "instruction 7: jump by -8 leaves the function",
        ),
        (
            faults(|e| patch(e, 9, Instr::Ret { result: Reg(6) })),
            "instruction 9: result %6 is not a register",
        ),
        (faults(|e| e.functions[0].end_instr -= 1), "instruction 8: the function ends without"),
        (faults(|e| e.functions[0].end_instr += 1), "instructions 0..11 of 10"),
        (faults(|e| e.functions[0].register_file_size = 5), "is not a register"),
        (faults(|e| e.functions[0].register_file_size = 1 << 40), "register file of 1099511627776"),
        (faults(|e| e.functions[0].num_args = 7), "7 parameters in a register file of 6"),
        (faults(|e| e.functions[0].param_names.push("y".into())), "2 names for 1 parameters"),
        (faults(|e| e.functions[1].name = "main".into()), "the name is used twice"),
        (faults(|e| e.instr_offset[2] += 1), "code, instruction 2: offset is"),
        (faults(|e| e.instr_data.push(0)), "1 words follow the last one"),
        (faults(|e| e.memory_scopes.push((99, "global".into()))), "memory scope 0: c[99]"),
        (
            faults(|e| {
                let data = ConstData::copy_of(&[0; 3]);
                let shape = [2].into();
                e.constants[0] = Constant::Tensor(TensorConst { dtype: DType::I32, shape, data });
            }),
            "constant c[0]: shape [2] of int32 does not hold 3 bytes",
        ),
        (
            // TVM writes one lane of every element.
            faults(|e| {
                let (data, dtype) = (ConstData::copy_of(&[0; 8]), DType::F32.with_lanes(4));
                e.constants[0] = Constant::Tensor(TensorConst { dtype, shape: [2].into(), data });
            }),
            "constant c[0]: the serialized form cannot hold elements of type float32x4",
        ),
    ];
    for (message, expected) in cases {
        assert!(message.contains(expected), "{message:?} lacks {expected:?}");
    }
}

#[test]
fn builtin_calls_are_checked_before_they_run() {
    let error = |name: &str, args: &dyn Fn(&mut ExecBuilder) -> Vec<Arg>| {
        let mut b = ExecBuilder::new();
        b.function("main", 1).unwrap();
        let args = args(&mut b);
        b.emit_call(name, &args, Reg::VOID).unwrap();
        b.emit_ret(Reg(0)).unwrap();
        b.end_function().unwrap();
        b.finish().unwrap_err().to_string()
    };
    let i = Arg::Imm;
    let match_shape = |pairs: &'static [i64], n: i64| {
        error("vm.builtin.match_shape", &move |b| {
            let mut args = vec![b.r(0), b.void_arg(), i(n)];
            args.extend(pairs.iter().map(|&v| i(v)));
            args.push(b.string("at"));
            args
        })
    };
    assert!(match_shape(&[0, 3], 2).contains("2 dimensions do not match 6 arguments"));
    assert!(match_shape(&[4, 0], 1).contains("unknown code 4"));
    assert!(match_shape(&[1, 0], 1).contains("needs a shape heap and there is none"));
    assert!(match_shape(&[], reflex_vm::bytecode::MAX_IMM).contains("do not match"));
    let message = error("vm.builtin.alloc_shape_heap", &|b| vec![b.r(0), b.string("x")]);
    assert!(message.contains("argument 1 is not an integer"), "{message}");
    let message = error("vm.builtin.copy", &|_| vec![]);
    assert!(message.contains("`vm.builtin.copy` does not take 0 arguments"), "{message}");
    let message = error("vm.builtin.alloc_storage", &|b| vec![i(1), b.shape(&[1]), i(0), b.r(0)]);
    assert!(message.contains("argument 0 is not the VM state"), "{message}");
}

/// A file as TVM 0.20, 0.21 or 0.22 wrote it: V1, with `constants` encoded by hand.
fn v1(constants: &[&[u8]]) -> Vec<u8> {
    let exec = Executable { functions: vec![Function::packed("f")], ..Executable::default() };
    assert_eq!(exec.functions[0].kind, FuncKind::Packed);
    let mut bytes = to_bytes(&exec);
    bytes[0] = 0x1D;
    // Cut scopes, constants and code (four empty lists), then write them anew.
    bytes.truncate(bytes.len() - 4 * 8);
    bytes.extend((constants.len() as u64).to_le_bytes());
    constants.iter().for_each(|constant| bytes.extend_from_slice(constant));
    bytes.extend([0; 16]);
    bytes
}

fn shape_constant(code: i32, extent: i64) -> Vec<u8> {
    let mut bytes = code.to_le_bytes().to_vec();
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend(extent.to_le_bytes());
    bytes
}

#[test]
fn older_dialects_are_read_where_they_can_be_told_apart() {
    for code in [2, 71, 69] {
        let exec = from_bytes(&v1(&[&shape_constant(code, 7)])).unwrap();
        assert_eq!(exec.constants, [Constant::Shape([7].into())], "code {code}");
    }
    // Code 1 is an element type up to 0.20 and an integer later; with the bytes that
    // follow, only one reading ends where the file does.
    let dtype = [1, 0, 0, 0, 2, 32, 1, 0];
    let exec = from_bytes(&v1(&[&dtype])).unwrap();
    assert_eq!(exec.constants, [Constant::DType(DType::F32)]);
    // An element type and a float up to 0.20; an integer and an element type later.
    let both = [1, 0, 0, 0, 2, 32, 1, 0, 5, 0, 0, 0, 5, 0, 0, 0, 2, 32, 1, 0];
    let error = from_bytes(&v1(&[&both, &[]])).unwrap_err();
    assert!(error.to_string().contains("as dialect Current and as UpTo20"), "{error}");
    assert!(from_bytes(&v1(&[])).unwrap().constants.is_empty());
}

fn constant(code: i32, payload: &[u8]) -> Vec<u8> {
    [&code.to_le_bytes()[..], payload].concat()
}

/// The codes of a dialect: tensor, element type, shape, string, integer, float.
fn every_constant(codes: [i32; 6]) -> Vec<Vec<u8>> {
    let mut tensor = 0xDD5E_40F0_96B4_A13F_u64.to_le_bytes().to_vec();
    tensor.extend([0; 8]);
    // Device, rank, type, dimension, bytes, data.
    [1, 0, 1].map(i32::to_le_bytes).iter().for_each(|word| tensor.extend(word));
    tensor.extend([0, 16, 1, 0]);
    [2_i64, 4].map(i64::to_le_bytes).iter().for_each(|word| tensor.extend(word));
    tensor.extend([1, 0, 254, 255]);
    let text = [&3_u64.to_le_bytes()[..], b"abc"].concat();
    vec![
        constant(codes[0], &tensor),
        constant(codes[1], &[2, 32, 1, 0]),
        shape_constant(codes[2], 7),
        constant(codes[3], &text),
        constant(codes[4], &(-9_i64).to_le_bytes()),
        constant(codes[5], &0.5_f64.to_le_bytes()),
    ]
}

/// Every constant of every older dialect; saved again it is the newest form, which reads the same.
#[test]
fn all_constants_of_older_dialects_are_read() {
    for codes in [[0, 1, 2, 3, 4, 5], [72, 5, 71, 65, 1, 3], [70, 5, 69, 65, 1, 3]] {
        let constants = every_constant(codes);
        let list: Vec<&[u8]> = constants.iter().map(Vec::as_slice).collect();
        let exec = from_bytes(&v1(&list)).unwrap_or_else(|e| panic!("{codes:?}: {e}"));
        let [tensor, rest @ ..] = &exec.constants[..] else { panic!("{codes:?}: no constants") };
        let Constant::Tensor(tensor) = tensor else { panic!("{codes:?}: {tensor:?}") };
        assert_eq!((tensor.dtype, &tensor.shape[..]), (DType::I16, &[2][..]));
        assert_eq!(tensor.data.bytes(), [1, 0, 254, 255]);
        let expected = [
            Constant::DType(DType::F32),
            Constant::Shape([7].into()),
            Constant::Str("abc".into()),
            Constant::Int(-9),
            Constant::Float(0.5),
        ];
        assert_eq!(rest, expected, "{codes:?}");
        let again = from_bytes(&to_bytes(&exec)).unwrap();
        assert_eq!(again.constants, exec.constants, "{codes:?}");
        assert_eq!(to_bytes(&again), to_bytes(&exec));
    }
    // A code that no dialect has, and codes of two dialects in one file.
    let error = from_bytes(&v1(&[&constant(9, &[0; 8])])).unwrap_err().to_string();
    assert!(error.contains('9'), "{error}");
    let mixed = [shape_constant(71, 7), shape_constant(69, 7)];
    assert!(from_bytes(&v1(&[&mixed[0], &mixed[1]])).is_err());
}

#[test]
fn listings_read_back() {
    use reflex_vm::listing::{parse, print};
    let mut exec = sample();
    exec.memory_scopes.push((0, "glo\"bal;".into()));
    exec.constants.push(Constant::Str("a;\"b\\c\n\u{e9}".into()));
    exec.constants.push(Constant::Float(f64::from_bits(0x7FF8_0000_0000_0001)));
    exec.functions.push(Function::packed("odd name;(x)"));
    // A range of code means nothing for a packed function.
    exec.functions.push(Function { end_instr: 3, ..Function::packed("other") });
    let text = print(&exec);
    exec.functions.last_mut().unwrap().end_instr = 0;
    let back = parse(&text).unwrap();
    // NaN is not equal to itself, so the text is compared as well as the rest.
    assert_eq!(print(&back), text);
    assert_eq!(to_bytes(&back), to_bytes(&exec));
    let error = parse("@main(x) regs=1:\n  call f in: %0 dst: %9x").unwrap_err();
    assert_eq!(error.to_string(), "line 2: `x` is left over");
    assert!(parse("  ret %0").unwrap_err().to_string().contains("outside a function"));
}
