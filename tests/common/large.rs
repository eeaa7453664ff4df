//! A library with a large constant.

use std::path::{Path, PathBuf};

use reflex::Engine;
use reflex_graph::builder::FuncBuilder;
use reflex_graph::{Binary, Literal, Module, Op, TensorType};
use reflex_tir::{DType, Expr};

/// Elements of the constant, of four bytes each.
pub const COUNT: usize = 16 << 20;

/// A library whose `main` adds a constant of 64 MiB to its input.
pub fn library(folder: &Path) -> PathBuf {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let shape = vec![Expr::i64(COUNT as i64)];
    let x = b.param("x", TensorType { shape, dtype: DType::F32 });
    let values: Vec<f32> = (0..COUNT).map(|at| (at % 1000) as f32).collect();
    let large = b.constant(Literal::from_f32(vec![COUNT as i64], &values));
    let y = b.emit1(Op::Binary(Binary::Add), &[x, large]).unwrap();
    b.finish(vec![y], vec!["y".to_owned()]);
    let path = folder.join("large.so");
    Engine::new().unwrap().compile(module).unwrap().save(&path).unwrap();
    path
}
