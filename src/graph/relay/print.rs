//! Relay text of a module, in the layout of TVM's printer.

use std::fmt::Write;

use super::ast::{
    Arm, Attr, AttrValue, Block, Dim, Expr, ExprKind, Function, MetaRef, Param, Pattern,
    PatternKind, RelayModule, Type, TypeKind,
};

/// Columns of one level of nesting.
const INDENT: usize = 2;

/// Prints a module.
pub fn module(module: &RelayModule) -> String {
    let mut printer = Printer::default();
    let types = module.types.iter().map(|def| {
        let params = list("[", def.params.iter().cloned(), "]");
        let params = if def.params.is_empty() { "" } else { &params };
        match &def.constructors {
            None => format!("extern type {}{params}\n", def.name),
            Some(constructors) => {
                let mut text = format!("type {}{params} {{\n", def.name);
                for constructor in constructors {
                    let fields = match constructor.fields.as_slice() {
                        [] => String::new(),
                        fields => list("(", fields.iter().map(ty), ")"),
                    };
                    let _ = writeln!(text, "  {}{fields},", constructor.name);
                }
                text + "}\n"
            }
        }
    });
    let mut parts: Vec<String> = types.collect();
    for def in &module.defs {
        let text = printer.function(&def.function);
        parts.push(format!("def @{}{text}\n", def.name));
    }
    parts.extend(module.metadata.iter().map(|json| format!("#[metadata]\n{json}\n")));
    format!("#[version = \"0.0.5\"]\n{}", parts.join("\n"))
}

#[derive(Default)]
struct Printer {
    indent: usize,
}

/// Items between brackets, separated by commas.
fn list(open: &str, items: impl Iterator<Item = String>, close: &str) -> String {
    format!("{open}{}{close}", items.collect::<Vec<_>>().join(", "))
}

/// A tuple: one item has a comma of its own.
fn tuple(items: &[String]) -> String {
    let comma = if items.len() == 1 { "," } else { "" };
    format!("({}{comma})", items.join(", "))
}

fn ty(t: &Type) -> String {
    let types = |items: &[Type]| items.iter().map(ty).collect::<Vec<_>>();
    match &t.kind {
        TypeKind::Tensor(dims, dtype) if dims.is_empty() => dtype.clone(),
        TypeKind::Tensor(dims, dtype) => {
            let dims = dims.iter().map(|dim| match dim {
                Dim::Const(extent) => extent.to_string(),
                Dim::Any => "?".to_string(),
                Dim::Name(name) => name.clone(),
            });
            format!("Tensor[{}, {dtype}]", list("(", dims, ")"))
        }
        TypeKind::Name(name) => name.clone(),
        TypeKind::Apply(name, args) => name.clone() + &list("[", args.iter().map(ty), "]"),
        TypeKind::Tuple(items) => tuple(&types(items)),
        TypeKind::Function(params, args, result) => {
            let params = match params.as_slice() {
                [] => String::new(),
                params => list("[", params.iter().cloned(), "]"),
            };
            format!("fn {params}{} -> {}", list("(", args.iter().map(ty), ")"), ty(result))
        }
        TypeKind::Unknown => "_".to_string(),
    }
}

fn param(p: &Param) -> String {
    match &p.ty {
        Some(t) => format!("%{}: {}", p.name, ty(t)),
        None => format!("%{}", p.name),
    }
}

fn pattern(p: &Pattern) -> String {
    match &p.kind {
        PatternKind::Wildcard => "_".to_string(),
        PatternKind::Var(var) => param(var),
        PatternKind::Constructor(name, fields) if fields.is_empty() => name.clone(),
        PatternKind::Constructor(name, fields) => {
            name.clone() + &list("(", fields.iter().map(pattern), ")")
        }
        PatternKind::Tuple(items) => tuple(&items.iter().map(pattern).collect::<Vec<_>>()),
    }
}

fn attr(a: &Attr) -> String {
    format!("{}={}", a.name, attr_value(&a.value))
}

