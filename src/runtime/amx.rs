//! Permission to use the CPU's tile registers (Intel AMX).
//!
//! Their state is 8 KiB per thread, so Linux lets a process use them only after it has requested
//! permission (`ARCH_REQ_XCOMP_PERM`), and refuses where a thread's alternate signal stack could not
//! hold it. Kernels configure the tiles and release them, so threads of the host keep no such state.

use std::sync::OnceLock;

/// The environment variable that disables AMX in this process when it is `off`.
pub const OPT_OUT: &str = "REFLEX_AMX";

/// The element types that the CPU multiplies in tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amx {
    /// Bfloat16, in VNNI pairs (AMX-BF16).
    pub bf16: bool,
    /// 8-bit integers, in VNNI quadruples (AMX-INT8).
    pub int8: bool,
}

/// The AMX features that this process may use, if the CPU has the tiles that kernels are compiled
/// for: 8 of 16 rows of 64 bytes. The first call requests the permission, for the whole process.
pub fn detect() -> Option<Amx> {
    static FOUND: OnceLock<Option<Amx>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        if std::env::var_os(OPT_OUT).is_some_and(|v| v == "off") {
            return None;
        }
        find()
    })
}

#[cfg(any(miri, not(target_arch = "x86_64")))]
fn find() -> Option<Amx> {
    None
}

#[cfg(all(not(miri), target_arch = "x86_64"))]
fn find() -> Option<Amx> {
    let amx = cpu::features()?;
    let status = {
        const REQUEST_PERMISSION: libc::c_long = 0x1023;
        const TILE_DATA: libc::c_long = 18;
        // SAFETY: the call takes two numbers and accesses no memory of the process.
        unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) }
    };
    (status == 0).then_some(amx)
}

#[cfg(all(not(miri), target_arch = "x86_64"))]
mod cpu {
    use std::arch::x86_64::{__cpuid_count, _xgetbv, CpuidResult};

    use super::Amx;

    const OSXSAVE: u32 = 1 << 27;
    const BF16: u32 = 1 << 22;
    const TILE: u32 = 1 << 24;
    const INT8: u32 = 1 << 25;
    /// The states of the configuration and of the registers.
    const STATES: u64 = 1 << 17 | 1 << 18;

    /// The features that the CPU has and whose state the system saves.
    pub fn features() -> Option<Amx> {
        if cpuid(0, 0).eax < 0x1d || cpuid(1, 0).ecx & OSXSAVE == 0 {
            return None;
        }
        let features = cpuid(7, 0).edx;
        // SAFETY: OSXSAVE says that the instruction is there.
        let saved = features & TILE != 0 && unsafe { saved() } & STATES == STATES;
        // Leaf 1D: the palettes; the first is the one that kernels configure.
        if !saved || cpuid(0x1d, 0).eax < 1 {
            return None;
        }
        let palette = cpuid(0x1d, 1);
        let (per_register, per_row) = (palette.eax >> 16, palette.ebx & 0xffff);
        let (registers, rows) = (palette.ebx >> 16, palette.ecx & 0xffff);
        let known = per_register == 1024 && per_row == 64 && registers >= 8 && rows == 16;
        known.then_some(Amx { bf16: features & BF16 != 0, int8: features & INT8 != 0 })
    }

    fn cpuid(leaf: u32, part: u32) -> CpuidResult {
        #[allow(unused_unsafe, reason = "newer compilers call it safe")]
        // SAFETY: every x86-64 CPU has the instruction, which reads no memory.
        unsafe {
            __cpuid_count(leaf, part)
        }
    }

    /// The extended states that the system saves (XCR0).
    #[target_feature(enable = "xsave")]
    fn saved() -> u64 {
        // SAFETY: register 0 exists wherever the instruction does.
        unsafe { _xgetbv(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_lists_is_what_is_found() {
        let listed = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let flags = listed.lines().find(|l| l.starts_with("flags")).unwrap_or_default();
        let has = |flag: &str| flags.split_whitespace().any(|f| f == flag);
        match detect() {
            Some(found) => {
                assert!(has("amx_tile") && found.bf16 == has("amx_bf16"), "{found:?}: {flags}");
                assert_eq!(found.int8, has("amx_int8"));
                assert_eq!(detect(), Some(found), "asked once");
            }
            // Refused, or not there.
            None => assert!(find().is_none() || std::env::var_os(OPT_OUT).is_some()),
        }
    }
}
