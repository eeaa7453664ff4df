//! Vector loads and stores of a GPU: neighbours that are aligned move together, by way of registers.
//!
//! ```text
//! for v in vectorized(4): y[4 * i + v] = x[4 * i + v] * 2    becomes
//!
//! float x_lanes[4], y_lanes[4];
//! *(uint4 *)x_lanes = *(const uint4 *)(x + 4 * i);
//! for (v = 0; v < 4; ++v) y_lanes[v] = x_lanes[v] * 2;
//! *(uint4 *)(y + 4 * i) = *(const uint4 *)y_lanes;
//! ```

use reflex_tir::arith::Analyzer;
use reflex_tir::{Buffer, DType, Expr, ExprKind, For, Intrin, Scope, Stmt, Var};

use crate::dialect::{Dialect, stored_type};
use crate::error::Result;
use crate::print::Printer;
use crate::print::register::Register;
use crate::print::text::{Strength, Text};

/// Bytes of the widest vector that memory takes at once.
const WIDEST: i64 = 16;
/// Bytes of registers that one loop may take for a buffer.
const MOST: i64 = 64;

/// Neighbours in memory.
struct Neighbours {
    buffer: Buffer,
    position: Expr,
    /// Where the first one is.
    first: Expr,
    /// Bytes that move at once.
    width: i64,
}

/// The loads that every lane does, in a loop's body of one store; `None` for any other body.
fn accesses(body: &Stmt) -> Option<(Vec<Expr>, Buffer, &[Expr])> {
    let mut found = vec![];
    let mut at = body;
    loop {
        match at {
            Stmt::Let { value, body, .. } => {
                loads(value, &mut found);
                at = body;
            }
            Stmt::Store { buffer, indices, value } => {
                loads(value, &mut found);
                return Some((found, *buffer, indices));
            }
            Stmt::Seq(all) if all.len() == 1 => at = &all[0],
            _ => return None,
        }
    }
}

/// Collects loads, but for those that a condition guards.
fn loads(e: &Expr, found: &mut Vec<Expr>) {
    match e.kind() {
        ExprKind::Load { .. } => found.push(e.clone()),
        ExprKind::Call { op: Intrin::IfThenElse, args, .. } => return loads(&args[0], found),
        _ => {}
    }
    e.for_each_child(&mut |child| loads(child, found));
}

