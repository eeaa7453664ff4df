//! Programs at a server of `reflex serve`: compiled here for the server's CPU, uploaded, run there.
//!
//! A server that opens no libraries of clients gets the model instead, and compiles it itself.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reflex_rpc::client::{RemoteFunction, RemoteModule, RemoteSession, RemoteTensor, RemoteValue};
use reflex_rpc::handshake::Greeting;
use reflex_rpc::names;
use reflex_rpc::secure::ClientTls;
use reflex_rpc::tracker::client::TrackerClient;
use reflex_rpc::wire::item::Item;
use reflex_runtime::error::Error as Raised;
use reflex_runtime::string::{Bytes, Str};
use reflex_runtime::tensor::Tensor;
use reflex_tir::codegen::Arch;
use reflex_tir::level::Level;

use crate::array::Array;
use crate::engine::EngineBuilder;
use crate::error::{Error, ErrorKind, Result};
use crate::model_source::ModelFormat;
use crate::options::Mode;
use crate::prepared::Prepared;
use crate::program::Program;

/// The deepest nesting of results, and the most items of one.
const MAX_DEPTH: usize = 16;
const MAX_ITEMS: i64 = 4096;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// An address, and the key of the server.
    Server {
        /// `host:port`.
        address: String,
        /// Empty unless the server has one.
        key: String,
    },
    /// A server on another machine, by TLS with a token.
    Secure {
        /// `host:port`; the certificate names the host.
        address: String,
        /// Empty unless the server has one.
        key: String,
        /// A file in PEM: the server's certificate, or those that signed it.
        certificates: PathBuf,
        /// A file that holds the token of the client, one line of `reflex token`.
        token: PathBuf,
    },
    /// Any server that a tracker has under a key.
    Tracker {
        /// `host:port` of the tracker.
        address: String,
        /// The key that servers registered under.
        key: String,
        /// The longest wait for one that is free.
        wait: Option<Duration>,
    },
    /// Any server that a tracker on another machine has under a key: both are connected to by TLS.
    SecureTracker {
        /// `host:port` of the tracker; its certificate names the host.
        address: String,
        /// The key that servers registered under.
        key: String,
        /// The longest wait for one that is free.
        wait: Option<Duration>,
        /// A file in PEM: certificates of the tracker and of the servers, or those that signed them.
        certificates: PathBuf,
        /// A file that holds the token of the client, which both know.
        token: PathBuf,
    },
}

impl Endpoint {
    /// Starts a session with the protocol alone, at a server of Reflex or of TVM.
    pub(crate) fn open(&self) -> std::result::Result<RemoteSession, Raised> {
        let greeting = |key: &str| Greeting { key: key.to_owned(), timeout: None };
        match self {
            Endpoint::Server { address, key } => RemoteSession::connect(address, &greeting(key)),
            Endpoint::Secure { address, key, certificates, token } => {
                let tls = ClientTls::read(certificates, token)?;
                RemoteSession::connect_secure(address, &tls, &greeting(key))
            }
            Endpoint::Tracker { address, key, wait } => {
                let found = TrackerClient::connect(address)?.request(key, 1, *wait)?;
                RemoteSession::connect(&found.address, &greeting(&found.match_key))
            }
            Endpoint::SecureTracker { address, key, wait, certificates, token } => {
                let tls = ClientTls::read(certificates, token)?;
                let mut tracker = TrackerClient::connect_secure(address, &tls)?;
                let found = tracker.request(key, 1, *wait)?;
                RemoteSession::connect_secure(&found.address, &tls, &greeting(&found.match_key))
            }
        }
    }
}

/// A session at a server.
pub struct Server {
    session: RemoteSession,
    levels: Vec<Level>,
    opens_libraries: bool,
}

