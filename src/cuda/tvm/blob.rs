//! The serialized form of TVM's device modules, read as hostile input: a format, what each function
//! takes and how it is launched, and the code.

use std::collections::HashSet;

use reflex_runtime::error::Error;

/// The kind of code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    /// A text that the driver compiles.
    Ptx,
    /// Machine code for one architecture.
    Cubin,
    /// Code for several, of which the driver takes one.
    Fatbin,
    /// CUDA C++.
    Source,
}

impl Format {
    const ALL: [Format; 4] = [Format::Ptx, Format::Cubin, Format::Fatbin, Format::Source];

    /// Its name in a file.
    pub(super) fn name(self) -> &'static str {
        match self {
            Format::Ptx => "ptx",
            Format::Cubin => "cubin",
            Format::Fatbin => "fatbin",
            Format::Source => "cuda",
        }
    }
}

/// The type of a kernel's parameter, as it is made from an argument of a packed call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Param {
    /// An address of the device.
    Address,
    /// An integer of 64 bits.
    Int64,
    /// An integer of 32 bits, with a sign or without.
    Int32,
    /// A float of 64 bits.
    Float64,
    /// A float of 32 bits.
    Float32,
}

impl Param {
    fn of([code, bits, lanes @ ..]: [u8; 4]) -> Option<Param> {
        use reflex_runtime::dtype::code;
        match (code, bits, u16::from_le_bytes(lanes)) {
            (code::HANDLE, _, 1) => Some(Param::Address),
            (code::INT, 64, 1) => Some(Param::Int64),
            (code::INT | code::UINT, 32, 1) => Some(Param::Int32),
            (code::FLOAT, 64, 1) => Some(Param::Float64),
            (code::FLOAT, 32, 1) => Some(Param::Float32),
            _ => None,
        }
    }

    /// Its size in a kernel's parameters.
    pub(super) fn bytes(self) -> usize {
        match self {
            Param::Address | Param::Int64 | Param::Float64 => 8,
            Param::Int32 | Param::Float32 => 4,
        }
    }
}

/// A size of a launch: of the grid or of a block, along x, y or z.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Extent {
    Grid(usize),
    Block(usize),
}

/// A kernel, and the arguments of its packed call: parameters, extents, and bytes of dynamic shared memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) params: Vec<Param>,
    pub(super) extents: Vec<Extent>,
    pub(super) has_dynamic_shared: bool,
}

/// A module as it was serialized.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Blob<'a> {
    pub(super) format: Format,
    pub(super) entries: Vec<Entry>,
    pub(super) code: &'a [u8],
}

impl Blob<'_> {
    pub(super) fn read(bytes: &[u8]) -> Result<Blob<'_>, Error> {
        let mut reader = Reader { bytes, at: 0 };
        let name = reader.text()?;
        let format = Format::ALL.into_iter().find(|format| format.name() == name);
        let format = format.ok_or_else(|| {
            fault(&format!("code of the format {name:?}; there are ptx, cubin, fatbin and cuda"))
        })?;
        let mut seen = HashSet::new();
        let mut entries = vec![];
        for _ in 0..reader.count(8)? {
            let entry = reader.entry()?;
            if !seen.insert(entry.name.clone()) {
                return Err(fault(&format!("two functions `{}`", entry.name)));
            }
            entries.push(entry);
        }
        let code = reader.sized()?;
        if reader.at != bytes.len() {
            return Err(fault(&format!("bytes after its code, at byte {}", reader.at)));
        }
        Ok(Blob { format, entries, code })
    }
}

/// The error that a module has something that it may not have.
#[cold]
pub(super) fn fault(what: &str) -> Error {
    Error::value_error(format!("a module of kind cuda has {what}"))
}

