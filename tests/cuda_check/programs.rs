//! Runs the programs of a folder on a device.

use reflex::{Engine, Feed, Mode};

use crate::compare::{difference, hash};
use crate::packed::{Case, Pack, TensorType};

/// Runs a program; the error says what differs, or what failed.
pub fn run(engine: &Engine, pack: &Pack, case: &Case) -> Result<(), String> {
    let failed = |e: reflex::Error| e.to_string();
    let program = engine.load(pack.path(&case.file)).map_err(failed)?;
    let mut feed = Feed::new();
    for (name, input) in &case.inputs {
        feed.insert(name.clone(), pack.input(input)?);
    }
    let prepared = program.prepare("main", &feed).map_err(failed)?;
    let mut session = program.session(Mode::Bytecode).map_err(failed)?;
    let outputs = session.call(&prepared).and_then(|outputs| outputs.arrays()).map_err(failed)?;
    if outputs.len() != case.outputs.len() {
        return Err(format!("{} outputs, not {}", outputs.len(), case.outputs.len()));
    }
    for ((name, found), expected) in outputs.iter().zip(&case.outputs) {
        let ty = TensorType::of(found);
        if ty != expected.ty {
            return Err(format!("{name} is {ty:?}, not {:?}", expected.ty));
        }
        if hash(found) != expected.hash {
            let what = match expected.data {
                Some(span) => difference(found, &pack.read(span)?),
                None => "its hash differs".to_owned(),
            };
            return Err(format!("{name}: {what}"));
        }
    }
    Ok(())
}
