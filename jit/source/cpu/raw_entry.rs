//! The raw entry: data pointers and 64-bit values in, status out. Of its arguments only the
//! elements of index tensors are checked.

use std::collections::HashSet;

use reflex_tir::{Buffer, Stmt, abi};

use crate::error::Result;
use crate::print::Printer;

/// The buffers that a statement writes, or hands to a function that may.
pub fn written(body: &Stmt) -> HashSet<Buffer> {
    let mut found = HashSet::new();
    body.visit(&mut |s| match s {
        Stmt::Store { buffer, .. } => drop(found.insert(*buffer)),
        Stmt::CallPacked(call) => found.extend(call.tensors()),
        Stmt::Tile(tile) => drop(found.insert(tile.written())),
        _ => {}
    });
    found
}

/// Prints the raw entry, which holds the kernel's body, behind the functions of its parallel loops.
pub fn print(mut p: Printer<'_, '_>) -> Result<String> {
    let func = p.func;
    let written = written(&func.body);
    let mut params = vec![];
    for buffer in func.buffer_params() {
        let data = &func.buffers[buffer];
        let name = p.names.declare(&data.name);
        let word = p.stored_word(data.dtype)?;
        let constant = if written.contains(&buffer) { "" } else { "const " };
        let restrict = if func.is_unaliased(buffer) { "restrict " } else { "" };
        params.push(format!("{constant}{word} *{restrict}{name}"));
        p.buffers.insert(buffer, name);
    }
    let explicit = func.params.len() - params.len();
    let mut words = vec![];
    for (number, var) in abi::scalar_vars(func).into_iter().enumerate() {
        let dtype = func.vars[var].dtype;
        if dtype == reflex_tir::DType::I64 {
            let name = p.declare(var);
            params.push(format!("int64_t {name}"));
            if number >= explicit {
                p.positions.insert(var);
            }
        } else {
            let word = p.names.declare(&format!("{}_word", func.vars[var].name));
            params.push(format!("int64_t {word}"));
            words.push((var, word));
        }
    }
    let params = if params.is_empty() { "void".to_owned() } else { params.join(", ") };
    // A function that a kernel calls may call the session that runs it, which tiers that call raw entries do not
    // expect.
    let linkage = if func.calls_packed() { "static " } else { "" };
    let name = format!("{}{}", abi::RAW_PREFIX, func.name);
    p.out.open(format!("{linkage}int32_t {name}({params})"));
    for (var, word) in words {
        let value = p.value_of_word(&word, func.vars[var].dtype)?;
        let ty = p.value_word(func.vars[var].dtype)?;
        let name = p.declare(var);
        p.out.line(format!("const {ty} {name} = {};", value.as_str()));
    }
    for check in &func.checks {
        p.check_indices(check)?;
    }
    p.block(&func.body)?;
    p.out.line("return 0;");
    p.out.close();
    Ok(format!("{}{}", p.parts, p.out.take()))
}