/// Reads values off bytes.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, size: usize) -> Result<&'a [u8], Error> {
        let end = self.at.checked_add(size).filter(|end| *end <= self.bytes.len());
        let end =
            end.ok_or_else(|| fault(&format!("its end too early, after byte {}", self.at)))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        Ok(self.take(N)?.try_into().expect("so many bytes were taken"))
    }

    /// A number of items, each of which takes so many bytes or more.
    fn count(&mut self, item: usize) -> Result<usize, Error> {
        let (at, count) = (self.at, u64::from_le_bytes(self.array()?));
        let left = (self.bytes.len() - self.at) / item;
        let fits = usize::try_from(count).ok().filter(|count| *count <= left);
        fits.ok_or_else(|| fault(&format!("{count} items at byte {at}, more than there are")))
    }

    fn sized(&mut self) -> Result<&'a [u8], Error> {
        let size = self.count(1)?;
        self.take(size)
    }

    fn text(&mut self) -> Result<&'a str, Error> {
        let at = self.at;
        let text = std::str::from_utf8(self.sized()?);
        text.map_err(|_| fault(&format!("a name that is not UTF-8, at byte {at}")))
    }

    fn entry(&mut self) -> Result<Entry, Error> {
        let name = self.text()?.to_owned();
        let of = |what: String| fault(&format!("function `{name}` with {what}"));
        let own = self.text()?;
        if own != name {
            return Err(of(format!("another name, `{own}`")));
        }
        let mut params = vec![];
        for n in 0..self.count(4)? {
            let dtype = self.array()?;
            let param = Param::of(dtype);
            params.push(param.ok_or_else(|| of(format!("parameter {n} of the type {dtype:?}")))?);
        }
        let (mut extents, mut has_dynamic_shared) = (vec![], false);
        for _ in 0..self.count(8)? {
            let tag = self.text()?;
            if has_dynamic_shared {
                return Err(of(format!("launch parameter `{tag}` after the shared memory")));
            }
            match tag {
                "tirx.use_dyn_shared_memory" | "tir.use_dyn_shared_memory" => {
                    has_dynamic_shared = true;
                }
                // Allows the launch to begin early; that it need not is part of its meaning.
                "tirx.use_programtic_dependent_launch" | "tir.use_programtic_dependent_launch" => {}
                tag => {
                    let extent = extent(tag);
                    let extent = extent.ok_or_else(|| of(format!("launch parameter `{tag}`")))?;
                    if extents.contains(&extent) {
                        return Err(of(format!("two launch parameters `{tag}`")));
                    }
                    extents.push(extent);
                }
            }
        }
        let count = self.count(4)?;
        if count > params.len() {
            return Err(of(format!("{count} tags for {} parameters", params.len())));
        }
        for n in 0..count {
            match i32::from_le_bytes(self.array()?) {
                0 => {}
                1 => return Err(of(format!("a tensor map as parameter {n}"))),
                tag => return Err(of(format!("tag {tag} for parameter {n}"))),
            }
        }
        Ok(Entry { name, params, extents, has_dynamic_shared })
    }
}

