//! Runs the programs of a folder on a device.

use std::time::{Duration, Instant};

use reflex::{Array, Engine, Feed, Mode, Prepared, Program};
use reflex_runtime::abi::DLDevice;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::Any;

use crate::ceilings::{Figures, Size};
use crate::compare::{difference, hash};
use crate::packed::{Case, Pack, TensorType};
use crate::report::FIRST_ANSWER;

/// Runs a program; the error says what differs, or what failed. Returns how long calls took.
pub fn run(
    engine: &Engine,
    pack: &Pack,
    case: &Case,
    device: DLDevice,
    size: Size,
) -> Result<Figures, String> {
    let failed = |e: reflex::Error| e.to_string();
    let start = Instant::now();
    let program = engine.load(pack.path(&case.file)).map_err(failed)?;
    let loaded = start.elapsed();
    if let Some(code) = program.gpu_code().filter(|_| case.is_timed) {
        eprintln!("{}: {code}", case.name);
    }
    let mut feed = Feed::new();
    for (name, input) in &case.inputs {
        feed.insert(name.clone(), pack.input(input)?);
    }
    let start = Instant::now();
    let prepared = program.prepare("main", &feed).map_err(failed)?;
    let mut session = program.session(Mode::Bytecode).map_err(failed)?;
    let outputs = session.call(&prepared).and_then(|outputs| outputs.arrays()).map_err(failed)?;
    let first = loaded + start.elapsed();
    compare(pack, case, &outputs)?;
    // Calls become batches of launches, which have to have the same bits.
    let mut tiered = program.session(Mode::Tiered).map_err(failed)?;
    for _ in 0..CALLS {
        tiered.call(&prepared).map_err(failed)?;
    }
    let outputs = tiered.call(&prepared).and_then(|outputs| outputs.arrays()).map_err(failed)?;
    compare(pack, case, &outputs).map_err(|why| format!("after {CALLS} calls: {why}"))?;
    if !case.is_timed {
        return Ok(Figures::new());
    }
    let mut figures = Figures::from([(FIRST_ANSWER.to_owned(), micros(first))]);
    if let Some((_, launches, _)) = tiered.batches().ready.first() {
        figures.insert("launches in a batch".to_owned(), *launches as f64);
    }
    for (mode, name) in [(Mode::Bytecode, "bytecode"), (Mode::Tiered, "tiered")] {
        let (waited, row) = time(&program, &prepared, mode, device, size).map_err(failed)?;
        figures.insert(format!("call, {name}"), micros(waited));
        figures.insert(format!("in a row, {name}"), micros(row));
    }
    Ok(figures)
}

/// Calls before a result of a batch is compared.
const CALLS: usize = 6;

/// Compares outputs bit by bit with those that are expected.
fn compare(pack: &Pack, case: &Case, outputs: &[(String, Array)]) -> Result<(), String> {
    if outputs.len() != case.outputs.len() {
        return Err(format!("{} outputs, not {}", outputs.len(), case.outputs.len()));
    }
    for ((name, found), expected) in outputs.iter().zip(&case.outputs) {
        let ty = TensorType::of(found);
        if ty != expected.ty {
            return Err(format!("{name} is {ty:?}, not {:?}", expected.ty));
        }
        let known = expected.known as usize * (found.dtype.bits as usize).div_ceil(8);
        let data = found.data.get(..known).ok_or_else(|| format!("{name} is too short"))?;
        let found = Array { dtype: found.dtype, shape: vec![], data: data.to_vec() };
        if hash(&found) != expected.hash {
            let what = match expected.data {
                Some(span) => difference(&found, &pack.read(span)?),
                None => "its hash differs".to_owned(),
            };
            return Err(format!("{name}: {what}"));
        }
    }
    Ok(())
}

fn micros(took: Duration) -> f64 {
    took.as_secs_f64() * 1e6
}

/// The most time that calls are timed for.
const MOST: Duration = Duration::from_millis(200);

/// Median time of a call that is waited for, and the time of each where the device is waited for after
/// the last alone. Arguments are on the device.
fn time(
    program: &Program,
    prepared: &Prepared,
    mode: Mode,
    device: DLDevice,
    size: Size,
) -> reflex::Result<(Duration, Duration)> {
    let there = |value: &Any| match value.downcast_ref::<Tensor>() {
        Some(tensor) => tensor.to_device(device).map(Any::from),
        None => Ok(value.clone()),
    };
    let args = prepared.values().iter().map(there).collect::<Result<Vec<Any>, _>>()?;
    let mut session = program.session(mode)?;
    let mut call = |times: usize| -> reflex::Result<Duration> {
        let start = Instant::now();
        for _ in 0..times {
            session.call_values("main", &args)?;
        }
        session.synchronize()?;
        Ok(start.elapsed())
    };
    let warm_up = if size == Size::Full { 20 } else { 1 };
    let one = (0..warm_up).map(|_| call(1)).collect::<reflex::Result<Vec<Duration>>>()?;
    let one = one.into_iter().min().unwrap_or(MOST).max(Duration::from_nanos(1));
    let times = (MOST.as_nanos() / one.as_nanos()).clamp(1, 200) as usize;
    let mut waited = (0..times).map(|_| call(1)).collect::<reflex::Result<Vec<Duration>>>()?;
    waited.sort();
    Ok((waited[times / 2], call(times)? / times as u32))
}
