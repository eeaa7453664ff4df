//! Symbol resolution, the first step of linking.
//!
//! A strong definition wins over a common one, a common one over a weak one, the first over later
//! ones of its kind. What stays undefined must be an import or a pointer variable that the
//! caller's rules allow; anything else is an error that names it. Names that nothing refers to are
//! not looked at.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::error::{CodeError, CodeErrorKind};
use crate::link::{
    Chunk, ChunkId, ChunkOrder, Export, Fixup, FixupKind, Import, LinkRules, LinkedImage, Location,
    Segment, Target, Width,
};
use crate::machine::RelocationKind;
use crate::object_file::{Binding, ObjectFile, SectionKind, SymbolValue};

/// Resolves every symbol and collects chunks and fixups.
pub(crate) fn gather<'a>(
    objects: &'a [ObjectFile<'a>],
    rules: &LinkRules<'_>,
) -> Result<LinkedImage<'a>, CodeError> {
    if let Some(other) = objects.iter().find(|object| object.machine != rules.machine) {
        return Err(CodeError::unsupported(format!(
            "object `{}` is for {}, and is linked for {}",
            other.name,
            other.machine.name(),
            rules.machine.name()
        )));
    }
    let mut gather = Gather::new(objects, rules);
    gather.place_sections();
    gather.define_globals()?;
    gather.list_locals();
    for object in 0..objects.len() {
        gather.relocate(object)?;
    }
    Ok(gather.finish())
}

struct Gather<'a, 'r> {
    rules: &'r LinkRules<'r>,
    image: LinkedImage<'a>,
    /// Chunk of each object's section.
    sections: Vec<Vec<ChunkId>>,
    globals: HashMap<&'a str, Definition>,
    imports: HashMap<&'a str, usize>,
    got: Vec<Target>,
    got_index: HashMap<Target, usize>,
    got_chunk: ChunkId,
    /// Entry of the global offset table behind each stub.
    plt: Vec<usize>,
    plt_index: HashMap<usize, usize>,
    plt_chunk: ChunkId,
}

#[derive(Clone, Copy)]
struct Definition {
    strength: Strength,
    object: usize,
    symbol: usize,
    /// Set once common symbols have memory.
    at: Option<Location>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Weak,
    Common { size: u64 },
    Strong,
}

