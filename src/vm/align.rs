//! Aligns the tensors of an executable so that a mapped file can serve them in place.
//!
//! TVM's format stores constants back to back. Unused string constants between them move
//! the data of each tensor to a boundary; readers of the format see nothing but a few more
//! constants, and every argument word follows its constant to the new index.

use crate::bytecode::{Arg, BadWord, Instr};
use crate::executable::{Constant, Executable};
use crate::serialize::to_bytes;

/// Tensors at least this large start on a page, so that processes share whole pages.
const LARGE: usize = 64 << 10;
const PAGE: usize = 4096;
const LINE: usize = 64;

/// The executable with padding constants, such that tensor data is aligned in its serialized
/// form when that begins `base` bytes after a page boundary.
pub fn align_tensors(exec: &Executable, base: usize) -> Result<Executable, BadWord> {
    let mut constants = Vec::with_capacity(exec.constants.len());
    let mut renumbered = Vec::with_capacity(exec.constants.len());
    let mut at = base + header_size(exec);
    for constant in &exec.constants {
        if let Constant::Tensor(tensor) = constant {
            let align = if tensor.data.bytes().len() >= LARGE { PAGE } else { LINE };
            if let Some(padding) = padding(at + tensor_prefix(tensor.shape.len()), align) {
                at += size(&padding);
                constants.push(padding);
            }
        }
        renumbered.push(constants.len() as u32);
        at += size(constant);
        constants.push(constant.clone());
    }
    let mut instr_data = exec.instr_data.clone();
    for index in 0..exec.instr_offset.len() {
        if let Instr::Call { args, .. } = exec.instr(index)? {
            let start = exec.instr_offset[index] as usize + 4;
            for (k, arg) in args.iter().enumerate() {
                if let Arg::Const(old) = arg? {
                    let new =
                        *renumbered.get(old as usize).ok_or(BadWord::Index(i64::from(old)))?;
                    instr_data[start + k] = Arg::Const(new).encode();
                }
            }
        }
    }
    let scope = |(index, scope): &(i64, String)| {
        let new = usize::try_from(*index).ok().and_then(|i| renumbered.get(i));
        new.map(|new| (i64::from(*new), scope.clone())).ok_or(BadWord::Index(*index))
    };
    Ok(Executable {
        functions: exec.functions.clone(),
        memory_scopes: exec.memory_scopes.iter().map(scope).collect::<Result<_, _>>()?,
        constants,
        instr_offset: exec.instr_offset.clone(),
        instr_data,
    })
}

/// A string constant after which `data` stands on a boundary; `None` when it does already.
fn padding(data: usize, align: usize) -> Option<Constant> {
    if data.is_multiple_of(align) {
        return None;
    }
    let empty = size(&Constant::Str("".into()));
    let after = data + empty;
    let text = " ".repeat(after.next_multiple_of(align) - after);
    Some(Constant::Str(text.into()))
}

/// Serialized bytes before the first constant.
fn header_size(exec: &Executable) -> usize {
    let without = Executable {
        functions: exec.functions.clone(),
        memory_scopes: exec.memory_scopes.clone(),
        ..Executable::default()
    };
    // The counts of instruction offsets and words follow the constants.
    to_bytes(&without).len() - 2 * size_of::<u64>()
}

/// Serialized bytes of a constant.
fn size(constant: &Constant) -> usize {
    const CODE: usize = 4;
    CODE + match constant {
        Constant::Int(_) | Constant::Float(_) => 8,
        Constant::DType(_) => 4,
        Constant::Str(text) => 8 + text.len(),
        Constant::Shape(shape) => 8 + 8 * shape.len(),
        Constant::Tensor(tensor) => {
            return tensor_prefix(tensor.shape.len()) + tensor.data.bytes().len();
        }
    }
}

/// Serialized bytes of a tensor constant before its data: code, magic, reserved, device (2),
/// rank, type, dimensions, byte count.
fn tensor_prefix(rank: usize) -> usize {
    4 + 8 + 8 + 4 + 4 + 4 + 4 + 8 * rank + 8
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use reflex_runtime::dtype::DType;

    use super::*;
    use crate::builder::ExecBuilder;
    use crate::bytecode::Reg;
    use crate::executable::{ConstData, TensorConst};
    use crate::serialize::from_shared;
    use reflex_runtime::aligned_bytes::AlignedBytes;

    fn tensor(bytes: usize) -> TensorConst {
        let data = ConstData::copy_of(&vec![bytes as u8; bytes]);
        TensorConst { dtype: DType::U8, shape: Box::new([bytes as i64]), data }
    }

    #[test]
    fn tensors_land_on_boundaries_and_arguments_follow() {
        let mut b = ExecBuilder::new();
        b.function("main", 1).unwrap();
        let args = [b.string("x"), b.tensor(tensor(3)), b.shape(&[1, 2]), b.tensor(tensor(LARGE))];
        b.emit_call("f", &args, Reg::VOID).unwrap();
        b.emit_ret(Reg(0)).unwrap();
        b.end_function().unwrap();
        let exec = b.finish().unwrap();
        for base in [0, 8, 91] {
            let aligned = align_tensors(&exec, base).unwrap();
            let mut file = vec![0; base];
            file.extend(to_bytes(&aligned));
            let length = file.len();
            let owner: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::new(AlignedBytes::copy_of(&file));
            let start = (*owner).as_ref().as_ptr().addr();
            let back = from_shared(&owner, base..length).unwrap();
            assert_eq!(back, aligned);
            let offset = |c: &Constant| match c {
                Constant::Tensor(t) => Some(t.data.bytes().as_ptr().addr().wrapping_sub(start)),
                _ => None,
            };
            let offsets: Vec<usize> = back.constants.iter().filter_map(offset).collect();
            assert!(offsets[0].is_multiple_of(LINE) && offsets[0] < length, "{offsets:?}");
            assert!(offsets[1].is_multiple_of(PAGE) && offsets[1] < length, "{offsets:?}");
            let Instr::Call { args, .. } = back.instr(0).unwrap() else { panic!("a call") };
            let values: Vec<&Constant> = args
                .iter()
                .map(|a| match a.unwrap() {
                    Arg::Const(index) => &back.constants[index as usize],
                    other => panic!("{other:?}"),
                })
                .collect();
            let originals: Vec<&Constant> = exec.constants.iter().collect();
            assert_eq!(values, originals);
        }
    }
}
