//! The packed entry: checks every argument, then calls the raw entry.
//!
//! Messages read `<func>: argument <i> (<name>): expected ..., got ...`, as LLVM's kernels have
//! them. A symbolic dimension takes the first dimension it meets; later ones, and expressions over
//! symbols, must agree.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use cranelift_module::{FuncId, Linkage};
use reflex_runtime::abi::{self, DLDevice, type_index};
use reflex_tir::{Buffer, DType, Expr, Param, Var};

use crate::cpu::failure::Failure;
use crate::emit::value::LaneValue;
use crate::emit::{Emitter, define};
use crate::error::{BaselineError, Result};
use crate::unit::{POINTER, Unit};

/// Emits the packed entry, which calls `raw`.
pub fn build(unit: &mut Unit<'_>, raw: FuncId) -> Result<()> {
    let signature = Unit::signature(&[POINTER, POINTER, types::I32, POINTER], &[types::I32]);
    let name = format!("{}{}", reflex_tir::abi::PACKED_PREFIX, unit.func.name);
    define(unit, &name, Linkage::Export, signature, |e, params| {
        let mut packed = Packed { e, words: vec![], data: vec![], shapes: vec![] };
        packed.emit(raw, params[1], params[2])
    })?;
    Ok(())
}

struct Packed<'e, 'u, 'b, 'f> {
    e: &'e mut Emitter<'u, 'b, 'f>,
    /// Scalar parameters as the raw entry takes them.
    words: Vec<Value>,
    /// Data pointers.
    data: Vec<Value>,
    /// The shape of each tensor argument, with its position.
    shapes: Vec<(Buffer, usize, Vec<Value>)>,
}

impl Packed<'_, '_, '_, '_> {
    fn emit(&mut self, raw: FuncId, args: Value, count: Value) -> Result<()> {
        let func = self.e.func;
        let expected = self.e.i32(func.params.len() as i32);
        let message = format!("{}: expected {} arguments, got ", func.name, func.params.len());
        self.require_eq(count, expected, |p| p.fail_int(Failure::TypeInt, &message, count))?;
        for (i, param) in func.params.iter().enumerate() {
            let any = self.at(args, i * abi::ANY_SIZE);
            match param {
                Param::Scalar(var) => self.scalar(i, any, *var)?,
                Param::Buffer(buffer) => self.tensor(i, any, *buffer)?,
            }
        }
        self.check_shapes()?;
        let mut operands = self.data.clone();
        operands.extend(&self.words);
        for var in reflex_tir::abi::scalar_vars(func).iter().skip(self.words.len()) {
            let value = self.e.vars.get(var).copied().ok_or_else(|| {
                BaselineError::new("a symbolic dimension has no extent to come from")
            })?;
            operands.push(value.uniform("a symbolic dimension")?);
        }
        let status = self.e.call(raw, &operands)[0];
        self.e.b.ins().return_(&[status]);
        Ok(())
    }

    fn scalar(&mut self, i: usize, any: Value, var: Var) -> Result<()> {
        let dtype = self.e.func.vars[var].dtype;
        let index = self.e.load_at(types::I32, any, 0);
        let bits = self.e.load_at(types::I64, any, abi::ANY_PAYLOAD as i32);
        let [int, boolean, float] =
            [type_index::INT, type_index::BOOL, type_index::FLOAT].map(|kind| self.is(index, kind));
        let integral = self.e.b.ins().bor(int, boolean);
        let (accepted, word, value) = if dtype.is_float() {
            let converted = self.e.b.ins().fcvt_from_sint(types::F64, bits);
            let given = self.e.bitcast(types::F64, bits);
            let chosen = self.e.b.ins().select(float, given, converted);
            let word = self.e.bitcast(types::I64, chosen);
            (self.e.b.ins().bor(float, integral), word, chosen)
        } else {
            (integral, bits, bits)
        };
        let prefix = self.prefix(i, &self.e.func.vars[var].name);
        let message = format!("{prefix}expected a scalar {dtype}, got ");
        self.require(accepted, |p| p.fail_word(Failure::TypeIndex, &message, index))?;
        let from = if dtype.is_float() { DType::F64 } else { DType::I64 };
        let value = self.e.cast(value, from, dtype)?;
        self.e.vars.insert(var, LaneValue::Uniform(value));
        self.words.push(word);
        Ok(())
    }

