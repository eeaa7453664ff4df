//! Functions that many kernels have, compiled once in a process and copied into each object.
//!
//! An object needs nothing of the process that compiled it, so such a function is part of it. Its
//! machine code does not depend on the kernel; what it refers to (texts, imports, functions like it) is
//! kept by name, and found again in the object that it is copied to.
//!
//! Decision: docs/decisions/0068-baseline-kernels.md

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use cranelift_codegen::Context;
use cranelift_codegen::binemit::{Addend, CodeOffset, Reloc};
use cranelift_codegen::ir::{Signature, Value};
use cranelift_module::{DataId, FuncId, Linkage, Module, ModuleReloc, ModuleRelocTarget};

use crate::effort::Effort;
use crate::emit::{Emitter, emitted};
use crate::error::{BaselineError, Result};
use crate::target;
use crate::unit::Unit;

/// The conditions of code: the features of the CPU that Cranelift knows, the effort, and the function's name.
type Key = (u16, Effort, String);

static CODE: LazyLock<Mutex<HashMap<Key, Arc<SharedCode>>>> = LazyLock::new(Mutex::default);

/// A compiled function.
struct SharedCode {
    signature: Signature,
    bytes: Vec<u8>,
    alignment: u64,
    references: Vec<Reference>,
    asm: String,
}

/// A place in a function's code that names something else.
struct Reference {
    offset: CodeOffset,
    kind: Reloc,
    to: Referent,
    addend: Addend,
}

/// The other side of a reference.
enum Referent {
    Shared(String),
    Import(String, Signature),
    Text(String),
}

