//! The precedence of Python's expressions.
//!
//! Source: The Python Language Reference, "Operator precedence".

/// The strength by which an expression binds its operands, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precedence {
    /// `a if c else b`
    Choice,
    /// `or`
    Or,
    /// `and`
    And,
    /// `not`
    Not,
    /// Comparisons, which do not chain here.
    Compare,
    /// `|`
    BitOr,
    /// `^`
    BitXor,
    /// `&`
    BitAnd,
    /// `<<`, `>>`
    Shift,
    /// `+`, `-`
    Sum,
    /// `*`, `/`, `//`, `%`
    Product,
    /// `-`, `~`
    Unary,
    /// `**`
    Power,
    /// Names, numbers, calls, subscripts, and what is in parentheses.
    Atom,
}
