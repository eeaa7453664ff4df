//! Random graphs with symbolic dims, convolutions, branches and loops.
//!
//! Every value has shape `[n, 4, 6]` or is brought back to it, so any value can feed any operator;
//! fusion then sees chains, diamonds, expansions, reductions and convolutions in all orders, inside
//! of bodies and across them. No operator enlarges what its operands differ by much, so that results
//! of the evaluator and of kernels stay near each other however long the graph is.

use arbitrary::{Arbitrary, Result, Unstructured};
use reflex_graph::builder::FuncBuilder;
use reflex_graph::{
    Binary, ConvAttrs, FuncData, GatherKind, Literal, Loop, Module, Node, Op, OutOfRange,
    ReduceKind, TensorType, Unary, Value, print,
};
use reflex_tir::{DType, Expr};

use crate::harness::{self, f32s, i64s};

/// Rows and columns of every value.
const SIDES: [i64; 2] = [4, 6];
/// Bodies in bodies, at most.
const DEPTH: usize = 2;
/// Most iterations of a loop.
const TRIPS: i64 = 3;

/// A function `main` of two tensors, a condition and a number of iterations, and arguments of it.
#[derive(Debug)]
pub struct GraphCase {
    /// With `main` alone.
    pub module: Module,
    /// For `main`.
    pub args: Vec<Literal>,
    /// The same with one row more.
    pub longer: Vec<Literal>,
    /// Number of branches, and of loops.
    pub bodies: [usize; 2],
}

impl<'a> Arbitrary<'a> for GraphCase {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<GraphCase> {
        let n = *u.choose(&[1, 2, 3, 5, 16])?;
        let (flag, trips, seed) =
            (u.arbitrary::<bool>()?, u.int_in_range(0..=TRIPS)?, u.int_in_range(1..=1000)?);
        let args = |n: i64| {
            let tensor = |seed| f32s(&[n, SIDES[0], SIDES[1]], seed);
            let flag = harness::tensor(DType::BOOL, &[], vec![u8::from(flag)]);
            vec![tensor(seed), tensor(seed + 1), flag, i64s(&[], &[trips])]
        };
        let (args, longer) = (args(n), args(n + 1));
        let mut module = Module::default();
        let bodies = Generator::new(u, &mut module).function()?;
        Ok(GraphCase { module, args, longer, bodies })
    }
}

struct Generator<'g, 'a> {
    u: &'g mut Unstructured<'a>,
    b: FuncBuilder<'g>,
    n: Expr,
    trips: Option<Value>,
    bodies: [usize; 2],
}

/// The values that a body can use.
#[derive(Clone)]
struct Scope {
    tensors: Vec<Value>,
    conditions: Vec<Value>,
    depth: usize,
}

impl<'g, 'a> Generator<'g, 'a> {
    fn new(u: &'g mut Unstructured<'a>, module: &'g mut Module) -> Self {
        let mut b = FuncBuilder::new(module, "main");
        let n = Expr::var(b.sym("n"));
        Generator { u, b, n, trips: None, bodies: [0; 2] }
    }

    fn function(mut self) -> Result<[usize; 2]> {
        let ty = self.ty();
        let tensors = ["x", "y"].map(|name| self.b.param(name, ty.clone()));
        let flag = self.b.param("flag", TensorType::new(DType::BOOL, vec![]));
        self.trips = Some(self.b.param("trips", TensorType::new(DType::I64, vec![])));
        let mut scope = Scope { tensors: tensors.to_vec(), conditions: vec![flag], depth: DEPTH };
        let steps = self.u.int_in_range(3..=16)?;
        self.steps(&mut scope, steps)?;
        let more = self.u.int_in_range(0..=2)?;
        let results = self.results(&scope, 1 + more)?;
        let names = (0..results.len()).map(|n| format!("r{n}")).collect();
        self.b.finish(results, names);
        Ok(self.bodies)
    }

    fn shape(&self) -> Vec<Expr> {
        vec![self.n.clone(), SIDES[0].into(), SIDES[1].into()]
    }

    fn ty(&self) -> TensorType {
        TensorType::new(DType::F32, self.shape())
    }

    fn op(&mut self, op: Op, args: &[Value]) -> Value {
        self.b.emit1(op, args).expect("the generator makes operators of fitting operands")
    }

