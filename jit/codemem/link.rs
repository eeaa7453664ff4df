//! The linker shared by the loader and the ELF writer.
//!
//! Linking has three steps: [`crate::resolve::gather`] resolves symbols and turns sections into
//! chunks and relocations into fixups between them; [`LinkedImage::layout`] gives every chunk an
//! address in one contiguous image; [`LinkedImage::patch`] fills in what depends on distances only
//! and returns what depends on where the image ends up, or on imports. The loader writes those
//! values itself, the writer leaves them to the dynamic linker.
//!
//! Not here: garbage collection of sections, merging of strings, relaxation of instructions.
//!
//! Decision: docs/decisions/0018-relocatable-objects.md

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use crate::error::{CodeError, CodeErrorKind};
use crate::machine::Machine;
use crate::object_file::ObjectFile;

/// Memory rights, in the order the segments lie in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Segment {
    ReadOnly,
    Text,
    Data,
}

/// Order of chunks within a segment: bulky blobs stay away from code that must reach its
/// constants, and zeroed chunks come last because a file does not hold them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ChunkOrder {
    Blob,
    Section,
    Zero,
}

/// A run of bytes that gets one address.
#[derive(Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) segment: Segment,
    pub(crate) order: ChunkOrder,
    /// Name of the output section.
    pub(crate) output: &'a str,
    pub(crate) align: u64,
    pub(crate) size: u64,
    /// `size` bytes, or none when the chunk is zeroed memory.
    pub(crate) bytes: Cow<'a, [u8]>,
    /// Relative to the image; set by `layout`.
    pub(crate) address: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ChunkId(pub(crate) usize);

/// A byte of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Location {
    pub(crate) chunk: ChunkId,
    pub(crate) offset: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    Local(Location),
    /// Index into `LinkedImage::imports`.
    Import(usize),
}

/// The ways in which a name that no object defines may be satisfied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Import {
    Function,
    /// A pointer variable that the linker defines.
    Slot,
}

pub(crate) struct LinkRules<'r> {
    /// The one that all objects are for.
    pub(crate) machine: Machine,
    pub(crate) import: &'r dyn Fn(&str) -> Option<Import>,
    /// Where constants that hold addresses go, the global offset table included.
    pub(crate) relro: Segment,
}

