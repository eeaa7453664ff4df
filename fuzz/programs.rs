//! Generates bytecode programs: any opcode, most builtins, mostly well-typed arguments.
//!
//! A program passes the verifier by construction. It may fail while running (wrong types, failing
//! host functions, fuel, depth): an error is an answer like any other, and must be the same in
//! every tier. Programs are built from structured statements, so that loops and recursion repeat
//! often enough to get hot; termination comes from fuel.

mod calls;
mod control;
mod data;
mod memory;
mod objects;
mod overwrite;
mod recursion;
mod rotation;
mod shapes;
mod small;
mod themes;

use arbitrary::{Arbitrary, Result, Unstructured};
use reflex_vm::builder::{BuildError, ExecBuilder};
use reflex_vm::bytecode::{Arg, Reg};
use reflex_vm::executable::Executable;

use recursion::LADDER;

/// Registers of a function in addition to its parameters.
const SCRATCH: u32 = 6;
/// Statements in one program.
const BUDGET: u32 = 60;
/// Bytes of input that a function consumes, approximately.
const BYTES: u32 = 40;
/// Nesting of loops and branches.
const DEPTH: u32 = 3;
/// Functions of one parameter that only some programs have: the first one returns a new object, the
/// second one logs its argument, or releases it; the others call the second one at the same
/// instruction, and use its result differently.
const HELPERS: [&str; 4] = ["this", "that", "left", "right"];
/// Functions that only programs about data have: a recursion over data, and the function that it calls
/// with a head and the answer for the tail.
const DATA: [&str; 2] = ["fold", "join"];

/// The two sizes of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    /// A few scenes: statements that only together have an effect.
    Small,
    Large,
}

/// A program, and the calls of it.
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
    /// The hot threshold of sites.
    pub threshold: u32,
    /// The code-cache budget in bytes, where an oracle limits it.
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
    /// An integer tensor of a shape from the same set.
    IntTensor(u8),
    /// A float tensor of two dimensions whose rows are not contiguous, or of one.
    Strided(u8),
    /// A boolean tensor of rank 0, which is a condition, or may not be read.
    Flag(u8),
    /// A shape from the same set.
    Shape(u8),
    /// A shape of a higher rank than the others.
    Longer,
    /// A tuple of two integers.
    Pair(i8, i8),
    /// A tuple of up to three integers.
    Items(u8),
    /// A number that a program may use as a dimension, from [`DIMS`].
    Dim(u8),
    /// A vector of integers that may be a shape heap, or a tensor that is none.
    Entries(u8),
    /// A float tensor of two dimensions with a byte offset.
    Inner(u8),
    /// A float tensor of two dimensions without strides, on another device, or without data.
    Foreign(u8),
    /// A float tensor of three rows.
    Tall(u8),
    /// Half of a small integer.
    Half(i8),
    /// A small string (inline in its value), or a string object.
    Text(bool),
    /// A function of the host that logs its arguments.
    Recorder,
    /// A closure of another program.
    ForeignClosure(u8),
    /// A list of a length from a small set, or a tree: tuples that begin with a tag.
    Data(u8),
}

