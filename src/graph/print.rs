//! Modules as TVMScript, the way TVM 0.27 prints Relax.
//!
//! The text is stable: names come from the hints, made unique in order, and
//! [`crate::script::parse`] reads it back to a module that prints the same. Operators that Relax
//! lacks are calls of `R.reflex.<name>`; a loop, which Relax expresses as recursion, is
//!
//! ```text
//! with R.reflex.loop(max_trips, condition, (x0, y0), ty_args=(X, Y)) as (i, c, x, y):
//!     ...
//!     out: R.Tuple(X, Y, S) = R.reflex.next(condition_next, (x_next, y_next), (scan,))
//! ```
//!
//! where `out` holds the final values and the stacked scans after it. Printing decides nothing
//! and checks nothing: a faulty module prints too.

mod consts;
mod context;
mod func;
mod list;
mod metadata;
mod names;
mod op;

use std::collections::HashSet;
use std::fmt::Write;

use reflex_tir::script::{identifier, string};

use self::context::Printer;
use self::func::FuncPrinter;
use crate::{Constructor, Func, FuncData, FuncId, Module, Node, Op, Value};

/// The text of a module. Constants that are not small stand as entries of a `metadata` table,
/// whose types and sizes follow the text; their bytes are left out.
pub fn module(module: &Module) -> String {
    let (mut text, printer) = Printer::print(module);
    printer.describe_metadata(&mut text);
    text
}

/// The calls of operators as text; `name` gives the names of all values. Dimensions are named as
/// [`Display`](std::fmt::Display) prints their variables.
pub fn op_calls(
    module: &Module,
    func: &Func,
    calls: &[(&Op, &[Value])],
    name: &dyn Fn(Value) -> String,
) -> Vec<String> {
    let mut printer = Printer::new(module, HashSet::new());
    let mut printer = FuncPrinter::of_calls(&mut printer, func, name);
    calls.iter().map(|(op, args)| printer.op(op, args)).collect()
}

/// The text of a module after the bytes of its constants: TVM's `script(show_meta=True)`.
/// [`crate::script::parse`] needs them.
pub fn module_with_metadata(module: &Module) -> String {
    let (text, printer) = Printer::print(module);
    if printer.large.is_empty() {
        return text;
    }
    let literals: Vec<_> = printer.large.iter().map(|c| &module.consts[*c]).collect();
    metadata::table(&literals) + &text
}

impl<'m> Printer<'m> {
    fn print(module: &'m Module) -> (String, Printer<'m>) {
        let mut printer = Printer::new(module, impure_functions(module));
        for (id, func) in module.funcs.iter() {
            printer.names[id] = identifier(func.name());
        }
        let mut members = vec![];
        for (id, data) in module.funcs.iter() {
            members.push(match data {
                FuncData::Graph(func) => FuncPrinter::print(&mut printer, id, func),
                FuncData::Prim(func) => printer.kernel(func),
            });
        }
        (printer.header() + &members.join("\n"), printer)
    }

    fn kernel(&mut self, func: &reflex_tir::PrimFunc) -> String {
        self.symbols.extend(reflex_tir::script::symbols(func));
        reflex_tir::script::print_indented(func, 1)
    }

    fn header(&self) -> String {
        let mut text = String::new();
        if !self.symbols.is_empty() {
            text.push_str("# from typing import TypeVar\n");
        }
        text.push_str("# from tvm.script import ir as I\n");
        text.push_str("# from tvm.script import tirx as T\n");
        text.push_str("# from tvm.script import relax as R\n\n");
        for name in &self.symbols {
            let _ = writeln!(text, "{name} = TypeVar(\"{name}\")");
        }
        text.push_str("@I.ir_module\nclass Module:\n");
        if self.module.funcs.is_empty() && self.module.data_types.is_empty() {
            text.push_str("    pass\n");
        }
        for data_type in self.module.data_types.values() {
            let constructors = data_type.constructors.iter();
            let constructors: Vec<String> = constructors
                .map(|Constructor { name, arity }| format!("{}: {arity}", string(name)))
                .collect();
            let (name, constructors) = (string(&data_type.name), constructors.join(", "));
            let _ = writeln!(text, "    R.reflex.data_type({name}, {{{constructors}}})");
        }
        if !self.module.data_types.is_empty() {
            text.push('\n');
        }
        text
    }

    fn describe_metadata(&self, text: &mut String) {
        if self.large.is_empty() {
            return;
        }
        let bytes: usize = self.large.iter().map(|c| self.module.consts[*c].size()).sum();
        let _ =
            writeln!(text, "\n# Metadata omitted: {} constants, {bytes} bytes.", self.large.len());
        for (index, id) in self.large.iter().enumerate() {
            let literal = &self.module.consts[*id];
            let size = literal.size();
            let _ = writeln!(text, "# {}: {literal:?}, {size} bytes", metadata::entry(index));
        }
    }
}

/// Graph functions that call packed functions, directly or not: impure in Relax.
pub fn impure_functions(module: &Module) -> HashSet<FuncId> {
    let mut found: HashSet<FuncId> = HashSet::new();
    loop {
        let before = found.len();
        for (id, data) in module.funcs.iter() {
            let FuncData::Graph(func) = data else { continue };
            let mut calls = false;
            func.body.walk(&mut |binding| {
                calls |= match &binding.node {
                    Node::CallPacked { .. } => true,
                    Node::CallFunc { func, .. } => found.contains(func),
                    _ => false,
                };
            });
            if calls {
                found.insert(id);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

#[cfg(test)]
mod tests;
