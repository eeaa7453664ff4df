//! Pipelines: which passes compile a model, in which order and with which options; passes and
//! instruments of the caller's.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reflex_graph::{Module, print, script};
use reflex_lower::dispatch::Dispatch;
use reflex_lower::passes::edit;
use reflex_lower::passes::sequence::{self, ModulePass, Place, RuntimeModules};
use reflex_lower::passes::table::{self, PassInfo};
use reflex_lower::pipeline::{Decision, Observer, StageOutput};
use reflex_runtime::function::Function;
use reflex_runtime::value::{Any, AnyView};

use crate::error::{Error, Result};
use crate::global_func::get_global_func;
use crate::library_function::library_function;

/// The passes that compile a model, in order, with their options; passes from outside among them, and
/// instruments that watch.
///
/// As text it is a name, `default` (which may be left out) or `minimal`, and edits separated by commas:
///
/// | edit | |
/// |---|---|
/// | `-PASS` | leaves the pass out |
/// | `PASS.OPTION=VALUE` | sets an option of the pass |
/// | `order=A+B+C` | runs these passes on the module, in this order, and no others |
/// | `schedule=FILE` | schedules kernels by the traces of a file, as [`Pipeline::schedule`] does |
/// | `before:PASS=NAME`, `after:PASS=NAME` | puts in a pass from outside |
///
/// `NAME` is that of a registered function, or `LIBRARY.so:FUNCTION`. A pass from outside is a packed
/// function that takes the module as TVMScript and gives one. Its result is checked as that of every
/// pass, and that the functions of the module, their parameters and their results are still there.
///
/// ```
/// use reflex::{Engine, Pipeline};
///
/// let pipeline: Pipeline = "default,-simplify,fuse_operators.max_operators=1".parse()?;
/// let engine = Engine::builder().pipeline(pipeline).build()?;
/// assert_eq!(engine.load("examples/softmax.py")?.functions(), ["main"]);
/// let error = "-fuse".parse::<Pipeline>().unwrap_err().to_string();
/// assert!(error.starts_with("no pass \"fuse\"; there are inline_functions, "), "{error}");
/// # Ok::<(), reflex::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    sequence: sequence::Pipeline,
    instruments: Vec<Instrument>,
}

#[derive(Clone)]
struct Instrument(Arc<dyn PassInstrument>);

impl fmt::Debug for Instrument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PassInstrument")
    }
}

/// Watches the passes that work on the module, and decides which run.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
///
/// use reflex::{Engine, Module, PassInstrument, Pipeline};
///
/// #[derive(Default)]
/// struct Names(Mutex<Vec<String>>);
///
/// impl PassInstrument for Names {
///     fn after(&self, pass: &str, _: &Module, _: Duration) -> Result<(), String> {
///         self.0.lock().unwrap().push(pass.to_owned());
///         Ok(())
///     }
/// }
///
/// let names = Arc::new(Names::default());
/// let pipeline = Pipeline::named("minimal")?.instrument(names.clone());
/// Engine::builder().pipeline(pipeline).build()?.load("examples/softmax.py")?;
/// assert_eq!(*names.0.lock().unwrap(), ["canonicalize_loops", "fuse_operators"]);
/// # Ok::<(), reflex::Error>(())
/// ```
pub trait PassInstrument: Send + Sync {
    /// Called before a pass; false leaves it out, which is an error where it is needed.
    fn before(&self, pass: &str, module: &Module) -> std::result::Result<bool, String> {
        let _ = (pass, module);
        Ok(true)
    }

    /// Called after a pass that ran, with what it left and how long it took.
    fn after(
        &self,
        pass: &str,
        module: &Module,
        took: Duration,
    ) -> std::result::Result<(), String> {
        let _ = (pass, module, took);
        Ok(())
    }
}

impl Pipeline {
    /// Returns a pipeline by name: `default` has every pass, `minimal` those that are needed.
    ///
    /// ```
    /// use reflex::Pipeline;
    ///
    /// assert!(Pipeline::named("minimal")?.to_string().contains("fuse_operators"));
    /// assert!(Pipeline::named("fast").is_err());
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn named(name: &str) -> Result<Pipeline> {
        let sequence = sequence::Pipeline::named(name).map_err(Error::input)?;
        Ok(Pipeline { sequence, instruments: vec![] })
    }

