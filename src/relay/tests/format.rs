//! Files and listings: round trips in every dialect, and what is refused.

use reflex_relay::builder::Builder;
use reflex_relay::executable::{Constant, Device, Dialect, Executable, Params};
use reflex_relay::instr::{BadInstr, Instr, StorageSize, hash};
use reflex_relay::lower::{LowerError, lower};
use reflex_relay::read::{ReadError, Section, is_executable, read};
use reflex_relay::verify::verify;
use reflex_relay::write::write;
use reflex_relay::{params, text};
use reflex_runtime::dtype::DType;
use reflex_vm::executable::{ConstData, TensorConst};

fn scalar(value: i64) -> TensorConst {
    let data = ConstData::copy_of(&value.to_le_bytes());
    TensorConst { dtype: DType::I64, shape: Box::new([]), data }
}

/// Every instruction that a dialect has.
fn every_instruction(dialect: Dialect) -> Executable {
    let mut b = Builder::new(dialect);
    let device = i64::from(dialect == Dialect::V8);
    let (size, kernel) = (b.constant(scalar(64)), b.primitive("vm_mod_add"));
    let (main, inner) = (b.declare("main"), b.declare("inner"));
    let storage =
        |size, dst| Instr::AllocStorage { size, alignment: 64, dtype: DType::F32, device, dst };
    let dtype = DType::F32;
    let mut code = vec![
        Instr::LoadConst { constant: size, device: 0, dst: 1 },
        storage(StorageSize::Bytes(1), 2),
        Instr::LoadConsti { value: 0, dst: 3 },
        Instr::AllocTensor { storage: 2, offset: 3, dtype, shape: vec![2, 3], dst: 4 },
        Instr::ShapeOf { tensor: 4, dst: 5 },
        Instr::AllocTensorReg { storage: 2, offset: 3, shape: 5, dtype: DType::BF16, dst: 6 },
        Instr::InvokePacked { primitive: kernel, outputs: 1, args: vec![0, 4, 6] },
        Instr::ReshapeTensor { tensor: 6, shape: 5, dst: 7 },
        Instr::AllocAdt { tag: -2_013_265_920, fields: vec![6, 7], dst: 8 },
        Instr::AllocAdt { tag: 0, fields: vec![], dst: 9 },
        Instr::AllocClosure { func: inner, free: vec![8], dst: 10 },
        Instr::InvokeClosure { closure: 10, args: vec![9], dst: 11 },
        Instr::Invoke { func: inner, args: vec![8, 9], dst: 11 },
        Instr::GetField { object: 11, index: 0, dst: 12 },
        Instr::GetTag { object: 11, dst: 13 },
        Instr::DeviceCopy { src: 12, src_device: device, dst_device: device, dst: 14 },
        Instr::Move { from: 14, dst: 14 },
        Instr::If { test: 13, target: 3, equal: 2, unequal: 1 },
        Instr::Goto { offset: 1 },
        Instr::Ret { result: 14 },
        Instr::Fatal,
    ];
    if dialect == Dialect::V14 {
        code.insert(2, storage(StorageSize::Shape(vec![2, 3]), 2));
    }
    if dialect != Dialect::V8 {
        code.insert(1, Instr::KillRegister { dst: 14 });
        b.late_bound("weight");
    }
    b.define(main, &["x"], code);
    b.define(inner, &["captured", "given"], vec![Instr::Ret { result: 0 }]);
    b.finish().expect("valid").into_inner()
}

#[test]
fn files_are_written_as_they_were_read() {
    for dialect in Dialect::ALL {
        let mut exec = every_instruction(dialect);
        exec.attributes = vec![(0, vec![("hash".to_owned(), "17".to_owned())])];
        let bytes = write(&exec);
        assert!(is_executable(&bytes));
        assert_eq!(read(&bytes).unwrap(), exec, "{dialect}");
        assert_eq!(write(&read(&bytes).unwrap()), bytes, "{dialect}");
        // `Module.save` writes the length first.
        let with_length = [&(bytes.len() as u64).to_le_bytes()[..], &bytes].concat();
        assert_eq!(read(&with_length).unwrap(), exec);
    }
}

#[test]
fn development_versions_may_be_of_the_dialect_beside_theirs() {
    let mut exec = every_instruction(Dialect::V9);
    exec.version = "0.14.dev12".to_owned();
    assert_eq!(read(&write(&exec)).unwrap(), exec);
    exec.version = "0.14.0".to_owned();
    assert!(read(&write(&exec)).is_err());
}

