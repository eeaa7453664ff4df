//! Inputs that two processes make alike, and results as text that two processes compare.
//!
//! A NaN is written as one NaN: which of them an operation gives is the CPU's affair (docs/numbers.md).

use reflex::{Array, DType, Dim, Feed, Mode, Prepared, Program, TensorInfo};

/// The extent of dimensions that the model leaves open.
const OPEN: i64 = 3;

/// The answers of a program: a line for each output of each function, or one with why there is none.
pub fn lines(program: &Program, mode: Mode) -> Vec<String> {
    lines_by(program, |_, call| {
        let mut session = program.session(mode)?;
        // The second call finds what the first one left.
        session.call(call)?;
        session.call(call)?.arrays()
    })
}

/// As [`lines`], by what `run` answers to calls of functions.
pub fn lines_by(
    program: &Program,
    run: impl Fn(&str, &Prepared) -> reflex::Result<Vec<(String, Array)>>,
) -> Vec<String> {
    let answer = |func: &String| {
        let made = prepare(program, func)
            .and_then(|call| run(func, &call).map_err(|error| error.to_string()));
        match made {
            Ok(outputs) => {
                let rows = outputs.iter();
                rows.map(|(name, output)| format!("{func}: {}", line(name, output))).collect()
            }
            Err(why) => vec![format!("{func}: {}", why.replace('\n', ";"))],
        }
    };
    program.functions().iter().flat_map(answer).collect()
}

/// A call of a function with inputs that are the same in every process.
fn prepare(program: &Program, func: &str) -> Result<Prepared, String> {
    let failed = |error: reflex::Error| error.to_string();
    let mut feed = Feed::new();
    for (seed, info) in (1..).zip(&program.signature(func).map_err(failed)?.inputs) {
        feed.insert(info.name.clone(), input(info, seed)?);
    }
    program.prepare(func, &feed).map_err(failed)
}

/// An input of a model: float elements from -2 to 2, integers from 0 to 5.
fn input(info: &TensorInfo, seed: u64) -> Result<Array, String> {
    let extent = |dim: &Dim| match dim {
        Dim::Const(n) => *n,
        Dim::Symbol(_) => OPEN,
    };
    let shape: Vec<i64> = info.shape.iter().map(extent).collect();
    let count = shape.iter().product::<i64>().unsigned_abs();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 40) as u32
    };
    // Sixteen of these 24 bits are the fraction of a number of at most 2, exact in every float type but
    // the narrow ones, which take its upper bits.
    let float =
        |bits: u32| (bits & 0xffff) as f32 / 32768.0 * if bits >> 23 == 0 { 1.0 } else { -1.0 };
    let mut data = vec![];
    for _ in 0..count {
        let bits = next();
        match info.dtype {
            DType::F32 => data.extend(float(bits).to_le_bytes()),
            DType::F64 => data.extend(f64::from(float(bits)).to_le_bytes()),
            // Exponents of numbers from 1/8 to 2.
            DType::F16 => {
                let half = (bits & 0x83ff) as u16 | ((12 + (bits >> 16) as u16 % 4) << 10);
                data.extend(half.to_le_bytes());
            }
            DType::BF16 => data.extend(((float(bits).to_bits() >> 16) as u16).to_le_bytes()),
            DType::I64 => data.extend(i64::from(bits % 6).to_le_bytes()),
            DType::I32 => data.extend((bits % 6).to_le_bytes()),
            DType::I8 | DType::U8 => data.push(bits as u8),
            DType::BOOL => data.push((bits & 1) as u8),
            other => return Err(format!("inputs of {other} are not made here")),
        }
    }
    Ok(Array { dtype: info.dtype, shape, data })
}

/// An output as a line: its name, type and shape, its sum, and a number that each bit of it changes.
fn line(name: &str, output: &Array) -> String {
    let mut bytes = output.data.clone();
    let mut quiet = |size: usize, exponent: u64, mantissa: u64| {
        for element in bytes.chunks_exact_mut(size) {
            let mut word = [0; 8];
            word[..size].copy_from_slice(element);
            let bits = u64::from_le_bytes(word);
            if bits & exponent == exponent && bits & mantissa != 0 {
                element.copy_from_slice(&(exponent | mantissa).to_le_bytes()[..size]);
            }
        }
    };
    match output.dtype {
        DType::F64 => quiet(8, 0x7ff << 52, (1 << 52) - 1),
        DType::F32 => quiet(4, 0xff << 23, (1 << 23) - 1),
        DType::F16 => quiet(2, 0x1f << 10, (1 << 10) - 1),
        DType::BF16 => quiet(2, 0xff << 7, (1 << 7) - 1),
        _ => {}
    }
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let sum: f64 = output.to_f64().iter().filter(|x| !x.is_nan()).sum();
    format!("{name} {}{:?} {sum:e} {hash:016x}", output.dtype, output.shape)
}
