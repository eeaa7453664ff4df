//! The operator table: every operator of graph IR with its attributes.
//!
//! Importers desugar into this set. Attributes have the names of ONNX; integer attributes that may
//! be symbolic are [`Expr`]s over the function's dimensions.
//!
//! # How to add an operator
//!
//! [`Op`] is the first column of a table. Each further column is a `match` without a `_` arm, so a
//! new variant does not compile until every column has it (the parser excepted). In order:
//!
//! 1. **Attributes**: a variant of [`Op`] here, with its operands in the doc comment, and their
//!    number in [`Op::arity`]. If attributes hold dimensions, `op_dims!` in `visit.rs` lists them.
//! 2. **Shape inference**: a line in `infer.rs`, and a rule in the file of its family below `infer/`
//!    that checks the operand types and returns the output types.
//! 3. **Meaning**: a line in `eval/op.rs`, the reference implementation next to its family, and a
//!    test in `eval/tests.rs` against values worked out by hand or by NumPy.
//! 4. **Text**: a line in `print/op.rs`, under Relax's name if Relax has the operator with the same
//!    meaning, else as `R.reflex.<name>`. `script/` reads it back: `reflex_ops.rs` the latter, the
//!    file of its family the former. Names of attribute values are in `script/op_names.rs`. Add it
//!    to a text of `tests/filetests/relax`, which is printed and read back.
//! 5. **Legalisation**, in `reflex-lower`: the kernel in `legalize/`, the fusion kind and cost in
//!    `fuse/pattern.rs`, and cases in `tests/common/cases.rs`, which compare every tier and target
//!    with the reference evaluator.
//! 6. **Import**, in `reflex-onnx`: lines in `emit.rs` (does it round? is it cheap to fold?), and an
//!    entry in a table of `ops/` if an ONNX operator maps to it.
//!
//! Many ONNX operators need no variant here: they desugar into existing ones in step 6 alone.

use reflex_tir::{DType, Expr};

use crate::registered_op::RegisteredOp;

