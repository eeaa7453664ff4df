//! Rows rounded to int8 or int16 block by block, times weights of codes.
//!
//! ```text
//! magnitude[.., b] = max |x[.., b]|                  over the block
//! rounded[.., b, j] = int8(x[.., b, j] * 127 / magnitude[.., b])      int16: 32767
//! total[.., b] = sum of rounded[.., b], less[.., b] = -total[.., b]
//! part[.., b, n] = dot(words of rounded[.., b], codes[n, b])          int32
//! y[.., n] += (zero[n, b] * less[.., b] + part[.., b, n]) * (magnitude[.., b] / 127 * scale[n, b])
//! ```
//! A float32 holds every sum of a block of int8: the multiply-add of a zero point is exact.
//!
//! Decision: docs/decisions/0094-int8-activations.md

use std::slice::from_ref;

use reflex_graph::{Activations, NBits};
use reflex_tir::builder::{FuncBuilder, Reducer};
use reflex_tir::{Buffer, DType, Expr, Intrin, Sign};

use crate::legalize::builder::{
    LegalizeError, OpBuilder, OperandSource, ReadOperand, sum_of_products, word_product,
};
use crate::legalize::vnni;
use crate::packing::blocks::CodeIndex;
use crate::packing::panels::PackedElements;

/// `MatMulNBits`.
pub fn matmul_nbits(cx: &mut OpBuilder<'_>, attrs: NBits) -> Result<(), LegalizeError> {
    let (x, out) = (cx.args[0].clone(), cx.outs[0].clone());
    let Some((depth, rows)) = x.shape.split_last() else {
        return Err(cx.error("a scalar has no rows"));
    };
    let blocks = cx.args[1].shape[1].clone();
    let rounded = round_rows(cx, attrs, depth, &[rows, from_ref(&blocks)].concat());
    let weights = weights(cx, attrs);
    let words = attrs.words();
    let dot = match attrs.activations {
        Activations::Int8 => Intrin::DotI8 { a: Sign::Signed, b: Sign::Unsigned },
        Activations::Int16 => Intrin::DotI16,
    };
    let lead = rows.len();
    let shape = [rows, &[blocks.clone(), out.shape[lead].clone()]].concat();
    let steps = [Expr::i64(words), Expr::i64(attrs.groups())];
    let reducer = Reducer { init: Expr::int(0, DType::I32), combine: &sum_of_products };
    let part = cx.f.reduce_stage("part", "part", DType::I32, shape, &steps, reducer, |f, i, k| {
        let [word, group] = [&k[0], &k[1]];
        let at = [&i[..=lead], &[word.clone() * attrs.groups() + group.clone()]].concat();
        let codes = (weights.words)(
            f,
            &[i[lead + 1].clone(), i[lead].clone(), word.clone(), group.clone()],
        );
        word_product(dot, f.at(rounded.words, &at), codes)
    });
    let reducer = Reducer { init: Expr::constant(0.0, DType::F32), combine: &sum_of_products };
    cx.f.reduce_output("matmul", "y", DType::F32, out.shape, &[blocks], reducer, |f, i, b| {
        let (rows, column) = (&i[..lead], &i[lead]);
        let of_row = [rows, b].concat();
        let of_column = [column.clone(), b[0].clone()];
        let sum = f.at(part, &[rows, b, from_ref(column)].concat()).cast(DType::F32);
        let zero = (weights.zero)(f, &of_column);
        let sum = Expr::call(Intrin::Fma, vec![zero, f.at(rounded.less, &of_row), sum]);
        sum * (f.at(rounded.step, &of_row) * (weights.scale)(f, &of_column))
    });
    Ok(())
}

/// Rows in integers.
struct RoundedRows {
    /// Neighbours in a word, `[.., blocks, words]`.
    words: Buffer,
    /// The negative sum of a block as float32, `[.., blocks]`.
    less: Buffer,
    /// The number that 1 stands for, `[.., blocks]`.
    step: Buffer,
}

