//! Shapes: the heap of symbolic dimensions, matching against it, building from it.

use reflex_runtime::abi::DLTensor;
use reflex_runtime::device::waits::Wait;
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;
use reflex_runtime::shape::Shape;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::tensor::transfer::host_copy_of;
use reflex_runtime::value::{Any, AnyView};

use super::args::{Context, arity, check_vm, exactly, int};
use super::check::{context, dims, on_cpu, readable};
use super::shape_codes::{make_code, match_code};

/// Largest heap; programs have one entry per symbolic expression.
const MAX_HEAP: i64 = 1 << 24;

const ALLOC: &str = "vm.builtin.alloc_shape_heap";
const MATCH: &str = "vm.builtin.match_shape";
const MATCH_PRIM: &str = "vm.builtin.match_prim_value";
const MAKE: &str = "vm.builtin.make_shape";
const MAKE_PRIM: &str = "vm.builtin.make_prim_value";
const SHAPE_OF: &str = "vm.builtin.shape_of";
const TO_SHAPE: &str = "vm.builtin.tensor_to_shape";

pub fn alloc_shape_heap(cx: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly(ALLOC, args, 2)?;
    check_vm(cx, &args[0], ALLOC)?;
    let size = int(ALLOC, args, 1)?;
    if !(0..=MAX_HEAP).contains(&size) {
        return Err(Error::value_error(format!("a shape heap of {size} entries")));
    }
    // Zeros: what a program reads before it writes is the same in every run.
    Ok(Tensor::zeros(&[size], DType::I64)?.into())
}

/// The entries of a shape heap, as raw memory: entries may be written while the heap is
/// borrowed as an argument.
#[derive(Clone, Copy)]
struct Heap {
    data: *mut i64,
    len: usize,
}

impl Heap {
    fn of(arg: &AnyView<'_>) -> Result<Heap, Error> {
        if arg.is_none() {
            return Ok(Heap { data: std::ptr::null_mut(), len: 0 });
        }
        let Some(tensor) = arg.as_dltensor() else {
            return Err(arg.mismatch("ffi.Tensor"));
        };
        Heap::of_tensor(tensor)
    }

    fn of_tensor(tensor: &DLTensor) -> Result<Heap, Error> {
        on_cpu(tensor)?;
        match dims(tensor) {
            &[len] if tensor.dtype == DType::I64 && !tensor.data.is_null() => Ok(Heap {
                data: tensor.data.wrapping_byte_add(tensor.byte_offset as usize).cast(),
                len: usize::try_from(len).unwrap_or(0),
            }),
            shape => Err(Error::type_error(format!(
                "a shape heap is a vector of int64, got {} of shape {shape:?}",
                tensor.dtype
            ))),
        }
    }

    fn slot(self, index: i64) -> Result<*mut i64, Error> {
        match usize::try_from(index) {
            Ok(at) if at < self.len => Ok(self.data.wrapping_add(at)),
            _ => Err(Error::new(
                "IndexError",
                format!("entry {index} of a shape heap with {} entries", self.len),
            )),
        }
    }

    fn load(self, index: i64) -> Result<i64, Error> {
        let slot = self.slot(index)?;
        // SAFETY: in bounds of a live CPU tensor of int64.
        Ok(unsafe { slot.read_unaligned() })
    }

    fn store(self, index: i64, value: i64) -> Result<(), Error> {
        let slot = self.slot(index)?;
        // SAFETY: in bounds of a live CPU tensor of int64 that programs write only here.
        unsafe { slot.write_unaligned(value) };
        Ok(())
    }

    /// Applies a match code; what failed, if it does not match.
    fn apply(self, code: i64, reg: i64, value: i64) -> Result<Result<(), Mismatch>, Error> {
        let expected = match code {
            match_code::ASSERT_IMM => (reg, Mismatch::Constant(reg)),
            match_code::STORE => return self.store(reg, value).map(Ok),
            match_code::NO_OP => return Ok(Ok(())),
            match_code::ASSERT_LOAD => {
                let stored = self.load(reg)?;
                (stored, Mismatch::Earlier(stored))
            }
            _ => return Err(Error::value_error(format!("unknown match code {code}"))),
        };
        Ok(if value == expected.0 { Ok(()) } else { Err(expected.1) })
    }
}

enum Mismatch {
    Constant(i64),
    Earlier(i64),
}

impl Mismatch {
    #[cold]
    fn error(self, at: &AnyView<'_>, what: &str, value: i64) -> Error {
        let (expected, which) = match self {
            Mismatch::Constant(expected) => (expected, "specified constant"),
            Mismatch::Earlier(expected) => (expected, "a previous populated value"),
        };
        Error::runtime_error(format!(
            "{} match_cast error, {what} mismatch to {which}: {value} given, {expected} expected",
            context(at)
        ))
    }
}

