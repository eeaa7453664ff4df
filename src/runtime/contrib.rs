//! Packed functions that programs and kernels of TVM call by name and that TVM's own libraries and
//! Python package register: sorting, what has no kernel (printing, assertions, `unique` and
//! `nonzero`), what language models call (attention caches, sampling, parameters by name), the state of
//! random numbers, what ONNX does with sequences, maps and strings, the current device, and tvm-ffi's own on modules and maps. They are found like registered ones, and registering another under the
//! name of one of them replaces it.

mod cache_flush;
mod const_loader;
mod host_tensor;
#[cfg(feature = "language-models")]
mod kv_cache;
#[cfg(feature = "onnx-values")]
mod map_values;
mod maps;
mod modules;
mod random;
mod relax_run;
#[cfg(feature = "language-models")]
mod sampling;
#[cfg(feature = "onnx-values")]
mod sequence;
mod set_device;
mod shape_heap;
mod sort;
mod tensor_bytes;
#[cfg(feature = "language-models")]
mod tensor_cache;

use std::sync::LazyLock;

use crate::error::Error;
use crate::function::Function;
#[cfg(feature = "onnx-values")]
use crate::text;
use crate::value::{Any, AnyView};

type Body = fn(&[AnyView<'_>]) -> Result<Any, Error>;

type Table = &'static [(&'static str, Body)];

const ALWAYS: Table = &[
    ("__tvm_set_device", set_device::set_device),
    ("cache_flush_cpu_non_first_arg", cache_flush::non_first_arg),
    ("ffi.Dict", maps::dict),
    ("ffi.DictCount", maps::count),
    ("ffi.DictGetItem", maps::get_item),
    ("ffi.DictSize", maps::size),
    ("ffi.Map", maps::map),
    ("ffi.MapCount", maps::count),
    ("ffi.MapGetItem", maps::get_item),
    ("ffi.MapSize", maps::size),
    ("ffi.Module.load_from_bytes.const_loader", const_loader::load),
    ("ffi.ModuleClearImports", modules::clear_imports),
    ("ffi.ModuleGetFunction", modules::get_function),
    ("ffi.ModuleGetKind", modules::kind),
    ("ffi.ModuleGetPropertyMask", modules::property_mask),
    ("ffi.ModuleImplementsFunction", modules::implements_function),
    ("ffi.ModuleImportModule", modules::import),
    ("ffi.ModuleInspectSource", modules::inspect_source),
    ("reflex.ModuleImports", modules::imports),
    ("reflex.random.next", random::next),
    ("reflex.random.seed", random::seed),
    ("relax.run.assert_op", relax_run::assert_op),
    ("relax.run.nonzero", relax_run::nonzero),
    ("relax.run.print", relax_run::print),
    ("relax.run.shape_to_tensor", relax_run::shape_to_tensor),
    ("relax.run.unique", relax_run::unique),
    ("tvm.contrib.sort.argsort", sort::argsort),
    ("tvm.contrib.sort.argsort_nms", sort::argsort_nms),
    ("tvm.contrib.sort.sort", sort::sort),
    ("tvm.contrib.sort.topk", sort::topk),
    ("vm.builtin.load_shape", shape_heap::load_shape),
    ("vm.builtin.store_shape", shape_heap::store_shape),
];

/// Functions of ONNX on values that are not tensors of numbers.
#[cfg(feature = "onnx-values")]
const ONNX_VALUES: Table = &[
    ("reflex.map.at_keys", map_values::at_keys),
    ("reflex.map.in_order", map_values::in_order),
    ("reflex.map.zip", sequence::zip),
    ("reflex.optional.get", sequence::get),
    ("reflex.optional.has", sequence::has),
    ("reflex.sequence.at", sequence::at),
    ("reflex.sequence.concat", sequence::concat),
    ("reflex.sequence.equally_wide", sequence::equally_wide),
    ("reflex.sequence.erase", sequence::erase),
    ("reflex.sequence.insert", sequence::insert),
    ("reflex.sequence.length", sequence::length),
    ("reflex.sequence.of", sequence::of),
    ("reflex.sequence.split", sequence::split),
    ("reflex.text.from_numbers", text::from_numbers),
    ("reflex.text.full_match", text::full_match),
    ("reflex.text.split", text::split),
    ("reflex.text.to_numbers", text::to_numbers),
    ("reflex.text.tokens", text::tokens),
];