/// A symbol that others may look up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Export {
    pub(crate) at: Location,
    pub(crate) size: u64,
    pub(crate) function: bool,
    pub(crate) weak: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fixup {
    pub(crate) at: Location,
    pub(crate) kind: FixupKind,
    pub(crate) target: Target,
    pub(crate) addend: i64,
    /// Object and symbol, for messages; `None` for fixups the linker makes itself.
    pub(crate) cause: Option<(usize, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FixupKind {
    Relative32,
    Relative64,
    /// See [`crate::machine::RelocationKind`] for these.
    Branch26,
    Page21,
    Low12 {
        shift: u32,
    },
    Absolute(Width),
}

/// Field of an absolute address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Word64,
    Unsigned32,
    Signed32,
}

/// A field whose value is known once the image has a base address and imports have theirs.
#[derive(Debug)]
pub(crate) struct Absolute {
    /// Address of the field in the linked image.
    pub(crate) at: u64,
    pub(crate) width: Width,
    pub(crate) target: AbsoluteTarget,
    pub(crate) addend: i64,
    pub(crate) label: String,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum AbsoluteTarget {
    /// An address relative to the image.
    Image(u64),
    Import(usize),
}

/// Addresses of the segments in the linked image, page-aligned starts, exact ends.
#[derive(Clone, Debug)]
pub(crate) struct SegmentRanges {
    pub(crate) read_only: Range<u64>,
    pub(crate) text: Range<u64>,
    /// Initialised data.
    pub(crate) data: Range<u64>,
    /// Where zeroed data ends.
    pub(crate) end: u64,
}

#[derive(Debug)]
pub(crate) struct LinkedImage<'a> {
    pub(crate) machine: Machine,
    pub(crate) chunks: Vec<Chunk<'a>>,
    pub(crate) imports: Vec<&'a str>,
    /// Pointer variables that a loader fills, defined by an object or by the linker.
    pub(crate) slots: BTreeMap<&'a str, Location>,
    pub(crate) exports: BTreeMap<&'a str, Export>,
    /// Functions that only their object names, for profilers.
    pub(crate) locals: Vec<(&'a str, Export)>,
    pub(crate) fixups: Vec<Fixup>,
    pub(crate) objects: &'a [ObjectFile<'a>],
}

impl<'a> Chunk<'a> {
    /// Zero-initialised memory.
    pub(crate) fn zeroed(size: u64, align: u64) -> Self {
        let (segment, order, bytes) = (Segment::Data, ChunkOrder::Zero, Cow::Borrowed(&[][..]));
        Chunk { segment, order, output: ".bss", align, size, bytes, address: 0 }
    }
}

impl<'a> LinkedImage<'a> {
    /// An image of nothing yet.
    pub(crate) fn new(machine: Machine, objects: &'a [ObjectFile<'a>]) -> LinkedImage<'a> {
        LinkedImage {
            machine,
            chunks: vec![],
            imports: vec![],
            slots: BTreeMap::new(),
            exports: BTreeMap::new(),
            locals: vec![],
            fixups: vec![],
            objects,
        }
    }

    pub(crate) fn add(&mut self, chunk: Chunk<'a>) -> ChunkId {
        self.chunks.push(chunk);
        ChunkId(self.chunks.len() - 1)
    }

    /// Number of absolute fields that `patch` will return.
    pub(crate) fn absolute_count(&self) -> usize {
        self.fixups.iter().filter(|fixup| matches!(fixup.kind, FixupKind::Absolute(_))).count()
    }

    /// The chunks in image order.
    pub(crate) fn order(&self) -> Vec<ChunkId> {
        let mut order: Vec<_> = (0..self.chunks.len()).map(ChunkId).collect();
        order.sort_by_key(|&ChunkId(at)| {
            let chunk = &self.chunks[at];
            (chunk.segment, chunk.order, chunk.output, at)
        });
        order
    }

    /// Gives every chunk its address. The read-only segment starts at 0, its chunks at `first`.
    pub(crate) fn layout(&mut self, first: u64) -> Result<SegmentRanges, CodeError> {
        let page = self.machine.page() as u64;
        let mut at = first;
        let mut current = Segment::ReadOnly;
        let mut ranges = [0..first, 0..0, 0..0];
        let mut data_end = None;
        for ChunkId(id) in self.order() {
            let chunk = &mut self.chunks[id];
            while current < chunk.segment {
                at = up(at, page)?;
                current = if current == Segment::ReadOnly { Segment::Text } else { Segment::Data };
                ranges[current as usize] = at..at;
            }
            if chunk.order == ChunkOrder::Zero && data_end.is_none() {
                data_end = Some(at);
            }
            at = up(at, chunk.align)?;
            chunk.address = at;
            at = at.checked_add(chunk.size).ok_or_else(too_large)?;
            ranges[current as usize].end = at;
        }
        while current < Segment::Data {
            at = up(at, page)?;
            current = if current == Segment::ReadOnly { Segment::Text } else { Segment::Data };
            ranges[current as usize] = at..at;
        }
        let [read_only, text, data] = ranges;
        let data = data.start..data_end.unwrap_or(data.end).max(data.start);
        Ok(SegmentRanges { read_only, text, data, end: at })
    }

    /// The image address of a location; `layout` comes first.
    pub(crate) fn address(&self, location: Location) -> u64 {
        self.chunks[location.chunk.0].address + location.offset
    }

    /// Fills in distances and returns the absolute fields, in image order.
    pub(crate) fn patch(&mut self) -> Result<Vec<Absolute>, CodeError> {
        let mut absolutes = Vec::new();
        for fixup in std::mem::take(&mut self.fixups) {
            let at = self.address(fixup.at);
            let label = label(self.objects, &fixup);
            match (fixup.kind, fixup.target) {
                (FixupKind::Absolute(width), target) => absolutes.push(Absolute {
                    at,
                    width,
                    target: match target {
                        Target::Local(location) => AbsoluteTarget::Image(self.address(location)),
                        Target::Import(import) => AbsoluteTarget::Import(import),
                    },
                    addend: fixup.addend,
                    label: label.to_string(),
                }),
                (kind, Target::Local(location)) => {
                    let to = i128::from(self.address(location)) + i128::from(fixup.addend);
                    let chunk = &mut self.chunks[fixup.at.chunk.0];
                    let bytes = chunk.bytes.to_mut();
                    write_distance(bytes, fixup.at.offset, kind, [at.into(), to], &label)?;
                }
                (_, Target::Import(_)) => {
                    return Err(CodeError::unsupported(format!(
                        "{label} is outside of the image and has no stub"
                    )));
                }
            }
        }
        absolutes.sort_by_key(|absolute| absolute.at);
        Ok(absolutes)
    }
}

