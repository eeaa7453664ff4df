//! The table of passes: name, purpose, options, and what each builds on.

use std::collections::BTreeMap;

use reflex_graph::Module;

use crate::graph::{
    MAX_GROWN, canonicalize_loops, decompose_conv_transpose, eliminate_dead_code, fold_constants,
    hoist_invariants, inline_functions, propagate_strides, quantize_dynamically,
    separate_max_pools, simplify, split_activations, use_lookup_tables, widen_depthwise,
    widen_half_products,
};
use crate::optimize_for::{DeviceKind, OptimizeFor};
use crate::precision::Precision;
use crate::{LowerError, fuse};

/// The context of a pass: the options of the compilation that it may read, and its own.
pub struct PassContext<'a> {
    /// Arithmetic of float32 contractions.
    pub precision: Precision,
    /// The goal where speed and size differ.
    pub optimize_for: OptimizeFor,
    /// The kind of processor that kernels are scheduled for.
    pub device: DeviceKind,
    /// Whether all CPUs that kernels are compiled for have dot products of 8-bit integers.
    pub has_int8_dots: bool,
    /// The values of the pass's own options that were set.
    pub settings: &'a Settings,
    /// Whether a kernel of this name is scheduled by a trace, so that it stays the one that the trace is for.
    pub has_trace: &'a dyn Fn(&str) -> bool,
}

/// Values of options by name.
pub type Settings = BTreeMap<&'static str, i64>;

impl PassContext<'_> {
    /// The value of an option.
    fn get(&self, option: &PassOption) -> i64 {
        self.settings.get(option.name).copied().unwrap_or(option.default)
    }

    fn size(&self, option: &PassOption) -> usize {
        usize::try_from(self.get(option)).expect("no option is negative")
    }

    /// Bytes of the largest constant that may be made of smaller ones.
    fn max_grown(&self) -> usize {
        let bytes = match (self.settings.get(MAX_BYTES.name), self.optimize_for) {
            (Some(&asked), _) => asked,
            (None, OptimizeFor::Speed) => MAX_BYTES.default,
            (None, OptimizeFor::Size) => MAX_GROWN_FOR_SIZE,
        };
        usize::try_from(bytes).expect("no option is negative")
    }
}

/// An option of a pass: a whole number.
#[derive(Debug)]
pub struct PassOption {
    /// Its name.
    pub name: &'static str,
    /// Its value where it is not set.
    pub default: i64,
    /// The least and the greatest value.
    pub range: (i64, i64),
    /// Its effect, in a few words.
    pub about: &'static str,
}

/// The things that a pass works on.
#[derive(Clone, Copy, Debug)]
pub enum PassKind {
    /// The module.
    Module(fn(&mut Module, &PassContext<'_>) -> Result<(), LowerError>),
    /// Each kernel alone, after the bytecode stage.
    Kernel,
}

/// A row of the table.
#[derive(Debug)]
pub struct PassInfo {
    /// Its name.
    pub name: &'static str,
    /// Its effect, in a few words.
    pub about: &'static str,
    /// True if no program is compiled without it.
    pub needed: bool,
    /// Passes that stand before it, where they run at all.
    pub after: &'static [&'static str],
    /// Its options.
    pub options: &'static [PassOption],
    /// The things it works on.
    pub kind: PassKind,
}

impl PassInfo {
    /// The option of a name.
    pub fn option(&self, name: &str) -> Option<&'static PassOption> {
        self.options.iter().find(|option| option.name == name)
    }
}

/// [`MAX_BYTES`] in programs that are to be small: weights stay as narrow as the model has them.
const MAX_GROWN_FOR_SIZE: i64 = 64 << 10;

const MAX_BYTES: PassOption = PassOption {
    name: "max_bytes",
    default: MAX_GROWN as i64,
    range: (0, 1 << 30),
    about: "the largest constant made of smaller ones, in bytes; programs that are to be small, 65536",
};

const MAX_OPERATORS: PassOption = PassOption {
    name: "max_operators",
    default: 32,
    range: (1, 512),
    about: "most operators in a kernel, but for cheap ones that share a loop nest",
};

const MAX_SIZE: PassOption = PassOption {
    name: "max_size",
    default: 8,
    range: (0, 4096),
    about: "most operations of a function that is inlined wherever it is called",
};

/// LLVM's level; of two, 0 is the oracle for the other.
pub(super) const OPT_LEVEL: PassOption =
    PassOption { name: "opt_level", default: 3, range: (0, 3), about: "LLVM's level, 0 or 3" };

/// The pass that may be left out of the kernel passes.
pub(super) const SCHEDULE: &str = "schedule";
/// The code generator.
pub(super) const CODEGEN: &str = "codegen";

const fn optional(
    name: &'static str,
    about: &'static str,
    after: &'static [&'static str],
    run: fn(&mut Module, &PassContext<'_>) -> Result<(), LowerError>,
) -> PassInfo {
    PassInfo { name, about, needed: false, after, options: &[], kind: PassKind::Module(run) }
}

