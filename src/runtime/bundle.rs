//! The import tree that a TVM library carries in `__tvm_ffi__library_bin`.
//!
//! The bytes list modules by kind, with the serialized form of each except `_lib`,
//! which stands for the library itself, and say which module imports which; module
//! 0 is the root. They come from a file and are checked before anything is believed.

use std::ops::Range;

use crate::error::Error;

/// The kind that stands for the library's own native code.
pub const LIBRARY_KIND: &str = "_lib";

/// Before a kind of module: the global function that makes one of such bytes.
pub const LOADER_PREFIX: &str = "ffi.Module.load_from_bytes.";

/// Modules and their imports.
///
/// ```
/// use reflex_runtime::bundle::Bundle;
/// let mut bytes = Vec::new();
/// for word in [2_u64, 0, 0, 0, 4] { // one module, without imports; a kind of 4 bytes
///     bytes.extend(word.to_le_bytes());
/// }
/// bytes.extend(b"_lib");
/// let bundle = Bundle::parse(&bytes).unwrap();
/// assert_eq!(bundle.modules()[0].kind, "_lib");
/// assert!(Bundle::parse(&bytes[1..]).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    modules: Vec<Module>,
}

/// One module of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// The kind of the module, such as `relax.VMExecutable`.
    pub kind: String,
    /// Where in the bundle its serialized form is; empty for [`LIBRARY_KIND`].
    pub bytes: Range<usize>,
    /// The modules it imports, by number.
    pub imports: Vec<usize>,
}

impl Bundle {
    /// Reads a bundle.
    pub fn parse(bytes: &[u8]) -> Result<Bundle, Error> {
        let mut reader = Reader { bytes, at: 0 };
        let starts = reader.words("import offsets")?;
        let children = reader.words("import list")?;
        let count = starts.len().checked_sub(1).ok_or_else(|| malformed("no modules", 0))?;
        if starts[0] != 0 || starts[count] != children.len() || !starts.is_sorted() {
            return Err(malformed("import offsets that do not fit the import list", 0));
        }
        if let Some(child) = children.iter().find(|child| **child >= count) {
            return Err(malformed(&format!("an import of module {child} of {count}"), 0));
        }
        let mut modules = Vec::new();
        for module in 0..count {
            let kind = reader.bytes("module kind")?;
            let kind = std::str::from_utf8(&bytes[kind.clone()])
                .map_err(|_| malformed("a module kind that is not UTF-8", kind.start))?
                .to_owned();
            let bytes =
                if kind == LIBRARY_KIND { 0..0 } else { reader.bytes("serialized module")? };
            let imports = children[starts[module]..starts[module + 1]].to_vec();
            modules.push(Module { kind, bytes, imports });
        }
        if reader.at != bytes.len() {
            return Err(malformed("bytes after the last module", reader.at));
        }
        let bundle = Bundle { modules };
        bundle.check_acyclic()?;
        Ok(bundle)
    }

    /// All modules; number 0 is the root.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The first module of a kind, in order of number.
    pub fn find(&self, kind: &str) -> Option<&Module> {
        self.modules.iter().find(|module| module.kind == kind)
    }

    /// Takes modules whose importers are all taken, until none is left.
    fn check_acyclic(&self) -> Result<(), Error> {
        let mut importers = vec![0_usize; self.modules.len()];
        for import in self.modules.iter().flat_map(|module| &module.imports) {
            importers[*import] += 1;
        }
        let mut ready: Vec<usize> = (0..importers.len()).filter(|at| importers[*at] == 0).collect();
        let mut taken = 0;
        while let Some(module) = ready.pop() {
            taken += 1;
            for import in &self.modules[module].imports {
                importers[*import] -= 1;
                if importers[*import] == 0 {
                    ready.push(*import);
                }
            }
        }
        if taken == importers.len() {
            Ok(())
        } else {
            Err(malformed("modules that import each other", 0))
        }
    }
}

#[cold]
fn malformed(what: &str, at: usize) -> Error {
    Error::value_error(format!("malformed library bundle: {what} (at byte {at})"))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn word(&mut self, what: &str) -> Result<usize, Error> {
        let word = self.bytes[self.at..].first_chunk::<8>();
        let word = word.ok_or_else(|| malformed(&format!("the end, in the {what}"), self.at))?;
        self.at += 8;
        usize::try_from(u64::from_le_bytes(*word)).map_err(|_| malformed(what, self.at - 8))
    }

    fn words(&mut self, what: &str) -> Result<Vec<usize>, Error> {
        let count = self.word(what)?;
        // Before anything of that size is allocated.
        if count > (self.bytes.len() - self.at) / 8 {
            return Err(malformed(&format!("{count} words of {what}, past the end"), self.at));
        }
        (0..count).map(|_| self.word(what)).collect()
    }

    fn bytes(&mut self, what: &str) -> Result<Range<usize>, Error> {
        let size = self.word(what)?;
        let start = self.at;
        match start.checked_add(size).filter(|end| *end <= self.bytes.len()) {
            Some(end) => {
                self.at = end;
                Ok(start..end)
            }
            None => Err(malformed(&format!("{size} bytes of {what}, past the end"), start)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(starts: &[u64], children: &[u64], modules: &[(&str, Option<&[u8]>)]) -> Vec<u8> {
        let mut out = Vec::new();
        for list in [starts, children] {
            out.extend((list.len() as u64).to_le_bytes());
            out.extend(list.iter().flat_map(|word| word.to_le_bytes()));
        }
        for (kind, bytes) in modules {
            for text in [Some(kind.as_bytes()), *bytes].into_iter().flatten() {
                out.extend((text.len() as u64).to_le_bytes());
                out.extend(text);
            }
        }
        out
    }

    fn typical() -> Vec<u8> {
        write(&[0, 1, 1], &[1], &[("relax.VMExecutable", Some(b"blob")), ("_lib", None)])
    }

    #[test]
    fn the_usual_tree_is_read() {
        let bytes = typical();
        let bundle = Bundle::parse(&bytes).unwrap();
        let root = &bundle.modules()[0];
        assert_eq!((root.kind.as_str(), &root.imports[..]), ("relax.VMExecutable", &[1][..]));
        assert_eq!(&bytes[root.bytes.clone()], b"blob");
        assert_eq!(bundle.find("_lib").unwrap().bytes, 0..0);
        assert!(bundle.find("cuda").is_none());
    }

    #[test]
    fn every_truncation_and_flip_is_refused_or_read() {
        let bytes = typical();
        for end in 0..bytes.len() {
            assert!(Bundle::parse(&bytes[..end]).is_err(), "{end}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                // Must not panic or overrun; most are errors.
                if let Ok(bundle) = Bundle::parse(&bad) {
                    assert!(bundle.modules().iter().all(|module| module.bytes.end <= bad.len()));
                }
            }
        }
    }

    #[test]
    fn cycles_and_strangers_are_refused() {
        let two = [("_lib", None), ("_lib", None)];
        for (starts, children) in [
            (&[0, 1, 2][..], &[1, 0][..]),
            (&[0, 1, 1], &[0]),
            (&[0, 1, 1], &[2]),
            (&[0, 2, 1], &[1]),
            (&[0, 1, 1], &[1, 1]),
            (&[], &[]),
        ] {
            assert!(Bundle::parse(&write(starts, children, &two)).is_err(), "{starts:?}");
        }
    }
}
