//! Functions that importers of ONNX call on tensors of strings, whose bytes are the last axis, filled up with
//! zeros: conversions between strings and numbers, splitting, tokens, and regular expressions.
//!
//! Where ONNX leaves the meaning open, it is ONNX Runtime's.

mod tokenizer;

use regex_lite::{Regex, RegexBuilder};

use crate::array::Array;
use crate::dtype::DType;
use crate::error::Error;
use crate::function::{arg_ref, check_arity};
use crate::tensor::Tensor;
use crate::value::{Any, AnyView};

pub(crate) use self::tokenizer::tokens;
pub use self::tokenizer::{Rule, token_pattern};

/// Bytes that the text of a float takes at most: a sign, eight digits, and a point with four zeros in front or an
/// exponent of three digits.
pub const FLOAT_BYTES: usize = 16;
/// Bytes that the text of an integer of 64 bits takes at most.
pub const INT_BYTES: usize = 20;
/// A tensor of pieces of strings has no more bytes.
const MAX_BYTES: usize = 1 << 30;
/// A regular expression has no larger program.
const MAX_PROGRAM: usize = 1 << 20;

/// Rows of bytes and the shape in front of them.
struct Texts {
    shape: Vec<i64>,
    width: usize,
    bytes: Vec<u8>,
}