#[test]
fn listings_are_read_as_they_were_printed() {
    for dialect in Dialect::ALL {
        let exec = every_instruction(dialect);
        let listing = text::listing(&exec);
        assert_eq!(text::parse(&listing, dialect).unwrap(), exec.functions, "{listing}");
    }
    let exec = every_instruction(Dialect::V14);
    let listing = text::listing(&exec);
    let lines: Vec<&str> = listing.lines().collect();
    assert_eq!(lines[0], "VM Function[0]: main(x)");
    assert_eq!(lines[1], "# reg file size = 15");
    assert_eq!(lines[3], "opcode, fields # inst(text):");
    assert_eq!(lines[4], " 0: 11 0 0 1                              # load_const $1 Const[0] 0");
    assert_eq!(
        lines[7],
        " 3: 16 0 64 2 32 1 0 2 2 2 3              # alloc_storage $2 [2, 3] float32 0"
    );
    let tables = text::tables(&exec);
    assert!(tables.starts_with("VM VirtualDevice[0]: device type 1, id 0 and mem_scope \n"));
    assert!(tables.contains("VM Const[1]: late-bound weight on device index 0\n"), "{tables}");
}

#[test]
fn listings_that_say_two_things_are_refused() {
    let listing = text::listing(&every_instruction(Dialect::V14));
    let cases = [
        ("load_const $1 Const[0] 0", "load_const $2 Const[0] 0", 5, "the words say otherwise"),
        ("VM Function[1]", "VM Function[2]", 29, "expected `VM Function[1]"),
        ("# reg file size = 15", "# reg file size = many", 2, "expected `# reg file size = N`"),
        (" 0: 11 0 0 1 ", " 0: 99 0 0 1 ", 5, "unknown opcode 99"),
        (" 0: 11 0 0 1 ", " 0: 11 0 1 ", 5, "load_const with 2 fields, expected 3"),
        ("# instruction count = 23", "# instruction count = 24", 28, "expected `23: OPCODE"),
    ];
    for (from, to, line, reason) in cases {
        let error = text::parse(&listing.replacen(from, to, 1), Dialect::V14).unwrap_err();
        assert_eq!(error.line, line, "{error}");
        assert!(error.reason.contains(reason), "{error}");
    }
}

#[test]
fn the_pointer_that_tvm_leaves_in_storages_is_dropped() {
    let fields = [94_576_021_329_184, 64, 2, 32, 1, 0, 1, 5, 8];
    let instr = Instr::decode(Dialect::V14, 16, &fields).unwrap();
    assert_eq!(instr.fields(Dialect::V14), [0, 64, 2, 32, 1, 0, 1, 5, 8]);
    let mut reads = vec![];
    instr.for_each_read(|register| reads.push(register));
    assert!(reads.is_empty(), "no register");
}

#[test]
fn hashes_are_those_of_tvm() {
    // The first instruction of a file that TVM 0.16 wrote: `load_const $2 Const[0] 0`.
    assert_eq!(hash(15, &[]), 15);
    let key = 11_u64;
    let step = |key: u64, field: u64| {
        key ^ (field + 0x9e37_79b9).wrapping_add(key << 6).wrapping_add(key >> 2)
    };
    assert_eq!(hash(11, &[0, 0, 2]), step(step(step(key, 0), 0), 2));
    let opcodes = [(20, Dialect::V8), (21, Dialect::V14), (-1, Dialect::V14)];
    for (opcode, dialect) in opcodes {
        assert_eq!(Instr::decode(dialect, opcode, &[1]), Err(BadInstr::Opcode(opcode)));
    }
}

#[test]
fn damaged_files_are_refused_with_section_and_offset() {
    let exec = every_instruction(Dialect::V14);
    let bytes = write(&exec);
    let error = |bytes: &[u8]| -> ReadError { read(bytes).unwrap_err() };
    assert_eq!((error(b"").section, error(b"").offset), (Section::Header, 0));
    for end in 0..bytes.len() {
        assert!(error(&bytes[..end]).offset <= end, "{end}");
    }
    let mut flipped = bytes.clone();
    let last = flipped.len() - 8;
    flipped[last] ^= 1;
    let text = error(&flipped).to_string();
    assert!(text.contains("code section, byte ") && text.contains("hash"), "{text}");
    let longer = [&bytes[..], b"x"].concat();
    assert_eq!(error(&longer).reason, "1 bytes are left over");
    let mut other = exec.clone();
    other.version = "0.25.0".to_owned();
    assert_eq!(error(&write(&other)).reason, "written by TVM \"0.25.0\"; expected 0.8 to 0.19");
    other.version = "0.14".to_owned();
    assert!(error(&write(&other)).reason.contains("Relax"));
    assert!(!is_executable(&write(&other)[..20]));
}

