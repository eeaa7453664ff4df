//! The engines beside each other: ONNX Runtime through its C API (`ort`), and Reflex.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::sync::OnceLock;

use ort::environment::Environment;
use ort::session::{Session, SessionInputValue};
use ort::value::{DynValue, Tensor};
use reflex::npz::{Array, Feed};
use reflex::{DType, Engine, Mode, Prepared};

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A model loaded by an engine, with its feeds ready.
pub trait Run {
    /// One call; the outputs are made and dropped.
    fn run(&mut self, feed: usize) -> Result<()>;
}

/// ONNX Runtime's environment, one a process, made at the first use.
fn environment() -> Result<&'static Environment> {
    static MADE: OnceLock<Environment> = OnceLock::new();
    match MADE.get() {
        Some(made) => Ok(made),
        None => {
            let made = ort::init().build()?;
            Ok(MADE.get_or_init(|| made))
        }
    }
}

pub struct Ort {
    session: Session,
    feeds: Vec<Vec<(String, DynValue)>>,
}

impl Ort {
    pub fn open(model: &Path, feeds: &[Feed], threads: usize) -> Result<Ort> {
        let session = Session::builder(environment()?)?
            .with_intra_threads(threads)?
            .with_inter_threads(1)?
            .commit_from_file(model)?;
        let value = |(name, array): (&String, &Array)| Ok((name.clone(), ort_value(array)?));
        let feeds = feeds.iter().map(|f| f.iter().map(value).collect()).collect::<Result<_>>()?;
        Ok(Ort { session, feeds })
    }
}

impl Run for Ort {
    fn run(&mut self, feed: usize) -> Result<()> {
        let inputs: Vec<(&str, SessionInputValue<'_>)> =
            self.feeds[feed].iter().map(|(n, v)| (n.as_str(), SessionInputValue::from(v))).collect();
        black_box(&self.session.run(inputs)?);
        Ok(())
    }
}

fn ort_value(array: &Array) -> Result<DynValue> {
    macro_rules! tensor {
        ($t:ty) => {
            Tensor::from_array((array.shape.clone(), array.to_vec::<$t>()?))?.into_dyn()
        };
    }
    Ok(match array.dtype {
        DType::F32 => tensor!(f32),
        DType::I64 => tensor!(i64),
        DType::I32 => tensor!(i32),
        other => {
            return Err(format!("no ONNX Runtime input of type {other} in these models").into());
        }
    })
}

pub struct Reflex {
    session: reflex::Session,
    feeds: Vec<Prepared>,
}

impl Reflex {
    pub fn open(model: &Path, feeds: &[Feed], threads: usize, mode: Mode) -> Result<Reflex> {
        let program = Engine::builder().threads(threads).build()?.load(model)?;
        let prepare = |f| program.prepare("main", f);
        let feeds = feeds.iter().map(prepare).collect::<reflex::Result<_>>()?;
        Ok(Reflex { session: program.session(mode)?, feeds })
    }
}

impl Run for Reflex {
    fn run(&mut self, feed: usize) -> Result<()> {
        black_box(&self.session.call(&self.feeds[feed])?);
        Ok(())
    }
}
