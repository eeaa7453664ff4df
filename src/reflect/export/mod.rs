//! A module as nodes.
//!
//! The nodes are those that TVM makes of the text of the module, so that `tvm_ffi.structural_equal` holds. The
//! walk follows the printer's (`reflex_graph::print`, `reflex_tir::script`), whose choices of names it takes:
//! operators come from the text of their calls.

mod call;
mod func;
mod kernel;
mod packed_call;
mod prim;
mod types;

use std::collections::HashMap;

use cranelift_entity::SecondaryMap;
use reflex_graph::{Const, FuncData, FuncId, Module};
use reflex_node::builder::{Builder, Given};
use reflex_node::graph::{Graph, NodeId, Value};
use reflex_tir::script::identifier;

use self::func::FuncExporter;
use self::kernel::KernelExporter;
use self::prim::Names;
use crate::error::ReflectError;

/// The attribute of a module that holds its data types.
pub(crate) const DATA_TYPES: &str = "reflex.data_types";

/// The module while nodes are made of it.
struct Exporter<'m> {
    b: Builder,
    module: &'m Module,
    /// The names of functions.
    names: SecondaryMap<FuncId, String>,
    /// Their global variables.
    globals: SecondaryMap<FuncId, Option<NodeId>>,
    consts: HashMap<Const, NodeId>,
}

pub(crate) fn nodes(module: &Module) -> Result<Graph, ReflectError> {
    let mut cx = Exporter {
        b: Builder::new(),
        module,
        names: SecondaryMap::new(),
        globals: SecondaryMap::new(),
        consts: HashMap::new(),
    };
    let impure = reflex_graph::print::impure_functions(module);
    let mut variables: Vec<Names> = vec![];
    for (id, data) in module.funcs.iter() {
        cx.names[id] = identifier(data.name());
        let mut names = Names::default();
        let ty = match data {
            FuncData::Graph(func) => {
                func::signature(&mut cx.b, &mut names, func, !impure.contains(&id))
            }
            FuncData::Prim(kernel) => kernel::signature(&mut cx.b, &mut names, kernel),
        };
        variables.push(names);
        let name = cx.names[id].clone();
        let name = cx.b.string(&name);
        let fields = [("ty", Given::Node(ty)), ("name_hint", Given::Node(name))];
        cx.globals[id] = Some(cx.b.object("ir.GlobalVar", &fields));
    }
    let (mut functions, mut by_name) = (vec![], vec![]);
    for ((id, data), names) in module.funcs.iter().zip(variables) {
        let function = match data {
            FuncData::Graph(func) => {
                FuncExporter::new(&mut cx, func, names).function(id, !impure.contains(&id))?
            }
            FuncData::Prim(kernel) => KernelExporter::new(&mut cx, kernel, names).function(id)?,
        };
        let name = cx.names[id].clone();
        let (global, name) = (cx.global(id), cx.b.string(&name));
        functions.extend([global, function]);
        by_name.extend([name, global]);
    }
    let root = cx.root(functions, by_name);
    Ok(cx.b.finish(root))
}

impl Exporter<'_> {
    fn global(&self, id: FuncId) -> NodeId {
        self.globals[id].expect("every function has a global variable")
    }

    fn root(&mut self, functions: Vec<NodeId>, by_name: Vec<NodeId>) -> NodeId {
        let (functions, by_name) = (self.b.map(functions), self.b.map(by_name));
        let sources = self.b.map(vec![]);
        let sources = self.b.object("ir.SourceMap", &[("source_map", Given::Node(sources))]);
        let mut attrs = vec![];
        if !self.module.data_types.is_empty() {
            let types = self.data_types();
            attrs.extend([self.b.string(DATA_TYPES), types]);
        }
        let attrs = self.attrs(attrs);
        let infos = self.b.map(vec![]);
        self.b.object(
            "ir.IRModule",
            &[
                ("functions", Given::Node(functions)),
                ("global_var_map_", Given::Node(by_name)),
                ("source_map", Given::Node(sources)),
                ("attrs", Given::Node(attrs)),
                ("global_infos", Given::Node(infos)),
            ],
        )
    }

    /// Name, then names of constructors and numbers of their fields in turn, for each data type.
    fn data_types(&mut self) -> NodeId {
        let mut types = vec![];
        for data_type in self.module.data_types.values() {
            let mut items = vec![self.b.string(&data_type.name)];
            for constructor in &data_type.constructors {
                items.push(self.b.string(&constructor.name));
                items.push(self.b.int(i64::try_from(constructor.arity).unwrap_or(i64::MAX)));
            }
            types.push(self.b.array(items));
        }
        self.b.array(types)
    }

    /// `ir.DictAttrs` of keys and values in turn.
    fn attrs(&mut self, entries: Vec<NodeId>) -> NodeId {
        let map = self.b.map(entries);
        self.b.object("ir.DictAttrs", &[("__dict__", Given::Node(map))])
    }

    /// A constant, with its type.
    fn constant(&mut self, id: Const) -> NodeId {
        if let Some(known) = self.consts.get(&id) {
            return *known;
        }
        let literal = &self.module.consts[id];
        let made = literal_node(&mut self.b, literal);
        self.consts.insert(id, made);
        made
    }
}

/// `ir.GenericConst`
fn literal_node(b: &mut Builder, literal: &reflex_graph::Literal) -> NodeId {
    let dims: Vec<NodeId> = literal.shape().iter().map(|dim| prim::int64(b, *dim)).collect();
    let ty = types::tensor(b, literal.dtype(), dims);
    let value = b.tensor(literal.to_saved());
    b.object("ir.GenericConst", &[("ty", Given::Node(ty)), ("value", Given::Node(value))])
}

fn int(value: i64) -> Given {
    Given::Value(Value::Int(value))
}
