//! Values as TVM's JSON has them.

use std::fmt::Write;

use crate::graph::Value;

/// Writes a value.
pub fn value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Int(number) => out.push_str(&number.to_string()),
        Value::Float(number) => float(out, *number),
        Value::Text(text) => string(out, text),
    }
}

/// Writes a text: `/` is escaped, what is not ASCII is not.
pub fn string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '/' => out.push_str("\\/"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Writes a float as C's `%.17g` does; whole ones that a double counts by ones have one decimal.
fn float(out: &mut String, number: f64) {
    if number.is_nan() {
        return out.push_str("NaN");
    }
    if number.is_infinite() {
        return out.push_str(if number > 0.0 { "Infinity" } else { "-Infinity" });
    }
    if number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0 {
        return out.push_str(&format!("{number:.1}"));
    }
    let scientific = format!("{number:.16e}");
    let (digits, exponent) = scientific.split_once('e').expect("the form has an exponent");
    let exponent: i32 = exponent.parse().expect("a number");
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..17).contains(&exponent) {
        let decimals = usize::try_from(16 - exponent).expect("at most 20");
        out.push_str(&trimmed(&format!("{number:.decimals$}")));
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{}e{sign}{:02}", trimmed(digits), exponent.abs());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected texts are those of `ffi.json.Stringify` of tvm-ffi 0.1.14.
    #[test]
    fn floats_and_strings_are_those_of_tvm() {
        let floats = [
            (1e20, "1e+20"),
            (1e16, "10000000000000000"),
            (1e15, "1000000000000000.0"),
            (1.234_567_890_123_456_8e17, "1.2345678901234568e+17"),
            (1e-7, "9.9999999999999995e-08"),
            (-0.0, "-0.0"),
            (0.1, "0.10000000000000001"),
            (9_007_199_254_740_992.0, "9007199254740992"),
            (1e300, "1.0000000000000001e+300"),
            (5e-324, "4.9406564584124654e-324"),
            (1e-5, "1.0000000000000001e-05"),
            (0.001, "0.001"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        for (number, text) in floats {
            let mut out = String::new();
            float(&mut out, number);
            assert_eq!(out, text);
        }
        let mut out = String::new();
        string(&mut out, "a/\"\\\u{8}\u{c}\n\r\t\u{1}\u{7f}é€😀<");
        assert_eq!(out, "\"a\\/\\\"\\\\\\b\\f\\n\\r\\t\\u0001\u{7f}é€😀<\"");
    }
}
