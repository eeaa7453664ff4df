//! Walks over nodes: operands, nested bodies and dimensions, to read and to replace.

use reflex_tir::Expr;

use crate::{Binding, Body, LeafExpr, Node, Op, Value};

/// Calls `$f` on each dimension that a node mentions, shared or mutable.
macro_rules! node_dims {
    ($node:expr, $f:expr, $dims:ident, $iter:ident) => {
        match $node {
            Node::Op { op, .. } => op.$dims($f),
            Node::CallTir { scalars: dims, .. }
            | Node::CallPacked { ints: dims, .. }
            | Node::MatchShape { dims, .. }
            | Node::Leaf(LeafExpr::Shape(dims)) => dims.$iter().for_each($f),
            Node::Leaf(LeafExpr::Int(e)) => $f(e),
            Node::Const(_)
            | Node::Leaf(_)
            | Node::CallFunc { .. }
            | Node::If { .. }
            | Node::Loop(_)
            | Node::Tuple(_)
            | Node::TupleGet(..)
            | Node::Data { .. }
            | Node::MatchCast(_) => {}
        }
    };
}

/// Calls `$f` on each dimension among an operator's attributes, shared or mutable.
macro_rules! op_dims {
    ($op:expr, $f:expr, $iter:ident) => {
        match $op {
            Op::Reshape(dims) | Op::Broadcast(dims) | Op::Dims { values: dims, .. } => {
                dims.$iter().for_each($f);
            }
            Op::Slice { begin, shape: extent, .. } => begin.$iter().chain(extent).for_each($f),
            Op::Pad { before, after, .. } => before.$iter().chain(after).for_each($f),
            Op::Resize(attrs) => attrs.shape.$iter().for_each($f),
            Op::TopK { k, .. } => $f(k),
            Op::Registered(op) => {
                op.results.$iter().for_each(|(_, shape)| shape.$iter().for_each(&mut *$f));
            }
            Op::Iota { count } => $f(count),
            Op::Unary(_)
            | Op::Binary(_)
            | Op::Where
            | Op::Cast(_)
            | Op::Reduce { .. }
            | Op::ArgReduce { .. }
            | Op::Bitcast(_)
            | Op::Scan { .. }
            | Op::MatMul
            | Op::MatMulInteger
            | Op::MatMulNBits(_)
            | Op::ConvInteger(_)
            | Op::Conv(_)
            | Op::ConvTranspose { .. }
            | Op::Pool(_)
            | Op::Softmax { .. }
            | Op::LayerNorm { .. }
            | Op::Transpose(_)
            | Op::Concat { .. }
            | Op::Gather { .. }
            | Op::Scatter { .. }
            | Op::Rnn(_) => {}
        }
    };
}

impl Node {
    /// Calls `f` for every value that the node itself reads; nested bodies are not entered.
    pub fn operands(&self, f: &mut dyn FnMut(Value)) {
        match self {
            Node::Op { args, .. }
            | Node::CallTir { args, .. }
            | Node::CallFunc { args, .. }
            | Node::CallPacked { args, .. }
            | Node::Data { args, .. }
            | Node::Tuple(args) => args.iter().copied().for_each(f),
            Node::Const(_) | Node::Leaf(_) => {}
            Node::If { cond, .. } => f(*cond),
            Node::Loop(l) => {
                l.max_trips.into_iter().chain(l.cond).for_each(&mut *f);
                l.init.iter().copied().for_each(f);
            }
            Node::TupleGet(value, _) | Node::MatchCast(value) => f(*value),
            Node::MatchShape { value, .. } => f(*value),
        }
    }

