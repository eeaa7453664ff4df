//! Quantization without a division: the quotient by a constant scale as a product and a fused multiply-add.
//!
//! ```text
//! uint8(clip(round(x / s) + zero))
//! uint8(clip(round(fma(x, high, x * low)) + zero))      high + low is 1 / s to some 48 bits
//! ```
//! Both quotients grow with `x`, and there are few codes: the rewrite is made where the least `x` of every code is the same by
//! both, so results have the same bits. A division of vectors takes five to twenty times a multiplication's time.
//!
//! Source: Brisebarre, Muller and Raina, "Accelerating correctly rounded floating-point division when the divisor is
//! known in advance", IEEE Transactions on Computers 53(8), 2004.
//!
//! Decision: docs/decisions/0103-integer-convolutions.md

use reflex_tir::codegen::CpuTarget;
use reflex_tir::{BinOp, DType, Expr, ExprKind, Intrin};

use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::{Item, Stage};

/// Scales whose products with codes are normal numbers, with all that is computed here.
const SCALES: std::ops::Range<f32> = 1e-30..1e30;
/// Most neighbouring floats between the first estimate of a code's least number and the number.
const MAX_STEPS: usize = 16;

/// Rewrites the divisions of quantizations in the items' values.
pub fn multiply_by_reciprocals(nest: &mut Nest<'_>, cpu: &CpuTarget, items: &mut [Item]) {
    // In software a fused multiply-add takes longer than a division.
    if !cpu.has_fma() {
        return;
    }
    for item in items {
        match item {
            Item::Loop { items, .. } => multiply_by_reciprocals(nest, cpu, items),
            Item::Stage(Stage { name, value, .. }) if makes_codes(value) => {
                let mut count = 0;
                let rewritten = without_division(value, &mut count);
                if count > 0 {
                    *value = rewritten;
                    nest.steps.push(format!("{name}: multiply_by_reciprocal of {count} scales"));
                }
            }
            _ => {}
        }
    }
}

fn makes_codes(e: &Expr) -> bool {
    let mut found = false;
    e.visit(&mut |e| {
        found |= matches!(e.kind(), ExprKind::Cast { dtype: DType::U8 | DType::I8, .. });
    });
    found
}

fn without_division(e: &Expr, count: &mut usize) -> Expr {
    let e = e.map_children(&mut |e| without_division(e, count));
    let ExprKind::Cast { dtype, value } = e.kind() else { return e };
    let codes = match *dtype {
        DType::U8 => [0, 255],
        DType::I8 => [-128, 127],
        _ => return e,
    };
    match by_reciprocal(value, codes) {
        Some(value) => {
            *count += 1;
            value.cast(*dtype)
        }
        None => e,
    }
}

/// The quotient of a rounded, moved and clipped quotient as a product, where that changes none of the codes `least..=most`.
fn by_reciprocal(e: &Expr, [least, most]: [i32; 2]) -> Option<Expr> {
    match e.kind() {
        ExprKind::Binary { op: op @ (BinOp::Add | BinOp::Min | BinOp::Max), a, b } => {
            let number = b.as_float()?;
            let moved = if *op == BinOp::Add { number } else { 0.0 };
            if moved.fract() != 0.0 || moved.abs() > 65536.0 {
                return None;
            }
            let codes = [least, most].map(|code| code - moved as i32);
            Some(Expr::binary(*op, by_reciprocal(a, codes)?, b.clone()))
        }
        ExprKind::Call { op: Intrin::Round, args, .. } => {
            let ExprKind::Binary { op: BinOp::Div, a: x, b } = args[0].kind() else { return None };
            let scale = b.as_float().filter(|_| x.dtype() == DType::F32)? as f32;
            let number = |value: f32| Expr::constant(f64::from(value), DType::F32);
            let quotient = match Reciprocal::of(scale, [least, most])? {
                Reciprocal { high, low: 0.0 } => x.clone() * number(high),
                Reciprocal { high, low } => {
                    let rest = x.clone() * number(low);
                    Expr::call(Intrin::Fma, vec![x.clone(), number(high), rest])
                }
            };
            Some(Expr::call(Intrin::Round, vec![quotient]))
        }
        _ => None,
    }
}