const fn needed(info: PassInfo) -> PassInfo {
    PassInfo { needed: true, ..info }
}

const fn of_kernels(name: &'static str, about: &'static str) -> PassInfo {
    let (needed, after, options) = (true, &[], &[]);
    PassInfo { name, about, needed, after, options, kind: PassKind::Kernel }
}

/// All passes, in the order of the default pipeline.
pub static PASSES: &[PassInfo] = &[
    PassInfo {
        options: &[MAX_SIZE],
        ..optional(
            "inline_functions",
            "calls of functions that are marked, small, or private and called once are replaced by what these do",
            &[],
            |m, cx| inline_functions(m, cx.size(&MAX_SIZE)),
        )
    },
    optional(
        "decompose_conv_transpose",
        "transposed convolutions become convolutions of the phases of their results",
        &[],
        |m, _| decompose_conv_transpose(m),
    ),
    PassInfo {
        options: &[MAX_BYTES],
        ..optional(
            "widen_half_products",
            "products of 16-bit floats become products of float32, on CPUs",
            &[],
            |m, cx| match cx.device {
                DeviceKind::Cpu => widen_half_products(m, cx.max_grown()),
                DeviceKind::Gpu => Ok(()),
            },
        )
    },
    optional(
        "widen_depthwise",
        "depthwise convolutions of 8-bit integers are computed in float32, exactly, on CPUs",
        &[],
        |m, cx| match cx.device {
            DeviceKind::Cpu => widen_depthwise(m),
            DeviceKind::Gpu => Ok(()),
        },
    ),
    PassInfo {
        options: &[MAX_BYTES],
        ..optional("fold_constants", "operators over constants are evaluated", &[], |m, cx| {
            // The importer leaves what it wrote for weights that stay codes.
            eliminate_dead_code(m)?;
            fold_constants(m, cx.max_grown())
        })
    },
    PassInfo {
        options: &[MAX_BYTES],
        ..optional("simplify", "algebra; constants that it makes are folded", &[], |m, cx| {
            simplify(m, cx.max_grown())
        })
    },
    optional(
        "use_lookup_tables",
        "costly functions of one tensor of 8-bit codes become lookups in tables, on CPUs",
        &["fold_constants", "simplify"],
        |m, cx| match cx.device {
            DeviceKind::Cpu => use_lookup_tables(m),
            DeviceKind::Gpu => Ok(()),
        },
    ),
    optional(
        "quantize_dynamically",
        "in precision int8, products with constant weights become products of 8-bit integers",
        &["fold_constants", "simplify"],
        |m, cx| match cx.precision {
            Precision::Int8 => quantize_dynamically(m),
            Precision::F32 | Precision::F32Fast | Precision::Bf16 => Ok(()),
        },
    ),
    optional(
        "split_activations",
        "products of float32 by 8-bit codes become three of 8-bit integers, on CPUs that have dot products of these",
        &["fold_constants", "simplify"],
        |m, cx| match cx.precision {
            Precision::F32 | Precision::F32Fast if cx.has_int8_dots => split_activations(m),
            _ => Ok(()),
        },
    ),
    optional(
        "propagate_strides",
        "strides of 1x1 convolutions move to their producers",
        &[],
        |m, _| propagate_strides(m),
    ),
    optional(
        "separate_max_pools",
        "maxima over large windows are taken one axis after the other",
        &[],
        |m, _| separate_max_pools(m),
    ),
    needed(optional(
        "canonicalize_loops",
        "loops become `while` over carried values",
        &[],
        |m, _| canonicalize_loops(m),
    )),
    optional(
        "hoist_invariants",
        "what does not change in a loop is computed before it",
        &["canonicalize_loops"],
        |m, _| hoist_invariants(m),
    ),
    optional("eliminate_dead_code", "what nothing reads goes", &[], |m, _| eliminate_dead_code(m)),
    PassInfo {
        options: &[MAX_OPERATORS],
        ..needed(optional(
            "fuse_operators",
            "operators become kernels, several of them one",
            &[
                "decompose_conv_transpose",
                "fold_constants",
                "simplify",
                "propagate_strides",
                "separate_max_pools",
                "canonicalize_loops",
                "hoist_invariants",
            ],
            |m, cx| {
                let most = cx.size(&MAX_OPERATORS);
                let (precision, goal) = (cx.precision, cx.optimize_for);
                fuse::fuse_operators(m, precision, goal, cx.device, most, cx.has_trace)
            },
        ))
    },
    PassInfo { needed: false, ..of_kernels(SCHEDULE, "loops of kernels are made fast") },
    of_kernels("lower", "kernels become the form that code is generated from"),
    PassInfo { options: &[OPT_LEVEL], ..of_kernels(CODEGEN, "machine code, by LLVM") },
];

/// The pass of a name.
pub fn find(name: &str) -> Option<&'static PassInfo> {
    PASSES.iter().find(|pass| pass.name == name)
}
