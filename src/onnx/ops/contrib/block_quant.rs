//! Weights of 2, 4 or 8 bits in blocks with a scale each: matrix products and embeddings.

use half::{bf16, f16};
use reflex_graph::{Activations, Binary, CodeMeaning, GatherKind, Literal, NBits, Op, dims};
use reflex_tir::{DType, Expr};

use crate::call::{Call, axis};
use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::ops::packed_weights::{Extents, in_order, packed_weights, zero_points};
use crate::ops::quant::by_blocks;
use crate::ops::table::{Table, one};
use crate::value::{OnnxValue, Tensor};

pub(super) const TABLE: Table = &[
    ("GatherBlockQuantized", gather_block_quantized),
    ("MatMulBnb4", matmul_bnb4),
    ("MatMulNBits", matmul_nbits),
];

/// Largest extent of weights, so that arithmetic on attributes does not overflow.
const LIMIT: i64 = 1 << 31;

/// The integers that activations may be rounded to, by `accuracy_level`: unset, float32, float16, bfloat16, int8.
/// int16 with a scale for each block has more bits than float16 or bfloat16, but for elements 2^5 below
/// the block's greatest.
const ACTIVATIONS: [Option<Activations>; 5] = [
    Some(Activations::Int16),
    None,
    Some(Activations::Int16),
    Some(Activations::Int16),
    Some(Activations::Int8),
];

/// An attribute that is a size.
fn size(call: &Call, name: &'static str) -> Result<i64> {
    let value = call.int(name, 0)?;
    let fine = (1..LIMIT).contains(&value);
    if fine { Ok(value) } else { Err(invalid(format!("attribute `{name}` is {value}"))) }
}

/// Bits of a code: 2, 4 or 8.
fn width(call: &Call) -> Result<i64> {
    match call.int("bits", 4)? {
        bits @ (2 | 4 | 8) => Ok(bits),
        bits => Err(unsupported(format!("attribute `bits` of {bits}"))),
    }
}

/// The codes in the bytes of the last axis, the lowest bits first.
fn unpacked(cx: &mut ImportContext, packed: &Tensor, bits: i64) -> Result<Tensor> {
    if packed.dtype() != DType::U8 {
        return Err(invalid(format!("packed codes of type {}", packed.ty)));
    }
    if bits == 8 {
        return Ok(packed.clone());
    }
    let count = 8 / bits;
    let last = packed.rank();
    let mut parts = vec![];
    for index in 0..count {
        let shifted = match index {
            0 => packed.clone(),
            _ => cx.binary_num(Binary::Shr, packed, (index * bits) as f64)?,
        };
        let code = match index + 1 == count {
            true => shifted,
            false => cx.binary_num(Binary::BitAnd, &shifted, ((1 << bits) - 1) as f64)?,
        };
        parts.push(cx.unsqueeze(&code, &[last])?);
    }
    let joined = cx.concat(&parts, last)?;
    let mut shape = packed.shape().to_vec();
    shape[last - 1] = dims::simplify(&(shape[last - 1].clone() * count));
    cx.reshape(&joined, &shape)
}

/// Weights `[n, k]` in the type of the scales: `(code - zero point) * scale`.
struct Blocks {
    n: i64,
    k: i64,
    block: i64,
    bits: i64,
}

impl Blocks {
    fn per_row(&self) -> i64 {
        (self.k + self.block - 1) / self.block
    }

    /// Codes `[n, blocks, block]`.
    fn codes(&self, cx: &mut ImportContext, packed: &Tensor) -> Result<Tensor> {
        let bytes = Expr::i64(self.block * self.bits / 8);
        let shape = [Expr::i64(self.n), Expr::i64(self.per_row()), bytes];
        let packed = cx.reshape(packed, &shape)?;
        unpacked(cx, &packed, self.bits)
    }

    /// Zero points `[n, blocks]`: packed codes, numbers of the scales' type, or the middle.
    fn zero_points(
        &self,
        cx: &mut ImportContext,
        given: Option<&Tensor>,
        to: DType,
    ) -> Result<Tensor> {
        let (n, blocks) = (Expr::i64(self.n), Expr::i64(self.per_row()));
        let Some(given) = given else { return cx.num((1 << (self.bits - 1)) as f64, to) };
        if given.dtype() != DType::U8 {
            let zero = cx.reshape(given, &[n, blocks])?;
            return cx.cast(&zero, to);
        }
        let codes = self.zero_codes(cx, given)?;
        cx.cast(&codes, to)
    }

