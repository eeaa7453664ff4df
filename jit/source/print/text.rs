//! Pieces of text: expressions with the strength of their operator, and lines with their indentation.

use crate::error::{Result, SourceError};

/// The most bytes of one expression, and of one function.
const MAX_EXPRESSION: usize = 1 << 20;
const MAX_FUNCTION: usize = 1 << 26;
/// Brackets within brackets of one expression. Clang takes 256, blocks included.
const MAX_BRACKETS: usize = 128;

/// The strength by which an operator binds its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// `?:`
    Choice,
    /// `||`
    Or,
    /// `&&`
    And,
    /// `|`, `^`, `&`, which are always in brackets.
    Bits,
    /// `==`, `!=`
    Equal,
    /// `<` and the like
    Order,
    /// `<<`, `>>`, which are always in brackets.
    Shift,
    /// `+`, `-`
    Sum,
    /// `*`, `/`, `%`
    Product,
    /// `-x`, `!x`, casts.
    Unary,
    /// Names, numbers, calls, elements.
    Primary,
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Text {
    text: String,
    strength: Strength,
    /// Brackets within brackets.
    depth: usize,
}

impl Text {
    /// Whether it is the constant 0 of a floating-point type.
    pub fn is_float_zero(&self) -> bool {
        matches!(self.text.as_str(), "0.0f" | "0.0")
    }

    /// With an operator that binds as `strength` says.
    pub fn new(text: String, strength: Strength) -> Text {
        Text { text, strength, depth: 0 }
    }

    /// A name, or a number without a sign.
    pub fn primary(text: impl Into<String>) -> Text {
        Text::new(text.into(), Strength::Primary)
    }

    /// A number, which may have a sign.
    pub fn number(text: String) -> Text {
        let signed = text.starts_with('-');
        Text::new(text, if signed { Strength::Unary } else { Strength::Primary })
    }

    /// As it is, where nothing is around it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// As an operand of an operator that binds as `least` says: in brackets, if its own is weaker. With its depth.
    fn operand(&self, least: Strength) -> (String, usize) {
        match self.strength >= least {
            true => (self.text.clone(), self.depth),
            false => (format!("({})", self.text), self.depth + 1),
        }
    }

    /// An operator in front of its operand.
    pub fn prefix(operator: &str, value: &Text) -> Text {
        let (value, depth) = value.operand(Strength::Unary);
        Text { text: format!("{operator}{value}"), strength: Strength::Unary, depth }
    }

    /// `a op b`, where the operator groups to the left. Brackets are also where readers expect them.
    pub fn infix(a: &Text, op: &str, b: &Text, strength: Strength) -> Text {
        use Strength::{And, Bits, Choice, Equal, Or, Order, Primary, Product, Shift, Sum, Unary};
        let (left, right) = match strength {
            Or | And if a.strength == strength => (strength, Equal),
            Or | And => (Equal, Equal),
            Equal | Order => (Sum, Sum),
            Sum => (Sum, Product),
            Product => (Product, Unary),
            Bits | Shift | Unary | Choice | Primary => (Unary, Unary),
        };
        let ((a, x), (b, y)) = (a.operand(left), b.operand(right));
        Text { text: format!("{a} {op} {b}"), strength, depth: x.max(y) }
    }

    /// `cond ? a : b`.
    pub fn choice(cond: &Text, a: &Text, b: &Text) -> Text {
        let ((cond, x), (a, y)) = (cond.operand(Strength::Or), a.operand(Strength::Or));
        let (b, z) = b.operand(Strength::Choice);
        let depth = x.max(y).max(z);
        Text { text: format!("{cond} ? {a} : {b}"), strength: Strength::Choice, depth }
    }

    /// `(word)x`.
    pub fn cast(word: &str, value: &Text) -> Text {
        Text::prefix(&format!("({word})"), value)
    }

    /// `function(args)`.
    pub fn call(function: &str, args: &[Text]) -> Text {
        let texts: Vec<&str> = args.iter().map(Text::as_str).collect();
        let depth = args.iter().map(|arg| arg.depth).max().unwrap_or(0) + 1;
        let text = format!("{function}({})", texts.join(", "));
        Text { text, strength: Strength::Primary, depth }
    }

    /// The argument, if this is a call of `function` with one.
    pub fn argument_of(&self, function: &str) -> Option<Text> {
        let rest =
            self.text.strip_prefix(function).filter(|_| self.strength == Strength::Primary)?;
        let inside = rest.strip_prefix('(')?.strip_suffix(')')?;
        let depth = self.depth.saturating_sub(1);
        Some(Text { text: inside.to_owned(), strength: Strength::Choice, depth })
    }

    /// `array[index]`.
    pub fn element(array: &str, index: &Text) -> Text {
        let text = format!("{array}[{}]", index.as_str());
        Text { text, strength: Strength::Primary, depth: index.depth + 1 }
    }

    /// An error for one that compilers refuse, or that is too long: shared parts are repeated.
    pub fn checked(self) -> Result<Text> {
        let what = match (self.text.len() > MAX_EXPRESSION, self.depth > MAX_BRACKETS) {
            (true, _) => format!("more than {MAX_EXPRESSION} bytes"),
            (_, true) => format!("brackets deeper than {MAX_BRACKETS}"),
            _ => return Ok(self),
        };
        Err(SourceError::new(format!("an expression has {what}; bind parts of it by `let`")))
    }
}

/// Lines of a function.
#[derive(Default)]
pub struct Writer {
    text: String,
    blocks: usize,
}

impl Writer {
    /// Adds a line.
    pub fn line(&mut self, line: impl AsRef<str>) {
        if line.as_ref().starts_with('#') {
            self.text.push_str(line.as_ref());
        } else {
            self.text.extend(std::iter::repeat_n("    ", self.blocks));
            self.text.push_str(line.as_ref());
        }
        self.text.push('\n');
    }

    /// Adds a line that opens a block.
    pub fn open(&mut self, line: impl AsRef<str>) {
        self.line(format!("{} {{", line.as_ref()).trim_start());
        self.blocks += 1;
    }

    /// Ends a block, and opens another one.
    pub fn reopen(&mut self, line: &str) {
        self.blocks -= 1;
        self.open(format!("}} {line}"));
    }

    /// Ends a block.
    pub fn close(&mut self) {
        self.blocks -= 1;
        self.line("}");
    }

    /// Blocks that are open.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// The text so far.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// An error for a function that is too long.
    pub fn check(&self) -> Result<()> {
        match self.text.len() <= MAX_FUNCTION {
            true => Ok(()),
            false => Err(SourceError::new(format!(
                "the text of a function has more than {MAX_FUNCTION} bytes"
            ))),
        }
    }
}
