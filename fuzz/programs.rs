//! Generates bytecode programs: any opcode, most builtins, mostly well-typed arguments.
//!
//! A program passes the verifier by construction. It may fail while running (wrong types, failing
//! host functions, fuel, depth): an error is an answer like any other, and must be the same in
//! every tier. Programs are built from structured statements, so that loops and recursion repeat
//! often enough to get hot; termination comes from fuel.

use arbitrary::{Arbitrary, Result, Unstructured};
use reflex_runtime::dtype::DType;
use reflex_vm::builder::{BuildError, ExecBuilder};
use reflex_vm::bytecode::{Arg, Reg};
use reflex_vm::executable::Executable;

/// Registers a function works with, beside its parameters.
const SCRATCH: u32 = 6;
/// Statements in one program.
const BUDGET: u32 = 60;
/// Nesting of loops and branches.
const DEPTH: u32 = 3;

/// A program and how to call it.
#[derive(Debug)]
pub struct ProgramCase {
    /// Verified code with a function `main` of two parameters.
    pub executable: Executable,
    /// Arguments of successive calls of `main`.
    pub calls: Vec<[Input; 2]>,
    /// Fuel of each call.
    pub fuel: u64,
    /// Chooses the guards that are forced to fail.
    pub guard_seed: u64,
    /// Arrivals that make a place hot.
    pub threshold: u32,
    /// Most bytes of machine code, where an oracle limits them.
    pub code_limit: usize,
}

/// An argument that the host passes.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// No value.
    None,
    /// A small integer.
    Int(i8),
    /// A boolean.
    Bool(bool),
    /// A float tensor of a shape from a small set.
    Tensor(u8),
    /// A shape from the same set.
    Shape(u8),
    /// A tuple of two integers.
    Pair(i8, i8),
}

/// The extents that inputs, constants and checks share, so that checks often pass.
pub const SHAPES: [&[i64]; 4] = [&[2, 3], &[3], &[2, 5], &[]];

impl<'a> Arbitrary<'a> for ProgramCase {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let guard_seed = u.arbitrary()?;
        let fuel = *u.choose(&[400, 4000, 60])?;
        let threshold = *u.choose(&[2, 2, 1, 3])?;
        let code_limit = *u.choose(&[1 << 12, 3 << 12, 9 << 12])?;
        let mut calls = Vec::new();
        let base: [Input; 2] = u.arbitrary()?;
        for _ in 0..u.int_in_range(1..=6)? {
            // Mostly the same arguments, so that code gets hot and guards hold; sometimes others,
            // so that they fail.
            calls.push(if u.ratio(3, 4)? { base } else { u.arbitrary()? });
        }
        let executable = Generator::new(u)?.program()?;
        Ok(Self { executable, calls, fuel, guard_seed, threshold, code_limit })
    }
}

/// What a register probably holds where the generator stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unknown,
    None,
    Int,
    Bool,
    Tensor,
    Shape,
    Heap,
    Tuple,
    Closure,
    Storage,
    Object,
}

struct Generator<'g, 'a> {
    u: &'g mut Unstructured<'a>,
    b: ExecBuilder,
    /// Name and number of parameters.
    functions: Vec<(String, u32)>,
    budget: u32,
    kinds: Vec<Kind>,
    /// Number of extents, where a register holds a tensor or shape.
    ranks: Vec<i64>,
}

/// The generator only makes what the builder accepts.
fn built<T>(result: std::result::Result<T, BuildError>) -> T {
    result.unwrap_or_else(|error| panic!("the generator made an invalid program: {error}"))
}

impl<'g, 'a> Generator<'g, 'a> {
    fn new(u: &'g mut Unstructured<'a>) -> Result<Self> {
        let mut functions = vec![("main".to_owned(), 2)];
        for index in 0..u.int_in_range(0..=3)? {
            functions.push((format!("f{index}"), u.int_in_range(0..=3)?));
        }
        Ok(Self {
            u,
            b: ExecBuilder::new(),
            functions,
            budget: BUDGET,
            kinds: Vec::new(),
            ranks: Vec::new(),
        })
    }

    fn program(mut self) -> Result<Executable> {
        for (name, _) in self.functions.clone() {
            self.b.declare_function(&name, reflex_vm::executable::FuncKind::Vm);
        }
        for (name, parameters) in self.functions.clone() {
            self.function(&name, parameters)?;
        }
        Ok(built(self.b.finish()))
    }

