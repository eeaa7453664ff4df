//! Inputs and outputs in place, for runs that copy nothing in and allocate nothing.

use reflex_runtime::tensor::Tensor;
use reflex_runtime::tensor::data::Element;
use reflex_runtime::value::Any;

use super::Session;
use super::bound_call::BoundCall;
use crate::error::{Error, ErrorKind, Result};
use crate::prepared::Prepared;

/// A function whose input and output tensors stay in place between runs ([`Session::bind`]), as
/// with ONNX Runtime's IoBinding.
///
/// Shapes are those of the feed that it was bound with. Once the first runs have planned memory,
/// and in tiered mode compiled, a run makes no heap allocation.
pub struct IoBinding<'s> {
    session: &'s mut Session,
    call: BoundCall,
    inputs: Vec<Tensor>,
}

impl Session {
    /// Copies the inputs into a binding, runs it once, and allocates outputs of the resulting shapes.
    ///
    /// ```
    /// use reflex::{Array, Engine, Feed, Mode};
    ///
    /// let program = Engine::new()?.load("examples/softmax.py")?;
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
        let args: Vec<Any> = inputs.iter().cloned().map(Any::from).collect();
        let owned = Prepared { func: prepared.func, args };
        let results = self.call(&owned)?.tensors()?;
        let output = |t: &Tensor| Tensor::empty(t.shape(), t.dtype());
        let outputs = results.iter().map(output).collect::<std::result::Result<Vec<_>, _>>();
        let outputs = outputs.map_err(failed)?;
        let mut call = BoundCall::new(owned.func, owned.args);
        call.bind_outputs(outputs);
        let mut binding = IoBinding { session: self, call, inputs };
        binding.run()?;
        Ok(binding)
    }
}

