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
use std::ops::Range;

use crate::error::{CodeError, CodeErrorKind};
use crate::object_file::ObjectFile;
use crate::pages::PAGE;

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

#[derive(Debug, Default)]
pub(crate) struct LinkedImage<'a> {
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
        let mut at = first;
        let mut current = Segment::ReadOnly;
        let mut ranges = [0..first, 0..0, 0..0];
        let mut data_end = None;
        for ChunkId(id) in self.order() {
            let chunk = &mut self.chunks[id];
            while current < chunk.segment {
                at = up(at, PAGE as u64)?;
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
            at = up(at, PAGE as u64)?;
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
            let label = self.label(&fixup);
            match (fixup.kind, fixup.target) {
                (FixupKind::Absolute(width), target) => absolutes.push(Absolute {
                    at,
                    width,
                    target: match target {
                        Target::Local(location) => AbsoluteTarget::Image(self.address(location)),
                        Target::Import(import) => AbsoluteTarget::Import(import),
                    },
                    addend: fixup.addend,
                    label,
                }),
                (kind, Target::Local(location)) => {
                    let value = i128::from(self.address(location)) + i128::from(fixup.addend)
                        - i128::from(at);
                    let chunk = &mut self.chunks[fixup.at.chunk.0];
                    let bytes = chunk.bytes.to_mut();
                    write_distance(bytes, fixup.at.offset, kind, value, &label)?;
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

    fn label(&self, fixup: &Fixup) -> String {
        match fixup.cause {
            Some((object, symbol)) => {
                let object = &self.objects[object];
                format!("object `{}`: {}", object.name, object.symbol_label(symbol))
            }
            None => "a table entry of the linker".to_owned(),
        }
    }
}

fn write_distance(
    bytes: &mut [u8],
    offset: u64,
    kind: FixupKind,
    value: i128,
    label: &str,
) -> Result<(), CodeError> {
    let too_far = || {
        CodeError::new(
            CodeErrorKind::OutOfReach,
            format!("{label} is {value} bytes away, too far for its field"),
        )
    };
    let offset = offset as usize;
    match kind {
        FixupKind::Relative32 => {
            let value = i32::try_from(value).map_err(|_| too_far())?;
            bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
        }
        FixupKind::Relative64 | FixupKind::Absolute(_) => {
            let value = i64::try_from(value).map_err(|_| too_far())?;
            bytes[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
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
