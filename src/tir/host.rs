//! The CPU this process runs on, as a code generation [`CpuTarget`].

use std::collections::BTreeSet;
#[cfg(not(target_arch = "wasm32"))]
use std::fs;

use reflex_runtime::amx::Amx;

use crate::codegen::{Arch, CpuTarget};
use crate::level::{NEON_VECTOR_BYTES, WASM_VECTOR_BYTES};

#[cfg(not(target_arch = "wasm32"))]
/// LLVM's name and the standard library's name of each feature that changes generated code.
macro_rules! present { ($detected:ident: $($llvm:literal $std:tt;)*) => {{
    let mut features = BTreeSet::new();
    $(if std::arch::$detected!($std) {
        features.insert($llvm.to_string());
    })*
    features
}} }

impl CpuTarget {
    /// This machine: features by what the CPU says (names of CPUs mislead in virtual machines), cache
    /// sizes by the operating system, or small ones where it does not say.
    pub fn host() -> CpuTarget {
        let mut features = features();
        features.extend(matrix_features().map(str::to_owned));
        let vector_bytes = match &features {
            _ if Arch::HOST == Arch::Aarch64 => NEON_VECTOR_BYTES,
            _ if Arch::HOST == Arch::Wasm32 => WASM_VECTOR_BYTES,
            f if f.contains("avx512f") && f.contains("avx512vl") => 64,
            f if f.contains("avx") => 32,
            _ => 16,
        };
        CpuTarget {
            triple: Arch::HOST.triple().to_owned(),
            features,
            vector_bytes,
            l1d_bytes: cache(1).unwrap_or(32 << 10),
            l2_bytes: cache(2).unwrap_or(512 << 10),
        }
    }
}

/// AMX tiles, where this process may use them.
fn matrix_features() -> impl Iterator<Item = &'static str> {
    let found = reflex_runtime::amx::detect();
    let has = |which: fn(&Amx) -> bool| found.as_ref().is_some_and(which);
    let all = [
        ("amx-tile", found.is_some()),
        ("amx-bf16", has(|m| m.bf16)),
        ("amx-int8", has(|m| m.int8)),
    ];
    all.into_iter().filter(|(_, has)| *has).map(|(name, _)| name)
}

#[cfg(target_arch = "aarch64")]
fn features() -> BTreeSet<String> {
    present! { is_aarch64_feature_detected: "neon" "neon"; "dotprod" "dotprod"; "i8mm" "i8mm"; }
}

/// Those that every host has, and what the host says of its `relaxed_madd`.
#[cfg(target_arch = "wasm32")]
fn features() -> BTreeSet<String> {
    let level = match reflex_runtime::library::has_fused_relaxed_madd() {
        true => crate::level::Level::WasmRelaxed,
        false => crate::level::Level::Wasm,
    };
    level.target().features
}

#[cfg(target_arch = "x86_64")]
fn features() -> BTreeSet<String> {
    present! { is_x86_feature_detected:
        "sse3" "sse3"; "ssse3" "ssse3"; "sse4.1" "sse4.1"; "sse4.2" "sse4.2";
        "popcnt" "popcnt"; "movbe" "movbe"; "lzcnt" "lzcnt"; "bmi" "bmi1"; "bmi2" "bmi2";
        "avx" "avx"; "avx2" "avx2"; "fma" "fma"; "f16c" "f16c";
        "avx512f" "avx512f"; "avx512cd" "avx512cd"; "avx512bw" "avx512bw";
        "avx512dq" "avx512dq"; "avx512vl" "avx512vl"; "avx512ifma" "avx512ifma";
        "avx512vbmi" "avx512vbmi"; "avx512vbmi2" "avx512vbmi2"; "avx512vnni" "avx512vnni";
        "avx512bitalg" "avx512bitalg"; "avx512vpopcntdq" "avx512vpopcntdq";
        "avx512bf16" "avx512bf16"; "avx512fp16" "avx512fp16"; "avxvnni" "avxvnni";
        "gfni" "gfni";
    }
}

/// Bytes of the data (or unified) cache of a level: as the CPU says, where it does, since the operating
/// system's files take longer to read than a small program to start.
fn cache(level: u32) -> Option<u64> {
    cache_by_cpuid(level).or_else(|| cache_by_files(level))
}

/// The leaf of CPUID that lists caches, of which the operating system makes its files.
#[cfg(target_arch = "x86_64")]
fn cache_by_cpuid(level: u32) -> Option<u64> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};

    const TOPOLOGY_EXTENSIONS: u32 = 1 << 22;
    let (basic, extended) = (__cpuid(0).eax, __cpuid(0x8000_0000).eax);
    let leaf = match extended >= 0x8000_001d && __cpuid(0x8000_0001).ecx & TOPOLOGY_EXTENSIONS != 0
    {
        true => 0x8000_001d,
        false if basic >= 4 => 4,
        false => return None,
    };
    let lists = (0..8).map(|at| __cpuid_count(leaf, at)).take_while(|it| it.eax & 0x1f != 0);
    let (data, unified) = (1, 3);
    let mut found = lists.filter(|it| {
        let kind = it.eax & 0x1f;
        it.eax >> 5 & 7 == level && (kind == data || kind == unified)
    });
    let it = found.next()?;
    let part = |shift: u32, mask: u32| u64::from(it.ebx >> shift & mask) + 1;
    Some(part(22, 0x3ff) * part(12, 0x3ff) * part(0, 0xfff) * (u64::from(it.ecx) + 1))
}

#[cfg(not(target_arch = "x86_64"))]
fn cache_by_cpuid(_: u32) -> Option<u64> {
    None
}

/// WebAssembly's host does not say.
#[cfg(target_arch = "wasm32")]
fn cache_by_files(_: u32) -> Option<u64> {
    None
}

/// The operating system's files, of the first CPU.
#[cfg(not(target_arch = "wasm32"))]
fn cache_by_files(level: u32) -> Option<u64> {
    let root = "/sys/devices/system/cpu/cpu0/cache";
    (0..8).find_map(|index| {
        let read = |file: &str| fs::read_to_string(format!("{root}/index{index}/{file}")).ok();
        let is_level = read("level")?.trim().parse() == Ok(level);
        let holds_data = read("type")?.trim() != "Instruction";
        let size = read("size")?;
        let kilobytes: u64 = size.trim().strip_suffix('K')?.parse().ok()?;
        (is_level && holds_data).then_some(kilobytes << 10)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_described() {
        let host = CpuTarget::host();
        assert!(host.l1d_bytes >= 8 << 10 && host.l2_bytes >= host.l1d_bytes);
        assert_eq!(host.arch(), Some(Arch::HOST));
        // What this process is compiled for runs here.
        assert!(Arch::HOST != Arch::Aarch64 || host.features.contains("neon"));
    }

    #[test]
    fn the_cpu_and_the_operating_system_agree_on_caches() {
        for level in [1, 2] {
            let (said, read) = (cache_by_cpuid(level), cache_by_files(level));
            assert!(said.is_none() || read.is_none() || said == read, "{said:?}, {read:?}");
        }
    }
}
