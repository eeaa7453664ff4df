//! Builtins: recycling allocations, views, and inline fast paths.

use reflex_runtime::abi::type_index;
use reflex_runtime::dtype::DType;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::AnyView;
use reflex_vm::abi::DISCARD;
use reflex_vm::builtins::Builtin;
use reflex_vm::decode::ArgRange;
use reflex_vm::tier::Step;

use super::{RegState, TraceBuilder, observed};
use crate::emit::fast_path::accepted_types;
use crate::facts::registers::{moved, result_tag};
use crate::recycle::FreeListEntry;
use crate::trace::ir::{Arg, BuiltinResult, Ins, Scalar};

impl TraceBuilder {
    pub(super) fn builtin(&mut self, step: &Step<'_>, builtin: Builtin, range: ArgRange, dst: u32) {
        let sources = step.func.args(range);
        let exit = self.exit(step.pc);
        if dst != DISCARD
            && let Some(free_entry) = self.free_entry(step)
        {
            let (frame, args) = (self.frame(), self.args(step, range));
            let content = RegState::Allocated(free_entry.tag(), free_entry.on_release());
            let vreg = self.vreg(dst);
            let empty = match self.content(vreg) {
                RegState::Scalar(_) => true,
                RegState::Known(tag) => tag < type_index::STATIC_OBJECT_BEGIN,
                RegState::Unknown | RegState::Allocated(..) => false,
            };
            let to = empty.then_some(vreg);
            self.code.push(Ins::Allocate { frame, builtin, free_entry, args, dst: to, exit });
            if empty {
                return self.set(vreg, content);
            }
            return self.take_result(dst, content);
        }
        if builtin == Builtin::Reshape && self.view(step, range, dst).is_some() {
            return;
        }
        let inline = fast_path_covers(builtin, &observed(step, sources));
        if inline {
            for (at, &source) in sources.iter().enumerate().take(builtin.lowering().typed_args()) {
                if let Arg::Reg(vreg, None) = self.arg(step.program, source) {
                    let seen = observed(step, &sources[at..=at]);
                    self.guard_type(
                        vreg,
                        seen[0].map_or(type_index::NONE, |v| v.type_index()),
                        exit,
                    );
                }
            }
        }
        let args = self.args(step, range);
        if let (Builtin::ReadIfCond, [Arg::Scalar(Scalar::Const { bits, .. })]) =
            (builtin, &args[..])
        {
            let value = Scalar::Const { tag: type_index::BOOL, bits: i64::from(*bits != 0) };
            return self.store_result(dst, value);
        }
        let tag = result_tag(builtin);
        let result = match tag {
            Some(type_index::NONE) => BuiltinResult::Nothing,
            Some(tag @ (type_index::INT | type_index::BOOL)) => BuiltinResult::Var(tag, self.var()),
            _ => BuiltinResult::Slot,
        };
        let frame = self.frame();
        let (taken, borrows) = (Vec::new(), false);
        self.code.push(Ins::CallBuiltin {
            frame,
            builtin,
            inline,
            args,
            taken,
            borrows,
            result,
            exit,
        });
        match result {
            BuiltinResult::Nothing => self.store_result(dst, Scalar::NONE),
            BuiltinResult::Var(tag, var) => self.store_result(dst, Scalar::Var { tag, var }),
            BuiltinResult::Slot | BuiltinResult::Reg(_) => {
                self.take_result(dst, tag.map_or(RegState::Unknown, RegState::Known))
            }
        }
        if builtin == Builtin::MakeTuple {
            for reg in moved(step.func, range).filter(|&reg| reg != dst) {
                self.set_scalar(self.vreg(reg), Scalar::NONE);
            }
        }
    }

    /// The free-list entry of the operation, if its objects are recycled.
    fn free_entry(&mut self, step: &Step<'_>) -> Option<FreeListEntry> {
        let plans = self.plans(step.program, step.func);
        plans.get(step.pc).filter(|free_entry| free_entry.plan.in_traces()).cloned()
    }
}

/// Returns true if the inline fast path of a builtin covers the present arguments.
fn fast_path_covers(builtin: Builtin, args: &[Option<AnyView<'_>>]) -> bool {
    let tag = |at: usize| args.get(at).copied().flatten().map(|view| view.type_index());
    match builtin {
        Builtin::MatchShape => matches!(tag(0), Some(type_index::TENSOR | type_index::SHAPE)),
        Builtin::ReadIfCond => match args.first().copied().flatten() {
            Some(view) if tag(0) == Some(type_index::TENSOR) => view
                .as_dltensor()
                .is_some_and(|tensor| tensor.ndim == 0 && tensor.dtype == DType::BOOL),
            _ => true,
        },
        Builtin::CheckPrimValueInfo | Builtin::CheckStringInfo | Builtin::CheckFuncInfo => {
            let wanted = args.get(1).copied().flatten().and_then(|wanted| wanted.as_dtype());
            let passing = accepted_types(builtin, wanted.map(|wanted| wanted.code));
            let passes = |tag| passing.iter().any(|&(first, last)| (first..=last).contains(&tag));
            tag(0).is_some_and(passes)
        }
        Builtin::EnsureZeroOffset => {
            let tensor = args.first().and_then(|arg| arg.as_ref()?.downcast_ref::<Tensor>());
            tensor.is_some_and(|tensor| tensor.dl().byte_offset == 0)
        }
        _ => true,
    }
}
