//! Nodes of TVM's IR from outside: their JSON, the modules that they are, and what is compiled of them.

use reflex_graph::{Module, print, verify};
use reflex_lower::ErrorKind;
use reflex_lower::pipeline::{NoObserver, Options, run_bytecode, run_graph, run_kernel};
use reflex_node::equal::{Mismatch, first_mismatch};
use reflex_node::graph::Graph;
use reflex_node::hash::structural_hash;
use reflex_node::json::{load, save};
use reflex_node::path::Step;
use reflex_tir::codegen::CpuTarget;

/// Most bytes of a text whose module is compiled.
const MAX_COMPILED: usize = 64 << 10;
/// Bytes that a node takes at least: `{"type":""}`.
const MIN_NODE: usize = 11;

/// The last stage that a text reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Refused by the reader, with the byte.
    Nothing,
    /// A graph of nodes that is no module.
    Graph,
    /// A module that is refused, with the reason.
    Module,
    /// Bytecode and kernels.
    Compiled,
}

/// A text is refused with a byte inside it, or is a graph: it is written as a text that reads and writes as
/// itself, equals itself and has one hash. The graph is refused, or is a module that the verifier accepts, whose
/// nodes are a module again. That one is refused, or compiled as far as kernels go without machine code.
pub fn json(text: &str) -> Stage {
    let graph = match load(text) {
        Ok(graph) => graph,
        Err(error) => {
            assert!(error.at <= text.len(), "{error}");
            return Stage::Nothing;
        }
    };
    assert!(graph.nodes().len() * MIN_NODE <= text.len(), "more nodes than the text has room for");
    like_itself(&graph);
    let Ok(module) = reflex_reflect::module(&graph) else { return Stage::Graph };
    assert_eq!(verify::verify(&module), Ok(()), "{}", print::module(&module));
    let nodes = reflex_reflect::nodes(&module).expect("a sound module has nodes");
    if let Err(error) = reflex_reflect::module(&nodes) {
        panic!("{error}: {}", print::module(&module));
    }
    match text.len() <= MAX_COMPILED && is_compiled(module) {
        true => Stage::Compiled,
        false => Stage::Module,
    }
}

fn like_itself(graph: &Graph) {
    let text = save(graph);
    let again = load(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert!(save(&again) == text, "written otherwise the second time: {text}");
    let mismatch = first_mismatch(graph, &again);
    assert!(mismatch.as_ref().is_none_or(is_unknown), "{mismatch:?} in {text}");
    assert_eq!(structural_hash(graph), structural_hash(&again), "{text}");
}

/// A type that the table lacks equals nothing, nor does a key that is a variable which nothing before its map
/// has: no order of entries says which one stands for it.
fn is_unknown(found: &Mismatch) -> bool {
    let is_variable =
        matches!(found.path.0.last(), Some(Step::Key(key)) if key.starts_with("ir.Var"));
    found.difference.ends_with("no structural equality")
        || (is_variable && found.difference == "only in the first")
}

/// Whether a module is compiled. It may be refused; a fault that a verifier finds after a pass is a bug.
fn is_compiled(module: Module) -> bool {
    let options = Options::new(CpuTarget::host());
    let text = print::module(&module);
    let compiled = run_graph(module, &options, &NoObserver)
        .and_then(|module| run_bytecode(module, &NoObserver));
    match compiled {
        Ok((code, kernels)) => {
            reflex_vm::verify::verify(code.executable).expect("what is emitted is well formed");
            for kernel in &kernels {
                run_kernel(kernel, &options.target(&options.cpus[0]), &NoObserver);
            }
            true
        }
        Err(error) => {
            assert!(error.kind() != ErrorKind::Internal, "{error}: {text}");
            false
        }
    }
}