impl<'f> Unit<'f> {
    /// The function `name`, which is the same in every kernel: `build` emits it, once in this process.
    pub fn shared(
        &mut self,
        name: &str,
        signature: Signature,
        build: impl FnOnce(&mut Emitter<'_, '_, 'f>, &[Value]) -> Result<()>,
    ) -> Result<FuncId> {
        if let Some(known) = self.copied.get(name) {
            return Ok(*known);
        }
        let key = self.key(name);
        let is_known = known().contains_key(&key);
        if !is_known {
            // In an object of its own, so that all copies are the same.
            let mut alone = Unit::new(self.func, self.cpu, self.effort, true)?;
            let code = alone.compile_shared(name, signature, build)?;
            known().insert(key, Arc::new(code));
        }
        self.copy(name)
    }

    fn key(&self, name: &str) -> Key {
        (target::feature_bits(self.cpu), self.effort, name.to_owned())
    }

    fn compile_shared(
        &mut self,
        name: &str,
        signature: Signature,
        build: impl FnOnce(&mut Emitter<'_, '_, 'f>, &[Value]) -> Result<()>,
    ) -> Result<SharedCode> {
        let (id, function) = emitted(self, name, Linkage::Local, signature.clone(), build)?;
        let mut context = Context::for_function(function);
        context.set_disasm(true);
        self.module.define_function(id, &mut context)?;
        let lost = || BaselineError::new(format!("no code of {name}"));
        let code = context.compiled_code().ok_or_else(lost)?;
        let relocations = code.buffer.relocs().iter();
        let references = relocations.map(|place| {
            let ModuleReloc { offset, kind, name, addend } =
                ModuleReloc::from_mach_reloc(place, &context.func, id);
            Ok(Reference { offset, kind, to: self.referent(&name)?, addend })
        });
        Ok(SharedCode {
            signature,
            bytes: code.code_buffer().to_vec(),
            alignment: u64::from(code.buffer.alignment),
            references: references.collect::<Result<_>>()?,
            asm: code.vcode.clone().unwrap_or_default(),
        })
    }

    /// The other side of a relocation of this object.
    fn referent(&self, to: &ModuleRelocTarget) -> Result<Referent> {
        let unknown = || BaselineError::new(format!("shared code refers to {to}"));
        let ModuleRelocTarget::User { namespace, index } = *to else { return Err(unknown()) };
        if namespace == 0 {
            let id = FuncId::from_u32(index);
            let declared = self.module.declarations().get_function_decl(id);
            let name = declared.linkage_name(id).into_owned();
            return match declared.linkage {
                Linkage::Import => Ok(Referent::Import(name, declared.signature.clone())),
                _ if self.copied.contains_key(&name) => Ok(Referent::Shared(name)),
                _ => Err(unknown()),
            };
        }
        let text = self.text_of(DataId::from_u32(index)).ok_or_else(unknown)?;
        Ok(Referent::Text(text.to_owned()))
    }

    /// Puts a function that has been compiled into this object.
    fn copy(&mut self, name: &str) -> Result<FuncId> {
        if let Some(known) = self.copied.get(name) {
            return Ok(*known);
        }
        let code = known().get(&self.key(name)).cloned();
        let code = code.ok_or_else(|| BaselineError::new(format!("no code of {name}")))?;
        let id = self.declare(name, Linkage::Local, &code.signature)?;
        self.copied.insert(name.to_owned(), id);
        let relocation = |reference: &Reference| {
            let name = match &reference.to {
                Referent::Shared(name) => self.copy(name)?.into(),
                Referent::Import(name, signature) => {
                    self.declare(name, Linkage::Import, signature)?.into()
                }
                Referent::Text(text) => self.text(text)?.into(),
            };
            let Reference { offset, kind, addend, .. } = *reference;
            Ok(ModuleReloc { offset, kind, name, addend })
        };
        let relocations = code.references.iter().map(relocation).collect::<Result<Vec<_>>>()?;
        self.module.define_function_bytes(id, code.alignment, &code.bytes, &relocations)?;
        self.add_asm(name, &code.asm);
        Ok(id)
    }
}

/// The functions compiled so far. A panic while one was added leaves the others as they are.
fn known() -> MutexGuard<'static, HashMap<Key, Arc<SharedCode>>> {
    CODE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use reflex_tir::builder::FuncBuilder;
    use reflex_tir::codegen::CpuTarget;
    use reflex_tir::{DType, PrimFunc, lower};

    use super::known;
    use crate::effort::Effort;
    use crate::{compile, compile_with_asm};

    fn kernel(name: &str, extent: i64) -> PrimFunc {
        let mut f = FuncBuilder::new(name);
        let x = f.input("x", DType::F32, vec![extent.into()]);
        f.output("compute", "y", DType::F32, vec![extent.into()], |f, i| f.at(x, i) + f.at(x, i));
        lower::lower(&f.finish())
    }

    #[test]
    fn kernels_have_copies_of_what_was_compiled_once() {
        let cpu = CpuTarget::host();
        let first = compile(&kernel("f", 4), &cpu).unwrap();
        let before = known().clone();
        let g = compile_with_asm(&kernel("g", 7), &cpu).unwrap().asm.unwrap_or_default();
        // Other tests of this process add functions too: those that g has are looked at, not all.
        let has = |name: &str| g.lines().any(|line| line.strip_suffix(':') == Some(name));
        let after = known().clone();
        let shared =
            after.iter().filter(|((_, effort, name), _)| *effort == Effort::Full && has(name));
        let shared: Vec<_> = shared.collect();
        assert!(!shared.is_empty(), "{g}");
        for (key, code) in shared {
            let compiled = before.get(key).is_some_and(|known| Arc::ptr_eq(known, code));
            assert!(compiled, "{} was compiled for g", key.2);
        }
        assert_eq!(compile(&kernel("f", 4), &cpu).unwrap().elf, first.elf);
        let asm = compile_with_asm(&kernel("f", 4), &cpu).unwrap().asm.unwrap_or_default();
        for function in ["reflex.check_tensors:", "reflex.fail.Digits:", "__tvm_ffi_f:"] {
            assert_eq!(asm.matches(function).count(), 1, "{function}");
        }
    }
}
