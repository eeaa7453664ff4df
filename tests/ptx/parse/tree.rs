//! The syntax tree of a module.

use super::error::Position;

/// A module.
#[derive(Debug, Default)]
pub struct Tree<'a> {
    /// The PTX version.
    pub version: &'a str,
    /// The target, such as `sm_80`.
    pub target: &'a str,
    /// Variables at module level.
    pub variables: Vec<Variable<'a>>,
    /// Functions with bodies.
    pub functions: Vec<Function<'a>>,
}

/// A variable or parameter.
#[derive(Clone, Debug)]
pub struct Variable<'a> {
    /// State space, such as `.shared`.
    pub space: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Alignment in bytes.
    pub align: u64,
    /// Size in bytes; none where the launch says it.
    pub size: Option<u64>,
    /// Bytes of the initial value; empty when there is none.
    pub init: Vec<u8>,
    /// Where it is declared.
    pub position: Position,
}

/// A function or kernel.
#[derive(Debug)]
pub struct Function<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether it is a kernel.
    pub entry: bool,
    /// Results.
    pub results: Vec<Variable<'a>>,
    /// Parameters.
    pub params: Vec<Variable<'a>>,
    /// Performance directives with their numbers, such as `.maxntid`.
    pub directives: Vec<(&'a str, Vec<u64>)>,
    /// The body.
    pub body: Vec<(Statement<'a>, Position)>,
    /// Where it begins.
    pub position: Position,
}

/// A statement of a body.
#[derive(Debug)]
pub enum Statement<'a> {
    /// `{`.
    Open,
    /// `}`.
    Close,
    /// A label.
    Label(&'a str),
    /// Registers: type, name, and the count of a family.
    Registers(&'a str, &'a str, Option<u64>),
    /// A local, shared or parameter variable.
    Variable(Variable<'a>),
    /// A labelled list of branch targets.
    Targets(&'a str, Vec<&'a str>),
    /// An instruction.
    Instruction(Instruction<'a>),
}

/// An instruction.
#[derive(Debug)]
pub struct Instruction<'a> {
    /// The predicate, and whether it is negated.
    pub guard: Option<(&'a str, bool)>,
    /// Opcode with modifiers.
    pub opcode: &'a str,
    /// Operands.
    pub operands: Vec<Operand<'a>>,
}

/// An operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand<'a> {
    /// A register, variable, label or `_`, with a constant added.
    Name(&'a str, i64),
    /// An integer.
    Integer(u64),
    /// Bits of a float32.
    Float(u32),
    /// Bits of a float64.
    Double(u64),
    /// `!p`.
    Not(&'a str),
    /// `p|q`.
    Pair(&'a str, &'a str),
    /// `{a, b}`.
    Vector(Vec<Operand<'a>>),
    /// `[a + 4]`, and with coordinates `[a, {x, y}]`.
    Address(Box<Operand<'a>>, Vec<Operand<'a>>),
    /// `(a, b)`.
    List(Vec<Operand<'a>>),
}
