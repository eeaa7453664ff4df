//! Schedules by hand as packed functions, for `reflex.Schedule`.

use parking_lot::Mutex;
use reflex_runtime::array::Array;
use reflex_runtime::error::Error as Raised;
use reflex_runtime::function::{Function, arg};
use reflex_runtime::string::Str;
use reflex_runtime::value::{Any, AnyView};

use crate::schedule::Schedule;

/// A schedule, a function whose first argument is the name of what to do: `apply` a call of a primitive,
/// which gives the names of its results, `trace` and `as_text`.
pub(super) fn create(schedule: Schedule) -> Any {
    let schedule = Mutex::new(schedule);
    let method = move |args: &[AnyView<'_>]| {
        let name: Str = arg(args, 0)?;
        let mut schedule = schedule.lock();
        match &*name {
            "apply" => {
                let call: Str = arg(args, 1)?;
                let names = schedule.apply(&call).map_err(|e| e.to_object())?;
                Ok(Array::new(names.iter().map(|name| Any::from(name.as_str()))).into())
            }
            "trace" => Ok(Any::from(schedule.trace().as_str())),
            "as_text" => Ok(Any::from(schedule.as_text().as_str())),
            other => Err(Raised::new("AttributeError", format!("a schedule has no `{other}`"))),
        }
    };
    Function::new(method).into()
}
