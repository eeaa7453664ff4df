//! Matrix registers: the unit is configured where they are allocated and released at the end.

use inkwell::intrinsics::Intrinsic;
use inkwell::values::{BasicMetadataValueEnum, FunctionValue};
use reflex_tir::tile::{REGISTERS, StridedRows, TileOp};
use reflex_tir::{Buffer, Scope, Sign, Stmt};

use crate::emit::Emitter;
use crate::error::{CodegenError, Result};

/// The palette of 8 registers of 16 rows of 64 bytes, the only one there is.
const PALETTE: u8 = 1;
/// Where the bytes per row (two bytes a register) and the rows (one byte) are in a configuration.
const ROW_BYTES_AT: usize = 16;
const ROWS_AT: usize = 48;

impl<'c> Emitter<'_, 'c> {
    /// Allocates `first` and the registers allocated right below it for what follows.
    pub(super) fn registers(&mut self, first: Buffer, body: &Stmt) -> Result<()> {
        if !self.registers.is_empty() {
            return Err(CodegenError::new("matrix registers inside of others' allocation"));
        }
        let (mut all, mut body) = (vec![first], body);
        while let Stmt::Allocate { buffer, body: inner } = body
            && self.func.buffers[*buffer].scope == Scope::Tile
        {
            all.push(*buffer);
            body = inner;
        }
        let configuration = self.configuration(&all)?;
        let address = self.alloca(self.ir.context.i64_type().array_type(8), 64)?;
        for (n, word) in configuration.as_chunks::<8>().0.iter().enumerate() {
            let at = self.ir.offset_bytes(address, self.ir.i64(n as i64 * 8))?;
            self.ir.builder.build_store(at, self.ir.i64(i64::from_le_bytes(*word)))?;
        }
        self.unit("ldtilecfg", &[address.into()])?;
        self.registers = all.into_iter().zip(0..).collect();
        self.stmt(body)?;
        self.release_registers()?;
        self.registers.clear();
        Ok(())
    }

    /// The operand of `ldtilecfg`.
    fn configuration(&self, registers: &[Buffer]) -> Result<[u8; 64]> {
        if registers.len() > REGISTERS {
            let text = format!("{} matrix registers of {REGISTERS}", registers.len());
            return Err(CodegenError::new(text));
        }
        let mut bytes = [0; 64];
        bytes[0] = PALETTE;
        for (n, buffer) in registers.iter().enumerate() {
            let data = &self.func.buffers[*buffer];
            let extent = |d: usize| data.shape.get(d).and_then(|e| e.as_int());
            let (Some(rows @ 1..=16), Some(words @ 1..=16)) = (extent(0), extent(1)) else {
                return Err(CodegenError::new(format!("{} is no matrix register", data.name)));
            };
            bytes[ROW_BYTES_AT + 2 * n] = words as u8 * 4;
            bytes[ROWS_AT + n] = rows as u8;
        }
        Ok(bytes)
    }

    /// Leaves the unit as it was: in its initial state. Nothing where no register is allocated.
    pub fn release_registers(&self) -> Result<()> {
        match self.registers.is_empty() {
            true => Ok(()),
            false => self.unit("tilerelease", &[]),
        }
    }

    pub(super) fn tile(&mut self, tile: &TileOp) -> Result<()> {
        if self.lanes.is_some() {
            return Err(CodegenError::new("a matrix register in a vector loop"));
        }
        let number = |buffer: Buffer| -> Result<BasicMetadataValueEnum<'c>> {
            let missing = || {
                let name = &self.func.buffers[buffer].name;
                CodegenError::new(format!("matrix register {name} is not allocated"))
            };
            let n = *self.registers.get(&buffer).ok_or_else(missing)?;
            Ok(self.ir.context.i8_type().const_int(n, false).into())
        };
        match tile {
            TileOp::Zero { tile } => self.unit("tilezero", &[number(*tile)?]),
            TileOp::DotBf16 { sum, a, b } => {
                self.unit("tdpbf16ps", &[number(*sum)?, number(*a)?, number(*b)?])
            }
            TileOp::DotI8 { sum, a, b, signs } => {
                let name = match signs {
                    [Sign::Unsigned, Sign::Unsigned] => "tdpbuud",
                    [Sign::Unsigned, Sign::Signed] => "tdpbusd",
                    [Sign::Signed, Sign::Unsigned] => "tdpbsud",
                    [Sign::Signed, Sign::Signed] => "tdpbssd",
                };
                self.unit(name, &[number(*sum)?, number(*a)?, number(*b)?])
            }
            TileOp::Load { tile, from } => {
                let register = number(*tile)?;
                let [address, stride] = self.rows(from)?;
                self.unit("tileloadd64", &[register, address, stride])
            }
            TileOp::Store { tile, to } => {
                let register = number(*tile)?;
                let [address, stride] = self.rows(to)?;
                self.unit("tilestored64", &[register, address, stride])
            }
            TileOp::Mma(_) => Err(CodegenError::new("tensor cores on a CPU")),
        }
    }

    /// The address of the first element and the bytes from row to row.
    fn rows(&mut self, rows: &StridedRows) -> Result<[BasicMetadataValueEnum<'c>; 2]> {
        let size = self.ir.i64(self.func.buffers[rows.buffer].dtype.itemsize() as i64);
        let first = self.uniform_int(&rows.first, "a position of rows")?;
        let stride = self.uniform_int(&rows.stride, "the distance of rows")?;
        let base = self.base(rows.buffer)?;
        let first = self.ir.builder.build_int_mul(first, size, "")?;
        let stride = self.ir.builder.build_int_mul(stride, size, "")?;
        Ok([self.ir.offset_bytes(base, first)?.into(), stride.into()])
    }

    /// An instruction of the unit. Registers are numbers in it: LLVM does not allocate them.
    fn unit(&self, name: &str, operands: &[BasicMetadataValueEnum<'c>]) -> Result<()> {
        let name = format!("llvm.x86.{name}");
        let missing = || CodegenError::new(format!("LLVM has no intrinsic {name}"));
        let found = Intrinsic::find(&name).ok_or_else(missing)?;
        let function: FunctionValue<'c> =
            found.get_declaration(self.ir.module, &[]).ok_or_else(missing)?;
        self.ir.builder.build_call(function, operands, "")?;
        Ok(())
    }
}
