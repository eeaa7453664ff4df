//! A loaded model, shared by the threads that run it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use reflex_cranelift::{CraneliftTier, Disassemble, SavedCodeError, TierOptions};
use reflex_graph::{ConstantPool, Literal};
use reflex_lower::compile::Compiled;
use reflex_runtime::alloc::device::AllocatorKind;
use reflex_runtime::library::Library;
use reflex_runtime::value::Any;
use reflex_tir::codegen::Target;
use reflex_tir::level::Level;
use reflex_vm::executable::{Constant, Executable, FuncKind};
use reflex_vm::session::{self as vm, Canceller};
use reflex_vm::tier::Bailout;
use reflex_vm::verify::{self, Verified};
use reflex_vm::{load, program, serialize, text};

use crate::array::Feed;
use crate::artifact::{self, CODE_SYMBOL, EXECUTABLE_KIND, META_SYMBOL, Meta, unfit};
use crate::error::{Error, ErrorKind, Result};
use crate::kernels::{Artifact, Kernels};
use crate::objects::Objects;
use crate::options::{Mode, SessionOptions, check_device};
use crate::session::router::Extents;
use crate::session::{KernelOperations, OutputNames, Session};
use crate::specialise::Specialiser;
use crate::tier_policy::{SavedCode, TierPolicy, Tiering};
use crate::tier_report::{TierDetail, TierReport};
use crate::{Dim, ModelInfo, Signature, foreign};

/// A loaded model. Cloning shares it.
#[derive(Clone)]
pub struct Program(Arc<Inner>);

struct Inner {
    vm: Arc<program::Program>,
    /// Where the VM found the packed functions.
    library: Arc<dyn load::Library + Send + Sync>,
    signatures: Arc<BTreeMap<String, Signature>>,
    /// Kernels as objects, when this process compiled them for all calls, by CPU, the lowest first.
    objects: Option<Arc<Objects>>,
    /// Why this CPU cannot run the kernels.
    unfit: Option<String>,
    threads: usize,
    policy: TierPolicy,
    kind: String,
    outputs: Arc<OutputNames>,
    operations: Arc<KernelOperations>,
    /// Machine code of VM functions that the artifact brought.
    code: Option<Arc<[u8]>>,
    /// Makes programs for extents, when there is a module to make them from.
    specialiser: Option<Arc<Specialiser>>,
    /// The tier, or why there is none.
    tier: OnceLock<std::result::Result<Tier, String>>,
    /// Functions that compiled mode leaves to the interpreter.
    compiled: OnceLock<Vec<(u32, Bailout)>>,
}

/// The code generator, and what came of the artifact's machine code.
struct Tier {
    cranelift: Arc<CraneliftTier>,
    saved: Option<std::result::Result<(), SavedCodeError>>,
}

/// What a program is made from.
struct Parts {
    code: Option<Arc<[u8]>>,
    exec: Verified<Executable>,
    library: Arc<dyn load::Library + Send + Sync>,
    signatures: Arc<BTreeMap<String, Signature>>,
    objects: Option<Arc<Objects>>,
    unfit: Option<String>,
    threads: usize,
    policy: TierPolicy,
    kind: String,
    operations: Arc<KernelOperations>,
    specialiser: Option<Arc<Specialiser>>,
}

/// What a program is compiled for.
pub(crate) enum Purpose {
    /// All calls, and to be saved; extents get programs of their own if there is a specialiser.
    General(Option<Arc<Specialiser>>),
    /// Calls with certain extents.
    Extents,
}

/// Arguments of a call, checked against the function's signature and ready to use again.
pub struct Prepared {
    pub(crate) func: u32,
    pub(crate) args: Vec<Any>,
}

