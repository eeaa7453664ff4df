//! The program of an archive, and its operators.

use std::collections::BTreeMap;
use std::fmt;

use crate::archive::Archive;
use crate::error::{Result, malformed, unsupported};
use crate::ops;
use crate::schema::{
    Argument, ExportedProgram, Graph, MAJOR, Node, SchemaVersion, node_name, region,
};
use crate::target::{self, Target};

/// The name that PyTorch gives a program that is saved alone.
const ALONE: &str = "model";
/// Regions inside regions deeper than this are not looked into; the JSON cannot be nested deeper either.
const MAX_DEPTH: usize = 64;

/// A program by its name in the archive.
pub(crate) struct Program {
    pub name: String,
    pub exported: ExportedProgram,
}

/// An operator that is not imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedOperator {
    /// Its name with namespace and overload.
    pub operator: String,
    /// Number of uses.
    pub count: usize,
    /// The first node that uses it.
    pub node: String,
}

impl fmt::Display for UnsupportedOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uses = if self.count == 1 { "use" } else { "uses" };
        write!(f, "{} ({} {uses}, first node `{}`)", self.operator, self.count, self.node)
    }
}

impl Program {
    /// Reads the program of an archive.
    pub(crate) fn open(archive: &mut Archive) -> Result<Program> {
        let names = archive.stems("models/", ".json");
        let name = match &names[..] {
            [] => return Err(unsupported("an archive without an exported program")),
            [only] => only.clone(),
            several if several.iter().any(|name| name == ALONE) => ALONE.to_owned(),
            several => {
                let list = several.join(", ");
                return Err(unsupported(format!("an archive of several programs: {list}")));
            }
        };
        let path = format!("models/{name}.json");
        let bytes = archive.read(&path)?;
        check_version(&bytes).map_err(|e| e.at(format_args!("`{path}`")))?;
        let exported = serde_json::from_slice(&bytes);
        let exported = exported.map_err(|e| malformed(format!("`{path}`: {e}")))?;
        Ok(Program { name, exported })
    }

    /// Each node, those of regions included.
    pub(crate) fn walk<'p>(&'p self, visit: &mut dyn FnMut(&'p Node)) {
        walk(&self.exported.graph_module.graph, 0, visit);
    }

    /// The uses of each operator, by its name without overload.
    pub(crate) fn operator_counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        self.walk(&mut |node| {
            let Target { namespace, name } = Target::of(&node.target);
            *counts.entry(format!("{namespace}.{name}")).or_default() += 1;
        });
        counts
    }

    /// The operators that have no import, by name.
    pub(crate) fn unsupported(&self) -> Vec<UnsupportedOperator> {
        let mut found: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
        self.walk(&mut |node| {
            if region(node).is_none() && ops::find(&Target::of(&node.target)).is_none() {
                found.entry(target::short(&node.target)).or_insert((0, node_name(node))).0 += 1;
            }
        });
        let describe = |(operator, (count, node)): (&str, (usize, &str))| UnsupportedOperator {
            operator: operator.to_owned(),
            count,
            node: node.to_owned(),
        };
        found.into_iter().map(describe).collect()
    }
}

fn walk<'p>(graph: &'p Graph, depth: usize, visit: &mut dyn FnMut(&'p Node)) {
    for node in &graph.nodes {
        visit(node);
        for input in &node.inputs {
            if let Argument::AsGraph(inner) = &input.arg
                && depth < MAX_DEPTH
            {
                walk(&inner.graph, depth + 1, visit);
            }
        }
    }
}

/// Refuses other versions of the schema before their differences are errors.
fn check_version(bytes: &[u8]) -> Result<()> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        schema_version: SchemaVersion,
        #[serde(default)]
        torch_version: String,
    }
    let Ok(Versioned { schema_version: version, torch_version }) = serde_json::from_slice(bytes)
    else {
        return Ok(());
    };
    if version.major == MAJOR {
        return Ok(());
    }
    let (major, minor) = (version.major, version.minor);
    let text = format!("schema {major}.{minor} of PyTorch {torch_version}; {MAJOR} is imported");
    Err(unsupported(text))
}
