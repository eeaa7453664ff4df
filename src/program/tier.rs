//! The tier that compiles hot VM functions of one program.

use std::sync::Arc;

use reflex_cranelift::{CraneliftTier, Disassemble, JitError, SavedCodeError};
use reflex_vm::executable::Executable;
use reflex_vm::load::Library;
use reflex_vm::program::Program;
use reflex_vm::session::Session;
use reflex_vm::tier::Tier;
use reflex_vm::verify::Verified;

use crate::error::{Error, ErrorKind, Result};
use crate::tier_policy::{SavedCode, TierPolicy};
use crate::tier_report::{TierDetail, TierReport};

/// The code generator of a program, and the state of the artifact's saved code.
pub(crate) struct ProgramTier {
    cranelift: SessionTier,
    saved_code: Option<std::result::Result<(), SavedCodeError>>,
}

/// A program's tier, as its sessions see it.
#[derive(Clone)]
pub(crate) struct SessionTier(Arc<CraneliftTier>);

impl SessionTier {
    /// Returns a number that changes when the tier records, compiles or evicts something.
    pub(crate) fn progress(&self) -> usize {
        self.0.progress()
    }

    /// Returns the arrivals that make a site hot.
    pub(crate) fn hot_threshold(&self) -> u32 {
        self.0.hot_threshold()
    }

    /// Waits for what is being compiled.
    pub(crate) fn wait(&self) {
        self.0.wait();
    }
}

impl ProgramTier {
    /// Whether this build has one.
    pub(crate) const IS_BUILT: bool = true;

    /// Makes the tier of a program and attaches it. Saved code runs from then on.
    pub(crate) fn attach(
        vm: &Program,
        policy: &TierPolicy,
        saved_code: Option<&[u8]>,
    ) -> std::result::Result<ProgramTier, String> {
        let make = || -> std::result::Result<_, JitError> {
            match saved_code.filter(|_| policy.saved_code == SavedCode::Use) {
                None => Ok((CraneliftTier::with_options(policy.options())?, None)),
                Some(code) => {
                    let tier = CraneliftTier::with_saved_code(policy.options(), vm, code)?;
                    Ok((tier.0, Some(tier.1)))
                }
            }
        };
        let (tier, saved_code) = make().map_err(|e| e.to_string())?;
        let tier = Arc::new(tier);
        vm.attach(tier.clone());
        tier.install_saved_code(vm);
        Ok(ProgramTier { cranelift: SessionTier(tier), saved_code })
    }

    pub(crate) fn of_session(&self) -> SessionTier {
        self.cranelift.clone()
    }

    /// The state of the artifact's saved code, in words.
    pub(crate) fn saved_code_state(&self, vm: &Program) -> String {
        match &self.saved_code {
            None => "not used, by the tier policy".to_owned(),
            Some(Err(error)) => format!("not used, since {error}"),
            Some(Ok(())) => {
                let (functions, bytes) = self.cranelift.0.saved_functions(vm);
                format!("{functions} functions, {bytes} bytes")
            }
        }
    }

    /// Reports the code of a program, with the counts of a session if one is given.
    pub(crate) fn report(
        &self,
        vm: &Program,
        session: Option<&Session>,
        detail: TierDetail,
    ) -> TierReport {
        let show: Option<Disassemble<'_>> = (detail == TierDetail::Code).then_some(&assembly);
        let code = self.cranelift.0.overview(vm, session, show);
        let unused =
            self.saved_code.as_ref().and_then(|fits| Some(fits.as_ref().err()?.to_string()));
        TierReport { off: false, code: Some(code), specialised: None, saved_code_unused: unused }
    }
}

/// Machine code of the functions of an executable that is linked to libraries, for an artifact.
#[cfg(feature = "compiler")]
pub(crate) fn machine_code(
    exec: Verified<Executable>,
    libraries: &[&dyn Library],
) -> Result<Option<Vec<u8>>> {
    let failed = |e: &dyn std::fmt::Display| Error::new(ErrorKind::Compile, e.to_string());
    let vm = Program::load(exec, libraries).map_err(|e| failed(&e))?;
    let tier = CraneliftTier::new().map_err(|e| failed(&e))?;
    let (code, _) = tier.save_code(&vm).map_err(|e| failed(&e))?;
    Ok(Some(code))
}

#[cfg(feature = "disassembly")]
fn assembly(code: &[u8], address: usize) -> String {
    use reflex_tir::codegen::Arch;

    if Arch::HOST != Arch::X86_64 {
        let host = Arch::HOST;
        return format!("{} bytes at {address:x}: assembly of {host} is not shown\n", code.len());
    }
    let mut text = String::new();
    crate::disassemble::function(&mut text, code, address as u64);
    text
}

#[cfg(not(feature = "disassembly"))]
fn assembly(code: &[u8], address: usize) -> String {
    let error = crate::error::lacks("disassembly");
    format!("{} bytes at {address:x}: {error}\n", code.len())
}