    fn tensor(&mut self, i: usize, any: Value, buffer: Buffer) -> Result<()> {
        let func = self.e.func;
        let data = &func.buffers[buffer];
        let prefix = self.prefix(i, &data.name);
        let tensor = self.dl_tensor(any, &prefix)?;

        let ndim = self.e.load_at(types::I32, tensor, abi::DLTENSOR_NDIM as i32);
        let rank = self.e.i32(data.shape.len() as i32);
        let message = format!("{prefix}expected {} dimensions, got ", data.shape.len());
        self.require_eq(ndim, rank, |p| p.fail_int(Failure::ValueInt, &message, ndim))?;

        let dtype = self.e.load_at(types::I32, tensor, abi::DLTENSOR_DTYPE as i32);
        let expected = u32::from(data.dtype.code)
            | u32::from(data.dtype.bits) << 8
            | u32::from(data.dtype.lanes) << 16;
        let expected = self.e.i32(expected as i32);
        let message = format!("{prefix}expected dtype {}, got ", data.dtype);
        self.require_eq(dtype, expected, |p| p.fail_word(Failure::DataType, &message, dtype))?;

        let device = self.e.load_at(types::I32, tensor, abi::DLTENSOR_DEVICE as i32);
        let cpu = self.e.i32(DLDevice::KIND_CPU);
        let message = format!("{prefix}expected a tensor on the CPU, got device type ");
        self.require_eq(device, cpu, |p| p.fail_int(Failure::ValueInt, &message, device))?;

        let extents = self.extents(tensor, &prefix, &data.shape)?;
        let count = self.check_strides(tensor, &prefix, &extents)?;
        let base = self.e.load_at(POINTER, tensor, abi::DLTENSOR_DATA as i32);
        let offset = self.e.load_at(types::I64, tensor, abi::DLTENSOR_BYTE_OFFSET as i32);
        let zero = self.e.i64(0);
        let present = self.e.b.ins().icmp(IntCC::NotEqual, base, zero);
        let none = self.equal(count, zero);
        let usable = self.e.b.ins().bor(present, none);
        let message = format!("{prefix}the data pointer is null");
        self.require(usable, |p| p.fail_text(Failure::Value, &message))?;
        self.data.push(self.e.b.ins().iadd(base, offset));
        self.shapes.push((buffer, i, extents));
        Ok(())
    }

    /// The `DLTensor*` in an argument: a tensor object or a bare pointer.
    fn dl_tensor(&mut self, any: Value, prefix: &str) -> Result<Value> {
        let index = self.e.load_at(types::I32, any, 0);
        let object = self.is(index, type_index::TENSOR);
        let bare = self.is(index, type_index::DL_TENSOR_PTR);
        let accepted = self.e.b.ins().bor(object, bare);
        let message = format!("{prefix}expected a tensor, got ");
        self.require(accepted, |p| p.fail_word(Failure::TypeIndex, &message, index))?;
        let pointer = self.e.load_at(POINTER, any, abi::ANY_PAYLOAD as i32);
        let zero = self.e.i64(0);
        let present = self.e.b.ins().icmp(IntCC::NotEqual, pointer, zero);
        let message = format!("{prefix}expected a tensor, got a null pointer");
        self.require(present, |p| p.fail_text(Failure::Type, &message))?;
        let inner = self.at(pointer, abi::TENSOR_DLTENSOR);
        Ok(self.e.b.ins().select(object, inner, pointer))
    }