    /// The values that the node itself reads, to be replaced.
    pub fn operands_mut(&mut self, f: &mut dyn FnMut(&mut Value)) {
        match self {
            Node::Op { args, .. }
            | Node::CallTir { args, .. }
            | Node::CallFunc { args, .. }
            | Node::CallPacked { args, .. }
            | Node::Data { args, .. }
            | Node::Tuple(args) => args.iter_mut().for_each(f),
            Node::Const(_) | Node::Leaf(_) => {}
            Node::If { cond, .. } => f(cond),
            Node::Loop(l) => {
                l.max_trips.iter_mut().chain(&mut l.cond).for_each(&mut *f);
                l.init.iter_mut().for_each(f);
            }
            Node::TupleGet(value, _) | Node::MatchCast(value) => f(value),
            Node::MatchShape { value, .. } => f(value),
        }
    }

    /// The nested bodies.
    pub fn bodies(&self) -> Vec<&Body> {
        match self {
            Node::If { then, otherwise, .. } => vec![then, otherwise],
            Node::Loop(l) => vec![&l.body],
            _ => vec![],
        }
    }

    /// The nested bodies.
    pub fn bodies_mut(&mut self) -> Vec<&mut Body> {
        match self {
            Node::If { then, otherwise, .. } => vec![then, otherwise],
            Node::Loop(l) => vec![&mut l.body],
            _ => vec![],
        }
    }

    /// Calls `f` for every dimension that the node itself mentions, types of outputs not included.
    pub fn dims(&self, f: &mut dyn FnMut(&Expr)) {
        node_dims!(self, f, dims, iter);
    }

    /// The dimensions that the node itself mentions, to be replaced.
    pub fn dims_mut(&mut self, f: &mut dyn FnMut(&mut Expr)) {
        node_dims!(self, f, dims_mut, iter_mut);
    }

    /// Returns true if the node has effects besides its outputs: checks, and calls of packed
    /// functions.
    pub fn has_effect(&self) -> bool {
        match self {
            Node::CallPacked { .. } | Node::MatchCast(_) | Node::MatchShape { .. } => true,
            Node::CallFunc { .. } => true,
            Node::If { .. } | Node::Loop(_) => {
                self.bodies().iter().any(|b| b.bindings.iter().any(|b| b.node.has_effect()))
            }
            Node::Op { .. }
            | Node::Const(_)
            | Node::Leaf(_)
            | Node::CallTir { .. }
            | Node::Tuple(_)
            | Node::TupleGet(..)
            | Node::Data { .. } => false,
        }
    }
}

impl Op {
    /// Calls `f` for every dimension among the attributes.
    pub fn dims(&self, f: &mut dyn FnMut(&Expr)) {
        op_dims!(self, f, iter);
    }

    /// The dimensions among the attributes, to be replaced.
    pub fn dims_mut(&mut self, f: &mut dyn FnMut(&mut Expr)) {
        op_dims!(self, f, iter_mut);
    }
}

impl Body {
    /// Calls `f` for every value read anywhere in the body, nested bodies and results included.
    pub fn uses(&self, f: &mut dyn FnMut(Value)) {
        for binding in &self.bindings {
            binding.uses(f);
        }
        self.results.iter().copied().for_each(f);
    }

    /// Every value read anywhere in the body, to be replaced.
    pub fn uses_mut(&mut self, f: &mut dyn FnMut(&mut Value)) {
        for binding in &mut self.bindings {
            binding.node.operands_mut(f);
            for body in binding.node.bodies_mut() {
                body.uses_mut(f);
            }
        }
        self.results.iter_mut().for_each(f);
    }

    /// Calls `f` for every binding, those of nested bodies after the one that holds them.
    pub fn walk<'a>(&'a self, f: &mut dyn FnMut(&'a Binding)) {
        for binding in &self.bindings {
            f(binding);
            for body in binding.node.bodies() {
                body.walk(f);
            }
        }
    }
}

impl Binding {
    /// Calls `f` for every value that the binding reads, in nested bodies too (where the
    /// body's own values are among them).
    pub fn uses(&self, f: &mut dyn FnMut(Value)) {
        self.node.operands(f);
        for body in self.node.bodies() {
            body.uses(f);
        }
    }
}
