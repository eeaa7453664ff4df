//! The care that Cranelift takes of a kernel, by what that is for.

use reflex_tir::{PrimFunc, Stmt};

/// The use of kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// They stay.
    #[default]
    Full,
    /// LLVM's replace them soon. Registers of those with little work are allocated in a single pass, to code
    /// that takes up to twice the time.
    Quick,
}

/// Iterations of a loop of unknown length.
const USUAL_EXTENT: u64 = 64;
/// Nodes of expressions that a call may evaluate and still be little work: twice the time of such a call is
/// less than the allocator takes longer.
const LITTLE_WORK: u64 = 1 << 28;

/// The way in which registers are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// With splits of live ranges.
    Backtracking,
    /// Instruction by instruction; values are in memory between blocks.
    SinglePass,
}

/// The allocation that a kernel is worth: one that a first call takes longer with is used where the
/// allocator saves more.
pub fn allocation(effort: Effort, func: &PrimFunc) -> Allocation {
    match effort {
        Effort::Quick if work(&func.body) < LITTLE_WORK => Allocation::SinglePass,
        Effort::Quick | Effort::Full => Allocation::Backtracking,
    }
}

/// Nodes of expressions that a call evaluates, roughly: both sides of each condition.
fn work(stmt: &Stmt) -> u64 {
    let mut own = 0;
    stmt.exprs().into_iter().for_each(|e| e.visit(&mut |_| own += 1));
    let inside = stmt.children().into_iter().map(work).fold(0, u64::saturating_add);
    let times = match stmt {
        Stmt::For(l) => match l.extent.as_int() {
            Some(n) => u64::try_from(n).unwrap_or(0),
            None => USUAL_EXTENT,
        },
        _ => 1,
    };
    inside.saturating_mul(times).saturating_add(own)
}

#[cfg(test)]
mod tests {
    use reflex_tir::builder::FuncBuilder;
    use reflex_tir::{DType, lower};

    use super::*;

    #[test]
    fn quick_kernels_with_little_work_get_a_single_pass() {
        let sum = |count: i64| {
            let mut f = FuncBuilder::new("sum");
            let x = f.input("x", DType::F32, vec![count.into()]);
            f.output("compute", "y", DType::F32, vec![count.into()], |f, i| {
                f.at(x, i) + f.at(x, i)
            });
            lower::lower(&f.finish())
        };
        assert_eq!(allocation(Effort::Quick, &sum(1 << 10)), Allocation::SinglePass);
        assert_eq!(allocation(Effort::Quick, &sum(1 << 30)), Allocation::Backtracking);
        assert_eq!(allocation(Effort::Full, &sum(1 << 10)), Allocation::Backtracking);
    }
}
