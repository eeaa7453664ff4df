//! The state of decoding one kernel: scopes, registers, labels and the code so far.

use std::collections::HashMap;

use crate::op::{ALWAYS, Inst, Kernel, Kind, Op, Param, Symbol};
use crate::parse::error::{ParseError, Position};
use crate::parse::tree::{Function, Instruction, Operand, Statement, Tree, Variable};

use super::modifiers::Modifiers;

/// The most registers of a thread.
const REGISTERS: u64 = 1 << 16;
/// The most operations of a kernel.
const CODE: usize = 1 << 21;
/// The most blocks of a cluster.
const MOST_CLUSTER: u64 = 8;
/// The deepest calls.
const CALLS: usize = 32;
/// The most bytes of local memory of a thread, and of static shared memory.
const LOCAL: u64 = 1 << 20;

pub type Result<T> = std::result::Result<T, ParseError>;

/// The entity that a name stands for.
#[derive(Clone, Copy, Debug)]
pub enum Named {
    /// A register and its bits; 1 is a predicate.
    Register(u32, u32),
    /// A variable.
    Variable(Symbol),
}

#[derive(Default)]
struct Scope<'a> {
    parent: Option<usize>,
    names: HashMap<&'a str, Named>,
    /// First register, count and bits of a family such as `%r<5>`.
    families: HashMap<&'a str, (u32, u64, u32)>,
    labels: HashMap<&'a str, u32>,
    tables: HashMap<&'a str, u32>,
}

/// A branch whose label is not resolved yet.
struct Pending<'a> {
    scope: usize,
    label: &'a str,
    position: Position,
    at: Target,
}

enum Target {
    Inst(usize),
    Table(usize, usize),
}

/// The state of decoding a kernel.
pub struct Context<'t, 'a> {
    tree: &'t Tree<'a>,
    pub kernel: Kernel,
    scopes: Vec<Scope<'a>>,
    scope: usize,
    pending: Vec<Pending<'a>>,
    opcode_ids: HashMap<&'a str, u32>,
    shared: HashMap<&'a str, Symbol>,
    symbol_ids: HashMap<(u8, u64), u32>,
    calls: Vec<&'a str>,
    /// Jumps of `ret` in the function that is being inlined; none in the kernel.
    returns: Option<Vec<usize>>,
    /// Guard, opcode and line of the instruction that is being decoded.
    guard: (u32, bool),
    opcode: u32,
    pub position: Position,
    pub kind: Kind,
    first: bool,
}

impl<'t, 'a> Context<'t, 'a> {
    /// A context for one kernel.
    pub fn new(tree: &'t Tree<'a>) -> Context<'t, 'a> {
        Context {
            tree,
            kernel: Kernel { dynamic_align: 16, ..Kernel::default() },
            scopes: vec![],
            scope: 0,
            pending: vec![],
            opcode_ids: HashMap::new(),
            shared: HashMap::new(),
            symbol_ids: HashMap::new(),
            calls: vec![],
            returns: None,
            guard: (ALWAYS, false),
            opcode: 0,
            position: Position::default(),
            kind: Kind::Move,
            first: true,
        }
    }

