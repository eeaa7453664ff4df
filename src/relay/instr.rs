//! The 21 instructions, and their form in a file: an opcode and a list of 64-bit fields.

use reflex_runtime::dtype::DType;

use crate::executable::Dialect;

/// A register of a function, as it stands in a file.
pub type Reg = i64;

/// The size of a storage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StorageSize {
    /// Bytes, in a scalar tensor in a register.
    Bytes(Reg),
    /// As much as a tensor of this shape takes, of at least one dimension. Since TVM 0.14.
    Shape(Vec<i64>),
}

/// One instruction. Indices and registers are as the file has them; the verifier bounds them.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(
    missing_docs,
    reason = "the fields are those of TVM's instructions, explained per variant"
)]
pub enum Instr {
    /// `dst = from`.
    Move { from: Reg, dst: Reg },
    /// Leaves the function with `result`.
    Ret { result: Reg },
    /// `dst = func(args...)`, a function of the executable.
    Invoke { func: i64, args: Vec<Reg>, dst: Reg },
    /// `dst = closure(free variables..., args...)`.
    InvokeClosure { closure: Reg, args: Vec<Reg>, dst: Reg },
    /// Calls a kernel; the last `outputs` of `args` are written to.
    InvokePacked { primitive: i64, outputs: i64, args: Vec<Reg> },
    /// A tensor of constant shape in a storage, at an offset in a register.
    AllocTensor { storage: Reg, offset: Reg, dtype: DType, shape: Vec<i64>, dst: Reg },
    /// A tensor in a storage whose shape is the contents of a tensor.
    AllocTensorReg { storage: Reg, offset: Reg, shape: Reg, dtype: DType, dst: Reg },
    /// A value of a data type: a constructor's tag and its fields. Tag 0 is a tuple.
    AllocAdt { tag: i64, fields: Vec<Reg>, dst: Reg },
    /// A function of the executable with its first parameters bound.
    AllocClosure { func: i64, free: Vec<Reg>, dst: Reg },
    /// `dst = object.fields[index]`.
    GetField { object: Reg, index: i64, dst: Reg },
    /// Jumps by `equal` if both scalars are the same 32-bit integer, by `unequal` if not.
    If { test: Reg, target: Reg, equal: i64, unequal: i64 },
    /// `dst = ` a constant on a device; files up to 0.13 have no device here.
    LoadConst { constant: i64, device: i64, dst: Reg },
    /// Jumps by `offset` instructions.
    Goto { offset: i64 },
    /// `dst = ` the tag of a data value, an int32 tensor of one element.
    GetTag { object: Reg, dst: Reg },
    /// `dst = value`, an int64 tensor of one element.
    LoadConsti { value: i64, dst: Reg },
    /// Ends the run with an error.
    Fatal,
    /// Memory on a device.
    AllocStorage { size: StorageSize, alignment: i64, dtype: DType, device: i64, dst: Reg },
    /// `dst = ` the shape of a tensor, an int64 tensor of one dimension.
    ShapeOf { tensor: Reg, dst: Reg },
    /// `dst = ` the same data under the shape in a tensor.
    ReshapeTensor { tensor: Reg, shape: Reg, dst: Reg },
    /// `dst = ` a copy of a tensor on another device.
    DeviceCopy { src: Reg, src_device: i64, dst_device: i64, dst: Reg },
    /// Releases what a register holds. Since TVM 0.9.
    KillRegister { dst: Reg },
}

/// Why fields are not an instruction.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadInstr {
    /// Not one of the opcodes.
    #[error("unknown opcode {0}")]
    Opcode(i64),
    /// More or fewer fields than the instruction has.
    #[error("{name} with {given} fields, expected {expected}")]
    Fields {
        /// The instruction.
        name: &'static str,
        /// Fields that the file has.
        given: usize,
        /// Fields that it should have.
        expected: String,
    },
    /// Not an element type.
    #[error("element type ({0}, {1}, {2}) is out of range")]
    DType(i64, i64, i64),
}

/// The fields of an instruction, while it is read.
struct Fields<'f> {
    name: &'static str,
    all: &'f [i64],
}