impl Texts {
    fn of(args: &[AnyView<'_>], index: usize) -> Result<Texts, Error> {
        let tensor = arg_ref::<Tensor>(args, index)?.to_host()?;
        let Some((width, shape)) = tensor.shape().split_last() else {
            return Err(Error::value_error("strings without an axis of bytes"));
        };
        let width = usize::try_from(*width).unwrap_or(0);
        Ok(Texts { shape: shape.to_vec(), width, bytes: tensor.to_vec::<u8>()? })
    }

    fn count(&self) -> usize {
        self.shape.iter().map(|n| usize::try_from(*n).unwrap_or(0)).product()
    }

    fn each(&self) -> impl Iterator<Item = Result<&str, Error>> {
        (0..self.count()).map(|at| text(&self.bytes[at * self.width..(at + 1) * self.width]))
    }
}

/// The string in a row of bytes.
pub(crate) fn text(row: &[u8]) -> Result<&str, Error> {
    let end = row.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
    let text = std::str::from_utf8(&row[..end]);
    text.map_err(|_| Error::value_error("a string that is not UTF-8"))
}

/// A constant string of a node.
fn parameter(args: &[AnyView<'_>], index: usize) -> Result<String, Error> {
    text(&arg_ref::<Tensor>(args, index)?.to_host()?.to_vec::<u8>()?).map(str::to_owned)
}

/// `from_numbers(x)`: the text of float64, int64 or uint64 numbers.
pub(crate) fn from_numbers(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("reflex.text.from_numbers", args, 1)?;
    let x = arg_ref::<Tensor>(args, 0)?.to_host()?;
    let (texts, width): (Vec<String>, usize) = match x.dtype() {
        DType::F64 => (x.to_vec()?.into_iter().map(float_text).collect(), FLOAT_BYTES),
        DType::I64 => (x.to_vec::<i64>()?.iter().map(i64::to_string).collect(), INT_BYTES),
        DType::U64 => (x.to_vec::<u64>()?.iter().map(u64::to_string).collect(), INT_BYTES),
        other => return Err(Error::type_error(format!("the text of {other}"))),
    };
    let mut shape = x.shape().to_vec();
    shape.push(width as i64);
    let rows = rows(texts.iter().map(String::as_str), width);
    Ok(Tensor::from_bytes(&shape, DType::U8, &rows)?.into())
}

/// A number with eight digits, as C's `%.8g` writes it.
fn float_text(x: f64) -> String {
    if x.is_nan() {
        return "NaN".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "INF" } else { "-INF" }.into();
    }
    let scientific = format!("{x:.7e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..8).contains(&exponent) {
        let decimals = usize::try_from(7 - exponent).unwrap_or(0);
        return without_zeros(&format!("{x:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(digits), exponent.abs())
}

fn without_zeros(digits: &str) -> &str {
    match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    }
}

/// Strings as rows of bytes, of which none is longer than the width.
fn rows<'a>(texts: impl Iterator<Item = &'a str>, width: usize) -> Vec<u8> {
    let mut rows = vec![];
    for text in texts {
        let end = rows.len() + width;
        rows.extend_from_slice(text.as_bytes());
        rows.resize(end, 0);
    }
    rows
}

/// `to_numbers(strings, of)`: the numbers that strings stand for, in the type of `of`: float64, int64
/// or uint64.
pub(crate) fn to_numbers(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("reflex.text.to_numbers", args, 2)?;
    let texts = Texts::of(args, 0)?;
    let shape = &texts.shape;
    Ok(match arg_ref::<Tensor>(args, 1)?.dtype() {
        DType::F64 => Tensor::from_slice(shape, &parsed(&texts, float)?)?,
        DType::I64 => Tensor::from_slice(shape, &parsed(&texts, |s| s.parse::<i64>().ok())?)?,
        DType::U64 => Tensor::from_slice(shape, &parsed(&texts, |s| s.parse::<u64>().ok())?)?,
        other => return Err(Error::type_error(format!("strings as {other}"))),
    }
    .into())
}

fn parsed<T>(texts: &Texts, parse: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, Error> {
    let number = |text: &str| {
        let shown: String = text.chars().take(40).collect();
        let none = || Error::value_error(format!("{shown:?} is no number of the type"));
        parse(text.trim()).ok_or_else(none)
    };
    texts.each().map(|text| number(text?)).collect()
}

/// A float; none where a finite text is out of range.
fn float(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    let named = text.bytes().any(|b| b.eq_ignore_ascii_case(&b'i'));
    (value.is_finite() || value.is_nan() || named).then_some(value)
}

/// `split(strings, delimiter, most)`: the pieces, of which each string has as many as that with the most, empty
/// where it has fewer, and their numbers. Without a delimiter spaces in any number divide. `most` bounds
/// how often a string is divided; below zero nothing does.
pub(crate) fn split(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("reflex.text.split", args, 3)?;
    let (texts, delimiter) = (Texts::of(args, 0)?, parameter(args, 1)?);
    let most: Vec<i64> = arg_ref::<Tensor>(args, 2)?.to_host()?.to_vec()?;
    let most = most.first().and_then(|most| usize::try_from(*most).ok());
    let most = most.map_or(usize::MAX, |most| most.saturating_add(1));
    let mut pieces: Vec<Vec<&str>> = vec![];
    for text in texts.each() {
        pieces.push(pieces_of(text?, &delimiter, most));
    }
    let count = pieces.iter().map(Vec::len).max().unwrap_or(0);
    let size = count.checked_mul(texts.width).and_then(|n| n.checked_mul(pieces.len()));
    if size.is_none_or(|size| size > MAX_BYTES) {
        return Err(Error::value_error("pieces of strings of more than 1 GiB"));
    }
    let counts: Vec<i64> = pieces.iter().map(|of| of.len() as i64).collect();
    let filled = pieces.iter().flat_map(|of| {
        let missing = std::iter::repeat_n("", count - of.len());
        of.iter().copied().chain(missing)
    });
    let mut shape = texts.shape.clone();
    shape.extend([count as i64, texts.width as i64]);
    let pieces = Tensor::from_bytes(&shape, DType::U8, &rows(filled, texts.width))?;
    let counts = Tensor::from_slice(&texts.shape, &counts)?;
    Ok(Array::new(vec![pieces.into(), counts.into()]).into())
}

fn pieces_of<'a>(text: &'a str, delimiter: &str, most: usize) -> Vec<&'a str> {
    if !delimiter.is_empty() {
        return match text.is_empty() {
            true => vec![],
            false => text.splitn(most, delimiter).collect(),
        };
    }
    let mut rest = text.trim_matches(' ');
    let mut pieces = vec![];
    while !rest.is_empty() {
        let (piece, behind) = match pieces.len() + 1 == most {
            true => (rest, ""),
            false => rest.split_once(' ').unwrap_or((rest, "")),
        };
        pieces.push(piece);
        rest = behind.trim_start_matches(' ');
    }
    pieces
}

/// The regular expression that whole strings match, or why it is none.
pub fn full_match_pattern(pattern: &str) -> Result<Regex, Error> {
    let build = |pattern: &str| {
        let built = RegexBuilder::new(pattern).size_limit(MAX_PROGRAM).build();
        built.map_err(|e| Error::value_error(format!("regular expression {pattern:?}: {e}")))
    };
    // Alone first: a parenthesis that closes none would end the group.
    build(pattern)?;
    build(&format!(r"\A(?:{pattern})\z"))
}

/// `full_match(strings, pattern)`: whether whole strings match a regular expression, bool.
pub(crate) fn full_match(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("reflex.text.full_match", args, 2)?;
    let texts = Texts::of(args, 0)?;
    let pattern = full_match_pattern(&parameter(args, 1)?)?;
    let matches = texts.each().map(|text| Ok(u8::from(pattern.is_match(text?))));
    let matches = matches.collect::<Result<Vec<u8>, Error>>()?;
    Ok(Tensor::from_bytes(&texts.shape, DType::BOOL, &matches)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_eight_digits() {
        let cases = [
            (1.0, "1"),
            (f64::from(0.1_f32), "0.1"),
            (-0.0, "-0"),
            (1e10, "1e+10"),
            (123_456_792.0, "1.2345679e+08"),
            (f64::from(1e-4_f32), "9.9999997e-05"),
            (0.000_123_456_789, "0.00012345679"),
            (99_999_999.0, "99999999"),
            (999_999_999.0, "1e+09"),
            (-f64::MAX, "-1.7976931e+308"),
            (f64::MIN_POSITIVE, "2.2250739e-308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-INF"),
        ];
        for (x, text) in cases {
            assert_eq!(float_text(x), text);
            assert!(text.len() <= FLOAT_BYTES);
        }
    }

    #[test]
    fn spaces_divide_without_a_delimiter() {
        assert_eq!(pieces_of(" a  b c  ", "", usize::MAX), ["a", "b", "c"]);
        assert_eq!(pieces_of(" a  b c  ", "", 2), ["a", "b c"]);
        assert_eq!(pieces_of("a,,b,", ",", 2), ["a", ",b,"]);
        assert!(pieces_of("", ",", usize::MAX).is_empty() && pieces_of("  ", "", 1).is_empty());
    }

    #[test]
    fn whole_strings_match() {
        let matches = |p: &str, s: &str| full_match_pattern(p).unwrap().is_match(s);
        assert!(matches("a|ab", "ab") && !matches("a", "a\n") && !matches(r"\d", "\u{661}"));
        for wrong in ["a(", "a)(b", r"(a{1000}){1000}", r"\pL"] {
            assert!(full_match_pattern(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn hostile_texts_are_errors() {
        let views = |args: &[Any], f: fn(&[AnyView<'_>]) -> Result<Any, Error>| {
            f(&args.iter().map(Any::view).collect::<Vec<_>>()).is_err()
        };
        let bytes = |shape: &[i64], b: &[u8]| Any::from(Tensor::from_slice(shape, b).unwrap());
        let number = Any::from(Tensor::from_slice(&[], &[0_i64]).unwrap());
        for text in [b"1x", b"  ", b"\xff1", b"1\0"] {
            let wrong = views(&[bytes(&[1, 2], text), number.clone()], to_numbers);
            assert_eq!(wrong, text != b"1\0");
        }
        assert!(views(&[bytes(&[], b"1"), number.clone()], to_numbers));
        assert!(views(&[number.clone(), number], to_numbers));
        assert!(views(&[bytes(&[1, 1], b"a"), bytes(&[1], b"(")], full_match));
        assert_eq!((float("1e400"), float("-Inf")), (None, Some(f64::NEG_INFINITY)));
    }
}
