//! Tree ensembles (TreeEnsembleRegressor and -Classifier) as tables over all nodes.
//!
//! Decision: docs/decisions/0032-tree-ensembles.md

use std::collections::HashMap;

use reflex_graph::Binary;

use crate::call::Call;
use crate::error::{Result, invalid, unsupported};

/// Deeper trees are refused: each level is a few kernels.
const MAX_DEPTH: usize = 64;
/// Most elements of the table of leaf weights.
const MAX_WEIGHTS: usize = 1 << 26;

/// Trees as tables over all nodes; a leaf is its own successor.
pub(super) struct Ensemble {
    position: HashMap<(i64, i64), usize>,
    pub features: Vec<i64>,
    pub thresholds: Vec<f32>,
    pub tests: Vec<Test>,
    pub when_true: Vec<i64>,
    pub when_false: Vec<i64>,
    /// Nodes at which NaN counts as true; or empty.
    pub nan_true: Vec<i64>,
    pub roots: Vec<i64>,
    pub depth: usize,
}

/// The test of a node on its feature.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Test {
    Leaf,
    Compare(Binary),
}

/// Weights of leaves, one column a target or class.
pub(super) struct Leaves {
    pub table: Vec<f32>,
    /// Columns of the table.
    pub columns: usize,
}

impl Ensemble {
    /// Reads the `nodes_` attributes.
    pub fn read(call: &Call) -> Result<Ensemble> {
        let ints = |name| call.ints(name)?.ok_or_else(|| invalid(format!("`{name}` is missing")));
        let (trees, ids) = (ints("nodes_treeids")?, ints("nodes_nodeids")?);
        let features = ints("nodes_featureids")?.to_vec();
        let thresholds = call.floats("nodes_values")?.unwrap_or_default().to_vec();
        let (yes, no) = (ints("nodes_truenodeids")?, ints("nodes_falsenodeids")?);
        let modes = call.texts("nodes_modes")?.unwrap_or_default();
        let nan_true = call.ints("nodes_missing_value_tracks_true")?.unwrap_or_default();
        call.ignore(&["nodes_hitrates"]);
        let count = ids.len();
        let lengths = [trees.len(), features.len(), thresholds.len(), yes.len(), no.len()];
        let same = lengths.iter().all(|n| *n == count) && modes.len() == count;
        if !same || count == 0 || !(nan_true.is_empty() || nan_true.len() == count) {
            return Err(invalid("lists of node attributes differ in length"));
        }
        let tests = modes.iter().map(|mode| test_of(mode)).collect::<Result<Vec<Test>>>()?;
        let mut position = HashMap::new();
        for (at, key) in trees.iter().copied().zip(ids.iter().copied()).enumerate() {
            if position.insert(key, at).is_some() {
                return Err(invalid(format!("node {} of tree {} is given twice", key.1, key.0)));
            }
        }
        let successors = |next: &[i64]| -> Result<Vec<i64>> {
            let each = (0..count).map(|at| match tests[at] {
                Test::Leaf => Ok(at as i64),
                Test::Compare(_) => {
                    let key = (trees[at], next[at]);
                    let found = position.get(&key).map(|to| *to as i64);
                    found.ok_or_else(|| invalid(format!("tree {} has no node {}", key.0, key.1)))
                }
            });
            each.collect()
        };
        let (when_true, when_false) = (successors(yes)?, successors(no)?);
        // The root of a tree is its first node.
        let first = |at: &usize| !trees[..*at].contains(&trees[*at]);
        let roots: Vec<i64> = match trees.is_sorted() {
            true => (0..count).filter(|at| *at == 0 || trees[at - 1] != trees[*at]).collect(),
            false => (0..count).filter(first).collect::<Vec<_>>(),
        }
        .into_iter()
        .map(|at| at as i64)
        .collect();
        let mut ensemble = Ensemble {
            position,
            features,
            thresholds,
            tests,
            when_true,
            when_false,
            nan_true: nan_true.to_vec(),
            roots,
            depth: 0,
        };
        ensemble.depth = ensemble.levels()?;
        Ok(ensemble)
    }

    /// Levels below the roots; an error where a node has two parents.
    fn levels(&self) -> Result<usize> {
        let mut seen = vec![false; self.tests.len()];
        let mut level: Vec<usize> = self.roots.iter().map(|at| *at as usize).collect();
        let mut depth = 0;
        loop {
            let mut next = vec![];
            for at in level {
                if std::mem::replace(&mut seen[at], true) {
                    return Err(invalid("the nodes are no trees"));
                }
                if self.tests[at] != Test::Leaf {
                    next.extend([self.when_true[at] as usize, self.when_false[at] as usize]);
                }
            }
            if next.is_empty() {
                return Ok(depth);
            }
            depth += 1;
            if depth > MAX_DEPTH {
                return Err(unsupported(format!("trees deeper than {MAX_DEPTH}")));
            }
            level = next;
        }
    }

    /// The weights of leaves by the attributes `<prefix>_nodeids` and so on, over `columns`.
    pub fn leaves(&self, call: &Call, names: [&'static str; 4], columns: usize) -> Result<Leaves> {
        let ints = |name| call.ints(name)?.ok_or_else(|| invalid(format!("`{name}` is missing")));
        let [ids, nodes, trees, weights] = names;
        let (ids, nodes, trees) = (ints(ids)?, ints(nodes)?, ints(trees)?);
        let weights = call.floats(weights)?.unwrap_or_default();
        if [nodes.len(), trees.len(), weights.len()] != [ids.len(); 3] {
            return Err(invalid("lists of leaf attributes differ in length"));
        }
        let size = self.tests.len().checked_mul(columns).filter(|n| *n <= MAX_WEIGHTS);
        let size = size.ok_or_else(|| unsupported("that many leaf weights"))?;
        let mut table = vec![0f32; size];
        for (n, id) in ids.iter().enumerate() {
            let at = self.position.get(&(trees[n], nodes[n]));
            let at = at.ok_or_else(|| invalid(format!("no node {} to weigh", nodes[n])))?;
            let column = usize::try_from(*id).ok().filter(|c| *c < columns);
            table[at * columns + column.ok_or_else(|| invalid(format!("target {id}")))?] +=
                weights[n];
        }
        Ok(Leaves { table, columns })
    }

    /// Number of trees.
    pub fn trees(&self) -> usize {
        self.roots.len()
    }
}

impl Leaves {
    /// The weight of a leaf in a column.
    pub fn weight(&self, leaf: usize, column: usize) -> f32 {
        self.table[leaf * self.columns + column]
    }

    /// Returns true if no weight is negative.
    pub fn all_positive(&self) -> bool {
        self.table.iter().all(|w| *w >= 0.0)
    }
}

fn test_of(mode: &str) -> Result<Test> {
    Ok(match mode {
        "LEAF" => Test::Leaf,
        "BRANCH_LEQ" => Test::Compare(Binary::LessEqual),
        "BRANCH_LT" => Test::Compare(Binary::Less),
        "BRANCH_GTE" => Test::Compare(Binary::GreaterEqual),
        "BRANCH_GT" => Test::Compare(Binary::Greater),
        "BRANCH_EQ" => Test::Compare(Binary::Equal),
        "BRANCH_NEQ" => Test::Compare(Binary::NotEqual),
        other => return Err(unsupported(format!("node mode `{other}`"))),
    })
}
