//! Tree ensembles (TreeEnsembleRegressor, -Classifier and TreeEnsemble) as tables over all nodes.
//!
//! Decision: docs/decisions/0032-tree-ensembles.md

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use reflex_graph::{Binary, Literal};
use reflex_tir::DType;

use crate::call::Call;
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::value::{Tensor, encode_float};

/// Deeper trees are refused.
const MAX_DEPTH: usize = 1 << 12;
/// Most elements of the table of leaf weights.
const MAX_WEIGHTS: usize = 1 << 25;

/// Trees as tables over all nodes; a leaf is its own successor.
pub(super) struct Ensemble {
    position: HashMap<(i64, i64), usize>,
    pub features: Vec<i64>,
    pub thresholds: Vec<f64>,
    /// The type that thresholds are given in.
    pub dtype: DType,
    pub tests: Vec<Test>,
    /// The sets of membership tests, one after another.
    pub members: Vec<f64>,
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
    /// Equal to one of a range of the ensemble's members.
    Member {
        start: usize,
        end: usize,
    },
}

/// Weights of leaves, one column a target or class.
pub(super) struct Leaves {
    pub table: Vec<f64>,
    /// The type that weights are given in.
    pub dtype: DType,
    /// Columns of the table.
    pub columns: usize,
    /// Columns that some leaf has a weight for.
    pub weighed: Vec<bool>,
}

/// A constant of float elements.
pub(super) fn constant(dtype: DType, shape: Vec<i64>, values: &[f64]) -> Result<Tensor> {
    let bytes: Vec<u8> = match dtype {
        DType::F32 => values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect(),
        DType::F64 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        _ => {
            let encoded = values.iter().map(|v| encode_float(*v, dtype));
            let encoded = encoded.collect::<Option<Vec<_>>>();
            encoded.ok_or_else(|| unsupported(format!("numbers of type {dtype}")))?.concat()
        }
    };
    let literal = Literal::new(dtype, shape, Arc::new(bytes));
    Ok(Tensor::literal(literal.ok_or_else(|| invalid("a shape of another size"))?))
}

/// Numbers from a list attribute, or from the tensor attribute that newer models have in its place.
pub(super) fn doubles(
    cx: &mut ImportContext,
    call: &Call,
    list: &'static str,
    tensor: &'static str,
) -> Result<Option<(Vec<f64>, DType)>> {
    let given = call.tensor(tensor, |proto| cx.literal(proto))?;
    match (call.floats(list)?.filter(|l| !l.is_empty()), given) {
        (Some(list), None) => Ok(Some((list.iter().map(|v| f64::from(*v)).collect(), DType::F32))),
        (None, Some(literal)) => floats_of(literal, tensor).map(Some),
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(invalid(format!("both `{list}` and `{tensor}`"))),
    }
}

fn floats_of(literal: Literal, name: &str) -> Result<(Vec<f64>, DType)> {
    let dtype = literal.dtype();
    let values = Tensor::literal(literal).as_floats();
    let values = values.ok_or_else(|| invalid(format!("`{name}` has type {dtype}")))?;
    Ok((values, dtype))
}