    /// Puts in a pass from outside, by the name that errors have for it: `place` is `before:PASS` or
    /// `after:PASS`. Passes put after the same one run in the order in which they came.
    ///
    /// ```
    /// use reflex::{Any, Engine, Function, Pipeline};
    ///
    /// let max = Function::new(|args| {
    ///     let text = args[0].as_str().expect("the module as text");
    ///     Ok(Any::from(text.replace("R.nn.softmax", "R.nn.log_softmax").as_str()))
    /// });
    /// let pipeline = Pipeline::default().pass("before:fold_constants", "logarithm", max)?;
    /// let engine = Engine::builder().pipeline(pipeline).build()?;
    /// let text = engine.dump_after("examples/softmax.py", "logarithm")?;
    /// assert!(text.contains("R.nn.log_softmax"), "{text}");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn pass(mut self, place: &str, name: &str, function: Function) -> Result<Pipeline> {
        let pass = Arc::new(ScriptPass(function));
        self.sequence.insert(place_of(place)?, name, pass).map_err(Error::input)?;
        Ok(self)
    }

    /// Puts in a pass from outside that works on nodes ([`ir`](crate::ir)) in place of text.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// use reflex::{Engine, Pipeline};
    ///
    /// static CALLS: AtomicUsize = AtomicUsize::new(0);
    /// let count = |graph: reflex::ir::Graph| {
    ///     let mut calls = 0;
    ///     graph.visit(&mut |_, node| calls += usize::from(&*node.key == "ir.Call"));
    ///     CALLS.store(calls, Ordering::Relaxed);
    ///     Ok(graph)
    /// };
    /// let pipeline = Pipeline::default().node_pass("before:fold_constants", "count", count)?;
    /// Engine::builder().pipeline(pipeline).build()?.load("examples/softmax.py")?;
    /// assert!(CALLS.load(Ordering::Relaxed) > 0);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    #[cfg(feature = "reflect")]
    pub fn node_pass(
        mut self,
        place: &str,
        name: &str,
        pass: impl Fn(crate::ir::Graph) -> std::result::Result<crate::ir::Graph, String>
        + Send
        + Sync
        + 'static,
    ) -> Result<Pipeline> {
        let pass = Arc::new(NodePass(Box::new(pass)));
        self.sequence.insert(place_of(place)?, name, pass).map_err(Error::input)?;
        Ok(self)
    }

    /// Schedules kernels by hand: each function `def KERNEL(sch):` of the text is the schedule trace of the
    /// kernel of its name, in place of the schedule that the rules choose. [`Schedule`](crate::Schedule)
    /// says how a trace reads and finds one step by step.
    ///
    /// ```
    /// use reflex::{Engine, Pipeline};
    ///
    /// let traces = "def softmax(sch):\n    b0 = sch.get_block(\"max\")\n    sch.vectorize(b0)\n";
    /// let pipeline = Pipeline::default().schedule(traces)?;
    /// let engine = Engine::builder().pipeline(pipeline).build()?;
    /// let error = engine.load("examples/softmax.py").err().unwrap().to_string();
    /// assert!(error.contains("line 3: vectorize: `loop` is a block, where a loop is needed"), "{error}");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn schedule(mut self, traces: &str) -> Result<Pipeline> {
        self.sequence.add_traces(traces).map_err(Error::input)?;
        Ok(self)
    }

    /// Replaces what a pattern matches by calls, before all passes of our own. A value that two dispatches would
    /// take goes to the one that was added first.
    ///
    /// ```
    /// use reflex::pattern::{is_op, wildcard};
    /// use reflex::{Any, Dispatch, Engine, Function, Pipeline, Tensor, register_global_func};
    ///
    /// let softmax = Function::new(|args| {
    ///     let x: Tensor = reflex_runtime::function::arg(args, 0)?;
    ///     Ok(Any::from(x)) // a library's own
    /// });
    /// register_global_func("docs.library.softmax", softmax)?;
    /// let pattern = is_op("relax.nn.softmax").call([wildcard().has_shape([None, None])]);
    /// let dispatch = Dispatch::call_packed("library.softmax", pattern, "docs.library.softmax")
    ///     .check(|region| Ok(region.script().contains("axis=")));
    /// let pipeline = Pipeline::default().dispatch(dispatch)?;
    /// let engine = Engine::builder().pipeline(pipeline).build()?;
    /// let text = engine.dump_after("examples/softmax.py", "library.softmax")?;
    /// assert!(text.contains(r#"R.call_packed("docs.library.softmax", x"#), "{text}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dispatch(mut self, dispatch: Dispatch) -> Result<Pipeline> {
        let name = dispatch.name().to_owned();
        self.sequence.insert_first(&name, Arc::new(dispatch)).map_err(Error::input)?;
        Ok(self)
    }

    /// Adds an instrument; each sees the passes that those before it let run.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use reflex::{Module, PassInstrument, Pipeline};
    ///
    /// struct NoAlgebra;
    ///
    /// impl PassInstrument for NoAlgebra {
    ///     fn before(&self, pass: &str, _: &Module) -> Result<bool, String> {
    ///         Ok(pass != "simplify")
    ///     }
    /// }
    ///
    /// let pipeline = Pipeline::default().instrument(Arc::new(NoAlgebra));
    /// ```
    #[must_use]
    pub fn instrument(mut self, instrument: Arc<dyn PassInstrument>) -> Pipeline {
        self.instruments.push(Instrument(instrument));
        self
    }

    /// Returns a table of all passes and their options, `*` before those that are needed.
    ///
    /// ```
    /// assert!(reflex::Pipeline::describe().contains("* fuse_operators"));
    /// ```
    pub fn describe() -> String {
        table::PASSES.iter().map(described).collect()
    }

    /// The passes.
    pub(crate) fn sequence(&self) -> &sequence::Pipeline {
        &self.sequence
    }

    /// True if code of the caller's runs in it.
    pub(crate) fn has_callbacks(&self) -> bool {
        self.sequence.has_outside() || !self.instruments.is_empty()
    }

    /// An observer that lets the instruments see what `inner` sees.
    pub(crate) fn watched<'a>(&'a self, inner: &'a dyn Observer) -> Watched<'a> {
        Watched { instruments: &self.instruments, inner, failure: Mutex::default() }
    }
}