impl Server {
    /// Starts a session.
    ///
    /// ```no_run
    /// use reflex::remote::{Endpoint, Server};
    ///
    /// let (address, key) = ("127.0.0.1:9090".to_owned(), String::new());
    /// let server = Server::connect(&Endpoint::Server { address, key })?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn connect(endpoint: &Endpoint) -> Result<Server> {
        let session = endpoint.open()?;
        let target = Str::try_from(session.call_global(names::TARGET, &[])?)?;
        let target: serde_json::Value = serde_json::from_str(&target).map_err(|_| {
            Error::input("the server's description is not JSON: is it `reflex serve`?")
        })?;
        let known = target["levels"].as_array().into_iter().flatten();
        let levels = known.filter_map(|level| level.as_str()?.parse().ok()).collect();
        Ok(Server { session, levels, opens_libraries: target["code"] == true })
    }

    /// Compiles a model with these options for the server's CPU, and loads it there.
    ///
    /// ```no_run
    /// use reflex::remote::{Endpoint, Server};
    /// use reflex::Engine;
    ///
    /// let (address, key) = ("127.0.0.1:9090".to_owned(), String::new());
    /// let server = Server::connect(&Endpoint::Server { address, key })?;
    /// let program = server.open(Engine::builder(), "model.onnx".as_ref())?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn open(&self, options: EngineBuilder, model: &Path) -> Result<RemoteProgram> {
        let format = ModelFormat::of_path(model)?;
        let folder = tempfile::tempdir().map_err(|e| Error::io(&std::env::temp_dir(), &e))?;
        let arch = self.levels.last().map(|level| level.arch());
        let compiled = if arch == Some(Arch::Wasm32) { "program.wasm" } else { "program.so" };
        let (program, file) = match (format, self.levels.last(), self.opens_libraries) {
            (
                ModelFormat::Onnx
                | ModelFormat::Torch
                | ModelFormat::Script
                | ModelFormat::Nodes
                | ModelFormat::Relay,
                Some(level),
                true,
            ) => {
                let program = options.levels([*level]).build()?.load(model)?;
                let file = folder.path().join(compiled);
                program.save(&file)?;
                (program, file)
            }
            (ModelFormat::RelayExecutable, ..) => {
                let why =
                    "a .ro is not opened at a server, which needs its kernels too; export one .so";
                return Err(Error::new(ErrorKind::Unsupported, why).at(model.display()));
            }
            // The program here says what the inputs and outputs are.
            _ => (options.build()?.load(model)?, model.to_owned()),
        };
        let given = format!("program.{format}");
        let name = if file == model { given } else { compiled.to_owned() };
        self.session.upload(&file, &name)?;
        let executable = self.session.load_module(&name)?;
        Ok(RemoteProgram { session: self.session.clone(), program, executable })
    }
}

/// A program at a server.
pub struct RemoteProgram {
    session: RemoteSession,
    program: Program,
    executable: RemoteModule,
}

/// A session of a program at a server.
pub struct RemoteMachine {
    session: RemoteSession,
    program: Program,
    module: RemoteModule,
}

impl RemoteProgram {
    /// Returns the same program here, which has its signatures.
    ///
    /// ```no_run
    /// # fn example(remote: reflex::remote::RemoteProgram) -> reflex::Result<()> {
    /// println!("{}", remote.program().signature("main")?.inputs[0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Opens a session there.
    ///
    /// ```no_run
    /// # fn example(remote: reflex::remote::RemoteProgram) -> reflex::Result<()> {
    /// let machine = remote.virtual_machine(reflex::Mode::Tiered)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn virtual_machine(&self, mode: Mode) -> Result<RemoteMachine> {
        let load = self.executable.require("vm_load_executable")?;
        let module = load.call(&[Item::text(&mode.to_string())])?.module()?;
        let (session, program) = (self.session.clone(), self.program.clone());
        Ok(RemoteMachine { session, program, module })
    }
}

