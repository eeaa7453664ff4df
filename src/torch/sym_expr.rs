//! Expressions over symbols, as SymPy's `srepr` writes them: `Mul(Integer(2), Symbol('s0', integer=True))`.

use reflex_tir::Expr;

use crate::error::{Result, malformed, unsupported};

/// A word of the text.
#[derive(Debug, PartialEq)]
enum Token<'t> {
    Name(&'t str),
    Text(&'t str),
    Number(i64),
    Mark(char),
}

/// An operator whose operands are being read.
struct Call<'t> {
    name: &'t str,
    args: Vec<Operand<'t>>,
}

enum Operand<'t> {
    Dim(Expr),
    Text(&'t str),
    Number(i64),
}

/// The name of a symbol, where a text is one and nothing else.
pub(crate) fn symbol(text: &str) -> Option<&str> {
    let inside = text.strip_prefix("Symbol('")?;
    let (name, rest) = inside.split_once('\'')?;
    (rest.find(')')? + 1 == rest.len()).then_some(name)
}

/// The dimension that a text says; `symbol` gives those of symbols.
pub(crate) fn parse(text: &str, symbol: &mut dyn FnMut(&str) -> Expr) -> Result<Expr> {
    let bad = || malformed(format!("an expression `{text}`"));
    let tokens = tokens(text).ok_or_else(bad)?;
    let mut stack = vec![Call { name: "", args: vec![] }];
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let next = tokens.get(at + 1);
        match token {
            // Assumptions about a symbol: `integer=True`.
            Token::Name(_) if next == Some(&Token::Mark('=')) => at += 2,
            Token::Name(name) if next == Some(&Token::Mark('(')) => {
                stack.push(Call { name, args: vec![] });
                at += 1;
            }
            Token::Mark(')') => {
                let call = stack.pop().filter(|_| !stack.is_empty()).ok_or_else(bad)?;
                let value = apply(call, symbol, text)?;
                stack.last_mut().ok_or_else(bad)?.args.push(Operand::Dim(value));
            }
            Token::Mark(',') => {}
            Token::Text(text) => stack.last_mut().ok_or_else(bad)?.args.push(Operand::Text(text)),
            Token::Number(n) => stack.last_mut().ok_or_else(bad)?.args.push(Operand::Number(*n)),
            Token::Name(_) | Token::Mark(_) => return Err(bad()),
        }
        at += 1;
    }
    let root = stack.pop().filter(|_| stack.is_empty()).ok_or_else(bad)?;
    match root.args.into_iter().next() {
        Some(Operand::Dim(value)) => Ok(value),
        _ => Err(bad()),
    }
}

fn apply(call: Call<'_>, symbol: &mut dyn FnMut(&str) -> Expr, text: &str) -> Result<Expr> {
    let unknown = || unsupported(format!("an expression `{text}` of an extent"));
    match (call.name, call.args.first()) {
        ("Symbol", Some(Operand::Text(name))) => return Ok(symbol(name)),
        ("Integer", Some(Operand::Number(value))) => return Ok(Expr::i64(*value)),
        _ => {}
    }
    let dim = |operand: Operand| match operand {
        Operand::Dim(value) => Ok(value),
        Operand::Text(_) | Operand::Number(_) => Err(unknown()),
    };
    let args = call.args.into_iter().map(dim).collect::<Result<Vec<Expr>>>()?;
    match (call.name, args.as_slice()) {
        ("Add", [first, rest @ ..]) => Ok(rest.iter().cloned().fold(first.clone(), |a, b| a + b)),
        ("Mul", [first, rest @ ..]) => Ok(rest.iter().cloned().fold(first.clone(), |a, b| a * b)),
        ("FloorDiv", [a, b]) if b.as_int().is_some_and(|b| b > 0) => {
            Ok(a.clone().floordiv(b.clone()))
        }
        _ => Err(unknown()),
    }
}

fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = vec![];
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = |holds: fn(char) -> bool| rest.find(|c| !holds(c)).unwrap_or(rest.len());
        let used = match first {
            '(' | ')' | ',' | '=' => {
                tokens.push(Token::Mark(first));
                1
            }
            '\'' => {
                let end = rest[1..].find('\'')?;
                tokens.push(Token::Text(&rest[1..=end]));
                end + 2
            }
            '-' | '0'..='9' => {
                let digits = rest[1..].find(|c: char| !c.is_ascii_digit());
                let end = digits.map_or(rest.len(), |end| end + 1);
                tokens.push(Token::Number(rest[..end].parse().ok()?));
                end
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let end = length(|c| c.is_ascii_alphanumeric() || c == '_');
                tokens.push(Token::Name(&rest[..end]));
                end
            }
            _ => return None,
        };
        rest = rest[used..].trim_start();
    }
    Some(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reflex_tir::Var;

    fn read(text: &str) -> Result<Expr> {
        parse(text, &mut |name| Expr::var(Var::from_u32(name[1..].parse().unwrap_or(0))))
    }

    #[test]
    fn srepr_is_read() {
        let text = "Add(Mul(Integer(2), Symbol('s7', positive=True, integer=True)), Integer(-1))";
        let s = Expr::var(Var::from_u32(7));
        assert_eq!(read(text).unwrap(), Expr::i64(2) * s + Expr::i64(-1));
    }

    #[test]
    fn symbols_are_known() {
        assert_eq!(symbol("Symbol('s7', positive=True, integer=True)"), Some("s7"));
        assert_eq!(symbol("Symbol('s7')"), Some("s7"));
        assert_eq!(symbol("Add(Symbol('s7'), Integer(1))"), None);
        assert_eq!(symbol("Symbol('s7'"), None);
    }

    #[test]
    fn damaged_text_is_refused() {
        let text = "Add(Mul(Integer(2), Symbol('s7', integer=True)), Integer(-1))";
        for end in 0..text.len() {
            assert!(read(&text[..end]).is_err(), "{}", &text[..end]);
        }
        assert!(read("Pow(Symbol('s1'), Integer(2))").is_err());
        assert!(read(")").is_err());
        assert!(read(&"Add(".repeat(100_000)).is_err());
    }
}