    /// The newest value, and others.
    fn results(&mut self, scope: &Scope, count: usize) -> Result<Vec<Value>> {
        let mut results = scope.tensors[scope.tensors.len() - 1..].to_vec();
        for _ in 1..count {
            results.push(*self.u.choose(&scope.tensors)?);
        }
        Ok(results)
    }

    fn steps(&mut self, scope: &mut Scope, count: usize) -> Result<()> {
        for _ in 0..count {
            let values = self.step(scope)?;
            scope.tensors.extend(values);
        }
        Ok(())
    }

    fn step(&mut self, scope: &Scope) -> Result<Vec<Value>> {
        // Recent values more often: chains make groups.
        let recent = &scope.tensors[scope.tensors.len().saturating_sub(4)..];
        let (x, y) = (*self.u.choose(recent)?, *self.u.choose(&scope.tensors)?);
        let value = match self.u.int_in_range(0..=16)? {
            0 => {
                let f = *self.u.choose(&[Unary::Tanh, Unary::Sigmoid, Unary::Erf])?;
                self.op(Op::Unary(f), &[x])
            }
            1 => {
                let f = *self.u.choose(&[Unary::Neg, Unary::Abs])?;
                self.op(Op::Unary(f), &[x])
            }
            2 => {
                let f = *self.u.choose(&[Binary::Max, Binary::Min])?;
                self.op(Op::Binary(f), &[x, y])
            }
            3 | 4 => {
                let f = *self.u.choose(&[Binary::Add, Binary::Sub])?;
                self.halved(f, x, y)
            }
            5 => self.reduced(x, y)?,
            6 => {
                let t = self.op(Op::Transpose(vec![0, 2, 1]), &[x]);
                let t = self.op(Op::Unary(Unary::Neg), &[t]);
                self.op(Op::Reshape(self.shape()), &[t])
            }
            7 => self.product(x)?,
            8 => {
                let [left, right] = [(0, x), (3, y)].map(|(at, of)| {
                    let begin = vec![Expr::i64(0), Expr::i64(0), Expr::i64(at)];
                    let extent = vec![self.n.clone(), SIDES[0].into(), Expr::i64(SIDES[1] / 2)];
                    self.op(Op::Slice { begin, shape: extent, stride: vec![1; 3] }, &[of])
                });
                self.op(Op::Concat { axis: 2 }, &[right, left])
            }
            9 => {
                let at = self.b.constant(i64s(&[SIDES[0]], &[3, 0, -3, 0]));
                let out_of_range = *self.u.choose(&[OutOfRange::Raise, OutOfRange::Clamp])?;
                self.op(Op::Gather { kind: GatherKind::Axis(1), out_of_range }, &[x, at])
            }
            10 => self.window(x, y)?,
            11 => self.flat(x)?,
            12 | 13 => self.convolution(x, y)?,
            14 | 15 if scope.depth > 0 => return self.branch(scope),
            16 if scope.depth > 0 => return self.looped(scope),
            _ => self.halved(Binary::Add, x, y),
        };
        Ok(vec![value])
    }

    /// Half of a sum or difference.
    fn halved(&mut self, f: Binary, x: Value, y: Value) -> Value {
        let half = self.b.constant(Literal::from_f32(vec![], &[0.5]));
        let both = self.op(Op::Binary(f), &[x, y]);
        self.op(Op::Binary(Binary::Mul), &[both, half])
    }

    /// The difference between `y` and a reduction of `x`, which broadcasts to the width of `y`.
    fn reduced(&mut self, x: Value, y: Value) -> Result<Value> {
        let kind = *self.u.choose(&[ReduceKind::Mean, ReduceKind::Max])?;
        let axes = self.u.choose(&[vec![0], vec![1], vec![2], vec![1, 2]])?.clone();
        let s = self.op(Op::Reduce { kind, axes, keep_dims: true }, &[x]);
        let s = self.op(Op::Unary(Unary::Tanh), &[s]);
        Ok(self.halved(Binary::Sub, y, s))
    }

    fn product(&mut self, x: Value) -> Result<Value> {
        let side = SIDES[1];
        let w = self.weights(&[side; 2], side)?;
        Ok(self.op(Op::MatMul, &[x, w]))
    }

