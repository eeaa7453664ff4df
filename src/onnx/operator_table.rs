//! The importer's table of the operators that onnx and ONNX Runtime have a schema of: that of
//! `docs/onnx.md` and of `reflex info --operators`.

use std::collections::BTreeSet;
use std::fmt;

use crate::ops;

/// Domain, name, versions and types, as `tests/onnx/schemas.py` writes them.
const SCHEMAS: &str = include_str!("schemas.txt");

/// Limits of operators that are imported: domain, operator, and what is refused.
const LIMITS: &[(&str, &str, &str)] = &[
    ("ai.onnx", "BitCast", "elements narrower than a byte, 8-bit floats and strings"),
    ("ai.onnx", "Cast", "6-bit floats; narrow types from and to strings"),
    ("ai.onnx", "CastLike", "6-bit floats; narrow types from and to strings"),
    ("ai.onnx", "Det", "matrices of more than 64 rows"),
    ("ai.onnx", "RegexFullMatch", "classes of Unicode (`\\pL`), `\\C`, `\\Q..\\E`"),
    ("ai.onnx", "StringNormalizer", "letters outside ASCII, when it runs"),
    ("ai.onnx", "Unique", "slices of more than 256 elements"),
];

/// An operator of ONNX or ONNX Runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnnxOperator {
    /// Its domain; `ai.onnx` is the default one.
    pub domain: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The versions of the operator set at which its schema changed; none where there is no schema.
    pub versions: Vec<&'static str>,
    /// The types that the latest schema allows for the first input; `deprecated` where it is.
    pub types: Vec<&'static str>,
    /// True if it is imported. One that is not is refused by name.
    pub imported: bool,
    /// The part that is refused of an operator that is imported.
    pub refused: Option<&'static str>,
}

impl OnnxOperator {
    /// The status in words.
    pub fn status(&self) -> &'static str {
        if self.imported { "imported" } else { "not imported" }
    }
}

impl fmt::Display for OnnxOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.domain, self.name)?;
        if !self.versions.is_empty() {
            write!(f, " ({})", self.versions.join(", "))?;
        }
        write!(f, ": {}", self.status())?;
        self.refused.map_or(Ok(()), |refused| write!(f, "; refused: {refused}"))
    }
}

/// The types of a list; those of maps have commas too.
fn listed(types: &'static str) -> Vec<&'static str> {
    let mut depth = 0;
    let divides = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    };
    types.split(divides).collect()
}

/// Every operator that has a schema or is imported, by domain and name.
///
/// ```
/// let table = reflex_onnx::onnx_operators();
/// let relu = table.iter().find(|operator| operator.name == "Relu").unwrap();
/// assert_eq!(relu.to_string(), "ai.onnx::Relu (1, 6, 13, 14): imported");
/// assert!(table.iter().any(|operator| !operator.imported && operator.name == "ImageDecoder"));
/// ```
pub fn onnx_operators() -> Vec<OnnxOperator> {
    let mut known: BTreeSet<(&str, &str)> = ops::names().collect();
    let mut table: Vec<OnnxOperator> = vec![];
    for line in SCHEMAS.lines().filter(|line| !line.starts_with('#')) {
        let parts: Vec<&'static str> = line.split(' ').collect();
        let [domain, name, versions, types] = parts[..] else { continue };
        let imported = known.remove(&(domain, name));
        let limit = LIMITS.iter().find(|(d, n, _)| (*d, *n) == (domain, name));
        table.push(OnnxOperator {
            domain,
            name,
            versions: versions.split(',').collect(),
            types: listed(types),
            imported,
            refused: limit.map(|(_, _, refused)| *refused),
        });
    }
    let unlisted = known.into_iter().map(|(domain, name)| OnnxOperator {
        domain,
        name,
        versions: vec![],
        types: vec![],
        imported: true,
        refused: None,
    });
    table.extend(unlisted);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_schemas_is_an_operator() {
        let lines = SCHEMAS.lines().filter(|line| !line.starts_with('#')).count();
        let table = onnx_operators();
        assert_eq!(table.iter().filter(|operator| !operator.versions.is_empty()).count(), lines);
        assert!(lines > 300);
    }

    #[test]
    fn limits_are_those_of_imported_operators() {
        let known: BTreeSet<(&str, &str)> = ops::names().collect();
        for (domain, name, _) in LIMITS {
            assert!(known.contains(&(domain, name)), "{domain}::{name}");
        }
    }
}
