//! Schedules by hand: primitives applied to a kernel one by one, and the trace that they leave.

use reflex_tir::PrimFunc;
use reflex_tir::schedule_trace::{PRIMITIVES, Primitive, Replay};
use reflex_tir::script;

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

fn described(primitive: &Primitive) -> String {
    let param = |param: &&str| match param.strip_suffix('?') {
        Some(optional) => format!("[{optional}]"),
        None => (*param).to_owned(),
    };
    let params: Vec<String> = primitive.params.iter().map(param).collect();
    format!("{}({})\n      {}\n", primitive.name, params.join(", "), primitive.about)
}