impl Fields<'_> {
    fn bad(&self, expected: String) -> BadInstr {
        BadInstr::Fields { name: self.name, given: self.all.len(), expected }
    }

    fn exactly<const N: usize>(&self) -> Result<[i64; N], BadInstr> {
        self.all.try_into().map_err(|_| self.bad(N.to_string()))
    }

    /// The first `N` fields, and the rest, whose number is field `count`.
    fn counted<const N: usize>(&self, count: usize) -> Result<([i64; N], Vec<i64>), BadInstr> {
        let Some((head, rest)) = self.all.split_first_chunk::<N>() else {
            return Err(self.bad(format!("at least {N}")));
        };
        if usize::try_from(head[count]) != Ok(rest.len()) {
            return Err(self.bad(format!("{N} and then {}", head[count])));
        }
        Ok((*head, rest.to_vec()))
    }
}

fn dtype(code: i64, bits: i64, lanes: i64) -> Result<DType, BadInstr> {
    let bad = || BadInstr::DType(code, bits, lanes);
    Ok(DType {
        code: u8::try_from(code).map_err(|_| bad())?,
        bits: u8::try_from(bits).map_err(|_| bad())?,
        lanes: u16::try_from(lanes).map_err(|_| bad())?,
    })
}

impl Instr {
    /// Reads an instruction of a dialect from its opcode and fields.
    pub fn decode(dialect: Dialect, opcode: i64, fields: &[i64]) -> Result<Instr, BadInstr> {
        let name = NAMES.get(usize::try_from(opcode).unwrap_or(usize::MAX));
        let name = *name.ok_or(BadInstr::Opcode(opcode))?;
        let f = Fields { name, all: fields };
        Ok(match opcode {
            0 => f.exactly().map(|[from, dst]| Instr::Move { from, dst })?,
            1 => f.exactly().map(|[result]| Instr::Ret { result })?,
            2 => f.counted(1).map(|([func, _, dst], args)| Instr::Invoke { func, args, dst })?,
            3 => {
                let ([closure, _, dst], args) = f.counted(1)?;
                Instr::InvokeClosure { closure, args, dst }
            }
            4 => {
                let ([primitive, _, outputs], args) = f.counted(1)?;
                Instr::InvokePacked { primitive, outputs, args }
            }
            5 => {
                let ([storage, offset, code, bits, lanes, _, dst], shape) = f.counted(5)?;
                let dtype = dtype(code, bits, lanes)?;
                Instr::AllocTensor { storage, offset, dtype, shape, dst }
            }
            6 => {
                let [storage, offset, shape, code, bits, lanes, dst] = f.exactly()?;
                let dtype = dtype(code, bits, lanes)?;
                Instr::AllocTensorReg { storage, offset, shape, dtype, dst }
            }
            7 => {
                f.counted(1).map(|([tag, _, dst], fields)| Instr::AllocAdt { tag, fields, dst })?
            }
            8 => {
                let ([func, _, dst], free) = f.counted(1)?;
                Instr::AllocClosure { func, free, dst }
            }
            9 => f.exactly().map(|[object, index, dst]| Instr::GetField { object, index, dst })?,
            10 => {
                let [test, target, equal, unequal] = f.exactly()?;
                Instr::If { test, target, equal, unequal }
            }
            11 if dialect == Dialect::V14 => {
                let [constant, device, dst] = f.exactly()?;
                Instr::LoadConst { constant, device, dst }
            }
            11 => {
                let [constant, dst] = f.exactly()?;
                Instr::LoadConst { constant, device: 0, dst }
            }
            12 => f.exactly().map(|[offset]| Instr::Goto { offset })?,
            13 => f.exactly().map(|[object, dst]| Instr::GetTag { object, dst })?,
            14 => f.exactly().map(|[value, dst]| Instr::LoadConsti { value, dst })?,
            15 => f.exactly().map(|[]| Instr::Fatal)?,
            16 => storage(dialect, &f)?,
            17 => f.exactly().map(|[tensor, dst]| Instr::ShapeOf { tensor, dst })?,
            18 => {
                let [tensor, shape, dst] = f.exactly()?;
                Instr::ReshapeTensor { tensor, shape, dst }
            }
            19 => {
                let [src, src_device, dst_device, dst] = f.exactly()?;
                Instr::DeviceCopy { src, src_device, dst_device, dst }
            }
            20 if dialect != Dialect::V8 => f.exactly().map(|[dst]| Instr::KillRegister { dst })?,
            _ => return Err(BadInstr::Opcode(opcode)),
        })
    }

