//! The one error users see: what kind, and a message that names the file, node and remedy.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use reflex_runtime::error::Error as Object;
use reflex_vm::run_error::{Reason, RunError};

/// The kind of an error, for callers that branch on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file cannot be read or written.
    Io,
    /// The model or program is malformed.
    Model,
    /// The model needs something that is not supported.
    Unsupported,
    /// An argument or input tensor does not fit.
    Input,
    /// Compilation failed.
    Compile,
    /// Execution failed.
    Run,
    /// The run was cancelled from another thread.
    Cancelled,
    /// The run went on past its deadline.
    DeadlineExceeded,
    /// The run used up its fuel.
    FuelExhausted,
    /// Calls were nested deeper than the session allows.
    StackOverflow,
}

/// An error with its kind and message.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    /// The error object that a failed run raised.
    raised: Option<Object>,
    /// The error that this one reports, as [`std::error::Error::source`].
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// Result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Makes an error.
    ///
    /// ```
    /// use reflex::{Error, ErrorKind};
    ///
    /// let error = Error::new(ErrorKind::Input, "no such name");
    /// assert_eq!(error.to_string(), "no such name");
    /// ```
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), raised: None, source: None }
    }

    /// The error that a packed function or value raised.
    pub(crate) fn raised(kind: ErrorKind, error: Object) -> Error {
        let message = error.to_string();
        Error { raised: Some(error.clone()), ..Error::new(kind, message).because(error) }
    }

    /// Returns the same error with the error that it reports.
    fn because(self, source: impl StdError + Send + Sync + 'static) -> Error {
        Error { source: Some(Arc::new(source)), ..self }
    }

    /// Makes an error of kind [`ErrorKind::Input`].
    ///
    /// ```
    /// assert_eq!(reflex::Error::input("no such name").kind(), reflex::ErrorKind::Input);
    /// ```
    pub fn input(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Input, message)
    }

    /// Makes an error about a file.
    ///
    /// ```
    /// let missing = std::fs::read("no/such/file").unwrap_err();
    /// let error = reflex::Error::io("no/such/file".as_ref(), &missing);
    /// assert!(error.to_string().starts_with("no/such/file: "));
    /// let source = std::error::Error::source(&error).unwrap();
    /// let source = source.downcast_ref::<std::io::Error>().unwrap();
    /// assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
    /// ```
    pub fn io(path: &Path, error: &io::Error) -> Error {
        let copy = match error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(error.kind(), error.to_string()),
        };
        Error::new(ErrorKind::Io, format!("{}: {error}", path.display())).because(copy)
    }

    /// Returns the kind.
    ///
    /// ```
    /// use reflex::{Engine, ErrorKind};
    ///
    /// let error = Engine::new()?.load("no/such/model.onnx").err().unwrap();
    /// assert_eq!(error.kind(), ErrorKind::Io);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the same error with its location in front of the message, if it is not there
    /// already.
    ///
    /// ```
    /// let error = reflex::Error::input("no such name").at("--input");
    /// assert_eq!(error.to_string(), "--input: no such name");
    /// assert_eq!(error.at("--input").to_string(), "--input: no such name");
    /// ```
    pub fn at(self, location: impl fmt::Display) -> Error {
        let prefix = format!("{location}: ");
        match self.message.starts_with(&prefix) {
            true => self,
            false => Error { message: prefix + &self.message, ..self },
        }
    }

    /// Returns the error in the form of tvm-ffi: a kind such as `TypeError`, the message without
    /// the frames of the run, and the frames as its backtrace.
    ///
    /// ```
    /// let object = reflex::Error::input("no such name").to_object();
    /// assert_eq!(object.kind(), "ValueError");
    /// ```
    pub fn to_object(&self) -> Object {
        let kind = match self.kind {
            ErrorKind::Io => "OSError",
            ErrorKind::Unsupported => "NotImplementedError",
            ErrorKind::Model | ErrorKind::Input => "ValueError",
            ErrorKind::Compile => "RuntimeError",
            ErrorKind::Cancelled => "reflex.Cancelled",
            ErrorKind::FuelExhausted => "reflex.FuelExhausted",
            ErrorKind::DeadlineExceeded => "TimeoutError",
            ErrorKind::StackOverflow => "RecursionError",
            ErrorKind::Run => match &self.raised {
                Some(raised) => return raised.clone(),
                None => "RuntimeError",
            },
        };
        let Some(raised) = &self.raised else { return Object::new(kind, self.message.clone()) };
        Object::with_context(kind, &raised.message(), &raised.backtrace(), None, None)
    }
}

/// The error of what only builds with a feature of the crate do.
pub(crate) fn lacks(feature: &str) -> Error {
    let text = format!("this build of Reflex lacks the feature `{feature}`");
    Error::new(ErrorKind::Unsupported, text)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

impl From<Object> for Error {
    fn from(error: Object) -> Error {
        Error::raised(ErrorKind::Run, error)
    }
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Error {
        let kind = match error.reason() {
            Reason::Cancelled => ErrorKind::Cancelled,
            Reason::DeadlineExceeded => ErrorKind::DeadlineExceeded,
            Reason::FuelExhausted => ErrorKind::FuelExhausted,
            Reason::StackOverflow => ErrorKind::StackOverflow,
            _ => ErrorKind::Run,
        };
        let message = error.to_string();
        let raised = error.into_error();
        Error { raised: Some(raised.clone()), ..Error::new(kind, message).because(raised) }
    }
}

#[cfg(feature = "compiler")]
impl From<reflex_graph::script::ScriptError> for Error {
    fn from(error: reflex_graph::script::ScriptError) -> Error {
        Error::new(ErrorKind::Model, error.to_string()).because(error)
    }
}

#[cfg(feature = "compiler")]
impl From<reflex_graph::relay::RelayError> for Error {
    fn from(error: reflex_graph::relay::RelayError) -> Error {
        Error::new(ErrorKind::Model, error.to_string()).because(error)
    }
}

#[cfg(feature = "torch")]
impl From<reflex_torch::ImportError> for Error {
    fn from(error: reflex_torch::ImportError) -> Error {
        use reflex_torch::ImportErrorKind::{Io, Unsupported};
        let kind = match error.kind() {
            Io => ErrorKind::Io,
            Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Model,
        };
        Error::new(kind, error.to_string()).because(error)
    }
}

#[cfg(feature = "onnx")]
impl From<reflex_onnx::ImportError> for Error {
    fn from(error: reflex_onnx::ImportError) -> Error {
        use reflex_onnx::ImportErrorKind::{Io, Unsupported};
        let kind = match error.kind() {
            Io => ErrorKind::Io,
            Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Model,
        };
        Error::new(kind, error.to_string()).because(error)
    }
}
