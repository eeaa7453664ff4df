//! Executables from outside: bytes or text that claim to be one.
//!
//! A program that TVM or Reflex made calls kernels that are not here; every name is provided, and
//! such a kernel reads each byte of each tensor argument, so that the address sanitizer
//! sees a tensor that reaches beyond its memory.

use std::hint::black_box;
use std::sync::Arc;

use reflex_cranelift::{CompileMode, CraneliftTier, TierOptions};
use reflex_runtime::alloc::device;
use reflex_runtime::array::Array;
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::shape::Shape;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::bytecode::{Arg, Instr, Reg};
use reflex_vm::executable::{Constant, Executable, FuncKind};
use reflex_vm::load::Library;
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::serialize::{MAGIC_V2, from_bytes, to_bytes};
use reflex_vm::session::{Options, Session};
use reflex_vm::tier::Tier;
use reflex_vm::verify::verify;
use reflex_vm::{listing, text};

use crate::host;

/// The limits of a case: untrusted programs are bounded by these alone.
const FUEL: u64 = 2_000;
const MEMORY: usize = 64 << 20;
const DEPTH_LIMIT: u32 = 100;
const STACK_SLOTS: usize = 1 << 16;
/// Largest dimension of arguments.
const MAX_DIM: i64 = 32;

/// The last stage that a case reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reached {
    /// Refused by the reader, with the offset.
    Nothing,
    /// Read, and refused by the verifier.
    Read,
    /// Verified, and refused by the loader.
    Verified,
    /// Some function of it ran, to an end or an error.
    Ran,
}

/// Bytes are refused with an offset inside them, or are an executable that is written back as it
/// was, and is refused by the verifier or runs, in every mode, to a result or an error.
pub fn blob(bytes: &[u8]) -> Reached {
    let exec = match from_bytes(bytes) {
        Ok(exec) => exec,
        Err(error) => {
            assert!(error.offset <= bytes.len(), "{error}");
            return Reached::Nothing;
        }
    };
    let saved = to_bytes(&exec);
    if bytes.starts_with(&MAGIC_V2.to_le_bytes()) {
        assert!(saved == bytes, "read and written back is something else");
    } else {
        let again = from_bytes(&saved).expect("what was written is readable");
        assert!(to_bytes(&again) == saved, "the older form does not survive being saved");
    }
    executable(&exec)
}

/// A listing is refused with its line, or reads back from what it prints, and its executable is
/// refused by the verifier or runs.
pub fn listing(text: &str) -> Reached {
    let exec = match listing::parse(text) {
        Ok(exec) => exec,
        Err(error) => {
            assert!(error.line <= text.lines().count().max(1), "{error}");
            return Reached::Nothing;
        }
    };
    executable(&exec)
}

/// The oracle over any executable, well formed or not.
pub fn executable(exec: &Executable) -> Reached {
    let Ok(verified) = verify(exec.clone()) else { return Reached::Read };
    prints(exec);
    let Ok(program) = Program::load(verified, &[&Everything]) else { return Reached::Verified };
    in_every_mode(&Arc::new(program), &argument);
    Reached::Ran
}

/// A value for a parameter of a function.
pub(crate) type Argument<'a> = &'a dyn Fn(&Executable, u32, u32) -> Any;

/// Runs every function of a program in every mode.
pub(crate) fn in_every_mode(program: &Arc<Program>, argument: Argument<'_>) {
    device::set_memory_limit(MEMORY);
    run(program, Mode::Bytecode, argument);
    let tier = CraneliftTier::with_options(TierOptions {
        threshold: 2,
        exit_threshold: 3,
        compile_mode: CompileMode::Synchronous,
        ..TierOptions::default()
    });
    let tier = Arc::new(tier.expect("generated code runs here"));
    assert!(program.attach(Arc::clone(&tier) as Arc<dyn Tier>));
    run(program, Mode::Tiered, argument);
    program.compile_ahead_of_time();
    run(program, Mode::Compiled, argument);
}

