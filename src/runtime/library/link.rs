//! Links a library that is mapped: binds its symbols, and fills in every word that depends on the
//! addresses at which it and others are.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{CString, c_void};
use std::ops::Range;
use std::path::Path;

use super::elf_file::{Address, ElfFile, Functions, Relocation, Symbol};
use super::loading::Reason;
use super::machine;
use super::memory::Memory;
use super::system;
use crate::{backend, exports, host};

/// A library that is being linked.
pub(super) struct Linker<'l> {
    pub memory: &'l Memory,
    pub elf: &'l ElfFile<'l>,
    pub needed: Needed,
}

/// The value of a relocated word.
#[derive(Clone, Copy)]
enum Value {
    Is(usize),
    /// A function of the library computes it.
    From(usize),
}

/// Symbols that were looked for, by number.
#[derive(Default)]
struct Bound {
    values: HashMap<u32, Value>,
    missing: BTreeSet<String>,
}

impl Linker<'_> {
    /// Fills in every word that a relocation names.
    ///
    /// # Safety
    /// The library's code is trusted, and nothing else uses its writable memory.
    pub(super) unsafe fn relocate(&self, relocations: &[Relocation]) -> Result<(), Reason> {
        let bound = RefCell::default();
        let mut computed = vec![];
        for relocation in relocations {
            match self.value(relocation, &bound)? {
                None => {}
                // SAFETY: the caller vouches for the memory; the word is the library's own.
                Some(Value::Is(value)) => unsafe { self.memory.write(relocation.at, value)? },
                Some(Value::From(resolver)) => computed.push((relocation.at, resolver)),
            }
        }
        let missing = bound.into_inner().missing;
        if !missing.is_empty() {
            return Err(self.needed.explain(missing));
        }
        // Resolvers run when everything else is in place.
        for (at, resolver) in computed {
            // SAFETY: as above; resolvers are the library's code, which the caller trusts.
            unsafe { self.memory.write(at, machine::resolve(self.code(resolver)?))? };
        }
        Ok(())
    }

    /// The value for the word of a relocation; None if there is none, or nothing is found.
    fn value(
        &self,
        relocation: &Relocation,
        bound: &RefCell<Bound>,
    ) -> Result<Option<Value>, Reason> {
        let Relocation { kind, symbol, addend, .. } = *relocation;
        let plus = |value: usize| value.wrapping_add_signed(addend as isize);
        let base = self.memory.address(0);
        let with_addend = machine::WITH_ADDEND.contains(&kind);
        match kind {
            machine::NONE => return Ok(None),
            machine::RELATIVE => return Ok(Some(Value::Is(plus(base)))),
            machine::COMPUTED => return Ok(Some(Value::From(plus(base)))),
            kind if with_addend || machine::PLAIN.contains(&kind) => {}
            kind => return Err(format!("relocations of kind {} are not supported", kind.0)),
        }
        let Bound { values, missing } = &mut *bound.borrow_mut();
        let value = match values.get(&symbol) {
            Some(value) => *value,
            None => {
                let known = self.elf.symbol(symbol)?;
                let Some(value) = self.bind(&known) else {
                    missing.insert(known.name.to_owned());
                    return Ok(None);
                };
                values.insert(symbol, value);
                value
            }
        };
        Ok(Some(match value {
            Value::Is(value) if with_addend => Value::Is(plus(value)),
            value => value,
        }))
    }

    /// The value of a symbol, its own or another's; None if it is not found.
    fn bind(&self, symbol: &Symbol<'_>) -> Option<Value> {
        let value = match symbol.address {
            Some(Address::InLibrary(address)) => self.memory.address(address),
            Some(Address::Absolute(value)) => value as usize,
            None => {
                let found = self.needed.find(symbol);
                return found.or(symbol.weak.then_some(0)).map(Value::Is);
            }
        };
        Some(if symbol.indirect { Value::From(value) } else { Value::Is(value) })
    }

    fn code(&self, address: usize) -> Result<usize, Reason> {
        let wrong = || "it names a function that is not among its code".to_owned();
        self.memory.is_code(address).then_some(address).ok_or_else(wrong)
    }

    /// The addresses of functions that the loader calls: the single one, then those of the array,
    /// whose words are relocated.
    pub(super) fn functions(&self, functions: &Functions) -> Result<Vec<usize>, Reason> {
        const NONE: [usize; 2] = [0, usize::MAX];
        let Range { start, end } = functions.array;
        let single = functions.single.map(|address| self.memory.address(address));
        let mut all: Vec<usize> = single.into_iter().collect();
        for word in (start..end).step_by(size_of::<usize>()) {
            let function = self.memory.read(word);
            let function = function.ok_or("its initialisers lie outside its segments")?;
            if !NONE.contains(&function) {
                all.push(function);
            }
        }
        all.into_iter().map(|function| self.code(function)).collect()
    }
}

/// The libraries that one needs.
pub(super) struct Needed {
    handles: Vec<system::Handle>,
    /// Why others could not be opened: no fault as long as every symbol is found.
    failures: Vec<Reason>,
}

impl Needed {
    /// Opens what the library at `path` names.
    pub(super) fn open(elf: &ElfFile<'_>, path: &Path) -> Result<Needed, Reason> {
        let mut needed = Needed { handles: vec![], failures: vec![] };
        let folder = path.parent().unwrap_or(Path::new(".")).to_string_lossy();
        let search = elf.search_path()?.unwrap_or_default();
        for name in elf.needed()? {
            let folders = search.split(':').filter(|part| !part.is_empty() && !name.contains('/'));
            let paths = folders.map(|part| {
                let part = part.replace("${ORIGIN}", &folder).replace("$ORIGIN", &folder);
                format!("{part}/{name}")
            });
            let there = paths.filter(|path| Path::new(path).exists());
            let mut opened = there.chain([name.to_owned()]).map(|path| system::Handle::open(&path));
            match opened.find_map(Result::ok) {
                Some(handle) => needed.handles.push(handle),
                None => needed.failures.extend(system::Handle::open(name).err()),
            }
        }
        Ok(needed)
    }

    /// The open ones.
    pub(super) fn into_handles(self) -> Vec<system::Handle> {
        self.handles
    }

    /// The address that other code defines under the name of a symbol. The functions that kernels
    /// call with their library's context are ours; the rest of tvm-ffi's is that of the library that
    /// came before us, if one did.
    fn find(&self, symbol: &Symbol<'_>) -> Option<usize> {
        let own = |table: Option<*mut c_void>| table.map(|address| address.addr());
        if let Some(address) = own(backend::address_of(symbol.name)) {
            return Some(address);
        }
        let name = CString::new(symbol.name).ok()?;
        let version = symbol.version.and_then(|version| CString::new(version).ok());
        let version = version.as_deref();
        let global = || system::Handle::global()?.symbol(&name, version);
        let ours = || own(exports::address_of(symbol.name));
        let elsewhere = || self.handles.iter().find_map(|it| it.symbol(&name, version));
        match host::get() {
            Some(_) => global().or_else(ours),
            None => ours().or_else(global),
        }
        .or_else(elsewhere)
    }

    fn explain(&self, missing: BTreeSet<String>) -> Reason {
        let names = missing.into_iter().collect::<Vec<_>>().join(", ");
        let mut reason = format!("nothing defines what it calls: {names}");
        for failure in &self.failures {
            reason += &format!("; {failure}");
        }
        reason
    }
}