impl Program {
    pub(crate) fn from_compiled(
        c: Compiled,
        signatures: BTreeMap<String, Signature>,
        host: &Target,
        (threads, policy): (usize, &TierPolicy),
        purpose: Purpose,
    ) -> Result<Program> {
        let best = c.kernels.iter().rposition(|(cpu, _)| host.runs(&cpu.target));
        let (cpu, objects) = &c.kernels[best.unwrap_or(0)];
        let kernels = Arc::new(Kernels::load(objects, &cpu.suffix)?);
        let (specialiser, keeps_objects) = match purpose {
            Purpose::General(specialiser) => (specialiser, true),
            Purpose::Extents => (None, false),
        };
        Program::new(Parts {
            exec: verified(c.executable)?,
            library: kernels,
            signatures: Arc::new(signatures),
            unfit: unfit(&cpu.target.features, host),
            objects: keeps_objects.then(|| Arc::new(Objects::new(c.kernels))),
            code: None,
            threads,
            policy: policy.clone(),
            kind: "compiled in this process".to_string(),
            operations: Arc::new(c.operations),
            specialiser,
        })
    }

    pub(crate) fn from_library(
        library: Library,
        (host, levels): (&Target, &BTreeSet<Level>),
        (threads, policy): (usize, &TierPolicy),
    ) -> Result<Program> {
        let model = |message: &str| Error::new(ErrorKind::Model, message);
        let meta = match library.data(META_SYMBOL).map(Meta::parse) {
            Some(None) => {
                return Err(model("written by another version of Reflex; compile it again"));
            }
            meta => meta.flatten(),
        };
        let bundle = library.bundle().ok_or_else(|| model("a library without TVM's bundle"))?;
        let module = bundle
            .find(EXECUTABLE_KIND)
            .ok_or_else(|| model("its bundle holds no relax.VMExecutable"))?;
        let range = module.bytes.clone();
        let owner: Arc<dyn AsRef<[u8]> + Send + Sync> =
            Arc::new(BundleBytes(library.clone(), range.end));
        let exec = serialize::from_shared(&owner, range).map_err(|e| model(&e.to_string()))?;
        let code = library.data(CODE_SYMBOL).map(Arc::from);
        let (signatures, kernels, operations, kind, suffix) = match meta {
            Some(meta) => {
                let best = meta.best(host, levels)?;
                let names = meta.names().join(" and ");
                let kind = format!("compiled by Reflex for {names}, of which {} runs", best.name);
                let suffix = best.suffix.clone();
                (meta.signatures, meta.kernels, meta.operations, kind, suffix)
            }
            None => {
                let kind = "exported by TVM".to_owned();
                let nothing = KernelOperations::new();
                (foreign::signatures(&exec), vec![], nothing, kind, String::new())
            }
        };
        // SAFETY: the library's machine code is trusted, and with it what it says of that code.
        let library = unsafe { Artifact::new(library, suffix, kernels) };
        Program::new(Parts {
            exec: verified(exec)?,
            library: Arc::new(library),
            signatures: Arc::new(signatures),
            objects: None,
            unfit: None,
            code,
            threads,
            policy: policy.clone(),
            kind,
            operations: Arc::new(operations),
            specialiser: None,
        })
    }

    fn new(parts: Parts) -> Result<Program> {
        let Parts { exec, library, .. } = parts;
        let failed = |e: load::LoadError| Error::new(ErrorKind::Model, e.to_string());
        let vm = program::Program::load(exec, &[library.as_ref()]).map_err(failed)?;
        let names = |s: &Signature| s.outputs.iter().map(|p| p.name.clone()).collect();
        let outputs = parts.signatures.iter().filter_map(|(f, s)| Some((vm.find(f)?, names(s))));
        Ok(Program(Arc::new(Inner {
            outputs: Arc::new(outputs.collect()),
            vm: Arc::new(vm),
            library,
            signatures: parts.signatures,
            objects: parts.objects,
            code: parts.code,
            specialiser: parts.specialiser,
            unfit: parts.unfit,
            threads: parts.threads,
            policy: parts.policy,
            kind: parts.kind,
            operations: parts.operations,
            tier: OnceLock::new(),
            compiled: OnceLock::new(),
        })))
    }