pub fn match_shape(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    if args.len() < 4 {
        return Err(arity(MATCH, args.len(), 4));
    }
    let (x, at) = (&args[0], &args[args.len() - 1]);
    let input = match (x.downcast_ref::<Shape>(), x.as_dltensor()) {
        (Some(shape), _) => &**shape,
        (None, Some(tensor)) => dims(tensor),
        (None, None) => {
            return Err(Error::type_error(format!(
                "{} expect a Tensor or Shape but get {}",
                context(at),
                x.type_key()
            )));
        }
    };
    let heap = Heap::of(&args[1])?;
    let size = int(MATCH, args, 2)?;
    let pairs = &args[3..args.len() - 1];
    if pairs.len() as i64 != size.saturating_mul(2) {
        return Err(arity(MATCH, args.len(), 4 + 2 * size.max(0) as usize));
    }
    if input.len() as i64 != size {
        return Err(Error::runtime_error(format!(
            "{} match_cast shape size mismatch: {} dimensions given, {size} expected",
            context(at),
            input.len()
        )));
    }
    for (dim, &value) in input.iter().enumerate() {
        let (code, reg) = (int(MATCH, args, 3 + 2 * dim)?, int(MATCH, args, 4 + 2 * dim)?);
        if let Err(mismatch) = heap.apply(code, reg, value)? {
            return Err(mismatch.error(at, &format!("shape[{dim}]"), value));
        }
    }
    Ok(Any::NONE)
}

pub fn match_prim_value(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly(MATCH_PRIM, args, 5)?;
    let value = int(MATCH_PRIM, args, 0)?;
    let heap = Heap::of(&args[1])?;
    let (code, reg) = (int(MATCH_PRIM, args, 2)?, int(MATCH_PRIM, args, 3)?);
    match heap.apply(code, reg, value)? {
        Ok(()) => Ok(Any::NONE),
        Err(mismatch) => Err(mismatch.error(&args[4], "PrimExpr", value)),
    }
}

fn made(heap: Heap, code: i64, reg: i64) -> Result<i64, Error> {
    match code {
        make_code::USE_IMM => Ok(reg),
        make_code::LOAD => heap.load(reg),
        _ => Err(Error::value_error(format!("unknown make code {code}"))),
    }
}

pub fn make_shape(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    if args.len() < 2 {
        return Err(arity(MAKE, args.len(), 2));
    }
    let heap = Heap::of(&args[0])?;
    let size = int(MAKE, args, 1)?;
    if (args.len() - 2) as i64 != size.saturating_mul(2) {
        return Err(arity(MAKE, args.len(), 2 + 2 * size.max(0) as usize));
    }
    let dimension = |dim: usize| -> Result<i64, Error> {
        made(heap, int(MAKE, args, 2 + 2 * dim)?, int(MAKE, args, 3 + 2 * dim)?)
    };
    let mut failed = None;
    let shape = Shape::from_fn(size as usize, |dim| {
        dimension(dim).unwrap_or_else(|error| {
            failed.get_or_insert(error);
            0
        })
    });
    failed.map_or_else(|| Ok(shape.into()), Err)
}

pub fn make_prim_value(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly(MAKE_PRIM, args, 3)?;
    let heap = Heap::of(&args[0])?;
    Ok(made(heap, int(MAKE_PRIM, args, 1)?, int(MAKE_PRIM, args, 2)?)?.into())
}

pub fn shape_of(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly(SHAPE_OF, args, 1)?;
    match args[0].as_dltensor() {
        Some(tensor) => Ok(Shape::new(dims(tensor)).into()),
        None => Err(Error::type_error(format!(
            "{SHAPE_OF} expects a Tensor or DLTensor*, but get {}",
            args[0].type_key()
        ))),
    }
}

pub fn tensor_to_shape(_: Context, args: &[AnyView<'_>]) -> Result<Any, Error> {
    exactly(TO_SHAPE, args, 1)?;
    let Some(tensor) = args[0].as_dltensor() else {
        return Err(args[0].mismatch("ffi.Tensor"));
    };
    let copy;
    let tensor = match tensor.device.is_host() {
        true => tensor,
        false => {
            copy = host_copy_of(tensor, Wait::Shape)?;
            copy.dl()
        }
    };
    readable(tensor)?;
    let &[len] = dims(tensor) else {
        let message = format!("{TO_SHAPE} expects a vector, got {} dimensions", tensor.ndim);
        return Err(Error::new("InternalError", message));
    };
    let width = match tensor.dtype {
        DType::I16 => 2,
        DType::I32 => 4,
        DType::I64 => 8,
        other => {
            let message = format!("unknown scalar int type: {other}");
            return Err(Error::new("InternalError", message));
        }
    };
    // SAFETY: vectors have one stride when they have strides at all.
    let stride = unsafe { tensor.strides.as_ref() }.copied().unwrap_or(1);
    let base = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize);
    let element = |index: usize| -> i64 {
        let at = base.wrapping_offset(index as isize * stride as isize * width as isize);
        // SAFETY: an element of a live CPU tensor; unaligned reads ask nothing more.
        unsafe {
            match width {
                2 => i64::from(at.cast::<i16>().read_unaligned()),
                4 => i64::from(at.cast::<i32>().read_unaligned()),
                _ => at.cast::<i64>().read_unaligned(),
            }
        }
    };
    Ok(Shape::from_fn(usize::try_from(len).unwrap_or(0), element).into())
}