    fn function(&mut self, name: &str, parameters: u32) -> Result<()> {
        built(self.b.function(name, parameters));
        self.kinds = vec![Kind::Unknown; parameters as usize];
        // The builder wants every register defined somewhere; some are read before that.
        self.kinds.resize((parameters + SCRATCH) as usize, Kind::None);
        self.ranks = vec![2; self.kinds.len()];
        let share = (self.budget / 2).max(8);
        self.block(0, share)?;
        let result = self.register(None)?;
        built(self.b.emit_ret(result));
        for register in parameters..parameters + SCRATCH {
            built(self.b.emit_call("vm.builtin.null_value", &[], self.b.r(register)));
        }
        built(self.b.emit_ret(Reg::VOID));
        built(self.b.end_function());
        Ok(())
    }

    fn block(&mut self, depth: u32, statements: u32) -> Result<()> {
        for _ in 0..self.u.int_in_range(1..=statements.max(1))? {
            if self.budget == 0 {
                break;
            }
            self.budget -= 1;
            self.statement(depth)?;
        }
        Ok(())
    }

    fn statement(&mut self, depth: u32) -> Result<()> {
        let nested = depth < DEPTH;
        match self.u.int_in_range(0..=19)? {
            0 | 1 => self.host_call(),
            2 => self.kernel(),
            3..=9 => self.builtin(),
            10 | 11 => self.vm_call(),
            12 | 13 if nested => self.branch(depth),
            14..=16 if nested => self.repeat(depth),
            17 => self.closure(),
            18 if depth > 0 => {
                let result = self.register(None)?;
                built(self.b.emit_ret(result));
                // Code behind a return is dead, and legal.
                Ok(())
            }
            _ => self.arithmetic(),
        }
    }

    fn call(&mut self, callee: &str, args: &[Arg], dst: Reg, kind: Kind) {
        if let Some(index) = dst.index() {
            self.kinds[index as usize] = kind;
            built(self.b.emit_call(callee, args, self.b.r(index)));
        } else {
            built(self.b.emit_call(callee, args, Reg::VOID));
        }
    }

    fn destination(&mut self) -> Result<Reg> {
        if self.u.ratio(1, 12)? {
            return Ok(Reg::VOID);
        }
        let count = self.kinds.len() as i64;
        Ok(Reg(self.u.int_in_range(0..=count - 1)?))
    }

    /// Mostly makes sure that some register holds `kind`.
    fn ensure(&mut self, kind: Kind) -> Result<()> {
        if self.kinds.contains(&kind) || self.u.ratio(1, 16)? {
            return Ok(());
        }
        let count = self.kinds.len() as i64;
        let dst = Reg(self.u.int_in_range(0..=count - 1)?);
        match kind {
            Kind::Bool => {
                let args = [self.argument(Kind::Int)?, self.argument(Kind::Int)?];
                self.call("fuzz.less", &args, dst, kind);
            }
            Kind::Heap => self.heap(dst),
            Kind::Tuple => {
                let args = [self.any_argument()?, self.any_argument()?];
                self.call("vm.builtin.make_tuple", &args, dst, kind);
            }
            Kind::Storage => self.storage(dst),
            Kind::Tensor => {
                self.storage(dst);
                self.tensor(dst, dst)?;
            }
            Kind::Closure => self.make_closure(dst)?,
            Kind::Object => self.call("fuzz.object", &[], dst, kind),
            Kind::Unknown | Kind::None | Kind::Int | Kind::Shape => {}
        }
        Ok(())
    }

    /// A shape heap whose entries are set: fresh ones hold whatever memory held.
    fn heap(&mut self, dst: Reg) {
        let args = [self.b.vm_state(), Arg::Imm(4)];
        self.call("vm.builtin.alloc_shape_heap", &args, dst, Kind::Heap);
        if dst == Reg::VOID {
            return;
        }
        for entry in 0..4 {
            let context = self.b.string("ErrorContext(heap) ");
            let args = [Arg::Imm(entry + 1), Arg::Reg(dst), Arg::Imm(1), Arg::Imm(entry), context];
            self.call("vm.builtin.match_prim_value", &args, Reg::VOID, Kind::None);
        }
    }

