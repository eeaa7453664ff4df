//! Which rule took a stage, and why the others did not.

/// The rule that took a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The stage's name.
    pub stage: String,
    /// The rule that took it.
    pub rule: &'static str,
    /// The rules that did not, and why.
    pub refused: Vec<(&'static str, Refusal)>,
}

/// Why a rule does not take a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Not a contraction.
    #[error("not a contraction")]
    NoContraction,
    /// An element type that the rule has no kernel for.
    #[error("element type")]
    ElementType,
    /// The precision does not allow it.
    #[error("not in this precision")]
    Precision,
    /// Warpgroups do not multiply on this GPU.
    #[error("no products of warpgroups")]
    NoWarpgroups,
    /// A position that is not linear in the axes.
    #[error("position not linear in the axes")]
    NotAffine,
    /// Tiles of another width than the panels that an operand is packed in.
    #[error("tiles of another width than the panels'")]
    PartsOfPanels,
    /// No axis along which elements are contiguous.
    #[error("elements not contiguous")]
    NotContiguous,
    /// Both operands change along the contiguous axis.
    #[error("both operands change along the rows of results")]
    NotSeparable,
    /// No operand is a constant matrix.
    #[error("no constant matrix")]
    NoConstantMatrix,
    /// Too few multiply-adds for each element that would be split.
    #[error("too few multiply-adds for each element")]
    TooSmall,
    /// The terms of neither operand would stay in the cache.
    #[error("neither split operand stays in the cache")]
    OutOfCache,
    /// A schedule primitive did not take a step of the rule.
    #[error("refused by the primitive {0}")]
    Primitive(&'static str),
    /// A reduction, or a single result.
    #[error("not a map over an axis")]
    NoMap,
    /// Rows that are no whole number of vectors, or not known to be.
    #[error("rows are not whole vectors")]
    PartialVectors,
    /// Elements that are not moved from one contiguous axis to another.
    #[error("not a move to another axis")]
    NoTranspose,
    /// No loop around all of it.
    #[error("no loop around it")]
    NoLoop,
    /// Fewer elements than are worth sharing among threads.
    #[error("too short to share")]
    TooShort,
    /// The rule has no place for an epilogue.
    #[error("no place for an epilogue")]
    Epilogue,
    /// A reduction that cannot be done in parts.
    #[error("not a reduction in parts")]
    NotAssociative,
    /// An extent that the rule has to know.
    #[error("extents not known")]
    UnknownExtent,
    /// Enough tiles for the device, or a short reduction.
    #[error("enough tiles")]
    EnoughTiles,
    /// Both operands have more rows than a rule for few has registers for.
    #[error("many rows")]
    ManyRows,
    /// Columns are too few for a thread each.
    #[error("too few columns for a thread each")]
    FewColumns,
    /// Stages between two contractions that are no softmax of rows.
    #[error("no softmax between the products")]
    NoSoftmax,
    /// Rows of queries, keys or values that are longer than registers are for.
    #[error("rows too long for registers")]
    TooWide,
    /// Tiles that do not fit the device's shared memory.
    #[error("too much shared memory")]
    SharedMemory,
    /// Not on this GPU.
    #[error("not on this GPU")]
    Device,
    /// Too few tiles for the device.
    #[error("too few tiles")]
    TooFewTiles,
    /// An operand that tiles cannot be copied from as boxes.
    #[error("no boxes of an operand: {0}")]
    TensorMap(&'static str),
    /// Every reduction axis has extent 1.
    #[error("nothing to reduce")]
    NothingToReduce,
}
