//! Elements of buffers, and memory of one thread.

use reflex_tir::{Buffer, DType, Expr, Stmt};

use crate::dialect::{Dialect, stored_type};
use crate::error::{Result, SourceError};
use crate::print::Printer;
use crate::print::text::Text;

/// The most bytes of memory of one thread.
const MAX_LOCAL: i64 = 256 << 10;

impl<'f> Printer<'_, 'f> {
    /// The row-major position of an element.
    pub(super) fn position(&self, buffer: Buffer, indices: &[Expr]) -> Result<Expr> {
        let data = &self.func.buffers[buffer];
        if let [flat] = indices {
            return Ok(flat.clone());
        }
        if indices.len() != data.shape.len() {
            let (name, rank) = (&data.name, data.shape.len());
            return Err(SourceError::new(format!(
                "{} indices of {name}, which has {rank} dimensions",
                indices.len()
            )));
        }
        let step = |at: Expr, (index, extent): (&Expr, &Expr)| at * extent.clone() + index.clone();
        Ok(indices.iter().zip(&data.shape).fold(Expr::i64(0), step))
    }

    /// The element as the language has it, in its stored form.
    fn element(&mut self, buffer: Buffer, indices: &[Expr]) -> Result<Text> {
        let position = self.position(buffer, indices)?;
        if let Some(register) = self.register(buffer, &position) {
            return Ok(register);
        }
        let name = self.pointer(buffer)?;
        let index = self.index(&position)?;
        Ok(Text::element(&name, &index))
    }

    /// The pointer to element 0.
    pub(crate) fn pointer(&self, buffer: Buffer) -> Result<String> {
        let name = &self.func.buffers[buffer].name;
        let unbound = || SourceError::new(format!("buffer {name} has no memory here"));
        self.buffers.get(&buffer).cloned().ok_or_else(unbound)
    }

    pub(super) fn load(&mut self, buffer: Buffer, indices: &[Expr]) -> Result<Text> {
        let dtype = self.func.buffers[buffer].dtype;
        let element = self.element(buffer, indices)?;
        self.loaded(element, dtype)
    }

    /// `buffer[indices] = value`
    pub(super) fn store(&mut self, buffer: Buffer, indices: &[Expr], value: &Expr) -> Result<()> {
        let data = &self.func.buffers[buffer];
        if value.dtype() != data.dtype {
            let (from, name, dtype) = (value.dtype(), &data.name, data.dtype);
            let text = format!("store of {from} to {name}, which is {dtype}");
            return Err(SourceError::new(text));
        }
        let element = self.element(buffer, indices)?;
        let value = self.expr(value)?;
        let stored = self.stored(value, data.dtype)?;
        self.out.line(format!("{} = {};", element.as_str(), stored.as_str()));
        self.out.check()
    }

    /// Runs `body` with memory of the thread for `buffer`.
    pub(super) fn local(&mut self, buffer: Buffer, body: &'f Stmt) -> Result<()> {
        let data = &self.func.buffers[buffer];
        let count = data.shape.iter().try_fold(1i64, |n, e| n.checked_mul(e.as_int()?));
        let count = count.ok_or_else(|| {
            SourceError::new(format!("local {} has no constant shape", data.name))
        })?;
        if !(0..=MAX_LOCAL / data.dtype.itemsize().max(1) as i64).contains(&count) {
            let text = format!("local {} of {count} elements exceeds {MAX_LOCAL} bytes", data.name);
            return Err(SourceError::new(text));
        }
        let word = self.stored_word(data.dtype)?;
        let name = self.names.declare(&data.name);
        let align = match self.dialect {
            Dialect::C => "_Alignas(64) ",
            Dialect::Cuda => "__align__(16) ",
            Dialect::OpenCl => "",
        };
        let behind = match self.dialect {
            Dialect::OpenCl => " __attribute__((aligned(16)))",
            Dialect::C | Dialect::Cuda => "",
        };
        self.out.line(format!("{align}{word} {name}[{}]{behind};", count.max(1)));
        self.with_buffer(buffer, name, body)
    }

    /// Runs `body` where `buffer` is called `name`.
    pub(crate) fn with_buffer(
        &mut self,
        buffer: Buffer,
        name: String,
        body: &'f Stmt,
    ) -> Result<()> {
        let outer = self.buffers.insert(buffer, name);
        self.stmt(body)?;
        match outer {
            Some(name) => self.buffers.insert(buffer, name),
            None => self.buffers.remove(&buffer),
        };
        Ok(())
    }

    /// The word for the type that elements of `dtype` have in memory.
    pub(crate) fn stored_word(&mut self, dtype: DType) -> Result<&'static str> {
        self.helpers.has_double |= dtype == DType::F64;
        self.dialect.word(stored_type(dtype))
    }
}