    /// The opcode.
    pub fn opcode(&self) -> i64 {
        match self {
            Instr::Move { .. } => 0,
            Instr::Ret { .. } => 1,
            Instr::Invoke { .. } => 2,
            Instr::InvokeClosure { .. } => 3,
            Instr::InvokePacked { .. } => 4,
            Instr::AllocTensor { .. } => 5,
            Instr::AllocTensorReg { .. } => 6,
            Instr::AllocAdt { .. } => 7,
            Instr::AllocClosure { .. } => 8,
            Instr::GetField { .. } => 9,
            Instr::If { .. } => 10,
            Instr::LoadConst { .. } => 11,
            Instr::Goto { .. } => 12,
            Instr::GetTag { .. } => 13,
            Instr::LoadConsti { .. } => 14,
            Instr::Fatal => 15,
            Instr::AllocStorage { .. } => 16,
            Instr::ShapeOf { .. } => 17,
            Instr::ReshapeTensor { .. } => 18,
            Instr::DeviceCopy { .. } => 19,
            Instr::KillRegister { .. } => 20,
        }
    }

    /// The name, as listings have it.
    pub fn name(&self) -> &'static str {
        NAMES[self.opcode() as usize]
    }

    /// The fields that a file of a dialect has.
    ///
    /// The size register of a storage with a shape is 0; TVM leaves a pointer of its process there.
    pub fn fields(&self, dialect: Dialect) -> Vec<i64> {
        let counted = |head: &[i64], rest: &[i64]| [head, rest].concat();
        let len = |list: &[i64]| list.len() as i64;
        match self {
            Instr::Move { from, dst } => vec![*from, *dst],
            Instr::Ret { result } => vec![*result],
            Instr::Invoke { func, args, dst } => counted(&[*func, len(args), *dst], args),
            Instr::InvokeClosure { closure, args, dst } => {
                counted(&[*closure, len(args), *dst], args)
            }
            Instr::InvokePacked { primitive, outputs, args } => {
                counted(&[*primitive, len(args), *outputs], args)
            }
            Instr::AllocTensor { storage, offset, dtype, shape, dst } => {
                let [code, bits, lanes] = numbers(*dtype);
                counted(&[*storage, *offset, code, bits, lanes, len(shape), *dst], shape)
            }
            Instr::AllocTensorReg { storage, offset, shape, dtype, dst } => {
                let [code, bits, lanes] = numbers(*dtype);
                vec![*storage, *offset, *shape, code, bits, lanes, *dst]
            }
            Instr::AllocAdt { tag, fields, dst } => counted(&[*tag, len(fields), *dst], fields),
            Instr::AllocClosure { func, free, dst } => counted(&[*func, len(free), *dst], free),
            Instr::GetField { object, index, dst } => vec![*object, *index, *dst],
            Instr::If { test, target, equal, unequal } => vec![*test, *target, *equal, *unequal],
            Instr::LoadConst { constant, device, dst } => match dialect {
                Dialect::V14 => vec![*constant, *device, *dst],
                Dialect::V8 | Dialect::V9 => vec![*constant, *dst],
            },
            Instr::Goto { offset } => vec![*offset],
            Instr::GetTag { object, dst } => vec![*object, *dst],
            Instr::LoadConsti { value, dst } => vec![*value, *dst],
            Instr::Fatal => vec![],
            Instr::AllocStorage { size, alignment, dtype, device, dst } => {
                let [code, bits, lanes] = numbers(*dtype);
                let (bytes, shape) = match size {
                    StorageSize::Bytes(register) => (*register, &[][..]),
                    StorageSize::Shape(shape) => (0, &shape[..]),
                };
                let head = [bytes, *alignment, code, bits, lanes, *device];
                match dialect {
                    Dialect::V14 => [&head[..], &[len(shape), *dst], shape].concat(),
                    Dialect::V8 | Dialect::V9 => [&head[..], &[*dst]].concat(),
                }
            }
            Instr::ShapeOf { tensor, dst } => vec![*tensor, *dst],
            Instr::ReshapeTensor { tensor, shape, dst } => vec![*tensor, *shape, *dst],
            Instr::DeviceCopy { src, src_device, dst_device, dst } => {
                vec![*src, *src_device, *dst_device, *dst]
            }
            Instr::KillRegister { dst } => vec![*dst],
        }
    }

    /// The register that it writes.
    pub fn dst(&self) -> Option<Reg> {
        match self {
            Instr::Move { dst, .. }
            | Instr::Invoke { dst, .. }
            | Instr::InvokeClosure { dst, .. }
            | Instr::AllocTensor { dst, .. }
            | Instr::AllocTensorReg { dst, .. }
            | Instr::AllocAdt { dst, .. }
            | Instr::AllocClosure { dst, .. }
            | Instr::GetField { dst, .. }
            | Instr::LoadConst { dst, .. }
            | Instr::GetTag { dst, .. }
            | Instr::LoadConsti { dst, .. }
            | Instr::AllocStorage { dst, .. }
            | Instr::ShapeOf { dst, .. }
            | Instr::ReshapeTensor { dst, .. }
            | Instr::DeviceCopy { dst, .. }
            | Instr::KillRegister { dst } => Some(*dst),
            Instr::Ret { .. }
            | Instr::InvokePacked { .. }
            | Instr::If { .. }
            | Instr::Goto { .. }
            | Instr::Fatal => None,
        }
    }

    /// Calls `read` with each register that it reads.
    pub fn for_each_read(&self, mut read: impl FnMut(Reg)) {
        match self {
            Instr::Move { from: one, .. }
            | Instr::Ret { result: one }
            | Instr::GetField { object: one, .. }
            | Instr::GetTag { object: one, .. }
            | Instr::AllocStorage { size: StorageSize::Bytes(one), .. }
            | Instr::ShapeOf { tensor: one, .. }
            | Instr::DeviceCopy { src: one, .. } => read(*one),
            Instr::Invoke { args, .. } | Instr::InvokePacked { args, .. } => {
                args.iter().copied().for_each(read);
            }
            Instr::InvokeClosure { closure, args, .. } => {
                read(*closure);
                args.iter().copied().for_each(read);
            }
            Instr::AllocAdt { fields: all, .. } | Instr::AllocClosure { free: all, .. } => {
                all.iter().copied().for_each(read);
            }
            Instr::AllocTensor { storage: a, offset: b, .. }
            | Instr::If { test: a, target: b, .. }
            | Instr::ReshapeTensor { tensor: a, shape: b, .. } => {
                [*a, *b].into_iter().for_each(read)
            }
            Instr::AllocTensorReg { storage, offset, shape, .. } => {
                [*storage, *offset, *shape].into_iter().for_each(read);
            }
            Instr::LoadConst { .. }
            | Instr::Goto { .. }
            | Instr::LoadConsti { .. }
            | Instr::Fatal
            | Instr::AllocStorage { .. }
            | Instr::KillRegister { .. } => {}
        }
    }
}

