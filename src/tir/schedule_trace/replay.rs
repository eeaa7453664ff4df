//! Applying instructions to a schedule.

use std::collections::HashMap;

use super::arguments::{Args, Value};
use super::parse::parse_instruction;
use super::primitives::{ABSENT, PRIMITIVES, Primitive};
use super::random::Random;
use super::{Argument, Instruction, Trace, TraceError};
use crate::PrimFunc;
use crate::schedule::{Schedule, fixed};

impl Instruction {
    /// Puts a decision in the place of none.
    fn record(&mut self, decision: &Value) {
        let decision = match decision {
            Value::List(items) => Argument::List(items.iter().map(number).collect()),
            one => number(one),
        };
        let params =
            PRIMITIVES.iter().find(|p| p.name == self.primitive).map_or(&[][..], |p| p.params);
        let place = params.iter().position(|param| *param == "decision?");
        let of = |(at, (name, _)): (usize, &(Option<String>, Argument))| match name {
            Some(name) => name == "decision",
            None => Some(at) == place,
        };
        match self.args.iter().enumerate().position(of) {
            Some(at) => self.args[at].1 = decision,
            None => self.args.push((Some("decision".to_owned()), decision)),
        }
    }
}

fn number(value: &Value) -> Argument {
    match value {
        Value::Int(n) => Argument::Int(*n),
        other => unreachable!("a decision is numbers, not {other:?}"),
    }
}

/// A schedule that instructions are applied to, with the names of their results.
#[derive(Clone, Debug)]
pub struct Replay {
    schedule: Schedule,
    names: HashMap<String, Value>,
    instructions: Vec<Instruction>,
    random: Option<Random>,
}

impl Replay {
    /// Starts from a function.
    pub fn new(func: PrimFunc) -> Replay {
        let schedule = Schedule::new(func);
        Replay { schedule, names: HashMap::new(), instructions: vec![], random: None }
    }

    /// The function as scheduled so far.
    pub fn func(&self) -> &PrimFunc {
        self.schedule.func()
    }

    /// The scheduled function.
    pub fn into_func(self) -> PrimFunc {
        self.schedule.into_func()
    }

    /// The instructions applied so far, as the trace of a kernel.
    pub fn trace(&self, kernel: &str) -> Trace {
        Trace { kernel: kernel.to_owned(), instructions: self.instructions.clone() }
    }

    /// Applies all instructions of a trace; the first that is refused ends it.
    pub fn apply_all(&mut self, trace: &Trace) -> Result<(), TraceError> {
        trace.instructions.iter().try_for_each(|i| self.apply(i))
    }

    /// Applies an instruction. One that is refused changes nothing.
    pub fn apply(&mut self, instruction: &Instruction) -> Result<(), TraceError> {
        let name = &instruction.primitive;
        self.attempt(instruction, |values| match &instruction.results[..] {
            [] => Ok(vec![]),
            names if names.len() == values.len() => Ok(names.to_vec()),
            names => Err(format!("{name} gives {} results, not {}", values.len(), names.len())),
        })
        .map(drop)
    }

    /// Applies the call of a primitive, `sch.PRIMITIVE(...)`, and gives its results names, which it
    /// returns.
    pub fn apply_text(&mut self, call: &str) -> Result<Vec<String>, TraceError> {
        let instruction = parse_instruction(call)?;
        let first = self.names.len();
        let name = |(at, value): (usize, &Value)| match value {
            Value::Block(_) => format!("b{}", first + at),
            Value::Loop(_) => format!("l{}", first + at),
            _ => format!("v{}", first + at),
        };
        self.attempt(&instruction, |values| Ok(values.iter().enumerate().map(name).collect()))
    }

    /// Runs an instruction, whose results get the names that `names` gives them.
    fn attempt(
        &mut self,
        instruction: &Instruction,
        names: impl FnOnce(&[Value]) -> Result<Vec<String>, String>,
    ) -> Result<Vec<String>, TraceError> {
        let before = self.schedule.clone();
        let done =
            self.run(instruction).and_then(|(args, values)| Ok((names(&values)?, args, values)));
        match done {
            Ok((results, args, values)) => {
                self.names.extend(results.iter().cloned().zip(values));
                let mut applied = Instruction { line: 0, results, ..instruction.clone() };
                if let Some(decision) = args.decided() {
                    applied.record(&decision);
                }
                self.random = args.random();
                let results = applied.results.clone();
                self.instructions.push(applied);
                Ok(results)
            }
            Err(message) => {
                self.schedule = before;
                Err(TraceError { line: instruction.line, message })
            }
        }
    }

    fn run(&mut self, instruction: &Instruction) -> Result<(Args, Vec<Value>), String> {
        let name = &instruction.primitive;
        let primitive = PRIMITIVES.iter().find(|p| p.name == name || p.also == name);
        let primitive = primitive.ok_or_else(|| {
            if let Some((_, why)) = ABSENT.iter().find(|(absent, _)| absent == name) {
                return format!("no primitive {name:?}: {why}");
            }
            let names: Vec<&str> = PRIMITIVES.iter().map(|p| p.name).collect();
            format!("no primitive {name:?}; there are {}", names.join(", "))
        })?;
        if let Some(why) = fixed(self.schedule.func()) {
            return Err(format!("{name}: {why}"));
        }
        let args = self.bind(primitive, instruction).map_err(|why| format!("{name}: {why}"))?;
        let values = (primitive.run)(&mut self.schedule, &args);
        match values {
            Ok(values) => Ok((args, values)),
            Err(why) if why.starts_with(name) => Err(why),
            Err(why) => Err(format!("{name}: {why}")),
        }
    }

    /// The arguments by the names of the primitive's parameters.
    fn bind(&self, primitive: &Primitive, instruction: &Instruction) -> Result<Args, String> {
        let mut args = Args::new(self.random);
        let mut params = primitive.params.iter();
        for (name, value) in &instruction.args {
            let value = self.value(value)?;
            let Some(name) = name else {
                match params.as_slice().first() {
                    Some(param) if param.starts_with('*') => args.push_rest(&param[1..], value),
                    Some(param) => {
                        params.next();
                        args.set(param.trim_end_matches('?'), value)?;
                    }
                    None => return Err(format!("more than its {} arguments", args.len())),
                }
                continue;
            };
            let known = primitive.params.iter().map(|p| p.trim_matches(['?', '*']));
            let Some(param) = known.clone().find(|p| p == name) else {
                let known: Vec<&str> = known.collect();
                return Err(format!("no argument `{name}`; it takes {}", known.join(", ")));
            };
            args.set(param, value)?;
        }
        Ok(args)
    }

    fn value(&self, argument: &Argument) -> Result<Value, String> {
        Ok(match argument {
            Argument::None => Value::None,
            Argument::Bool(b) => Value::Bool(*b),
            Argument::Int(n) => Value::Int(*n),
            Argument::Float(text) => {
                Value::Float(text.parse().map_err(|_| format!("`{text}` is no number"))?)
            }
            Argument::Str(text) => Value::Str(text.clone()),
            Argument::Name(name) => {
                let known = self.names.get(name);
                known.cloned().ok_or_else(|| format!("`{name}` is not defined"))?
            }
            Argument::List(items) => {
                Value::List(items.iter().map(|item| self.value(item)).collect::<Result<_, _>>()?)
            }
            Argument::Lambda { params, body } => {
                Value::IndexMap { params: params.clone(), body: body.clone() }
            }
        })
    }
}