/// The reciprocal of a scale, as a sum of two numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reciprocal {
    high: f32,
    /// Not negative: an infinite number times the sum is infinite. 0 if `high` is the reciprocal.
    low: f32,
}

impl Reciprocal {
    /// That by which every code of a range begins where it does by division.
    fn of(scale: f32, [least, most]: [i32; 2]) -> Option<Reciprocal> {
        if !SCALES.contains(&scale) {
            return None;
        }
        // What `high` lacks, which a fused multiply-add computes without rounding.
        let rest = |high: f32| (-high).mul_add(scale, 1.0);
        let near = 1.0 / scale;
        let high = if rest(near) < 0.0 { near.next_down() } else { near };
        let reciprocal = Reciprocal { high, low: rest(high) / scale };
        let same = |code: i32| {
            let reaches = |quotient: f32| quotient.round_ties_even() >= code as f32;
            let mut x = (code as f32 - 0.5) * scale;
            for _ in 0..MAX_STEPS {
                match (reaches(x / scale), reaches(x.next_down() / scale)) {
                    (false, _) => x = x.next_up(),
                    (true, true) => x = x.next_down(),
                    (true, false) => {
                        let below = reciprocal.times(x.next_down());
                        return reaches(reciprocal.times(x)) && !reaches(below);
                    }
                }
            }
            false
        };
        (least + 1..=most).all(same).then_some(reciprocal)
    }

    fn times(self, x: f32) -> f32 {
        if self.low == 0.0 { x * self.high } else { x.mul_add(self.high, x * self.low) }
    }
}

#[cfg(test)]
mod tests {
    use reflex_runtime::split_mix::split_mix;

    use super::*;

    /// Codes by division and by the reciprocal: at random numbers, around halves of the scale, and at the ends.
    #[test]
    fn codes_are_those_of_divisions() {
        let (mut state, mut found) = (7, 0);
        for _ in 0..3000 {
            let exponent = (split_mix(&mut state) % 40) as i32 - 30;
            let fraction = (split_mix(&mut state) >> 41) as f32 / (1 << 23) as f32;
            let scale = (1.0 + fraction) * 2f32.powi(exponent);
            let zero = (split_mix(&mut state) % 256) as i32;
            let codes = [-zero, 255 - zero];
            let Some(reciprocal) = Reciprocal::of(scale, codes) else { continue };
            found += 1;
            let code = |quotient: f32| (quotient.round_ties_even() + zero as f32) as u8;
            let mut xs = vec![0.0, -0.0, f32::INFINITY, -f32::INFINITY, f32::NAN, f32::MAX, 1e-45];
            for _ in 0..60 {
                let n = (split_mix(&mut state) % 600) as f32 - 300.0;
                let x = (n - 0.5) * scale;
                xs.extend([x, x.next_up(), x.next_down(), x.next_up().next_up(), n * scale]);
                xs.push((split_mix(&mut state) >> 32) as f32 * scale / 1e7);
                xs.push(f32::from_bits((split_mix(&mut state) >> 32) as u32));
            }
            for x in xs {
                let both = [x / scale, reciprocal.times(x)].map(code);
                assert_eq!(both[0], both[1], "{x:e} by {scale:e}, {reciprocal:?}");
            }
        }
        assert!(found > 2900, "{found} of 3000 scales");
    }

    #[test]
    fn powers_of_two_take_one_product() {
        let reciprocal = Reciprocal { high: 16.0, low: 0.0 };
        assert_eq!(Reciprocal::of(0.0625, [0, 255]), Some(reciprocal));
        assert_eq!(Reciprocal::of(-0.5, [0, 255]), None);
        assert_eq!(Reciprocal::of(f32::NAN, [0, 255]), None);
        assert_eq!(Reciprocal::of(1e-40, [0, 255]), None);
    }
}
