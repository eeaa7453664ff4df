//! Inputs and outputs in place, for runs that copy nothing in and allocate nothing.

use std::sync::Arc;
use std::time::Instant;

use reflex_runtime::tensor::Tensor;
use reflex_runtime::tensor::data::Element;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::session::BindingId;

use super::Session;
use crate::error::{Error, ErrorKind, Result};
use crate::program::Prepared;
use crate::specialise::{Variant, copies};

/// A function whose inputs and outputs stay in place between runs ([`Session::bind`]).
///
/// Extents are those of the feed it was bound with. Once settled (the first runs plan memory,
/// and in tiered mode compile), a run makes no heap allocation.
pub struct IoBinding<'s> {
    session: &'s mut Session,
    id: BindingId,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    /// The extents, as long as a program for them may come.
    extents: Option<Arc<Variant>>,
    /// The same inputs and outputs in the program for these extents.
    special: Option<(Session, BindingId)>,
}

impl Session {
    /// Copies the inputs into place, runs once, and makes outputs of the extents it gave.
    ///
    /// ```
    /// use reflex::{Array, Engine, Feed, Mode};
    ///
    /// let program = Engine::new()?.load("examples/softmax.py".as_ref())?;
    /// let feed = Feed::from([("x".to_owned(), Array::of(&[1, 2], &[0.0_f32, 3.0])?)]);
    /// let mut session = program.session(Mode::Tiered)?;
    /// let mut bound = session.bind(&program.prepare("main", &feed)?)?;
    /// bound.input_mut::<f32>(0)?.copy_from_slice(&[8.0, 8.0]);
    /// bound.run()?;
    /// assert_eq!(bound.output::<f32>(0)?, [0.5, 0.5]);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn bind(&mut self, prepared: &Prepared) -> Result<IoBinding<'_>> {
        let failed = |e: reflex_runtime::error::Error| Error::new(ErrorKind::Run, e.message());
        let inputs = prepared.args.iter().map(own_tensor).collect::<Result<Vec<_>>>()?;
        let settled =
            Prepared { func: prepared.func, args: inputs.iter().cloned().map(Any::from).collect() };
        let results = self.call(&settled)?.tensors()?;
        let output = |t: &Tensor| Tensor::empty(t.shape(), t.dtype());
        let outputs = results.iter().map(output).collect::<std::result::Result<Vec<_>, _>>();
        let outputs = outputs.map_err(failed)?;
        let extents = self
            .extents()
            .and_then(|extents| extents.variant(settled.func, AnyView::slice(&settled.args)));
        let id = self.bind_tensors(settled, outputs.clone())?;
        let mut bound = IoBinding { session: self, id, inputs, outputs, extents, special: None };
        bound.run()?;
        Ok(bound)
    }
}

impl IoBinding<'_> {
    /// Reads the inputs, writes the outputs.
    pub fn run(&mut self) -> Result<()> {
        if let Some((session, id)) = &mut self.special {
            return session.run_bound(*id);
        }
        let Some(variant) = &self.extents else { return self.session.run_bound(self.id) };
        if let (Some(special), Some(extents)) = (variant.special(), self.session.extents()) {
            let mut session = extents.open(special)?;
            let args = self.inputs.iter().cloned().map(Any::from).collect();
            let bound = Prepared { func: special.func, args };
            let id = session.bind_tensors(bound, self.outputs.clone())?;
            let (session, id) = self.special.insert((session, id));
            return session.run_bound(*id);
        }
        let start = Instant::now();
        self.session.run_bound(self.id)?;
        if let Some(extents) = self.session.extents().filter(|_| variant.counts()) {
            extents.note(variant, start.elapsed(), &|| copies(self.inputs.iter()));
        }
        Ok(())
    }

    /// The elements of input number `index` of the signature, to be written for the next run.
    pub fn input_mut<T: Element>(&mut self, index: usize) -> Result<&mut [T]> {
        let tensor = nth(&self.inputs, index, "input")?;
        // SAFETY: the tensor was made by `bind` and never given out; the session, which also
        // holds it, runs only through the `self` that the slice borrows.
        unsafe { tensor.as_mut_slice() }.map_err(|e| Error::input(e.message()))
    }

    /// The elements of output number `index`, as the last run left them.
    pub fn output<T: Element>(&self, index: usize) -> Result<&[T]> {
        let tensor = nth(&self.outputs, index, "output")?;
        // SAFETY: as for the inputs: only a run writes it, and runs need `&mut self`.
        unsafe { tensor.as_slice() }.map_err(|e| Error::input(e.message()))
    }

    /// Extents of output number `index`.
    pub fn output_shape(&self, index: usize) -> Result<&[i64]> {
        Ok(nth(&self.outputs, index, "output")?.shape())
    }
}

fn nth<'t>(tensors: &'t [Tensor], index: usize, what: &str) -> Result<&'t Tensor> {
    let count = tensors.len();
    tensors.get(index).ok_or_else(|| Error::input(format!("no {what} {index}; there are {count}")))
}

/// A copy that nobody else holds.
fn own_tensor(value: &Any) -> Result<Tensor> {
    let tensor = value.downcast_ref::<Tensor>();
    let tensor = tensor.ok_or_else(|| Error::input("only tensor inputs can be bound"))?;
    let bytes = tensor.to_bytes().map_err(|e| Error::input(e.message()))?;
    Tensor::from_bytes(tensor.shape(), tensor.dtype(), &bytes)
        .map_err(|e| Error::input(e.message()))
}
