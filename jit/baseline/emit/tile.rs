//! Matrix registers (Intel AMX): the unit is configured where they are allocated and released at the end.
//!
//! Cranelift has none of the instructions. An assembler writes functions of them, one for each form: what stands
//! between two other statements, or a whole loop. Nothing else touches the registers meanwhile.
//!
//! Decision: docs/decisions/0101-matrix-registers-in-baseline-kernels.md

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_module::Module;
use reflex_tir::arith::Analyzer;
use reflex_tir::tile::{StridedRows, TileOp, configuration};
use reflex_tir::{Buffer, Expr, For, Scope, Stmt};

use crate::emit::{Emitter, Lanes};
use crate::error::{BaselineError, Result};
use crate::micro_kernel::{TileForm, TileStep, word_of_rows};
use crate::unit::POINTER;

/// A loop of operations on matrix registers.
pub struct TileLoop<'f> {
    ops: Vec<&'f TileOp>,
    /// For the rows in memory of each, the positions of first elements: the part that does not move, and elements that
    /// an iteration moves by.
    moves: Vec<(Expr, Expr)>,
}

impl Emitter<'_, '_, '_> {
    /// Allocates `first` and the registers allocated right below it for what follows.
    pub(super) fn registers(&mut self, first: Buffer, body: &Stmt) -> Result<()> {
        if !self.unit.cpu.features.contains("amx-tile") {
            return Err(BaselineError::new("matrix registers (AMX) on a CPU that has none"));
        }
        if !self.registers.is_empty() {
            return Err(BaselineError::new("matrix registers inside of others' allocation"));
        }
        let (mut all, mut body) = (vec![first], body);
        while let Stmt::Allocate { buffer, body: inner } = body
            && self.func.buffers[*buffer].scope == Scope::Tile
        {
            all.push(*buffer);
            body = inner;
        }
        let words = configuration(self.func, &all).map_err(BaselineError::new)?;
        let id = self.unit.words(&words)?;
        let data = self.unit.module.declare_data_in_func(id, self.b.func);
        let address = self.b.ins().symbol_value(POINTER, data);
        self.call_tiles(vec![TileStep::Configure], address)?;
        self.registers = all.into_iter().zip(0..).collect();
        self.stmt(body)?;
        self.release_registers()?;
        self.registers.clear();
        Ok(())
    }

    /// Leaves the unit as it was: in its initial state. Nothing where no register is allocated.
    pub fn release_registers(&mut self) -> Result<()> {
        if self.registers.is_empty() {
            return Ok(());
        }
        let nothing = self.i64(0);
        self.call_tiles(vec![TileStep::Release], nothing)
    }

    /// Operations one after the other.
    pub(super) fn tile_ops(&mut self, ops: &[&TileOp]) -> Result<()> {
        if ops.is_empty() {
            return Ok(());
        }
        if self.lanes != Lanes::One {
            return Err(BaselineError::new("a matrix register in a vector loop"));
        }
        let form = TileForm::straight(self.steps(ops)?);
        let words = self.stack_memory(form.words() as u32 * 8);
        for (n, rows) in ops.iter().flat_map(|op| op.rows()).enumerate() {
            self.store_rows(rows, &rows.first, words, n)?;
        }
        let function = self.unit.tiles(&form)?;
        self.call(function, &[words]);
        Ok(())
    }

    /// A loop as one function, if it is nothing but operations whose rows move evenly.
    pub(super) fn tile_loop<'l>(&self, l: &'l For) -> Option<TileLoop<'l>> {
        let ops = tile_ops_of(&l.body).filter(|ops| !ops.is_empty())?;
        let moving = |rows: &StridedRows| {
            let linear = Analyzer::new().linear(&rows.first, &[l.var])?;
            let mut fixed = true;
            rows.stride.visit(&mut |e| fixed &= e.as_var() != Some(l.var));
            fixed.then(|| (linear.rest + linear.constant, linear.strides[0].clone()))
        };
        let moves = ops.iter().flat_map(|op| op.rows()).map(moving).collect::<Option<_>>()?;
        Some(TileLoop { ops, moves })
    }

    /// Runs such a loop; in the form that every loop has if it has too many rows.
    pub(super) fn call_tile_loop(&mut self, l: &For, tiles: &TileLoop<'_>) -> Result<()> {
        let Some(form) = TileForm::looped(self.steps(&tiles.ops)?) else {
            return self.serial(l);
        };
        let extent = self.uniform_int(&l.extent, "a loop's extent")?;
        let function = self.unit.tiles(&form)?;
        let words = self.stack_memory(form.words() as u32 * 8);
        self.if_positive(extent, |e| {
            e.store_at(extent, words, 0);
            let rows = tiles.ops.iter().flat_map(|op| op.rows());
            for (n, (rows, (rest, step))) in rows.zip(&tiles.moves).enumerate() {
                let first = rest.clone() + l.min.clone() * step.clone();
                e.store_rows(rows, &first, words, n)?;
                let moved = e.bytes(rows.buffer, step, "the distance of iterations")?;
                e.store_at(moved, words, 8 * (word_of_rows(n) as i32 + 2));
            }
            e.call(function, &[words]);
            Ok(())
        })
    }

    /// Runs `body` if a number is positive.
    fn if_positive(
        &mut self,
        count: Value,
        body: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        if self.known(count).is_some_and(|count| count > 0) {
            return body(self);
        }
        let (some, after) = (self.b.create_block(), self.b.create_block());
        let zero = self.i64(0);
        let any = self.b.ins().icmp(IntCC::SignedGreaterThan, count, zero);
        self.b.ins().brif(any, some, &[], after, &[]);
        self.b.switch_to_block(some);
        body(self)?;
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(after);
        Ok(())
    }

    /// The address and distance of rows.
    fn store_rows(
        &mut self,
        rows: &StridedRows,
        first: &Expr,
        words: Value,
        n: usize,
    ) -> Result<()> {
        let at = 8 * word_of_rows(n) as i32;
        let first = self.bytes(rows.buffer, first, "a position of rows")?;
        let base = self.base(rows.buffer)?;
        let address = self.add(base, first);
        self.store_at(address, words, at);
        let stride = self.bytes(rows.buffer, &rows.stride, "the distance of rows")?;
        self.store_at(stride, words, at + 8);
        Ok(())
    }

    fn bytes(&mut self, of: Buffer, elements: &Expr, what: &str) -> Result<Value> {
        let size = self.i64(self.func.buffers[of].dtype.itemsize() as i64);
        let elements = self.uniform_int(elements, what)?;
        Ok(self.mul(elements, size))
    }

    fn call_tiles(&mut self, steps: Vec<TileStep>, argument: Value) -> Result<()> {
        let function = self.unit.tiles(&TileForm::straight(steps))?;
        self.call(function, &[argument]);
        Ok(())
    }

    fn steps(&self, ops: &[&TileOp]) -> Result<Vec<TileStep>> {
        let number = |buffer: &Buffer| {
            let missing = || {
                let name = &self.func.buffers[*buffer].name;
                BaselineError::new(format!("matrix register {name} is not allocated"))
            };
            self.registers.get(buffer).copied().ok_or_else(missing)
        };
        let step = |op: &&TileOp| {
            Ok(match op {
                TileOp::Zero { tile } => TileStep::Zero(number(tile)?),
                TileOp::Load { tile, .. } => TileStep::Load(number(tile)?),
                TileOp::Store { tile, .. } => TileStep::Store(number(tile)?),
                TileOp::DotBf16 { sum, a, b } => {
                    TileStep::DotBf16([number(sum)?, number(a)?, number(b)?])
                }
                TileOp::DotI8 { sum, a, b, signs } => {
                    TileStep::DotI8([number(sum)?, number(a)?, number(b)?], *signs)
                }
                TileOp::Mma(_) | TileOp::Box(_) => {
                    return Err(BaselineError::new("tensor cores on a CPU"));
                }
            })
        };
        ops.iter().map(step).collect()
    }
}

/// The operations of a statement that is nothing else.
pub fn tile_ops_of(stmt: &Stmt) -> Option<Vec<&TileOp>> {
    match stmt {
        Stmt::Tile(op) => Some(vec![op]),
        Stmt::Seq(all) => {
            let parts = all.iter().map(tile_ops_of).collect::<Option<Vec<_>>>()?;
            Some(parts.concat())
        }
        // LLVM's code has them.
        prefetch if prefetch.only_prefetches() => Some(vec![]),
        _ => None,
    }
}