    fn storage(&mut self, dst: Reg) {
        let dtype = self.b.dtype(DType::F32);
        let scope = self.b.string("global");
        let args = [self.b.vm_state(), self.b.shape(&[64]), Arg::Imm(-1), dtype, scope];
        self.call("vm.builtin.alloc_storage", &args, dst, Kind::Storage);
    }

    /// A storage and a tensor of extents that are known only while running.
    fn dynamic(&mut self, dst: Reg) -> Result<()> {
        let shape = self.argument(Kind::Shape)?;
        let (dtype, scope) = (self.b.dtype(DType::F32), self.b.string("global"));
        let storage = Reg(self.u.int_in_range(0..=self.kinds.len() as i64 - 1)?);
        let args = [self.b.vm_state(), shape, Arg::Imm(0), dtype, scope];
        self.call("vm.builtin.alloc_storage", &args, storage, Kind::Storage);
        let rank = self.rank_of(shape)?;
        let args = [Arg::Reg(storage), Arg::Imm(0), shape, dtype];
        self.call("vm.builtin.alloc_tensor", &args, dst, Kind::Tensor);
        self.set_rank(dst, rank);
        Ok(())
    }

    /// Builtins that no other statement makes.
    fn rare(&mut self, dst: Reg) -> Result<()> {
        let context = self.b.string("ErrorContext(rare) ");
        match self.u.int_in_range(0..=5)? {
            0 => {
                let tensor = self.argument(Kind::Tensor)?;
                let rank = self.rank_of(tensor)?;
                self.call("vm.builtin.ensure_zero_offset", &[tensor], dst, Kind::Tensor);
                self.set_rank(dst, rank);
            }
            1 => {
                let args = [self.argument(Kind::Tuple)?, Arg::Imm(self.u.int_in_range(0..=1)?)];
                self.call("vm.builtin.tuple_reset_item", &args, dst, Kind::None);
            }
            2 => {
                let args = [self.argument(Kind::Closure)?, context];
                self.call("vm.builtin.check_func_info", &args, Reg::VOID, Kind::None);
            }
            3 => {
                let args = [self.argument(Kind::Int)?, self.b.dtype(DType::I64), context];
                self.call("vm.builtin.check_prim_value_info", &args, Reg::VOID, Kind::None);
            }
            4 => {
                // Three levels, so that destructors nest.
                let inner = [self.any_argument()?, self.any_argument()?, self.any_argument()?];
                self.call("vm.builtin.make_tuple", &inner, dst, Kind::Tuple);
                if dst != Reg::VOID {
                    let args = [Arg::Reg(dst), Arg::Reg(dst)];
                    self.call("vm.builtin.make_tuple", &args, dst, Kind::Tuple);
                }
            }
            _ => self.call("vm.builtin.make_tuple", &[], dst, Kind::Tuple),
        }
        Ok(())
    }

    fn tensor(&mut self, storage: Reg, dst: Reg) -> Result<()> {
        let offset = Arg::Imm(64 * self.u.int_in_range(0..=2)?);
        let shape = *self.u.choose(&SHAPES)?;
        let args = [Arg::Reg(storage), offset, self.b.shape(shape), self.b.dtype(DType::F32)];
        self.call("vm.builtin.alloc_tensor", &args, dst, Kind::Tensor);
        self.set_rank(dst, shape.len() as i64);
        Ok(())
    }

    fn make_closure(&mut self, dst: Reg) -> Result<()> {
        let (name, parameters) = self.u.choose(&self.functions)?.clone();
        let mut args = vec![self.b.f(&name)];
        // Calls pass what is left; see `closure`.
        for _ in 0..parameters.saturating_sub(1) {
            args.push(self.any_argument()?);
        }
        self.call("vm.builtin.make_closure", &args, dst, Kind::Closure);
        Ok(())
    }

    fn set_rank(&mut self, reg: Reg, rank: i64) {
        if let Some(index) = reg.index() {
            self.ranks[index as usize] = rank;
        }
    }

    /// The rank of an argument, as far as it is known; sometimes another.
    fn rank_of(&mut self, arg: Arg) -> Result<i64> {
        let known = match arg {
            Arg::Reg(reg) => reg.index().map_or(1, |index| self.ranks[index as usize]),
            _ => 2,
        };
        Ok(if self.u.ratio(1, 16)? { self.u.int_in_range(0..=2)? } else { known })
    }