fn storage(dialect: Dialect, f: &Fields<'_>) -> Result<Instr, BadInstr> {
    if dialect != Dialect::V14 {
        let [bytes, alignment, code, bits, lanes, device, dst] = f.exactly()?;
        let (size, dtype) = (StorageSize::Bytes(bytes), dtype(code, bits, lanes)?);
        return Ok(Instr::AllocStorage { size, alignment, dtype, device, dst });
    }
    let ([bytes, alignment, code, bits, lanes, device, rank, dst], shape) = f.counted(6)?;
    let size = if rank > 0 { StorageSize::Shape(shape) } else { StorageSize::Bytes(bytes) };
    let dtype = dtype(code, bits, lanes)?;
    Ok(Instr::AllocStorage { size, alignment, dtype, device, dst })
}

fn numbers(dtype: DType) -> [i64; 3] {
    [dtype.code.into(), dtype.bits.into(), dtype.lanes.into()]
}

/// The hash that a file has before each instruction.
pub fn hash(opcode: i64, fields: &[i64]) -> u64 {
    const GOLDEN: u64 = 0x9e37_79b9;
    fields.iter().fold(opcode as u64, |key, &field| {
        let mixed = (field as u64).wrapping_add(GOLDEN);
        key ^ mixed.wrapping_add(key << 6).wrapping_add(key >> 2)
    })
}

/// The names of the opcodes, by number, as listings have them.
const NAMES: [&str; 21] = [
    "move",
    "ret",
    "invoke",
    "invoke_closure",
    "invoke_packed",
    "alloc_tensor",
    "alloc_tensor_reg",
    "alloc_data",
    "alloc_closure",
    "get_field",
    "if",
    "load_const",
    "goto",
    "get_tag",
    "load_consti",
    "fatal",
    "alloc_storage",
    "shape_of",
    "reshape_tensor",
    "device_copy",
    "kill_register",
];
