//! Objects that a program keeps are made by machine code, on whatever thread its session is.

#[path = "common/alone.rs"]
mod alone;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use alone::alone;
use reflex_cranelift::{CompileMode, CraneliftTier, ForcedExits, TierOptions};
use reflex_runtime::alloc::device::{CPU, DeviceAllocator, set_memory_limit};
use reflex_runtime::alloc::pool::heap_allocations;
use reflex_runtime::array::Array;
use reflex_runtime::function::{self, Function};
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::Any;
use reflex_vm::listing;
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::tier::Tier;
use reflex_vm::verify::verify;

/// A list of `n` links, each a number and a tensor of its own.
const LIST: &str = r#"
const c[0] = shape [2]
const c[1] = dtype float32
@main(n) regs=6:
  call  vm.builtin.make_tuple in: i0 dst: %1
  call  vm.builtin.alloc_storage in: %vm, c[0], i0, c[1] dst: %2
  call  vm.builtin.alloc_tensor in: %2, i0, c[0], c[1] dst: %3
  call  vm.builtin.null_value in: dst: %2
  call  fill in: %3, %0 dst: %void
  call  vm.builtin.make_tuple in: %0, %3, %1 dst: %1
  call  vm.builtin.null_value in: dst: %3
  call  add in: %0, i-1 dst: %0
  If    %0, 2
  goto  -8
  ret   %1
"#;

fn session(
    mode: Mode,
    forced_exits: Option<(u64, u32)>,
) -> (Session, Arc<CraneliftTier>, Arc<Program>) {
    let fill = Function::new(|args| {
        let (tensor, value): (Tensor, i64) = (function::arg(args, 0)?, function::arg(args, 1)?);
        // SAFETY: the tensor is new, and has two floats.
        unsafe { tensor.data_ptr().cast::<[f32; 2]>().write([value as f32, 1.0]) };
        Ok(Any::NONE)
    });
    let add = Function::new(|args| {
        Ok(Any::from(function::arg::<i64>(args, 0)? + function::arg::<i64>(args, 1)?))
    });
    let library: HashMap<String, Function> =
        [("fill", fill), ("add", add)].map(|(name, f)| (name.to_owned(), f)).into();
    let program = verify(listing::parse(LIST).unwrap()).unwrap();
    let program = Program::load(program, &[&library]).unwrap();
    let options = TierOptions {
        threshold: 2,
        compile_mode: CompileMode::Synchronous,
        record_delay: Duration::ZERO,
        forced_exits: forced_exits.map(|(seed, one_in)| Arc::new(ForcedExits::new(seed, one_in))),
        ..TierOptions::default()
    };
    let tier = Arc::new(CraneliftTier::with_options(options).unwrap());
    program.attach(Arc::clone(&tier) as Arc<dyn Tier>);
    if mode == Mode::Compiled {
        assert_eq!(program.compile_ahead_of_time(), []);
    }
    let program = Arc::new(program);
    let session = Session::new(&program, Options { mode, ..Options::default() }).unwrap();
    (session, tier, program)
}

/// The numbers in a list and those in its tensors.
fn read(list: &Any) -> Vec<(i64, f32)> {
    let (mut seen, mut at) = (Vec::new(), list.clone());
    loop {
        let link: Array = at.clone().try_into().unwrap();
        let [number, tensor, rest] = &link[..] else { return seen };
        let values = tensor.downcast_ref::<Tensor>().unwrap().to_vec::<f32>().unwrap();
        seen.push((number.view().as_int().unwrap(), values[0]));
        at = rest.clone();
    }
}

/// The contents of the list of `length` links.
fn wanted(length: i64) -> Vec<(i64, f32)> {
    (1..=length).map(|at| (at, at as f32)).collect()
}

fn list(session: &mut Session, length: i64) -> Any {
    session.call("main", &[length.into()]).unwrap()
}

#[test]
fn lists_are_made_of_free_blocks_on_any_thread() {
    alone(|| {
        let runs = |session: &mut Session| {
            // A list stays, so that its blocks are not free meanwhile.
            let kept = list(session, 50);
            (0..4).for_each(|_| drop(list(session, 100)));
            let before = heap_allocations();
            for _ in 0..10 {
                assert_eq!(read(&list(session, 100)), wanted(100));
            }
            assert_eq!(read(&kept), wanted(50));
            assert_eq!(heap_allocations(), before, "blocks come from free lists");
            kept
        };
        for mode in [Mode::Compiled, Mode::Tiered] {
            let (mut session, tier, program) = session(mode, None);
            let here = runs(&mut session);
            let there = std::thread::spawn(move || (runs(&mut session), session));
            let (there, mut session) = there.join().unwrap();
            assert_eq!(read(&there), wanted(50));
            // The blocks of the other thread come to this one.
            drop((here, there));
            runs(&mut session);
            if mode == Mode::Tiered {
                let traces = tier.traces(&program);
                let fused = |text: &str| text.contains("on 8 bytes of its own");
                assert!(traces.iter().any(|trace| fused(&trace.text()) && trace.runs() > 1000));
            }
        }
    });
}

#[test]
fn lists_are_the_same_whichever_guards_fail() {
    alone(|| {
        for one_in in [1, 2, 5] {
            for seed in 0..8 {
                let (mut session, ..) = session(Mode::Tiered, Some((seed, one_in)));
                for length in 1..20 {
                    assert_eq!(
                        read(&list(&mut session, length)),
                        wanted(length),
                        "{seed}, {one_in}"
                    );
                }
            }
        }
    });
}

#[test]
fn without_memory_every_mode_fails_alike() {
    alone(|| {
        let outcome = |mode| {
            // What a session keeps for its next tensor counts too.
            let before = CPU.statistics().live;
            let (mut session, ..) = session(mode, None);
            (0..4).for_each(|_| drop(list(&mut session, 10)));
            set_memory_limit(before + 7 * 64);
            session.set_fuel(Some(1000));
            let failed = session.call("main", &[10_i64.into()]).map_err(|error| error.to_string());
            set_memory_limit(usize::MAX);
            (failed.map(|list| read(&list)), session.fuel())
        };
        let expected = outcome(Mode::Bytecode);
        assert!(
            expected.0.as_ref().is_err_and(|error| error.contains("MemoryError")),
            "{expected:?}"
        );
        assert_eq!(outcome(Mode::Compiled), expected);
        assert_eq!(outcome(Mode::Tiered), expected);
    });
}