/// An operator. Operand lists are given as `(x, w, b?)`; `?` marks optional last ones.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Element by element: `(x)`.
    Unary(Unary),
    /// Element by element with NumPy broadcasting: `(a, b)`.
    Binary(Binary),
    /// `(cond, a, b)` with broadcasting.
    Where,
    /// `(x)` converted; float to int truncates and saturates, to bool is `!= 0`.
    Cast(DType),
    /// `(x)` over axes.
    Reduce {
        /// Combination.
        kind: ReduceKind,
        /// Sorted axes; empty reduces nothing.
        axes: Vec<usize>,
        /// Keep reduced axes with size 1.
        keep_dims: bool,
    },
    /// Index (int64) of the extreme along an axis: `(x)`.
    ArgReduce {
        /// Which extreme.
        kind: ArgReduceKind,
        /// Axis.
        axis: usize,
        /// Keep the axis with size 1.
        keep_dims: bool,
        /// The last of equal elements instead of the first.
        select_last: bool,
    },
    /// `(x)`: the same bits as another type of the same width; to bool it is `!= 0`.
    Bitcast(DType),
    /// Running sum or product along an axis: `(x)`.
    Scan {
        /// Combination.
        kind: ScanKind,
        /// Axis.
        axis: usize,
        /// Leave the element itself out.
        exclusive: bool,
        /// From the end.
        reverse: bool,
    },
    /// NumPy matrix multiplication with batch broadcasting: `(a, b)`.
    MatMul,
    /// [`Op::MatMul`] of 8-bit integers, each operand uint8 or int8, in int32 that wraps: `(a, b)`.
    MatMulInteger,
    /// `(x, codes, scales, zeros?)`: x `[.., k]` of float32 by weights of codes (ONNX Runtime's
    /// `MatMulNBits` whose `accuracy_level` is not that of float32). Every block of x is rounded to int8 by the
    /// scale that makes its greatest magnitude 127; its products with codes are summed in int32. Those sums, less
    /// the zero point times the sum of the block, scaled, are summed in float32 in order.
    ///
    /// Blocks of int16 have a greatest magnitude of 32767. Their sums in int32 are rounded to float32 where it has no bits for them.
    MatMulNBits(NBits),
    /// [`Op::Conv`] of 8-bit integers, each operand uint8 or int8, in int32 that wraps: `(x, w)`.
    ConvInteger(ConvAttrs),
    /// `(x, w, bias?)`: x `[n, c, spatial...]`, w `[o, c / groups, kernel...]`.
    Conv(ConvAttrs),
    /// `(x, w, bias?)`: w `[c, o / groups, kernel...]`.
    ConvTranspose {
        /// Geometry.
        conv: ConvAttrs,
        /// Added to the end of each output dimension.
        output_padding: Vec<i64>,
    },
    /// `(x)`: x `[n, c, spatial...]`. Max with `indices` has a second int64 output.
    Pool(PoolAttrs),
    /// `(x)`: softmax, or its logarithm, along one axis.
    Softmax {
        /// Axis.
        axis: usize,
        /// Logarithm of it.
        log: bool,
    },
    /// `(x, scale, bias?)`: normalises over the axes from `axis`.
    LayerNorm {
        /// First normalised axis.
        axis: usize,
        /// Added to the variance.
        epsilon: f64,
    },
    /// `(x)`: same elements in another shape.
    Reshape(Vec<Expr>),
    /// `(x)`: axis `i` of the result is axis `perm[i]`.
    Transpose(Vec<usize>),
    /// `(x)` broadcast to the shape.
    Broadcast(Vec<Expr>),
    /// `(x...)` joined along an axis.
    Concat {
        /// Axis.
        axis: usize,
    },
    /// `(x)`: per axis `begin`, number of elements, `stride` (may be negative).
    /// All in bounds.
    Slice {
        /// First index per axis.
        begin: Vec<Expr>,
        /// Result shape.
        shape: Vec<Expr>,
        /// Step per axis.
        stride: Vec<i64>,
    },
    /// `(x, value?)`: pads (or crops, when negative) each axis; `value` is a scalar tensor.
    Pad {
        /// Mode.
        mode: PadMode,
        /// Elements before, per axis.
        before: Vec<Expr>,
        /// Elements after, per axis.
        after: Vec<Expr>,
    },
    /// `(x, indices)`; negative indices count from the end. Indices are int32 or int64; along an axis of 256 elements
    /// also 8-bit integers, none of which is out of range.
    Gather {
        /// Indexing.
        kind: GatherKind,
        /// Indices that no element has.
        out_of_range: OutOfRange,
    },
    /// `(x, indices, updates)`; negative indices count from the end.
    Scatter {
        /// Indexing.
        kind: ScatterKind,
        /// Combination with what is there.
        reduce: ScatterReduce,
        /// Indices that no element has.
        out_of_range: OutOfRange,
    },
    /// `(x)` resampled on all axes to a given shape.
    Resize(ResizeAttrs),
    /// `(x)`: values and int64 indices of the `k` extremes along an axis, sorted, equal
    /// elements by lower index.
    TopK {
        /// Axis.
        axis: usize,
        /// Number of elements.
        k: Expr,
        /// Largest instead of smallest.
        largest: bool,
    },
    /// `()`: `start + step * i` along the only axis, for `count` elements; int64.
    Iota {
        /// Elements.
        count: Expr,
    },
    /// `()`: an int64 tensor of these values: a scalar, or 1-D.
    Dims {
        /// Values.
        values: Vec<Expr>,
        /// A scalar tensor (one value).
        scalar: bool,
    },
    /// Recurrent layer `(x, w, r, b?, h0?, c0?)` in ONNX layout (x `[t, n, in]`, w
    /// `[dirs, gates * hidden, in]`, r `[dirs, gates * hidden, hidden]`, b
    /// `[dirs, 2 * gates * hidden]`, h0, c0 `[dirs, n, hidden]`); absent operands are passed as
    /// zero tensors by the importer. Outputs `y [t, dirs, n, hidden]`, `h [dirs, n, hidden]`
    /// and for LSTM `c [dirs, n, hidden]`.
    Rnn(RnnAttrs),
    /// An operator from outside, whose meaning is its kernel's.
    Registered(Box<RegisteredOp>),
}

