//! Runs PTX in the interpreter, on values of every kind.
#![allow(dead_code, reason = "each test binary uses a part")]

use reflex_ptx::{
    Arch, Counters, Device, LaunchOptions, Limits, Module, Order, Params, Swizzle, TensorMap,
};
use reflex_tir::codegen::DeviceCode;
use reflex_tir::eval::EvalTensor;
use reflex_tir::{Buffer, DType, Expr, PrimFunc};

/// Values of a type: zeros, ones, extremes, numbers that are not, and others.
pub fn values(dtype: DType) -> EvalTensor {
    let mut tensor = EvalTensor::zeros(dtype, &[64]);
    let special =
        [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 3.5, 1e9, -1e9, 1e38, 1e-40, f64::INFINITY, f64::NAN];
    let numbers = (0..64_u32).map(|i| match special.get(i as usize) {
        Some(value) => *value,
        None => f64::from(i.wrapping_mul(2_654_435_761) >> 16) / 9000.0 - 3.0,
    });
    let size = dtype.itemsize();
    for (i, (number, bytes)) in numbers.zip(tensor.bytes.chunks_exact_mut(size)).enumerate() {
        match dtype {
            DType::F32 => bytes.copy_from_slice(&(number as f32).to_le_bytes()),
            DType::F64 => bytes.copy_from_slice(&number.to_le_bytes()),
            DType::F16 => bytes.copy_from_slice(&half::f16::from_f64(number).to_le_bytes()),
            DType::BF16 => bytes.copy_from_slice(&half::bf16::from_f64(number).to_le_bytes()),
            DType::BOOL => bytes[0] = i as u8 & 1,
            _ => {
                let bits = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(i as u32);
                let bits = if i % 3 == 0 { i as u64 } else { bits };
                bytes.copy_from_slice(&bits.to_le_bytes()[..size]);
            }
        }
    }
    tensor
}

/// The elements, with every NaN the same.
pub fn elements(tensor: &EvalTensor) -> Vec<u64> {
    let size = tensor.dtype.itemsize();
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..size].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(word);
        let is_nan = match tensor.dtype {
            DType::F32 => f32::from_bits(bits as u32).is_nan(),
            DType::F64 => f64::from_bits(bits).is_nan(),
            DType::F16 => half::f16::from_bits(bits as u16).is_nan(),
            DType::BF16 => half::bf16::from_bits(bits as u16).is_nan(),
            _ => false,
        };
        if is_nan { u64::MAX } else { bits }
    };
    tensor.bytes.chunks_exact(size).map(word).collect()
}

/// The last argument after a run of the code's kernels.
pub fn interpreted(
    func: &PrimFunc,
    code: &DeviceCode,
    args: &[EvalTensor],
    order: Order,
) -> EvalTensor {
    let result = try_interpreted(func, code, args, order);
    result.unwrap_or_else(|fault| panic!("{fault}\n{}", code.ptx))
}

/// The result, or what the interpreter finds wrong.
pub fn try_interpreted(
    func: &PrimFunc,
    code: &DeviceCode,
    args: &[EvalTensor],
    order: Order,
) -> Result<EvalTensor, String> {
    Ok(counted(func, code, args, order)?.0)
}

/// The result and the counters of each launch, or what the interpreter finds wrong.
pub fn counted(
    func: &PrimFunc,
    code: &DeviceCode,
    args: &[EvalTensor],
    order: Order,
) -> Result<(EvalTensor, Vec<Counters>), String> {
    try_with_maps(func, code, args, order, &mut |_| {})
}

/// As [`counted`], with other tensor maps.
pub fn try_with_maps(
    func: &PrimFunc,
    code: &DeviceCode,
    args: &[EvalTensor],
    order: Order,
    change: &mut dyn FnMut(&mut TensorMap),
) -> Result<(EvalTensor, Vec<Counters>), String> {
    let mut counters = vec![];
    let module = Module::parse(&code.ptx).unwrap_or_else(|e| panic!("{e}\n{}", code.ptx));
    let mut device = Device::new(Limits::default());
    let addresses: Vec<u64> = args
        .iter()
        .map(|tensor| {
            let address = device.alloc(tensor.bytes.len() as u64).expect("memory");
            device.write(address, &tensor.bytes).expect("inside");
            address
        })
        .collect();
    let parameters: Vec<_> = func.buffer_params().collect();
    for kernel in &code.kernels {
        let address = |buffer: &Buffer| {
            let at = parameters.iter().position(|b| b == buffer).expect("a parameter");
            addresses[at]
        };
        let buffers = kernel.buffers.iter();
        let params = buffers.fold(Params::new(), |params, buffer| params.u64(address(buffer)));
        let params = kernel.maps.iter().fold(params, |params, map| {
            let element = func.buffers[map.buffer].dtype.itemsize() as u8;
            let int = |e: &Expr| e.as_int().expect("constant");
            let strides = map.dims[1..].iter().map(|d| int(&d.1) as u64 * u64::from(element));
            let mut map = TensorMap {
                address: address(&map.buffer),
                element,
                dims: map.dims.iter().map(|d| int(&d.0) as u32).collect(),
                strides: strides.collect(),
                extents: map.dims.iter().map(|d| d.2 as u16).collect(),
                swizzle: Swizzle::Bytes128,
            };
            change(&mut map);
            params.bytes(&map.to_bytes(), 64)
        });
        let grid = kernel.grid.each_ref().map(|n| n.as_int().expect("constant") as u32);
        let arch = match code.ptx.contains(".target sm_90a") {
            true => Arch::Sm90a,
            false => Arch::Sm80,
        };
        let options = LaunchOptions { order, arch, ..LaunchOptions::default() };
        let launched = device.launch(
            &module,
            &kernel.name,
            grid,
            kernel.block,
            kernel.shared_bytes,
            &params.bytes,
            &options,
        );
        counters.push(launched.map_err(|fault| fault.to_string())?);
    }
    let last = args.last().expect("an output");
    let bytes = device.read(*addresses.last().expect("an output"), last.bytes.len());
    Ok((EvalTensor { bytes: bytes.expect("inside"), ..last.clone() }, counters))
}

/// Values for every parameter, and an empty output.
pub fn arguments(func: &PrimFunc) -> Vec<EvalTensor> {
    let of = |buffer| values(func.buffers[buffer].dtype);
    let mut args: Vec<EvalTensor> = func.buffer_params().map(of).collect();
    args.last_mut().expect("an output").bytes.fill(0);
    args
}
