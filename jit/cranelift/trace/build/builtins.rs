//! Builtins: allocations that take their objects back, views, and what is written out in its usual case.

use reflex_runtime::abi::type_index;
use reflex_runtime::dtype::DType;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::AnyView;
use reflex_vm::abi::DISCARD;
use reflex_vm::builtins::Builtin;
use reflex_vm::decode::ArgRange;
use reflex_vm::tier::Step;

use super::{Builder, Content, observed};
use crate::facts::result_tag;
use crate::fast::passing;
use crate::recycle::Kept;
use crate::trace::ir::{Arg, BuiltinResult, Ins, Plain};

impl Builder {
    pub(super) fn builtin(&mut self, step: &Step<'_>, builtin: Builtin, range: ArgRange, dst: u32) {
        let sources = step.func.args(range);
        let exit = self.exit(step.pc);
        if dst != DISCARD
            && let Some(kept) = self.kept(step)
        {
            let (frame, args) = (self.frame(), self.args(step, range));
            let content = Content::Made(kept.tag(), kept.give());
            let place = self.place(dst);
            let empty = match self.content(place) {
                Content::Plain(_) => true,
                Content::Known(tag) => tag < type_index::STATIC_OBJECT_BEGIN,
                Content::Unknown | Content::Made(..) => false,
            };
            let to = empty.then_some(place);
            self.code.push(Ins::Allocate { frame, builtin, kept, args, dst: to, exit });
            if empty {
                return self.set(place, content);
            }
            return self.take(dst, content);
        }
        if builtin == Builtin::Reshape && self.view(step, range, dst).is_some() {
            return;
        }
        let inline = is_usual(builtin, &observed(step, sources));
        if inline {
            for (at, &source) in sources.iter().enumerate().take(builtin.lowering().typed_args()) {
                if let Arg::Place(place, None) = self.arg(step.program, source) {
                    let seen = observed(step, &sources[at..=at]);
                    self.establish(
                        place,
                        seen[0].map_or(type_index::NONE, |v| v.type_index()),
                        exit,
                    );
                }
            }
        }
        let args = self.args(step, range);
        if let (Builtin::ReadIfCond, [Arg::Plain(Plain::Const { bits, .. })]) = (builtin, &args[..])
        {
            let value = Plain::Const { tag: type_index::BOOL, bits: i64::from(*bits != 0) };
            return self.give(dst, value);
        }
        let tag = result_tag(builtin);
        let result = match tag {
            Some(type_index::NONE) => BuiltinResult::Nothing,
            Some(tag @ (type_index::INT | type_index::BOOL)) => BuiltinResult::Var(tag, self.var()),
            _ => BuiltinResult::Slot,
        };
        let frame = self.frame();
        self.code.push(Ins::Builtin { frame, builtin, inline, args, result, exit });
        match result {
            BuiltinResult::Nothing => self.give(dst, Plain::NONE),
            BuiltinResult::Var(tag, var) => self.give(dst, Plain::Var { tag, var }),
            BuiltinResult::Slot | BuiltinResult::Place(_) => {
                self.take(dst, tag.map_or(Content::Unknown, Content::Known))
            }
        }
    }

    /// How the operation takes back its object, if it does.
    fn kept(&mut self, step: &Step<'_>) -> Option<Kept> {
        let plans = self.plans(step.program, step.func);
        plans.get(step.pc).filter(|kept| kept.plan.in_traces()).cloned()
    }
}

/// Whether the written-out form of a builtin covers what is seen now.
fn is_usual(builtin: Builtin, args: &[Option<AnyView<'_>>]) -> bool {
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
            let passing = passing(builtin, wanted.map(|wanted| wanted.code));
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
