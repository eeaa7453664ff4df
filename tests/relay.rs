//! Executables of TVM's Relay virtual machine, made here, in every mode: each opcode, values to and from
//! callers, bad input. Kernels are registered functions.

#[path = "relay/programs.rs"]
mod programs;

use programs::{f32s, load, run, show};
use reflex::{Any, Engine, Mode, ModelFormat, ModelSource, Tensor, Tuple};
use reflex_relay::instr::Instr;
use reflex_relay::verify::Verified;
use reflex_relay::write::write;

#[test]
fn tensors_are_allocated_and_kernels_called() {
    let program = load(&programs::add_constant());
    let x = f32s(&[2], &[1.0, 2.0]);
    assert_eq!(run(&program, "main", &[x]), Ok("float32[2]{11, 22}".to_owned()));
}

#[test]
fn shapes_at_run_time_and_copies() {
    let program = load(&programs::dynamic());
    for rows in [1, 3, 4] {
        let x = f32s(&[rows, 2], &vec![1.0; 2 * rows as usize]);
        let ones = vec!["2"; 2 * rows as usize].join(", ");
        let expected = format!("float32[{}]{{{ones}}}", 2 * rows);
        assert_eq!(run(&program, "main", &[x]), Ok(expected));
    }
}

#[test]
fn recursion_compares_scalars_of_any_width() {
    let program = load(&programs::sum_up());
    for n in [0_i32, 1, 30] {
        let given = Any::from(Tensor::from_slice(&[], &[n]).unwrap());
        let expected = format!("int32[]{{{}}}", n * (n + 1) / 2);
        assert_eq!(run(&program, "main", &[given]), Ok(expected));
    }
}

#[test]
fn lists_are_folded_through_closures() {
    let program = load(&programs::fold());
    for values in [&[][..], &[1.0], &[1.0, 2.0, 3.0, 4.0]] {
        let list = programs::list(values);
        let sum: f32 = values.iter().sum();
        // The closure adds its free variable, which comes before its arguments, at each step.
        let expected = format!("float32[1]{{{}}}", sum + 10.0 * values.len() as f32);
        assert_eq!(run(&program, "main", &[list, f32s(&[1], &[10.0])]), Ok(expected));
    }
}

#[test]
fn a_value_that_no_pattern_fits_ends_the_run() {
    let program = load(&programs::fold());
    let other = Any::from(Tuple::new([Any::from(5_i64)]));
    let error = run(&program, "main", &[other, f32s(&[1], &[0.0])]).unwrap_err();
    assert!(error.contains("the program ran into `Fatal`: function `fold`"), "{error}");
}

#[test]
fn data_values_pass_between_caller_and_program() {
    let program = load(&programs::values());
    let (a, b) = (f32s(&[1], &[1.0]), f32s(&[1], &[2.0]));
    // A tuple has no tag outside; values of data types keep theirs, also in tuples.
    let pair = Any::from(Tuple::new([a.clone(), b.clone()]));
    let swapped = "(float32[1]{2}, float32[1]{1})";
    assert_eq!(run(&program, "swap", &[pair]), Ok(swapped.to_owned()));
    let nested = Any::from(Tuple::new([programs::list(&[7.0]), b]));
    let expected = "(float32[1]{2}, (-100, float32[1]{7}, (-99)))";
    assert_eq!(run(&program, "swap", &[nested]), Ok(expected.to_owned()));
    assert_eq!(run(&program, "unit", &[]), Ok("()".to_owned()));
    assert_eq!(run(&program, "tag", &[programs::list(&[])]), Ok("int32[1]{-99}".to_owned()));
    assert_eq!(run(&program, "wide", &[]), Ok("int64[1]{9223372036854775807}".to_owned()));
    // A number is a scalar tensor, as in TVM's Python.
    assert_eq!(run(&program, "same", &[Any::from(7_i64)]), Ok("int32[]{7}".to_owned()));
    assert_eq!(run(&program, "same", &[Any::from(0.5)]), Ok("float32[]{0.5}".to_owned()));
    assert!(
        run(&program, "same", &[Any::from(1_i64 << 40)]).unwrap_err().contains("exceeds int32")
    );
    let error = run(&program, "swap", &[a]).unwrap_err();
    assert!(error.contains("expected `ffi.Array`"), "{error}");
}

#[test]
fn a_closure_that_is_returned_can_be_called() {
    let program = load(&programs::values());
    for mode in Mode::ALL {
        let mut session = program.session(mode).unwrap();
        let closure = session.call_values("bind", &[f32s(&[1], &[3.0])]).unwrap();
        let given = f32s(&[1], &[4.0]);
        let pair = session.invoke_closure(&closure, &[given.view()]).unwrap();
        // The free variable is the first parameter. Inside, tuples have tag 0.
        assert_eq!(show(&pair), "(0, float32[1]{3}, float32[1]{4})", "{mode}");
    }
}

