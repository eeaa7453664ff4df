//! The definition of an operator.

use std::fmt;
use std::sync::Arc;

use reflex_tir::PrimFunc;

use super::call::CallTypes;
use crate::TensorType;
use crate::registered_op::{AttrKind, AttrValue, FusionKind};

/// An attribute that an operator declares.
#[derive(Clone, Debug)]
pub(super) struct AttrDef {
    pub name: String,
    pub kind: AttrKind,
    /// Its value where a call gives none; without one, every call gives it.
    pub default: Option<AttrValue>,
}

pub(super) type Infer =
    dyn Fn(&CallTypes<'_>) -> Result<Vec<TensorType>, String> + Send + Sync + 'static;
pub(super) type WriteKernel =
    dyn Fn(&CallTypes<'_>, &[TensorType]) -> Result<PrimFunc, String> + Send + Sync + 'static;

/// The code of an operator.
#[derive(Clone)]
pub(super) enum Implementation {
    /// A kernel for the types of a call.
    Kernel(Arc<WriteKernel>),
    /// A packed function by its global name: `(tensors..., attributes...)`, which returns the results.
    Packed(String),
}

/// An operator as it is registered.
///
/// ```
/// use reflex_graph::registered::{self, FusionKind, OpDef};
///
/// let twice = OpDef::new("docs.twice")
///     .infer(|call| Ok(vec![call.args[0].clone()]))
///     .kernel_text(
///         r#"
/// @T.prim_func(s_tir=True)
/// def twice(a: T.handle, b: T.handle):
///     n = T.int64()
///     A = T.match_buffer(a, (n,))
///     B = T.match_buffer(b, (n,))
///     for i in range(n):
///         with T.sblock("twice"):
///             v = T.axis.spatial(n, i)
///             B[v] = A[v] + A[v]
/// "#,
///     )
///     .fusion(FusionKind::Elementwise);
/// registered::register(twice)?;
/// # Ok::<(), String>(())
/// ```
#[derive(Clone)]
pub struct OpDef {
    pub(super) name: String,
    /// Fewest and most operands.
    pub(super) operands: (usize, usize),
    pub(super) attrs: Vec<AttrDef>,
    pub(super) kind: FusionKind,
    pub(super) infer: Option<Arc<Infer>>,
    pub(super) implementation: Option<Implementation>,
    /// True if its functions are another language's.
    foreign: bool,
    /// The first thing that is wrong with the definition.
    fault: Option<String>,
}

impl fmt::Debug for OpDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpDef").field("name", &self.name).field("kind", &self.kind).finish()
    }
}

/// First parts of names that Relax and this crate have operators under.
const RESERVED: [&str; 14] = [
    "nn",
    "image",
    "vm",
    "reflex",
    "memory",
    "grad",
    "ccl",
    "dist",
    "builtin",
    "op",
    "relax",
    "vision",
    "inspect",
    "distributed",
];

impl OpDef {
    /// An operator of one operand, without attributes, that fuses with nothing. The name has a space and a
    /// dot before it, such as `example.scale`; TVMScript writes it `R.example.scale`.
    pub fn new(name: &str) -> OpDef {
        OpDef {
            name: name.strip_prefix("relax.").unwrap_or(name).to_owned(),
            operands: (1, 1),
            attrs: vec![],
            kind: FusionKind::Opaque,
            infer: None,
            implementation: None,
            foreign: false,
            fault: None,
        }
    }

    /// The name, without `relax.`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the fewest and the most operands.
    #[must_use]
    pub fn operands(mut self, fewest: usize, most: usize) -> OpDef {
        self.operands = (fewest, most);
        self
    }

    /// Declares an attribute, with its value where a call gives none.
    #[must_use]
    pub fn attr(mut self, name: &str, kind: AttrKind, default: Option<AttrValue>) -> OpDef {
        let given = default.is_some();
        let default = default.and_then(|value| value.of_kind(kind));
        if given && default.is_none() {
            self.wrong(format!("the default of the attribute {name:?} is no {kind}"));
        }
        if self.attrs.iter().any(|attr| attr.name == name) {
            self.wrong(format!("the attribute {name:?} is declared twice"));
        }
        if !is_identifier(name) {
            self.wrong(format!("{name:?} is no name of an attribute"));
        }
        self.attrs.push(AttrDef { name: name.to_owned(), kind, default });
        self
    }

