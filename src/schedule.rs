//! Schedules by hand: primitives applied to a kernel one by one, and the trace that they leave.

use reflex_tir::PrimFunc;
use reflex_tir::schedule_trace::{PRIMITIVES, Primitive, Replay};
use reflex_tir::script;
use reflex_tir::tensor_intrin::registered;

use crate::error::{Error, ErrorKind, Result};

/// The schedule of a kernel, as [`Engine::schedule`](crate::Engine::schedule) opens it.
///
/// Primitives are those of TVM's `tvm.tir.Schedule`, by its names, and some more
/// ([`Schedule::describe`]). Each is checked when it is applied: one that cannot be shown to keep every
/// bit of the results is refused and changes nothing. What was applied is a *trace*, a text that
/// [`Pipeline::schedule`](crate::Pipeline::schedule), the command line and the attribute
/// `reflex.schedule` of a kernel in TVMScript replay.
///
/// ```
/// use reflex::{Engine, Pipeline};
///
/// let engine = Engine::new()?;
/// let mut schedule = engine.schedule("examples/softmax.py", "softmax")?;
/// let block = schedule.apply("sch.get_block(\"max\")")?.remove(0);
/// let loops = schedule.apply(&format!("sch.get_loops(block={block})"))?;
/// schedule.apply(&format!("sch.parallel(loop={})", loops[0]))?;
/// let error = schedule.apply(&format!("sch.vectorize(loop={})", loops[1])).unwrap_err();
/// assert!(error.to_string().starts_with("vectorize of `"), "{error}");
///
/// let trace = schedule.trace();
/// assert!(trace.ends_with("sch.parallel(loop=l1)\n"), "{trace}");
/// let pipeline = Pipeline::default().schedule(&trace)?;
/// Engine::builder().pipeline(pipeline).build()?.load("examples/softmax.py")?;
/// # Ok::<(), reflex::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Schedule {
    kernel: String,
    replay: Replay,
}

impl Schedule {
    pub(crate) fn new(kernel: PrimFunc) -> Schedule {
        Schedule { kernel: kernel.name.clone(), replay: Replay::new(kernel) }
    }

    /// Applies a primitive, `sch.PRIMITIVE(...)`, and returns names for its results: `b0` for a block,
    /// `l1` for a loop, `v2` for a number.
    ///
    /// ```
    /// let mut schedule = reflex::Engine::new()?.schedule("examples/softmax.py", "softmax")?;
    /// assert_eq!(schedule.apply("sch.get_output_blocks()")?, ["b0"]);
    /// assert!(schedule.apply("sch.fuse_everything()").is_err());
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn apply(&mut self, call: &str) -> Result<Vec<String>> {
        self.replay.apply_text(call).map_err(|e| Error::new(ErrorKind::Compile, e.message))
    }

    /// Returns the trace: the primitives applied so far, as a function of Python.
    ///
    /// ```
    /// let schedule = reflex::Engine::new()?.schedule("examples/softmax.py", "softmax")?;
    /// assert_eq!(schedule.trace(), "def softmax(sch):\n    pass\n");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn trace(&self) -> String {
        self.replay.trace(&self.kernel).to_string()
    }

    /// Returns the kernel as scheduled so far, as TVMScript.
    ///
    /// ```
    /// let schedule = reflex::Engine::new()?.schedule("examples/softmax.py", "softmax")?;
    /// assert!(schedule.as_text().contains("@T.prim_func"));
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn as_text(&self) -> String {
        script::print(self.replay.func())
    }

    /// Returns a table of all primitives: parameters, those that may be left out in brackets, and the
    /// effect.
    ///
    /// ```
    /// assert!(reflex::Schedule::describe().contains("split(loop, factors"));
    /// ```
    pub fn describe() -> String {
        PRIMITIVES.iter().map(described).collect()
    }
}

/// Registers a tensor intrinsic, for the process: `tensorize` of a schedule, given its name, replaces a nest that is
/// the description by the implementation. Both are kernels in TVMScript over the same buffers of constant shapes,
/// as for TVM's `TensorIntrin.register`: the description is one nest of loops that accesses each buffer at its loops,
/// the implementation has any loops but threads.
///
/// Both are run on random elements first, special values among them; an implementation that differs in a bit is
/// refused. That is a test and no proof. Where it goes the nest may lie anywhere in its buffers, at indices that are linear in its
/// loops.
///
/// ```
/// use reflex::{Engine, register_tensor_intrin};
///
/// let kernel = |loops: &str| {
///     format!(
///         r#"
/// @T.prim_func(s_tir=True)
/// def twice(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
///     for i in {loops}:
///         Y[i] = X[i] * T.float32(2)
/// "#
///     )
/// };
/// register_tensor_intrin("readme.twice", &kernel("range(8)"), &kernel("T.vectorized(8)"))?;
/// let wrong = kernel("T.vectorized(8)").replace("(2)", "(3)");
/// let error = register_tensor_intrin("readme.wrong", &kernel("range(8)"), &wrong).unwrap_err();
/// assert!(error.to_string().contains("element 0 of `Y` differs"), "{error}");
///
/// let model = r#"
/// @I.ir_module
/// class Module:
///     @R.function
///     def main(x: R.Tensor((4, 16), "float32")):
///         return R.multiply(x, R.const(2.0, "float32"))
/// "#;
/// let source = reflex::ModelSource::bytes(reflex::ModelFormat::Script, model.as_bytes());
/// let mut schedule = Engine::new()?.schedule(source, "mul")?;
/// let block = schedule.apply("sch.get_block('binary')")?.remove(0);
/// let columns = schedule.apply(&format!("sch.get_loops({block})"))?.remove(1);
/// let lanes = schedule.apply(&format!("sch.split({columns}, [None, 8])"))?.remove(1);
/// schedule.apply(&format!("sch.tensorize({lanes}, 'readme.twice')"))?;
/// assert!(schedule.as_text().contains("T.vectorized(T.int64(8))"));
/// # Ok::<(), reflex::Error>(())
/// ```
pub fn register_tensor_intrin(name: &str, description: &str, implementation: &str) -> Result<()> {
    registered::register(name, description, implementation).map_err(Error::input)
}

fn described(primitive: &Primitive) -> String {
    let param = |param: &&str| match param.strip_suffix('?') {
        Some(optional) => format!("[{optional}]"),
        None => (*param).to_owned(),
    };
    let params: Vec<String> = primitive.params.iter().map(param).collect();
    format!("{}({})\n      {}\n", primitive.name, params.join(", "), primitive.about)
}
