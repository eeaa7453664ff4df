use reflex_graph::Module;
use reflex_node::graph::Graph;
use crate::ReflectError;
pub(crate) fn module(_graph: &Graph) -> Result<Module, ReflectError> {
    Err(ReflectError("x".into()))
}