    /// The same program with nothing compiled by its tiers yet. Shares kernels and constants;
    /// for measuring modes beside each other.
    pub fn fork(&self) -> Result<Program> {
        let Inner { vm, library, signatures, objects, code, unfit, threads, policy, kind, .. } =
            &*self.0;
        Program::new(Parts {
            exec: vm.executable().clone(),
            library: library.clone(),
            signatures: signatures.clone(),
            objects: objects.clone(),
            code: code.clone(),
            unfit: unfit.clone(),
            threads: *threads,
            policy: policy.clone(),
            kind: kind.clone(),
            operations: self.0.operations.clone(),
            specialiser: self.0.specialiser.as_ref().map(|s| Arc::new(s.fresh())),
        })
    }

    /// The number of a function.
    pub(crate) fn number(&self, func: &str) -> Option<u32> {
        self.0.vm.find(func)
    }

    /// Its constants, for a program that shares their memory.
    pub(crate) fn constants(&self) -> ConstantPool {
        let constants = self.0.vm.executable().constants.iter();
        let literal = |constant: &Constant| match constant {
            Constant::Tensor(tensor) => {
                let data = Arc::new(tensor.data.clone());
                Literal::new(tensor.dtype, tensor.shape.to_vec(), data)
            }
            _ => None,
        };
        constants.filter_map(literal).collect()
    }

    /// What a tiered session needs to run programs for extents.
    fn extents(&self, canceller: Canceller, allocator: AllocatorKind) -> Option<Extents> {
        let specialiser = self.0.specialiser.clone()?;
        let symbolic = |s: &Signature| {
            s.inputs.iter().any(|p| p.shape.iter().any(|d| matches!(d, Dim::Symbol(_))))
        };
        let dynamic = self.0.signatures.iter().filter(|(_, s)| symbolic(s));
        let dynamic = dynamic.filter_map(|(name, _)| Some((self.number(name)?, name.clone())));
        let dynamic: Vec<_> = dynamic.collect();
        (!dynamic.is_empty())
            .then(|| Extents::new(specialiser, self.clone(), (canceller, allocator), dynamic))
    }

    /// Names of the functions that can be called.
    pub fn functions(&self) -> Vec<String> {
        let functions = self.0.vm.executable().functions.iter();
        functions.filter(|f| f.kind != FuncKind::Packed).map(|f| f.name.clone()).collect()
    }

    /// What `func` takes and gives.
    pub fn signature(&self, func: &str) -> Result<Signature> {
        self.0.signatures.get(func).cloned().ok_or_else(|| {
            let known: Vec<&str> = self.0.signatures.keys().map(String::as_str).collect();
            Error::input(format!("no function {func:?}; there are {}", known.join(", ")))
        })
    }

    /// Checks a feed against the signature of `func` and makes its tensors.
    pub fn prepare(&self, func: &str, feed: &Feed) -> Result<Prepared> {
        let signature = self.signature(func)?;
        let known = |name: &String| signature.inputs.iter().any(|p| p.name == *name);
        if let Some(name) = feed.keys().find(|n| !known(n)) {
            return Err(Error::input(format!("no input named {name:?} in {func}")));
        }
        let mut sizes = BTreeMap::new();
        let args = signature
            .inputs
            .iter()
            .map(|port| {
                let array = feed
                    .get(&port.name)
                    .ok_or_else(|| Error::input(format!("input {} is missing", port.name)))?;
                port.check(array, &mut sizes)?;
                Ok(array.tensor().map_err(|e| e.at(format!("input {}", port.name)))?.into())
            })
            .collect::<Result<_>>()?;
        let number = self.0.vm.find(func);
        let func = number.ok_or_else(|| Error::input(format!("no function {func:?}")))?;
        Ok(Prepared { func, args })
    }

    /// Opens a session on this thread.
    pub fn session(&self, mode: Mode) -> Result<Session> {
        self.open(&SessionOptions::new(mode))
    }

