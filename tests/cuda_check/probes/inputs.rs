//! The values that a probe's threads read: all pairs of sixteen special ones of the operands' types, then
//! as many by a generator.

use crate::packed::mix;

/// Words of 64 bits that a thread reads.
pub const READ: usize = 4;

/// Special values of a type.
type Specials = [u64; 16];

/// Float16: zeros, ones, subnormals, the largest, infinities, NaN, and values between.
const F16: Specials = [
    0, 0x8000, 0x3c00, 0xbc00, 1, 0x83ff, 0x0400, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x3c01,
    0x3555, 0x4248, 0xc500,
];
/// Two of float16 in a word.
const F16X2: Specials = {
    let (mut all, mut n) = (F16, 0);
    while n < 16 {
        all[n] |= F16[(5 * n + 3) % 16] << 16;
        n += 1;
    }
    all
};
/// Float32.
const F32: Specials = [
    0,
    0x8000_0000,
    0x3f80_0000,
    0xbf80_0000,
    1,
    0x807f_ffff,
    0x0080_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x3f80_0001,
    0x4b00_0001,
    0x4f00_0000,
    0xbf00_0000,
];
/// Float64.
const F64: Specials = [
    0,
    0x8000_0000_0000_0000,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    1,
    0x800f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0xffef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0x3ff0_0000_0000_0001,
    0x4330_0000_0000_0001,
    0x43e0_0000_0000_0000,
    0xbfe0_0000_0000_0000,
];
/// Integers of 64 bits, the low part of which is as special for narrower ones.
const INTEGERS: Specials = [
    0,
    1,
    2,
    3,
    31,
    32,
    63,
    64,
    0x7f,
    0x8080_8080_8080_8080,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
    0xffff_ffff_8000_0000,
    0x1234_5678_9abc_def0,
    0xffff_ffff_ffff_fff9,
];

/// The rows of a form: as many as threads, in whole blocks.
pub fn rows(form: &str) -> Vec<[u64; READ]> {
    let specials = specials(form);
    let pairs = (0..256_usize).map(|n| {
        let third = specials[(7 * n + n / 16) % 16];
        [specials[n % 16], specials[n / 16], third, mix(n as u64)]
    });
    let seed = u64::from(blake3::hash(form.as_bytes()).as_bytes()[0]);
    let random =
        (0..256_u64).map(|n| [0, 1, 2, 3].map(|word| value(form, mix(seed << 32 | n << 2 | word))));
    pairs.chain(random).map(|row| defined(form, row)).collect()
}

fn specials(form: &str) -> &'static Specials {
    match form.rsplit('.').next() {
        Some("f16") => &F16,
        Some("f16x2") => &F16X2,
        Some("f32") => &F32,
        Some("f64") => &F64,
        _ => &INTEGERS,
    }
}

/// Random bits, of which half are a float of moderate size where the form ends in `f32` or `f64`.
fn value(form: &str, bits: u64) -> u64 {
    let moderate = (bits >> 40) as f32 / (1 << 20) as f32 - 8.0;
    match (bits % 2, form.rsplit('.').next()) {
        (0, Some("f32")) => u64::from(moderate.to_bits()),
        (0, Some("f64")) => f64::from(moderate).to_bits(),
        _ => bits,
    }
}

/// A row for which PTX defines the result: integers are not divided by zero, nor the least by -1, and
/// fields of bits have places that are there.
fn defined(form: &str, mut row: [u64; READ]) -> [u64; READ] {
    let is_division = ["div.s", "div.u", "rem.s", "rem.u"].iter().any(|op| form.starts_with(op));
    let width = form.trim_start_matches(|c: char| !c.is_ascii_digit());
    let mask = match width {
        "16" => 0xffff,
        "32" => 0xffff_ffff,
        _ => u64::MAX,
    };
    if is_division && [0, mask].contains(&(row[1] & mask)) {
        row[1] = 3;
    }
    // The position and the length of a field are 0 to 255.
    if form.starts_with("bfe.") {
        row[1] &= 0xff;
        row[2] &= 0xff;
    }
    row
}
