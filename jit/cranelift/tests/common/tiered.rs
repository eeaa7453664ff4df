//! Programs over integers, in the mode `tiered`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use reflex_cranelift::{CraneliftTier, TierOptions};
use reflex_runtime::function::{self, Function};
use reflex_runtime::value::Any;
use reflex_vm::listing;
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::tier::Tier;
use reflex_vm::verify::verify;

/// A session of the program `text`, whose kernels are `add` and `lt`. Traces are recorded at once.
pub fn tiered(text: &str, options: TierOptions) -> (Session, Arc<Program>, Arc<CraneliftTier>) {
    let int = |f: fn(i64, i64) -> i64| {
        Function::new(move |args| {
            Ok(Any::from(f(function::arg(args, 0)?, function::arg(args, 1)?)))
        })
    };
    let library: HashMap<String, Function> =
        [("add", int(i64::wrapping_add)), ("lt", int(|a, b| i64::from(a < b)))]
            .map(|(name, function)| (name.to_owned(), function))
            .into();
    let program = verify(listing::parse(text).unwrap()).unwrap();
    let program = Program::load(program, &[&library]).unwrap();
    let options = TierOptions { record_delay: Duration::ZERO, ..options };
    let tier = Arc::new(CraneliftTier::with_options(options).unwrap());
    program.attach(Arc::clone(&tier) as Arc<dyn Tier>);
    let program = Arc::new(program);
    let options = Options { mode: Mode::Tiered, ..Options::default() };
    (Session::new(&program, options).unwrap(), program, tier)
}