fn described(pass: &PassInfo) -> String {
    let mark = if pass.needed { '*' } else { ' ' };
    let mut text = format!("{mark} {:<26}{}\n", pass.name, pass.about);
    for option in pass.options {
        let (least, most) = option.range;
        let bounds = format!("{least} to {most}, default {}", option.default);
        text.push_str(&format!("      .{} ({bounds}): {}\n", option.name, option.about));
    }
    text
}

/// The passes in order, one on a line, with the options that are set.
impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sequence.fmt(f)
    }
}

impl FromStr for Pipeline {
    type Err = Error;

    fn from_str(text: &str) -> Result<Pipeline> {
        let sequence = edit::parse(text, &outside).map_err(Error::input)?;
        Ok(Pipeline { sequence, instruments: vec![] })
    }
}

/// Finds a pass from outside: a function of a library, or a registered one.
fn outside(name: &str) -> std::result::Result<Arc<dyn ModulePass>, String> {
    let function = match name.rsplit_once(".so:") {
        Some((library, function)) => library_function(format!("{library}.so").as_ref(), function)
            .map_err(|e| e.to_string())?,
        None => get_global_func(name)
            .ok_or_else(|| format!("no pass {name:?}: no function is registered by this name"))?,
    };
    Ok(Arc::new(ScriptPass(function)))
}

