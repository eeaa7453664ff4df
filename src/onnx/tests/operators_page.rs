//! `docs/onnx.md` is the table of `reflex_onnx::onnx_operators`. `REFLEX_BLESS=1` rewrites it.

use std::collections::BTreeMap;
use std::fmt::Write;

use reflex_onnx::{OnnxOperator, onnx_operators};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/onnx.md");

fn page() -> String {
    let table = onnx_operators();
    let mut page = String::from(
        "# Operators of ONNX\n\n\
         Made from the importer's table and the schemas of onnx and ONNX Runtime\n\
         ([`operator_table.rs`](../src/onnx/operator_table.rs)); do not edit. `reflex info --operators` prints it, `--json` for\n\
         programs. An operator that is not imported is\n\
         refused by name, unless the caller imports or registers it ([operators.md](operators.md)). Types are those that the\n\
         schema allows for the first input; which are computed with, and what else is limited, is in\n\
         [limits.md](limits.md#onnx). Versions are those at which the schema changed.\n",
    );
    let mut domains = BTreeMap::<_, Vec<&OnnxOperator>>::new();
    for operator in table.iter().filter(|operator| !operator.versions.is_empty()) {
        domains.entry(operator.domain).or_default().push(operator);
    }
    for (domain, operators) in domains {
        let imported = operators.iter().filter(|operator| operator.imported).count();
        let count = operators.len();
        write!(page, "\n## {domain}\n\n{imported} of {count} are imported.\n\n").unwrap();
        page += "| operator | versions | types | status | refused |\n|---|---|---|---|---|\n";
        for operator in operators {
            let (versions, types) = (operator.versions.join(", "), operator.types.join(", "));
            let (status, limit) = (operator.status(), operator.refused.unwrap_or_default());
            writeln!(page, "| {} | {versions} | {types} | {status} | {limit} |", operator.name)
                .unwrap();
        }
    }
    let others = table.iter().filter(|operator| operator.versions.is_empty());
    let others: Vec<String> = others.map(|o| format!("`{}::{}`", o.domain, o.name)).collect();
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
