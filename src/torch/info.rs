//! A summary of an archive: inputs, outputs, operators, and whether it can be imported.

use std::collections::BTreeMap;
use std::path::Path;

use reflex_graph::Module;
use reflex_runtime::dtype::Elements;
use reflex_runtime::file_bytes::{FileAccess, FileBytes};

use crate::archive::Archive;
use crate::dtype::dtype;
use crate::error::{ImportError, Result};
use crate::import::import_program;
use crate::program::{Program, UnsupportedOperator};
use crate::schema::{Argument, Graph, InputSpec, OutputSpec, SymInt, argument_name};
use crate::sym_expr;
use crate::weights::Weights;

/// An input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueInfo {
    /// Name.
    pub name: String,
    /// Element type, or `value` of what is no tensor.
    pub dtype: String,
    /// Dimensions of a tensor.
    pub dims: Option<Vec<Dim>>,
}

/// A dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// Fixed.
    Fixed(i64),
    /// Dynamic, by the name of a symbol, or `?` where it is computed of symbols.
    Symbolic(String),
}

/// A program's description.
#[derive(Clone, Debug)]
pub struct ProgramInfo {
    /// The version of PyTorch that wrote it.
    pub torch_version: String,
    /// Version of the schema.
    pub schema: (i64, i64),
    /// Versions of the operators by namespace.
    pub opsets: BTreeMap<String, i64>,
    /// Inputs a caller gives, as the file declares them.
    pub inputs: Vec<ValueInfo>,
    /// Results, as the file declares them.
    pub outputs: Vec<ValueInfo>,
    /// The elements of parameters, buffers and constants.
    pub parameters: Elements,
    /// Number of uses of each operator.
    pub operators: BTreeMap<String, usize>,
    /// Operators without an import.
    pub unsupported: Vec<UnsupportedOperator>,
    /// Why the program cannot be imported although its operators are known, if so.
    pub problem: Option<String>,
    /// The module, if it can be imported.
    pub module: Option<Module>,
}

impl ProgramInfo {
    /// Describes a file.
    pub fn read(path: &Path) -> std::result::Result<ProgramInfo, ImportError> {
        let describe = || describe(&mut Archive::open(path, FileAccess::Read)?);
        describe().map_err(|e: ImportError| e.at(path.display()))
    }

    /// Describes an archive in memory.
    pub fn of_bytes(bytes: FileBytes) -> std::result::Result<ProgramInfo, ImportError> {
        describe(&mut Archive::of_bytes(bytes)?)
    }
}

fn describe(archive: &mut Archive) -> Result<ProgramInfo> {
    let program = Program::open(archive)?;
    let unsupported = program.unsupported();
    let weights = Weights::open(archive, &program.name)?;
    let (module, problem) = match unsupported.is_empty() {
        true => match import_program(&program, &weights) {
            Ok(module) => (Some(module), None),
            Err(error) => (None, Some(error.to_string())),
        },
        false => (None, None),
    };
    let exported = &program.exported;
    let graph = &exported.graph_module.graph;
    let signature = &exported.graph_module.signature;
    let inputs = signature.input_specs.iter().filter_map(|spec| match spec {
        InputSpec::UserInput(user) => value_info(graph, &user.arg),
        _ => None,
    });
    let outputs = signature.output_specs.iter().filter_map(|spec| match spec {
        OutputSpec::UserOutput { arg } => value_info(graph, arg),
        _ => None,
    });
    Ok(ProgramInfo {
        torch_version: exported.torch_version.clone(),
        schema: (exported.schema_version.major, exported.schema_version.minor),
        opsets: exported.opset_version.clone(),
        inputs: inputs.collect(),
        outputs: outputs.collect(),
        parameters: weights.elements(),
        operators: program.operator_counts(),
        unsupported,
        problem,
        module,
    })
}

/// The file's declaration of an argument that has a name.
fn value_info(graph: &Graph, arg: &Argument) -> Option<ValueInfo> {
    let name = argument_name(arg)?.to_owned();
    let Some(meta) = graph.tensor_values.get(&name) else {
        return Some(ValueInfo { name, dtype: "value".to_owned(), dims: None });
    };
    let dim = |size: &SymInt| match size {
        SymInt::AsInt(value) => Dim::Fixed(*value),
        SymInt::AsExpr(expr) => {
            Dim::Symbolic(sym_expr::symbol(&expr.expr_str).unwrap_or("?").to_owned())
        }
    };
    let dims = Some(meta.sizes.iter().map(dim).collect());
    let dtype = dtype(meta.dtype).map_or_else(|e| e.to_string(), |dtype| dtype.to_string());
    Some(ValueInfo { name, dtype, dims })
}
