//! Costs of limits, instruments and stored inputs per call of a specialised function, over the bare
//! call. The model is the one that `REFLEX_BENCH_MODEL` names, else `examples/softmax.py`.

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use reflex::{
    Any, AnyView, Array, CallEvent, DType, Dim, Engine, Feed, Instrument, Mode, Prepared, Program,
    RaisedError, Session, Verdict,
};

/// Looks at nothing.
struct Idle;

impl Instrument for Idle {
    fn before(&mut self, _: &CallEvent<'_>) -> Result<Verdict, RaisedError> {
        Ok(Verdict::Run)
    }

    fn after(&mut self, _: &CallEvent<'_>, _: AnyView<'_>) -> Result<(), RaisedError> {
        Ok(())
    }
}

fn load() -> Program {
    let model = std::env::var("REFLEX_BENCH_MODEL");
    let model = model.unwrap_or_else(|_| "examples/softmax.py".to_owned());
    let engine = Engine::builder().tier("kernels=best".parse().expect("a policy")).build();
    engine.and_then(|engine| engine.load(model)).expect("loads")
}

/// Zeros for every input, with the shape that `REFLEX_BENCH_SHAPES` gives, such as `1x576,2x1x128,`
/// in the order of the inputs, else with 1 for symbolic dimensions.
fn feed(program: &Program) -> Prepared {
    let asked = std::env::var("REFLEX_BENCH_SHAPES").unwrap_or_default();
    let mut asked = asked.split(',');
    let inputs = program.signature("main").expect("main").inputs;
    let feed = inputs.iter().map(|input| {
        let declared = input.shape.iter().map(|dim| match dim {
            Dim::Const(size) => *size,
            Dim::Symbol(_) => 1,
        });
        let shape: Vec<i64> = match asked.next().filter(|text| !text.is_empty()) {
            Some(text) => text.split('x').map(|size| size.parse().expect("a size")).collect(),
            None => declared.collect(),
        };
        let count = usize::try_from(shape.iter().product::<i64>()).expect("a size");
        let data = vec![0; input.dtype.bytes_for(count).expect("a size")];
        let array = match input.dtype {
            // Sample rates and lengths are integers that models divide by.
            DType::I64 => Array::of(&shape, &vec![16_000_i64; count]).expect("fits"),
            dtype => Array { dtype, shape, data },
        };
        (input.name.clone(), array)
    });
    program.prepare("main", &feed.collect::<Feed>()).expect("fits")
}

fn limits(c: &mut Criterion) {
    let program = load();
    let prepared = feed(&program);
    let warm = || {
        let mut session = program.session(Mode::Tiered).expect("a session");
        session.warm_up(&prepared).expect("runs");
        session
    };
    let mut group = c.benchmark_group("limits");
    let mut measure = |name: &str, set: &dyn Fn(&mut Session)| {
        let mut session = warm();
        set(&mut session);
        group.bench_function(name, |b| b.iter(|| session.call(&prepared).expect("runs")));
    };
    measure("bare", &|_| {});
    measure("deadline", &|s| s.set_deadline(Some(Duration::from_secs(3600))));
    measure("fuel", &|s| s.set_fuel(Some(1 << 60)));
    measure("instrument", &|s| s.set_instrument(Some(Box::new(Idle))));
    measure("bare again", &|_| {});
    let mut session = warm();
    let mut bound = session.bind(&prepared).expect("runs");
    group.bench_function("bound", |b| b.iter(|| bound.run().expect("runs")));
    let mut session = warm();
    let args: Vec<Any> = prepared.values().to_vec();
    session.set_input("main", args).expect("fits");
    group.bench_function("stored inputs", |b| {
        b.iter(|| session.invoke_stateful("main").expect("runs"));
    });
    group.finish();
}

criterion_group!(benches, limits);
criterion_main!(benches);
