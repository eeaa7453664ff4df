//! `R.<space>.<name>`: operators registered from outside, as TVM prints those called `relax.<space>.<name>`.

use ruff_python_ast::{self as ast, Expr as Py};
use ruff_text_size::Ranged;

use super::args::{boolean, elements, float, int, string};
use super::parser::{FuncParser, ParsedValue};
use super::source::{Result, Source};
use crate::Value;
use crate::registered::{AttrValue, OpDef};

impl FuncParser<'_, '_> {
    /// A call of a registered operator: operands by position, attributes by name.
    pub(super) fn registered(&mut self, def: &OpDef, call: &ast::ExprCall) -> Result<ParsedValue> {
        let operands = call.arguments.args.iter().map(|e| self.value(e));
        let operands: Vec<Value> = operands.collect::<Result<_>>()?;
        let mut attrs = vec![];
        for keyword in &call.arguments.keywords {
            let Some(name) = &keyword.arg else { return Err(self.source.unsupported(keyword)) };
            attrs.push((name.to_string(), attr_value(self.source, &keyword.value)?));
        }
        self.sync_dims();
        let outputs = self
            .b
            .emit_registered(def, &operands, attrs)
            .map_err(|why| self.source.refuse(call.start(), why))?;
        Ok(match outputs[..] {
            [output] => ParsedValue::Value(output),
            _ => ParsedValue::Values(outputs),
        })
    }
}

/// The value of an attribute, as it is written.
pub(super) fn attr_value(source: Source<'_>, e: &Py) -> Result<AttrValue> {
    if let Py::BooleanLiteral(_) = e {
        return boolean(source, e).map(AttrValue::Bool);
    }
    if let Py::StringLiteral(_) = e {
        return string(source, e).map(|text| AttrValue::Str(text.to_owned()));
    }
    match elements(e) {
        Some(list) => match list.iter().map(|e| int(source, e)).collect() {
            Ok(list) => Ok(AttrValue::Ints(list)),
            Err(_) => {
                list.iter().map(|e| float(source, e)).collect::<Result<_>>().map(AttrValue::Floats)
            }
        },
        None => {
            int(source, e).map(AttrValue::Int).or_else(|_| float(source, e).map(AttrValue::Float))
        }
    }
}
