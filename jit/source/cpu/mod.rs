//! C around the bodies of CPU kernels: entry points, threads, workspaces.

mod index_checks;
mod packed_call;
mod packed_entry;
mod parallel;
mod prelude;
mod raw_entry;
mod workspace;

pub use raw_entry::written;
use reflex_tir::PrimFunc;
use reflex_tir::lower;
use reflex_tir::verify::{IrForm, verify};

use crate::dialect::Dialect;
use crate::error::{Result, SourceError};
use crate::helpers::Helpers;
use crate::names;
use crate::print::Printer;

/// The C text of functions in lowered form, each with its raw and packed entry.
pub fn module(funcs: &[PrimFunc]) -> Result<String> {
    let mut helpers = Helpers::new(Dialect::C);
    let mut bodies = String::new();
    for func in funcs {
        let named = |e: SourceError| SourceError::new(format!("{}: {e}", func.name));
        bodies.push_str(&function(func, &mut helpers).map_err(named)?);
    }
    let count = funcs.len();
    let kernels = if count == 1 { "a kernel".to_owned() } else { format!("{count} kernels") };
    Ok(format!("{}{}{}{bodies}", prelude::head(&kernels), prelude::entries(), helpers.text()))
}

fn function(func: &PrimFunc, helpers: &mut Helpers) -> Result<String> {
    if !names::is_identifier(&func.name) {
        return Err(SourceError::new(
            "the name is no identifier of C; give the kernel another one",
        ));
    }
    verify(func, IrForm::Lowered).map_err(|faults| {
        let list: Vec<String> = faults.iter().map(ToString::to_string).collect();
        SourceError::new(format!("not a lowered function: {}", list.join("; ")))
    })?;
    // Dot products of bfloat16 as fused multiply-adds without subnormals: the same bits.
    let func = lower::lower_bf16_dots(func);
    let raw = raw_entry::print(Printer::new(Dialect::C, &func, helpers))?;
    let packed = packed_entry::print(Printer::new(Dialect::C, &func, helpers))?;
    Ok(format!("\n{raw}\n{packed}"))
}

/// Leaves a function with a status that is not zero.
impl Printer<'_, '_> {
    /// Prints what leaves the function with `status`, releasing what it holds.
    pub(crate) fn leave(&mut self, status: &str) {
        let held: Vec<String> = self.workspaces.iter().rev().cloned().collect();
        for workspace in held {
            self.free_workspace(&workspace);
        }
        self.out.line(format!("return {status};"));
    }

    /// Leaves with `status` unless it is 0.
    pub(crate) fn check_status(&mut self, status: &str) {
        self.out.open(format!("if ({status} != 0)"));
        self.leave(status);
        self.out.close();
    }
}
