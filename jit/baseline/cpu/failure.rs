//! Cold functions that compose a message, set the calling thread's error and return -1.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, Type, Value, types};
use cranelift_module::FuncId;
use reflex_runtime::abi::type_index;
use reflex_runtime::dtype::code;

use crate::emit::Emitter;
use crate::error::Result;
use crate::unit::{POINTER, Unit};

/// The error hook of the packed-function convention.
const ERROR_HOOK: &str = "TVMFFIErrorSetRaisedFromCStrParts";
/// Bytes of a decimal 64-bit number with its sign and a NUL.
const DECIMAL: u32 = 24;

/// A kind of message. All have a text in front; then come the words of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// A type: nothing behind the text.
    Type,
    /// A type: a number.
    TypeInt,
    /// A value: two numbers, the expected one and the one there is.
    Expected,
    /// A type: the type index of a tvm-ffi value.
    TypeIndex,
    /// An index: the index, and the extent of its axis.
    Index,
    /// No message: the decimal digits of a number, at the end of a buffer.
    Digits,
}

impl Failure {
    fn name(self) -> String {
        format!("reflex.fail.{self:?}")
    }

    fn params(self) -> Vec<Type> {
        let words: &[Type] = match self {
            Failure::Type => &[],
            Failure::TypeInt | Failure::Digits => &[types::I64],
            Failure::Expected | Failure::Index => &[types::I64, types::I64],
            Failure::TypeIndex => &[types::I32],
        };
        [&[POINTER], words].concat()
    }

    fn returns(self) -> Type {
        if self == Failure::Digits { POINTER } else { types::I32 }
    }
}