    /// Opens a session with options.
    ///
    /// ```
    /// use reflex::{Engine, Mode, SessionOptions, memory::AllocatorKind};
    ///
    /// let program = Engine::new()?.load("examples/softmax.py".as_ref())?;
    /// let options = SessionOptions::new(Mode::Bytecode).allocator(AllocatorKind::Naive);
    /// program.open(&options)?;
    /// let error = program.open(&options.device("cuda")).err().unwrap();
    /// assert_eq!(error.to_string(), "there is no device \"cuda\"; there is cpu (or cpu:0)");
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn open(&self, options: &SessionOptions) -> Result<Session> {
        check_device(&options.device)?;
        if let Some(unfit) = &self.0.unfit {
            return Err(Error::new(ErrorKind::Unsupported, unfit.as_str()));
        }
        let (vm, mode) = (&self.0.vm, options.mode);
        let off = mode == Mode::Tiered && self.0.policy.tiering == Tiering::Off;
        let mode = if off { Mode::Bytecode } else { mode };
        let tier = match mode {
            Mode::Bytecode => None,
            Mode::Compiled | Mode::Tiered => Some(self.tier()?.cranelift.clone()),
        };
        if mode == Mode::Compiled {
            self.0.compiled.get_or_init(|| vm.compile_ahead_of_time());
        }
        let how = (mode, tier, options.allocator);
        let known = (self.0.outputs.clone(), self.0.operations.clone());
        let session = Session::open(vm, how, self.0.threads, known)?;
        let extents = (mode == Mode::Tiered)
            .then(|| self.extents(session.canceller(), options.allocator))
            .flatten();
        Ok(session.with_extents(extents))
    }

    /// The tier, made and attached at first use. Code that the artifact brought runs from then on.
    fn tier(&self) -> Result<&Tier> {
        let Inner { vm, code, policy, .. } = &*self.0;
        let code = code.as_deref().filter(|_| policy.saved == SavedCode::Use);
        let tier = self.0.tier.get_or_init(|| {
            let tier = Tier::of(vm, code, policy.options()).map_err(|e| e.to_string())?;
            vm.attach(tier.cranelift.clone());
            tier.cranelift.install_saved_code(vm);
            Ok(tier)
        });
        tier.as_ref().map_err(|e| Error::new(ErrorKind::Compile, e.clone()))
    }

