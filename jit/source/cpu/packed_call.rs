//! Calls of packed functions from kernels: looked up through the library's context when first reached, called by the
//! packed-function convention, with views of tensors on the stack.
//!
//! Decision: docs/decisions/0089-packed-calls-in-kernels.md

use reflex_runtime::abi::{DLDevice, type_index};
use reflex_tir::{Buffer, CallArg, DType, PackedCall};

use crate::error::Result;
use crate::names::literal;
use crate::print::Printer;
use crate::print::text::Text;

impl Printer<'_, '_> {
    /// Calls a packed function; a failure leaves the kernel with -1 and the function's error.
    pub(crate) fn call_packed(&mut self, call: &PackedCall) -> Result<()> {
        self.out.open("");
        let mark = self.names.open();
        let [function, known, values, answer, failed] =
            ["function", "known", "values", "answer", "failed"]
                .map(|hint| self.names.declare(hint));
        // Threads that are here at once write the same pointer.
        self.out.line(format!("static void *volatile {known};"));
        self.out.line(format!("void *{function} = {known};"));
        self.out.line(format!("int32_t {failed} = 0;"));
        self.out.open(format!("if ({function} == 0)"));
        let name = literal(&call.name);
        self.out.line(format!(
            "{failed} = __TVMFFIEnvModLookupFromImports(__tvm_ffi__library_ctx, {name}, &{function});"
        ));
        self.check_status(&failed);
        self.out.line(format!("{known} = {function};"));
        self.out.close();
        let mut args = vec![];
        for arg in &call.args {
            args.push(self.packed_arg(arg)?);
        }
        let count = args.len();
        self.out.line(format!("rf_any {values}[{}] = {{ {{ 0 }} }};", count.max(1)));
        for (i, (kind, field, value)) in args.iter().enumerate() {
            self.out.line(format!("{values}[{i}].type_index = {kind};"));
            self.out.line(format!("{values}[{i}].payload.{field} = {value};"));
        }
        let none = type_index::NONE;
        self.out.line(format!("rf_any {answer} = {{ {none}, 0, {{ 0 }} }};"));
        self.out.line(format!(
            "{failed} = __TVMFFIFunctionCall({function}, {values}, {count}, &{answer});"
        ));
        self.check_status(&failed);
        // Nothing here would release an object.
        let first = type_index::STATIC_OBJECT_BEGIN;
        self.out.open(format!("if ({answer}.type_index >= {first})"));
        let message = literal(&PackedCall::returned_object(&call.name));
        self.out.line(format!("rf_raise(\"TypeError\", {message}, \"\", \"\", \"\", \"\");"));
        self.leave("-1");
        self.out.close();
        self.names.close(mark);
        self.out.close();
        Ok(())
    }

    /// The kind of a value, the field of its payload, and its text.
    fn packed_arg(&mut self, arg: &CallArg) -> Result<(i32, &'static str, String)> {
        Ok(match arg {
            CallArg::Tensor(buffer) => {
                let view = self.tensor_view(*buffer)?;
                (type_index::DL_TENSOR_PTR, "pointer", format!("&{view}"))
            }
            CallArg::Text(text) => {
                (type_index::RAW_STR, "pointer", format!("(void *){}", literal(text)))
            }
            CallArg::Scalar(value) if value.dtype().is_float() => {
                let text = self.expr(&value.clone().cast(DType::F64))?;
                (type_index::FLOAT, "number", text.as_str().to_owned())
            }
            CallArg::Scalar(value) => {
                let kind = match value.dtype() {
                    DType::BOOL => type_index::BOOL,
                    _ => type_index::INT,
                };
                let text = self.expr(value)?;
                (kind, "word", Text::cast("int64_t", &text).as_str().to_owned())
            }
        })
    }

    /// Declares a view of a whole buffer.
    fn tensor_view(&mut self, buffer: Buffer) -> Result<String> {
        let data = &self.func.buffers[buffer];
        let (rank, base) = (data.shape.len(), self.pointer(buffer)?);
        let [dims, view] = ["dims", "view"].map(|hint| self.names.declare(hint));
        let mut extents = vec![];
        for extent in &data.shape {
            extents.push(self.index(extent)?.as_str().to_owned());
        }
        let strides = (0..rank).map(|d| match d + 1 == rank {
            true => "1".to_owned(),
            false => {
                extents[d + 1..].iter().map(|e| format!("({e})")).collect::<Vec<_>>().join(" * ")
            }
        });
        let all: Vec<String> = extents.iter().cloned().chain(strides).collect();
        let all = if all.is_empty() { "0".to_owned() } else { all.join(", ") };
        let dtype = data.dtype.to_bits() as u32;
        let cpu = DLDevice::KIND_CPU;
        self.out.line(format!("int64_t {dims}[] = {{ {all} }};"));
        self.out.line(format!(
            "rf_tensor {view} = {{ (void *){base}, {cpu}, 0, {rank}, {dtype:#x}u, {dims}, {dims} + {rank}, 0 }};"
        ));
        Ok(view)
    }
}
