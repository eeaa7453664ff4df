//! The engines beside each other: ONNX Runtime through its C API (`ort`), rten, OpenVINO in a
//! Python process (it has no other packaged interface), and Reflex.

use std::error::Error;
use std::hint::{black_box, spin_loop};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ort::environment::Environment;
use ort::session::SessionInputValue;
use ort::value::DynValue;
use reflex::numpy::Case;
use reflex::{Array, DType, Engine, Feed, Mode, Precision, Prepared};
use rten::{NodeId, RunOptions, ThreadPool, Value, ValueOrView};

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A model loaded by an engine, with its feeds ready.
pub trait Peer {
    /// Microseconds of calls: an uncounted one of each feed, then whole cycles of the feeds for
    /// `duration`.
    fn round(&mut self, duration: Duration) -> Result<Vec<f64>>;
}

/// An engine in this process.
pub trait Native {
    /// How many feeds there are.
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

/// Steps that do nothing, a fixed number of them on each of so many threads, of which each call waits for
/// the last one: the spread of its calls is the machine's.
pub struct Spin {
    steps: u64,
    feeds: usize,
    threads: usize,
}

impl Spin {
    /// Calls that take so many microseconds.
    pub fn like(micros: f64, feeds: usize, threads: usize) -> Spin {
        let time = || {
            let start = Instant::now();
            spin(1000);
            start.elapsed().as_nanos() as f64 / 1e3
        };
        let measured = (0..20).map(|_| time()).fold(f64::INFINITY, f64::min);
        Spin { steps: (micros / measured * 1000.0).max(1.0) as u64, feeds, threads }
    }
}

fn spin(steps: u64) {
    for step in 0..steps {
        black_box(step);
        spin_loop();
    }
}

impl Peer for Spin {
    fn round(&mut self, duration: Duration) -> Result<Vec<f64>> {
        // Calls so far, and how many of them the other threads have done, each counted; the last is
        // where they end.
        let (calls, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let (steps, others) = (self.steps, self.threads as u64 - 1);
        let serve = || {
            for call in 1.. {
                while calls.load(Ordering::Acquire) < call {
                    spin_loop();
                }
                if calls.load(Ordering::Acquire) == u64::MAX {
                    return;
                }
                spin(steps);
                done.fetch_add(1, Ordering::Release);
            }
        };
        std::thread::scope(|scope| {
            (0..others).for_each(|_| drop(scope.spawn(serve)));
            let mut sample = vec![];
            let start = Instant::now();
            while sample.len() < 2 * self.feeds || start.elapsed() < duration {
                for _ in 0..self.feeds {
                    let begin = Instant::now();
                    let call = calls.fetch_add(1, Ordering::Release) + 1;
                    spin(steps);
                    while done.load(Ordering::Acquire) < call * others {
                        spin_loop();
                    }
                    sample.push(begin.elapsed().as_nanos() as f64 / 1e3);
                }
            }
            calls.store(u64::MAX, Ordering::Release);
            // The threads have come up in the first.
            sample.drain(..self.feeds);
            Ok(sample)
        })
    }
}

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

pub struct Reflex {
    session: reflex::Session,
    feeds: Vec<Prepared>,
}

impl Reflex {
    pub fn open(
        model: &Path,
        feeds: &[Feed],
        threads: usize,
        (mode, precision): (Mode, Precision),
    ) -> Result<Reflex> {
        let engine = Engine::builder().threads(threads).precision(precision).build()?;
        let program = engine.load(model)?;
        let prepare = |f| program.prepare("main", f);
        let feeds = feeds.iter().map(prepare).collect::<reflex::Result<_>>()?;
        Ok(Reflex { session: program.session(mode)?, feeds })
    }

    /// Compiles what is hot.
    pub fn warm_up(&mut self) -> Result<()> {
        self.session.warm_up_all(&self.feeds)?;
        Ok(())
    }

    /// The root mean square of what float32 outputs differ by from those of `cases`, whose inputs
    /// the feeds are, as a part of that of the values; `None` where all are zero or of other types.
    pub fn error(&mut self, cases: &[Case]) -> Result<Option<f64>> {
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

/// OpenVINO in a Python process; its calls cost some microseconds more than from C++.
pub struct OpenVino {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    pub about: About,
}

/// What OpenVINO says about a compiled model.
#[derive(Clone, serde::Deserialize)]
pub struct About {
    /// What it multiplies in.
    pub precision: String,
    /// As [`Reflex::error`].
    pub error: Option<f64>,
}

impl OpenVino {
    /// `python` has the openvino package; `precision` is `f32` or `default`.
    pub fn open(
        python: &Path,
        (model, cases): (&Path, &Path),
        threads: usize,
        precision: &str,
    ) -> Result<OpenVino> {
        let mut child = Command::new(python)
            .arg("benches/peers/openvino_rounds.py")
            .args([model, cases])
            .args([&threads.to_string(), precision])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let to = child.stdin.take().ok_or("no pipe")?;
        let from = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        let about = About { precision: String::new(), error: None };
        let mut peer = OpenVino { child, to, from, about };
        let line = peer.line()?;
        peer.about = serde_json::from_str(&line)
            .map_err(|_| format!("OpenVINO did not load the model: {line:?}"))?;
        Ok(peer)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        Ok(line.trim().to_string())
    }
}

impl Peer for OpenVino {
    fn round(&mut self, duration: Duration) -> Result<Vec<f64>> {
        writeln!(self.to, "{}", duration.as_secs_f64())?;
        Ok(serde_json::from_str(&self.line()?)?)
    }
}

impl Drop for OpenVino {
    fn drop(&mut self) {
        // Nothing can be done about a child that is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
