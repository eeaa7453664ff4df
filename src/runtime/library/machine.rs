//! The part of a library that differs between architectures: the machine's number, and the kinds of
//! relocations that dynamic linkers know.
//!
//! Source: "ELF for the Arm 64-bit Architecture", 2024Q3, sections "Dynamic relocations" and "Dynamic
//! thread-local storage relocations"; System V ABI, AMD64 supplement, section 4.4.

use ::object::elf;

/// The machine of a file in words, for messages.
pub(super) fn name(machine: elf::Machine) -> String {
    match machine {
        elf::EM_X86_64 => "x86-64".to_owned(),
        elf::EM_AARCH64 => "AArch64".to_owned(),
        other => format!("machine {}", other.0),
    }
}

#[cfg(target_arch = "x86_64")]
mod own {
    use ::object::elf::{self, RelocationType};

    pub const MACHINE: elf::Machine = elf::EM_X86_64;
    pub const NONE: RelocationType = elf::R_X86_64_NONE;
    pub const RELATIVE: RelocationType = elf::R_X86_64_RELATIVE;
    pub const COMPUTED: RelocationType = elf::R_X86_64_IRELATIVE;
    /// The value of a symbol.
    pub const PLAIN: &[RelocationType] = &[elf::R_X86_64_GLOB_DAT, elf::R_X86_64_JUMP_SLOT];
    /// The value of a symbol, and the addend.
    pub const WITH_ADDEND: &[RelocationType] = &[elf::R_X86_64_64];
    pub const THREAD_LOCAL: &[RelocationType] = &[
        elf::R_X86_64_DTPMOD64,
        elf::R_X86_64_DTPOFF64,
        elf::R_X86_64_TPOFF64,
        elf::R_X86_64_TLSDESC,
    ];
}

#[cfg(target_arch = "aarch64")]
mod own {
    use ::object::elf::{self, RelocationType};

    pub const MACHINE: elf::Machine = elf::EM_AARCH64;
    pub const NONE: RelocationType = elf::R_AARCH64_NONE;
    pub const RELATIVE: RelocationType = elf::R_AARCH64_RELATIVE;
    pub const COMPUTED: RelocationType = elf::R_AARCH64_IRELATIVE;
    /// The value of a symbol.
    pub const PLAIN: &[RelocationType] = &[];
    /// The value of a symbol, and the addend.
    pub const WITH_ADDEND: &[RelocationType] =
        &[elf::R_AARCH64_ABS64, elf::R_AARCH64_GLOB_DAT, elf::R_AARCH64_JUMP_SLOT];
    pub const THREAD_LOCAL: &[RelocationType] = &[
        elf::R_AARCH64_TLS_DTPMOD,
        elf::R_AARCH64_TLS_DTPREL,
        elf::R_AARCH64_TLS_TPREL,
        elf::R_AARCH64_TLSDESC,
    ];
}

pub(super) use own::*;

/// Calls the resolver of an indirect function, which returns the address of the function.
///
/// # Safety
/// There is a resolver at the address, in code that is trusted and linked.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn resolve(resolver: usize) -> usize {
    // SAFETY: the caller vouches for the code; x86-64 resolvers have no parameters.
    unsafe { std::mem::transmute::<usize, unsafe extern "C" fn() -> usize>(resolver)() }
}

/// As for x86-64.
///
/// # Safety
/// There is a resolver at the address, in code that is trusted and linked.
#[cfg(target_arch = "aarch64")]
pub(super) unsafe fn resolve(resolver: usize) -> usize {
    /// The system's `__ifunc_arg_t`.
    #[repr(C)]
    struct Features {
        size: u64,
        first: u64,
        second: u64,
    }
    /// Says that there is a second argument.
    const HAS_FEATURES: u64 = 1 << 62;
    // SAFETY: they read numbers that the kernel gave the process.
    let [first, second] =
        [libc::AT_HWCAP, libc::AT_HWCAP2].map(|kind| unsafe { libc::getauxval(kind) });
    let features = Features { size: size_of::<Features>() as u64, first, second };
    type Resolver = unsafe extern "C" fn(u64, *const Features) -> usize;
    // SAFETY: the caller vouches for the code; these are the arguments that the system's loader passes.
    unsafe { std::mem::transmute::<usize, Resolver>(resolver)(first | HAS_FEATURES, &features) }
}
