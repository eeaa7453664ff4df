//! Registers in the order in which a function defines them, as TVM's builder has them.

use std::collections::HashMap;

use super::{BuildError, Open, Pending};
use crate::bytecode::{Arg, Reg};

/// New numbers of the registers that are not parameters.
pub struct Renumber(HashMap<i64, i64>);

impl Renumber {
    /// Numbers the registers of `open`, in order of first definition.
    pub fn of(open: &Open, function: &str) -> Result<Renumber, BuildError> {
        let first = i64::from(open.num_inputs);
        let mut new = HashMap::new();
        for pending in &open.code {
            if let Pending::Call { dst, .. } = pending
                && !dst.discards()
                && dst.0 >= first
            {
                let next = first + new.len() as i64;
                new.entry(dst.0).or_insert(next);
            }
        }
        let numbers = Renumber(new);
        for pending in &open.code {
            let reads: Vec<Reg> = match pending {
                Pending::Call { args, .. } => args
                    .iter()
                    .filter_map(|a| if let Arg::Reg(r) = a { Some(*r) } else { None })
                    .collect(),
                Pending::Ret { result } => vec![*result],
                Pending::If { cond, .. } => vec![*cond],
                Pending::Goto { .. } => Vec::new(),
            };
            for reg in reads {
                let known = reg.discards() || reg.0 < first || numbers.0.contains_key(&reg.0);
                if !known {
                    let function = function.to_owned();
                    return Err(BuildError::Undefined { function, register: reg.0 });
                }
            }
        }
        Ok(numbers)
    }

    /// Number of renumbered registers.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The new number of `reg`.
    pub fn reg(&self, reg: Reg) -> Reg {
        Reg(self.0.get(&reg.0).copied().unwrap_or(reg.0))
    }
}