    /// Writes the artifact that [`crate::Engine::load`] and TVM open, with the machine code of its
    /// functions. Returns its size.
    pub fn save(&self, path: &Path) -> Result<u64> {
        let objects = self.0.objects.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                "a .so is compiled already; compile the model itself",
            )
        })?;
        let failed = |e: &dyn std::fmt::Display| Error::new(ErrorKind::Compile, e.to_string());
        let exec = verified(artifact::aligned(self.0.vm.executable())?)?;
        let vm = program::Program::load(exec, &[self.0.library.as_ref()]);
        let vm = vm.map_err(|e| failed(&e))?;
        let tier = CraneliftTier::new().map_err(|e| failed(&e))?;
        let (code, _) = tier.save_code(&vm).map_err(|e| failed(&e))?;
        let known = (&*self.0.signatures, &*self.0.operations);
        artifact::write(path, (vm.executable(), &code), &objects.read()?, known)
    }

    /// Bytecode as text.
    pub fn as_text(&self) -> String {
        text::as_text(self.0.vm.executable())
    }

    /// Bytecode as a Python program for TVM's `ExecBuilder`.
    pub fn as_python(&self) -> String {
        text::as_python(self.0.vm.executable())
    }

    /// Bytecode as a Rust function that builds it with the VM's `ExecBuilder`.
    pub fn as_rust(&self) -> String {
        text::as_rust(self.0.vm.executable())
    }

    /// Sizes and counts; of a compiled library also its machine code, or why that is not used.
    pub fn stats(&self) -> String {
        let mut stats = text::stats(self.0.vm.executable());
        let Some(code) = &self.0.code else { return stats };
        if !stats.ends_with('\n') {
            stats.push('\n');
        }
        let use_of = match self.tier() {
            Ok(tier) => match &tier.saved {
                None => "not used, by the tier policy".to_owned(),
                Some(Err(unfit)) => format!("not used, since {unfit}"),
                Some(Ok(())) => {
                    let (functions, bytes) = tier.cranelift.saved_functions(&self.0.vm);
                    format!("{functions} functions, {bytes} bytes")
                }
            },
            Err(error) => format!("not used: {error}"),
        };
        stats += &format!("Machine code of VM functions ({} bytes): {use_of}\n", code.len());
        stats
    }

    /// What the tiers made of the functions so far: traces with their guards and the exits that
    /// were taken, functions compiled whole, reasons not to compile. Empty before the first
    /// session that may compile.
    pub fn tiers(&self) -> String {
        self.tiers_of(None, TierDetail::Summary).to_string()
    }

    /// [`Program::tiers`] with what a session has counted.
    pub(crate) fn tiers_of(&self, session: Option<&vm::Session>, code: TierDetail) -> TierReport {
        let tier = self.0.tier.get().and_then(|tier| tier.as_ref().ok());
        let Some(Tier { cranelift, saved }) = tier else {
            let off = self.0.policy.tiering == Tiering::Off;
            return TierReport { off, ..TierReport::default() };
        };
        let assembly = |code: &[u8], address: usize| {
            let mut text = String::new();
            crate::disassemble::function(&mut text, code, address as u64);
            text
        };
        let show: Option<Disassemble<'_>> = (code == TierDetail::Code).then_some(&assembly);
        TierReport {
            off: false,
            code: Some(cranelift.overview(&self.0.vm, session, show)),
            specialised: self.0.specialiser.as_ref().map(|s| s.to_string()),
            saved_code_unused: saved
                .as_ref()
                .and_then(|fits| Some(fits.as_ref().err()?.to_string())),
        }
    }

    /// Assembly of a kernel.
    pub fn assembly(&self, func: &str) -> Result<String> {
        let kept = self.0.objects.as_deref().ok_or_else(|| {
            let why = "this program has no objects; see Engine::assembly for a .so";
            Error::new(ErrorKind::Unsupported, why)
        })?;
        let list = kept.read()?;
        let objects = || list.iter().flat_map(|(_, objects)| objects);
        let names = || objects().map(|o| o.signature.name.as_str()).collect::<Vec<_>>();
        let object = objects().find(|o| o.signature.name == func).ok_or_else(|| {
            Error::input(format!("no kernel {func:?}; there are {}", names().join(", ")))
        })?;
        crate::disassemble::object(object)
    }

    /// Interface and callees.
    pub(crate) fn info(&self) -> ModelInfo {
        let main = self.0.signatures.get("main").cloned().unwrap_or_default();
        ModelInfo::of_executable(&self.0.kind, main, self.0.vm.executable())
    }
}

impl Tier {
    fn of(
        vm: &program::Program,
        code: Option<&[u8]>,
        options: TierOptions,
    ) -> std::result::Result<Tier, reflex_cranelift::JitError> {
        let Some(code) = code else {
            return Ok(Tier {
                cranelift: Arc::new(CraneliftTier::with_options(options)?),
                saved: None,
            });
        };
        let (tier, saved) = CraneliftTier::with_saved_code(options, vm, code)?;
        Ok(Tier { cranelift: Arc::new(tier), saved: Some(saved) })
    }
}

fn verified(exec: Executable) -> Result<Verified<Executable>> {
    let failed = |e: &dyn std::fmt::Display| Error::new(ErrorKind::Model, e.to_string());
    if !exec.functions.iter().any(|f| f.kind != FuncKind::Packed) {
        return Err(failed(&"the executable defines no function"));
    }
    verify::verify(exec).map_err(|e| failed(&e))
}

/// The bundle of a library, which stays open with it.
struct BundleBytes(Library, usize);

impl AsRef<[u8]> for BundleBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.bundle_bytes(0..self.1)
    }
}