impl Emitter<'_, '_, '_> {
    /// Calls the function of a kind of message, and returns the status to leave with.
    pub(super) fn fail(&mut self, failure: Failure, args: &[Value]) -> Result<Value> {
        let function = self.failure(failure)?;
        Ok(self.call(function, args)[0])
    }

    fn failure(&mut self, failure: Failure) -> Result<FuncId> {
        let signature = Unit::signature(&failure.params(), &[failure.returns()]);
        self.unit.shared(&failure.name(), signature, |e, params| {
            let text = params[0];
            match failure {
                Failure::Type => e.raise("TypeError", &[text]),
                Failure::TypeInt => {
                    let got = e.digits(params[1])?;
                    e.raise("TypeError", &[text, got])
                }
                Failure::Expected => {
                    let (expected, got) = (e.digits(params[1])?, e.digits(params[2])?);
                    let between = e.text(", got ")?;
                    e.raise("ValueError", &[text, expected, between, got])
                }
                Failure::Index => {
                    let (index, bound) = (e.digits(params[1])?, e.digits(params[2])?);
                    let between = e.text(" is out of range for an axis of ")?;
                    e.raise("IndexError", &[text, index, between, bound])
                }
                Failure::TypeIndex => e.raise_type_index(&[text], params[1]),
                Failure::Digits => e.decimal(text, params[1]),
            }
        })
    }

    /// Sets the error to the parts of a message, and returns -1.
    pub(super) fn raise(&mut self, kind: &str, parts: &[Value]) -> Result<()> {
        let kind = self.text(kind)?;
        let array = self.stack_memory(parts.len() as u32 * 8);
        for (part, at) in parts.iter().zip(0..) {
            self.store_at(*part, array, at * 8);
        }
        let hook = self.unit.import(ERROR_HOOK, &[POINTER, POINTER, types::I32], &[])?;
        let count = self.i32(parts.len() as i32);
        self.call(hook, &[kind, array, count]);
        let status = self.i32(-1);
        self.b.ins().return_(&[status]);
        Ok(())
    }

    /// The name of a `DLDataType`, by its first word, behind other parts.
    pub(super) fn raise_data_type(&mut self, lead: &[Value], dtype: Value) -> Result<()> {
        let field = |e: &mut Self, shift: i64, mask: i64| {
            let (shift, mask) = (e.i32(shift as i32), e.i32(mask as i32));
            let down = e.b.ins().ushr(dtype, shift);
            e.b.ins().band(down, mask)
        };
        let code_of = field(self, 0, 0xff);
        let [bits, lanes] = [(8, 0xff), (16, 0xffff)].map(|(shift, mask)| {
            let narrow = field(self, shift, mask);
            self.b.ins().uextend(types::I64, narrow)
        });
        let names = [
            (i32::from(code::INT), "int"),
            (i32::from(code::UINT), "uint"),
            (i32::from(code::FLOAT), "float"),
            (i32::from(code::BFLOAT), "bfloat"),
            (i32::from(code::BOOL), "bool"),
        ];
        let name = self.named(code_of, &names, "a type of DLPack code and")?;
        let (digits, none) = (self.digits(bits)?, self.text("")?);
        let boolean = self.i32(i32::from(code::BOOL));
        let boolean = self.b.ins().icmp(IntCC::Equal, code_of, boolean);
        let width = self.b.ins().select(boolean, none, digits);
        // A scalar has no lanes to speak of.
        let one = self.i64(1);
        let scalar = self.b.ins().icmp(IntCC::Equal, lanes, one);
        let (times, count) = (self.text("x")?, self.digits(lanes)?);
        let times = self.b.ins().select(scalar, none, times);
        let count = self.b.ins().select(scalar, none, count);
        self.raise("TypeError", &[lead, &[name, width, times, count]].concat())
    }

    /// The kind of a tvm-ffi value, behind other parts.
    pub(super) fn raise_type_index(&mut self, lead: &[Value], index: Value) -> Result<()> {
        let names = [
            (type_index::NONE, "None"),
            (type_index::INT, "int"),
            (type_index::BOOL, "bool"),
            (type_index::FLOAT, "float"),
            (type_index::RAW_STR, "a string"),
            (type_index::SMALL_STR, "a string"),
            (type_index::STR, "a string"),
            (type_index::SHAPE, "a shape"),
            (type_index::DL_TENSOR_PTR, "a tensor"),
            (type_index::TENSOR, "a tensor"),
            (type_index::ARRAY, "an array"),
        ];
        let other = self.text("type index ")?;
        let name = self.named(index, &names, "type index ")?;
        let wide = self.b.ins().sextend(types::I64, index);
        let (digits, none) = (self.digits(wide)?, self.text("")?);
        let unknown = self.b.ins().icmp(IntCC::Equal, name, other);
        let digits = self.b.ins().select(unknown, digits, none);
        self.raise("TypeError", &[lead, &[name, digits]].concat())
    }

    /// The text of a number.
    fn named(&mut self, number: Value, names: &[(i32, &str)], other: &str) -> Result<Value> {
        let mut name = self.text(other)?;
        for (key, text) in names {
            let (key, text) = (self.i32(*key), self.text(text)?);
            let same = self.b.ins().icmp(IntCC::Equal, number, key);
            name = self.b.ins().select(same, text, name);
        }
        Ok(name)
    }

    /// The decimal digits of a number, NUL-terminated, in memory of this function.
    pub(super) fn digits(&mut self, value: Value) -> Result<Value> {
        let buffer = self.stack_memory(DECIMAL);
        self.fail(Failure::Digits, &[buffer, value])
    }

    /// Writes the digits of `value` to the end of `buffer`, and returns where they begin.
    fn decimal(&mut self, buffer: Value, value: Value) -> Result<()> {
        let last = self.i64(i64::from(DECIMAL) - 1);
        let end = self.b.ins().iadd(buffer, last);
        let (zero, one, ten) = (self.i64(0), self.i64(1), self.i64(10));
        let nul = self.b.ins().iconst(types::I8, 0);
        self.store_at(nul, end, 0);
        let negative = self.b.ins().icmp(IntCC::SignedLessThan, value, zero);
        let size = self.b.ins().iabs(value);
        let [digit, sign, dash, done] = [(); 4].map(|()| self.b.create_block());
        let at = self.b.append_block_param(digit, POINTER);
        let rest = self.b.append_block_param(digit, types::I64);
        self.b.ins().jump(digit, &[BlockArg::Value(end), BlockArg::Value(size)]);

        self.b.switch_to_block(digit);
        let quotient = self.b.ins().udiv(rest, ten);
        let remainder = self.b.ins().urem(rest, ten);
        let low = self.b.ins().ireduce(types::I8, remainder);
        let zero_digit = self.b.ins().iconst(types::I8, i64::from(b'0'));
        let char = self.b.ins().iadd(low, zero_digit);
        let next = self.b.ins().isub(at, one);
        self.store_at(char, next, 0);
        let again = [BlockArg::Value(next), BlockArg::Value(quotient)];
        self.b.ins().brif(quotient, digit, &again, sign, &[]);

        self.b.switch_to_block(sign);
        self.b.ins().brif(negative, dash, &[], done, &[]);
        self.b.switch_to_block(dash);
        let first = self.b.ins().isub(next, one);
        let minus = self.b.ins().iconst(types::I8, i64::from(b'-'));
        self.store_at(minus, first, 0);
        self.b.ins().return_(&[first]);
        self.b.switch_to_block(done);
        self.b.ins().return_(&[next]);
        Ok(())
    }
}
