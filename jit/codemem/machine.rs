//! The architectures that code is linked for: their numbers, relocations and instructions of the linker's
//! own.
//!
//! Source: "ELF for the Arm 64-bit Architecture", 2024Q3, section "Relocation"; System V ABI, AMD64
//! supplement, section 4.4.

use object::elf::{self, RelocationType};

/// An architecture whose objects are linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// x86-64.
    X86_64,
    /// AArch64, little-endian.
    Aarch64,
}

/// The meaning of a relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelocationKind {
    Abs64,
    Abs32,
    Abs32Signed,
    Pc32,
    Pc64,
    /// Displacement to a table entry that holds the symbol's address.
    GotPc32,
    /// Displacement of a branch of AArch64, in words.
    Branch26,
    /// Pages of 4 KiB from that of `adrp` to that of the symbol.
    Page21,
    /// The symbol's place in its page of 4 KiB, in units of a power of two.
    Low12 {
        shift: u32,
    },
    /// As `Page21`, to a table entry that holds the symbol's address.
    GotPage21,
    /// As `Low12` of such an entry.
    GotLow12,
}

impl RelocationKind {
    /// Bytes of the field.
    pub(crate) fn width(self) -> u64 {
        match self {
            Self::Abs64 | Self::Pc64 => 8,
            Self::Abs32
            | Self::Abs32Signed
            | Self::Pc32
            | Self::GotPc32
            | Self::Branch26
            | Self::Page21
            | Self::Low12 { .. }
            | Self::GotPage21
            | Self::GotLow12 => 4,
        }
    }
}

/// An entry of the procedure linkage table: it jumps to the address in an entry of the global offset table.
pub(crate) struct Stub {
    pub(crate) bytes: &'static [u8],
    /// Offsets in it with what is filled in there of the other entry's address, and the addend.
    pub(crate) fields: &'static [(u64, RelocationKind, i64)],
}

impl Machine {
    /// That of this process.
    pub const HOST: Machine =
        if cfg!(target_arch = "aarch64") { Machine::Aarch64 } else { Machine::X86_64 };

    /// Its number in ELF.
    pub(crate) fn number(self) -> elf::Machine {
        match self {
            Machine::X86_64 => elf::EM_X86_64,
            Machine::Aarch64 => elf::EM_AARCH64,
        }
    }

    /// The one of a number, if objects for it are linked.
    pub(crate) fn of(number: elf::Machine) -> Option<Machine> {
        [Machine::X86_64, Machine::Aarch64].into_iter().find(|it| it.number() == number)
    }

    /// Its name, for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Machine::X86_64 => "x86-64",
            Machine::Aarch64 => "AArch64",
        }
    }

    /// Bytes that are whole pages on every kernel.
    pub(crate) const fn page(self) -> usize {
        match self {
            Machine::X86_64 => 4 << 10,
            // Kernels have pages of 4, 16 or 64 KiB.
            Machine::Aarch64 => 64 << 10,
        }
    }

    /// The relocation of a word that is the load address and an addend.
    pub(crate) fn relative(self) -> RelocationType {
        match self {
            Machine::X86_64 => elf::R_X86_64_RELATIVE,
            Machine::Aarch64 => elf::R_AARCH64_RELATIVE,
        }
    }

    /// The relocation of a word that is the address of a symbol and an addend.
    pub(crate) fn absolute(self) -> RelocationType {
        match self {
            Machine::X86_64 => elf::R_X86_64_64,
            Machine::Aarch64 => elf::R_AARCH64_ABS64,
        }
    }

    /// The meaning of a relocation of an object; an error for those that are not known.
    pub(crate) fn relocation(self, of: RelocationType) -> Result<Option<RelocationKind>, Unknown> {
        match self {
            Machine::X86_64 => x86_64(of),
            Machine::Aarch64 => aarch64(of),
        }
    }

    pub(crate) fn stub(self) -> Stub {
        match self {
            // `jmp *displacement(%rip)`, padded to eight bytes.
            Machine::X86_64 => Stub {
                bytes: &[0xff, 0x25, 0, 0, 0, 0, 0x66, 0x90],
                fields: &[(2, RelocationKind::Pc32, -4)],
            },
            // `adrp x16, entry; ldr x17, [x16, entry]; br x17; nop`: no call keeps these registers.
            Machine::Aarch64 => Stub {
                bytes: &[
                    0x10, 0x00, 0x00, 0x90, 0x11, 0x02, 0x40, 0xf9, 0x20, 0x02, 0x1f, 0xd6, 0x1f,
                    0x20, 0x03, 0xd5,
                ],
                fields: &[
                    (0, RelocationKind::Page21, 0),
                    (4, RelocationKind::Low12 { shift: 3 }, 0),
                ],
            },
        }
    }
}

/// A relocation that is not known.
pub(crate) struct Unknown;

fn x86_64(of: RelocationType) -> Result<Option<RelocationKind>, Unknown> {
    Ok(Some(match of {
        elf::R_X86_64_NONE => return Ok(None),
        elf::R_X86_64_64 => RelocationKind::Abs64,
        elf::R_X86_64_32 => RelocationKind::Abs32,
        elf::R_X86_64_32S => RelocationKind::Abs32Signed,
        elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 => RelocationKind::Pc32,
        elf::R_X86_64_PC64 => RelocationKind::Pc64,
        elf::R_X86_64_GOTPCREL | elf::R_X86_64_GOTPCRELX | elf::R_X86_64_REX_GOTPCRELX => {
            RelocationKind::GotPc32
        }
        _ => return Err(Unknown),
    }))
}

fn aarch64(of: RelocationType) -> Result<Option<RelocationKind>, Unknown> {
    Ok(Some(match of {
        elf::R_AARCH64_NONE => return Ok(None),
        elf::R_AARCH64_ABS64 => RelocationKind::Abs64,
        elf::R_AARCH64_PREL32 => RelocationKind::Pc32,
        elf::R_AARCH64_PREL64 => RelocationKind::Pc64,
        elf::R_AARCH64_CALL26 | elf::R_AARCH64_JUMP26 => RelocationKind::Branch26,
        elf::R_AARCH64_ADR_PREL_PG_HI21 => RelocationKind::Page21,
        elf::R_AARCH64_ADD_ABS_LO12_NC | elf::R_AARCH64_LDST8_ABS_LO12_NC => {
            RelocationKind::Low12 { shift: 0 }
        }
        elf::R_AARCH64_LDST16_ABS_LO12_NC => RelocationKind::Low12 { shift: 1 },
        elf::R_AARCH64_LDST32_ABS_LO12_NC => RelocationKind::Low12 { shift: 2 },
        elf::R_AARCH64_LDST64_ABS_LO12_NC => RelocationKind::Low12 { shift: 3 },
        elf::R_AARCH64_LDST128_ABS_LO12_NC => RelocationKind::Low12 { shift: 4 },
        elf::R_AARCH64_ADR_GOT_PAGE => RelocationKind::GotPage21,
        elf::R_AARCH64_LD64_GOT_LO12_NC => RelocationKind::GotLow12,
        _ => return Err(Unknown),
    }))
}