impl IoBinding<'_> {
    /// Runs the function on the inputs and writes the outputs.
    ///
    /// ```
    /// # use reflex::{Array, Engine, Feed, Mode};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let feed = Feed::from([("x".to_owned(), Array::of(&[1, 2], &[8.0_f32, 8.0])?)]);
    /// # let prepared = program.prepare("main", &feed)?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// let mut binding = session.bind(&prepared)?;
    /// binding.input_mut::<f32>(0)?.fill(1.0);
    /// binding.run()?;
    /// assert_eq!(binding.output::<f32>(0)?, [0.5, 0.5]);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn run(&mut self) -> Result<()> {
        let in_place = self.session.plain.writes_outputs_in_place();
        self.call.run(in_place, |func, args, result| self.session.call_into(func, args, result))
    }

    /// Writes output `output` into input `input`, of the same type and shape, after every run, from
    /// now on: state in place, as recurrent models and key-value caches keep it. Results are
    /// written after the function has ended, so a run reads the state of the run before. The output
    /// is read and the state is set as the input.
    ///
    /// ```
    /// # use reflex::{Array, Engine, Feed, Mode};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let feed = Feed::from([("x".to_owned(), Array::of(&[1, 2], &[8.0_f32, 8.0])?)]);
    /// # let prepared = program.prepare("main", &feed)?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// let mut binding = session.bind(&prepared)?;
    /// binding.alias(0, 0)?;
    /// binding.input_mut::<f32>(0)?.copy_from_slice(&[f32::NEG_INFINITY, 0.0]);
    /// binding.run()?;
    /// assert_eq!(binding.input_mut::<f32>(0)?, [0.0, 1.0]);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn alias(&mut self, output: usize, input: usize) -> Result<()> {
        let source = nth(self.call.outputs(), output, "output")?;
        let state = nth(&self.inputs, input, "input")?;
        if source.dtype() != state.dtype() || source.shape() != state.shape() {
            let of = |t: &Tensor| format!("{}{:?}", t.dtype(), t.shape());
            let (source, state) = (of(source), of(state));
            let text = format!("output {output} is {source} and input {input} is {state}");
            return Err(Error::input(text));
        }
        let mut outputs = self.call.outputs().to_vec();
        outputs[output] = state.clone();
        self.call.bind_outputs(outputs);
        Ok(())
    }

    /// Returns the elements of input `index` of the signature, to be written for the next run.
    ///
    /// ```
    /// # use reflex::{Array, Engine, Feed, Mode};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let feed = Feed::from([("x".to_owned(), Array::of(&[1, 2], &[8.0_f32, 8.0])?)]);
    /// # let prepared = program.prepare("main", &feed)?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// let mut binding = session.bind(&prepared)?;
    /// binding.input_mut::<f32>(0)?.copy_from_slice(&[f32::NEG_INFINITY, 0.0]);
    /// binding.run()?;
    /// assert_eq!(binding.output::<f32>(0)?, [0.0, 1.0]);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn input_mut<T: Element>(&mut self, index: usize) -> Result<&mut [T]> {
        let tensor = nth(&self.inputs, index, "input")?;
        // SAFETY: `bind` made the tensor and no one else gets it; the session, which also holds
        // it, runs only through the `self` that the slice borrows.
        unsafe { tensor.as_mut_slice() }.map_err(|e| Error::input(e.message()))
    }

    /// Returns the elements of output `index`, as the last run wrote them.
    ///
    /// ```
    /// # use reflex::{Array, Engine, Feed, Mode};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let feed = Feed::from([("x".to_owned(), Array::of(&[1, 2], &[8.0_f32, 8.0])?)]);
    /// # let prepared = program.prepare("main", &feed)?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// let mut binding = session.bind(&prepared)?;
    /// assert_eq!(binding.output::<f32>(0)?, [0.5, 0.5]);
    /// assert!(binding.output::<f64>(0).is_err());
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn output<T: Element>(&self, index: usize) -> Result<&[T]> {
        let tensor = nth(self.call.outputs(), index, "output")?;
        // SAFETY: as for the inputs, which it may be one of: only a run and `input_mut` write it,
        // and both need `&mut self`.
        unsafe { tensor.as_slice() }.map_err(|e| Error::input(e.message()))
    }

    /// Returns the shape of input `index`.
    ///
    /// ```
    /// # use reflex::{Array, Engine, Feed, Mode};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let feed = Feed::from([("x".to_owned(), Array::of(&[1, 2], &[8.0_f32, 8.0])?)]);
    /// # let prepared = program.prepare("main", &feed)?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// let binding = session.bind(&prepared)?;
    /// assert_eq!(binding.input_shape(0)?, [1, 2]);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn input_shape(&self, index: usize) -> Result<&[i64]> {
        Ok(nth(&self.inputs, index, "input")?.shape())
    }

    /// Returns the shape of output `index`.
    ///
    /// ```
    /// # use reflex::{Array, Engine, Feed, Mode};
    /// # let program = Engine::new()?.load("examples/softmax.py")?;
    /// # let feed = Feed::from([("x".to_owned(), Array::of(&[1, 2], &[8.0_f32, 8.0])?)]);
    /// # let prepared = program.prepare("main", &feed)?;
    /// # let mut session = program.session(Mode::Bytecode)?;
    /// let mut binding = session.bind(&prepared)?;
    /// assert_eq!(binding.output_shape(0)?, [1, 2]);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn output_shape(&self, index: usize) -> Result<&[i64]> {
        Ok(nth(self.call.outputs(), index, "output")?.shape())
    }
}

fn nth<'t>(tensors: &'t [Tensor], index: usize, what: &str) -> Result<&'t Tensor> {
    let count = tensors.len();
    tensors.get(index).ok_or_else(|| Error::input(format!("no {what} {index}; there are {count}")))
}

/// Copies a tensor argument, so that the binding alone holds it.
fn own_tensor(value: &Any) -> Result<Tensor> {
    let tensor = value.downcast_ref::<Tensor>();
    let tensor = tensor.ok_or_else(|| Error::input("only tensor inputs can be bound"))?;
    let bytes = tensor.to_bytes().map_err(|e| Error::input(e.message()))?;
    Tensor::from_bytes(tensor.shape(), tensor.dtype(), &bytes)
        .map_err(|e| Error::input(e.message()))
}
