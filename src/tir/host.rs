//! The CPU this process runs on, as a code generation [`CpuTarget`].

use std::collections::BTreeSet;
use std::fs;

use reflex_runtime::amx::Amx;

use crate::codegen::CpuTarget;

/// LLVM's name and the standard library's name of each feature that changes generated code.
macro_rules! present { ($($llvm:literal $std:tt;)*) => {{
    let mut features = BTreeSet::new();
    #[cfg(target_arch = "x86_64")]
    {
        $(if std::is_x86_feature_detected!($std) {
            features.insert($llvm.to_string());
        })*
    }
    features
}} }

impl CpuTarget {
    /// This machine: features by CPUID (names of CPUs mislead in virtual machines), cache sizes
    /// by the operating system, or small ones where it does not say.
    pub fn host() -> CpuTarget {
        let mut features = features();
        features.extend(matrix_features().map(str::to_owned));
        let vector_bytes = match &features {
            f if f.contains("avx512f") && f.contains("avx512vl") => 64,
            f if f.contains("avx") => 32,
            _ => 16,
        };
        CpuTarget {
            triple: format!("{}-unknown-linux-gnu", std::env::consts::ARCH),
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

fn features() -> BTreeSet<String> {
    present! {
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

/// Bytes of the data (or unified) cache of a level, of the first CPU.
fn cache(level: u32) -> Option<u64> {
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
        assert!(host.triple.ends_with("-unknown-linux-gnu"));
    }
}
