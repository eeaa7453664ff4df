//! Running programs: calls, errors, limits, bound inputs, and saved functions.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reflex_runtime::array::Array;
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;
use reflex_runtime::function::{self, Function};
use reflex_runtime::shape::Shape;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::builder::ExecBuilder;
use reflex_vm::bytecode::Reg;
use reflex_vm::program::Program;
use reflex_vm::run_error::Reason;
use reflex_vm::session::{Options, SavedResult, Session};
use reflex_vm::verify::verify;

fn library() -> HashMap<String, Function> {
    let mut functions = HashMap::new();
    let mut add = |name: &str, function: Function| functions.insert(name.to_owned(), function);
    add(
        "add",
        Function::new(|args| {
            Ok(Any::from(function::arg::<i64>(args, 0)? + function::arg::<i64>(args, 1)?))
        }),
    );
    add("void", Function::new(|_| Ok(Any::NONE)));
    add("fail", Function::new(|_| Err(Error::value_error("no luck"))));
    add("panic", Function::new(|_| panic!("at the disco")));
    functions
}

fn session(build: impl FnOnce(&mut ExecBuilder)) -> Session {
    session_with(Options::default(), build)
}

fn session_with(options: Options, build: impl FnOnce(&mut ExecBuilder)) -> Session {
    let mut b = ExecBuilder::new();
    build(&mut b);
    let exec = verify(b.finish().unwrap()).unwrap();
    let program = Arc::new(Program::load(exec, &[&library()]).unwrap());
    Session::new(&program, options).unwrap()
}

fn int(value: Any) -> i64 {
    i64::try_from(value).unwrap()
}

/// `count(n, acc)`: `acc + 1` for each of `n` turns, by recursion through `If`.
fn count(b: &mut ExecBuilder) {
    b.function_with_params("count", &["n", "acc"]).unwrap();
    let done = b.label().unwrap();
    b.emit_if(Reg(0), done).unwrap();
    b.emit_call("add", &[b.r(0), b.imm(-1).unwrap()], b.r(2)).unwrap();
    b.emit_call("add", &[b.r(1), b.imm(1).unwrap()], b.r(3)).unwrap();
    b.declare_function("count", reflex_vm::executable::FuncKind::Vm);
    b.emit_call("count", &[b.r(2), b.r(3)], b.r(4)).unwrap();
    b.emit_ret(Reg(4)).unwrap();
    b.bind(done).unwrap();
    b.emit_ret(Reg(1)).unwrap();
    b.end_function().unwrap();
}