/// Every bit of a file, flipped: an error, or an executable that is lowered or refused.
#[test]
fn flips_of_bits_are_refused_or_lowered() {
    let bytes = write(&every_instruction(Dialect::V14));
    let mut lowered = 0;
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        if let Ok(mut exec) = read(&bad) {
            let _ = exec.bind(&Params::from([("weight".to_owned(), scalar(1))]));
            if let Ok(exec) = verify(exec) {
                lowered += usize::from(lower(&exec).is_ok());
            }
        }
    }
    assert!(lowered > 0, "flips of tensors' data and names change no structure");
}

#[test]
fn every_fault_is_listed_with_its_place() {
    let mut exec = every_instruction(Dialect::V14);
    exec.host_device = 3;
    exec.constant_devices.pop();
    exec.globals.push("nothing".to_owned());
    exec.attributes = vec![(9, vec![])];
    exec.functions[0].code[0] = Instr::LoadConst { constant: 8, device: 0, dst: 1 };
    exec.functions[0].code[1] = Instr::Goto { offset: 0 };
    exec.functions[0].code[2] = Instr::Invoke { func: 1, args: vec![0], dst: 1 };
    exec.functions[0].code[3] = Instr::Ret { result: 99 };
    exec.functions[1].code[0] = Instr::Move { from: 0, dst: 1 };
    let error = verify(exec).unwrap_err();
    let text = error.to_string();
    for part in [
        "device section, host: 3 of 1 devices",
        "constant section, devices: 1 devices for 2 constants",
        "primitive section, attributes: of primitive 9 of 1",
        "global section, global 2: `nothing` is a second global, or has no code",
        "code section, function `main`, instruction 0 (load_const): constant 8 of 2",
        "instruction 1 (goto): it jumps to itself",
        "instruction 2 (invoke): 1 values for the 2 of `inner`",
        "instruction 3 (ret): register $99 of 15",
        "function `inner`: its code runs past its end",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let mut b = Builder::new(Dialect::V14);
    let main = b.declare("main");
    let kill = Instr::KillRegister { dst: 3 };
    b.define(main, &[], vec![kill, Instr::Ret { result: 3 }]);
    let error = b.finish().unwrap_err().to_string();
    assert!(error.contains("register $3 is read, and nothing writes it"), "{error}");
}

#[test]
fn late_bound_constants_are_bound_by_name() {
    let mut exec = every_instruction(Dialect::V14);
    assert_eq!(exec.late_bound(), ["weight"]);
    let error = lower(&verify(exec.clone()).unwrap()).unwrap_err();
    assert!(matches!(error, LowerError::Unbound(names) if names == ["weight"]));
    let given = Params::from([("weight".to_owned(), scalar(3))]);
    let bytes = params::write(&given);
    assert_eq!(params::read(&bytes).unwrap(), given);
    for end in 0..bytes.len() {
        assert_eq!(params::read(&bytes[..end]).unwrap_err().section, Section::Params);
    }
    let none = exec.bind(&Params::new()).unwrap_err().to_string();
    assert_eq!(none, "no value for the late-bound constants weight");
    let mut more = given.clone();
    more.insert("other".to_owned(), scalar(0));
    let unused = exec.bind(&more).unwrap_err().to_string();
    assert_eq!(unused, "no late-bound constant is called other");
    exec.bind(&given).unwrap();
    assert_eq!(exec.constants[1], Constant::Tensor(scalar(3)));
    assert!(lower(&verify(exec).unwrap()).is_ok());
}

#[test]
fn devices_and_names_that_are_not_built_are_refused() {
    let mut exec = every_instruction(Dialect::V14);
    exec.bind(&Params::from([("weight".to_owned(), scalar(3))])).unwrap();
    let refused = |exec: Executable| lower(&verify(exec).unwrap()).unwrap_err().to_string();
    let mut other = exec.clone();
    other.devices.push(Device { kind: 2, id: 0, scope: String::new() });
    let expected = "device 1: device type 2 is not supported; programs run on the CPU, type 1";
    assert_eq!(refused(other), expected);
    let mut other = exec.clone();
    other.devices[0].scope = "texture".to_owned();
    assert!(refused(other).contains("memory scope `texture` is not supported"));
    let mut other = exec.clone();
    other.primitives[0] = "main".to_owned();
    assert!(refused(other).contains("`main` cannot be a function's and a kernel's"));
    let mut other = exec;
    other.primitives[0] = "vm.builtin.copy".to_owned();
    assert!(refused(other).contains("nor begin with"));
}
