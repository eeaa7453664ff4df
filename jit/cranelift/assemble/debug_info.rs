//! Tells debuggers and profilers about generated code.
//!
//! The setting is per process: `REFLEX_JIT_SYMBOLS` is a list of `gdb` (its JIT interface, with
//! unwind data), `perf` (`/tmp/perf-PID.map`) and `jitdump` (names and code, for `perf inject`). It
//! is read once. Without it, no debug information is generated.

use std::sync::OnceLock;

use cranelift_codegen::gimli::LittleEndian;
use cranelift_codegen::gimli::write::{Address, DebugFrame, EndianVec, FrameTable};
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::isa::unwind::UnwindInfo;
use reflex_codemem::gdb::{self, Registered, Symbol};
use reflex_codemem::jitdump::JitDump;
use reflex_codemem::perf_map::PerfMap;

use crate::error::JitError;

/// The debuggers and profilers that listen.
#[derive(Debug)]
pub(crate) struct DebugListeners {
    gdb: bool,
    perf: Option<PerfMap>,
    dump: Option<&'static JitDump>,
}

impl DebugListeners {
    /// The listeners of this process.
    pub(crate) fn of_process() -> &'static DebugListeners {
        static LISTENERS: OnceLock<DebugListeners> = OnceLock::new();
        LISTENERS.get_or_init(|| {
            let wanted = std::env::var("REFLEX_JIT_SYMBOLS").unwrap_or_default();
            let wants = |name: &str| wanted.split(',').any(|word| word.trim() == name);
            // Without the map, a profile lacks names, nothing else.
            let perf = if wants("perf") { PerfMap::open().ok() } else { None };
            let dump = if wants("jitdump") { JitDump::of_process().ok() } else { None };
            DebugListeners { gdb: wants("gdb"), perf, dump }
        })
    }

    /// Returns true if unwind data is needed.
    pub(crate) fn unwinds(&self) -> bool {
        self.gdb
    }
}

/// A generated function: its range in the unit and its unwind data.
pub(crate) struct GeneratedFunction {
    pub(crate) start: usize,
    pub(crate) size: usize,
    pub(crate) unwind: Option<UnwindInfo>,
}

/// Announces the functions of a unit at the addresses `text`. gdb forgets them when the returned
/// registration is dropped.
pub(crate) fn announce(
    isa: &dyn TargetIsa,
    label: &str,
    text: std::ops::Range<usize>,
    functions: &[GeneratedFunction],
) -> Result<Option<Registered>, JitError> {
    let listeners = DebugListeners::of_process();
    if listeners.perf.is_none() && listeners.dump.is_none() && !listeners.gdb {
        return Ok(None);
    }
    let symbols: Vec<Symbol> = functions
        .iter()
        .enumerate()
        .map(|(number, function)| Symbol {
            name: if number == 0 { label.to_owned() } else { format!("{label}.{number}") },
            address: text.start + function.start,
            size: function.size,
        })
        .collect();
    if let Some(perf) = &listeners.perf {
        let names = symbols.iter().map(|s| (s.name.as_str(), s.address, s.size));
        // As above: a profile lacks names.
        let _ = perf.add(names);
    }
    if let Some(dump) = listeners.dump {
        let names = symbols.iter().map(|s| (s.name.as_str(), s.address, s.size));
        // SAFETY: the functions have just been published at these addresses, and the caller keeps
        // them mapped during this call. If the file cannot be written, a profile lacks names.
        let _ = unsafe { dump.add(names) };
    }
    if !listeners.gdb {
        return Ok(None);
    }
    let frames = debug_frame(isa, text.start, functions)?;
    Ok(Some(gdb::register(text, &symbols, &frames)))
}

/// The `.debug_frame` section of the functions of a unit at `base`.
fn debug_frame(
    isa: &dyn TargetIsa,
    base: usize,
    functions: &[GeneratedFunction],
) -> Result<Vec<u8>, JitError> {
    let mut table = FrameTable::default();
    let cie = isa.create_systemv_cie();
    let cie = cie.ok_or_else(|| JitError::backend("no unwind convention for this target"))?;
    let cie = table.add_cie(cie);
    for function in functions {
        if let Some(UnwindInfo::SystemV(info)) = &function.unwind {
            let address = Address::Constant((base + function.start) as u64);
            table.add_fde(cie, info.to_fde(address));
        }
    }
    let mut section = DebugFrame(EndianVec::new(LittleEndian));
    let failed = |error| JitError::backend(format!("unwind data: {error}"));
    table.write_debug_frame(&mut section).map_err(failed)?;
    Ok(section.0.into_vec())
}
