//! Tensor intrinsics: machine instructions on whole matrices, each with a loop nest that computes
//! the same. [`Schedule::tensorize`](crate::schedule::Schedule::tensorize) matches nests against
//! these descriptions.
//!
//! A description is a function over the instruction's operands in the file of its name; its
//! symbolic dimensions match the constants of a nest.
//!
//! Those of the caller's are in [`registered`].
//!
//! Decision: docs/decisions/0042-amx-tiles.md

pub mod registered;

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use crate::Sign::{Signed, Unsigned};
use crate::body_copy::BodyCopy;
use crate::tile::{StridedRows, TileOp};
use crate::{Expr, PrimFunc, Sign, Stmt, Var, script};

/// An instruction: its description, and the statement that stands for it.
pub struct TensorIntrin {
    /// Its name.
    pub name: &'static str,
    /// Loops over scalars that compute the same. Every operand is a parameter of two dimensions,
    /// accessed at loop variables only.
    pub description: PrimFunc,
    /// Number of operands, the first ones, that are matrix registers.
    pub registers: usize,
    /// The statement on such operands, in the description's order.
    make: fn(&[StridedRows]) -> TileOp,
}

macro_rules! intrinsics { ($($(#[$doc:meta])* $name:ident, $file:literal, $registers:literal, $make:expr;)*) => {$(
    $(#[$doc])*
    pub static $name: LazyLock<TensorIntrin> = LazyLock::new(|| TensorIntrin {
        name: $file,
        description: script::parse(include_str!(concat!($file, ".py"))).expect("a description"),
        registers: $registers,
        make: $make,
    });
)*}}

intrinsics! {
    /// Fills a register with zeros.
    TILE_ZERO, "tile_zero", 1, |o| TileOp::Zero { tile: o[0].buffer };
    /// Loads a register from rows in memory.
    TILE_LOAD, "tile_load", 1, |o| TileOp::Load { tile: o[0].buffer, from: o[1].clone() };
    /// Stores a register to rows in memory.
    TILE_STORE, "tile_store", 1, |o| TileOp::Store { tile: o[0].buffer, to: o[1].clone() };
    /// Multiplies registers of VNNI-packed bfloat16 and adds to one of float32.
    TILE_DOT_BF16, "tile_dot_bf16", 3, |o| TileOp::DotBf16 {
        sum: o[0].buffer,
        a: o[1].buffer,
        b: o[2].buffer,
    };
    /// Fills a register of int32 with zeros.
    TILE_ZERO_INT32, "tile_zero_int32", 1, |o| TileOp::Zero { tile: o[0].buffer };
    /// Stores a register of int32 to rows in memory.
    TILE_STORE_INT32, "tile_store_int32", 1, |o| TileOp::Store { tile: o[0].buffer, to: o[1].clone() };
    /// Multiplies registers of words of uint8 and adds to one of int32.
    TILE_DOT_U8U8, "tile_dot_u8u8", 3, |o| dot_i8(o, [Unsigned, Unsigned]);
    /// Of words of uint8 by words of int8.
    TILE_DOT_U8S8, "tile_dot_u8s8", 3, |o| dot_i8(o, [Unsigned, Signed]);
    /// Of words of int8 by words of uint8.
    TILE_DOT_S8U8, "tile_dot_s8u8", 3, |o| dot_i8(o, [Signed, Unsigned]);
    /// Of words of int8.
    TILE_DOT_S8S8, "tile_dot_s8s8", 3, |o| dot_i8(o, [Signed, Signed]);
}

fn dot_i8(operands: &[StridedRows], signs: [Sign; 2]) -> TileOp {
    let [sum, a, b] = [0, 1, 2].map(|n| operands[n].buffer);
    TileOp::DotI8 { sum, a, b, signs }
}

/// The product of words of 8-bit integers of these signednesses.
pub fn tile_dot_i8(signs: [Sign; 2]) -> &'static TensorIntrin {
    match signs {
        [Unsigned, Unsigned] => &TILE_DOT_U8U8,
        [Unsigned, Signed] => &TILE_DOT_U8S8,
        [Signed, Unsigned] => &TILE_DOT_S8U8,
        [Signed, Signed] => &TILE_DOT_S8S8,
    }
}

/// All intrinsics.
pub fn all() -> [&'static TensorIntrin; 10] {
    [
        &TILE_ZERO,
        &TILE_LOAD,
        &TILE_STORE,
        &TILE_DOT_BF16,
        &TILE_ZERO_INT32,
        &TILE_STORE_INT32,
        &TILE_DOT_U8U8,
        &TILE_DOT_U8S8,
        &TILE_DOT_S8U8,
        &TILE_DOT_S8S8,
    ]
}

impl TensorIntrin {
    /// The instruction on `operands`.
    pub fn statement(&self, operands: &[StridedRows]) -> Stmt {
        Stmt::Tile((self.make)(operands))
    }

    /// The description's loops over `operands` (of a register only the buffer counts) and the
    /// outermost one's variable: what [`tensorize`](crate::schedule::Schedule::tensorize) takes.
    pub fn loops(&self, func: &mut PrimFunc, operands: &[StridedRows]) -> (Stmt, Var) {
        let place = |number: usize, at: Vec<Expr>| {
            let StridedRows { buffer, first, stride } = &operands[number];
            if number < self.registers {
                return (*buffer, at);
            }
            let offset = first.clone() + at[0].clone() * stride.clone() + at[1].clone();
            (*buffer, vec![offset])
        };
        let dims = self.dimensions(func, operands);
        let body = BodyCopy::new(&self.description, func, &place, dims).body();
        let Stmt::For(outer) = &body else { unreachable!("descriptions are loops") };
        let var = outer.var;
        (body, var)
    }

    /// The symbolic dimensions, by the shapes of the registers.
    fn dimensions(&self, func: &PrimFunc, operands: &[StridedRows]) -> FxHashMap<Var, Expr> {
        let params = self.description.buffer_params().zip(operands).take(self.registers);
        let mut vars = FxHashMap::default();
        for (param, operand) in params {
            let shape = &func.buffers[operand.buffer].shape;
            for (dim, extent) in self.description.buffers[param].shape.iter().zip(shape) {
                vars.extend(dim.as_var().map(|v| (v, extent.clone())));
            }
        }
        vars
    }
}