#[cfg(feature = "language-models")]
const LANGUAGE_MODELS: Table = &[
    (
        "vm.builtin.apply_presence_and_frequency_penalty",
        sampling::apply_presence_and_frequency_penalty,
    ),
    ("vm.builtin.apply_repetition_penalty", sampling::apply_repetition_penalty),
    ("vm.builtin.apply_softmax_with_temperature", sampling::apply_softmax_with_temperature),
    ("vm.builtin.attention_kv_cache_append", kv_cache::append),
    ("vm.builtin.attention_kv_cache_array_clear", kv_cache::array_clear),
    ("vm.builtin.attention_kv_cache_array_popn", kv_cache::array_popn),
    ("vm.builtin.attention_kv_cache_create", kv_cache::create),
    ("vm.builtin.attention_kv_cache_update", kv_cache::update),
    ("vm.builtin.attention_kv_cache_view", kv_cache::view),
    ("vm.builtin.attention_kv_cache_window_override", kv_cache::window_override),
    (
        "vm.builtin.attention_kv_cache_window_override_with_sinks",
        kv_cache::window_override_with_sinks,
    ),
    ("vm.builtin.multinomial_from_uniform", sampling::multinomial_from_uniform),
    ("vm.builtin.param_array_from_cache", tensor_cache::param_array),
    ("vm.builtin.param_array_from_cache_by_name", tensor_cache::param_array_by_name),
    (
        "vm.builtin.param_array_from_cache_by_name_unpacked",
        tensor_cache::param_array_by_name_unpacked,
    ),
    ("vm.builtin.sample_top_p_from_logits", sampling::sample_top_p_from_logits),
    ("vm.builtin.sample_top_p_from_prob", sampling::sample_top_p_from_prob),
    ("vm.builtin.tensor_cache.clear", tensor_cache::clear),
    ("vm.builtin.tensor_cache.get", tensor_cache::get),
    ("vm.builtin.tensor_cache.load", tensor_cache::load),
    ("vm.builtin.tensor_cache.remove", tensor_cache::remove),
    ("vm.builtin.tensor_cache.update", tensor_cache::update),
];

const TABLES: &[Table] = &[
    ALWAYS,
    #[cfg(feature = "onnx-values")]
    ONNX_VALUES,
    #[cfg(feature = "language-models")]
    LANGUAGE_MODELS,
];

/// Features, whether this build has them, and the beginnings of their functions' names.
const FEATURES: [(&str, bool, &[&str]); 2] = [
    (
        "onnx-values",
        cfg!(feature = "onnx-values"),
        &["reflex.map.", "reflex.optional.", "reflex.sequence.", "reflex.text."],
    ),
    (
        "language-models",
        cfg!(feature = "language-models"),
        &[
            "vm.builtin.apply_",
            "vm.builtin.attention_kv_cache_",
            "vm.builtin.multinomial_from_uniform",
            "vm.builtin.param_array_from_cache",
            "vm.builtin.sample_top_p_from_",
            "vm.builtin.tensor_cache.",
        ],
    ),
];

fn rows() -> impl Iterator<Item = &'static (&'static str, Body)> {
    TABLES.iter().copied().flatten()
}

static MADE: LazyLock<Vec<(&str, Function)>> =
    LazyLock::new(|| rows().map(|(name, body)| (*name, Function::new(*body))).collect());

/// The function called `name`.
pub fn get(name: &str) -> Option<Function> {
    // Most names are others; nothing is made for them.
    names().find(|known| *known == name)?;
    MADE.iter().find(|(known, _)| *known == name).map(|(_, function)| function.clone())
}

/// Whether TVM's function called `name` is used in a process with TVM: those that its Python package
/// registers, and those that share objects or names with functions that the host has from TVM.
pub fn is_of_host(name: &str) -> bool {
    let prefixes = [
        "ffi.",
        "relax.run.",
        "vm.builtin.attention_kv_cache_",
        "vm.builtin.param_array_from_cache",
        "vm.builtin.tensor_cache.",
    ];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// The feature that has the function called `name`, where this build lacks it.
pub fn feature_of(name: &str) -> Option<&'static str> {
    let has = |names: &[&str]| names.iter().any(|prefix| name.starts_with(prefix));
    let (feature, is_there, _) = FEATURES.iter().find(|(_, _, names)| has(names))?;
    (!is_there).then_some(*feature)
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    rows().map(|(name, _)| *name)
}
