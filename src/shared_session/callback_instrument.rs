//! Instruments that are packed functions.

use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::instrument::{CallEvent, Instrument, Verdict};

/// An instrument in the form of TVM's: `f(function, name, before, result, args...)`, which
/// gives 1 before a call to skip it. Element types among the arguments are shown as their names.
pub(crate) struct CallbackInstrument {
    callback: Function,
    running: Vec<Vec<Any>>,
}

impl CallbackInstrument {
    pub(crate) fn new(callback: Function) -> CallbackInstrument {
        CallbackInstrument { callback, running: Vec::new() }
    }

    fn show(
        &self,
        call: &CallEvent<'_>,
        args: &[AnyView<'_>],
        result: Option<AnyView<'_>>,
    ) -> Result<Any, Error> {
        let shown = |arg: &AnyView<'_>| match arg.as_dtype() {
            Some(dtype) => Any::from(dtype.to_string().as_str()),
            None => arg.to_owned(),
        };
        let name = Any::from(call.callee());
        let args: Vec<Any> = args.iter().map(shown).collect();
        let head = [call.callable(), name.view(), result.is_none().into()];
        let head = head.into_iter().chain([result.unwrap_or(AnyView::NONE)]);
        self.callback.call(&head.chain(args.iter().map(Any::view)).collect::<Vec<_>>())
    }
}

impl Instrument for CallbackInstrument {
    fn before(&mut self, call: &CallEvent<'_>) -> Result<Verdict, Error> {
        const SKIP: i64 = 1;
        let answer = self.show(call, call.args(), None)?;
        if answer.view().as_int() == Some(SKIP) {
            return Ok(Verdict::Skip);
        }
        self.running.push(call.args().iter().map(AnyView::to_owned).collect());
        Ok(Verdict::Run)
    }

    fn after(&mut self, call: &CallEvent<'_>, result: AnyView<'_>) -> Result<(), Error> {
        let args = self.running.pop().unwrap_or_default();
        self.show(call, AnyView::slice(&args), Some(result)).map(drop)
    }

    fn aborted(&mut self) {
        self.running.clear();
    }
}
