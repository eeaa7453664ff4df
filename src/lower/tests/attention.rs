//! Attention is one kernel, and answers as its operators do one after the other.

mod harness;

use harness::{agree, f32s};
use reflex_graph::builder::FuncBuilder;
use reflex_graph::{Binary, Literal, Module, Op, TensorType, Value};
use reflex_tir::{DType, Expr};

const HEADS: i64 = 2;
const WIDTH: i64 = 20;

/// The order in which heads and rows are stored.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    HeadsFirst,
    RowsFirst,
}

/// `softmax(q @ k^T / 4 + mask) @ v` over `[b, m or n, h, d]` (or heads first).
fn attention(order: Order, masked: bool, extents: Option<[i64; 3]>) -> Module {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let [batch, m, n] = match extents {
        Some(extents) => extents.map(Expr::i64),
        None => ["batch", "m", "n"].map(|name| Expr::var(b.sym(name))),
    };
    let ty = |shape: &[Expr]| TensorType::new(DType::F32, shape.to_vec());
    let stored = |rows: &Expr| match order {
        Order::HeadsFirst => ty(&[batch.clone(), HEADS.into(), rows.clone(), WIDTH.into()]),
        Order::RowsFirst => ty(&[batch.clone(), rows.clone(), HEADS.into(), WIDTH.into()]),
    };
    let [q, k, v] =
        [("q", &m), ("k", &n), ("v", &n)].map(|(name, rows)| b.param(name, stored(rows)));
    let transposed = |b: &mut FuncBuilder<'_>, x: Value, perm: [usize; 4]| match perm {
        [0, 1, 2, 3] => x,
        _ => b.emit1(Op::Transpose(perm.to_vec()), &[x]).unwrap(),
    };
    let heads = if order == Order::RowsFirst { [0, 2, 1, 3] } else { [0, 1, 2, 3] };
    let columns = if order == Order::RowsFirst { [0, 2, 3, 1] } else { [0, 1, 3, 2] };
    let (q, k, v) = (
        transposed(&mut b, q, heads),
        transposed(&mut b, k, columns),
        transposed(&mut b, v, heads),
    );
    let mut scores = b.emit1(Op::MatMul, &[q, k]).unwrap();
    let scale = b.constant(Literal::from_f32(vec![], &[4.0]));
    scores = b.emit1(Op::Binary(Binary::Div), &[scores, scale]).unwrap();
    if masked {
        let mask = b.param("mask", ty(&[batch.clone(), 1.into(), 1.into(), n.clone()]));
        scores = b.emit1(Op::Binary(Binary::Add), &[scores, mask]).unwrap();
    }
    let weights = b.emit1(Op::Softmax { axis: 3, log: false }, &[scores]).unwrap();
    let out = b.emit1(Op::MatMul, &[weights, v]).unwrap();
    let out = transposed(&mut b, out, heads);
    b.finish(vec![out], vec!["y".into()]);
    module
}

fn inputs(order: Order, masked: bool, [b, m, n]: [i64; 3]) -> Vec<Literal> {
    let stored = |rows, seed| match order {
        Order::HeadsFirst => f32s(&[b, HEADS, rows, WIDTH], seed),
        Order::RowsFirst => f32s(&[b, rows, HEADS, WIDTH], seed),
    };
    let mut all = vec![stored(m, 1), stored(n, 2), stored(n, 3)];
    if masked {
        all.push(f32s(&[b, 1, 1, n], 4));
    }
    all
}

#[test]
fn blocks_of_rows_agree_with_the_whole() {
    for order in [Order::HeadsFirst, Order::RowsFirst] {
        for masked in [false, true] {
            let any = attention(order, masked, None);
            for extents in [[1, 1, 5], [1, 24, 24], [2, 30, 17], [1, 50, 33]] {
                agree(&any, &inputs(order, masked, extents));
                agree(&attention(order, masked, Some(extents)), &inputs(order, masked, extents));
            }
        }
    }
}

#[test]
fn attention_is_one_kernel() {
    for order in [Order::HeadsFirst, Order::RowsFirst] {
        let kernels = harness::kernels(&attention(order, true, None));
        let products: Vec<&String> = kernels.iter().filter(|k| k.contains("mat_mul")).collect();
        assert_eq!(products.len(), 1, "{kernels:?}");
        assert!(products[0].contains("softmax") || products[0].contains("more"), "{kernels:?}");
        assert_eq!(
            kernels.iter().filter(|k| k.contains("transpose")).count(),
            usize::from(products[0].contains("transpose")),
            "{kernels:?}"
        );
    }
}