impl RemoteMachine {
    /// Calls a function there, and returns names and copies of its results in order.
    ///
    /// ```no_run
    /// # fn example(machine: reflex::remote::RemoteMachine, call: reflex::Prepared)
    /// # -> reflex::Result<()> {
    /// let outputs = machine.call("main", &call)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn call(&self, func: &str, call: &Prepared) -> Result<Vec<(String, Array)>> {
        let [set, invoke, arity] = ["set_input", "invoke_stateful", "get_output_arity"]
            .map(|name| self.module.require(name));
        let (set, invoke, arity) = (set?, invoke?, arity?);
        let tensors = self.upload(call)?;
        let name = || vec![Item::text(func)];
        let inputs = name().into_iter().chain(tensors.iter().map(RemoteTensor::item)).collect();
        let calls = [(&set, inputs), (&invoke, name()), (&arity, name())];
        let mut results = self
            .session
            .pipeline(&calls)?
            .into_iter()
            .collect::<std::result::Result<Vec<RemoteValue>, Raised>>()?;
        let items = results.pop().map(RemoteValue::local).transpose()?;
        let items = i64::try_from(items.unwrap_or_default())?;
        let get = self.module.require("get_output")?;
        let mut found = vec![];
        self.collect(&[&get, &arity], &mut name(), items, &mut found)?;
        let signature = self.program.signature(func)?;
        let named = |(at, array): (usize, Array)| {
            let name = signature.outputs.get(at).map(|output| output.name.clone());
            (name.unwrap_or_else(|| format!("output{at}")), array)
        };
        Ok(found.into_iter().enumerate().map(named).collect())
    }

    /// Results at `path`, of which there are `items`, or one that is not a tuple.
    fn collect(
        &self,
        functions: &[&RemoteFunction; 2],
        path: &mut Vec<Item>,
        items: i64,
        found: &mut Vec<Array>,
    ) -> Result<()> {
        let [get, arity] = functions;
        if items < 0 {
            let value = get.call(path)?.local()?;
            found.push(Array::of_tensor(&Tensor::try_from(value)?)?);
            return Ok(());
        }
        if path.len() > MAX_DEPTH || items > MAX_ITEMS {
            return Err(Error::input("the server returns too many results"));
        }
        for item in 0..items {
            path.push(Item::Int(item));
            let nested = i64::try_from(arity.call(path)?.local()?)?;
            self.collect(functions, path, nested, found)?;
            path.pop();
        }
        Ok(())
    }

    /// The arguments of a call as tensors there.
    fn upload(&self, call: &Prepared) -> Result<Vec<RemoteTensor>> {
        let remote = |value| Ok(self.session.to_remote(&Tensor::try_from(value)?)?);
        call.values().iter().map(remote).collect()
    }

    /// Measures a function at the server for about `seconds`: microseconds of each call, without the
    /// network.
    ///
    /// ```no_run
    /// # fn example(machine: reflex::remote::RemoteMachine, call: reflex::Prepared)
    /// # -> reflex::Result<()> {
    /// let sample = machine.bench("main", &call, 1.5)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn bench(&self, func: &str, call: &Prepared, seconds: f64) -> Result<Vec<f64>> {
        let tensors = self.upload(call)?;
        let mut args = vec![Item::text(func), Item::Float(seconds)];
        args.extend(tensors.iter().map(RemoteTensor::item));
        let sample = self.module.require("reflex.bench")?.call(&args)?.local()?;
        let words = Bytes::try_from(sample)?;
        let words = words.chunks_exact(8);
        Ok(words.map(|word| f64::from_le_bytes(word.try_into().unwrap_or_default())).collect())
    }

    /// Returns the table of a profile of a call there.
    ///
    /// ```no_run
    /// # fn example(machine: reflex::remote::RemoteMachine, call: reflex::Prepared)
    /// # -> reflex::Result<()> {
    /// print!("{}", machine.profile("main", &call)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn profile(&self, func: &str, call: &Prepared) -> Result<String> {
        let tensors = self.upload(call)?;
        let mut args = vec![Item::text(func)];
        args.extend(tensors.iter().map(RemoteTensor::item));
        let table = self.module.require("reflex.profile")?.call(&args)?.local()?;
        Ok(Str::try_from(table)?.to_string())
    }
}
