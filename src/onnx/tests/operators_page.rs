//! `docs/onnx.md` is what the importer's table says of the operators that onnx and ONNX Runtime have schemas of
//! (`tests/onnx/schemas.txt`). `REFLEX_BLESS=1` rewrites it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const SCHEMAS: &str = include_str!("../../../tests/onnx/schemas.txt");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/onnx.md");

/// Limits of operators that are imported: domain, operator, and what is refused.
const LIMITS: &[(&str, &str, &str)] = &[
    ("ai.onnx", "BatchNormalization", "training before opset 14"),
    ("ai.onnx", "BitCast", "elements narrower than a byte, 8-bit floats and strings"),
    ("ai.onnx", "Cast", "6-bit floats; narrow types from and to strings"),
    ("ai.onnx", "CastLike", "6-bit floats; narrow types from and to strings"),
    ("ai.onnx", "Det", "matrices of more than 64 rows"),
    ("ai.onnx", "RegexFullMatch", "classes of Unicode (`\\pL`), `\\C`, `\\Q..\\E`"),
    ("ai.onnx", "Scan", "opset 8"),
    ("ai.onnx", "StringNormalizer", "letters outside ASCII, when it runs"),
    ("ai.onnx", "Unique", "slices of more than 256 elements"),
];

struct Schema<'a> {
    name: &'a str,
    versions: &'a str,
    types: &'a str,
}

/// The schemas of each domain.
fn schemas() -> BTreeMap<&'static str, Vec<Schema<'static>>> {
    let mut domains = BTreeMap::<_, Vec<Schema>>::new();
    for line in SCHEMAS.lines().filter(|line| !line.starts_with('#')) {
        let parts: Vec<&str> = line.split(' ').collect();
        let [domain, name, versions, types] = parts[..] else { panic!("schema `{line}`") };
        domains.entry(domain).or_default().push(Schema { name, versions, types });
    }
    domains
}

fn page() -> String {
    let known: BTreeSet<(&str, &str)> = reflex_onnx::operators().collect();
    let mut named = BTreeSet::new();
    let mut page = String::from(
        "# Operators of ONNX\n\n\
         Made from the importer's table and the schemas of onnx and ONNX Runtime\n\
         ([`operators_page.rs`](../src/onnx/tests/operators_page.rs)); do not edit. An operator that is not imported is\n\
         refused by name, unless the caller imports or registers it ([operators.md](operators.md)). Types are those that the\n\
         schema allows for the first input; which are computed with, and what else is limited, is in\n\
         [limits.md](limits.md#onnx). Versions are those at which the schema changed.\n",
    );
    for (domain, schemas) in schemas() {
        let imported = schemas.iter().filter(|s| known.contains(&(domain, s.name))).count();
        let count = schemas.len();
        write!(page, "\n## {domain}\n\n{imported} of {count} are imported.\n\n").unwrap();
        page += "| operator | versions | types | status | refused |\n|---|---|---|---|---|\n";
        for Schema { name, versions, types } in schemas {
            named.insert((domain, name));
            let limit = LIMITS.iter().find(|(d, n, _)| (*d, *n) == (domain, name));
            let status = match known.contains(&(domain, name)) {
                true => "imported",
                false => "not imported",
            };
            let (versions, types) = (versions.replace(',', ", "), types.replace(',', ", "));
            let limit = limit.map_or("", |(_, _, limit)| limit);
            writeln!(page, "| {name} | {versions} | {types} | {status} | {limit} |").unwrap();
        }
    }
    let others: Vec<String> =
        known.difference(&named).map(|(domain, name)| format!("`{domain}::{name}`")).collect();
    write!(page, "\n## Without a schema\n\nImported too: {}.\n", others.join(", ")).unwrap();
    page
}

#[test]
fn the_page_is_current() {
    let page = page();
    if std::env::var_os("REFLEX_BLESS").is_some() {
        std::fs::write(PAGE, &page).expect("docs/onnx.md is written");
    }
    let current = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(current == page, "docs/onnx.md is not current (REFLEX_BLESS=1 rewrites it)");
}

#[test]
fn limits_are_those_of_imported_operators() {
    let known: BTreeSet<(&str, &str)> = reflex_onnx::operators().collect();
    for (domain, name, _) in LIMITS {
        assert!(known.contains(&(domain, name)), "{domain}::{name}");
    }
}