impl Ensemble {
    /// Reads the `nodes_` attributes.
    pub fn read(cx: &mut ImportContext, call: &Call) -> Result<Ensemble> {
        let ints = |name| call.ints(name)?.ok_or_else(|| invalid(format!("`{name}` is missing")));
        let (trees, ids) = (ints("nodes_treeids")?, ints("nodes_nodeids")?);
        let features = ints("nodes_featureids")?.to_vec();
        let thresholds = doubles(cx, call, "nodes_values", "nodes_values_as_tensor")?;
        let (thresholds, dtype) = thresholds.unwrap_or((vec![], DType::F32));
        let (yes, no) = (ints("nodes_truenodeids")?, ints("nodes_falsenodeids")?);
        let modes = call.texts("nodes_modes")?.unwrap_or_default();
        let nan_true = call.ints("nodes_missing_value_tracks_true")?.unwrap_or_default();
        call.ignore(&["nodes_hitrates", "nodes_hitrates_as_tensor"]);
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
                Test::Compare(_) | Test::Member { .. } => {
                    let key = (trees[at], next[at]);
                    let found = position.get(&key).map(|to| *to as i64);
                    found.ok_or_else(|| invalid(format!("tree {} has no node {}", key.0, key.1)))
                }
            });
            each.collect()
        };
        let (when_true, when_false) = (successors(yes)?, successors(no)?);
        // The root of a tree is its first node.
        let mut begun = HashSet::new();
        let roots = (0..count).filter(|at| begun.insert(trees[*at])).map(|at| at as i64).collect();
        let mut ensemble = Ensemble {
            position,
            features,
            thresholds,
            dtype,
            tests,
            members: vec![],
            when_true,
            when_false,
            nan_true: nan_true.to_vec(),
            roots,
            depth: 0,
        };
        ensemble.depth = ensemble.levels()?;
        Ok(ensemble)
    }

    /// Reads the attributes of TreeEnsemble: tests and leaves are numbered each on their own. The
    /// nodes of the result are the tests, then the leaves.
    pub fn read_trees(cx: &mut ImportContext, call: &Call) -> Result<(Ensemble, Leaves)> {
        let ints = |name| call.ints(name)?.ok_or_else(|| invalid(format!("`{name}` is missing")));
        let mut tensor = |name: &'static str| {
            let found = call.tensor(name, |proto| cx.literal(proto))?;
            found.ok_or_else(|| invalid(format!("`{name}` is missing")))
        };
        let (mut thresholds, dtype) = floats_of(tensor("nodes_splits")?, "nodes_splits")?;
        let (weights, weight_type) = floats_of(tensor("leaf_weights")?, "leaf_weights")?;
        let modes = tensor("nodes_modes")?;
        if modes.dtype() != DType::U8 || dtype != weight_type {
            let types = [modes.dtype(), dtype, weight_type];
            return Err(invalid(format!("modes, splits and weights of types {types:?}")));
        }
        let members = call.tensor("membership_values", |proto| cx.literal(proto))?;
        let members = members.map(|m| floats_of(m, "membership_values")).transpose()?;
        let members = members.map_or(vec![], |(values, _)| values);
        call.ignore(&["nodes_hitrates"]);
        let targets = call.int("n_targets", 1)?;
        let columns = usize::try_from(targets).ok().filter(|n| *n > 0);
        let columns = columns.ok_or_else(|| invalid(format!("{targets} targets")))?;
        let (mut features, yes, no) = (
            ints("nodes_featureids")?.to_vec(),
            ints("nodes_truenodeids")?,
            ints("nodes_falsenodeids")?,
        );
        let (yes_leaf, no_leaf) = (ints("nodes_trueleafs")?, ints("nodes_falseleafs")?);
        let mut nan_true =
            call.ints("nodes_missing_value_tracks_true")?.unwrap_or_default().to_vec();
        let (count, leaf_targets) = (features.len(), ints("leaf_targetids")?);
        let lengths = [yes.len(), no.len(), yes_leaf.len(), no_leaf.len(), thresholds.len()];
        let same = lengths.iter().all(|n| *n == count) && modes.count() == count;
        let leaves = leaf_targets.len();
        if !same || count == 0 || leaves != weights.len() || ![0, count].contains(&nan_true.len()) {
            return Err(invalid("lists of node attributes differ in length"));
        }
        let mut tests = modes_of(modes.bytes(), &members)?;
        let successors = |next: &[i64], leaf: &[i64]| -> Result<Vec<i64>> {
            let each = next.iter().zip(leaf).map(|(to, leaf)| {
                let (limit, start) = if *leaf != 0 { (leaves, count) } else { (count, 0) };
                let found = usize::try_from(*to).ok().filter(|to| *to < limit);
                found.map(|to| (start + to) as i64).ok_or_else(|| invalid(format!("no node {to}")))
            });
            let mut all = each.collect::<Result<Vec<i64>>>()?;
            all.extend((count..count + leaves).map(|at| at as i64));
            Ok(all)
        };
        let (when_true, when_false) = (successors(yes, yes_leaf)?, successors(no, no_leaf)?);
        let roots = ints("tree_roots")?.to_vec();
        if roots.is_empty() || roots.iter().any(|r| !(0..count as i64).contains(r)) {
            return Err(invalid("roots that are no nodes"));
        }
        let total = count + leaves;
        features.resize(total, 0);
        thresholds.resize(total, 0.0);
        tests.resize(total, Test::Leaf);
        if !nan_true.is_empty() {
            nan_true.resize(total, 0);
        }
        let size = total.checked_mul(columns).filter(|n| *n <= MAX_WEIGHTS);
        let size = size.ok_or_else(|| unsupported("that many leaf weights"))?;
        let (mut table, mut weighed) = (vec![0.0; size], vec![false; columns]);
        for (leaf, (target, weight)) in leaf_targets.iter().zip(weights).enumerate() {
            let column = usize::try_from(*target).ok().filter(|c| *c < columns);
            let column = column.ok_or_else(|| invalid(format!("target {target}")))?;
            table[(count + leaf) * columns + column] = weight;
            weighed[column] = true;
        }
        let mut ensemble = Ensemble {
            position: HashMap::new(),
            features,
            thresholds,
            dtype,
            tests,
            members,
            when_true,
            when_false,
            nan_true,
            roots,
            depth: 0,
        };
        ensemble.depth = ensemble.levels()?;
        Ok((ensemble, Leaves { table, dtype, columns, weighed }))
    }

    /// Levels below the roots; an error where a test has two parents.
    fn levels(&self) -> Result<usize> {
        let mut seen = vec![false; self.tests.len()];
        let mut level: Vec<usize> = self.roots.iter().map(|at| *at as usize).collect();
        let mut depth = 0;
        loop {
            let mut next = vec![];
            for at in level {
                let again = std::mem::replace(&mut seen[at], true);
                if again && self.tests[at] != Test::Leaf {
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

    /// The weights of leaves by attributes (ids of targets or classes, nodes, trees, weights and weights
    /// as a tensor), over `columns`.
    pub fn leaves(
        &self,
        cx: &mut ImportContext,
        call: &Call,
        names: [&'static str; 5],
        columns: usize,
    ) -> Result<Leaves> {
        let ints = |name| call.ints(name)?.ok_or_else(|| invalid(format!("`{name}` is missing")));
        let [ids, nodes, trees, weights, tensor] = names;
        let (ids, nodes, trees) = (ints(ids)?, ints(nodes)?, ints(trees)?);
        let weights = doubles(cx, call, weights, tensor)?;
        let (weights, dtype) = weights.unwrap_or((vec![], DType::F32));
        if [nodes.len(), trees.len(), weights.len()] != [ids.len(); 3] {
            return Err(invalid("lists of leaf attributes differ in length"));
        }
        let size = self.tests.len().checked_mul(columns).filter(|n| *n <= MAX_WEIGHTS);
        let size = size.ok_or_else(|| unsupported("that many leaf weights"))?;
        let (mut table, mut weighed) = (vec![0.0; size], vec![false; columns]);
        for (n, id) in ids.iter().enumerate() {
            let at = self.position.get(&(trees[n], nodes[n]));
            let at = at.ok_or_else(|| invalid(format!("no node {} to weigh", nodes[n])))?;
            let column = usize::try_from(*id).ok().filter(|c| *c < columns);
            let column = column.ok_or_else(|| invalid(format!("target {id}")))?;
            table[at * columns + column] += weights[n];
            weighed[column] = true;
        }
        Ok(Leaves { table, dtype, columns, weighed })
    }

    /// Number of trees.
    pub fn trees(&self) -> usize {
        self.roots.len()
    }
}

impl Leaves {
    /// The weight of a leaf in a column.
    pub fn weight(&self, leaf: usize, column: usize) -> f64 {
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

/// Tests from TreeEnsemble's codes. The sets of membership tests end with NaN each.
fn modes_of(codes: &[u8], members: &[f64]) -> Result<Vec<Test>> {
    let comparisons = [
        Binary::LessEqual,
        Binary::Less,
        Binary::GreaterEqual,
        Binary::Greater,
        Binary::Equal,
        Binary::NotEqual,
    ];
    let mut start = 0;
    let mut tests = vec![];
    for code in codes {
        tests.push(match comparisons.get(usize::from(*code)) {
            Some(comparison) => Test::Compare(*comparison),
            None if *code == 6 => {
                let rest = members.get(start..).unwrap_or_default();
                let size = rest.iter().position(|v| v.is_nan()).unwrap_or(rest.len());
                let set = Test::Member { start, end: start + size };
                start += size + 1;
                set
            }
            None => return Err(invalid(format!("node mode {code}"))),
        });
    }
    Ok(tests)
}
