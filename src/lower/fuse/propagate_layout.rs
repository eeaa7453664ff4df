//! Layout propagation: which tensors between convolutions have a blocked layout NCHWc.
//!
//! A tensor `[n, c, h, w]` that only operators without a stake in the layout touch is stored as
//! `[n, c / b, h, w, b]` (nChw16c in oneDNN): a vector then holds `b` channels of one position, so
//! convolutions, pools and sums run in whole vectors whatever the width of the feature map, and
//! nothing is copied to make windows contiguous. Blocks are whole vectors, or halves where channels fill no
//! whole ones. The conversion at the border is part of the kernels there: a convolution reads any layout, and one whose result
//! must be plain rearranges it as it stores.
//!
//! On a GPU a block is all channels, so the layout is NHWC, and convolutions whose operands tensor cores multiply alone have
//! a stake: their windows then are runs of channels, and tiles are filled 16 bytes at a time.
//!
//! Decisions: docs/decisions/0030-blocked-layout.md, docs/decisions/0103-integer-convolutions.md,
//! docs/decisions/0107-nhwc-and-tile-costs.md

use std::collections::{BTreeSet, HashMap, HashSet};

use reflex_graph::{Body, Const, ConvAttrs, Func, GatherKind, Node, Op, PadMode, PoolKind, Value};
use reflex_tir::{DType, Expr};

use crate::layout::LAYOUT_LANES;
use crate::optimize_for::{DeviceKind, OptimizeFor};
use crate::precision::Precision;
use crate::winograd::{winograd_phases_tile, winograd_tile};

/// Feature maps of fewer channels stay plain.
const MIN_CHANNELS: i64 = 16;
/// Channels of 16 bytes that a GPU loads at once.
const GPU_VECTOR: i64 = 8;

/// The options that layouts depend on.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    pub precision: Precision,
    pub optimize_for: OptimizeFor,
    pub device: DeviceKind,
    /// Whether a GPU rounds operands of float32 for its tensor cores.
    pub rounds: bool,
}

/// The layouts chosen for a body.
#[derive(Debug, Default)]
pub struct Layouts {
    values: HashMap<Value, i64>,
    sums: HashMap<usize, i64>,
}

impl Layouts {
    /// The block of a value that is stored in blocks.
    pub fn of(&self, value: Value) -> Option<i64> {
        self.values.get(&value).copied()
    }

    /// The block of the sums that the convolution at a binding computes.
    pub fn sums(&self, at: usize) -> Option<i64> {
        self.sums.get(&at).copied()
    }

    /// The values stored in blocks.
    pub fn values(&self) -> impl Iterator<Item = Value> + '_ {
        self.values.keys().copied()
    }
}

/// The part of an operator in layout propagation.
enum LayoutRole<'a> {
    /// A dense convolution: reads any layout and writes any.
    Dense,
    /// Channel by channel: the result has the layout of these operands.
    Carrier(Vec<Value>),
    /// Joins along the channels.
    Join(&'a [Value]),
}

/// Chooses the layouts of a body, some of whose feature maps are `rounded` to bfloat16.
pub fn choose(
    func: &Func,
    body: &Body,
    consts: &HashMap<Value, Const>,
    goal: Goal,
    rounded: &HashSet<Value>,
) -> Layouts {
    let mut cx = LayoutPass { func, body, consts, goal, rounded, blocks: vec![] };
    cx.blocks = cx.block_sizes();
    let mut layouts = Layouts::default();
    for &block in &cx.blocks {
        let mut values = cx.candidates(block);
        values.retain(|v, _| !layouts.values.contains_key(v));
        loop {
            let before = values.len();
            let kept = cx.kept(&values, block);
            values.retain(|v, _| kept.contains(v));
            if values.len() == before {
                break;
            }
        }
        layouts.values.extend(values.into_keys().map(|v| (v, block)));
    }
    if goal.device == DeviceKind::Gpu {
        // Sums are stored where results are.
        return layouts;
    }
    for (at, binding) in body.bindings.iter().enumerate() {
        let Node::Op { op, args } = &binding.node else { continue };
        let output = binding.outputs[0];
        let own = layouts.of(output);
        let block = own.or_else(|| cx.blocks.iter().copied().find(|b| cx.suits(output, *b)));
        if let Some(block) = block
            && cx.convolution(op, args)
            && cx.suits(output, block)
            && (own.is_some() || layouts.of(args[0]).is_some() || cx.takes_tiles(op, args, block))
        {
            layouts.sums.insert(at, block);
        }
    }
    layouts
}

struct LayoutPass<'a> {
    func: &'a Func,
    body: &'a Body,
    consts: &'a HashMap<Value, Const>,
    goal: Goal,
    rounded: &'a HashSet<Value>,
    /// Sizes of blocks, the largest first.
    blocks: Vec<i64>,
}

