//! Programs: loaded models, shared by the threads that run them.

#[cfg(feature = "compiler")]
pub(crate) mod compiled;
pub(crate) mod loaded;
#[cfg(feature = "compiler")]
mod own_kernels;
pub(crate) mod shape_variant;
#[cfg_attr(not(feature = "jit"), path = "no_tier.rs")]
pub(crate) mod tier;

use std::collections::BTreeMap;
use std::sync::Arc;

use reflex_runtime::module::Module;
use reflex_vm::executable::FuncKind;
use reflex_vm::text;

use crate::array::Feed;
use crate::artifact::relay::RESERVED;
use crate::error::{Error, Result};
use crate::model_info::ModelInfo;
use crate::options::{Mode, SessionOptions};
use crate::prepared::Prepared;
use crate::session::Session;
use crate::session::plain::PlainSession;
use crate::session::router::{DynamicFunction, ShapeRouter, Specialisation};
use crate::signature::{Dim, OutputNames, Signature};
use crate::specialise::Specialiser;
use crate::tier_report::{TierDetail, TierReport};
use loaded::LoadedProgram;

/// A loaded model. Cloning shares it.
#[derive(Clone)]
pub struct Program {
    loaded: Arc<LoadedProgram>,
    outputs: Arc<OutputNames>,
    /// Compiles shape specialisations, if there is a model file to compile them from.
    specialiser: Option<Arc<Specialiser>>,
    /// Prints the kernels in a language, if there is a model to compile them from.
    source: Option<PrintSource>,
}

/// The text of a program's kernels in the language of a name.
pub(crate) type PrintSource = Arc<dyn Fn(&str) -> Result<String> + Send + Sync>;

impl Program {
    pub(crate) fn new(loaded: LoadedProgram, specialiser: Option<Arc<Specialiser>>) -> Program {
        let names = |s: &Signature| s.outputs.iter().map(|output| output.name.clone()).collect();
        let signatures = loaded.resources().signatures.iter();
        let outputs = signatures.filter_map(|(f, s)| Some((loaded.function_index(f)?, names(s))));
        let outputs = Arc::new(outputs.collect());
        Program { loaded: Arc::new(loaded), outputs, specialiser, source: None }
    }

    /// Sets what prints its kernels.
    #[cfg(feature = "compiler")]
    pub(crate) fn with_source(self, source: Option<PrintSource>) -> Program {
        Program { source, ..self }
    }

    /// Returns its kernels as text: `c`, `cuda` or `opencl`, compiled anew from the model that the engine read.
    ///
    /// ```
    /// use reflex::Engine;
    ///
    /// let program = Engine::new()?.load("examples/softmax.py")?;
    /// assert!(program.source("cuda")?.contains("__global__ void"));
    /// assert!(program.source("fortran").is_err());
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn source(&self, language: &str) -> Result<String> {
        match &self.source {
            Some(print) => print(language),
            None => Err(Error::input(
                "kernels are printed of programs that were loaded from a model's file, or from memory with specialisations, \
                 without passes or functions of the caller's; Engine::source prints those of any model",
            )),
        }
    }

