//! Integer operations. Registers hold zero-extended bits.

use super::{Scalar, Scalar4};

/// `bits` low bits.
pub const fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// The value of the low bits as a signed number.
pub const fn sign_extend(value: u64, bits: u32) -> i64 {
    let up = 64 - bits;
    ((value << up) as i64) >> up
}

fn wide<const B: u32, const S: bool>(value: u64) -> i128 {
    if S { sign_extend(value, B) as i128 } else { (value & mask(B)) as i128 }
}

fn add<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    a.wrapping_add(b) & mask(B)
}

fn sub<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    a.wrapping_sub(b) & mask(B)
}

fn clamp<const B: u32>(value: i128) -> u64 {
    let most = (mask(B) >> 1) as i128;
    value.clamp(-most - 1, most) as u64 & mask(B)
}

fn add_sat<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    clamp::<B>(wide::<B, S>(a) + wide::<B, S>(b))
}

fn sub_sat<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    clamp::<B>(wide::<B, S>(a) - wide::<B, S>(b))
}

fn mul_lo<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    a.wrapping_mul(b) & mask(B)
}

fn mul_hi<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    if S {
        ((wide::<B, S>(a) * wide::<B, S>(b)) >> B) as u64 & mask(B)
    } else {
        ((u128::from(a & mask(B)) * u128::from(b & mask(B))) >> B) as u64 & mask(B)
    }
}

fn mul_wide<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    (wide::<B, S>(a) * wide::<B, S>(b)) as u64 & mask(2 * B)
}

fn mad_lo<const B: u32, const S: bool>(a: u64, b: u64, c: u64) -> u64 {
    a.wrapping_mul(b).wrapping_add(c) & mask(B)
}

fn mad_hi<const B: u32, const S: bool>(a: u64, b: u64, c: u64) -> u64 {
    mul_hi::<B, S>(a, b, 0).wrapping_add(c) & mask(B)
}

fn mad_wide<const B: u32, const S: bool>(a: u64, b: u64, c: u64) -> u64 {
    mul_wide::<B, S>(a, b, 0).wrapping_add(c) & mask(2 * B)
}

/// Division by zero gives all ones, which PTX leaves open.
fn div<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    let (a, b) = (wide::<B, S>(a), wide::<B, S>(b));
    if b == 0 { mask(B) } else { (a / b) as u64 & mask(B) }
}

/// The remainder by zero is the dividend, which PTX leaves open.
fn rem<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    let (a, b) = (wide::<B, S>(a), wide::<B, S>(b));
    if b == 0 { a as u64 & mask(B) } else { (a % b) as u64 & mask(B) }
}

fn min<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    wide::<B, S>(a).min(wide::<B, S>(b)) as u64 & mask(B)
}

fn max<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    wide::<B, S>(a).max(wide::<B, S>(b)) as u64 & mask(B)
}

fn abs<const B: u32, const S: bool>(a: u64, _: u64, _: u64) -> u64 {
    wide::<B, true>(a).unsigned_abs() as u64 & mask(B)
}

fn neg<const B: u32, const S: bool>(a: u64, _: u64, _: u64) -> u64 {
    a.wrapping_neg() & mask(B)
}

fn sad<const B: u32, const S: bool>(a: u64, b: u64, c: u64) -> u64 {
    let distance = wide::<B, S>(a).abs_diff(wide::<B, S>(b)) as u64;
    distance.wrapping_add(c) & mask(B)
}

fn and<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    a & b & mask(B)
}

fn or<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    (a | b) & mask(B)
}

fn xor<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    (a ^ b) & mask(B)
}

fn not<const B: u32, const S: bool>(a: u64, _: u64, _: u64) -> u64 {
    !a & mask(B)
}

fn cnot<const B: u32, const S: bool>(a: u64, _: u64, _: u64) -> u64 {
    u64::from(a & mask(B) == 0)
}

fn shl<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    let by = b as u32;
    if by >= B { 0 } else { (a << by) & mask(B) }
}

fn shr<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    let by = (b as u32).min(B);
    (wide::<B, S>(a) >> by) as u64 & mask(B)
}

fn popc<const B: u32, const S: bool>(a: u64, _: u64, _: u64) -> u64 {
    u64::from((a & mask(B)).count_ones())
}

fn clz<const B: u32, const S: bool>(a: u64, _: u64, _: u64) -> u64 {
    u64::from((a & mask(B)).leading_zeros() + B - 64)
}

fn brev<const B: u32, const S: bool>(a: u64, _: u64, _: u64) -> u64 {
    a.reverse_bits() >> (64 - B)
}

