//! Programs of the Relay virtual machine, their kernels, and how they are run.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::sync::Once;

use reflex::{
    Any, AnyView, Engine, Function, Mode, ModelFormat, ModelSource, Program, RaisedError, Tensor,
    Tuple, register_global_func,
};
use reflex_relay::builder::Builder;
use reflex_relay::executable::{Dialect, Params};
use reflex_relay::instr::{Instr, Reg, StorageSize};
use reflex_relay::verify::Verified;
use reflex_relay::write::write;
use reflex_runtime::dtype::DType;
use reflex_vm::executable::{ConstData, TensorConst};

/// Tags of a list's constructors, negative as TVM's are.
const CONS: i64 = -100;
const NIL: i64 = -99;

/// An engine whose programs get hot soon.
pub fn engine() -> Engine {
    register();
    let policy = "threshold=2,compile=sync".parse().expect("a policy");
    Engine::builder().tier(policy).build().expect("an engine")
}

/// Loads an executable through its file.
pub fn load(exec: &Verified) -> Program {
    let source = ModelSource::bytes(ModelFormat::RelayExecutable, write(exec));
    engine().load(source).expect("a program")
}

/// Calls a function in every mode, until it is compiled; the result or the error, which all agree
/// on.
pub fn run(program: &Program, func: &str, args: &[Any]) -> Result<String, String> {
    let mut first = None;
    for mode in Mode::ALL {
        let program = program.fork().expect("the same program");
        let mut session = program.session(mode).expect("a session");
        for call in 0..8 {
            let result = session.call_values(func, args);
            let result = result.map(|value| show(&value)).map_err(|error| error.to_string());
            let first = first.get_or_insert_with(|| result.clone());
            assert_eq!(result, *first, "{mode}, call {call}");
        }
    }
    first.expect("there are modes")
}

/// A value as text.
pub fn show(value: &Any) -> String {
    if let Some(items) = value.downcast_ref::<Tuple>() {
        return format!("({})", items.iter().map(show).collect::<Vec<_>>().join(", "));
    }
    let Some(tensor) = value.downcast_ref::<Tensor>() else {
        return value.view().as_int().map_or(value.view().type_key(), |int| int.to_string());
    };
    let list = |texts: Vec<String>| texts.join(", ");
    let elements = match tensor.dtype() {
        DType::F32 => list(tensor.to_vec::<f32>().unwrap().iter().map(f32::to_string).collect()),
        DType::I32 => list(tensor.to_vec::<i32>().unwrap().iter().map(i32::to_string).collect()),
        DType::I64 => list(tensor.to_vec::<i64>().unwrap().iter().map(i64::to_string).collect()),
        DType::BOOL => list(bytes(tensor).iter().map(|byte| (*byte != 0).to_string()).collect()),
        other => other.to_string(),
    };
    let shape = list(tensor.shape().iter().map(i64::to_string).collect());
    format!("{}[{shape}]{{{elements}}}", tensor.dtype())
}

/// A float32 tensor.
pub fn f32s(shape: &[i64], values: &[f32]) -> Any {
    Tensor::from_slice(shape, values).expect("a tensor").into()
}

/// A list of float32 tensors as a caller has it.
pub fn list(values: &[f32]) -> Any {
    let nil = Any::from(Tuple::new([Any::from(NIL)]));
    values
        .iter()
        .rev()
        .fold(nil, |rest, value| Tuple::new([Any::from(CONS), f32s(&[1], &[*value]), rest]).into())
}

// --- kernels --------------------------------------------------------------------------------

fn bytes(tensor: &Tensor) -> Vec<u8> {
    // SAFETY: a compact tensor of this machine's memory has so many bytes.
    unsafe { std::slice::from_raw_parts(tensor.data_ptr(), tensor.nbytes()) }.to_vec()
}

fn store(tensor: &Tensor, data: &[u8]) -> Result<(), RaisedError> {
    if tensor.nbytes() != data.len() {
        return Err(unfit());
    }
    // SAFETY: as many bytes as the tensor has, which a test owns and nothing else uses now.
    unsafe { tensor.data_ptr().copy_from_nonoverlapping(data.as_ptr(), data.len()) };
    Ok(())
}

/// The error of a kernel that a damaged program calls with what does not fit.
fn unfit() -> RaisedError {
    RaisedError::value_error("the tensors do not fit the kernel")
}