    /// An error at the current instruction.
    pub fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(ParseError::new(self.position, message))
    }

    /// Fails for targets before Hopper.
    pub fn needs_hopper(&self, instruction: &str) -> Result<()> {
        let number = self.tree.target.trim_start_matches("sm_").trim_end_matches('a');
        match number.parse::<u32>() {
            Ok(90..) => Ok(()),
            _ => self.error(format!("{instruction} needs .target sm_90")),
        }
    }

    /// Decodes a kernel.
    pub fn kernel(mut self, function: &Function<'a>) -> Result<Kernel> {
        function.name.clone_into(&mut self.kernel.name);
        self.directives(function)?;
        self.open();
        let mut offset = 0_u64;
        for param in &function.params {
            let size = param.size.unwrap_or(0);
            offset = offset.next_multiple_of(param.align);
            self.kernel.params.push(Param { offset, size });
            let named = Named::Variable(Symbol::Param(offset));
            self.scopes[self.scope].names.insert(param.name, named);
            offset += size;
        }
        self.kernel.param_size = offset;
        self.body(function)?;
        self.opcode = self.opcode_id("exit");
        self.emit(Op::Exit)?;
        self.resolve()?;
        Ok(self.kernel)
    }

    fn directives(&mut self, function: &Function<'a>) -> Result<()> {
        self.position = function.position;
        for (name, numbers) in &function.directives {
            let at = |axis: usize| numbers.get(axis).copied().unwrap_or(1);
            match *name {
                ".maxntid" => {
                    let product = at(0).checked_mul(at(1)).and_then(|p| p.checked_mul(at(2)));
                    self.kernel.max_threads = product;
                }
                ".reqntid" => self.kernel.required = Some([at(0), at(1), at(2)]),
                ".reqnctapercluster" => match [at(0), at(1), at(2)] {
                    [blocks @ 1..=MOST_CLUSTER, 1, 1] => self.kernel.cluster = blocks as u32,
                    _ => return self.error("a cluster of other than 1 to 8 blocks along x"),
                },
                ".minnctapersm" | ".maxnreg" | ".maxnctapersm" => {}
                other => return self.error(format!("unknown directive {other}")),
            }
        }
        Ok(())
    }

    fn open(&mut self) {
        let parent = (!self.scopes.is_empty()).then_some(self.scope);
        self.scopes.push(Scope { parent, ..Scope::default() });
        self.scope = self.scopes.len() - 1;
    }

    fn close(&mut self) {
        self.scope = self.scopes[self.scope].parent.unwrap_or(0);
    }

    fn body(&mut self, function: &Function<'a>) -> Result<()> {
        self.calls.push(function.name);
        for (statement, position) in &function.body {
            self.position = *position;
            match statement {
                Statement::Open => self.open(),
                Statement::Close => self.close(),
                Statement::Label(name) => {
                    let at = self.kernel.code.len() as u32;
                    if self.scopes[self.scope].labels.insert(name, at).is_some() {
                        return self.error(format!("label {name} twice"));
                    }
                }
                Statement::Registers(kind, name, count) => self.registers(kind, name, *count)?,
                Statement::Variable(variable) => self.variable(variable)?,
                Statement::Targets(name, labels) => self.targets(name, labels),
                Statement::Instruction(instruction) => self.guarded(instruction)?,
            }
        }
        self.calls.pop();
        Ok(())
    }

    fn registers(&mut self, kind: &str, name: &'a str, count: Option<u64>) -> Result<()> {
        let bits = match kind {
            ".pred" => 1,
            ".b8" | ".u8" | ".s8" => 8,
            ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => 16,
            ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" | ".bf16x2" => 32,
            ".b64" | ".u64" | ".s64" | ".f64" => 64,
            other => return self.error(format!("registers of type {other} are not supported")),
        };
        let first = self.kernel.registers;
        let wanted = count.unwrap_or(1).saturating_add(u64::from(first));
        if wanted > REGISTERS {
            return self.error("too many registers");
        }
        self.kernel.registers = wanted as u32;
        let scope = &mut self.scopes[self.scope];
        match count {
            Some(count) => drop(scope.families.insert(name, (first, count, bits))),
            None => drop(scope.names.insert(name, Named::Register(first, bits))),
        }
        Ok(())
    }

    /// A register of no name.
    pub fn temporary(&mut self) -> u32 {
        self.kernel.registers += 1;
        self.kernel.registers - 1
    }

    fn variable(&mut self, variable: &Variable<'a>) -> Result<()> {
        let symbol = if variable.space == ".shared" {
            self.shared_variable(variable)?
        } else {
            let size = variable.size.unwrap_or(0);
            let offset = self.kernel.local_size.next_multiple_of(variable.align);
            self.kernel.local_size = offset.saturating_add(size);
            if self.kernel.local_size > LOCAL {
                return self.error(format!("{} does not fit in local memory", variable.name));
            }
            Symbol::Local(offset)
        };
        self.scopes[self.scope].names.insert(variable.name, Named::Variable(symbol));
        Ok(())
    }

    fn shared_variable(&mut self, variable: &Variable<'a>) -> Result<Symbol> {
        let Some(size) = variable.size.filter(|size| *size > 0) else {
            self.kernel.dynamic_align = self.kernel.dynamic_align.max(variable.align);
            return Ok(Symbol::Dynamic);
        };
        let offset = self.kernel.shared_size.next_multiple_of(variable.align);
        self.kernel.shared_size = offset.saturating_add(size);
        if self.kernel.shared_size > LOCAL {
            return self.error(format!("{} does not fit in shared memory", variable.name));
        }
        Ok(Symbol::Shared(offset))
    }

    fn targets(&mut self, name: &'a str, labels: &[&'a str]) {
        let table = self.kernel.tables.len();
        self.kernel.tables.push(vec![0; labels.len()]);
        self.scopes[self.scope].tables.insert(name, table as u32);
        for (entry, label) in labels.iter().enumerate() {
            self.branch_to(label, Target::Table(table, entry));
        }
    }

    fn branch_to(&mut self, label: &'a str, at: Target) {
        self.pending.push(Pending { scope: self.scope, label, position: self.position, at });
    }

    /// Emits a jump to a label.
    pub fn jump(&mut self, label: &'a str) -> Result<()> {
        self.branch_to(label, Target::Inst(self.kernel.code.len()));
        self.emit(Op::Branch { target: 0 })
    }

    /// The table of branch targets of a name.
    pub fn table(&self, name: &str) -> Option<u32> {
        self.look_up(|scope| scope.tables.get(name).copied())
    }

    fn look_up<T>(&self, find: impl Fn(&Scope<'a>) -> Option<T>) -> Option<T> {
        self.look_up_from(self.scope, find)
    }

    fn look_up_from<T>(&self, from: usize, find: impl Fn(&Scope<'a>) -> Option<T>) -> Option<T> {
        let mut at = Some(from);
        while let Some(scope) = at {
            if let Some(found) = find(&self.scopes[scope]) {
                return Some(found);
            }
            at = self.scopes[scope].parent;
        }
        None
    }

    /// The entity that a name stands for.
    pub fn named(&mut self, name: &'a str) -> Result<Named> {
        let split = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (family, number) = name.split_at(split);
        let number: Option<u64> = number.parse().ok();
        let found = self.look_up(|scope| {
            let of_family = || {
                let (first, count, bits) = scope.families.get(family)?;
                let number = number.filter(|number| number < count)?;
                Some(Named::Register(first + number as u32, *bits))
            };
            scope.names.get(name).copied().or_else(of_family)
        });
        if let Some(found) = found {
            return Ok(found);
        }
        if let Some(symbol) = self.shared.get(name) {
            return Ok(Named::Variable(*symbol));
        }
        let Some(variable) = self.tree.variables.iter().find(|v| v.name == name) else {
            return self.error(format!("unknown name {name}"));
        };
        if variable.space == ".shared" {
            let symbol = self.shared_variable(variable)?;
            self.shared.insert(variable.name, symbol);
            return Ok(Named::Variable(symbol));
        }
        let in_memory = self.tree.variables.iter().filter(|v| v.space != ".shared");
        let index = in_memory.take_while(|v| v.name != name).count();
        Ok(Named::Variable(Symbol::Global(index as u32)))
    }

    /// The number of a symbol in the kernel's table.
    pub fn symbol(&mut self, symbol: Symbol) -> u32 {
        let key = match symbol {
            Symbol::Global(index) => (0, u64::from(index)),
            Symbol::Shared(offset) => (1, offset),
            Symbol::Dynamic => (2, 0),
            Symbol::Param(offset) => (3, offset),
            Symbol::Local(offset) => (4, offset),
        };
        let symbols = &mut self.kernel.symbols;
        *self.symbol_ids.entry(key).or_insert_with(|| {
            symbols.push(symbol);
            symbols.len() as u32 - 1
        })
    }

    fn opcode_id(&mut self, opcode: &'a str) -> u32 {
        let opcodes = &mut self.kernel.opcodes;
        *self.opcode_ids.entry(opcode).or_insert_with(|| {
            opcodes.push(opcode.to_owned());
            opcodes.len() as u32 - 1
        })
    }

    /// Emits an operation of the current instruction.
    pub fn emit(&mut self, op: Op) -> Result<()> {
        if self.kernel.code.len() >= CODE {
            return self.error("too many operations");
        }
        self.kernel.code.push(Inst {
            op,
            guard: self.guard.0,
            negated: self.guard.1,
            head: self.first,
            kind: self.kind,
            opcode: self.opcode,
            line: self.position.line,
        });
        self.first = false;
        Ok(())
    }

    fn guarded(&mut self, instruction: &Instruction<'a>) -> Result<()> {
        self.guard = match instruction.guard {
            None => (ALWAYS, false),
            Some((name, negated)) => match self.named(name)? {
                Named::Register(register, 1) => (register, negated),
                _ => return self.error(format!("{name} is no predicate")),
            },
        };
        self.opcode = self.opcode_id(instruction.opcode);
        self.first = true;
        self.instruction(instruction)
    }

    fn instruction(&mut self, instruction: &Instruction<'a>) -> Result<()> {
        let mut modifiers = Modifiers::new(instruction.opcode);
        let operands = &instruction.operands;
        let understood = if modifiers.name == "call" {
            self.call(&mut modifiers, operands)?;
            true
        } else {
            self.arithmetic(&mut modifiers, operands)?
                || self.memory(&mut modifiers, operands)?
                || self.control(&mut modifiers, operands)?
                || self.asynchronous(&mut modifiers, operands)?
                || self.matrix(&mut modifiers, operands)?
        };
        if !understood {
            return self.error(format!("unknown instruction {}", instruction.opcode));
        }
        match modifiers.left() {
            Some(left) => {
                let opcode = instruction.opcode;
                self.error(format!("instruction {opcode}: modifier .{left} is not supported"))
            }
            None => Ok(()),
        }
    }

    /// Inlines a function.
    fn call(&mut self, modifiers: &mut Modifiers<'a>, operands: &[Operand<'a>]) -> Result<()> {
        modifiers.ignore(&["uni"]);
        let (results, rest) = match operands {
            [Operand::List(results), rest @ ..] if rest.len() <= 2 => (results.as_slice(), rest),
            rest => (&[][..], rest),
        };
        let (name, arguments) = match rest {
            [Operand::Name(name, 0)] => (*name, &[][..]),
            [Operand::Name(name, 0), Operand::List(arguments)] => (*name, arguments.as_slice()),
            _ => return self.error("indirect calls are not supported"),
        };
        let tree = self.tree;
        let Some(function) = tree.functions.iter().find(|f| f.name == name && !f.entry) else {
            return self.error(format!("call of {name}, which has no body here"));
        };
        if self.calls.contains(&name) || self.calls.len() >= CALLS {
            return self.error(format!("recursive call of {name}"));
        }
        if (results.len(), arguments.len()) != (function.results.len(), function.params.len()) {
            return self.error(format!("wrong number of arguments of {name}"));
        }
        let mut bound = vec![];
        let formal = function.results.iter().chain(&function.params);
        for (variable, actual) in formal.zip(results.iter().chain(arguments)) {
            let Operand::Name(actual, 0) = actual else {
                return self.error(format!("argument of {name} that is no parameter variable"));
            };
            bound.push((variable.name, self.named(actual)?));
        }
        self.inline(function, bound)
    }

    fn inline(&mut self, function: &Function<'a>, bound: Vec<(&'a str, Named)>) -> Result<()> {
        let (guard, opcode, position, scope) = (self.guard, self.opcode, self.position, self.scope);
        // A guarded call jumps over the body.
        let mut skip = None;
        if guard.0 != ALWAYS {
            self.guard.1 = !guard.1;
            skip = Some(self.kernel.code.len());
            self.emit(Op::Branch { target: 0 })?;
        }
        self.scopes.push(Scope::default());
        self.scope = self.scopes.len() - 1;
        self.scopes[self.scope].names.extend(bound);
        let outer = self.returns.replace(vec![]);
        self.body(function)?;
        let returns = std::mem::replace(&mut self.returns, outer).unwrap_or_default();
        let end = self.kernel.code.len() as u32;
        for at in returns.into_iter().chain(skip) {
            self.kernel.code[at].op = Op::Branch { target: end };
        }
        (self.guard, self.opcode, self.position, self.scope) =
            ((ALWAYS, false), opcode, position, scope);
        Ok(())
    }

    /// `ret`: the end of a thread in a kernel, else a jump behind the inlined body.
    pub fn leave(&mut self) -> Result<()> {
        let at = self.kernel.code.len();
        match &mut self.returns {
            None => self.emit(Op::Exit),
            Some(returns) => {
                returns.push(at);
                self.emit(Op::Branch { target: 0 })
            }
        }
    }

    fn resolve(&mut self) -> Result<()> {
        for Pending { scope, label, position, at } in std::mem::take(&mut self.pending) {
            let found = self.look_up_from(scope, |scope| scope.labels.get(label).copied());
            let Some(target) = found else {
                return Err(ParseError::new(position, format!("unknown label {label}")));
            };
            match at {
                Target::Inst(at) => self.kernel.code[at].op = Op::Branch { target },
                Target::Table(table, entry) => self.kernel.tables[table][entry] = target,
            }
        }
        Ok(())
    }
}