impl Input {
    /// The same with other dimensions, elements or strides, where it has some.
    fn varied(self, how: u8) -> Input {
        match (self, how % 16) {
            // Every second shape has the same rank.
            (Input::Tensor(which), 0..=4) => Input::Tensor(which.wrapping_add(2)),
            (Input::Tensor(_), 5 | 6) => Input::Strided(how >> 4),
            (Input::Tensor(_), 7) => Input::Foreign(how >> 4),
            (Input::Tensor(which), 8 | 9) => Input::Tensor(which.wrapping_add(1)),
            (Input::Tensor(which), 10..=12) => Input::IntTensor(which),
            (Input::Tensor(which), 13) => Input::Tall(which),
            (Input::Tensor(which), _) => Input::Inner(which),
            (Input::Shape(which), 0 | 1) => Input::Shape(which.wrapping_add(2)),
            (Input::Shape(_), 2..=6) => Input::Longer,
            (Input::Shape(which), _) => Input::Shape(which.wrapping_add(1)),
            (
                Input::Strided(which)
                | Input::IntTensor(which)
                | Input::Inner(which)
                | Input::Tall(which),
                _,
            ) => Input::Tensor(which),
            (Input::Longer, _) => Input::Shape(0),
            (Input::Flag(which), _) => Input::Flag(which.wrapping_add(1 + how % 4)),
            (Input::Foreign(which), 0..=4) => Input::Foreign(which.wrapping_add(how | 1)),
            (Input::Foreign(_), _) => Input::Tensor(0),
            (Input::Pair(..), _) => Input::Items(how),
            (Input::Data(which), 0..=12) => Input::Data(which.wrapping_add(how >> 4)),
            (Input::Data(_), _) => Input::Items(how),
            (Input::Items(count), _) => Input::Items(count.wrapping_add(1)),
            // The element count of two of them overflows.
            (Input::Dim(_), 0) => Input::Dim(6),
            (Input::Dim(which), _) => Input::Dim(which.wrapping_add(how | 1)),
            (Input::Entries(which), _) => Input::Entries(which.wrapping_add(1 + how % 5)),
            (
                Input::None
                | Input::Int(_)
                | Input::Bool(_)
                | Input::Half(_)
                | Input::Text(_)
                | Input::Recorder
                | Input::ForeignClosure(_),
                which,
            ) => [
                Input::None,
                Input::Int(2),
                Input::Bool(true),
                Input::Half(1),
                Input::Text(false),
                Input::Text(true),
                Input::Recorder,
                Input::ForeignClosure(how >> 3),
            ][usize::from(which % 8)],
        }
    }
}

/// The shapes that inputs, constants and checks share, so that checks often pass.
pub const SHAPES: [&[i64]; 4] = [&[2, 3], &[3], &[2, 5], &[]];

/// A shape that has one of them as a prefix, which hosts pass too.
pub const LONGER: &[i64] = &[2, 3, 2];

/// Numbers that a host may pass as dimensions; two make a valid view of a small matrix or not.
pub const DIMS: [i64; 8] = [2, 3, 0, -1, 1, 6, 1 << 32, 4];

/// The kind of arguments that the host mostly passes to `main`, and that some statements use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theme {
    Any,
    /// Two matrices of the same shape.
    Matrices,
    /// A matrix and a vector of as many elements as its rows.
    Rows,
    /// Shapes.
    Shapes,
    /// Vectors that may be shape heaps.
    Entries,
    /// Tuples.
    Tuples,
    /// Numbers that are dimensions.
    Dims,
    /// A tensor that may have a byte offset, and a condition.
    Origins,
    /// Values of any type.
    Types,
    /// Values of algebraic data types.
    Data,
}

impl Theme {
    /// A theme, and arguments of `main`. Small programs always have one.
    fn choose(u: &mut Unstructured<'_>, size: Size) -> Result<(Theme, [Input; 2])> {
        let which = 2 * u.int_in_range(0..=1)?;
        Ok(match u.int_in_range(0..=39)? {
            0 | 1 => (Theme::Rows, [Input::Tensor(0), Input::Tensor(1)]),
            2 | 3 => (Theme::Shapes, [Input::Shape(u.int_in_range(0..=2)?), Input::Tensor(which)]),
            4 | 5 => (Theme::Entries, [Input::Entries(0), Input::Entries(0)]),
            6 => (Theme::Tuples, [Input::Pair(1, 2), Input::Items(2)]),
            7 | 8 => (Theme::Dims, [Input::Dim(0), Input::Dim(which)]),
            9 => (Theme::Origins, [Input::Tensor(which), Input::Flag(1)]),
            10..=12 => {
                let any = match u.int_in_range(0..=2)? {
                    0 => Input::ForeignClosure(u.arbitrary()?),
                    _ => Input::Int(1).varied(u.arbitrary()?),
                };
                let first = if u.arbitrary()? { Input::None } else { any };
                (Theme::Types, [first, any])
            }
            36..=39 => {
                let data = Input::Data(u.arbitrary()?);
                let other =
                    if u.arbitrary()? { Input::Data(u.arbitrary()?) } else { Input::Int(1) };
                (Theme::Data, [data, other])
            }
            13 => (Theme::Matrices, [Input::Foreign(u.arbitrary()?); 2]),
            14..=22 if size == Size::Large => (Theme::Any, u.arbitrary()?),
            // Most of the programs get matrices, which kernels take.
            _ => (Theme::Matrices, [Input::Tensor(which); 2]),
        })
    }
}