/// `turns(n)`: counts down to zero with a backward jump.
fn turns(b: &mut ExecBuilder) {
    b.function("turns", 1).unwrap();
    let (top, done) = (b.label().unwrap(), b.label().unwrap());
    b.bind(top).unwrap();
    b.emit_if(Reg(0), done).unwrap();
    b.emit_call("add", &[b.r(0), b.imm(-1).unwrap()], b.r(0)).unwrap();
    b.emit_goto(top).unwrap();
    b.bind(done).unwrap();
    b.emit_ret(Reg(0)).unwrap();
    b.end_function().unwrap();
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn recursion_uses_the_register_stack() {
    let mut s = session(count);
    let n = 300_000;
    assert_eq!(int(s.call("count", &[Any::from(n), Any::from(0_i64)]).unwrap()), n);
    let error = s.call("count", &[Any::from(i64::MAX), Any::from(0_i64)]).unwrap_err();
    assert_eq!(error.reason(), Reason::StackOverflow);
    assert!(error.depth() >= 100_000, "{}", error.depth());
    assert_eq!(error.frames().len(), 16);
    assert!(error.to_string().contains("more frames"));
    assert_eq!(int(s.call("count", &[Any::from(3_i64), Any::from(0_i64)]).unwrap()), 3);
}

#[test]
fn the_depth_limit_is_the_hosts() {
    let options = Options { depth_limit: 10, ..Options::default() };
    let mut s = session_with(options, count);
    assert!(s.call("count", &[Any::from(9_i64), Any::from(0_i64)]).is_ok());
    let error = s.call("count", &[Any::from(10_i64), Any::from(0_i64)]).unwrap_err();
    assert_eq!(error.reason(), Reason::StackOverflow);
    assert!(error.to_string().contains("limit of 10"), "{error}");
}

#[test]
fn loops_run_and_fuel_ends_them() {
    let mut s = session(turns);
    assert_eq!(int(s.call("turns", &[Any::from(1000_i64)]).unwrap()), 0);
    s.set_fuel(Some(101));
    assert!(s.call("turns", &[Any::from(100_i64)]).is_ok());
    assert_eq!(s.fuel(), 0);
    s.set_fuel(Some(100));
    let error = s.call("turns", &[Any::from(100_i64)]).unwrap_err();
    assert_eq!(error.reason(), Reason::FuelExhausted);
    s.set_fuel(None);
    assert!(s.call("turns", &[Any::from(100_i64)]).is_ok());
}

/// A run with the limits of another session calls native code, which calls that other session: the
/// nested run has what is left of its own limits.
#[test]
fn a_nested_run_has_the_limits_that_its_session_has_lent() {
    let host = session(turns);
    let reentry = host.reentry();
    let mut functions = library();
    // SAFETY: the host lives as long as the test, on this thread alone.
    let back = move |args: &[AnyView<'_>]| unsafe {
        reentry.call_views("turns", args).map_err(|e| e.into_error())
    };
    functions.insert("back".to_owned(), Function::new(back));
    let mut b = ExecBuilder::new();
    b.function("outer", 1).unwrap();
    b.emit_call("back", &[b.r(0)], b.r(0)).unwrap();
    b.emit_ret(Reg(0)).unwrap();
    b.end_function().unwrap();
    turns(&mut b);
    let program = Program::load(verify(b.finish().unwrap()).unwrap(), &[&functions]).unwrap();
    let mut other = Session::new(&Arc::new(program), Options::default()).unwrap();
    let mut host = host;
    other.follow(&host.canceller());
    let mut call = |host: &mut Session, n: i64| {
        other.with_limits_of(host, |other| other.call("outer", &[Any::from(n)]))
    };

    host.set_fuel(Some(150));
    assert!(call(&mut host, 100).is_ok());
    assert!(host.fuel() < 50, "{}", host.fuel());
    assert_eq!(call(&mut host, 100).unwrap_err().reason(), Reason::Failed);
    assert_eq!(host.fuel(), 0);
    host.set_fuel(None);
    assert!(call(&mut host, 100).is_ok());
    host.set_deadline(Some(Instant::now()));
    assert!(call(&mut host, 100).is_err());
    host.set_deadline(None);
    assert!(call(&mut host, 100).is_ok());
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn deadlines_and_cancelling_end_a_run() {
    let mut s = session(turns);
    s.set_deadline(Some(Instant::now() + Duration::from_millis(20)));
    let error = s.call("turns", &[Any::from(i64::MAX)]).unwrap_err();
    assert_eq!(error.reason(), Reason::DeadlineExceeded);
    s.set_deadline(None);
    let canceller = s.canceller();
    let other = canceller.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        other.cancel();
    });
    let error = s.call("turns", &[Any::from(i64::MAX)]).unwrap_err();
    assert_eq!(error.reason(), Reason::Cancelled);
    thread.join().unwrap();
    canceller.reset();
    assert!(s.call("turns", &[Any::from(5_i64)]).is_ok());
}

#[test]
fn errors_name_the_place_and_the_session_survives() {
    let mut s = session(|b| {
        for (name, callee) in [("inner", "fail"), ("broken", "panic")] {
            b.function(name, 1).unwrap();
            b.emit_call("vm.builtin.make_tuple", &[b.r(0)], b.r(1)).unwrap();
            b.emit_call(callee, &[b.r(1)], b.r(2)).unwrap();
            b.emit_ret(Reg(2)).unwrap();
            b.end_function().unwrap();
        }
        b.function("main", 1).unwrap();
        b.emit_call("inner", &[b.r(0)], b.r(1)).unwrap();
        b.emit_ret(Reg(1)).unwrap();
        b.end_function().unwrap();
    });
    let held = Any::from(Tensor::zeros(&[4], DType::F32).unwrap());
    let error = s.call("main", std::slice::from_ref(&held)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ValueError: no luck\n  in function `inner`, instruction 1, calling `fail`\n  \
         in function `main`, instruction 0, calling `inner`"
    );
    let error = s.call("broken", std::slice::from_ref(&held)).unwrap_err();
    assert!(error.to_string().contains("at the disco"), "{error}");
    // Nothing the failed runs held is still held.
    assert_eq!(held.object_ref().unwrap().strong_count(), 1);
    let error = s.call("main", &[]).unwrap_err();
    assert!(error.to_string().contains("`main` expects 1 argument, 0 given"), "{error}");
    assert!(s.call("nope", &[]).unwrap_err().to_string().contains("no function `nope`"));
}

