//! Products of activations that are rounded to int8 or int16 and weights of codes.
//!
//! Decision: docs/decisions/0094-int8-activations.md

use super::error::{EvalError, Result};
use crate::literal::Literal;
use crate::op::{Activations, NBits};

pub(super) fn matmul_nbits(codes: NBits, args: &[&Literal]) -> Result<Literal> {
    let bad = || EvalError::new(format!("matmul of {codes:?} and {args:?}"));
    let (Some(x), Some(scales)) = (args[0].to_f32(), args[2].to_f32()) else { return Err(bad()) };
    let bytes = args[1].bytes();
    let zeros = args.get(3).map(|zeros| zeros.bytes());
    let (&[columns, blocks, row], Some(&depth)) = (args[1].shape(), args[0].shape().last()) else {
        return Err(bad());
    };
    let fits = codes.is_valid()
        && row == codes.bytes()
        && blocks == (depth + codes.block - 1) / codes.block;
    if !fits || args[2..].iter().any(|parts| parts.shape() != [columns, blocks]) {
        return Err(bad());
    }
    let (columns, blocks, row) = (columns as usize, blocks as usize, row as usize);
    let (bits, block) = (codes.bits as usize, codes.block as usize);
    let mut y = vec![];
    for line in x.chunks_exact((depth as usize).max(1)) {
        let rounded: Vec<RoundedBlock> =
            line.chunks(block).map(|block| RoundedBlock::of(block, codes.activations)).collect();
        for column in 0..columns {
            let mut sum = 0f32;
            for (n, part) in rounded.iter().enumerate() {
                let at = column * blocks + n;
                let zero = zeros.map_or(codes.middle() as i32, |zeros| i32::from(zeros[at]));
                let of_block = &bytes[at * row..][..row];
                let code = |k: usize| {
                    let shifted = of_block[k * bits / 8] >> (k * bits % 8);
                    i32::from(shifted & ((1u32 << bits) - 1) as u8)
                };
                let products = part.elements.iter().enumerate().map(|(k, q)| q * code(k));
                let dot = products.sum::<i32>() as f32;
                let total = part.elements.iter().sum::<i32>();
                let dot = (zero as f32).mul_add(-total as f32, dot);
                sum = dot.mul_add(part.step * scales[at], sum);
            }
            y.push(sum);
        }
    }
    let mut shape = args[0].shape().to_vec();
    shape.pop();
    shape.push(columns as i64);
    Ok(Literal::from_f32(shape, &y))
}

/// Elements of a block as integers and the number that one of them stands for.
struct RoundedBlock {
    elements: Vec<i32>,
    step: f32,
}

impl RoundedBlock {
    fn of(block: &[f32], activations: Activations) -> RoundedBlock {
        // NaN is greater than all.
        let greater = |most: f32, x: &f32| match x.abs() {
            x if x > most || x.is_nan() => x,
            _ => most,
        };
        let most = block.iter().fold(0f32, greater);
        let greatest = activations.greatest() as f32;
        let inverse = if most == 0.0 { 0.0 } else { greatest / most };
        // A conversion saturates, and makes zero of NaN.
        let rounded = |x: &f32| {
            let x = (x * inverse).round_ties_even();
            match activations {
                Activations::Int8 => i32::from(x as i8),
                Activations::Int16 => i32::from(x as i16),
            }
        };
        RoundedBlock { elements: block.iter().map(rounded).collect(), step: most / greatest }
    }
}