    /// Zero points `[n, blocks]` that are packed as codes are.
    fn zero_codes(&self, cx: &mut ImportContext, packed: &Tensor) -> Result<Tensor> {
        let bytes = Expr::i64((self.per_row() * self.bits + 7) / 8);
        let packed = cx.reshape(packed, &[Expr::i64(self.n), bytes])?;
        let codes = unpacked(cx, &packed, self.bits)?;
        cx.slice(&codes, 1, &Expr::i64(0), &Expr::i64(self.per_row()))
    }

    fn extents(&self) -> Extents {
        let [columns, depth, block, bits] =
            [self.n, self.k, self.block, self.bits].map(|n| n as usize);
        Extents { columns, depth, block, bits }
    }

    /// The weights `[k, n]` as a constant that stays packed, where all of it is known.
    fn packed(
        &self,
        packed: &Tensor,
        scales: &Tensor,
        [zero_points_given, group]: [Option<&Tensor>; 2],
    ) -> Option<Tensor> {
        let (codes, extents) = (packed.as_literal()?, self.extents());
        if group.is_some_and(|group| !in_order(group, extents)) {
            return None;
        }
        let meaning = zero_points(extents, scales.dtype(), zero_points_given)?;
        packed_weights(extents, scales.dtype(), codes, scales, meaning)
    }

    /// The product of activations rounded to integers, block by block. `None` where zero points are no
    /// codes, blocks are not in order, or rows are not known to have K elements: such products have float
    /// weights at every level.
    fn integer_product(
        &self,
        cx: &mut ImportContext,
        (a, activations): (&Tensor, Activations),
        [packed, scales]: [&Tensor; 2],
        [zero_points, group]: [Option<&Tensor>; 2],
    ) -> Result<Option<Tensor>> {
        let codes = NBits { bits: self.bits, block: self.block, activations };
        let shuffled = group.is_some_and(|group| !in_order(group, self.extents()));
        let numbers = zero_points.is_some_and(|zero| zero.dtype() != DType::U8);
        let floats = [a, scales].iter().all(|t| t.dtype().is_float());
        let fits = a.shape().last().and_then(Expr::as_int) == Some(self.k);
        if shuffled
            || numbers
            || !floats
            || !fits
            || packed.dtype() != DType::U8
            || !codes.is_valid()
        {
            return Ok(None);
        }
        let (n, blocks) = (Expr::i64(self.n), Expr::i64(self.per_row()));
        let bytes = Expr::i64(codes.bytes());
        let packed = cx.reshape(packed, &[n.clone(), blocks.clone(), bytes])?;
        let scales = cx.reshape(scales, &[n, blocks])?;
        let scales = cx.cast(&scales, DType::F32)?;
        let zero = zero_points.map(|zero| self.zero_codes(cx, zero)).transpose()?;
        let x = cx.cast(a, DType::F32)?;
        let args: Vec<&Tensor> = [&x, &packed, &scales].into_iter().chain(&zero).collect();
        let product = cx.op(Op::MatMulNBits(codes), &args)?;
        cx.cast(&product, a.dtype()).map(Some)
    }

    /// The weights, with the block of column `k` at `g_idx[k]` where that is given.
    fn weights(
        &self,
        cx: &mut ImportContext,
        packed: &Tensor,
        scales: &Tensor,
        [zero_points, group]: [Option<&Tensor>; 2],
    ) -> Result<Tensor> {
        let to = scales.dtype();
        let (n, blocks, k) = (Expr::i64(self.n), Expr::i64(self.per_row()), Expr::i64(self.k));
        let padded = Expr::i64(self.per_row() * self.block);
        let codes = self.codes(cx, packed)?;
        let codes = cx.cast(&codes, to)?;
        let scales = cx.reshape(scales, &[n.clone(), blocks])?;
        let zero = self.zero_points(cx, zero_points, to)?;
        if let Some(group) = group {
            let flat = cx.reshape(&codes, &[n, padded])?;
            let codes = cx.slice(&flat, 1, &Expr::i64(0), &k)?;
            let group = cx.slice(group, 0, &Expr::i64(0), &k)?;
            let scales = cx.gather(GatherKind::Axis(1), &scales, &group)?;
            let zero = match zero.rank() {
                0 => zero,
                _ => cx.gather(GatherKind::Axis(1), &zero, &group)?,
            };
            let centred = cx.sub(&codes, &zero)?;
            return cx.mul(&centred, &scales);
        }
        let zero = if zero.rank() == 0 { zero } else { cx.unsqueeze(&zero, &[2])? };
        let scales = cx.unsqueeze(&scales, &[2])?;
        let centred = cx.sub(&codes, &zero)?;
        let weights = cx.mul(&centred, &scales)?;
        let flat = cx.reshape(&weights, &[n, padded])?;
        cx.slice(&flat, 1, &Expr::i64(0), &k)
    }
}