impl<'a, 'r> Gather<'a, 'r> {
    fn new(objects: &'a [ObjectFile<'a>], rules: &'r LinkRules<'r>) -> Self {
        let mut image = LinkedImage::new(rules.machine, objects);
        let got_output = if rules.relro == Segment::Data { ".got" } else { ".rodata" };
        let got_chunk = image.add(empty(rules.relro, got_output));
        let plt_chunk = image.add(empty(Segment::Text, ".text"));
        Self {
            rules,
            image,
            sections: Vec::new(),
            globals: HashMap::new(),
            imports: HashMap::new(),
            got: Vec::new(),
            got_index: HashMap::new(),
            got_chunk,
            plt: Vec::new(),
            plt_index: HashMap::new(),
            plt_chunk,
        }
    }

    fn place_sections(&mut self) {
        for object in self.image.objects {
            let mut ids = Vec::with_capacity(object.sections.len());
            for section in &object.sections {
                let (segment, output) = match section.kind {
                    SectionKind::ReadOnly => (Segment::ReadOnly, ".rodata"),
                    SectionKind::RelRo => (self.rules.relro, ".data"),
                    SectionKind::Text => (Segment::Text, ".text"),
                    SectionKind::Data => (Segment::Data, ".data"),
                    SectionKind::Zero => (Segment::Data, ".bss"),
                };
                let zero = section.kind == SectionKind::Zero;
                ids.push(self.image.add(Chunk {
                    segment,
                    order: if zero { ChunkOrder::Zero } else { ChunkOrder::Section },
                    output,
                    align: section.align,
                    size: section.size,
                    bytes: Cow::Borrowed(section.bytes),
                    address: 0,
                }));
            }
            self.sections.push(ids);
        }
    }

    fn define_globals(&mut self) -> Result<(), CodeError> {
        let objects = self.image.objects;
        let mut names = Vec::new();
        for (object, file) in objects.iter().enumerate() {
            for (index, symbol) in file.symbols.iter().enumerate() {
                let strength = match (symbol.binding, symbol.value) {
                    (Binding::Local, _) | (_, SymbolValue::Undefined | SymbolValue::Unusable) => {
                        continue;
                    }
                    (_, SymbolValue::Common { .. }) => Strength::Common { size: symbol.size },
                    (Binding::Weak, _) => Strength::Weak,
                    (Binding::Global, _) => Strength::Strong,
                };
                let new = Definition { strength, object, symbol: index, at: None };
                match self.globals.get_mut(symbol.name) {
                    None => {
                        names.push(symbol.name);
                        self.globals.insert(symbol.name, new);
                    }
                    Some(old)
                        if old.strength == Strength::Strong && strength == Strength::Strong =>
                    {
                        return Err(CodeError::new(
                            CodeErrorKind::DuplicateSymbol,
                            format!(
                                "symbol `{}` is defined by objects `{}` and `{}`",
                                symbol.name, objects[old.object].name, file.name
                            ),
                        ));
                    }
                    Some(old) if strength > old.strength => *old = new,
                    Some(_) => {}
                }
            }
        }
        for name in names {
            self.publish(name);
        }
        Ok(())
    }

    fn list_locals(&mut self) {
        for (object, file) in self.image.objects.iter().enumerate() {
            for symbol in &file.symbols {
                let (Binding::Local, true, SymbolValue::Section { index, offset }) =
                    (symbol.binding, symbol.function, symbol.value)
                else {
                    continue;
                };
                let at = Location { chunk: self.sections[object][index], offset };
                let export = Export { at, size: symbol.size, function: true, weak: false };
                self.image.locals.push((symbol.name, export));
            }
        }
    }

    /// Gives a global its location and lists it for look-ups.
    fn publish(&mut self, name: &'a str) {
        let mut definition = self.globals[name];
        let symbol = &self.image.objects[definition.object].symbols[definition.symbol];
        let at = match symbol.value {
            SymbolValue::Section { index, offset } => {
                Location { chunk: self.sections[definition.object][index], offset }
            }
            SymbolValue::Common { align } => {
                Location { chunk: self.image.add(Chunk::zeroed(symbol.size, align)), offset: 0 }
            }
            SymbolValue::Undefined | SymbolValue::Unusable => return,
        };
        definition.at = Some(at);
        self.globals.insert(name, definition);
        if (self.rules.import)(name) == Some(Import::Slot) {
            self.image.slots.insert(name, at);
        }
        if !symbol.hidden {
            let weak = definition.strength == Strength::Weak;
            let export = Export { at, size: symbol.size, function: symbol.function, weak };
            self.image.exports.insert(name, export);
        }
    }

    fn relocate(&mut self, object: usize) -> Result<(), CodeError> {
        for relocation in &self.image.objects[object].relocations {
            let mut target = self.target(object, relocation.symbol)?;
            if let RelocationKind::GotPc32 | RelocationKind::GotPage21 | RelocationKind::GotLow12 =
                relocation.kind
            {
                target = Target::Local(self.got_entry(target).1);
            }
            let kind = fixup(relocation.kind);
            // What is called, or what a table of distances leads to: a stub goes there.
            if let (
                FixupKind::Relative32 | FixupKind::Relative64 | FixupKind::Branch26,
                Target::Import(_),
            ) = (kind, target)
            {
                target = Target::Local(self.plt_stub(target));
            }
            let chunk = self.sections[object][relocation.section];
            self.image.fixups.push(Fixup {
                at: Location { chunk, offset: relocation.offset },
                kind,
                target,
                addend: relocation.addend,
                cause: Some((object, relocation.symbol)),
            });
        }
        Ok(())
    }

    fn target(&mut self, object: usize, index: usize) -> Result<Target, CodeError> {
        let file = &self.image.objects[object];
        let symbol = &file.symbols[index];
        if symbol.binding != Binding::Local {
            return self.global(object, symbol.name);
        }
        match symbol.value {
            SymbolValue::Section { index, offset } => {
                Ok(Target::Local(Location { chunk: self.sections[object][index], offset }))
            }
            _ => Err(CodeError::malformed(format!(
                "object `{}`: code refers to {}, which has no memory",
                file.name,
                file.symbol_label(index)
            ))),
        }
    }

    fn global(&mut self, object: usize, name: &'a str) -> Result<Target, CodeError> {
        if let Some(location) = self.globals.get(name).and_then(|definition| definition.at) {
            return Ok(Target::Local(location));
        }
        if let Some(&location) = self.image.slots.get(name) {
            return Ok(Target::Local(location));
        }
        match (self.rules.import)(name) {
            Some(Import::Function) => {
                let next = self.image.imports.len();
                let id = *self.imports.entry(name).or_insert(next);
                if id == next {
                    self.image.imports.push(name);
                }
                Ok(Target::Import(id))
            }
            Some(Import::Slot) => {
                let at = Location { chunk: self.image.add(Chunk::zeroed(8, 8)), offset: 0 };
                self.image.slots.insert(name, at);
                Ok(Target::Local(at))
            }
            None => Err(CodeError::new(
                CodeErrorKind::UnknownSymbol,
                format!(
                    "object `{}` needs symbol `{name}`, which kernels may not import",
                    self.image.objects[object].name
                ),
            )),
        }
    }

    /// Index and location of the entry of the global offset table that holds the address of `target`.
    fn got_entry(&mut self, target: Target) -> (usize, Location) {
        let next = self.got.len();
        let index = *self.got_index.entry(target).or_insert(next);
        if index == next {
            self.got.push(target);
        }
        (index, Location { chunk: self.got_chunk, offset: 8 * index as u64 })
    }

    fn plt_stub(&mut self, target: Target) -> Location {
        let (entry, _) = self.got_entry(target);
        let next = self.plt.len();
        let index = *self.plt_index.entry(entry).or_insert(next);
        if index == next {
            self.plt.push(entry);
        }
        let size = self.rules.machine.stub().bytes.len();
        Location { chunk: self.plt_chunk, offset: (size * index) as u64 }
    }

    fn finish(mut self) -> LinkedImage<'a> {
        for (index, &target) in self.got.iter().enumerate() {
            let at = Location { chunk: self.got_chunk, offset: 8 * index as u64 };
            let kind = FixupKind::Absolute(Width::Word64);
            self.image.fixups.push(Fixup { at, kind, target, addend: 0, cause: None });
        }
        let stub = self.rules.machine.stub();
        for (index, &entry) in self.plt.iter().enumerate() {
            let start = (stub.bytes.len() * index) as u64;
            let target =
                Target::Local(Location { chunk: self.got_chunk, offset: 8 * entry as u64 });
            for &(offset, kind, addend) in stub.fields {
                let at = Location { chunk: self.plt_chunk, offset: start + offset };
                let kind = fixup(kind);
                self.image.fixups.push(Fixup { at, kind, target, addend, cause: None });
            }
        }
        let fill = |chunk: &mut Chunk<'a>, bytes: Vec<u8>| {
            chunk.size = bytes.len() as u64;
            chunk.bytes = Cow::Owned(bytes);
        };
        fill(&mut self.image.chunks[self.got_chunk.0], vec![0; 8 * self.got.len()]);
        fill(&mut self.image.chunks[self.plt_chunk.0], stub.bytes.repeat(self.plt.len()));
        self.image
    }
}

/// The field that a relocation fills in.
fn fixup(kind: RelocationKind) -> FixupKind {
    match kind {
        RelocationKind::Abs64 => FixupKind::Absolute(Width::Word64),
        RelocationKind::Abs32 => FixupKind::Absolute(Width::Unsigned32),
        RelocationKind::Abs32Signed => FixupKind::Absolute(Width::Signed32),
        RelocationKind::Pc64 => FixupKind::Relative64,
        RelocationKind::Pc32 | RelocationKind::GotPc32 => FixupKind::Relative32,
        RelocationKind::Branch26 => FixupKind::Branch26,
        RelocationKind::Page21 | RelocationKind::GotPage21 => FixupKind::Page21,
        RelocationKind::Low12 { shift } => FixupKind::Low12 { shift },
        // Entries have eight bytes.
        RelocationKind::GotLow12 => FixupKind::Low12 { shift: 3 },
    }
}

fn empty<'a>(segment: Segment, output: &'a str) -> Chunk<'a> {
    let bytes = Cow::Borrowed(&[][..]);
    Chunk { segment, order: ChunkOrder::Section, output, align: 16, size: 0, bytes, address: 0 }
}
