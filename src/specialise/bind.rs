//! Binding shapes: the symbolic dimensions of a function become constants.

use reflex_graph::{FuncData, Module, Node};

use super::profile::{Reason, Shapes};

/// Binds the dimensions of the function `name` to those of `shapes`. Refuses a module that calls
/// packed functions, which the trial of a specialised program would call once more.
pub(crate) fn bind_shapes(module: &mut Module, name: &str, shapes: &Shapes) -> Result<(), Reason> {
    let mut found = false;
    for func in module.funcs.values_mut() {
        let FuncData::Graph(func) = func else { continue };
        let mut packed = None;
        func.body.walk(&mut |binding| {
            if let Node::CallPacked { name, .. } = &binding.node {
                packed = Some(name.clone());
            }
        });
        if let Some(callee) = packed {
            return Err(format!("it calls `{callee}`, which a trial would run twice"));
        }
        if func.name == name {
            let shapes: Vec<&[i64]> = shapes.iter().map(Vec::as_slice).collect();
            func.bind_symbolic_vars(&func.infer_symbolic_var_map(&shapes));
            found = true;
        }
    }
    if found { Ok(()) } else { Err(format!("the model has no function {name:?} any more")) }
}