/// Every text form of a verified executable can be made, and the listing reads back.
fn prints(exec: &Executable) {
    let printed = listing::print(exec);
    let again = listing::parse(&printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
    // The code moves where functions do not lie in the order of their table.
    assert_eq!(listing::print(&again), printed);
    black_box((text::as_text(exec), text::as_python(exec), text::as_rust(exec), text::stats(exec)));
}

fn run(program: &Arc<Program>, mode: Mode, argument: Argument<'_>) {
    let options =
        Options { mode, depth_limit: DEPTH_LIMIT, stack_slots: STACK_SLOTS, ..Options::default() };
    let mut session = Session::new(program, options).expect("a session can be made");
    let exec = program.executable();
    for func in 0..exec.functions.len() as u32 {
        let Some(code) = program.function(func) else { continue };
        if code.num_args > 64 {
            continue;
        }
        let args: Vec<Any> = (0..code.num_args).map(|reg| argument(exec, func, reg)).collect();
        for _ in 0..3 {
            session.set_fuel(Some(FUEL));
            match session.call_func(func, AnyView::slice(&args)) {
                Ok(value) => black_box(host::describe(value.view())),
                Err(error) => black_box(error.to_string()),
            };
        }
    }
    host::take_log();
}

/// A value for parameter `reg`, of the type that the function's own checks ask for.
fn argument(exec: &Executable, func: u32, reg: u32) -> Any {
    let function = &exec.functions[func as usize];
    let reg = Arg::Reg(Reg(i64::from(reg)));
    let (mut shape, mut dtype) = (vec![2, 2], DType::F32);
    if function.kind == FuncKind::Vm {
        for at in function.start_instr..function.end_instr {
            let Ok(Instr::Call { callee, args, .. }) = exec.instr(at as usize) else { continue };
            let args: Vec<Arg> = args.iter().flatten().collect();
            if args.first() != Some(&reg) {
                continue;
            }
            match exec.functions[callee as usize].name.as_str() {
                "vm.builtin.check_tensor_info" => dtype = dtype_in(exec, &args).unwrap_or(dtype),
                "vm.builtin.match_shape" => shape = shape_in(&args),
                "vm.builtin.check_shape_info" => return Shape::new(&[2, 3]).into(),
                "vm.builtin.check_prim_value_info" => return 3_i64.into(),
                "vm.builtin.check_string_info" => return "text".into(),
                "vm.builtin.check_tuple_info" => {
                    return Array::new([Any::from(1_i64), Any::from(2_i64)]).into();
                }
                _ => {}
            }
        }
    }
    Tensor::zeros(&shape, dtype).map_or(Any::NONE, Any::from)
}

fn dtype_in(exec: &Executable, args: &[Arg]) -> Option<DType> {
    args.iter().find_map(|arg| match arg {
        Arg::Const(index) => match exec.constants[*index as usize] {
            Constant::DType(dtype) => Some(dtype),
            _ => None,
        },
        _ => None,
    })
}

/// The shape that `match_shape(x, heap, n, (code, dim) * n, context)` checks for.
fn shape_in(args: &[Arg]) -> Vec<i64> {
    let pairs = args.get(3..args.len().saturating_sub(1)).unwrap_or_default();
    let dim = |pair: &[Arg]| match pair {
        [Arg::Imm(0), Arg::Imm(dim)] if (0..=MAX_DIM).contains(dim) => *dim,
        _ => 2,
    };
    pairs.chunks_exact(2).take(6).map(dim).collect()
}

/// Provides every function that a program imports.
pub(crate) struct Everything;

impl Library for Everything {
    fn function(&self, name: &str) -> Option<Function> {
        Some(host::library().remove(name).unwrap_or_else(|| Function::new(kernel)))
    }
}

/// A kernel that reads its tensor arguments.
fn kernel(args: &[AnyView<'_>]) -> Result<Any, Error> {
    for arg in args {
        if let Some(tensor) = arg.downcast_ref::<Tensor>() {
            let size = tensor.nbytes();
            let bytes = tensor.view(0, &[size as i64], DType::U8)?;
            let ends = [(0, size.min(4096)), (size - size.min(4096), size.min(4096))];
            for (start, count) in ends {
                black_box(bytes.view(start, &[count as i64], DType::U8)?.to_vec::<u8>()?);
            }
        }
    }
    Ok(Any::NONE)
}
