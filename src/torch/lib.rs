//! PyTorch importer: archives of `torch.export.save` to graph IR.
//!
//! [`import`] reads an exported program (`.pt2`) and desugars its operators into those of graph IR
//! ([`reflex_graph::Op`]). Programs may be as `torch.export.export` gives them or after `run_decompositions`. An operator
//! without an import is an error that names every unsupported operator of the program at once. Arithmetic of extents
//! becomes symbolic dimensions and leaves no run-time code.
//!
//! ```no_run
//! let module = reflex_torch::import("model.pt2".as_ref())?;
//! println!("{}", reflex_graph::print::module(&module));
//! # Ok::<(), reflex_torch::ImportError>(())
//! ```
//!
//! [`ProgramInfo`] summarises a program without keeping it, [`is_archive`] knows one by its content.
//!
//! # Where to look
//!
//! | file | content |
//! |---|---|
//! | `archive`, `weights` | the zip file; parameters, buffers and constants |
//! | `schema`, `sym_expr`, `target` | the JSON of a program, expressions over symbols, names of operators |
//! | `program`, `info` | the program of an archive, summary |
//! | `dtype` | element types and their promotion |
//! | `value`, `call`, `emit` | values while importing, one node as its operator reads it, helpers that emit graph operators |
//! | `context`, `aliases` | names and the walk over nodes; operators that write in place |
//! | `ops/` | the table of operators by family, with how to add one |
//! | `operator_table` | what is done with each operator of core ATen |
//! | `import` | all of it in order |
//!
//! # Limits
//!
//! Archives are hostile input: every error names file, node and reason, and nothing is allocated by a size that the
//! file only claims. No pickle is read, so tensor subclasses and custom objects are refused. Neither are programs that
//! keep state: what writes into a buffer, a parameter or an input is refused by name. It does not optimise.
//!
//! Decision: docs/decisions/0100-torch-export.md
#![forbid(unsafe_code)]

mod aliases;
mod archive;
mod call;
mod context;
mod dtype;
mod emit;
mod error;
mod import;
mod info;
mod operator_table;
mod ops;
mod program;
mod schema;
mod sym_expr;
mod target;
mod value;
mod weights;

use std::io::{Read, Seek};
use std::path::Path;

use reflex_graph::Module;
use reflex_runtime::file_bytes::{FileAccess, FileBytes, SourceFile};

pub use error::{ImportError, ImportErrorKind};
pub use info::{Dim, ProgramInfo, ValueInfo};
pub use operator_table::{TorchOperator, torch_operators};
pub use program::UnsupportedOperator;

/// Imports an archive as a module with the function `main`.
///
/// Its parameters are the inputs of the exported module that are tensors, by name and in order, and its results the
/// outputs. Dynamic extents are symbolic; those of one name share one symbol.
pub fn import(path: &Path) -> Result<Module, ImportError> {
    let (module, _) = import_file(path, FileAccess::Read)?;
    let read = module.read_constants();
    read.map_err(|e| ImportError::new(ImportErrorKind::Io, e.to_string()).at(path.display()))?;
    Ok(module)
}

/// As [`import`], with the way that the file is held; also says which file it was. Weights may still have to be read from
/// it: those that compile the module check [`Module::late_files`] afterwards, as `reflex_lower` does, and others call
/// [`Module::read_constants`].
pub fn import_file(
    path: &Path,
    access: FileAccess,
) -> Result<(Module, Vec<SourceFile>), ImportError> {
    let import = || {
        let mut archive = archive::Archive::open(path, access)?;
        let mut module = import::import_archive(&mut archive)?;
        module.late_files.extend(archive.late_file());
        archive.release();
        Ok((module, archive.source().into_iter().collect()))
    };
    import().map_err(|e: ImportError| e.at(path.display()))
}

/// Imports an archive from memory.
pub fn import_bytes(bytes: FileBytes) -> Result<Module, ImportError> {
    import::import_archive(&mut archive::Archive::of_bytes(bytes)?)
}

/// Returns true if bytes are an archive of exported programs, whatever the name of their file.
pub fn is_archive(bytes: impl Read + Seek) -> bool {
    archive::is_archive(bytes)
}