    /// A register that probably holds `kind`, or any.
    fn register(&mut self, kind: Option<Kind>) -> Result<Reg> {
        let fits = |have: &Kind| kind.is_none_or(|kind| *have == kind);
        let all: Vec<i64> = (0..self.kinds.len() as i64).collect();
        let good: Vec<i64> =
            all.iter().copied().filter(|&at| fits(&self.kinds[at as usize])).collect();
        let from = if good.is_empty() || self.u.ratio(1, 20)? { &all } else { &good };
        Ok(Reg(*self.u.choose(from)?))
    }

    fn argument(&mut self, kind: Kind) -> Result<Arg> {
        self.ensure(kind)?;
        let have = self.kinds.contains(&kind);
        Ok(match kind {
            Kind::Int if !have || self.u.ratio(1, 2)? => Arg::Imm(self.u.int_in_range(-3..=6)?),
            Kind::Shape if !have || self.u.ratio(1, 2)? => {
                // Two extents, which `rank_of` takes for granted.
                let shape = *self.u.choose(&[SHAPES[0], SHAPES[2]])?;
                self.b.shape(shape)
            }
            Kind::None if !have => self.b.void_arg(),
            _ => Arg::Reg(self.register(Some(kind))?),
        })
    }

    fn any_argument(&mut self) -> Result<Arg> {
        Ok(match self.u.int_in_range(0..=9)? {
            0 => Arg::Imm(self.u.int_in_range(-100..=100)?),
            1 => self.b.string("text beyond seven bytes"),
            2 => self.b.float(0.5),
            3 => self.b.void_arg(),
            4 => self.b.shape(&[4, 1]),
            5 => self.b.int(i64::MAX - 1),
            _ => Arg::Reg(self.register(None)?),
        })
    }

    fn host_call(&mut self) -> Result<()> {
        let dst = self.destination()?;
        match self.u.int_in_range(0..=6)? {
            0 => {
                let arg = self.argument(Kind::Int)?;
                self.call("fuzz.fail_on_odd", &[arg], dst, Kind::Int);
            }
            1 => self.call("fuzz.object", &[], dst, Kind::Object),
            2 => {
                let args = [self.argument(Kind::Tensor)?, self.argument(Kind::Int)?];
                self.call("fuzz.fill", &args, dst, Kind::None);
            }
            3 => {
                let arg = self.argument(Kind::Tensor)?;
                self.call("fuzz.size", &[arg], dst, Kind::Int);
            }
            _ => {
                let mut args = Vec::new();
                for _ in 0..self.u.int_in_range(0..=3)? {
                    args.push(self.any_argument()?);
                }
                self.call("fuzz.record", &args, dst, Kind::Int);
            }
        }
        Ok(())
    }

    /// A kernel, mostly on tensors of extents that it takes.
    fn kernel(&mut self) -> Result<()> {
        let dst = self.destination()?;
        let scratch = self.kinds.len() as i64 - 3;
        let (storage, made) = (Reg(scratch), Reg(scratch + self.u.int_in_range(0..=1)?));
        if self.u.arbitrary()? {
            self.storage(storage);
            self.tensor(storage, made)?;
        }
        let args = [self.argument(Kind::Tensor)?, self.argument(Kind::Tensor)?];
        let name = if self.u.ratio(2, 3)? { "fuzz.each" } else { "fuzz.rows" };
        self.call(name, &args, dst, Kind::None);
        Ok(())
    }

    fn arithmetic(&mut self) -> Result<()> {
        let args = [self.argument(Kind::Int)?, self.argument(Kind::Int)?];
        let dst = self.destination()?;
        if self.u.arbitrary()? {
            self.call("fuzz.add", &args, dst, Kind::Int);
        } else {
            self.call("fuzz.less", &args, dst, Kind::Bool);
        }
        Ok(())
    }

    fn vm_call(&mut self) -> Result<()> {
        let (name, parameters) = self.u.choose(&self.functions)?.clone();
        let mut args = Vec::new();
        for _ in 0..parameters {
            let arg =
                if self.u.ratio(1, 2)? { self.argument(Kind::Int)? } else { self.any_argument()? };
            args.push(arg);
        }
        let dst = self.destination()?;
        self.call(&name, &args, dst, Kind::Unknown);
        Ok(())
    }