impl<'a> LayoutPass<'a> {
    fn shape(&self, value: Value) -> &'a [Expr] {
        self.func.values[value].ty.as_tensor().map_or(&[], |t| &t.shape)
    }

    /// The static number of channels of a feature map, or of a comparison of feature maps.
    fn channels(&self, value: Value) -> Option<i64> {
        let ty = self.func.values[value].ty.as_tensor()?;
        let integer = matches!(ty.dtype, DType::I8 | DType::U8 | DType::I32);
        let known = matches!(ty.dtype, DType::F32 | DType::BOOL) || ty.dtype.is_half() || integer;
        let element = known || self.rounded.contains(&value);
        let image = ty.shape.len() == 4 && element;
        image.then(|| ty.shape[1].as_int()).flatten()
    }

    /// Whether there is one position per channel: then both layouts are the same.
    fn is_vector(&self, value: Value) -> bool {
        self.shape(value).iter().skip(2).all(|d| d.as_int() == Some(1))
    }

    fn ops(&self) -> impl Iterator<Item = (usize, &'a Op, &'a [Value])> {
        let body = self.body;
        body.bindings.iter().enumerate().filter_map(|(at, b)| match &b.node {
            Node::Op { op, args } => Some((at, op, &args[..])),
            _ => None,
        })
    }

    /// Whole vectors, and halves too where a quarter of the convolutions or more have such channels.
    fn block_sizes(&self) -> Vec<i64> {
        if self.goal.device == DeviceKind::Gpu {
            let sums = self.ops().filter(|(_, op, args)| self.convolution(op, args));
            let channels = sums.filter_map(|(at, ..)| {
                let channels = self.channels(self.body.bindings[at].outputs[0])?;
                (channels % GPU_VECTOR == 0).then_some(channels)
            });
            return channels.collect::<BTreeSet<i64>>().into_iter().rev().collect();
        }
        let (mut whole, mut half) = (0, 0);
        for (at, op, args) in self.ops() {
            let output = self.body.bindings[at].outputs[0];
            if self.convolution(op, args) && !self.is_vector(output) {
                match self.channels(output) {
                    Some(c) if c % LAYOUT_LANES == 0 => whole += 1,
                    Some(c) if c % 8 == 0 => half += 1,
                    _ => {}
                }
            }
        }
        match (whole, half) {
            (0, 0) => vec![],
            (w, h) if h * 3 >= w => vec![LAYOUT_LANES, LAYOUT_LANES / 2],
            _ => vec![LAYOUT_LANES],
        }
    }

    /// Whether it is a convolution that blocked layouts suit: dense, or depthwise of floats; on a GPU, one of tensor
    /// cores.
    fn convolution(&self, op: &Op, args: &[Value]) -> bool {
        let suits = match op {
            Op::Conv(attrs) if self.goal.device == DeviceKind::Gpu => {
                let ty = self.func.values[args[0]].ty.as_tensor();
                let halves = ty.is_some_and(|ty| ty.dtype.is_half());
                attrs.groups == 1 && attrs.strides.len() == 2 && (halves || self.goal.rounds)
            }
            _ if self.goal.device == DeviceKind::Gpu => false,
            Op::Conv(attrs) => attrs.groups == 1 || self.depthwise(attrs, args),
            // Words of four channels do not cross blocks.
            Op::ConvInteger(attrs) => {
                let words = self.shape(args[1])[1].as_int().is_some_and(|c| c % 4 == 0);
                attrs.groups == 1 && attrs.strides.len() == 2 && words
            }
            _ => false,
        };
        suits && self.consts.contains_key(&args[1])
    }

    /// Whether Winograd pays; a feature map that is plain is then copied into blocks, or phases.
    fn takes_tiles(&self, op: &Op, args: &[Value], block: i64) -> bool {
        let Goal { precision, optimize_for: OptimizeFor::Speed, .. } = self.goal else {
            return false;
        };
        let Op::Conv(attrs) = op else { return false };
        let whole = self.channels(args[0]).is_some_and(|c| c % block == 0);
        let (x, w) = (self.func.symbolic_shape(args[0]), self.shape(args[1]));
        whole && winograd_tile(attrs, x, w, precision).is_some()
            || winograd_phases_tile(attrs, x, w, precision).is_some()
    }

    fn depthwise(&self, attrs: &ConvAttrs, args: &[Value]) -> bool {
        let w = self.shape(args[1]);
        self.channels(args[0]) == Some(attrs.groups)
            && w.first().and_then(Expr::as_int) == Some(attrs.groups)
    }

    fn part(
        &self,
        op: &'a Op,
        args: &'a [Value],
        output: Value,
        block: i64,
    ) -> Option<LayoutRole<'a>> {
        let spatial_only = |list: &[Expr]| list[..2].iter().all(|e| e.as_int() == Some(0));
        let alike = |v: &&Value| self.shape(**v) == self.shape(output);
        Some(match op {
            Op::Conv(attrs) if self.convolution(op, args) => match attrs.groups {
                1 => LayoutRole::Dense,
                _ => LayoutRole::Carrier(vec![args[0]]),
            },
            Op::ConvInteger(_) if self.convolution(op, args) => LayoutRole::Dense,
            // Codes in a table.
            Op::Gather { kind: GatherKind::Axis(0), .. }
                if self.shape(args[0]).len() == 1 && alike(&&args[1]) =>
            {
                LayoutRole::Carrier(vec![args[1]])
            }
            Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast(_) => {
                let wide = |v: &&Value| !self.is_vector(**v);
                let whole: Vec<Value> = args.iter().filter(wide).copied().collect();
                if whole.is_empty() || !whole.iter().all(|v| alike(&v)) {
                    return None;
                }
                LayoutRole::Carrier(whole)
            }
            Op::Pool(attrs) if !matches!(attrs.kind, PoolKind::Max { indices: true }) => {
                LayoutRole::Carrier(vec![args[0]])
            }
            Op::Resize(_) if self.shape(args[0])[..2] == self.shape(output)[..2] => {
                LayoutRole::Carrier(vec![args[0]])
            }
            Op::Pad { mode: PadMode::Constant, before, after }
                if spatial_only(before) && spatial_only(after) =>
            {
                LayoutRole::Carrier(vec![args[0]])
            }
            // Whole blocks of channels, or all of them.
            Op::Slice { begin, stride, .. }
                if begin[0].as_int() == Some(0)
                    && begin[1].as_int().is_some_and(|first| first % block == 0)
                    && stride[..2] == [1, 1]
                    && self.shape(args[0])[..1] == self.shape(output)[..1] =>
            {
                LayoutRole::Carrier(vec![args[0]])
            }
            Op::Concat { axis: 1 } => LayoutRole::Join(args),
            _ => return None,
        })
    }

    /// Whether the results of a convolution fill vectors with their channels.
    fn suits(&self, output: Value, block: i64) -> bool {
        let fills = |c: i64| match self.goal.device {
            DeviceKind::Cpu => c % block == 0,
            DeviceKind::Gpu => c == block,
        };
        self.channels(output).is_some_and(|c| fills(c) && c >= MIN_CHANNELS)
    }

    /// Results whose producers could write blocks and whose consumers could read them.
    fn candidates(&self, block: i64) -> HashMap<Value, usize> {
        let mut found = HashMap::new();
        for (at, op, args) in self.ops() {
            if let [output] = self.body.bindings[at].outputs[..]
                && self.suits(output, block)
                && !self.is_vector(output)
                && self.part(op, args, output, block).is_some()
            {
                found.insert(output, at);
            }
        }
        for result in &self.body.results {
            found.remove(result);
        }
        for binding in &self.body.bindings {
            for nested in binding.node.bodies() {
                nested.uses(&mut |v| {
                    found.remove(&v);
                });
            }
            let reads = match &binding.node {
                Node::Op { op, args } => self.reads_blocks(op, args, binding.outputs[0], block),
                _ => false,
            };
            if !reads {
                binding.node.operands(&mut |v| {
                    found.remove(&v);
                });
            }
        }
        found
    }

    fn reads_blocks(&self, op: &'a Op, args: &'a [Value], output: Value, block: i64) -> bool {
        match op {
            Op::Reduce { axes, .. } => axes.iter().all(|a| *a >= 2),
            Op::Concat { axis: 1 } => {
                let whole = |v: &Value| self.channels(*v).is_some_and(|c| c % block == 0);
                args.iter().all(whole)
            }
            // Few results leave lanes idle; long rows of plain feature maps do not.
            Op::Conv(_) | Op::ConvInteger(_)
                if !self.convolution(op, args)
                    || !self.blocks.iter().any(|block| self.suits(output, *block)) =>
            {
                false
            }
            _ => self.part(op, args, output, block).is_some(),
        }
    }

    /// Those of `values` that agree with their neighbours: only dense convolutions change the
    /// layout, every other operator has one for its operands and its result.
    fn kept(&self, values: &HashMap<Value, usize>, block: i64) -> HashSet<Value> {
        let blocked = |v: &Value| values.contains_key(v);
        let mut read_as_plain = HashSet::new();
        for (at, op, args) in self.ops() {
            let [output] = self.body.bindings[at].outputs[..] else { continue };
            let carried = match self.part(op, args, output, block) {
                Some(LayoutRole::Carrier(from)) => from,
                Some(LayoutRole::Join(parts)) => parts.to_vec(),
                Some(LayoutRole::Dense) | None => vec![],
            };
            if !blocked(&output) {
                read_as_plain.extend(carried);
            }
        }
        let stays = |(output, at): (&Value, &usize)| {
            let Node::Op { op, args } = &self.body.bindings[*at].node else { return None };
            let fits = match self.part(op, args, *output, block)? {
                LayoutRole::Dense => true,
                LayoutRole::Carrier(from) => from.iter().all(blocked),
                LayoutRole::Join(parts) => {
                    let whole = |v: &Value| self.channels(*v).is_some_and(|c| c % block == 0);
                    parts.iter().all(|v| blocked(v) && whole(v))
                }
            };
            (fits && !read_as_plain.contains(output)).then_some(*output)
        };
        values.iter().filter_map(stays).collect()
    }
}
