//! Signatures of executables that TVM exported, read from their bytecode.
//!
//! TVM checks every parameter on entry: `check_tensor_info` has rank and type, `match_shape`
//! binds or compares each dimension. A parameter without these checks, as every one of a function
//! that TVM compiled to native code, has the type `void`: it may be anything. Outputs are not
//! described anywhere, so they have no names.

use std::collections::BTreeMap;

use reflex_runtime::dtype::DType;
use reflex_vm::bytecode::{Arg, Instr, Reg};
use reflex_vm::executable::{Constant, Executable, FuncKind, Function};
use reflex_vm::verify::Verified;

use crate::signature::{Dim, Signature, TensorInfo};

/// `match_shape` codes: equal to the immediate, store to the heap slot, equal to the slot.
const EQUALS_IMM: i64 = 0;
const STORE: i64 = 1;
const EQUALS_SLOT: i64 = 3;
/// The most dimensions of a tensor; a check for more is never met.
const MAX_RANK: i64 = 64;

/// Returns the signature of every VM function, whose parameters and instructions the verifier has
/// bounded.
pub(crate) fn signatures(exec: &Verified<Executable>) -> BTreeMap<String, Signature> {
    let functions = exec.functions.iter().filter(|f| f.kind != FuncKind::Packed);
    functions.map(|f| (f.name.clone(), signature(exec, f))).collect()
}

fn signature(exec: &Executable, func: &Function) -> Signature {
    let mut inputs: Vec<TensorInfo> = (0..func.num_args.max(0) as usize)
        .map(|i| TensorInfo {
            name: func.param_names.get(i).cloned().unwrap_or_else(|| format!("arg{i}")),
            dtype: DType::VOID,
            shape: vec![],
        })
        .collect();
    let instructions = match func.kind {
        FuncKind::Vm => func.start_instr..func.end_instr,
        FuncKind::VmTir | FuncKind::Packed => 0..0,
    };
    for index in instructions {
        let Ok(Instr::Call { callee, args, .. }) = exec.instr(index as usize) else { continue };
        let name = usize::try_from(callee).ok().and_then(|c| exec.functions.get(c));
        let args: Vec<Arg> = args.iter().map_while(Result::ok).collect();
        let Some(Arg::Reg(Reg(param))) = args.first() else { continue };
        let input = usize::try_from(*param).ok().and_then(|p| inputs.get_mut(p));
        let (Some(input), Some(name)) = (input, name.map(|f| f.name.as_str())) else { continue };
        match name {
            "vm.builtin.check_tensor_info" => describe_type(exec, input, &args),
            "vm.builtin.match_shape" => describe_shape(input, &args),
            _ => {}
        }
    }
    Signature { inputs, outputs: vec![] }
}

/// `check_tensor_info(x, ndim, dtype, context)`; `dtype` may be left out.
fn describe_type(exec: &Executable, input: &mut TensorInfo, args: &[Arg]) {
    if let (Some(Arg::Imm(rank @ 0..=MAX_RANK)), 4) = (args.get(1), args.len())
        && let Some(Arg::Const(at)) = args.get(2)
        && let Some(Constant::DType(dtype)) = exec.constants.get(*at as usize)
    {
        input.dtype = *dtype;
        if input.shape.is_empty() {
            input.shape = (0..*rank).map(|i| Dim::Symbol(format!("?{i}"))).collect();
        }
    }
}

/// `match_shape(x, heap, n, (code, value) * n, context)`
fn describe_shape(input: &mut TensorInfo, args: &[Arg]) {
    let pairs = args.get(3..).unwrap_or_default().chunks_exact(2);
    input.shape = pairs
        .enumerate()
        .map_while(|(i, pair)| match pair {
            [Arg::Imm(EQUALS_IMM), Arg::Imm(n)] => Some(Dim::Const(*n)),
            [Arg::Imm(STORE | EQUALS_SLOT), Arg::Imm(slot)] => {
                Some(Dim::Symbol(format!("s{slot}")))
            }
            [Arg::Imm(_), Arg::Imm(_)] => Some(Dim::Symbol(format!("?{i}"))),
            _ => None,
        })
        .collect();
}