    /// A constant by which sums of so many terms are no larger than each.
    fn weights(&mut self, shape: &[i64], terms: i64) -> Result<Value> {
        let noise = f32s(shape, self.u.int_in_range(0..=1000)?);
        let floats =
            noise.bytes().as_chunks().0.iter().map(|c| f32::from_le_bytes(*c) / terms as f32);
        let w = Literal::from_f32(shape.to_vec(), &floats.collect::<Vec<_>>());
        Ok(self.b.constant(w))
    }

    /// As many rows as there were, of twice as many.
    fn window(&mut self, x: Value, y: Value) -> Result<Value> {
        let both = self.op(Op::Concat { axis: 0 }, &[x, y]);
        let (from, step) = match self.u.int_in_range(0..=2)? {
            0 => (Expr::i64(0), 1),
            1 => (self.n.clone(), 1),
            _ => (self.n.clone() * 2 - 1, -1),
        };
        let begin = vec![from, Expr::i64(0), Expr::i64(0)];
        Ok(self.op(Op::Slice { begin, shape: self.shape(), stride: vec![step, 1, 1] }, &[both]))
    }

    /// Something about rows of a matrix.
    fn flat(&mut self, x: Value) -> Result<Value> {
        let rows = self.op(Op::Reshape(vec![self.n.clone() * SIDES[0], SIDES[1].into()]), &[x]);
        let kind = *self.u.choose(&[ReduceKind::Mean, ReduceKind::Max])?;
        let axes = vec![self.u.int_in_range(0..=1)?];
        let s = self.op(Op::Reduce { kind, axes, keep_dims: true }, &[rows]);
        let rows = self.halved(Binary::Sub, rows, s);
        Ok(self.op(Op::Reshape(self.shape()), &[rows]))
    }

    /// The rows of both operands are feature maps, some of a position for each lane of a vector. They are convolved to
    /// other channels and back; or from them goes what a mean over all positions is, taken between the two. The
    /// first half is the result.
    fn convolution(&mut self, x: Value, y: Value) -> Result<Value> {
        let both = self.op(Op::Concat { axis: 0 }, &[x, y]);
        let (n, known) = (self.n.clone(), Expr::i64);
        let (images, from, sides) = match self.u.int_in_range(0..=8)? {
            0 => (n * 2, 1, [4, 6].map(known)),
            1 => (n, 3, [4, 4].map(known)),
            2 => (n, 3, [1, 16].map(known)),
            3 => (n, 6, [2, 4].map(known)),
            4 => (n * 4, 3, [4, 1].map(known)),
            5 => (n * 2, 4, [2, 3].map(known)),
            6 => (n * 2, 24, [1, 1].map(known)),
            7 => (known(1), 1, [n * 8, known(6)]),
            _ => (known(1), 1, [known(16), n * 3]),
        };
        let groups = if self.u.ratio(1, 4)? { from } else { 1 };
        let to = match groups {
            1 => self.u.int_in_range(1..=40)?,
            _ => from * self.u.int_in_range(1..=3)?,
        };
        let mut pair =
            |most: i64| Ok([self.u.int_in_range(1..=most)?, self.u.int_in_range(1..=most)?]);
        let (window, dilations) = (pair(3)?, pair(2)?);
        let strides = if self.u.ratio(1, 3)? { [2, 2] } else { [1, 1] };
        let [rows, columns] = sides;
        let maps = self.op(Op::Reshape(vec![images, from.into(), rows, columns]), &[both]);
        let shape = [to, from / groups, window[0], window[1]];
        let wide = self.convolved(maps, shape, strides, dilations, groups)?;
        let mut wide = self.op(Op::Unary(Unary::Tanh), &[wide]);
        let of_mean = strides != [1, 1] || self.u.ratio(1, 3)?;
        if of_mean {
            let (kind, axes) = (ReduceKind::Mean, vec![2, 3]);
            wide = self.op(Op::Reduce { kind, axes, keep_dims: true }, &[wide]);
        }
        let mut back = self.convolved(wide, [from, to, 1, 1], [1; 2], [1; 2], 1)?;
        if of_mean {
            back = self.halved(Binary::Sub, maps, back);
        }
        let twice = vec![self.n.clone() * 2, SIDES[0].into(), SIDES[1].into()];
        let both = self.op(Op::Reshape(twice), &[back]);
        let shape = self.shape();
        Ok(self.op(Op::Slice { begin: vec![Expr::i64(0); 3], shape, stride: vec![1; 3] }, &[both]))
    }