    /// Sets the rule that gives the types of the results, over the dimensions of the operands.
    #[must_use]
    pub fn infer<F>(mut self, infer: F) -> OpDef
    where
        F: Fn(&CallTypes<'_>) -> Result<Vec<TensorType>, String> + Send + Sync + 'static,
    {
        self.infer = Some(Arc::new(infer));
        self
    }

    /// Sets a kernel that takes the operands, then the results.
    #[must_use]
    pub fn kernel_text(self, text: &str) -> OpDef {
        let read = reflex_tir::script::parse(text);
        match read {
            Ok(func) => self.kernel(move |_, _| Ok(func.clone())),
            Err(why) => {
                let mut def = self;
                def.wrong(format!("its kernel: {why}"));
                def
            }
        }
    }

    /// Sets a function that writes a kernel for the types of a call and its results.
    #[must_use]
    pub fn kernel<F>(mut self, write: F) -> OpDef
    where
        F: Fn(&CallTypes<'_>, &[TensorType]) -> Result<PrimFunc, String> + Send + Sync + 'static,
    {
        self.implemented(Implementation::Kernel(Arc::new(write)));
        self
    }

    /// Sets a packed function by its global name: it takes the operands, then the attributes in the order in
    /// which they were declared, and returns a tensor, or an array of several.
    #[must_use]
    pub fn packed(mut self, function: &str) -> OpDef {
        self.implemented(Implementation::Packed(function.to_owned()));
        self
    }

    /// Sets what it fuses with.
    #[must_use]
    pub fn fusion(mut self, kind: FusionKind) -> OpDef {
        self.kind = kind;
        self
    }

    /// Says that its functions are another language's, which only the thread that reads a model may run: a
    /// program with the operator is not specialised in the background.
    #[must_use]
    pub fn foreign(mut self) -> OpDef {
        self.foreign = true;
        self
    }

    /// Whether its functions are another language's.
    pub fn is_foreign(&self) -> bool {
        self.foreign
    }

    fn implemented(&mut self, implementation: Implementation) {
        if self.implementation.is_some() {
            self.wrong("it has two implementations".to_owned());
        }
        self.implementation = Some(implementation);
    }

    fn wrong(&mut self, why: String) {
        self.fault.get_or_insert(why);
    }

    /// An error that names the operator.
    pub(super) fn error(&self, why: impl fmt::Display) -> String {
        format!("operator {}: {why}", self.name)
    }

    /// Checks what can be known before a call.
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(fault) = &self.fault {
            return Err(self.error(fault));
        }
        let parts: Vec<&str> = self.name.split('.').collect();
        if parts.len() < 2 || !parts.iter().all(|part| is_identifier(part)) {
            return Err(
                self.error("a name is a space, a dot and a name, such as \"example.scale\"")
            );
        }
        if RESERVED.contains(&parts[0]) {
            return Err(self.error(format!("{:?} is the space of built-in operators", parts[0])));
        }
        let (fewest, most) = self.operands;
        if fewest == 0 || fewest > most {
            return Err(self.error(format!("it cannot take {fewest} to {most} operands")));
        }
        if self.infer.is_none() {
            return Err(self.error("it has no inference"));
        }
        match &self.implementation {
            None => Err(self.error("it has no implementation")),
            Some(Implementation::Kernel(_)) => Ok(()),
            Some(Implementation::Packed(_)) => {
                if self.kind != FusionKind::Opaque {
                    let why =
                        format!("a packed function fuses with nothing: it is not {}", self.kind);
                    return Err(self.error(why));
                }
                match self.attrs.iter().find(|attr| attr.kind == AttrKind::Floats) {
                    Some(attr) => Err(self.error(format!(
                        "a packed function takes no list of floats, such as {:?}",
                        attr.name
                    ))),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Whether Python takes a text as a name.
fn is_identifier(text: &str) -> bool {
    let parsed = ruff_python_parser::parse_expression(text);
    parsed.is_ok_and(|parsed| parsed.expr().as_name_expr().is_some_and(|name| name.id == text))
}
