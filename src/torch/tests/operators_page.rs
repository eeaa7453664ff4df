//! `docs/torch.md` is made of the importer's table.

use std::fmt::Write;

use reflex_torch::{TorchOperator, torch_operators};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/torch.md");

/// Refusals of single operators, beside those of all.
const LIMITS: &[(&str, &str)] = &[
    ("_scaled_dot_product_flash_attention_for_cpu", "its second result, logsumexp"),
    ("adaptive_max_pool2d", "the indices"),
    ("batch_norm", "training"),
    ("dropout", "training"),
    ("einsum", "a label twice in one operand"),
    ("empty", "contents are zeros"),
    ("index", "masks: the count of their elements is known to a run only"),
    ("index_put", "masks, but for one with a scalar"),
    ("lstm", "packed sequences, projections, sequences without a batch"),
    ("native_group_norm", "mean and rstd"),
    ("native_layer_norm", "mean and rstd"),
    ("repeat_interleave", "repetitions in a tensor"),
    ("round", "decimals"),
    ("slice_scatter", "a step other than 1"),
    ("where", "the places where a condition holds"),
];

fn page() -> String {
    let table = torch_operators();
    let mut page = String::from(
        "# Operators of PyTorch\n\n\
         Made from the importer's table ([`operator_table.rs`](../src/torch/operator_table.rs)); do not edit. Programs are archives\n\
         of `torch.export.save` (`.pt2`), as PyTorch 2.9 writes them: as `torch.export.export` gives them, or after\n\
         `run_decompositions`, which takes operators apart into those of core ATen. An operator that is not imported is refused by\n\
         name. An operator has all its overloads, and the form that writes in place where nothing else sees what it writes into.\n\
         What else is limited is in [limits.md](limits.md#pytorch).\n",
    );
    let of = |namespace: &str| -> Vec<&TorchOperator> {
        table.iter().filter(|operator| operator.namespace == namespace).collect()
    };
    let (core, others): (Vec<_>, Vec<_>) = of("aten").into_iter().partition(|o| o.core);
    let imported = core.iter().filter(|operator| operator.imported).count();
    write!(page, "\n## Core ATen\n\n{imported} of {} are imported.\n\n", core.len()).unwrap();
    page += "| operator | status | limits |\n|---|---|---|\n";
    for operator in &core {
        let status = if operator.imported { "imported" } else { "not imported" };
        writeln!(page, "| {} | {status} | {} |", operator.name, limit(operator)).unwrap();
    }
    write!(page, "\n## Other operators of ATen\n\nImported too.\n\n").unwrap();
    page += "| operator | limits |\n|---|---|\n";
    for operator in &others {
        writeln!(page, "| {} | {} |", operator.name, limit(operator)).unwrap();
    }
    page += "\n## Functions of extents\n\nImported: ";
    let names = ["_operator", "math", "torch"].into_iter().flat_map(of);
    let names: Vec<String> = names.map(|o| format!("`{}.{}`", o.namespace, o.name)).collect();
    page += &names.join(", ");
    page += ".\n\nRegions of `wrap_with_set_grad_enabled`, and of `wrap_with_autocast` where it is off, are imported as what is inside them.\n";
    page
}

fn limit(operator: &TorchOperator) -> &'static str {
    LIMITS.iter().find(|(name, _)| *name == operator.name).map_or("", |(_, limit)| limit)
}

#[test]
fn the_page_is_current() {
    let page = page();
    if std::env::var_os("REFLEX_BLESS").is_some() {
        std::fs::write(PAGE, &page).expect("docs/torch.md is written");
    }
    let current = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(current == page, "docs/torch.md is not current (REFLEX_BLESS=1 rewrites it)");
}

#[test]
fn limits_are_those_of_imported_operators() {
    let table = torch_operators();
    for (name, _) in LIMITS {
        assert!(table.iter().any(|o| o.name == *name && o.imported), "{name}");
    }
}