impl<'f> Printer<'_, 'f> {
    /// Prints a loop over lanes with vectors of memory; false if nothing of it is one.
    pub(super) fn vectors(&mut self, l: &'f For, lanes: i64) -> Result<bool> {
        let (Some(min), true) = (l.min.as_int(), lanes > 1 && self.registers.is_empty()) else {
            return Ok(false);
        };
        let Some((found, target, indices)) = accesses(&l.body) else { return Ok(false) };
        let mut reads: Vec<Neighbours> = vec![];
        for load in &found {
            let ExprKind::Load { buffer, indices, .. } = load.kind() else { continue };
            let position = self.position(*buffer, indices)?;
            if reads.iter().any(|known| known.buffer == *buffer && known.position == position) {
                continue;
            }
            reads.extend(self.neighbours(*buffer, position, (l.var, min, lanes)));
        }
        let position = self.position(target, indices)?;
        let written = self.neighbours(target, position, (l.var, min, lanes));
        if reads.is_empty() && written.is_none() {
            return Ok(false);
        }
        self.out.open("");
        let mark = self.names.open();
        let was_position = self.positions.contains(&l.var);
        let var = self.declare(l.var);
        self.positions.insert(l.var);
        let lane = match min {
            0 => Text::primary(var.clone()),
            _ => Text::infix(
                &Text::primary(var.clone()),
                "-",
                &Text::number(min.to_string()),
                Strength::Sum,
            ),
        };
        for read in &reads {
            self.register_for(read, lanes, &lane)?;
            self.moves(read, lanes, true)?;
        }
        if let Some(written) = &written {
            // The store is to these registers; what is loaded from the same place was loaded before.
            let same = |r: &Register| r.buffer == written.buffer && r.position == written.position;
            if !self.registers.iter().any(same) {
                self.register_for(written, lanes, &lane)?;
            }
        }
        self.out.line(self.dialect.unroll(lanes));
        let word = self.dialect.word(DType::I64)?;
        let end = min + lanes;
        self.out.open(format!("for ({word} {var} = {min}; {var} < {end}; ++{var})"));
        self.block(&l.body)?;
        self.out.close();
        if let Some(written) = &written {
            self.moves(written, lanes, false)?;
        }
        self.registers.clear();
        if !was_position {
            self.positions.remove(&l.var);
        }
        self.vars.remove(&l.var);
        self.names.close(mark);
        self.out.close();
        Ok(true)
    }

    /// The elements of the lanes, if they are neighbours and aligned.
    fn neighbours(
        &self,
        buffer: Buffer,
        position: Expr,
        (var, min, lanes): (Var, i64, i64),
    ) -> Option<Neighbours> {
        let data = &self.func.buffers[buffer];
        let bytes = stored_type(data.dtype).itemsize() as i64;
        if !matches!(data.scope, Scope::Global | Scope::Shared) || lanes * bytes > MOST {
            return None;
        }
        let analyzer = Analyzer::new();
        let linear = analyzer.linear(&position, &[var])?;
        let [stride] = &linear.strides[..] else { return None };
        if stride.as_int() != Some(1) {
            return None;
        }
        let first = linear.rest + (linear.constant + min);
        // What the lanes themselves bind is not known before them.
        let mut known = true;
        first.visit(&mut |e| match e.kind() {
            ExprKind::Var { var, .. } => known &= self.vars.contains_key(var),
            ExprKind::Load { .. } => known = false,
            _ => {}
        });
        let set = analyzer.modular(&first);
        let common = (set.stride | set.base | lanes).trailing_zeros();
        let width = (bytes << common.min(4)).min(WIDEST);
        (known && width > bytes).then_some(Neighbours { buffer, position, first, width })
    }

    /// Declares registers for neighbours.
    fn register_for(&mut self, of: &Neighbours, lanes: i64, lane: &Text) -> Result<()> {
        let data = &self.func.buffers[of.buffer];
        let name = self.names.declare(&format!("{}_lanes", data.name));
        let word = self.stored_word(data.dtype)?;
        let align = if self.dialect == Dialect::Cuda { "__align__(16) " } else { "" };
        self.out.line(format!("{align}{word} {name}[{lanes}];"));
        let (buffer, position, lane) = (of.buffer, of.position.clone(), lane.clone());
        self.registers.push(Register { buffer, position, name, lane });
        Ok(())
    }

    /// Moves neighbours between memory and registers.
    fn moves(&mut self, of: &Neighbours, lanes: i64, is_load: bool) -> Result<()> {
        let data = &self.func.buffers[of.buffer];
        let (dtype, scope) = (stored_type(data.dtype), data.scope);
        let bytes = dtype.itemsize() as i64;
        let pointer = self.pointer(of.buffer)?;
        let same = |r: &&Register| r.buffer == of.buffer && r.position == of.position;
        let Some(register) = self.registers.iter().find(same) else { return Ok(()) };
        let name = register.name.clone();
        let each = of.width / bytes;
        for at in (0..lanes).step_by(each as usize) {
            let offset = |base: &str, at: i64| match at {
                0 => base.to_owned(),
                _ => format!("{base} + {at}"),
            };
            let first = self.index(&(of.first.clone() + at))?;
            let memory = Text::infix(&Text::primary(pointer.clone()), "+", &first, Strength::Sum);
            let memory =
                if first.as_str() == "0" { pointer.clone() } else { memory.as_str().to_owned() };
            let registers = offset(&name, at);
            let line = match self.dialect {
                Dialect::OpenCl => opencl_move(each, &memory, &registers, is_load),
                _ => cuda_move(of.width, &memory, &registers, is_load, scope),
            };
            self.out.line(line);
        }
        Ok(())
    }

    /// The register that an element is in.
    pub(super) fn register(&self, buffer: Buffer, position: &Expr) -> Option<Text> {
        let same = |r: &&Register| r.buffer == buffer && r.position == *position;
        let register = self.registers.iter().find(same)?;
        Some(Text::element(&register.name, &register.lane))
    }
}

fn opencl_move(lanes: i64, memory: &str, registers: &str, is_load: bool) -> String {
    let (from, to) = if is_load { (memory, registers) } else { (registers, memory) };
    format!("vstore{lanes}(vload{lanes}(0, {from}), 0, {to});")
}

fn cuda_move(width: i64, memory: &str, registers: &str, is_load: bool, _: Scope) -> String {
    let word = match width {
        16 => "uint4",
        8 => "uint2",
        4 => "unsigned int",
        _ => "unsigned short",
    };
    let (from, to) = if is_load { (memory, registers) } else { (registers, memory) };
    format!("*({word} *)({to}) = *(const {word} *)({from});")
}
