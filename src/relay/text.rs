//! The listing of an executable's functions, as `Executable.bytecode` of TVM prints it, and its reader.
//!
//! A line has the opcode and the fields of an instruction in numbers and, behind `#`, the same in
//! words. The numbers are read; words that say something else are an error.

use std::fmt::Write;

use crate::executable::{Dialect, Executable, Function};
use crate::instr::Instr;
use crate::print::Printed;

/// Width of an instruction in numbers.
const NUMBERS: usize = 40;
/// The line above the instructions of a function.
const COLUMNS: &str = "opcode, fields # inst(text):";

/// Prints the functions.
///
/// The size register of a storage with a shape is 0, where TVM prints a pointer of its process.
pub fn listing(exec: &Executable) -> String {
    let mut out = String::new();
    for (index, function) in exec.functions.iter().enumerate() {
        let Function { name, registers, params, code, .. } = function;
        let _ = writeln!(out, "VM Function[{index}]: {name}({})", params.join(", "));
        let _ = writeln!(out, "# reg file size = {registers}");
        let _ = writeln!(out, "# instruction count = {}", code.len());
        let _ = writeln!(out, "{COLUMNS}");
        for (at, instr) in code.iter().enumerate() {
            let mut line = format!("{at:2}: {} ", instr.opcode());
            for field in instr.fields(exec.dialect) {
                let _ = write!(line, "{field} ");
            }
            let _ = writeln!(out, "{line:NUMBERS$}  # {}", Printed(instr, exec.dialect));
        }
        out.push('\n');
    }
    out
}

/// Prints the tables that the listing refers to by number: devices, kernels and constants.
pub fn tables(exec: &Executable) -> String {
    let mut out = String::new();
    for (index, device) in exec.devices.iter().enumerate() {
        let (kind, id, scope) = (device.kind, device.id, &device.scope);
        let _ = writeln!(
            out,
            "VM VirtualDevice[{index}]: device type {kind}, id {id} and mem_scope {scope}"
        );
    }
    for (index, name) in exec.primitives.iter().enumerate() {
        let _ = writeln!(out, "VM PackedFunc[{index}]: {name}");
    }
    for (index, constant) in exec.constants.iter().enumerate() {
        let text = match constant {
            crate::executable::Constant::Tensor(t) => format!("{}{:?}", t.dtype, t.shape),
            crate::executable::Constant::Late(name) => format!("late-bound {name}"),
        };
        let device = exec.constant_devices.get(index).copied().unwrap_or_default();
        let _ = writeln!(out, "VM Const[{index}]: {text} on device index {device}");
    }
    out
}

/// Why a text is not a listing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a listing of a Relay executable: line {line}: {reason}")]
pub struct TextError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The mistake there.
    pub reason: String,
}

/// Reads the functions of a listing, whose parameters are on the first device.
pub fn parse(text: &str, dialect: Dialect) -> Result<Vec<Function>, TextError> {
    let mut lines = Lines { lines: text.lines().enumerate(), at: 0 };
    let mut functions = Vec::new();
    while let Some(line) = lines.next_filled() {
        functions.push(function(&mut lines, line, dialect, functions.len())?);
    }
    Ok(functions)
}

struct Lines<'t> {
    lines: std::iter::Enumerate<std::str::Lines<'t>>,
    at: usize,
}

impl<'t> Lines<'t> {
    fn next(&mut self) -> Option<&'t str> {
        let (at, line) = self.lines.next()?;
        self.at = at + 1;
        Some(line)
    }

    fn next_filled(&mut self) -> Option<&'t str> {
        loop {
            match self.next()? {
                line if line.trim().is_empty() => {}
                line => return Some(line),
            }
        }
    }

    fn error(&self, reason: impl Into<String>) -> TextError {
        TextError { line: self.at, reason: reason.into() }
    }

    /// The number behind `prefix` in the next line.
    fn number(&mut self, prefix: &str) -> Result<i64, TextError> {
        let number = self.next().and_then(|line| line.strip_prefix(prefix)?.trim().parse().ok());
        number.ok_or_else(|| self.error(format!("expected `{prefix}N`")))
    }
}

fn function(
    lines: &mut Lines<'_>,
    header: &str,
    dialect: Dialect,
    index: usize,
) -> Result<Function, TextError> {
    let expected = || format!("expected `VM Function[{index}]: NAME(PARAMETERS)`");
    let header = header.strip_prefix(&format!("VM Function[{index}]: "));
    let parts = header.and_then(|header| header.trim_end().strip_suffix(')')?.split_once('('));
    let (name, params) = parts.ok_or_else(|| lines.error(expected()))?;
    let params: Vec<String> = match params {
        "" => vec![],
        params => params.split(", ").map(str::to_owned).collect(),
    };
    let registers = lines.number("# reg file size = ")?;
    let count = lines.number("# instruction count = ")?;
    if lines.next().map(str::trim_end) != Some(COLUMNS) {
        return Err(lines.error(format!("expected `{COLUMNS}`")));
    }
    let code = (0..count).map(|at| instruction(lines, dialect, at)).collect::<Result<_, _>>()?;
    let device = i64::from(dialect == Dialect::V8);
    let param_devices = vec![device; params.len()];
    Ok(Function { name: name.to_owned(), registers, params, param_devices, code })
}

fn instruction(lines: &mut Lines<'_>, dialect: Dialect, at: i64) -> Result<Instr, TextError> {
    let line = lines.next().and_then(|line| line.trim_start().strip_prefix(&format!("{at}: ")));
    let parts = line.and_then(|line| line.split_once('#'));
    let (numbers, words) =
        parts.ok_or_else(|| lines.error(format!("expected `{at}: OPCODE FIELDS # WORDS`")))?;
    let numbers = numbers.split_whitespace().map(str::parse::<i64>);
    let numbers: Vec<i64> = numbers
        .collect::<Result<_, _>>()
        .map_err(|_| lines.error("a field that is no 64-bit integer"))?;
    let [opcode, fields @ ..] = &numbers[..] else {
        return Err(lines.error("no opcode"));
    };
    let instr = Instr::decode(dialect, *opcode, fields);
    let instr = instr.map_err(|error| lines.error(error.to_string()))?;
    let meaning = Printed(&instr, dialect).to_string();
    if words.trim() != meaning {
        return Err(lines.error(format!("the fields mean `{meaning}`, the words say otherwise")));
    }
    Ok(instr)
}
