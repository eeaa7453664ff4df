//! The raw entry: data pointers and 64-bit values in, status out. Of its arguments only the
//! elements of index tensors are checked.

use cranelift_codegen::ir::{InstBuilder, types};
use cranelift_module::{FuncId, Linkage};
use reflex_tir::{Buffer, abi};

use crate::emit::define;
use crate::emit::value::LaneValue;
use crate::error::Result;
use crate::unit::{POINTER, Unit};

/// Emits the raw entry, which holds the kernel's body.
pub fn build(unit: &mut Unit<'_>) -> Result<FuncId> {
    let func = unit.func;
    let buffers: Vec<Buffer> = func.buffer_params().collect();
    let vars = abi::scalar_vars(func);
    let params = vec![POINTER; buffers.len() + vars.len()];
    let signature = Unit::signature(&params, &[types::I32]);
    let name = format!("{}{}", abi::RAW_PREFIX, func.name);
    // A function that a kernel calls may call the session that runs it, which tiers that call raw entries
    // do not expect.
    let linkage = if func.calls_packed() { Linkage::Local } else { Linkage::Export };
    define(unit, &name, linkage, signature, |e, params| {
        let (pointers, words) = params.split_at(buffers.len());
        e.buffers.extend(buffers.iter().copied().zip(pointers.iter().copied()));
        for (var, word) in vars.iter().zip(words) {
            let value = e.scalar_from_word(*word, func.vars[*var].dtype)?;
            e.vars.insert(*var, LaneValue::Uniform(value));
        }
        for check in &func.checks {
            e.check_indices(check)?;
        }
        e.stmt(&func.body)?;
        let zero = e.i32(0);
        e.b.ins().return_(&[zero]);
        Ok(())
    })
}