    /// Returns the same program with nothing compiled by its tiers yet. It shares kernels and
    /// constants; for measuring modes next to each other.
    ///
    /// ```
    /// use reflex::Mode;
    ///
    /// # use reflex::Engine;
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// let fork = program.fork()?;
    /// let (interpreted, compiled) = (program.session(Mode::Bytecode)?, fork.session(Mode::Compiled)?);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn fork(&self) -> Result<Program> {
        let specialiser = self.specialiser.as_ref().map(|s| Arc::new(s.fresh()));
        Ok(Program {
            source: self.source.clone(),
            ..Program::new(self.loaded.fork()?, specialiser)
        })
    }

    /// Returns the modules of its artifact beside the program.
    pub(crate) fn imported_modules(&self) -> &[Module] {
        &self.loaded.resources().imports
    }

    /// Returns the names of the functions that can be called.
    ///
    /// ```
    /// # use reflex::Engine;
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// assert_eq!(program.functions(), ["main"]);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn functions(&self) -> Vec<String> {
        let functions = self.loaded.executable().functions.iter();
        let variants = &self.loaded.resources().variants;
        let general =
            |name: &str| !name.starts_with(RESERVED) && variants.iter().all(|v| v.variant != name);
        let functions = functions.filter(|f| f.kind != FuncKind::Packed && general(&f.name));
        functions.map(|f| f.name.clone()).collect()
    }

    /// Returns the inputs and outputs of `func`.
    ///
    /// ```
    /// # use reflex::Engine;
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// let signature = program.signature("main")?;
    /// assert_eq!(signature.inputs[0].to_string(), "x: float32[m, n]");
    /// assert_eq!(signature.outputs[0].to_string(), "output0: float32[m, n]");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn signature(&self, func: &str) -> Result<Signature> {
        let signatures = &self.loaded.resources().signatures;
        signatures.get(func).cloned().ok_or_else(|| {
            if self.loaded.function_index(func).is_some() {
                return Error::input(format!(
                    "`{func}` takes or returns values that are not tensors; Session::call_values, \
                     reflex_call, Python and `reflex run` call it"
                ));
            }
            let known: Vec<&str> = signatures.keys().map(String::as_str).collect();
            Error::input(format!("no function {func:?}; there are {}", known.join(", ")))
        })
    }

    /// Checks a feed against the signature of `func` and makes its tensors.
    ///
    /// ```
    /// use reflex::{Array, Feed};
    ///
    /// # use reflex::Engine;
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// let feed = Feed::from([("x".to_owned(), Array::of(&[1, 2], &[8.0_f32, 8.0])?)]);
    /// let prepared = program.prepare("main", &feed)?;
    /// let error = program.prepare("main", &Feed::new()).err().unwrap();
    /// assert_eq!(error.to_string(), "input x is missing");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn prepare(&self, func: &str, feed: &Feed) -> Result<Prepared> {
        let signature = self.signature(func)?;
        let known = |name: &String| signature.inputs.iter().any(|input| input.name == *name);
        if let Some(name) = feed.keys().find(|n| !known(n)) {
            return Err(Error::input(format!("no input named {name:?} in {func}")));
        }
        let mut sizes = BTreeMap::new();
        let args = signature
            .inputs
            .iter()
            .map(|input| {
                let array = feed
                    .get(&input.name)
                    .ok_or_else(|| Error::input(format!("input {} is missing", input.name)))?;
                input.check(array, &mut sizes)?;
                Ok(array.tensor().map_err(|e| e.at(format!("input {}", input.name)))?.into())
            })
            .collect::<Result<_>>()?;
        let index = self.loaded.function_index(func);
        let func = index.ok_or_else(|| Error::input(format!("no function {func:?}")))?;
        Ok(Prepared { func, args })
    }

    /// Returns the names of the kernels that the CPU runs, since the device has no code for them
    /// ([`EngineBuilder::allow_cpu`](crate::EngineBuilder::allow_cpu)).
    ///
    /// ```
    /// let program = reflex::Engine::new()?.load("examples/softmax.py")?;
    /// assert!(program.cpu_kernels().is_empty(), "the CPU is the device");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn cpu_kernels(&self) -> &[String] {
        &self.loaded.resources().on_cpu
    }

    /// Opens a session on this thread.
    ///
    /// ```
    /// use reflex::Mode;
    ///
    /// # use reflex::Engine;
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// let session = program.session(Mode::Tiered)?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn session(&self, mode: Mode) -> Result<Session> {
        self.open(&SessionOptions::new(mode))
    }

    /// Opens a session with options.
    ///
    /// ```
    /// use reflex::{Engine, Mode, SessionOptions, memory::AllocatorKind};
    ///
    /// let program = Engine::new()?.load("examples/softmax.py")?;
    /// let options = SessionOptions::new(Mode::Bytecode).allocator(AllocatorKind::Naive);
    /// program.open(&options)?;
    /// let error = program.open(&options.device("cuda")).err().unwrap();
    /// assert!(error.to_string().starts_with("there is no device \"cuda\"; there is cpu"));
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn open(&self, options: &SessionOptions) -> Result<Session> {
        let plain = self.loaded.open(options)?;
        let specialisation = match options.mode {
            Mode::Tiered if !self.loaded.is_tiering_off() => self.specialisation(&plain, options),
            _ => None,
        };
        let router = ShapeRouter::new(self.loaded.variants(), specialisation);
        let operations = self.loaded.resources().operations.clone();
        Ok(Session::new(plain, self.outputs.clone(), operations)
            .with_router(router)
            .with_slow_call(options.slow_call))
    }

    /// Returns the dispatch of a tiered session to specialised programs.
    fn specialisation(
        &self,
        general: &PlainSession,
        options: &SessionOptions,
    ) -> Option<Specialisation> {
        let specialiser = self.specialiser.clone()?;
        let symbolic = |s: &Signature| {
            s.inputs.iter().any(|input| input.shape.iter().any(|d| matches!(d, Dim::Symbol(_))))
        };
        let signatures = self.loaded.resources().signatures.iter();
        let dynamic = signatures.filter(|(_, s)| symbolic(s)).filter_map(|(name, _)| {
            Some(DynamicFunction { index: self.loaded.function_index(name)?, name: name.clone() })
        });
        let dynamic: Vec<_> = dynamic.collect();
        let canceller = general.canceller();
        let loaded = self.loaded.clone();
        (!dynamic.is_empty()).then(|| {
            let allocators = options.allocators.clone();
            Specialisation::new(specialiser, loaded, dynamic, canceller, allocators)
        })
    }

    /// Returns the bytecode as text.
    ///
    /// ```
    /// # use reflex::Engine;
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// assert!(program.as_text().contains("@main"));
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn as_text(&self) -> String {
        text::as_text(self.loaded.executable())
    }

    /// Returns the listing of an executable of TVM's Relay virtual machine, in TVM's form: tables of
    /// devices, kernels and constants, then the functions. `None` for other programs.
    /// [`Program::as_text`] is the bytecode that it was lowered to.
    ///
    /// ```
    /// # use reflex::Engine;
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// assert!(program.relay_listing().is_none());
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn relay_listing(&self) -> Option<&str> {
        self.loaded.resources().listing.as_deref()
    }

    /// Returns the bytecode as a Python program for TVM's `ExecBuilder`.
    ///
    /// ```
    /// # use reflex::Engine;
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// assert!(program.as_python().contains("ib.function"));
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn as_python(&self) -> String {
        text::as_python(self.loaded.executable())
    }

    /// Returns the bytecode as a Rust function that builds it with the VM's `ExecBuilder`.
    ///
    /// ```
    /// # use reflex::Engine;
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// assert!(program.as_rust().contains("ExecBuilder::new()"));
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn as_rust(&self) -> String {
        text::as_rust(self.loaded.executable())
    }

    /// Returns sizes and counts; for an artifact also the state of its saved code.
    ///
    /// ```
    /// # use reflex::Engine;
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// assert!(!program.stats().is_empty());
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn stats(&self) -> String {
        self.loaded.stats()
    }

    /// Returns the state of the tiers as text: traces with their guards and the side exits taken,
    /// method-compiled functions, reasons not to compile, specialised programs. Empty before the
    /// first session that may compile.
    ///
    /// ```
    /// # use reflex::Engine;
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// assert_eq!(program.tiers(), "", "no session has been opened");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn tiers(&self) -> String {
        self.report(None, TierDetail::Summary).to_string()
    }

    /// Returns the state of the tiers with the hot counters of a session.
    ///
    /// ```
    /// use reflex::TierDetail;
    /// # use reflex::{Array, Engine, Feed, Mode};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let feed = Feed::from([("x".to_owned(), Array::of(&[1, 2], &[8.0_f32, 8.0])?)]);
    /// # let prepared = program.prepare("main", &feed)?;
    /// let mut session = program.session(Mode::Tiered)?;
    /// session.call(&prepared)?;
    /// let report = program.tier_report(&session, TierDetail::Code);
    /// assert!(report.code.is_some());
    /// println!("{report}");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn tier_report(&self, session: &Session, detail: TierDetail) -> TierReport {
        self.report(Some(session), detail)
    }

    fn report(&self, session: Option<&Session>, detail: TierDetail) -> TierReport {
        let report = self.loaded.tier_report(session.map(Session::vm_state), detail);
        let specialiser = self.specialiser.as_ref().filter(|_| report.code.is_some());
        TierReport { specialised: specialiser.map(|s| s.to_string()), ..report }
    }

    /// Says what the device made the kernels of a program for a GPU of: cubins, or PTX that the driver
    /// compiled, with why it refused a cubin that is for it; `None` where no device is open for it.
    ///
    /// ```
    /// let program = reflex::Engine::new()?.load("examples/softmax.py")?;
    /// assert!(program.gpu_code().is_none(), "it is for a CPU");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn gpu_code(&self) -> Option<&str> {
        self.loaded.resources().device_code_source.as_deref()
    }

    /// Returns the interface and the callees.
    pub(crate) fn info(&self) -> ModelInfo {
        let resources = self.loaded.resources();
        let main = resources.signatures.get("main").cloned();
        let form = if resources.listing.is_some() { "Relay executable" } else { "shared library" };
        let kind = format!("{form}, {}", resources.origin);
        let info = ModelInfo::of_executable(kind, main, self.loaded.executable());
        let variants = resources.variants.iter().map(ToString::to_string).collect();
        ModelInfo { variants, ..info }
    }
}
