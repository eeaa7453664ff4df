//! The engines: ONNX Runtime through its C API (`ort`), rten, OpenVINO in a Python process (it has
//! no other packaged interface), and Reflex.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ort::environment::Environment;
use ort::session::SessionInputValue;
use ort::value::DynValue;
use reflex::{Array, DType, Engine, Feed, Mode, Precision, Prepared, numpy};
use rten::{NodeId, RunOptions, ThreadPool, Value, ValueOrView};

use crate::Case;
use crate::remote::Remote;

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A model loaded by an engine, with its feeds ready.
pub trait Peer {
    /// Microseconds of calls: an uncounted one of each feed, then whole cycles of the feeds for
    /// `duration`.
    fn round(&mut self, duration: Duration) -> Result<Vec<f64>>;
}

/// An engine in this process.
pub trait Native {
    /// The number of feeds.
    fn feeds(&self) -> usize;
    /// One call; the outputs are made and dropped.
    fn run(&mut self, feed: usize) -> Result<()>;
}

impl<T: Native> Peer for T {
    fn round(&mut self, duration: Duration) -> Result<Vec<f64>> {
        (0..self.feeds()).try_for_each(|feed| self.run(feed))?;
        let mut sample = vec![];
        let start = Instant::now();
        while sample.is_empty() || start.elapsed() < duration {
            for feed in 0..self.feeds() {
                let call = Instant::now();
                self.run(feed)?;
                sample.push(call.elapsed().as_nanos() as f64 / 1e3);
            }
        }
        Ok(sample)
    }
}

/// ONNX Runtime.
pub struct Ort {
    session: ort::session::Session,
    feeds: Vec<Vec<(String, DynValue)>>,
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

impl Ort {
    pub fn open(model: &Path, feeds: &[Feed], threads: usize) -> Result<Ort> {
        let session = ort::session::Session::builder(environment()?)?
            .with_intra_threads(threads)?
            .with_inter_threads(1)?
            .commit_from_file(model)?;
        let value = |(name, array): (&String, &Array)| Ok((name.clone(), ort_value(array)?));
        let feeds = feeds.iter().map(|f| f.iter().map(value).collect()).collect::<Result<_>>()?;
        Ok(Ort { session, feeds })
    }
}

impl Native for Ort {
    fn feeds(&self) -> usize {
        self.feeds.len()
    }

    fn run(&mut self, feed: usize) -> Result<()> {
        let inputs: Vec<(&str, SessionInputValue<'_>)> = self.feeds[feed]
            .iter()
            .map(|(n, v)| (n.as_str(), SessionInputValue::from(v)))
            .collect();
        black_box(&self.session.run(inputs)?);
        Ok(())
    }
}

fn ort_value(array: &Array) -> Result<DynValue> {
    use ort::value::Tensor;
    macro_rules! tensor {
        ($t:ty) => {
            Tensor::from_array((array.shape.clone(), array.to_vec::<$t>()?))?.into_dyn()
        };
    }
    Ok(match array.dtype {
        DType::F32 => tensor!(f32),
        DType::F64 => tensor!(f64),
        DType::I64 => tensor!(i64),
        DType::I32 => tensor!(i32),
        DType::BOOL => {
            let values = array.data.iter().map(|b| *b != 0).collect::<Vec<bool>>();
            Tensor::from_array((array.shape.clone(), values))?.into_dyn()
        }
        other => return Err(format!("no input of type {other} in these models").into()),
    })
}

/// rten.
pub struct Rten {
    model: rten::Model,
    feeds: Vec<Vec<(NodeId, Value)>>,
    pool: Arc<ThreadPool>,
}

impl Rten {
    pub fn open(model: &Path, feeds: &[Feed], threads: usize) -> Result<Rten> {
        let mut options = rten::ModelOptions::with_all_ops();
        options.prepack_weights(true);
        let model = options.load_file(model)?;
        let value =
            |(name, array): (&String, &Array)| Ok((model.node_id(name)?, rten_value(array)?));
        let feeds = feeds.iter().map(|f| f.iter().map(value).collect()).collect::<Result<_>>()?;
        Ok(Rten { feeds, model, pool: Arc::new(ThreadPool::with_num_threads(threads)) })
    }
}

impl Native for Rten {
    fn feeds(&self) -> usize {
        self.feeds.len()
    }

