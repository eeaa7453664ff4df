//! Writes executables.
//!
//! A file that TVM wrote is written back byte for byte, but for one field: the size register of a
//! storage with a shape, where TVM leaves a pointer of its process, is 0.

use crate::bytes::Writer;
use crate::executable::{Constant, Dialect, Executable, Function};
use crate::instr;
use crate::read::MAGIC;

/// The bytes of the file, in the executable's dialect.
pub fn write(exec: &Executable) -> Vec<u8> {
    let mut w = Writer::default();
    w.u64(MAGIC);
    w.string(&exec.version);
    if exec.dialect != Dialect::V8 {
        w.u64(exec.devices.len() as u64);
        for device in &exec.devices {
            w.i32(device.kind);
            w.i32(device.id);
            if exec.dialect == Dialect::V14 {
                w.string(&device.scope);
            }
        }
        w.i32(exec.host_device);
    }
    w.strings(&exec.globals);
    w.u64(exec.constants.len() as u64);
    for constant in &exec.constants {
        write_constant(&mut w, constant, exec.dialect);
    }
    w.words(&exec.constant_devices);
    w.strings(&exec.primitives);
    w.u64(exec.attributes.len() as u64);
    for (primitive, pairs) in &exec.attributes {
        w.u64(*primitive);
        w.u64(pairs.len() as u64);
        for (name, value) in pairs {
            w.string(name);
            w.string(value);
        }
    }
    w.u64(exec.functions.len() as u64);
    for function in &exec.functions {
        write_function(&mut w, function, exec.dialect);
    }
    w.0
}

/// Before 0.9 there is no kind before a constant, and no late-bound one, which the verifier checks.
fn write_constant(w: &mut Writer, constant: &Constant, dialect: Dialect) {
    match constant {
        Constant::Tensor(tensor) => {
            if dialect != Dialect::V8 {
                w.u32(0);
            }
            w.tensor(tensor);
        }
        Constant::Late(name) => {
            w.u32(1);
            w.string(name);
        }
    }
}

fn write_function(w: &mut Writer, function: &Function, dialect: Dialect) {
    let Function { name, registers, params, param_devices, code } = function;
    w.strings(&[name.as_str(), &registers.to_string(), &code.len().to_string()]);
    w.strings(params);
    w.words(param_devices);
    for instr in code {
        let (opcode, fields) = (instr.opcode(), instr.fields(dialect));
        let hash = instr::hash(opcode, &fields) as i64;
        w.words(&[&[hash, opcode], &fields[..]].concat());
    }
}
