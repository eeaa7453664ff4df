//! Tokens of strings: characters, what stands between separators, or matches of an expression.

use regex_lite::Regex;

use super::{MAX_BYTES, MAX_PROGRAM, Texts, parameter, rows};
use crate::dtype::DType;
use crate::error::Error;
use crate::function::{arg_ref, check_arity};
use crate::tensor::Tensor;
use crate::value::{Any, AnyView};

/// Tokens in front of those of a string, and behind them, where marks are asked for.
const MARKS: [&str; 2] = ["\u{2}", "\u{3}"];

/// The rule by which a [`tokens`] function divides strings, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i64)]
pub enum Rule {
    /// Each character is a token.
    Characters = 0,
    /// Each separator in turn divides the tokens that there are.
    Separators = 1,
    /// Each match is a token.
    Expression = 2,
}

impl Rule {
    fn of(number: i64) -> Result<Rule, Error> {
        [Rule::Characters, Rule::Separators, Rule::Expression]
            .into_iter()
            .find(|rule| *rule as i64 == number)
            .ok_or_else(|| Error::value_error(format!("rule {number} of tokens")))
    }
}

/// The pattern of a separator or an expression, or why it is none. A separator that matches the empty string is
/// refused: it would divide everywhere.
pub fn token_pattern(rule: Rule, pattern: &str) -> Result<Regex, Error> {
    let built = regex_lite::RegexBuilder::new(pattern).size_limit(MAX_PROGRAM).build();
    let built =
        built.map_err(|e| Error::value_error(format!("regular expression {pattern:?}: {e}")))?;
    if rule == Rule::Separators && built.is_match("") {
        return Err(Error::value_error(format!("separator {pattern:?} matches the empty string")));
    }
    Ok(built)
}

struct Tokenizer {
    rule: Rule,
    patterns: Vec<Regex>,
    mark: bool,
    /// Shorter tokens are left out, in characters.
    least: usize,
}

impl Tokenizer {
    fn of(args: &[AnyView<'_>]) -> Result<Tokenizer, Error> {
        let options: Vec<i64> = arg_ref::<Tensor>(args, 3)?.to_host()?.to_vec()?;
        let [rule, mark, least] = *options else {
            return Err(Error::value_error("tokens have three options"));
        };
        let rule = Rule::of(rule)?;
        let texts = Texts::of(args, 1)?;
        let patterns = match rule {
            Rule::Characters => vec![],
            _ => texts.each().map(|p| token_pattern(rule, p?)).collect::<Result<_, _>>()?,
        };
        let least = usize::try_from(least).unwrap_or(0);
        Ok(Tokenizer { rule, patterns, mark: mark != 0, least })
    }

    fn split<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let mut tokens: Vec<&str> = match self.rule {
            Rule::Characters => text.split_inclusive(|_| true).collect(),
            Rule::Separators => {
                let each = |tokens: Vec<&'a str>, by: &Regex| {
                    tokens.into_iter().flat_map(|token| by.split(token)).collect()
                };
                self.patterns.iter().fold(vec![text], each)
            }
            Rule::Expression => {
                self.patterns.iter().flat_map(|p| p.find_iter(text)).map(|m| m.as_str()).collect()
            }
        };
        let least = self.least.max(1);
        tokens.retain(|token| token.chars().nth(least - 1).is_some());
        tokens
    }
}

/// `tokens(strings, patterns, pad, options)`: the tokens of each string, filled up with `pad` to as many as the
/// string with the most has. Options are the number of a [`Rule`], whether marks stand around the tokens of
/// each string, and the least number of characters. There are no tokens and no marks where no string has a token.
pub(crate) fn tokens(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("reflex.text.tokens", args, 4)?;
    let (texts, pad) = (Texts::of(args, 0)?, parameter(args, 2)?);
    let tokenizer = Tokenizer::of(args)?;
    let mut all: Vec<Vec<&str>> = vec![];
    for text in texts.each() {
        all.push(tokenizer.split(text?));
    }
    let mut count = all.iter().map(Vec::len).max().unwrap_or(0);
    if tokenizer.mark && count > 0 {
        count += MARKS.len();
        for tokens in &mut all {
            tokens.insert(0, MARKS[0]);
            tokens.push(MARKS[1]);
        }
    }
    let width = texts.width.max(pad.len()).max(usize::from(tokenizer.mark));
    let size = count.checked_mul(width).and_then(|n| n.checked_mul(all.len()));
    if size.is_none_or(|size| size > MAX_BYTES) {
        return Err(Error::value_error("tokens of more than 1 GiB"));
    }
    let filled = all.iter().flat_map(|of| {
        let missing = std::iter::repeat_n(pad.as_str(), count - of.len());
        of.iter().copied().chain(missing)
    });
    let rows = rows(filled, width);
    let mut shape = texts.shape.clone();
    shape.extend([count as i64, width as i64]);
    Ok(Tensor::from_bytes(&shape, DType::U8, &rows)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(rule: Rule, patterns: &[&str], least: usize, text: &str) -> Vec<String> {
        let patterns = patterns.iter().map(|p| token_pattern(rule, p).unwrap()).collect();
        let tokenizer = Tokenizer { rule, patterns, mark: false, least };
        tokenizer.split(text).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn strings_are_divided_by_each_rule() {
        assert_eq!(split(Rule::Characters, &[], 1, "aé b"), ["a", "é", " ", "b"]);
        assert_eq!(split(Rule::Separators, &[" ", ","], 1, "a b  c,d"), ["a", "b", "c", "d"]);
        assert_eq!(split(Rule::Separators, &["é"], 2, "éabéc"), ["ab"]);
        assert_eq!(split(Rule::Expression, &["[a-z]*"], 1, "aXXbc d"), ["a", "bc", "d"]);
        assert!(token_pattern(Rule::Separators, "X*").is_err());
        assert!(token_pattern(Rule::Expression, "(").is_err());
    }
}