impl Op {
    /// Fewest and most operands.
    pub fn arity(&self) -> (usize, usize) {
        match self {
            Op::Iota { .. } | Op::Dims { .. } => (0, 0),
            Op::Unary(_)
            | Op::Cast(_)
            | Op::Reduce { .. }
            | Op::ArgReduce { .. }
            | Op::Bitcast(_)
            | Op::Scan { .. }
            | Op::Pool(_)
            | Op::Softmax { .. }
            | Op::Reshape(_)
            | Op::Transpose(_)
            | Op::Broadcast(_)
            | Op::Slice { .. }
            | Op::Resize(_)
            | Op::TopK { .. } => (1, 1),
            Op::Pad { .. } => (1, 2),
            Op::Binary(_)
            | Op::MatMul
            | Op::MatMulInteger
            | Op::ConvInteger(_)
            | Op::Gather { .. } => (2, 2),
            Op::LayerNorm { .. } | Op::Conv(_) | Op::ConvTranspose { .. } => (2, 3),
            Op::Where | Op::Scatter { .. } => (3, 3),
            Op::MatMulNBits(_) => (3, 4),
            Op::Rnn(_) => (3, 6),
            Op::Concat { .. } => (1, usize::MAX),
            Op::Registered(op) => (op.operands.len(), op.operands.len()),
        }
    }
}

/// Unary functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Unary {
    Neg,
    Abs,
    Sign,
    Exp,
    Log,
    Sqrt,
    Reciprocal,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Erf,
    Sigmoid,
    Floor,
    Ceil,
    /// Ties to even.
    Round,
    IsNan,
    IsInf,
    /// Logical not.
    Not,
    BitNot,
}

/// Binary functions. Comparisons give bool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    /// Integers truncate towards zero.
    Div,
    /// Sign of the divisor (Python).
    FloorMod,
    /// Sign of the dividend (C `fmod`).
    TruncMod,
    Pow,
    /// NaN wins.
    Min,
    /// NaN wins.
    Max,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
    Xor,
    BitAnd,
    BitOr,
    BitXor,
    Shl,
    Shr,
}

/// Reductions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ReduceKind {
    Sum,
    Mean,
    Max,
    Min,
    Prod,
}

/// Running combinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ScanKind {
    Sum,
    Prod,
}

/// Arg reductions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ArgReduceKind {
    Max,
    Min,
}

/// Geometry of a convolution, one entry per spatial axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvAttrs {
    /// Steps.
    pub strides: Vec<i64>,
    /// Zeros before.
    pub pads_begin: Vec<i64>,
    /// Zeros after.
    pub pads_end: Vec<i64>,
    /// Kernel dilation.
    pub dilations: Vec<i64>,
    /// Channel groups.
    pub groups: i64,
}

/// Pooling kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// Maximum; with `indices` also where it was (flattened over the input).
    Max {
        /// Second output.
        indices: bool,
    },
    /// Average.
    Average {
        /// Divide by the window's size including padding.
        count_pads: bool,
    },
    /// p-norm.
    Lp(u32),
}

/// Geometry of a pooling, one entry per spatial axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolAttrs {
    /// Kind.
    pub kind: PoolKind,
    /// Size of the window.
    pub kernel: Vec<i64>,
    /// Steps.
    pub strides: Vec<i64>,
    /// Padding before.
    pub pads_begin: Vec<i64>,
    /// Padding after.
    pub pads_end: Vec<i64>,
    /// Window dilation.
    pub dilations: Vec<i64>,
    /// Round the output dimensions up.
    pub ceil: bool,
}

/// Padding modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum PadMode {
    Constant,
    Reflect,
    Edge,
    Wrap,
}

/// The meaning of an index outside of `-n..n` for an axis of `n` elements (NumPy: the `mode` of
/// `take`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutOfRange {
    /// The run fails and names node, index and `n` (`raise`).
    Raise,
    /// The first element, or the last (`clip`). For indices that are in range anyway, or whose
    /// meaning the source leaves open.
    Clamp,
}

/// Gathers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GatherKind {
    /// Whole slices along an axis (`take`).
    Axis(usize),
    /// `x[.., indices[i, ..], ..]` element by element along an axis.
    Elements(usize),
    /// Last axis of the indices is a coordinate.
    Nd {
        /// Leading axes shared by both.
        batch_dims: usize,
    },
}

/// Scatters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ScatterKind {
    /// Element by element along an axis.
    Elements(usize),
    /// Last axis of the indices is a coordinate.
    Nd,
}

/// Combination of a scattered element with the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ScatterReduce {
    Replace,
    Add,
    Mul,
    Max,
    Min,
}

/// Interpolation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ResizeMode {
    /// Nearest.
    Nearest(ResizeNearest),
    /// Linear.
    Linear,
    /// Cubic with this coefficient; samples outside have weight zero if `exclude_outside`.
    Cubic {
        /// Coefficient `a`.
        coefficient: f64,
        /// Renormalise without outside samples.
        exclude_outside: bool,
    },
}