fn extent(tag: &str) -> Option<Extent> {
    let (which, axis) = tag.split_once('.')?;
    let axis = ["x", "y", "z"].iter().position(|known| *known == axis)?;
    match which {
        "blockIdx" => Some(Extent::Grid(axis)),
        "threadIdx" => Some(Extent::Block(axis)),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::tvm) fn text(out: &mut Vec<u8>, text: &str) {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    }

    /// A module with one function, as TVM serializes it.
    pub(in crate::tvm) fn serialized(
        format: &str,
        names: [&str; 2],
        types: &[[u8; 4]],
        tags: &[&str],
        extra: &[i32],
        code: &str,
    ) -> Vec<u8> {
        let mut out = vec![];
        text(&mut out, format);
        out.extend(1_u64.to_le_bytes());
        names.iter().for_each(|name| text(&mut out, name));
        out.extend((types.len() as u64).to_le_bytes());
        out.extend(types.concat());
        out.extend((tags.len() as u64).to_le_bytes());
        tags.iter().for_each(|tag| text(&mut out, tag));
        out.extend((extra.len() as u64).to_le_bytes());
        out.extend(extra.iter().flat_map(|tag| tag.to_le_bytes()));
        text(&mut out, code);
        out
    }

    const HANDLE: [u8; 4] = [3, 64, 1, 0];
    const INT32: [u8; 4] = [0, 32, 1, 0];
    const NAMES: [&str; 2] = ["k", "k"];

    #[test]
    fn a_module_is_read() {
        let tags = ["blockIdx.y", "threadIdx.x", "tirx.use_dyn_shared_memory"];
        let bytes = serialized("ptx", NAMES, &[HANDLE, INT32], &tags, &[0, 0], "text");
        let blob = Blob::read(&bytes).unwrap();
        assert_eq!((blob.format, blob.code), (Format::Ptx, &b"text"[..]));
        let entry = &blob.entries[0];
        assert_eq!(entry.params, [Param::Address, Param::Int32]);
        assert_eq!(entry.extents, [Extent::Grid(1), Extent::Block(0)]);
        assert!(entry.has_dynamic_shared && entry.name == "k");
        for tags in [&["tirx.use_programtic_dependent_launch"][..], &[]] {
            let bytes = serialized("cubin", NAMES, &[], tags, &[], "");
            assert_eq!(Blob::read(&bytes).unwrap().entries[0].extents, []);
        }
    }

    #[test]
    fn what_may_not_be_is_named() {
        let said = |bytes: Vec<u8>| Blob::read(&bytes).unwrap_err().message().into_owned();
        let one = |types: &[[u8; 4]], tags: &[&str], extra: &[i32]| {
            said(serialized("ptx", NAMES, types, tags, extra, ""))
        };
        for (said, words) in [
            (said(serialized("spirv", NAMES, &[], &[], &[], "")), "the format \"spirv\""),
            (said(serialized("ptx", ["k", "j"], &[], &[], &[], "")), "`k` with another name, `j`"),
            (one(&[[2, 16, 1, 0]], &[], &[]), "`k` with parameter 0 of the type [2, 16, 1, 0]"),
            (one(&[[0, 32, 4, 0]], &[], &[]), "parameter 0 of the type"),
            (one(&[], &["clusterCtaIdx.x"], &[]), "launch parameter `clusterCtaIdx.x`"),
            (one(&[], &["blockIdx.w"], &[]), "launch parameter `blockIdx.w`"),
            (one(&[], &["tirx.use_cooperative_launch"], &[]), "`tirx.use_cooperative_launch`"),
            (one(&[], &["blockIdx.x", "blockIdx.x"], &[]), "two launch parameters `blockIdx.x`"),
            (
                one(&[], &["tirx.use_dyn_shared_memory", "blockIdx.x"], &[]),
                "`blockIdx.x` after the shared memory",
            ),
            (one(&[HANDLE], &[], &[1]), "a tensor map as parameter 0"),
            (one(&[HANDLE], &[], &[7]), "tag 7 for parameter 0"),
            (one(&[HANDLE], &[], &[0, 0]), "2 tags for 1 parameters"),
        ] {
            assert!(said.contains(words) && said.starts_with("a module of kind cuda"), "{said}");
        }
        let mut twice = serialized("ptx", NAMES, &[], &[], &[], "");
        let entry = twice[19..twice.len() - 8].to_vec();
        twice[11] = 2;
        twice.splice(19..19, entry);
        assert!(said(twice).contains("two functions `k`"));
    }

    #[test]
    fn every_truncation_and_flip_is_refused_or_read() {
        let tags = ["blockIdx.x", "threadIdx.x", "tirx.use_dyn_shared_memory"];
        let bytes = serialized("fatbin", NAMES, &[HANDLE, INT32], &tags, &[0, 0], "code");
        for end in 0..bytes.len() {
            assert!(Blob::read(&bytes[..end]).is_err(), "{end}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                drop(Blob::read(&bad));
            }
        }
        let longer = [&bytes[..], b"x"].concat();
        let said = Blob::read(&longer).unwrap_err();
        assert!(said.message().contains("bytes after its code"), "{said}");
    }
}
