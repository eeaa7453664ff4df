//! Calls a compiled model from Rust in every way that Rust has.
//!
//! usage: mlp MODEL      (tests/filetests/relax/mlp.py, or a .so made from it)

use std::path::Path;
use std::time::Duration;

use reflex::memory::AllocatorKind;
use reflex::{
    Any, Engine, ErrorKind, Function, Mode, SavedResult, SessionOptions, Tensor, TimingOptions,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    run(std::env::args().nth(1).ok_or("usage: mlp MODEL")?.as_ref())
}

/// Runs the example on a model.
pub fn run(model: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let program = Engine::builder().threads(1).build()?.load(model)?;
    let mut session = program.session(Mode::Tiered)?;
    let x: Vec<f32> = (0..16).map(|i| i as f32 / 16.0).collect();
    let w: Vec<f32> = (0..40).map(|i| (i % 7) as f32 - 3.0).collect();
    let x = Any::from(Tensor::from_slice(&[2, 8], &x)?);
    let w = Any::from(Tensor::from_slice(&[8, 5], &w)?);
    let args = [x.clone(), w.clone()];
    let values = |value: Any| Tensor::try_from(value)?.to_vec::<f32>();

    let y = values(session.call_values("main", &args)?)?;
    println!("call {y:?}");

    session.set_input("main", args.to_vec())?;
    let target = Tensor::zeros(&[2, 5], reflex::DType::F32)?;
    session.bind_outputs("main", vec![target.clone()])?;
    session.invoke_stateful("main")?;
    assert_eq!(values(session.get_outputs("main")?.remove(0))?, y);
    assert_eq!(target.to_vec::<f32>()?, y);

    session.save_function("main", "with_w", SavedResult::Keep, vec![w])?;
    assert_eq!(values(session.call_values("with_w", std::slice::from_ref(&x))?)?, y);
    let options = TimingOptions { number: 10, repeat: 3, ..TimingOptions::default() };
    let timing = session.time_evaluator("with_w", &[x.view()], &options)?;
    println!("{:.3} us per call", timing.median() * 1e6);

    // Another session of the program, which gives memory back to the system at once.
    let naive = SessionOptions::new(Mode::Bytecode).allocator(AllocatorKind::Naive);
    let refused = program.open(&naive.clone().device("cuda"));
    assert_eq!(kind(refused), Some(ErrorKind::Unsupported));
    let mut other = program.open(&naive.device("cpu"))?;
    assert_eq!(values(other.call_values("main", &args)?)?, y);
    let memory = reflex::memory::statistics();
    println!("{} bytes of tensors, {} at most", memory.live, memory.peak_live);

    let (_, profile) = session.profile("main", &[args[0].view(), args[1].view()])?;
    print!("{}", profile.table());

    let add_one = Function::new(|args| {
        let value = args.first().and_then(|arg| arg.as_int()).unwrap_or(0);
        Ok(Any::from(value + 1))
    });
    reflex::register_global_func("examples.add_one", add_one)?;
    let found = reflex::get_global_func("examples.add_one").ok_or("just registered")?;
    assert_eq!(i64::try_from(found.call(&[2_i64.into()])?)?, 3);

    let error = session.call_values("main", &args[..1]).unwrap_err();
    println!("{}", error.to_object());
    session.set_fuel(Some(0));
    assert_eq!(kind(session.call_values("main", &args)), Some(ErrorKind::FuelExhausted));
    session.set_fuel(None);
    session.set_deadline(Some(Duration::ZERO));
    assert_eq!(kind(session.call_values("main", &args)), Some(ErrorKind::DeadlineExceeded));
    session.set_deadline(None);
    let canceller = session.canceller();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        canceller.cancel();
        canceller
    });
    let endless = TimingOptions { number: u32::MAX, ..TimingOptions::default() };
    let timed = session.time_evaluator("with_w", &[x.view()], &endless);
    assert_eq!(kind(timed), Some(ErrorKind::Cancelled));
    thread.join().map_err(|_| "the thread failed")?.reset();
    assert_eq!(values(session.call_values("main", &args)?)?, y);
    println!("done");
    Ok(())
}

fn kind<T>(outcome: reflex::Result<T>) -> Option<ErrorKind> {
    outcome.err().map(|error| error.kind())
}