impl<'a> Arbitrary<'a> for ProgramCase {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let guard_seed = u.arbitrary()?;
        let fuel = *u.choose(&[400, 4000, 60])?;
        let threshold = *u.choose(&[2, 2, 1, 3])?;
        let code_limit = *u.choose(&[1 << 12, 3 << 12, 9 << 12])?;
        let mut calls = Vec::new();
        let size = if u.ratio(2, 3)? { Size::Small } else { Size::Large };
        let (theme, base) = Theme::choose(u, size)?;
        // Calls take hardly any time compared with compiling their code.
        for _ in 0..u.int_in_range(2..=12)? {
            // Mostly the same arguments, so that code gets hot and guards hold; sometimes others,
            // so that guards fail; or ones that differ only in what some of the code reads.
            let [mut left, mut right] = base;
            match u.int_in_range(0..=7)? {
                0 => [left, right] = u.arbitrary()?,
                1 => (left, right) = (left.varied(0), right.varied(0)),
                2 | 3 => left = left.varied(u.arbitrary()?),
                4 | 5 => right = right.varied(u.arbitrary()?),
                _ => {}
            }
            calls.push([left, right]);
        }
        let executable = Generator::new(u, theme, size)?.program()?;
        Ok(Self { executable, calls, fuel, guard_seed, threshold, code_limit })
    }
}

/// The kind of value that a register probably holds at the current position.
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
    /// Functions that call each other in a cycle.
    cycle: u32,
    /// Whether they are passed to themselves as closures, and called through those.
    closures: bool,
    /// Whether the program has the functions of [`LADDER`].
    ladder: bool,
    budget: u32,
    kinds: Vec<Kind>,
    /// The rank, where a register holds a tensor or shape.
    ranks: Vec<i64>,
    /// Whether a register is written anywhere in the function.
    written: Vec<bool>,
    theme: Theme,
    size: Size,
    in_main: bool,
}

/// The generator only makes what the builder accepts.
fn built<T>(result: std::result::Result<T, BuildError>) -> T {
    result.unwrap_or_else(|error| panic!("the generator made an invalid program: {error}"))
}

impl<'g, 'a> Generator<'g, 'a> {
    fn new(u: &'g mut Unstructured<'a>, theme: Theme, size: Size) -> Result<Self> {
        let small = size == Size::Small;
        let mut functions = vec![("main".to_owned(), 2)];
        // No more than the input has bytes for.
        let most = if small { 2 } else { u.len() as u32 / BYTES };
        for index in 0..u.int_in_range(0..=most.min(3))? {
            let parameters = if small { *u.choose(&[1, 2, 3, 3])? } else { u.int_in_range(0..=3)? };
            functions.push((format!("f{index}"), parameters));
        }
        let helpers = u.ratio(1, 3)?;
        functions.extend(HELPERS.iter().filter(|_| helpers).map(|&name| (name.to_owned(), 1)));
        let cycles = if small { [0, 0, 0, 0, 1] } else { [0, 1, 1, 2, 3] };
        let cycle = (*u.choose(&cycles)?).min(1 + most);
        let closures = u.ratio(1, 3)?;
        let ladder = cycle > 0 && u.ratio(1, 4)?;
        Ok(Self {
            u,
            b: ExecBuilder::new(),
            functions,
            cycle,
            closures,
            ladder,
            budget: BUDGET,
            kinds: Vec::new(),
            ranks: Vec::new(),
            written: Vec::new(),
            theme,
            size,
            in_main: false,
        })
    }

    fn program(mut self) -> Result<Executable> {
        for (name, _) in self.functions.clone() {
            self.b.declare_function(&name, reflex_vm::executable::FuncKind::Vm);
        }
        for which in 0..self.cycle {
            self.b.declare_function(&recursion::name(which), reflex_vm::executable::FuncKind::Vm);
        }
        for name in LADDER.iter().filter(|_| self.ladder) {
            self.b.declare_function(name, reflex_vm::executable::FuncKind::Vm);
        }
        for name in DATA.iter().filter(|_| self.theme == Theme::Data) {
            self.b.declare_function(name, reflex_vm::executable::FuncKind::Vm);
        }
        for (name, parameters) in self.functions.clone() {
            match HELPERS.iter().position(|helper| *helper == name) {
                Some(which) => self.helper(which)?,
                None => self.function(&name, parameters)?,
            }
        }
        for which in 0..self.cycle {
            self.recursive(which)?;
        }
        for which in 0..if self.ladder { LADDER.len() } else { 0 } {
            self.ladder(which)?;
        }
        for which in 0..if self.theme == Theme::Data { DATA.len() } else { 0 } {
            self.over_data(which)?;
        }
        Ok(built(self.b.finish()))
    }