#[test]
fn kernels_get_fields_of_tuples_and_are_not_called_for_empty_outputs() {
    let program = load(&programs::kernels());
    let pair = Any::from(Tuple::new([f32s(&[1], &[1.0]), f32s(&[1], &[2.0])]));
    assert_eq!(run(&program, "sum_pair", &[pair]), Ok("float32[1]{3}".to_owned()));
    assert_eq!(run(&program, "empty", &[f32s(&[0], &[])]), Ok("float32[0]{}".to_owned()));
    // With two outputs the kernel is called, whatever they are.
    let error = run(&program, "empty_of_two", &[f32s(&[0], &[])]).unwrap_err();
    assert!(error.contains("the kernel was called"), "{error}");
}

#[test]
fn booleans_take_a_byte() {
    let program = load(&programs::booleans());
    let yes = Any::from(Tensor::from_slice(&[], &[4_i32]).unwrap());
    assert_eq!(run(&program, "main", &[yes]), Ok("bool[]{true}".to_owned()));
}

#[test]
fn long_lists_need_no_native_stack() {
    let program = load(&programs::values());
    let values = vec![1.0; 100_000];
    let pair = Any::from(Tuple::new([programs::list(&values), f32s(&[1], &[2.0])]));
    let mut session = program.session(Mode::Bytecode).unwrap();
    let swapped = session.call_values("swap", &[pair]).unwrap();
    let prepared = swapped.downcast_ref::<Tuple>().unwrap();
    assert_eq!(prepared.len(), 2);
}

#[test]
fn stored_inputs_are_kept_as_in_tvm() {
    let program = load(&programs::add_constant());
    let mut session = program.session(Mode::Tiered).unwrap();
    assert_eq!(session.param_names("main").unwrap(), ["x"]);
    session.set_input("main", vec![f32s(&[2], &[0.0, 0.0])]).unwrap();
    session.invoke_stateful("main").unwrap();
    assert_eq!(show(&session.get_outputs("main").unwrap()[0]), "float32[2]{10, 20}");
    let program = load(&programs::values());
    let mut session = program.session(Mode::Tiered).unwrap();
    let pair = Any::from(Tuple::new([f32s(&[1], &[1.0]), f32s(&[1], &[2.0])]));
    session.set_input("swap", vec![pair]).unwrap();
    session.invoke_stateful("swap").unwrap();
    assert_eq!(session.output_arity("swap", &[]).unwrap(), 2);
    assert_eq!(show(&session.get_output("swap", &[1]).unwrap()), "float32[1]{1}");
}

#[test]
fn fuel_ends_loops() {
    let program = load(&programs::endless());
    for mode in Mode::ALL {
        let mut session = program.session(mode).unwrap();
        session.set_fuel(Some(1000));
        let error = session.call_values("main", &[]).unwrap_err();
        assert_eq!(error.kind(), reflex::ErrorKind::FuelExhausted, "{mode}");
    }
}

#[test]
fn files_are_opened_with_what_is_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program.ro");
    std::fs::write(&path, write(&programs::late_bound())).unwrap();
    let engine = programs::engine();
    let error = engine.load(&path).err().unwrap().to_string();
    assert!(error.contains("late-bound constants without a value: c"), "{error}");
    let constants = folder.path().join("program.params");
    std::fs::write(&constants, programs::params()).unwrap();
    let source = ModelSource::from(&path).params(&constants);
    let program = engine.load(source.clone()).unwrap();
    let x = f32s(&[2], &[1.0, 2.0]);
    assert_eq!(run(&program, "main", &[x]), Ok("float32[2]{11, 22}".to_owned()));
    assert_eq!(program.functions(), ["main"]);
    assert!(program.relay_listing().unwrap().contains("VM Function[0]: main(x)"));
    assert!(program.as_text().contains("@relay.body.main"));
    let info = Engine::info(source.clone()).unwrap();
    assert_eq!(info.kind, "Relay executable, compiled by TVM 0.16.0");
    let error = engine.load(source.kernels(folder.path().join("no.so"))).err().unwrap();
    assert_eq!(error.kind(), reflex::ErrorKind::Io);
    let error = program.save(folder.path().join("copy.so")).unwrap_err();
    assert_eq!(error.kind(), reflex::ErrorKind::Unsupported);
}

#[test]
fn missing_kernels_are_named() {
    let bytes = write(&programs::unknown_kernel());
    let source = ModelSource::bytes(ModelFormat::RelayExecutable, bytes);
    let error = Engine::new().unwrap().load(source).err().unwrap().to_string();
    assert!(error.contains("test.relay.unknown"), "{error}");
    assert!(error.contains("no library of kernels was given"), "{error}");
}

