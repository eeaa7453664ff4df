//! Tree ensembles. Where there are few tests, all of them are made and each chooses between what
//! its two sides give ([`super::choices`]): no row waits for an address. Otherwise every row of the
//! input walks all trees at once, one level a step, over tables of node attributes; a leaf is its
//! own successor, so that short paths wait at their end.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use reflex_graph::{Binary, GatherKind, Literal, Op, ReduceKind, Unary};
use reflex_tir::{DType, Expr};

use super::choices::Choices;
use crate::call::Call;
use crate::error::{Result, invalid, unsupported};
use crate::import::Cx;
use crate::value::Tensor;

/// Deeper trees are refused: each level is a few kernels.
const MAX_DEPTH: usize = 64;
/// Twice a node's number has 32 bits.
const MAX_NODES: usize = 1 << 30;
/// Most elements of the table of leaf weights.
const MAX_WEIGHTS: usize = 1 << 26;

/// Trees as tables over all nodes.
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

/// What a node does with its feature.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Test {
    Leaf,
    Compare(Binary),
}

/// Weights of leaves, one column a target or class.
pub(super) struct Leaves {
    table: Vec<f32>,
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

    /// The weights of the leaves that the rows of `x` reach, over the trees, for some of the
    /// columns: `[rows, columns]`.
    pub fn scores(
        &self,
        cx: &mut Cx,
        x: &Tensor,
        (leaves, columns): (&Leaves, Range<usize>),
        kind: ReduceKind,
    ) -> Result<Tensor> {
        let x = self.features_of(cx, x)?;
        // A feature of a row of unknown width is taken by a checked index.
        let width = x.shape()[1].as_int();
        let choices = width.and_then(|_| Choices::of(self, leaves, columns.clone()));
        if let Some(choices) = choices {
            return choices.scores(cx, self, &x, kind);
        }
        let reached = self.walk(cx, &x)?;
        let scores = leaves.reduced(cx, &reached, kind)?;
        let count = Expr::i64(columns.len() as i64);
        cx.slice(&scores, 1, &Expr::i64(columns.start as i64), &count)
    }

    /// The rows as numbers that thresholds are compared with; an error where they do not fit.
    fn features_of(&self, cx: &mut Cx, x: &Tensor) -> Result<Tensor> {
        if x.rank() != 2 {
            return Err(invalid(format!("rows of features expected, not {}", x.ty)));
        }
        let dtype = if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        let x = cx.cast(x, dtype)?;
        let width = x.shape()[1].as_int();
        let out_of_range = |(f, test): (&i64, &Test)| {
            *test != Test::Leaf && width.is_some_and(|w| !(0..w).contains(f))
        };
        if self.features.iter().zip(&self.tests).any(out_of_range) {
            return Err(invalid("a feature that the input does not have"));
        }
        Ok(x)
    }

    /// The leaves that the rows of `x` reach, `[rows, trees]`.
    fn walk(&self, cx: &mut Cx, x: &Tensor) -> Result<Tensor> {
        let trees = self.roots.len() as i64;
        let shape = [x.shape()[0].clone(), Expr::i64(trees)];
        if self.tests.len() > MAX_NODES {
            return Err(unsupported(format!("more than {MAX_NODES} nodes")));
        }
        let used = self.features.iter().zip(&self.tests);
        let used = used.map(|(f, test)| if *test == Test::Leaf { 0 } else { *f });
        let features = table(&used.collect::<Vec<_>>())?;
        // Where a node goes when its test fails, and when it passes.
        let successors = self.when_false.iter().zip(&self.when_true);
        let successors = table(&successors.flat_map(|(no, yes)| [*no, *yes]).collect::<Vec<_>>())?;
        let nodes = self.thresholds.len() as i64;
        let thresholds = Tensor::literal(Literal::from_f32(vec![nodes], &self.thresholds));
        let thresholds = cx.cast(&thresholds, x.dtype())?;
        let mut at = cx.broadcast(&table(&self.roots)?, &shape)?;
        for _ in 0..self.depth {
            let feature = cx.take(&features, &at, 0)?;
            let value = cx.op(Op::Gather(GatherKind::Elements(1)), &[x, &feature])?;
            let threshold = cx.take(&thresholds, &at, 0)?;
            let passed = self.passed(cx, &at, &value, &threshold)?;
            let passed = cx.cast(&passed, DType::I32)?;
            let twice = cx.binary(Binary::Add, &at, &at)?;
            let successor = cx.binary(Binary::Add, &twice, &passed)?;
            at = cx.take(&successors, &successor, 0)?;
        }
        Ok(at)
    }

    fn passed(&self, cx: &mut Cx, at: &Tensor, x: &Tensor, threshold: &Tensor) -> Result<Tensor> {
        let mut kinds: Vec<Binary> = vec![];
        for test in &self.tests {
            match test {
                Test::Compare(f) if !kinds.contains(f) => kinds.push(*f),
                _ => {}
            }
        }
        let Some((first, others)) = kinds.split_first() else {
            return Err(invalid("a level without tests"));
        };
        let mut passed = cx.binary(*first, x, threshold)?;
        for kind in others {
            let is: Vec<i64> =
                self.tests.iter().map(|t| i64::from(*t == Test::Compare(*kind))).collect();
            let of_kind = self.flag(cx, at, &is)?;
            let other = cx.binary(*kind, x, threshold)?;
            passed = cx.choose(&of_kind, &other, &passed)?;
        }
        if self.nan_true.iter().any(|f| *f != 0) {
            let (tracked, nan) = (self.flag(cx, at, &self.nan_true)?, cx.unary(Unary::IsNan, x)?);
            let missing = cx.binary(Binary::And, &tracked, &nan)?;
            passed = cx.binary(Binary::Or, &passed, &missing)?;
        }
        Ok(passed)
    }

    fn flag(&self, cx: &mut Cx, at: &Tensor, table: &[i64]) -> Result<Tensor> {
        let value = cx.take(&self::table(table)?, at, 0)?;
        let zero = cx.num(0.0, DType::I32)?;
        cx.binary(Binary::NotEqual, &value, &zero)
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

    /// The weights of the leaves `at`, over the trees, `[rows, columns]`.
    fn reduced(&self, cx: &mut Cx, at: &Tensor, kind: ReduceKind) -> Result<Tensor> {
        let nodes = (self.table.len() / self.columns) as i64;
        let table = Literal::from_f32(vec![nodes, self.columns as i64], &self.table);
        let weights = cx.take(&Tensor::literal(table), at, 0)?;
        cx.reduce(kind, &weights, &[1], false)
    }

    /// Whether no weight is negative.
    pub fn all_positive(&self) -> bool {
        self.table.iter().all(|w| *w >= 0.0)
    }
}

/// Numbers of nodes and features in 32 bits, which vectors hold twice as many of.
fn table(values: &[i64]) -> Result<Tensor> {
    let narrow = |v: &i64| {
        i32::try_from(*v).map_err(|_| unsupported("features by numbers of more than 32 bits"))
    };
    let values = values.iter().map(narrow).collect::<Result<Vec<i32>>>()?;
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let literal = Literal::new(DType::I32, vec![values.len() as i64], Arc::new(bytes));
    Ok(Tensor::literal(literal.expect("four bytes each")))
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