    fn run(&mut self, feed: usize) -> Result<()> {
        let inputs = self.feeds[feed].iter().map(|(n, v)| (*n, ValueOrView::from(v))).collect();
        let mut options = RunOptions::default();
        options.thread_pool = Some(self.pool.clone());
        black_box(&self.model.run(inputs, self.model.output_ids(), Some(options))?);
        Ok(())
    }
}

/// rten has 32-bit integers only; the models' 64-bit inputs are small numbers.
fn rten_value(array: &Array) -> Result<Value> {
    let shape: Vec<usize> = array.shape.iter().map(|d| *d as usize).collect();
    macro_rules! value {
        ($values:expr) => {
            Value::from_shape(&shape[..], $values)?
        };
    }
    Ok(match array.dtype {
        DType::F32 => value!(array.to_vec::<f32>()?),
        DType::I32 => value!(array.to_vec::<i32>()?),
        DType::I64 => {
            let values = array.to_vec::<i64>()?.into_iter().map(i32::try_from);
            value!(values.collect::<std::result::Result<Vec<_>, _>>()?)
        }
        other => return Err(format!("rten has no input of type {other}").into()),
    })
}

/// Reflex.
pub struct Reflex {
    session: reflex::Session,
    feeds: Vec<Prepared>,
}

impl Reflex {
    pub fn open(
        model: &Path,
        feeds: &[Feed],
        threads: usize,
        mode: Mode,
        precision: Precision,
    ) -> Result<Reflex> {
        let engine = Engine::builder().threads(threads).precision(precision).build()?;
        let program = engine.load(model)?;
        let prepare = |f| program.prepare("main", f);
        let feeds = feeds.iter().map(prepare).collect::<reflex::Result<_>>()?;
        Ok(Reflex { session: program.session(mode)?, feeds })
    }

    /// Calls the feeds until nothing more is compiled, and returns how long that took.
    pub fn compile_what_is_hot(&mut self) -> Result<Duration> {
        let start = Instant::now();
        self.session.warm_up_all(&self.feeds)?;
        Ok(start.elapsed())
    }

    /// The root mean square of what float32 outputs differ by from those of `cases`, whose inputs
    /// the feeds are, as a part of that of the values; `None` where all are zero or of other types.
    pub fn error(&mut self, cases: &[numpy::Case]) -> Result<Option<f64>> {
        let (mut error, mut size) = (0.0, 0.0);
        for (feed, case) in self.feeds.iter().zip(cases) {
            for (name, got) in self.session.call(feed)?.arrays()? {
                let want = case.outputs.get(&name).ok_or("an output without a reference")?;
                if want.dtype == DType::F32 {
                    let pairs = got.to_f64().into_iter().zip(want.to_f64());
                    let squares = pairs.map(|(g, w)| ((g - w) * (g - w), w * w));
                    let sums = squares.fold((0.0, 0.0), |(e, s), (de, ds)| (e + de, s + ds));
                    (error, size) = (error + sums.0, size + sums.1);
                }
            }
        }
        Ok((size > 0.0).then(|| (error / size).sqrt()))
    }
}

impl Native for Reflex {
    fn feeds(&self) -> usize {
        self.feeds.len()
    }

    fn run(&mut self, feed: usize) -> Result<()> {
        black_box(&self.session.call(&self.feeds[feed])?);
        Ok(())
    }
}

/// OpenVINO's description of a compiled model.
#[derive(Clone, serde::Deserialize)]
pub struct About {
    /// The precision that it multiplies in.
    pub precision: String,
    /// As [`Reflex::error`].
    pub error: Option<f64>,
}

/// OpenVINO in a Python process, whose calls cost some microseconds more than from C++. `python`
/// has the openvino package; `precision` is `f32` or `default`.
pub fn openvino(
    python: &Path,
    case: &Case,
    threads: usize,
    precision: &str,
) -> Result<Remote<About>> {
    let mut command = Command::new(python);
    command.arg("benches/peers/openvino_rounds.py").args([&case.model, &case.npz]);
    command.args([&threads.to_string(), precision]).stderr(Stdio::null());
    Remote::start(&mut command)
}