/// Bits are flipped, ten thousand of them in `./x test --relay`: each file is refused, or runs in each mode, and the
/// modes agree on an answer or on failing. Programs with data values, matches, closures and shapes at run time take turns.
/// Of five flips one is anywhere in the file, which the hash of an instruction finds; the others are in an
/// instruction, whose hash is then right.
#[test]
fn flips_of_bits_are_errors_or_the_same_answer_in_every_mode() {
    let flips = if std::env::var_os("REFLEX_RELAY_PYTHON").is_some() { 10_000 } else { 1_000 };
    let number = Any::from(Tensor::from_slice(&[], &[3_i32]).unwrap());
    let list = programs::list(&[1.0, 2.0]);
    let files: [(Verified, Vec<Any>); 5] = [
        (programs::fold(), vec![list, f32s(&[1], &[10.0])]),
        (programs::sum_up(), vec![number]),
        (programs::dynamic(), vec![f32s(&[3, 2], &[1.0; 6])]),
        (programs::booleans(), vec![f32s(&[1], &[2.0])]),
        (programs::add_constant(), vec![f32s(&[2], &[1.0, 2.0])]),
    ];
    let engine = programs::engine();
    let (mut refused, mut failed, mut answered, mut unwritten) = (0, 0, 0, 0);
    for flip in 0..flips {
        let (exec, args) = &files[flip % files.len()];
        let turn = flip / files.len();
        let bad = match turn % 5 {
            0 => flipped_anywhere(exec, turn / 5),
            _ => flipped_in_instruction(exec, turn),
        };
        let source = ModelSource::bytes(ModelFormat::RelayExecutable, bad);
        let Ok(program) = engine.load(source) else {
            refused += 1;
            continue;
        };
        let mut answers = vec![];
        for mode in Mode::ALL {
            let program = program.fork().expect("the same program");
            for turn in 0..4 {
                // A session of its own has no memory from the call before.
                let mut session = program.session(mode).expect("a session");
                session.set_fuel(Some(10_000));
                let held = disturbed(turn);
                let answer = session.call_values("main", args);
                answers.push((mode, answer.map(|value| show(&value)).map_err(|e| e.to_string())));
                drop(held);
            }
        }
        let first = &answers[0].1;
        // The calls of a mode differ where a damaged program returns what nothing has written. In a block from the
        // pool that is a link of its free list first, and a sum may round it away.
        let alike =
            |calls: &[(Mode, Result<String, String>)]| calls.iter().all(|it| it.1 == calls[0].1);
        let is_written = answers.chunks(4).all(alike);
        let same = |other: &Result<String, String>| match (first, other) {
            (Ok(a), Ok(b)) => a == b || (!is_written && kind(a) == kind(b)),
            (a, b) => a.is_err() && b.is_err(),
        };
        let differs = answers.iter().find(|(_, answer)| !same(answer));
        assert!(differs.is_none(), "flip {flip}: {answers:?}");
        unwritten += usize::from(first.is_ok() && !is_written);
        *if first.is_ok() { &mut answered } else { &mut failed } += 1;
    }
    println!(
        "relay: {flips} flips in each mode: {refused} refused, {failed} fail, {answered} answer, \
         {unwritten} of them what nothing wrote"
    );
    assert!(refused > flips / 10 && failed + answered > flips / 10, "{refused} of {flips}");
    // Most flips leave a program that writes what it returns.
    assert!(unwritten <= flips / 100, "{unwritten} of {flips}");
}

/// Makes the memory that small tensors get next other memory with other numbers, in every turn: that of free tensors and,
/// by tensors of a rank that is not kept whole, that of free blocks. The result is held meanwhile.
fn disturbed(turn: usize) -> Vec<Any> {
    let filled = |size: i64| {
        let numbers = vec![turn as f32 + 0.5; size as usize];
        [f32s(&[size], &numbers), f32s(&[1, 1, 1, 1, size], &numbers)]
    };
    let held = (1..=16).flat_map(|size| vec![size; turn]).flat_map(filled).collect();
    drop((1..=16).flat_map(|size| [size; 8]).flat_map(filled).collect::<Vec<Any>>());
    held
}

/// An answer without the numbers of its tensors.
fn kind(answer: &str) -> String {
    let parts = answer.split('{').map(|part| part.split_once('}').map_or(part, |(_, rest)| rest));
    parts.collect()
}

fn flipped_anywhere(exec: &Verified, turn: usize) -> Vec<u8> {
    let mut bytes = write(exec);
    // A prime step visits bits of every kind.
    let bit = turn * 13 % (bytes.len() * 8);
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes
}

/// Flips one of the low bits of a field, or of the opcode; the high ones make what no file has.
fn flipped_in_instruction(exec: &Verified, turn: usize) -> Vec<u8> {
    let mut exec = exec.clone().into_inner();
    let count: usize = exec.functions.iter().map(|function| function.code.len()).sum();
    let mut at = turn % count;
    let (turn, dialect) = (turn / count, exec.dialect);
    for function in &mut exec.functions {
        if at < function.code.len() {
            let instr = &function.code[at];
            let (mut opcode, mut fields) = (instr.opcode(), instr.fields(dialect));
            let (field, bit) = (turn % (fields.len() + 1), turn / (fields.len() + 1) % 12);
            match fields.get_mut(field) {
                Some(field) => *field ^= 1 << bit,
                None => opcode ^= 1 << (bit % 5),
            }
            if let Ok(instr) = Instr::decode(dialect, opcode, &fields) {
                function.code[at] = instr;
            }
            break;
        }
        at -= function.code.len();
    }
    write(&exec)
}
