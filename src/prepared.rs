//! Checked arguments.

use reflex_runtime::value::Any;

/// Arguments of a call, checked against the function's signature and ready to use again.
pub struct Prepared {
    pub(crate) func: u32,
    pub(crate) args: Vec<Any>,
}

impl Prepared {
    /// Returns the arguments in call order, for calls on values.
    ///
    /// ```
    /// use reflex::{Array, Engine, Feed, Mode};
    ///
    /// let program = Engine::new()?.load("examples/softmax.py")?;
    /// let feed = Feed::from([("x".to_owned(), Array::of(&[1, 2], &[8.0_f32, 8.0])?)]);
    /// let prepared = program.prepare("main", &feed)?;
    /// program.session(Mode::Bytecode)?.call_values("main", prepared.values())?;
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn values(&self) -> &[Any] {
        &self.args
    }
}