/// The target of a place as messages name it.
fn label(objects: &[ObjectFile<'_>], fixup: &Fixup) -> impl fmt::Display {
    fmt::from_fn(|f| match fixup.cause {
        Some((object, symbol)) => {
            let object = &objects[object];
            write!(f, "object `{}`: {}", object.name, object.symbol_label(symbol))
        }
        None => f.write_str("a table entry of the linker"),
    })
}

/// Fills in the distance between two addresses of the image, which begins on a page.
fn write_distance(
    bytes: &mut [u8],
    offset: u64,
    kind: FixupKind,
    [from, to]: [i128; 2],
    label: &impl fmt::Display,
) -> Result<(), CodeError> {
    /// Bytes of a page as `adrp` counts them.
    const PAGE: i128 = 4096;
    let value = to - from;
    let too_far = || {
        CodeError::new(
            CodeErrorKind::OutOfReach,
            format!("{label} is {value} bytes away, too far for its field"),
        )
    };
    // A distance in units, as a field of so many bits.
    let field = |value: i128, unit: i128, bits: u32| {
        if value % unit != 0 {
            let text = format!("{label} is not a multiple of {unit} bytes away, as its field is");
            return Err(CodeError::new(CodeErrorKind::OutOfReach, text));
        }
        let (value, limit) = (value / unit, 1 << (bits - 1));
        let fits = (-limit..limit).contains(&value);
        fits.then_some(value as u32 & ((1 << bits) - 1)).ok_or_else(too_far)
    };
    let offset = offset as usize;
    let at = |size: usize| offset..offset + size;
    let mut instruction = |kept: u32, bits: u32| {
        let word = &mut bytes[at(4)];
        let old = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        word.copy_from_slice(&(old & kept | bits).to_le_bytes());
    };
    match kind {
        FixupKind::Relative32 => {
            let value = i32::try_from(value).map_err(|_| too_far())?;
            bytes[at(4)].copy_from_slice(&value.to_le_bytes());
        }
        FixupKind::Relative64 | FixupKind::Absolute(_) => {
            let value = i64::try_from(value).map_err(|_| too_far())?;
            bytes[at(8)].copy_from_slice(&value.to_le_bytes());
        }
        FixupKind::Branch26 => instruction(0xfc00_0000, field(value, 4, 26)?),
        FixupKind::Page21 => {
            let pages = to.div_euclid(PAGE) - from.div_euclid(PAGE);
            let bits = field(pages, 1, 21)?;
            instruction(0x9f00_001f, (bits & 3) << 29 | bits >> 2 << 5);
        }
        FixupKind::Low12 { shift } => {
            let bits = field(to.rem_euclid(PAGE), 1 << shift, 13)?;
            instruction(0xffc0_03ff, bits << 10);
        }
    }
    Ok(())
}

fn too_large() -> CodeError {
    CodeError::unsupported("the linked image exceeds the address space")
}

fn up(at: u64, align: u64) -> Result<u64, CodeError> {
    at.checked_next_multiple_of(align).ok_or_else(too_large)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instruction after its field is filled in, at `from` and for `to`.
    fn filled(kind: FixupKind, instruction: u32, from: i128, to: i128) -> Result<u32, CodeError> {
        let mut bytes = [[0; 4], instruction.to_le_bytes()].concat();
        write_distance(&mut bytes, 4, kind, [from, to], &"it")?;
        assert_eq!(bytes[..4], [0; 4]);
        Ok(u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]))
    }

    /// Words as the assembler of GNU writes them.
    #[test]
    fn fields_of_aarch64_are_those_of_an_assembler() {
        let low = |shift| FixupKind::Low12 { shift };
        let cases = [
            // bl .+0x4000; b .-0x80
            (FixupKind::Branch26, 0x9400_0000, 0x100, 0x4100, 0x9400_1000),
            (FixupKind::Branch26, 0x1400_0000, 0x104, 0x84, 0x17ff_ffe0),
            // adrp x3 of this page, three pages on, and one page back
            (FixupKind::Page21, 0x9000_0003, 0x1ffc, 0x1000, 0x9000_0003),
            (FixupKind::Page21, 0x9000_0003, 0x1ffc, 0x4000, 0xf000_0003),
            (FixupKind::Page21, 0x9000_0003, 0x1000, 0xfff, 0xf0ff_ffe3),
            // add x3, x3, #0x321; ldr x5, [x3, #0x328]; ldr q1, [x3, #0x320]; ldrb w1, [x3, #0x321]
            (low(0), 0x9100_0063, 0, 0x7321, 0x910c_8463),
            (low(3), 0xf940_0065, 0, 0x7328, 0xf941_9465),
            (low(4), 0x3dc0_0061, 0, 0x7320, 0x3dc0_c861),
            (low(0), 0x3940_0061, 0, 0x7321, 0x394c_8461),
        ];
        for (kind, instruction, from, to, expected) in cases {
            let found = filled(kind, instruction, from, to).unwrap();
            assert_eq!(found, expected, "{kind:?}: {found:#x}");
        }
    }

    #[test]
    fn what_a_field_of_aarch64_cannot_hold_is_refused() {
        let reach = 1 << 27;
        for (kind, to, fits) in [
            (FixupKind::Branch26, reach - 4, true),
            (FixupKind::Branch26, reach, false),
            (FixupKind::Branch26, -reach, true),
            (FixupKind::Branch26, 6, false),
            (FixupKind::Page21, (1 << 32) - 1, true),
            (FixupKind::Page21, 1 << 32, false),
            (FixupKind::Low12 { shift: 3 }, 0x1ff8, true),
            (FixupKind::Low12 { shift: 3 }, 0x1ffc, false),
        ] {
            let found = filled(kind, 0, 0, to);
            assert_eq!(found.is_ok(), fits, "{kind:?} {to:#x}: {found:?}");
        }
    }
}