    fn closure(&mut self) -> Result<()> {
        let dst = self.destination()?;
        if self.u.ratio(1, 4)? {
            return self.make_closure(dst);
        }
        let back = self.u.ratio(1, 4)?;
        let kind = if back || self.u.ratio(3, 4)? { Kind::Closure } else { Kind::Object };
        let mut args = vec![self.b.vm_state(), self.argument(kind)?];
        let given = if self.u.ratio(7, 8)? { 1 } else { self.u.int_in_range(0..=2)? };
        for _ in 0..given {
            args.push(self.any_argument()?);
        }
        let callee = if back { "fuzz.call_back" } else { "vm.builtin.invoke_closure" };
        self.call(callee, &args, dst, Kind::Unknown);
        Ok(())
    }

    fn branch(&mut self, depth: u32) -> Result<()> {
        self.ensure(Kind::Bool)?;
        let condition = self.register(Some(Kind::Bool))?;
        let (otherwise, end) = (built(self.b.label()), built(self.b.label()));
        built(self.b.emit_if(condition, otherwise));
        let before = self.kinds.clone();
        self.block(depth + 1, 4)?;
        built(self.b.emit_goto(end));
        let then = std::mem::replace(&mut self.kinds, before);
        built(self.b.place(otherwise));
        self.block(depth + 1, 3)?;
        // A jump must lead somewhere beyond itself, also when the block was empty.
        let scratch = self.destination()?;
        self.call("fuzz.record", &[], scratch, Kind::Int);
        built(self.b.place(end));
        self.merge(&then);
        Ok(())
    }

    fn merge(&mut self, other: &[Kind]) {
        for (kind, other) in self.kinds.iter_mut().zip(other) {
            if kind != other {
                *kind = Kind::Unknown;
            }
        }
    }

    fn repeat(&mut self, depth: u32) -> Result<()> {
        let last = self.kinds.len() as i64 - 1;
        let (counter, condition) = (Reg(last), Reg(last - 1));
        let times = Arg::Imm(self.u.int_in_range(1..=12)?);
        self.call("vm.builtin.copy", &[times], counter, Kind::Int);
        let (start, end) = (built(self.b.label()), built(self.b.label()));
        built(self.b.place(start));
        let before = self.kinds.clone();
        self.block(depth + 1, 5)?;
        self.call("fuzz.add", &[Arg::Reg(counter), Arg::Imm(-1)], counter, Kind::Int);
        self.call("fuzz.less", &[Arg::Imm(0), Arg::Reg(counter)], condition, Kind::Bool);
        built(self.b.emit_if(condition, end));
        built(self.b.emit_goto(start));
        built(self.b.place(end));
        self.merge(&before);
        Ok(())
    }

    fn builtin(&mut self) -> Result<()> {
        let dst = self.destination()?;
        match self.u.int_in_range(0..=19)? {
            0 => self.call("vm.builtin.null_value", &[], dst, Kind::None),
            1 => {
                let arg = self.any_argument()?;
                self.call("vm.builtin.copy", &[arg], dst, Kind::Unknown);
            }
            2 => self.heap(dst),
            3 | 4 => self.match_shape()?,
            5 => self.make_shape(dst)?,
            6 => {
                let entry = Arg::Imm(self.u.int_in_range(0..=3)?);
                let args = [self.argument(Kind::Heap)?, Arg::Imm(1), entry];
                self.call("vm.builtin.make_prim_value", &args, dst, Kind::Int);
            }
            7 | 8 => self.check()?,
            9 => {
                let args = [self.any_argument()?, self.any_argument()?];
                self.call("vm.builtin.make_tuple", &args, dst, Kind::Tuple);
            }
            10 => {
                let last = if self.u.ratio(7, 8)? { 1 } else { 2 };
                let index = Arg::Imm(self.u.int_in_range(0..=last)?);
                let args = [self.argument(Kind::Tuple)?, index];
                self.call("vm.builtin.tuple_getitem", &args, dst, Kind::Unknown);
            }
            11 => {
                let tensor = self.argument(Kind::Tensor)?;
                let rank = self.rank_of(tensor)?;
                self.call("vm.builtin.shape_of", &[tensor], dst, Kind::Shape);
                self.set_rank(dst, rank);
            }
            12 => {
                let args = [self.argument(Kind::Tensor)?, self.argument(Kind::Shape)?];
                self.call("vm.builtin.reshape", &args, dst, Kind::Tensor);
            }
            13 => self.storage(dst),
            14 | 15 => {
                self.ensure(Kind::Storage)?;
                let storage = self.register(Some(Kind::Storage))?;
                self.tensor(storage, dst)?;
            }
            16 => self.dynamic(dst)?,
            17 => self.rare(dst)?,
            _ => self.scalar(dst)?,
        }
        Ok(())
    }