fn attr_value(value: &AttrValue) -> String {
    match value {
        AttrValue::Number(text) => text.clone(),
        AttrValue::Str(text) => quoted(text),
        AttrValue::Bool(value) => bool_text(*value).to_string(),
        AttrValue::None => "None".to_string(),
        AttrValue::List(items) => list("[", items.iter().map(attr_value), "]"),
        AttrValue::Meta(entry) => meta(entry),
    }
}

fn meta(entry: &MetaRef) -> String {
    format!("meta[{}][{}]", entry.key, entry.index)
}

fn bool_text(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out + "\""
}

impl Printer {
    /// A new line at the current depth.
    fn line(&self) -> String {
        format!("\n{}", " ".repeat(self.indent))
    }

    /// Type parameters, parameters, result and body of a function.
    fn function(&mut self, f: &Function) -> String {
        let types = match f.type_params.as_slice() {
            [] => String::new(),
            params => list("[", params.iter().cloned(), "]"),
        };
        let items = f.params.iter().map(param).chain(f.attrs.iter().map(attr));
        let result = f.result.as_ref().map_or(String::new(), |t| format!(" -> {}", ty(t)));
        format!("{types}{}{result} {}", list("(", items, ")"), self.block(&f.body))
    }

    fn block(&mut self, block: &Block) -> String {
        self.indent += INDENT;
        let mut text = String::from("{");
        for binding in &block.bindings {
            let word = if binding.is_let { "let " } else { "" };
            let value = self.expr(&binding.value);
            let _ = write!(text, "{}{word}{} = {value};", self.line(), param(&binding.var));
        }
        let result = self.expr(&block.result);
        let _ = write!(text, "{}{result}", self.line());
        self.indent -= INDENT;
        text + &self.line() + "}"
    }

    fn expr(&mut self, e: &Expr) -> String {
        match &e.kind {
            ExprKind::Var(name) => format!("%{name}"),
            ExprKind::Global(name) => format!("@{name}"),
            ExprKind::Name(name) => name.clone(),
            ExprKind::Number(text) => text.clone(),
            ExprKind::Bool(value) => bool_text(*value).to_string(),
            ExprKind::Meta(entry) => meta(entry),
            ExprKind::Tuple(items) => {
                let items: Vec<String> = items.iter().map(|item| self.expr(item)).collect();
                tuple(&items)
            }
            ExprKind::Project(tuple, index) => format!("{}.{index}", self.callee(tuple)),
            ExprKind::Call { callee, args, attrs } => {
                let callee = self.callee(callee);
                let args: Vec<String> = args.iter().map(|arg| self.expr(arg)).collect();
                callee + &list("(", args.into_iter().chain(attrs.iter().map(attr)), ")")
            }
            ExprKind::Function(f) => format!("fn {}", self.function(f)),
            ExprKind::If(cond, then, otherwise) => {
                let (cond, then) = (self.expr(cond), self.block(then));
                format!("if ({cond}) {then} else {}", self.block(otherwise))
            }
            ExprKind::Match { value, complete, arms } => self.matching(value, *complete, arms),
            ExprKind::Block(block) => self.block(block),
        }
    }

    /// An expression that is called or projected: in brackets where the text would not show where
    /// it ends.
    fn callee(&mut self, e: &Expr) -> String {
        let text = self.expr(e);
        match e.kind {
            ExprKind::Function(_) | ExprKind::Number(_) => format!("({text})"),
            _ => text,
        }
    }

    fn matching(&mut self, value: &Expr, complete: bool, arms: &[Arm]) -> String {
        let sign = if complete { "" } else { "?" };
        let mut text = format!("match{sign} ({}) {{", self.expr(value));
        self.indent += INDENT;
        for arm in arms {
            let body = self.block(&arm.body);
            let _ = write!(text, "{}{} => {body},", self.line(), pattern(&arm.pattern));
        }
        self.indent -= INDENT;
        text + &self.line() + "}"
    }
}