    fn function(&mut self, name: &str, parameters: u32) -> Result<()> {
        self.open(name, vec![Kind::Unknown; parameters as usize]);
        self.begin(parameters)?;
        if self.size == Size::Small {
            self.scenes()?;
        } else {
            let share = (self.budget / 2).max(8);
            self.block(0, share)?;
        }
        let result = self.register(None)?;
        built(self.b.emit_ret(result));
        self.close();
        Ok(())
    }

    /// Begins a function with parameters of these kinds.
    fn open(&mut self, name: &str, mut kinds: Vec<Kind>) {
        built(self.b.function(name, kinds.len() as u32));
        self.in_main = name == "main";
        self.written = vec![true; kinds.len()];
        kinds.resize(kinds.len() + SCRATCH as usize, Kind::None);
        self.written.resize(kinds.len(), false);
        self.ranks = vec![2; kinds.len()];
        self.kinds = kinds;
    }

    /// Ends a function after its last return. The builder demands that every register is defined
    /// somewhere; some are read before that.
    fn close(&mut self) {
        let missing: Vec<usize> = (0..self.written.len()).filter(|&at| !self.written[at]).collect();
        for &register in &missing {
            let register = self.b.r(register as u32);
            built(self.b.emit_call("vm.builtin.null_value", &[], register));
        }
        if !missing.is_empty() {
            built(self.b.emit_ret(Reg::VOID));
        }
        built(self.b.end_function());
    }

    /// Some functions log their arguments, or release the first at once and log what is alive.
    fn begin(&mut self, parameters: u32) -> Result<()> {
        if parameters == 0 {
            return Ok(());
        }
        let given: Vec<Arg> = (0..parameters).map(|at| Arg::Reg(Reg(at.into()))).collect();
        let most = if self.size == Size::Small && !self.in_main { 3 } else { 7 };
        match self.u.int_in_range(0..=most)? {
            0 | 1 => self.call("fuzz.record", &given, Reg::VOID, Kind::Int),
            2 => {
                self.call("vm.builtin.null_value", &[], Reg(0), Kind::None);
                self.call("fuzz.alive", &[], Reg::VOID, Kind::Int);
            }
            _ => {}
        }
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
        match self.u.int_in_range(0..=29)? {
            0 | 1 => self.host_call(),
            2 => self.kernel(),
            3..=9 => self.builtin(),
            10 | 11 => self.vm_call(),
            12 | 13 if nested => self.branch(depth),
            14..=16 if nested => self.repeat(depth),
            17 => self.closure(),
            19 => self.overwrite(),
            22 | 23 if self.cycle > 0 && depth < 2 => self.descend(),
            20 => self.capture(),
            24 => self.hand_over(),
            // Outside of `main` most of these fail.
            25..=29 if self.in_main && self.theme != Theme::Any => self.themed(),
            25..=29 if self.u.ratio(1, 8)? => self.objects(),
            21 if nested => self.grow(),
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
            self.written[index as usize] = true;
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
        let parameters = self.kinds.len() as i64 - i64::from(SCRATCH);
        let passed = [Kind::Tensor, Kind::Shape, Kind::Tuple].contains(&kind);
        if passed && parameters > 0 && self.u.ratio(1, 5)? {
            // A parameter, perhaps passed by the host.
            return Ok(Arg::Reg(Reg(self.u.int_in_range(0..=parameters - 1)?)));
        }
        self.ensure(kind)?;
        let have = self.kinds.contains(&kind);
        Ok(match kind {
            Kind::Int if !have || self.u.ratio(1, 2)? => Arg::Imm(self.u.int_in_range(-3..=6)?),
            Kind::Shape if !have || self.u.ratio(1, 2)? => {
                // Of rank 2, which `rank_of` assumes.
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
}