    fn scalar(&mut self, dst: Reg) -> Result<()> {
        if self.u.arbitrary()? {
            let kind = if self.u.arbitrary()? { Kind::Bool } else { Kind::Int };
            let condition = self.argument(kind)?;
            self.call("vm.builtin.read_if_cond", &[condition], dst, Kind::Bool);
            return Ok(());
        }
        let (value, heap) = (self.argument(Kind::Int)?, self.argument(Kind::Heap)?);
        let context = self.b.string("ErrorContext(match) ");
        let code = Arg::Imm(self.match_code()?);
        let args = [value, heap, code, Arg::Imm(1), context];
        self.call("vm.builtin.match_prim_value", &args, Reg::VOID, Kind::None);
        Ok(())
    }

    /// A code of `match_shape`: mostly one that cannot fail.
    fn match_code(&mut self) -> Result<i64> {
        Ok(if self.u.ratio(5, 6)? {
            self.u.int_in_range(1..=2)?
        } else {
            *self.u.choose(&[0, 3])?
        })
    }

    fn match_shape(&mut self) -> Result<()> {
        let kind = if self.u.ratio(2, 3)? { Kind::Tensor } else { Kind::Shape };
        let value = self.argument(kind)?;
        let with_heap = self.u.ratio(3, 4)?;
        let heap = if with_heap { self.argument(Kind::Heap)? } else { self.b.void_arg() };
        let rank = self.rank_of(value)?;
        let mut args = vec![value, heap, Arg::Imm(rank)];
        for _ in 0..rank {
            // Codes 1 and 3 use the heap, which the verifier knows.
            let code = self.match_code()?;
            args.push(Arg::Imm(if with_heap { code } else { code & 2 }));
            args.push(Arg::Imm(self.u.int_in_range(0..=3)?));
        }
        args.push(self.b.string("ErrorContext(shape) "));
        self.call("vm.builtin.match_shape", &args, Reg::VOID, Kind::None);
        Ok(())
    }

    fn make_shape(&mut self, dst: Reg) -> Result<()> {
        let rank = self.u.int_in_range(0..=2)?;
        let mut args = vec![self.argument(Kind::Heap)?, Arg::Imm(rank)];
        for _ in 0..rank {
            args.push(Arg::Imm(self.u.int_in_range(0..=1)?));
            args.push(Arg::Imm(self.u.int_in_range(0..=3)?));
        }
        self.call("vm.builtin.make_shape", &args, dst, Kind::Shape);
        self.set_rank(dst, rank);
        Ok(())
    }

    fn check(&mut self) -> Result<()> {
        let context = self.b.string("ErrorContext(check) ");
        match self.u.int_in_range(0..=2)? {
            0 => {
                let dtype = *self.u.choose(&[DType::F32, DType::F32, DType::F32, DType::I64])?;
                let tensor = self.argument(Kind::Tensor)?;
                let rank = if self.u.ratio(1, 3)? { -1 } else { self.rank_of(tensor)? };
                let args = [tensor, Arg::Imm(rank), self.b.dtype(dtype), context];
                self.call("vm.builtin.check_tensor_info", &args, Reg::VOID, Kind::None);
            }
            1 => {
                let shape = self.argument(Kind::Shape)?;
                let rank = if self.u.ratio(1, 3)? { -1 } else { self.rank_of(shape)? };
                let args = [shape, Arg::Imm(rank), context];
                self.call("vm.builtin.check_shape_info", &args, Reg::VOID, Kind::None);
            }
            _ => {
                let args = [self.argument(Kind::Tuple)?, Arg::Imm(2), context];
                self.call("vm.builtin.check_tuple_info", &args, Reg::VOID, Kind::None);
            }
        }
        Ok(())
    }
}
