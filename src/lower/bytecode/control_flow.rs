//! `If` and loops.

use std::collections::HashMap;

use reflex_graph::{Body, Loop, Type, Value};
use reflex_vm::bytecode::{Arg, Reg};

use super::emit::{Emitter, Result};
use crate::LowerError;

impl Emitter<'_> {
    pub(super) fn branch(
        &mut self,
        cond: Value,
        then: &Body,
        otherwise: &Body,
        outputs: &[Value],
    ) -> Result<()> {
        let merged: Vec<Arg> = outputs.iter().map(|_| self.fresh()).collect();
        let (no, end) = (self.b.label()?, self.b.label()?);
        let taken = self.condition(cond)?;
        self.b.emit_if(taken, no)?;
        self.side(then, &merged)?;
        self.b.emit_goto(end)?;
        self.b.bind(no)?;
        self.side(otherwise, &merged)?;
        self.b.bind(end)?;
        self.bind_outputs(outputs, &merged)
    }

    fn condition(&mut self, cond: Value) -> Result<Reg> {
        let is_bool = matches!(self.func.values[cond].ty, Type::Prim(_));
        match self.arg(cond)? {
            Arg::Reg(reg) if is_bool => Ok(reg),
            cond => self.read_condition(cond),
        }
    }

    fn read_condition(&mut self, cond: Arg) -> Result<Reg> {
        match self.call("vm.builtin.read_if_cond", &[cond])? {
            Arg::Reg(reg) => Ok(reg),
            _ => Err(LowerError::internal("a condition without register")),
        }
    }

    fn bind_outputs(&mut self, outputs: &[Value], at: &[Arg]) -> Result<()> {
        for (output, arg) in outputs.iter().zip(at) {
            self.at.insert(*output, *arg);
        }
        outputs.iter().try_for_each(|v| self.bind_dims(*v))
    }

    /// A branch with dimensions and shapes of its own scope; its results go to `merged`.
    fn side(&mut self, body: &Body, merged: &[Arg]) -> Result<()> {
        let (known, at) = (self.known.clone(), self.at.clone());
        self.shapes.push(HashMap::new());
        self.body(body)?;
        for (result, dst) in body.results.iter().zip(merged) {
            let value = self.arg(*result)?;
            self.b.emit_call("vm.builtin.copy", &[value], *dst)?;
        }
        self.clear_results(body)?;
        self.shapes.pop();
        (self.known, self.at) = (known, at);
        Ok(())
    }

    /// Clears the registers of the body's own results once they have been copied.
    fn clear_results(&mut self, body: &Body) -> Result<()> {
        let mut own: Vec<Value> = body.bindings.iter().flat_map(|b| b.outputs.clone()).collect();
        own.retain(|v| body.results.contains(v));
        own.sort_unstable();
        own.dedup();
        self.kill(&own)
    }

    /// `while cond { body }` over carried registers. The pass `canonicalize_loops` has made trip
    /// counts and scan outputs carried values.
    pub(super) fn run_loop(&mut self, l: &Loop, outputs: &[Value]) -> Result<()> {
        let Some(cond) = l.cond.filter(|_| l.max_trips.is_none() && outputs.len() == l.init.len())
        else {
            return Err(LowerError::internal("a loop was not brought to its canonical form"));
        };
        let cond = self.arg(cond)?;
        let go = self.copy(cond)?;
        let init = self.args(&l.init)?;
        let carried: Vec<Arg> = init.into_iter().map(|v| self.copy(v)).collect::<Result<_>>()?;
        let (top, end) = (self.b.label()?, self.b.label()?);
        self.b.bind(top)?;
        let taken = self.read_condition(go)?;
        self.b.emit_if(taken, end)?;
        let (known, at) = (self.known.clone(), self.at.clone());
        self.shapes.push(HashMap::new());
        self.bind_outputs(&l.carried, &carried)?;
        self.body(&l.body)?;
        let mut next = self.args(&l.body.results)?;
        // A carried value may become another carried one: all are read before any is written.
        for value in &mut next {
            if carried.contains(value) || *value == go {
                *value = self.copy(*value)?;
            }
        }
        for (value, dst) in next.iter().zip([go].iter().chain(&carried)) {
            self.b.emit_call("vm.builtin.copy", &[*value], *dst)?;
        }
        self.clear_results(&l.body)?;
        self.shapes.pop();
        (self.known, self.at) = (known, at);
        self.b.emit_goto(top)?;
        self.b.bind(end)?;
        self.bind_outputs(outputs, &carried)
    }
}