fn matmul_nbits(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (a, packed, scales) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (n, k) = (size(call, "N")?, size(call, "K")?);
    let blocks = Blocks { n, k, block: size(call, "block_size")?, bits: width(call)? };
    let level = call.int("accuracy_level", 0)?;
    let activations = usize::try_from(level).ok().and_then(|level| ACTIVATIONS.get(level));
    let Some(activations) = activations else {
        return Err(invalid(format!("attribute `accuracy_level` is {level}")));
    };
    if call.int("weight_prepacked", 0)? != 0 {
        return Err(unsupported("attribute `weight_prepacked`: weights packed for a device"));
    }
    if !blocks.block.cast_unsigned().is_power_of_two() || blocks.block < 16 {
        return Err(invalid(format!("attribute `block_size` is {}", blocks.block)));
    }
    let given = [call.opt(3)?, call.opt(4)?];
    if let Some(activations) = *activations
        && let Some(product) =
            blocks.integer_product(cx, (a, activations), [packed, scales], given)?
    {
        return biased(cx, &product, call);
    }
    // The activations' own type.
    let weights = match blocks.packed(packed, scales, given) {
        Some(weights) => weights,
        None => {
            let weights = blocks.weights(cx, packed, scales, given)?;
            cx.transpose(&weights, &[1, 0])?
        }
    };
    let product = cx.matmul(a, &weights)?;
    biased(cx, &product, call)
}

fn biased(cx: &mut ImportContext, product: &Tensor, call: &Call) -> Result<Vec<OnnxValue>> {
    match call.opt(5)? {
        Some(bias) => one(cx.add(product, bias)?),
        None => one(product.clone()),
    }
}

/// The numbers that the 4-bit codes of MatMulBnb4 stand for (Dettmers et al. 2023, QLoRA; and
/// bitsandbytes' FP4).
const FP4: [f32; 16] = [
    0.0,
    5.208_333_3e-3,
    2.0 / 3.0,
    1.0,
    1.0 / 3.0,
    0.5,
    1.0 / 6.0,
    0.25,
    -0.0,
    -5.208_333_3e-3,
    -2.0 / 3.0,
    -1.0,
    -1.0 / 3.0,
    -0.5,
    -1.0 / 6.0,
    -0.25,
];
const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