#[test]
fn a_void_register_takes_no_result() {
    let mut s = session(|b| {
        b.function("unit", 0).unwrap();
        b.emit_call("vm.builtin.make_tuple", &[], b.r(0)).unwrap();
        b.emit_ret(Reg(0)).unwrap();
        b.end_function().unwrap();
        b.function("main", 1).unwrap();
        b.emit_call("unit", &[], Reg::VOID).unwrap();
        b.emit_call("void", &[b.void_arg()], Reg::VOID).unwrap();
        b.emit_ret(Reg(0)).unwrap();
        b.end_function().unwrap();
        b.function("nothing", 0).unwrap();
        b.emit_ret(Reg::VOID).unwrap();
        b.end_function().unwrap();
    });
    assert_eq!(int(s.call("main", &[Any::from(7_i64)]).unwrap()), 7);
    assert!(s.call("nothing", &[]).unwrap().is_none());
}

#[test]
fn closures_append_what_they_captured() {
    let mut s = session(|b| {
        b.function("sub2", 2).unwrap();
        b.emit_call("vm.builtin.make_tuple", &[b.r(0), b.r(1)], b.r(2)).unwrap();
        b.emit_ret(Reg(2)).unwrap();
        b.end_function().unwrap();
        b.function("make", 1).unwrap();
        let f = b.f("sub2");
        b.emit_call("vm.builtin.make_closure", &[f, b.r(0)], b.r(1)).unwrap();
        b.emit_ret(Reg(1)).unwrap();
        b.end_function().unwrap();
        b.function("main", 2).unwrap();
        b.emit_call("make", &[b.r(0)], b.r(2)).unwrap();
        b.emit_call("vm.builtin.invoke_closure", &[b.vm_state(), b.r(2), b.r(1)], b.r(3)).unwrap();
        b.emit_ret(Reg(3)).unwrap();
        b.end_function().unwrap();
        b.function("packed", 2).unwrap();
        let f = b.f("add");
        b.emit_call("vm.builtin.invoke_closure", &[b.vm_state(), f, b.r(0), b.r(1)], b.r(2))
            .unwrap();
        b.emit_ret(Reg(2)).unwrap();
        b.end_function().unwrap();
    });
    let pair = s.call("main", &[Any::from(1_i64), Any::from(2_i64)]).unwrap();
    let pair = Array::try_from(pair).unwrap();
    assert_eq!((int(pair[0].clone()), int(pair[1].clone())), (2, 1));
    let closure = s.call("make", &[Any::from(9_i64)]).unwrap();
    assert!(s.invoke_closure(&closure.view(), &[AnyView::from(8_i64)]).is_ok());
    let error = s.invoke_closure(&closure.view(), &[]).unwrap_err();
    assert!(error.to_string().contains("expects 2 arguments, 1 given"), "{error}");
    assert_eq!(int(s.call("packed", &[Any::from(1_i64), Any::from(2_i64)]).unwrap()), 3);
    s.save_function("sub2", "saved", SavedResult::Drop, vec![Any::from(1_i64)]).unwrap();
    assert!(s.call("saved", &[Any::from(1_i64)]).unwrap().is_none());
}

#[test]
fn shapes_are_matched_and_made() {
    let mut s = session(|b| {
        b.function("main", 1).unwrap();
        let i = |v: i64| b.imm(v).unwrap();
        let context = reflex_vm::bytecode::Arg::Const(0);
        let (heap, x) = (b.r(1), b.r(0));
        let args = [x, heap, i(2), i(1), i(0), i(0), i(3), context];
        let made = [heap, i(2), i(0), i(3), i(1), i(0)];
        let size = i(1);
        b.string("here");
        b.emit_call("vm.builtin.alloc_shape_heap", &[b.vm_state(), size], b.r(1)).unwrap();
        b.emit_call("vm.builtin.match_shape", &args, Reg::VOID).unwrap();
        b.emit_call("vm.builtin.make_shape", &made, b.r(2)).unwrap();
        b.emit_ret(Reg(2)).unwrap();
        b.end_function().unwrap();
    });
    let made = s.call("main", &[Tensor::zeros(&[5, 3], DType::F32).unwrap().into()]).unwrap();
    assert_eq!(&*Shape::try_from(made).unwrap(), [3, 5]);
    let error = s.call("main", &[Tensor::zeros(&[5, 4], DType::F32).unwrap().into()]).unwrap_err();
    assert_eq!(error.error().kind(), "RuntimeError");
    assert!(error.to_string().contains("here match_cast error, shape[1] mismatch"), "{error}");
    let error = s.call("main", &[Shape::new(&[1]).into()]).unwrap_err();
    assert!(error.to_string().contains("shape size mismatch"), "{error}");
}