fn tensor(args: &[AnyView<'_>], at: usize) -> Result<Tensor, RaisedError> {
    reflex_runtime::function::arg(args, at)
}

fn add(args: &[AnyView<'_>]) -> Result<Any, RaisedError> {
    let (a, b, out) = (tensor(args, 0)?, tensor(args, 1)?, tensor(args, 2)?);
    if a.dtype() == DType::I32 {
        let sum: Vec<i32> = a
            .to_vec::<i32>()?
            .iter()
            .zip(b.to_vec::<i32>()?)
            .map(|(a, b)| a.wrapping_add(b))
            .collect();
        store(&out, &sum.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())?;
        return Ok(Any::NONE);
    }
    let b = b.to_vec::<f32>()?;
    if b.is_empty() {
        return Err(unfit());
    }
    let sum = a.to_vec::<f32>()?.into_iter().enumerate().map(|(at, a)| a + b[at % b.len()]);
    store(&out, &sum.flat_map(f32::to_le_bytes).collect::<Vec<_>>())?;
    Ok(Any::NONE)
}

fn is_positive(args: &[AnyView<'_>]) -> Result<Any, RaisedError> {
    let (x, out) = (tensor(args, 0)?, tensor(args, 1)?);
    let x = x.to_vec::<i32>()?;
    store(&out, &[u8::from(*x.first().ok_or_else(unfit)? > 0)])?;
    Ok(Any::NONE)
}

fn product(args: &[AnyView<'_>]) -> Result<Any, RaisedError> {
    let (x, out) = (tensor(args, 0)?, tensor(args, 1)?);
    store(&out, &x.to_vec::<i64>()?.iter().fold(1_i64, |a, b| a.wrapping_mul(*b)).to_le_bytes())?;
    Ok(Any::NONE)
}

fn called(_: &[AnyView<'_>]) -> Result<Any, RaisedError> {
    Err(RaisedError::runtime_error("the kernel was called"))
}

fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let set = |name, function| register_global_func(name, function).expect("a new name");
        set("test.relay.add", Function::new(add));
        set("test.relay.is_positive", Function::new(is_positive));
        set("test.relay.product", Function::new(product));
        set("test.relay.called", Function::new(called));
    });
}

// --- programs -------------------------------------------------------------------------------

fn constant(dtype: DType, shape: &[i64], bytes: &[u8]) -> TensorConst {
    TensorConst { dtype, shape: shape.into(), data: ConstData::copy_of(bytes) }
}

fn int(value: i64) -> TensorConst {
    constant(DType::I64, &[], &value.to_le_bytes())
}

fn floats(values: &[f32]) -> TensorConst {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    constant(DType::F32, &[values.len() as i64], &bytes)
}

fn load_const(constant: i64, dst: Reg) -> Instr {
    Instr::LoadConst { constant, device: 0, dst }
}

fn packed(primitive: i64, args: &[Reg]) -> Instr {
    Instr::InvokePacked { primitive, outputs: 1, args: args.to_vec() }
}

fn ret(result: Reg) -> Instr {
    Instr::Ret { result }
}

/// A tensor in register `base + 3`, as TVM allocates it: size, storage, offset, tensor.
fn alloc(b: &mut Builder, dtype: DType, shape: &[i64], base: Reg) -> Vec<Instr> {
    let bytes = shape.iter().product::<i64>() * dtype.itemsize() as i64;
    let (size, zero) = (b.constant(int(bytes)), b.constant(int(0)));
    let (storage, size_of) = (base + 1, StorageSize::Bytes(base));
    vec![
        load_const(size, base),
        Instr::AllocStorage { size: size_of, alignment: 64, dtype, device: 0, dst: storage },
        load_const(zero, base + 2),
        Instr::AllocTensor {
            storage,
            offset: base + 2,
            dtype,
            shape: shape.to_vec(),
            dst: base + 3,
        },
        Instr::KillRegister { dst: storage },
    ]
}

/// `x + [10, 20]`.
pub fn add_constant() -> Verified {
    let mut b = Builder::new(Dialect::V14);
    let c = b.constant(floats(&[10.0, 20.0]));
    add_to(b, c)
}

/// The same with a late-bound constant.
pub fn late_bound() -> Verified {
    let mut b = Builder::new(Dialect::V14);
    let c = b.late_bound("c");
    add_to(b, c)
}

/// The constant of [`late_bound`], as a file.
pub fn params() -> Vec<u8> {
    let params = Params::from([("c".to_owned(), floats(&[10.0, 20.0]))]);
    reflex_relay::params::write(&params)
}

fn add_to(mut b: Builder, c: i64) -> Verified {
    let (add, main) = (b.primitive("test.relay.add"), b.declare("main"));
    let mut code = vec![load_const(c, 1)];
    code.extend(alloc(&mut b, DType::F32, &[2], 2));
    code.extend([packed(add, &[0, 1, 5]), Instr::Move { from: 5, dst: 6 }, ret(6)]);
    b.define(main, &["x"], code);
    b.finish().expect("valid")
}

/// `flatten(copy(x + 1))`, of any number of rows.
pub fn dynamic() -> Verified {
    let mut b = Builder::new(Dialect::V14);
    let (add, product) = (b.primitive("test.relay.add"), b.primitive("test.relay.product"));
    let (one, four) = (b.constant(floats(&[1.0])), b.constant(int(0)));
    let main = b.declare("main");
    let dtype = DType::F32;
    let mut code = vec![Instr::ShapeOf { tensor: 0, dst: 1 }];
    code.extend(alloc(&mut b, DType::I64, &[1], 2));
    code.extend([
        packed(product, &[1, 5]),
        // As many elements, of 4 bytes: more than that many bytes would do.
        Instr::AllocStorage {
            size: StorageSize::Shape(vec![64]),
            alignment: 64,
            dtype,
            device: 0,
            dst: 6,
        },
        load_const(four, 7),
        Instr::AllocTensorReg { storage: 6, offset: 7, shape: 1, dtype, dst: 8 },
        load_const(one, 9),
        packed(add, &[0, 9, 8]),
        Instr::DeviceCopy { src: 8, src_device: 0, dst_device: 0, dst: 10 },
        Instr::ReshapeTensor { tensor: 10, shape: 5, dst: 11 },
        // A storage whose size a kernel computed.
        Instr::AllocStorage {
            size: StorageSize::Bytes(5),
            alignment: 64,
            dtype: DType::U8,
            device: 0,
            dst: 12,
        },
        ret(11),
    ]);
    b.define(main, &["x"], code);
    b.finish().expect("valid")
}

/// `if n == 0 { n } else { sum_up(n - 1) + n }`, on int32 compared with int64.
pub fn sum_up() -> Verified {
    let mut b = Builder::new(Dialect::V14);
    let add = b.primitive("test.relay.add");
    let (main, sum_up) = (b.declare("main"), b.declare("sum_up"));
    let minus = b.constant(constant(DType::I32, &[], &(-1_i32).to_le_bytes()));
    let zero = Instr::LoadConsti { value: 0, dst: 1 };
    let mut rest = vec![load_const(minus, 2)];
    rest.extend(alloc(&mut b, DType::I32, &[], 3));
    rest.extend([packed(add, &[0, 2, 6]), Instr::Invoke { func: sum_up, args: vec![6], dst: 7 }]);
    rest.extend(alloc(&mut b, DType::I32, &[], 8));
    rest.extend([packed(add, &[7, 0, 11]), ret(11)]);
    let test = Instr::If { test: 0, target: 1, equal: 1, unequal: 2 };
    let code = [vec![zero, test, ret(0)], rest].concat();
    b.define(sum_up, &["n"], code);
    let call = Instr::Invoke { func: sum_up, args: vec![0], dst: 1 };
    b.define(main, &["n"], vec![call, ret(1)]);
    b.finish().expect("valid")
}

/// `foldr(\a b -> free + a + b, 0, list)` with a match over the list, as TVM compiles it.
pub fn fold() -> Verified {
    let mut b = Builder::new(Dialect::V14);
    let add = b.primitive("test.relay.add");
    let zero = b.constant(floats(&[0.0]));
    let (main, fold) = (b.declare("main"), b.declare("fold"));
    let step = b.declare("step");
    let mut code = alloc(&mut b, DType::F32, &[1], 3);
    code.push(packed(add, &[0, 1, 6]));
    code.extend(alloc(&mut b, DType::F32, &[1], 7));
    code.extend([packed(add, &[6, 2, 10]), ret(10)]);
    b.define(step, &["free", "a", "b"], code);
    let code = vec![
        Instr::GetTag { object: 2, dst: 3 },
        Instr::LoadConsti { value: CONS, dst: 4 },
        Instr::If { test: 3, target: 4, equal: 1, unequal: 7 },
        Instr::GetField { object: 2, index: 1, dst: 5 },
        Instr::GetField { object: 2, index: 0, dst: 6 },
        Instr::Invoke { func: fold, args: vec![0, 1, 5], dst: 7 },
        Instr::InvokeClosure { closure: 0, args: vec![6, 7], dst: 8 },
        Instr::KillRegister { dst: 7 },
        Instr::Goto { offset: 7 },
        Instr::GetTag { object: 2, dst: 9 },
        Instr::LoadConsti { value: NIL, dst: 10 },
        Instr::If { test: 9, target: 10, equal: 1, unequal: 2 },
        Instr::Goto { offset: 2 },
        Instr::Fatal,
        Instr::Move { from: 1, dst: 8 },
        ret(8),
    ];
    b.define(fold, &["f", "acc", "list"], code);
    let code = vec![
        Instr::AllocClosure { func: step, free: vec![1], dst: 2 },
        load_const(zero, 3),
        Instr::Invoke { func: fold, args: vec![2, 3, 0], dst: 4 },
        ret(4),
    ];
    b.define(main, &["list", "free"], code);
    b.finish().expect("valid")
}

/// Functions that take and return data values and closures.
pub fn values() -> Verified {
    let mut b = Builder::new(Dialect::V14);
    let swap = b.declare("swap");
    let field = |index, dst| Instr::GetField { object: 0, index, dst };
    let pair = |fields: Vec<Reg>, dst| Instr::AllocAdt { tag: 0, fields, dst };
    b.define(swap, &["pair"], vec![field(0, 1), field(1, 2), pair(vec![2, 1], 3), ret(3)]);
    let unit = b.declare("unit");
    b.define(unit, &[], vec![pair(vec![], 0), ret(0)]);
    let tag = b.declare("tag");
    b.define(tag, &["value"], vec![Instr::GetTag { object: 0, dst: 1 }, ret(1)]);
    let wide = b.declare("wide");
    b.define(wide, &[], vec![Instr::LoadConsti { value: i64::MAX, dst: 0 }, ret(0)]);
    let same = b.declare("same");
    b.define(same, &["x"], vec![ret(0)]);
    let both = b.declare("both");
    b.define(both, &["bound", "given"], vec![pair(vec![0, 1], 2), ret(2)]);
    let bind = b.declare("bind");
    let closure = Instr::AllocClosure { func: both, free: vec![0], dst: 1 };
    b.define(bind, &["x"], vec![closure, ret(1)]);
    b.finish().expect("valid")
}

/// Kernels with tuples among their arguments, and with empty outputs.
pub fn kernels() -> Verified {
    let mut b = Builder::new(Dialect::V14);
    let (add, called) = (b.primitive("test.relay.add"), b.primitive("test.relay.called"));
    let sum_pair = b.declare("sum_pair");
    let mut code = alloc(&mut b, DType::F32, &[1], 1);
    code.extend([packed(add, &[0, 4]), ret(4)]);
    b.define(sum_pair, &["pair"], code);
    let empty = b.declare("empty");
    let mut code = alloc(&mut b, DType::F32, &[0], 1);
    code.extend([packed(called, &[0, 4]), ret(4)]);
    b.define(empty, &["x"], code);
    let of_two = b.declare("empty_of_two");
    let mut code = alloc(&mut b, DType::F32, &[0], 1);
    let both = Instr::InvokePacked { primitive: called, outputs: 2, args: vec![0, 4, 4] };
    code.extend([both, ret(4)]);
    b.define(of_two, &["x"], code);
    b.finish().expect("valid")
}

/// `x > 0` in the old boolean type, then a test of it.
pub fn booleans() -> Verified {
    let mut b = Builder::new(Dialect::V14);
    let positive = b.primitive("test.relay.is_positive");
    let main = b.declare("main");
    let mut code = alloc(&mut b, DType::new(1, 1), &[], 1);
    code.extend([
        packed(positive, &[0, 4]),
        Instr::LoadConsti { value: 1, dst: 5 },
        Instr::If { test: 4, target: 5, equal: 2, unequal: 1 },
        Instr::Fatal,
        ret(4),
    ]);
    b.define(main, &["x"], code);
    b.finish().expect("valid")
}

/// A loop without an end.
pub fn endless() -> Verified {
    let mut b = Builder::new(Dialect::V14);
    let main = b.declare("main");
    let adt = Instr::AllocAdt { tag: 1, fields: vec![], dst: 0 };
    b.define(main, &[], vec![adt, Instr::Goto { offset: -1 }, ret(0)]);
    b.finish().expect("valid")
}

/// A call of a kernel that nothing provides.
pub fn unknown_kernel() -> Verified {
    let mut b = Builder::new(Dialect::V14);
    let (kernel, main) = (b.primitive("test.relay.unknown"), b.declare("main"));
    b.define(main, &["x"], vec![packed(kernel, &[0, 0]), ret(0)]);
    b.finish().expect("valid")
}