fn bfind<const B: u32, const S: bool>(a: u64, _: u64, _: u64) -> u64 {
    let value = wide::<B, S>(a);
    let bits = if value < 0 { !value } else { value } as u64;
    if bits == 0 { 0xffff_ffff } else { u64::from(63 - bits.leading_zeros()) }
}

fn bfe<const B: u32, const S: bool>(a: u64, at: u64, length: u64) -> u64 {
    let (at, length) = (at as u32 & 255, length as u32 & 255);
    if length == 0 {
        return 0;
    }
    let value = (wide::<B, S>(a) >> at.min(B)) as u64;
    // Bits past the top of a signed field copy the highest bit of the register.
    let field = if length >= 64 { value } else { value & mask(length) };
    let highest = (at + length - 1).min(B - 1);
    let negative = S && a >> highest & 1 == 1;
    let fill = if negative && length < 64 { !mask(length) } else { 0 };
    (field | fill) & mask(B)
}

fn bfi<const B: u32, const S: bool>(a: u64, b: u64, at: u64, length: u64) -> u64 {
    let (at, length) = (at as u32 & 255, length as u32 & 255);
    if at >= B || length == 0 {
        return b & mask(B);
    }
    let field = mask(length) << at & mask(B);
    (b & !field | a << at & field) & mask(B)
}

fn eq<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    u64::from((a ^ b) & mask(B) == 0)
}

fn ne<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    u64::from((a ^ b) & mask(B) != 0)
}

fn lt<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    u64::from(if S { sign_extend(a, B) < sign_extend(b, B) } else { a & mask(B) < b & mask(B) })
}

fn le<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    1 - lt::<B, S>(b, a, 0)
}

fn gt<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    lt::<B, S>(b, a, 0)
}

fn ge<const B: u32, const S: bool>(a: u64, b: u64, _: u64) -> u64 {
    1 - lt::<B, S>(a, b, 0)
}

macro_rules! sized {
    ($function:ident, $bits:expr, $signed:expr) => {
        match ($bits, $signed) {
            (16, false) => $function::<16, false>,
            (16, true) => $function::<16, true>,
            (32, false) => $function::<32, false>,
            (32, true) => $function::<32, true>,
            (64, false) => $function::<64, false>,
            (64, true) => $function::<64, true>,
            _ => return None,
        }
    };
}

macro_rules! table {
    ($name:expr, $bits:expr, $signed:expr, $($function:ident)*) => {
        match $name {
            $(stringify!($function) => Some(sized!($function, $bits, $signed)),)*
            _ => None,
        }
    };
}

/// The function of an integer operation by name, width and sign.
pub fn operation(name: &str, bits: u32, signed: bool) -> Option<Scalar> {
    table!(name, bits, signed, add sub add_sat sub_sat mul_lo mul_hi mul_wide mad_lo mad_hi mad_wide
        div rem min max abs neg sad and or xor not cnot shl shr popc clz brev bfind bfe
        eq ne lt le gt ge)
}

/// The function of `bfi`.
pub fn insert(bits: u32) -> Option<Scalar4> {
    Some(sized!(bfi, bits, false))
}

/// `lop3`: for each bit the entry of a table of eight.
pub fn lop3(a: u64, b: u64, c: u64, table: u64) -> u64 {
    let pick = |bit: u32| if table >> bit & 1 == 1 { u64::MAX } else { 0 };
    let minterms = (0..8).map(|bit: u32| {
        let a = if bit & 4 != 0 { a } else { !a };
        let b = if bit & 2 != 0 { b } else { !b };
        let c = if bit & 1 != 0 { c } else { !c };
        a & b & c & pick(bit)
    });
    minterms.fold(0, |all, one| all | one) & mask(32)
}

/// `prmt`: four bytes picked from eight, or their signs.
pub fn prmt(a: u64, b: u64, selector: u64) -> u64 {
    let bytes = a & mask(32) | b << 32;
    let picked = (0..4).map(|at| {
        let choice = selector >> (4 * at) & 15;
        let byte = bytes >> (8 * (choice & 7)) & 255;
        let byte = if choice & 8 == 0 { byte } else { (byte >> 7) * 255 };
        byte << (8 * at)
    });
    picked.fold(0, |all, one| all | one)
}

/// `shf`: a shift of two registers as one. `left` gives the high half, else the low one.
pub fn funnel<const LEFT: bool, const WRAP: bool>(a: u64, b: u64, by: u64) -> u64 {
    let by = if WRAP { by & 31 } else { (by & mask(32)).min(32) };
    let both = a & mask(32) | b << 32;
    if LEFT { ((u128::from(both) << by) >> 32) as u64 & mask(32) } else { both >> by & mask(32) }
}