#[test]
fn storages_hold_tensors_until_the_last_one_goes() {
    let mut s = session(|b| {
        b.function("main", 1).unwrap();
        let (size, shape) = (b.shape(&[32]), b.shape(&[2, 4]));
        let (byte, float) = (b.dtype(DType::U8), b.dtype(DType::F32));
        let (scope, zero) = (b.string("global"), b.imm(0).unwrap());
        b.emit_call("vm.builtin.alloc_storage", &[b.vm_state(), size, zero, byte, scope], b.r(1))
            .unwrap();
        b.emit_call("vm.builtin.alloc_tensor", &[b.r(1), b.r(0), shape, float], b.r(2)).unwrap();
        b.emit_call("vm.builtin.null_value", &[], b.r(1)).unwrap();
        b.emit_ret(Reg(2)).unwrap();
        b.end_function().unwrap();
    });
    let tensor = Tensor::try_from(s.call("main", &[Any::from(0_i64)]).unwrap()).unwrap();
    assert_eq!((tensor.shape(), tensor.nbytes()), (&[2_i64, 4][..], 32));
    let error = s.call("main", &[Any::from(4_i64)]).unwrap_err();
    assert!(error.to_string().contains("do not fit"), "{error}");
}

#[test]
fn sessions_of_one_program_run_at_once() {
    let mut b = ExecBuilder::new();
    count(&mut b);
    let program =
        Arc::new(Program::load(verify(b.finish().unwrap()).unwrap(), &[&library()]).unwrap());
    let total = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut s = Session::new(&program, Options::default()).unwrap();
                for _ in 0..50 {
                    let sum = s.call("count", &[Any::from(100_i64), Any::from(0_i64)]).unwrap();
                    total.fetch_add(int(sum) as usize, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(total.into_inner(), 4 * 50 * 100);
}

#[test]
fn an_instrument_sees_every_call_and_can_skip_it() {
    use parking_lot::Mutex;
    use reflex_vm::instrument::{CallEvent, Instrument, Verdict};
    use reflex_vm::profile::Profile;

    #[derive(Default)]
    struct Log(Vec<String>);
    impl Instrument for Log {
        fn before(&mut self, call: &CallEvent<'_>) -> Result<Verdict, Error> {
            self.0.push(format!(
                "{}@{} {} {:?}",
                call.function(),
                call.instr(),
                call.callee(),
                call.args()
            ));
            if call.args().first().is_some_and(|arg| arg.as_int() == Some(13)) {
                return Err(Error::value_error("thirteen"));
            }
            Ok(if call.callee() == "fail" { Verdict::Skip } else { Verdict::Run })
        }
        fn after(&mut self, call: &CallEvent<'_>, result: AnyView<'_>) -> Result<(), Error> {
            self.0.push(format!("{} = {result:?}", call.callee()));
            Ok(())
        }
    }

    let mut s = session(|b| {
        b.function("inner", 1).unwrap();
        b.emit_call("add", &[b.r(0), b.imm(1).unwrap()], b.r(1)).unwrap();
        b.emit_call("fail", &[], b.r(0)).unwrap();
        b.emit_ret(Reg(1)).unwrap();
        b.end_function().unwrap();
        b.function("main", 1).unwrap();
        b.emit_call("inner", &[b.r(0)], b.r(1)).unwrap();
        b.emit_call("vm.builtin.copy", &[b.r(1)], b.r(2)).unwrap();
        b.emit_ret(Reg(2)).unwrap();
        b.end_function().unwrap();
    });
    let log = Arc::new(Mutex::new(Log::default()));
    s.set_instrument(Some(Box::new(Arc::clone(&log))));
    assert_eq!(int(s.call("main", &[Any::from(4_i64)]).unwrap()), 5);
    assert_eq!(
        log.lock().0,
        [
            "main@0 inner [4]",
            "inner@0 add [4, 1]",
            "add = 5",
            "inner@1 fail []",
            "inner = 5",
            "main@1 vm.builtin.copy [5]",
            "vm.builtin.copy = 5",
        ]
    );
    let error = s.call("main", &[Any::from(13_i64)]).unwrap_err();
    assert_eq!(error.error().to_string(), "ValueError: thirteen");
    assert_eq!(error.frames()[0].callee.as_deref(), Some("inner"));
    let profile = Arc::new(Mutex::new(Profile::default()));
    s.set_instrument(Some(Box::new(Arc::clone(&profile))));
    assert!(s.call("main", &[Any::from(4_i64)]).is_err());
    s.set_instrument(None);
    let profile = profile.lock();
    let calls: Vec<_> = profile.by_time().iter().map(|(name, e)| (*name, e.calls)).collect();
    assert_eq!(calls, [("add", 1)]);
}
