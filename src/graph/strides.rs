//! Strides and index arithmetic of row-major tensors.

use std::ops::Range;

/// Row-major strides, in elements.
pub(crate) fn strides(shape: &[i64]) -> Vec<i64> {
    let mut out = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        out[i - 1] = out[i] * shape[i];
    }
    out
}

/// Strides that read a tensor of `shape` as if broadcast to rank `rank`: 0 along dimensions of 1.
pub(crate) fn broadcast_strides(shape: &[i64], rank: usize) -> Vec<i64> {
    let own = strides(shape);
    let mut out = vec![0; rank - shape.len()];
    out.extend(shape.iter().zip(own).map(|(d, s)| if *d == 1 { 0 } else { s }));
    out
}

/// Calls `f(flat, [offset under each stride set])` for every index in row-major order.
pub(crate) fn walk<const N: usize>(
    shape: &[i64],
    stride_sets: [&[i64]; N],
    mut f: impl FnMut(usize, [i64; N]),
) {
    if shape.contains(&0) {
        return;
    }
    let (mut index, mut offsets, mut flat) = (vec![0i64; shape.len()], [0i64; N], 0usize);
    loop {
        f(flat, offsets);
        flat += 1;
        let mut axis = shape.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            let done = index[axis] == shape[axis];
            for (offset, set) in offsets.iter_mut().zip(stride_sets) {
                *offset += if done { -set[axis] * (shape[axis] - 1) } else { set[axis] };
            }
            if !done {
                break;
            }
            index[axis] = 0;
        }
    }
}

/// Drops axes of one element, and merges each axis that continues the one before it in all stride sets with that.
fn merged<const N: usize>(shape: &[i64], sets: [&[i64]; N]) -> (Vec<i64>, [Vec<i64>; N]) {
    let (mut dims, mut steps): (Vec<i64>, [Vec<i64>; N]) = (vec![], [const { vec![] }; N]);
    for (axis, d) in shape.iter().enumerate().filter(|(_, d)| **d != 1) {
        let continues = |(own, set): (&Vec<i64>, &&[i64])| own.last() == Some(&(set[axis] * d));
        match dims.last_mut() {
            Some(last) if steps.iter().zip(&sets).all(continues) => {
                *last *= d;
                steps
                    .iter_mut()
                    .zip(sets)
                    .for_each(|(own, set)| *own.last_mut().expect("as many") = set[axis]);
            }
            _ => {
                dims.push(*d);
                steps.iter_mut().zip(sets).for_each(|(own, set)| own.push(set[axis]));
            }
        }
    }
    (dims, steps)
}

/// Calls `f(offsets, steps, count)` for rows of `count` elements, as long as possible, in row-major order: from an offset on and a
/// step apart under each stride set.
pub(crate) fn walk_rows<const N: usize>(
    shape: &[i64],
    sets: [&[i64]; N],
    mut f: impl FnMut([i64; N], [i64; N], usize),
) {
    let (mut dims, mut steps) = merged(shape, sets);
    let row = dims.pop().unwrap_or(1);
    let step = steps.each_mut().map(|steps| steps.pop().unwrap_or(1));
    walk(&dims, steps.each_ref().map(Vec::as_slice), |_, offsets| f(offsets, step, row as usize));
}

/// Calls `f(offset, step, count)` for the elements `range` of `shape`, counted in row-major order: `count` of
/// them from an offset on, `step` apart.
pub(crate) fn walk_range(
    shape: &[i64],
    strides: &[i64],
    range: Range<usize>,
    mut f: impl FnMut(usize, usize, usize),
) {
    let (dims, [steps]) = merged(shape, [strides]);
    let (mut index, mut left) = (vec![0i64; dims.len()], range.start as i64);
    for axis in (0..dims.len()).rev() {
        (index[axis], left) = (left % dims[axis], left / dims[axis]);
    }
    let (last, row, step) = match (dims.last(), steps.last()) {
        (Some(row), Some(step)) => (dims.len() - 1, *row, *step),
        _ => return (0..range.len()).for_each(|_| f(0, 0, 1)),
    };
    let mut left = range.len() as i64;
    while left > 0 {
        let offset: i64 = index.iter().zip(&steps).map(|(i, s)| i * s).sum();
        let count = left.min(row - index[last]);
        f(offset as usize, step as usize, count as usize);
        left -= count;
        index[last] = 0;
        for axis in (0..last).rev() {
            index[axis] += 1;
            if index[axis] < dims[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

/// Copies `item`-byte elements from `src` at `base + sum(index * strides)` in row-major
/// order of `shape`. The caller has checked that every address is inside.
pub(crate) fn gather_strided(
    src: &[u8],
    item: usize,
    shape: &[i64],
    strides: &[i64],
    base: i64,
) -> Vec<u8> {
    let total: i64 = shape.iter().product();
    let mut out = Vec::with_capacity(total as usize * item);
    walk_rows(shape, [strides], |[offset], [step], row| {
        let (at, row) = (base + offset, row as i64);
        match (step, item) {
            (1, _) => out.extend_from_slice(&src[at as usize * item..][..row as usize * item]),
            (_, 1) => strided_row::<1>(src, at, row, step, &mut out),
            (_, 2) => strided_row::<2>(src, at, row, step, &mut out),
            (_, 4) => strided_row::<4>(src, at, row, step, &mut out),
            (_, 8) => strided_row::<8>(src, at, row, step, &mut out),
            _ => {
                for i in 0..row {
                    let from = (at + i * step) as usize * item;
                    out.extend_from_slice(&src[from..from + item]);
                }
            }
        }
    });
    out
}

fn strided_row<const N: usize>(src: &[u8], at: i64, row: i64, step: i64, out: &mut Vec<u8>) {
    let ((items, _), from) = (src.as_chunks::<N>(), out.len());
    out.resize(from + row as usize * N, 0);
    let (to, _) = out[from..].as_chunks_mut::<N>();
    if step == 0 {
        to.fill(items[at as usize]);
    } else {
        to.iter_mut().enumerate().for_each(|(i, to)| *to = items[(at + i as i64 * step) as usize]);
    }
}
