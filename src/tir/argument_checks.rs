//! Checks of a kernel's tensor arguments, as words that one function of all kernels reads.
//!
//! A packed entry that checked each field of each tensor by instructions of its own would be larger than most
//! kernels' loops. Both code generators have a function of three addresses instead: the arguments, a description, and words
//! that it writes. It returns a status.
//!
//! A description is an array of 64-bit words: the number of tensors; for each tensor its [`Field`]s and two words
//! for each dimension, which is an extent, or has a place where the extent that is given goes to; the number of
//! dimensions that repeat a symbol, and for each of those four words. Texts are behind, and are named by
//! their distance from the beginning. What is written are the data pointers of all tensors, and then the extents.
//!
//! Decision: docs/decisions/0068-baseline-kernels.md

use crate::{Buffer, Expr, Param, PrimFunc, Var};

/// The section of LLVM's objects that descriptions are in: the kernel's name is in their texts.
pub const ARGUMENTS_SECTION: &str = ".rodata.arguments";
/// Bytes of a word.
pub const WORD: usize = 8;

/// The words of a tensor before its dimensions.
#[derive(Clone, Copy)]
pub enum Field {
    /// The number of the argument.
    Position,
    /// The number of its dimensions.
    Rank,
    /// The first word of its `DLDataType`.
    Dtype,
    /// The text in front of another type.
    DtypeText,
    /// The text in front of all messages.
    Prefix,
}

/// The number of [`Field`]s.
pub const FIELDS: usize = 5;
/// The words of a dimension: whether it has a place, and the place or the extent.
pub const DIM_WORDS: usize = 2;
/// The words of a dimension that repeats a symbol: the places of both extents, the text in front of its message,
/// its number.
pub const REPEATED_WORDS: usize = 4;

/// The tensors of a kernel.
#[derive(Debug)]
pub struct TensorChecks {
    /// The number of tensors, whose data pointers are the first words that are written.
    pub tensors: usize,
    /// The description.
    pub description: Vec<i64>,
    /// Symbols, and the word with the extent of each.
    pub symbols: Vec<(Var, usize)>,
    /// Dimensions that are expressions, which the description leaves to the kernel.
    pub derived: Vec<Derived>,
    /// The number of words that are written.
    pub written: usize,
}

/// A dimension that is an expression of symbols.
#[derive(Debug)]
pub struct Derived {
    /// Its extent.
    pub extent: Expr,
    /// The word with the extent that was given.
    pub place: usize,
    /// The text in front of what was expected and what was given.
    pub message: String,
}

/// The text in front of messages about argument `position`.
pub fn prefix(func: &PrimFunc, position: usize, name: &str) -> String {
    format!("{}: argument {position} ({name}): ", func.name)
}

/// A dimension of a tensor.
#[derive(Clone, Copy)]
enum Dim {
    /// It is known.
    Extent(i64),
    /// Any; it is written to the word of this number.
    Place(usize),
}

/// A tensor argument.
struct TensorParam {
    position: usize,
    dtype: u32,
    dtype_text: String,
    prefix: String,
    dims: Vec<Dim>,
}

/// A dimension that has to be as long as another.
struct Repeated {
    /// The places of its extent and of that one.
    places: [usize; 2],
    /// The number of its tensor, and its own there.
    dim: [usize; 2],
}

impl TensorChecks {
    /// Those of a kernel. A symbol takes the first dimension that it meets, but for symbols that are scalar arguments.
    pub fn of(func: &PrimFunc) -> TensorChecks {
        let buffers = func.params.iter().enumerate().filter_map(|(i, param)| match param {
            Param::Buffer(buffer) => Some((i, *buffer)),
            Param::Scalar(_) => None,
        });
        let buffers: Vec<(usize, Buffer)> = buffers.collect();
        let is_scalar = |var: Var| func.params.contains(&Param::Scalar(var));
        let (mut params, mut repeated, mut derived) = (vec![], vec![], vec![]);
        let mut symbols: Vec<(Var, usize)> = vec![];
        let mut written = buffers.len();
        for (at, (position, buffer)) in buffers.into_iter().enumerate() {
            let data = &func.buffers[buffer];
            let prefix = prefix(func, position, &data.name);
            let mut dims = vec![];
            for (number, extent) in data.shape.iter().enumerate() {
                if let Some(constant) = extent.as_int() {
                    dims.push(Dim::Extent(constant));
                    continue;
                }
                let place = written;
                written += 1;
                dims.push(Dim::Place(place));
                let symbol = extent.as_var().filter(|var| !is_scalar(*var));
                let known = |var: Var| symbols.iter().find(|(known, _)| *known == var);
                match symbol.map(|var| (var, known(var))) {
                    Some((_, Some((_, expected)))) => {
                        repeated.push(Repeated { places: [place, *expected], dim: [at, number] });
                    }
                    Some((var, None)) => symbols.push((var, place)),
                    None => {
                        let message = format!("{prefix}dimension {number}: expected ");
                        derived.push(Derived { extent: extent.clone(), place, message });
                    }
                }
            }
            let dtype = u32::from(data.dtype.code)
                | u32::from(data.dtype.bits) << 8
                | u32::from(data.dtype.lanes) << 16;
            let dtype_text = format!("expected dtype {}, got ", data.dtype);
            params.push(TensorParam { position, dtype, dtype_text, prefix, dims });
        }
        let description = describe(&params, &repeated);
        TensorChecks { tensors: params.len(), description, symbols, derived, written }
    }
}

fn describe(params: &[TensorParam], repeated: &[Repeated]) -> Vec<i64> {
    let dims: usize = params.iter().map(|param| param.dims.len()).sum();
    let fixed = 2 + params.len() * FIELDS + dims * DIM_WORDS + repeated.len() * REPEATED_WORDS;
    let mut texts: Vec<u8> = vec![];
    // A NUL inside of a name would end a text early, nothing worse.
    let mut text = |text: &str| {
        let at = fixed * WORD + texts.len();
        texts.extend(text.as_bytes());
        texts.push(0);
        at as i64
    };
    let mut words = vec![params.len() as i64];
    let mut prefixes = vec![];
    for param in params {
        let (dtype_text, prefix) = (text(&param.dtype_text), text(&param.prefix));
        prefixes.push(prefix);
        let (position, rank) = (param.position as i64, param.dims.len() as i64);
        words.extend([position, rank, i64::from(param.dtype), dtype_text, prefix]);
        words.extend(param.dims.iter().flat_map(|dim| match *dim {
            Dim::Extent(extent) => [0, extent],
            Dim::Place(place) => [1, place as i64],
        }));
    }
    words.push(repeated.len() as i64);
    for Repeated { places: [given, expected], dim: [param, number] } in repeated {
        words.extend([*given as i64, *expected as i64, prefixes[*param], *number as i64]);
    }
    texts.resize(texts.len().next_multiple_of(WORD), 0);
    let word = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().unwrap_or_default());
    words.extend(texts.chunks(WORD).map(word));
    words
}