/// Rounding of nearest coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ResizeNearest {
    RoundPreferFloor,
    RoundPreferCeil,
    Floor,
    Ceil,
}

/// Coordinate transformation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ResizeCoord {
    HalfPixel,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
}

/// Resampling.
#[derive(Clone, Debug, PartialEq)]
pub struct ResizeAttrs {
    /// Interpolation.
    pub mode: ResizeMode,
    /// Coordinates.
    pub coord: ResizeCoord,
    /// Output shape.
    pub shape: Vec<Expr>,
    /// Output size over input size per axis as the model gave it, where it did; else derived.
    pub scales: Option<Vec<f64>>,
}

/// Weights of codes: codes uint8 `[n, blocks, block * bits / 8]`, the lowest bits first, scales float32
/// `[n, blocks]`, and zero points uint8 `[n, blocks]`, which are the middle code where there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NBits {
    /// Bits of a code: 2, 4 or 8.
    pub bits: i64,
    /// Codes of a block: a multiple of those in 32 bits, few enough for its sums. Those behind
    /// the last element of a column stand for nothing.
    pub block: i64,
    /// The integers that activations are rounded to.
    pub activations: Activations,
}

/// The integers that activations are rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activations {
    /// Up to 127 in magnitude.
    Int8,
    /// Up to 32767 in magnitude.
    Int16,
}

impl Activations {
    /// The greatest magnitude.
    pub fn greatest(self) -> i64 {
        match self {
            Activations::Int8 => 127,
            Activations::Int16 => 32767,
        }
    }

    /// Those in a word of 32 bits.
    pub fn per_word(self) -> i64 {
        match self {
            Activations::Int8 => 4,
            Activations::Int16 => 2,
        }
    }
}

impl NBits {
    /// Bytes of the codes of a block.
    pub fn bytes(self) -> i64 {
        self.block * self.bits / 8
    }

    /// Words of 32 bits in a block.
    pub fn words(self) -> i64 {
        self.block * self.bits / 32
    }

    /// Groups of codes in a word, as many in each as there are activations in a word.
    pub fn groups(self) -> i64 {
        32 / self.bits / self.activations.per_word()
    }

    /// The zero point of blocks that are given none.
    pub fn middle(self) -> i64 {
        1 << (self.bits - 1)
    }

    /// Whether there are such codes, in such blocks.
    pub fn is_valid(self) -> bool {
        // A float32 holds every sum of products with int8, an int32 those with int16.
        let most = match self.activations {
            Activations::Int8 => 1 << 24,
            Activations::Int16 => 1 << 31,
        };
        matches!(self.bits, 2 | 4 | 8)
            && (1..1 << 24).contains(&self.block)
            && self.block * self.bits % 32 == 0
            && self.block * ((1 << self.bits) - 1) * self.activations.greatest() < most
    }
}

/// Recurrent cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RnnCell {
    /// Elman.
    Rnn,
    /// LSTM, gates i o f c.
    Lstm,
    /// GRU, gates z r h.
    Gru {
        /// Apply the reset gate after the matrix multiplication with the recurrence weights.
        linear_before_reset: bool,
    },
}

/// Directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum RnnDir {
    Forward,
    Reverse,
    Both,
}

/// Activation of a gate.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum RnnActivation {
    Sigmoid,
    Tanh,
    Relu,
}

/// A recurrent layer.
#[derive(Clone, Debug, PartialEq)]
pub struct RnnAttrs {
    /// Cell.
    pub cell: RnnCell,
    /// Directions.
    pub dir: RnnDir,
    /// Hidden size.
    pub hidden: i64,
    /// Activations per direction: LSTM f, g, h; GRU f, g; RNN f.
    pub activations: Vec<RnnActivation>,
    /// Clip gate inputs to `[-clip, clip]`.
    pub clip: Option<f64>,
}

impl RnnCell {
    /// Number of gates.
    pub fn gates(self) -> i64 {
        match self {
            RnnCell::Rnn => 1,
            RnnCell::Gru { .. } => 3,
            RnnCell::Lstm => 4,
        }
    }

    /// Activations a direction takes.
    pub fn activations(self) -> usize {
        match self {
            RnnCell::Rnn => 1,
            RnnCell::Gru { .. } => 2,
            RnnCell::Lstm => 3,
        }
    }
}

impl RnnDir {
    /// Number of directions.
    pub fn count(self) -> i64 {
        if self == RnnDir::Both { 2 } else { 1 }
    }
}