fn matmul_bnb4(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (a, packed, scales) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (n, k, block) = (size(call, "N")?, size(call, "K")?, size(call, "block_size")?);
    let count = n * k;
    let table = match call.int("quant_type", 1)? {
        0 => FP4,
        1 => NF4,
        kind => return Err(invalid(format!("quant_type {kind}"))),
    };
    call.ignore(&["training_mode"]);
    if call.flag_or_true("transB")?
        && let Some(weights) = packed_bnb4([n, k, block], packed, scales, &table)
    {
        return one(cx.matmul(a, &weights)?);
    }
    // The code of the even element is in the high bits.
    let high = cx.binary_num(Binary::Shr, packed, 4.0)?;
    let low = cx.binary_num(Binary::BitAnd, packed, 15.0)?;
    let parts = [cx.unsqueeze(&high, &[1])?, cx.unsqueeze(&low, &[1])?];
    let codes = cx.concat(&parts, 1)?;
    let codes = cx.reshape(&codes, &[Expr::i64((count + 1) / 2 * 2)])?;
    let codes = cx.slice(&codes, 0, &Expr::i64(0), &Expr::i64(count))?;
    let codes = cx.cast(&codes, DType::I64)?;
    let bytes = table.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let table = reflex_graph::Literal::new(DType::F32, vec![16], std::sync::Arc::new(bytes));
    let table = Tensor::literal(table.ok_or_else(|| invalid("table of codes"))?);
    let values = cx.take(&table, &codes, 0)?;
    let values = cx.cast(&values, scales.dtype())?;
    let flat = cx.reshape(scales, &[Expr::i64((count + block - 1) / block)])?;
    let wide = cx.unsqueeze(&flat, &[1])?;
    let shape = [wide.shape()[0].clone(), Expr::i64(block)];
    let wide = cx.broadcast(&wide, &shape)?;
    let wide = cx.reshape(&wide, &[Expr::i64((count + block - 1) / block * block)])?;
    let wide = cx.slice(&wide, 0, &Expr::i64(0), &Expr::i64(count))?;
    let weights = cx.mul(&values, &wide)?;
    let weights = match call.flag_or_true("transB")? {
        true => {
            let rows = cx.reshape(&weights, &[Expr::i64(n), Expr::i64(k)])?;
            cx.transpose(&rows, &[1, 0])?
        }
        false => cx.reshape(&weights, &[Expr::i64(n), Expr::i64(k)])?,
    };
    one(cx.matmul(a, &weights)?)
}

/// Weights `[k, n]` that stay packed, where all of it is known and no block has codes of two columns.
fn packed_bnb4(
    [n, k, block]: [i64; 3],
    packed: &Tensor,
    scales: &Tensor,
    table: &[f32; 16],
) -> Option<Tensor> {
    let codes = packed.as_literal().filter(|l| l.dtype() == DType::U8 && k % block == 0)?;
    let dtype = scales.dtype();
    let rounded = |x: f32| match dtype {
        DType::F16 => f16::from_f32(x).to_f32(),
        DType::BF16 => bf16::from_f32(x).to_f32(),
        _ => x,
    };
    // The code of the even element is in the high bits, where the lowest are wanted first.
    let bytes: Vec<u8> = codes.bytes().iter().map(|byte| byte.rotate_left(4)).collect();
    let codes = Literal::new(DType::U8, vec![bytes.len() as i64], std::sync::Arc::new(bytes))?;
    let [columns, depth, block] = [n, k, block].map(|n| n as usize);
    let extents = Extents { columns, depth, block, bits: 4 };
    packed_weights(extents, dtype, &codes, scales, CodeMeaning::Table(table.map(rounded)))
}

/// Rows are gathered packed and expanded after, so that a table stays as small as its file.
fn gather_block_quantized(cx: &mut ImportContext, call: &Call) -> Result<Vec<OnnxValue>> {
    let (data, indices, scales) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (bits, block) = (width(call)?, size(call, "block_size")?);
    let gathered = axis(call.int("gather_axis", 0)?, data.rank())?;
    let quantized = axis(call.int("quantize_axis", 1)?, data.rank())?;
    if data.dtype() != DType::U8 {
        return Err(unsupported(format!("data of type {}", data.dtype())));
    }
    if gathered != 0 || quantized + 1 != data.rank() || quantized == 0 {
        return Err(unsupported("axes other than the first, and the last of blocks"));
    }
    let mut rows = |x: &Tensor| cx.gather(GatherKind::Axis(0), x, indices);
    let (codes, scales) = (rows(data)?, rows(scales)?);
    let zero = call.opt(3)?.map(&mut rows).transpose()?;
    let codes = unpacked(cx, &codes, bits)?;
    let to = scales.dtype();
    let codes = cx.cast(&codes, to)?;
    let last = codes.rank() - 1;
    let zero = match zero {
        Some(packed) => {
            let zero = unpacked(cx, &packed, bits)?;
            let zero = cx.slice(&zero, last, &Expr::i64(0), &scales.shape()[last])?;
            let zero = cx.cast(&zero, to)?;
            by_blocks(cx, &zero, last, block, &codes)?
        }
        None => cx.num((1 << (bits - 1)) as f64, to)?,
    };
    let scales = by_blocks(cx, &scales, last, block, &codes)?;
    let centred = cx.sub(&codes, &zero)?;
    one(cx.mul(&centred, &scales)?)
}