fn round_rows(cx: &mut OpBuilder<'_>, attrs: NBits, depth: &Expr, shape: &[Expr]) -> RoundedRows {
    let (read, depth) = (cx.reader(0), depth.clone());
    let whole = depth.as_int().is_some_and(|k| k % attrs.block == 0);
    let element = move |f: &FuncBuilder, block: &[Expr], j: &Expr| {
        let (b, rows) = block.split_last().expect("blocks are the last axis");
        let k = b.clone() * attrs.block + j.clone();
        let x = read(f, &[rows, from_ref(&k)].concat());
        match whole {
            true => x,
            false => Expr::if_then_else(k.lt(depth.clone()), x, Expr::float(0.0, DType::F32)),
        }
    };
    let each = [Expr::i64(attrs.block)];
    let zero = Expr::float(0.0, DType::F32);
    let reducer = Reducer { init: zero.clone(), combine: &Expr::max };
    let shape = shape.to_vec();
    let greatest = Expr::float(attrs.activations.greatest() as f64, DType::F32);
    let dtype = match attrs.activations {
        Activations::Int8 => DType::I8,
        Activations::Int16 => DType::I16,
    };
    let magnitude = cx.f.reduce_stage(
        "magnitude",
        "magnitude",
        DType::F32,
        shape.clone(),
        &each,
        reducer,
        |f, i, j| Expr::call(Intrin::Abs, vec![element(f, i, &j[0])]),
    );
    let step = cx.f.stage("step", "step", DType::F32, shape.clone(), |f, i| {
        f.at(magnitude, i) / greatest.clone()
    });
    let inverse = cx.f.stage("inverse", "inverse", DType::F32, shape.clone(), |f, i| {
        let most = f.at(magnitude, i);
        Expr::select(most.clone().equal(zero.clone()), zero.clone(), greatest.clone() / most)
    });
    let all = [&shape[..], &each].concat();
    let rounded = cx.f.stage("rounded", "rounded", dtype, all, |f, i| {
        let (j, block) = i.split_last().expect("an axis in the block");
        let x = element(f, block, j) * f.at(inverse, block);
        Expr::call(Intrin::Round, vec![x]).cast(dtype)
    });
    let reducer = Reducer { init: Expr::int(0, DType::I32), combine: &|a, b| a + b };
    let total = cx.f.reduce_stage(
        "total",
        "total",
        DType::I32,
        shape.clone(),
        &each,
        reducer,
        |f, i, j| f.at(rounded, &[i, j].concat()).cast(DType::I32),
    );
    let less = cx.f.stage("less", "less", DType::F32, shape.clone(), |f, i| {
        (Expr::int(0, DType::I32) - f.at(total, i)).cast(DType::F32)
    });
    let words = [&shape[..], &[Expr::i64(attrs.block / attrs.activations.per_word())]].concat();
    let words = cx.f.stage("words", "words", DType::U32, words, |f, i| {
        let (word, block) = i.split_last().expect("an axis of words");
        let element = |k: Expr| f.at(rounded, &[block, &[k]].concat());
        match attrs.activations {
            Activations::Int8 => vnni::word(word, &Expr::i64(attrs.block), &element),
            Activations::Int16 => halves([0, 1].map(|n| element(word.clone() * 2 + n))),
        }
    });
    RoundedRows { words, less, step }
}

/// Readers of weights of codes.
struct Weights {
    /// Neighbouring codes in a word, by column, block, word and group in it.
    words: ReadOperand,
    /// The scale of a column's block.
    scale: ReadOperand,
    /// Its zero point, float32.
    zero: ReadOperand,
}

/// Two integers in a word, the first one in its lower half.
fn halves(elements: [Expr; 2]) -> Expr {
    let [low, high] = elements.map(|e| e.cast(DType::I32).reinterpret(DType::U32));
    let low = Expr::call(Intrin::BitAnd, vec![low, Expr::int(0xffff, DType::U32)]);
    let high = Expr::call(Intrin::Shl, vec![high, Expr::int(16, DType::U32)]);
    Expr::call(Intrin::BitOr, vec![low, high])
}

fn weights(cx: &mut OpBuilder<'_>, attrs: NBits) -> Weights {
    if let OperandSource::Buffer(buffer, Some(packing)) = &cx.operands[1]
        && let PackedElements::Blocks(codes) = packing.elements
    {
        let (buffer, k) = (*buffer, packing.shape[0]);
        let [a, b, c] = [packing.clone(), packing.clone(), packing.clone()];
        return Weights {
            words: Box::new(move |f, at| {
                let [column, block, word, code] = [0, 1, 2, 3].map(|n| at[n].clone());
                let line = |line| a.line(f, buffer, &column, line);
                codes.neighbours(k, &CodeIndex { block, word, code }, &line)
            }),
            scale: Box::new(move |f, at| {
                codes.scale(k, &at[1], &|line| b.line(f, buffer, &at[0], line))
            }),
            zero: Box::new(move |f, at| {
                codes.zero(&at[1], &|line| c.line(f, buffer, &at[0], line))
            }),
        };
    }
    let read = cx.reader(1);
    let codes = cx.args[1].shape.clone();
    // Columns are neighbours, as those of panels are.
    let shape = vec![
        codes[1].clone(),
        Expr::i64(attrs.words()),
        Expr::i64(attrs.groups()),
        codes[0].clone(),
    ];
    let copy = cx.f.stage("codes", "codes", DType::U32, shape, |f, i| {
        let [block, word, group, column] = [0, 1, 2, 3].map(|n| i[n].clone());
        let each = attrs.activations.per_word();
        let first = word * (each * attrs.groups()) + group * each;
        let code = |t: i64| {
            let bit = (first.clone() + t) * attrs.bits;
            let byte = read(f, &[column.clone(), block.clone(), bit.clone().floordiv(8)]);
            let by = bit.floormod(8).cast(DType::U8);
            let shifted = Expr::call(Intrin::Shr, vec![byte, by]);
            let mask = Expr::int((1 << attrs.bits) - 1, DType::U8);
            Expr::call(Intrin::BitAnd, vec![shifted, mask])
        };
        match attrs.activations {
            Activations::Int8 => Expr::call(Intrin::Pack4x8, (0..4).map(code).collect()),
            Activations::Int16 => halves([0, 1].map(code)),
        }
    });
    let words = move |f: &FuncBuilder, at: &[Expr]| {
        let [column, place @ ..] = at else { unreachable!("a column and a place in it") };
        f.at(copy, &[place, from_ref(column)].concat())
    };
    let zero: ReadOperand = match cx.operands.len() {
        3 => Box::new(move |_, _| Expr::float(attrs.middle() as f64, DType::F32)),
        _ => {
            let read = cx.reader(3);
            Box::new(move |f, at| read(f, at).cast(DType::F32))
        }
    };
    Weights { words: Box::new(words), scale: Box::new(cx.reader(2)), zero }
}
