//! Relay as it is written: definitions, expressions, patterns and types.
//!
//! Literals keep their text, so that printing gives back what was read.

use super::source::Offset;

/// A module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RelayModule {
    /// Type definitions, in order.
    pub types: Vec<TypeDef>,
    /// Function definitions, in order.
    pub defs: Vec<Def>,
    /// The JSON after `#[metadata]`.
    pub metadata: Option<String>,
}

/// An algebraic data type.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeDef {
    /// Place.
    pub at: Offset,
    /// Name.
    pub name: String,
    /// Type parameters.
    pub params: Vec<String>,
    /// Constructors, or `None` of an `extern type`.
    pub constructors: Option<Vec<ConstructorDef>>,
}

/// A constructor of a data type.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstructorDef {
    /// Name, unique in the module.
    pub name: String,
    /// Types of the fields.
    pub fields: Vec<Type>,
}

/// A function of the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Def {
    /// Place.
    pub at: Offset,
    /// Name without `@`.
    pub name: String,
    /// The function.
    pub function: Function,
}

/// A function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Type parameters.
    pub type_params: Vec<String>,
    /// Parameters.
    pub params: Vec<Param>,
    /// Attributes, written after the parameters.
    pub attrs: Vec<Attr>,
    /// Type of the result.
    pub result: Option<Type>,
    /// Body.
    pub body: Block,
}

/// A variable and its type.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Place.
    pub at: Offset,
    /// Name without `%`.
    pub name: String,
    /// Type.
    pub ty: Option<Type>,
}

/// `name=value`
#[derive(Clone, Debug, PartialEq)]
pub struct Attr {
    /// Place.
    pub at: Offset,
    /// Name.
    pub name: String,
    /// Value.
    pub value: AttrValue,
}

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttrValue {
    /// A number as written, with its sign and suffix.
    Number(String),
    /// A string, quotes taken away.
    Str(String),
    /// `True` or `False`
    Bool(bool),
    /// `None`
    None,
    /// `[a, b]`
    List(Vec<AttrValue>),
    /// `meta[key][index]`
    Meta(MetaRef),
}

/// `meta[key][index]`: an entry of the metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct MetaRef {
    /// Type of the entry.
    pub key: String,
    /// Number among those of its type.
    pub index: u64,
}

/// Bindings and a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Bindings in order.
    pub bindings: Vec<Binding>,
    /// Result.
    pub result: Expr,
}

/// `let %x: T = e;` or `%0 = e;`
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// Written with `let`: evaluated here. Without, the name stands for the expression.
    pub is_let: bool,
    /// Variable.
    pub var: Param,
    /// Its value.
    pub value: Expr,
}

/// An expression and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Place.
    pub at: Offset,
    /// Form.
    pub kind: ExprKind,
}

/// Forms of expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// `%x`
    Var(String),
    /// `@f`
    Global(String),
    /// An operator or a constructor.
    Name(String),
    /// A number as written, with its sign and suffix.
    Number(String),
    /// `True` or `False`
    Bool(bool),
    /// `meta[relay.Constant][0]`
    Meta(MetaRef),
    /// `(a, b)`
    Tuple(Vec<Expr>),
    /// `e.0`
    Project(Box<Expr>, usize),
    /// `f(a, b, name=value)`
    Call {
        /// Callee.
        callee: Box<Expr>,
        /// Arguments.
        args: Vec<Expr>,
        /// Attributes.
        attrs: Vec<Attr>,
    },
    /// `fn (...) { ... }`
    Function(Box<Function>),
    /// `if (c) { ... } else { ... }`
    If(Box<Expr>, Box<Block>, Box<Block>),
    /// `match (e) { ... }`
    Match {
        /// The value.
        value: Box<Expr>,
        /// False for `match?`, which may leave values without an arm.
        complete: bool,
        /// Arms in order.
        arms: Vec<Arm>,
    },
    /// `{ ... }`
    Block(Box<Block>),
}

/// `pattern => { ... }`
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// Pattern.
    pub pattern: Pattern,
    /// Result.
    pub body: Block,
}

/// A pattern and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// Place.
    pub at: Offset,
    /// Form.
    pub kind: PatternKind,
}

/// Forms of patterns.
#[derive(Clone, Debug, PartialEq)]
pub enum PatternKind {
    /// `_`
    Wildcard,
    /// `%x` or `%x: T`
    Var(Param),
    /// `Cons(p, q)`
    Constructor(String, Vec<Pattern>),
    /// `(p, q)`
    Tuple(Vec<Pattern>),
}

/// A type and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    /// Place.
    pub at: Offset,
    /// Form.
    pub kind: TypeKind,
}

/// Forms of types.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeKind {
    /// `Tensor[(1, ?), float32]`; without dimensions `float32`.
    Tensor(Vec<Dim>, String),
    /// A type parameter.
    Name(String),
    /// `List[A]`
    Apply(String, Vec<Type>),
    /// `(A, B)`
    Tuple(Vec<Type>),
    /// `fn [T](A, B) -> C`
    Function(Vec<String>, Vec<Type>, Box<Type>),
    /// `_`
    Unknown,
}

/// A dimension.
#[derive(Clone, Debug, PartialEq)]
pub enum Dim {
    /// A number.
    Const(i64),
    /// `?`
    Any,
    /// A name.
    Name(String),
}