    /// A convolution by constant weights of a shape, with as many positions as before if strides are 1.
    fn convolved(
        &mut self,
        x: Value,
        shape: [i64; 4],
        strides: [i64; 2],
        dilations: [i64; 2],
        groups: i64,
    ) -> Result<Value> {
        let around = [0, 1].map(|axis| dilations[axis] * (shape[2 + axis] - 1));
        let attrs = ConvAttrs {
            strides: strides.to_vec(),
            pads_begin: around.map(|zeros| zeros / 2).to_vec(),
            pads_end: around.map(|zeros| zeros - zeros / 2).to_vec(),
            dilations: dilations.to_vec(),
            groups,
        };
        let w = self.weights(&shape, shape[1..].iter().product())?;
        Ok(self.op(Op::Conv(attrs), &[x, w]))
    }

    fn branch(&mut self, scope: &Scope) -> Result<Vec<Value>> {
        self.bodies[0] += 1;
        let cond = *self.u.choose(&scope.conditions)?;
        let count = self.u.int_in_range(1..=2)?;
        let mut body = || {
            let mut inner = Scope { depth: scope.depth - 1, ..scope.clone() };
            self.b.open();
            let steps = self.u.int_in_range(0..=4)?;
            self.steps(&mut inner, steps)?;
            let results = self.results(&inner, count)?;
            Ok(self.b.close(results))
        };
        let (then, otherwise) = (body()?, body()?);
        let types = vec![self.ty(); count];
        Ok(self.b.bind(Node::If { cond, then, otherwise }, types))
    }

    fn looped(&mut self, scope: &Scope) -> Result<Vec<Value>> {
        self.bodies[1] += 1;
        let ty = self.ty();
        let init = (0..self.u.int_in_range(1..=2)?)
            .map(|_| Ok(*self.u.choose(&scope.tensors)?))
            .collect::<Result<Vec<Value>>>()?;
        let cond =
            if self.u.arbitrary()? { Some(*self.u.choose(&scope.conditions)?) } else { None };
        let iter = self.b.body_param("i", TensorType::new(DType::I64, vec![]));
        let cond_in = self.b.body_param("c", TensorType::new(DType::BOOL, vec![]));
        let carried: Vec<Value> = init.iter().map(|_| self.b.body_param("s", ty.clone())).collect();
        let mut inner = Scope { depth: scope.depth - 1, ..scope.clone() };
        inner.tensors.extend(&carried);
        self.b.open();
        let early = self.b.constant(i64s(&[], &[1]));
        let early = self.op(Op::Binary(Binary::Less), &[iter, early]);
        inner.conditions.push(early);
        let steps = self.u.int_in_range(1..=4)?;
        self.steps(&mut inner, steps)?;
        let mut results = vec![if self.u.ratio(2, 3)? { cond_in } else { early }];
        results.extend(self.results(&inner, init.len())?);
        let body = self.b.close(results);
        let types = vec![ty; init.len()];
        let max_trips = self.trips;
        let node = Loop { max_trips, cond, init, iter, cond_in, carried, body };
        Ok(self.b.bind(Node::Loop(Box::new(node)), types))
    }
}

/// Prints the graph when what is asserted of it does not hold.
struct Shown<'a>(&'a GraphCase);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}\n{:?}", print::module(&self.0.module), self.0.args);
        }
    }
}

/// A compiled graph gives the results of the graph evaluator; specialised to the shapes of the
/// arguments, those of the general program bit for bit, and other shapes are refused.
pub fn graphs(case: &GraphCase) {
    let _shown = Shown(case);
    harness::agree(&case.module, &case.args);
    let mut bound = case.module.clone();
    let shapes: Vec<&[i64]> = case.args.iter().map(Literal::shape).collect();
    for func in bound.funcs.values_mut() {
        let FuncData::Graph(func) = func else { continue };
        func.bind_symbolic_vars(&func.infer_symbolic_var_map(&shapes));
    }
    let results = |module: &Module| harness::run(module, &case.args).expect("it ran before");
    let (general, special) = (results(&case.module), results(&bound));
    assert_eq!(general.len(), special.len());
    for (n, (general, special)) in general.iter().zip(&special).enumerate() {
        assert_eq!(general.shape(), special.shape(), "result {n}");
        assert_eq!(general.bytes(), special.bytes(), "result {n}");
    }
    let refused = harness::run(&bound, &case.longer).expect_err("there is one row more");
    assert!(refused.contains("mismatch"), "{refused}");
}
