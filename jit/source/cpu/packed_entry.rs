//! The packed entry: checks every argument, then calls the raw entry.
//!
//! Messages are those that the other code generators' kernels have. A symbolic dimension takes the first dimension it
//! meets; later ones, and expressions over symbols, must agree.

use reflex_runtime::abi::type_index;
use reflex_tir::{Buffer, Param, Var, abi};

use crate::error::{Result, SourceError};
use crate::names::literal;
use crate::print::Printer;

/// Prints the packed entry.
pub fn print(mut p: Printer<'_, '_>) -> Result<String> {
    let func = p.func;
    let count = func.params.len();
    let name = format!("{}{}", abi::PACKED_PREFIX, func.name);
    let signature = "void *self, const rf_any *args, int32_t count, rf_any *result";
    p.out.open(format!("int32_t {name}({signature})"));
    p.out.line("(void)self; (void)result; (void)args;");
    let (wrong, of) = (
        literal(&format!("expected {count} arguments, got ")),
        literal(&format!("{}: ", func.name)),
    );
    p.out.line(format!(
        "if (count != {count}) return rf_fail_number(\"TypeError\", {of}, {wrong}, count);"
    ));
    let tensors = func.buffer_params().count();
    if tensors > 0 {
        p.out.line(format!("const rf_tensor *tensors[{tensors}];"));
        p.out.line(format!("void *pointers[{tensors}];"));
        p.out.line("int32_t wrong;");
    }
    p.names.declare("tensors");
    p.names.declare("pointers");
    p.names.declare("wrong");
    let mut found: Vec<(Buffer, usize)> = vec![];
    let mut words = vec![];
    for (i, param) in func.params.iter().enumerate() {
        match param {
            Param::Scalar(var) => words.push(p.scalar_arg(i, *var)?),
            Param::Buffer(buffer) => {
                p.tensor_arg(i, found.len(), *buffer)?;
                found.push((*buffer, i));
            }
        }
    }
    p.check_shapes(&found)?;
    let mut operands: Vec<String> = vec![];
    for (at, (buffer, _)) in found.iter().enumerate() {
        let word = p.stored_word(func.buffers[*buffer].dtype)?;
        operands.push(format!("({word} *)pointers[{at}]"));
    }
    operands.extend(words.iter().cloned());
    for var in abi::scalar_vars(func).iter().skip(words.len()) {
        let missing = || SourceError::new("a symbolic dimension has no extent to come from");
        operands.push(p.vars.get(var).ok_or_else(missing)?.clone());
    }
    p.out.line(format!("return {}{}({});", abi::RAW_PREFIX, func.name, operands.join(", ")));
    p.out.close();
    Ok(p.out.take())
}

impl Printer<'_, '_> {
    fn prefix(&self, i: usize, name: &str) -> String {
        literal(&format!("{}: argument {i} ({name}): ", self.func.name))
    }

    /// Checks a scalar. Returns the word that the raw entry takes.
    fn scalar_arg(&mut self, i: usize, var: Var) -> Result<String> {
        let data = &self.func.vars[var];
        let (dtype, prefix) = (data.dtype, self.prefix(i, &data.name));
        let (int, boolean) = (type_index::INT, type_index::BOOL);
        let kind = format!("args[{i}].type_index");
        let integral = format!("{kind} != {int} && {kind} != {boolean}");
        let float = type_index::FLOAT;
        let refused = match dtype.is_float() {
            true => format!("{integral} && {kind} != {float}"),
            false => integral,
        };
        let expected = literal(&format!("expected a scalar {dtype}, got "));
        self.out.line(format!("if ({refused}) return rf_fail_kind({prefix}, {expected}, {kind});"));
        let word = self.names.declare(&format!("{}_word", data.name));
        let payload = format!("args[{i}].payload.word");
        let value = match dtype.is_float() {
            true => {
                self.helpers.plain("double")?;
                format!(
                    "{kind} == {float} ? {payload} : (int64_t)rf_double_bits((double){payload})"
                )
            }
            false => payload,
        };
        self.out.line(format!("const int64_t {word} = {value};"));
        let value = self.value_of_word(&word, dtype)?;
        let ty = self.value_word(dtype)?;
        let name = self.declare(var);
        self.out.line(format!("const {ty} {name} = {};", value.as_str()));
        // Only expressions over symbols may need it.
        self.out.line(format!("(void){name};"));
        Ok(word)
    }

    /// Checks a tensor, and binds symbolic dimensions at their first appearance.
    fn tensor_arg(&mut self, i: usize, at: usize, buffer: Buffer) -> Result<()> {
        let data = &self.func.buffers[buffer];
        let (prefix, rank) = (self.prefix(i, &data.name), data.shape.len());
        let extents: Vec<String> =
            data.shape.iter().map(|e| e.as_int().unwrap_or(-1).to_string()).collect();
        let extents = match rank {
            0 => "0".to_owned(),
            _ => format!("(const int64_t[]){{ {} }}", extents.join(", ")),
        };
        let expected = literal(&format!("expected dtype {}, got ", data.dtype));
        let ranks = literal(&format!("expected {rank} dimensions, got "));
        let dtype = data.dtype.to_bits() as u32;
        self.out.line(format!(
            "wrong = rf_tensor_arg(&args[{i}], {prefix}, {rank}, {dtype:#x}u, {expected}, {ranks}, {extents}, &tensors[{at}], &pointers[{at}]);"
        ));
        self.out.line("if (wrong != 0) return wrong;");
        for (d, extent) in data.shape.iter().enumerate() {
            if let Some(var) = extent.as_var().filter(|var| !self.vars.contains_key(var)) {
                let name = self.declare(var);
                self.positions.insert(var);
                self.out.line(format!("const int64_t {name} = tensors[{at}]->shape[{d}];"));
            }
        }
        Ok(())
    }

    /// Checks dimensions that repeat a symbol or are expressions over symbols.
    fn check_shapes(&mut self, found: &[(Buffer, usize)]) -> Result<()> {
        let mut bound = std::collections::HashSet::new();
        for (at, (buffer, i)) in found.iter().enumerate() {
            let data = &self.func.buffers[*buffer];
            let prefix = self.prefix(*i, &data.name);
            for (d, extent) in data.shape.iter().enumerate() {
                let first = extent.as_var().is_some_and(|var| {
                    let is_scalar = self.func.params.contains(&Param::Scalar(var));
                    !is_scalar && bound.insert(var)
                });
                if extent.as_int().is_some() || first {
                    continue;
                }
                let expected = self.expr(extent)?;
                let (expected, given) = (expected.as_str(), format!("tensors[{at}]->shape[{d}]"));
                let text = literal(&format!("dimension {d}: expected "));
                self.out.line(format!(
                    "if ({given} != ({expected})) return rf_fail_expected({prefix}, {text}, {expected}, {given});"
                ));
            }
        }
        Ok(())
    }
}