    /// Reads the shapes and binds symbolic dimensions at their first appearance.
    fn extents(&mut self, tensor: Value, prefix: &str, shape: &[Expr]) -> Result<Vec<Value>> {
        let pointer = self.e.load_at(POINTER, tensor, abi::DLTENSOR_SHAPE as i32);
        let mut extents = vec![];
        for (d, extent) in shape.iter().enumerate() {
            let given = self.e.load_at(types::I64, pointer, d as i32 * 8);
            if let Some(constant) = extent.as_int() {
                let expected = self.e.i64(constant);
                let message = format!("{prefix}dimension {d}: expected ");
                self.require_eq(given, expected, |p| p.fail_expected(&message, expected, given))?;
            } else {
                let zero = self.e.i64(0);
                let valid = self.e.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, given, zero);
                let message = format!("{prefix}dimension {d}: expected an extent, got ");
                self.require(valid, |p| p.fail_int(Failure::ValueInt, &message, given))?;
            }
            if let Some(var) = extent.as_var() {
                self.e.vars.entry(var).or_insert(LaneValue::Uniform(given));
            }
            extents.push(given);
        }
        Ok(extents)
    }

    /// Strides are absent or row-major, not counting dimensions of one element or empty
    /// tensors. Returns the number of elements.
    fn check_strides(&mut self, tensor: Value, prefix: &str, extents: &[Value]) -> Result<Value> {
        let mut count = self.e.i64(1);
        let mut compact = vec![count; extents.len()];
        for (d, extent) in extents.iter().enumerate().rev() {
            compact[d] = count;
            count = self.e.b.ins().imul(count, *extent);
        }
        if extents.is_empty() {
            return Ok(count);
        }
        let strides = self.e.load_at(POINTER, tensor, abi::DLTENSOR_STRIDES as i32);
        let (check, after) = (self.e.b.create_block(), self.e.b.create_block());
        let (zero, one) = (self.e.i64(0), self.e.i64(1));
        let absent = self.equal(strides, zero);
        let empty = self.equal(count, zero);
        let skip = self.e.b.ins().bor(absent, empty);
        self.e.b.ins().brif(skip, after, &[], check, &[]);
        self.e.b.switch_to_block(check);
        for (d, (extent, expected)) in extents.iter().zip(&compact).enumerate() {
            let given = self.e.load_at(types::I64, strides, d as i32 * 8);
            let single = self.equal(*extent, one);
            let same = self.equal(given, *expected);
            let fits = self.e.b.ins().bor(single, same);
            let message = format!("{prefix}stride of dimension {d}: expected ");
            self.require(fits, |p| p.fail_expected(&message, *expected, given))?;
        }
        self.e.b.ins().jump(after, &[]);
        self.e.b.switch_to_block(after);
        Ok(count)
    }

    /// Dimensions that repeat a symbol or are expressions over symbols.
    fn check_shapes(&mut self) -> Result<()> {
        let func = self.e.func;
        for (buffer, i, extents) in std::mem::take(&mut self.shapes) {
            let data = &func.buffers[buffer];
            let prefix = self.prefix(i, &data.name);
            for (d, (extent, given)) in data.shape.iter().zip(extents).enumerate() {
                if extent.as_int().is_some() {
                    continue;
                }
                let expected = self.e.uniform_int(extent, "an extent")?;
                let message = format!("{prefix}dimension {d}: expected ");
                self.require_eq(given, expected, |p| p.fail_expected(&message, expected, given))?;
            }
        }
        Ok(())
    }
}

/// Checks and their failures.
impl Packed<'_, '_, '_, '_> {
    fn prefix(&self, i: usize, name: &str) -> String {
        format!("{}: argument {i} ({name}): ", self.e.func.name)
    }

    /// Continues where `holds`; elsewhere returns what `fail` gives.
    fn require(
        &mut self,
        holds: Value,
        fail: impl FnOnce(&mut Self) -> Result<Value>,
    ) -> Result<()> {
        let failed = self.e.cold_block();
        let ok = self.e.b.create_block();
        self.e.b.ins().brif(holds, ok, &[], failed, &[]);
        self.e.b.switch_to_block(failed);
        let status = fail(self)?;
        self.e.b.ins().return_(&[status]);
        self.e.b.switch_to_block(ok);
        Ok(())
    }

    fn require_eq(
        &mut self,
        a: Value,
        b: Value,
        fail: impl FnOnce(&mut Self) -> Result<Value>,
    ) -> Result<()> {
        // The variable that a dimension bound compares equal to itself.
        if a == b {
            return Ok(());
        }
        let same = self.equal(a, b);
        self.require(same, fail)
    }

    fn equal(&mut self, a: Value, b: Value) -> Value {
        self.e.b.ins().icmp(IntCC::Equal, a, b)
    }

    fn is(&mut self, index: Value, kind: i32) -> Value {
        let kind = self.e.i32(kind);
        self.equal(index, kind)
    }

    fn at(&mut self, pointer: Value, bytes: usize) -> Value {
        let bytes = self.e.i64(bytes as i64);
        self.e.b.ins().iadd(pointer, bytes)
    }

    fn fail_text(&mut self, failure: Failure, message: &str) -> Result<Value> {
        let text = self.e.text(message)?;
        self.e.fail(failure, &[text])
    }

    fn fail_word(&mut self, failure: Failure, message: &str, word: Value) -> Result<Value> {
        let text = self.e.text(message)?;
        self.e.fail(failure, &[text, word])
    }

    fn fail_int(&mut self, failure: Failure, message: &str, got: Value) -> Result<Value> {
        let got = match self.e.ty(got) {
            types::I64 => got,
            _ => self.e.b.ins().sextend(types::I64, got),
        };
        self.fail_word(failure, message, got)
    }

    fn fail_expected(&mut self, message: &str, expected: Value, got: Value) -> Result<Value> {
        let text = self.e.text(message)?;
        self.e.fail(Failure::Expected, &[text, expected, got])
    }
}