/// A place that is written `before:PASS` or `after:PASS`.
fn place_of(place: &str) -> Result<Place<'_>> {
    match place.split_once(':').unwrap_or_default() {
        ("before", pass) => Ok(Place::Before(pass)),
        ("after", pass) => Ok(Place::After(pass)),
        _ => Err(Error::input(format!("{place:?} is neither before:PASS nor after:PASS"))),
    }
}

/// A function from nodes to nodes.
#[cfg(feature = "reflect")]
struct NodePass<F: ?Sized>(Box<F>);

#[cfg(feature = "reflect")]
impl<F> ModulePass for NodePass<F>
where
    F: Fn(crate::ir::Graph) -> std::result::Result<crate::ir::Graph, String> + Send + Sync + ?Sized,
{
    fn run(&self, module: Module, _: &mut RuntimeModules) -> std::result::Result<Module, String> {
        let nodes = crate::ir::of_module(&module).map_err(|e| e.to_string())?;
        drop(module);
        crate::ir::to_module(&(self.0)(nodes)?).map_err(|e| e.to_string())
    }
}

/// A packed function from TVMScript to TVMScript.
struct ScriptPass(Function);

impl ModulePass for ScriptPass {
    fn run(&self, module: Module, _: &mut RuntimeModules) -> std::result::Result<Module, String> {
        let text = Any::from(print::module_with_metadata(&module).as_str());
        drop(module);
        let given = self.0.call(&[text.view()]).map_err(|e| e.to_string())?;
        let view = given.view();
        let given = view.as_str().ok_or("it gives no text")?;
        script::parse(given, "the module it gives").map_err(|e| e.to_string())
    }
}

/// An instrument that is a packed function: `(when, pass, script)`, where `when` is `before` or `after`
/// and `script` a function that gives the module as TVMScript. False before a pass leaves it out.
pub(crate) struct FunctionInstrument(pub(crate) Function);

impl FunctionInstrument {
    fn call(&self, when: &str, pass: &str, module: &Module) -> std::result::Result<Any, String> {
        let module = module.clone();
        let script =
            Function::new(move |_| Ok(Any::from(print::module_with_metadata(&module).as_str())));
        let args = [Any::from(when), Any::from(pass), Any::from(script)];
        let views: Vec<AnyView<'_>> = args.iter().map(Any::view).collect();
        self.0.call(&views).map_err(|e| e.to_string())
    }
}

impl PassInstrument for FunctionInstrument {
    fn before(&self, pass: &str, module: &Module) -> std::result::Result<bool, String> {
        let verdict = self.call("before", pass, module)?;
        Ok(verdict.view().as_int() != Some(0))
    }

    fn after(&self, pass: &str, module: &Module, _: Duration) -> std::result::Result<(), String> {
        self.call("after", pass, module).map(drop)
    }
}

/// Shows the passes to instruments, and all stages to an observer.
pub(crate) struct Watched<'a> {
    instruments: &'a [Instrument],
    inner: &'a dyn Observer,
    /// The first failure of an instrument after a pass.
    failure: Mutex<Option<String>>,
}

impl Watched<'_> {
    /// An error if an instrument failed after the last pass.
    pub(crate) fn finish(&self) -> std::result::Result<(), String> {
        self.failure.lock().expect("no instrument panics with the lock").take().map_or(Ok(()), Err)
    }
}

impl Observer for Watched<'_> {
    fn before(&self, pass: &str, module: &Module) -> std::result::Result<Decision, String> {
        self.finish()?;
        for Instrument(instrument) in self.instruments {
            let why = |why| format!("instrument before {pass}: {why}");
            if !instrument.before(pass, module).map_err(why)? {
                return Ok(Decision::Skip);
            }
        }
        self.inner.before(pass, module)
    }

    fn after(&self, stage: &str, took: Duration, result: StageOutput<'_>) {
        if let StageOutput::Graph(module) = result {
            for Instrument(instrument) in self.instruments {
                if let Err(why) = instrument.after(stage, module, took) {
                    let mut failure =
                        self.failure.lock().expect("no instrument panics with the lock");
                    failure.get_or_insert(format!("instrument after {stage}: {why}"));
                }
            }
        }
        self.inner.after(stage, took, result);
    }
}
