//! Matrix registers: the unit is configured where they are allocated and released at the end.

use inkwell::intrinsics::Intrinsic;
use inkwell::values::{BasicMetadataValueEnum, FunctionValue};
use reflex_tir::tile::{StridedRows, TileOp, configuration};
use reflex_tir::{Buffer, Scope, Sign, Stmt};

use crate::emit::Emitter;
use crate::error::{CodegenError, Result};

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
        let words = configuration(self.func, &all).map_err(CodegenError::new)?;
        let address = self.alloca(self.ir.context.i64_type().array_type(8), 64)?;
        for (n, word) in words.into_iter().enumerate() {
            let at = self.ir.offset_bytes(address, self.ir.i64(n as i64 * 8))?;
            self.ir.builder.build_store(at, self.ir.i64(word))?;
        }
        self.unit("ldtilecfg", &[address.into()])?;
        self.registers = all.into_iter().zip(0..).collect();
        self.stmt(body)?;
        self.release_registers()?;
        self.registers.clear();
        Ok(())
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
            TileOp::Mma(_) | TileOp::Box(_) => Err(CodegenError::new("tensor cores on a CPU")),
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
