//! Loads a model and calls it with ones: of every output its name, shape and sum is printed.
//!
//! `place MODEL [MODE]`; without a model one that is in the program itself, where the build
//! can compile it.

use std::error::Error;

use reflex::{Array, DType, Dim, Engine, Feed, Mode, ModelSource, TensorInfo};

/// The extent of dimensions that the model leaves open.
const OPEN: i64 = 2;
const CALLS: usize = 100;

#[cfg(feature = "kernels")]
fn own_model() -> Result<ModelSource, Box<dyn Error>> {
    let text = include_bytes!("../../examples/softmax.py");
    Ok(ModelSource::embedded(reflex::ModelFormat::Script, text))
}

#[cfg(not(feature = "kernels"))]
fn own_model() -> Result<ModelSource, Box<dyn Error>> {
    Err("which artifact? this build compiles no model".into())
}

fn ones(input: &TensorInfo) -> Result<Array, Box<dyn Error>> {
    let extent = |dim: &Dim| match dim {
        Dim::Const(n) => *n,
        Dim::Symbol(_) => OPEN,
    };
    let shape: Vec<i64> = input.shape.iter().map(extent).collect();
    let count = usize::try_from(shape.iter().product::<i64>())?;
    match input.dtype {
        DType::F32 => Ok(Array::of(&shape, &vec![1.0_f32; count])?),
        DType::I64 => Ok(Array::of(&shape, &vec![1_i64; count])?),
        dtype => Err(format!("inputs of {dtype} are not made here").into()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let model = args.next().map_or_else(own_model, |path| Ok(path.into()))?;
    let mode = args.next().map_or(Ok(Mode::Tiered), |mode| mode.parse())?;
    let program = Engine::new()?.load(model)?;
    let mut feed = Feed::new();
    for input in &program.signature("main")?.inputs {
        feed.insert(input.name.clone(), ones(input)?);
    }
    let call = program.prepare("main", &feed)?;
    let mut session = program.session(mode)?;
    for _ in 1..CALLS {
        session.call(&call)?;
    }
    for (name, array) in session.call(&call)?.arrays()? {
        let sum: f64 = array.to_f64().iter().sum();
        println!("{name}{:?} {sum}", array.shape);
    }
    Ok(())
}
