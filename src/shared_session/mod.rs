//! A session that handles on several threads, and callbacks of its own runs, refer to.

pub(crate) mod arguments;
pub(crate) mod callback_instrument;
pub(crate) mod owned_results;
mod try_lock;

use reflex_runtime::value::{Any, AnyView};

use crate::error::{Error, Result};
use crate::session::Session;
use crate::session::plain::PlainReentry;
use try_lock::TryLock;

/// A session that one thread at a time uses; another one is refused meanwhile. Native code that a run
/// of it called may call its functions, and is refused what would change it.
pub(crate) struct SharedSession {
    session: TryLock<Session>,
    reentry: PlainReentry,
}

impl SharedSession {
    pub(crate) fn new(session: Session) -> SharedSession {
        SharedSession { reentry: session.reentry(), session: TryLock::new(session) }
    }

    /// Uses the session exclusively.
    #[inline]
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut Session) -> Result<R>) -> Result<R> {
        self.session.try_with(body).unwrap_or_else(|| Err(in_use()))
    }

    /// Returns the index of a function.
    pub(crate) fn function_index(&self, name: &str) -> Result<u32> {
        self.reentry.function_index(name)
    }

    /// Returns the names of the parameters of a function; empty where its file has none.
    pub(crate) fn param_names(&self, name: &str) -> Result<&[String]> {
        self.reentry.param_names(name)
    }

    /// Calls the function `name`, of the program or saved.
    pub(crate) fn call_views(&self, name: &str, args: &[AnyView<'_>]) -> Result<Any> {
        let outcome = self.session.try_with(|session| session.call_views(name, args));
        outcome.unwrap_or_else(|| {
            // SAFETY: `inside` says that this thread uses the session, and is in native code that a
            // run of it called; `self` keeps it alive.
            self.inside()?.enter(|vm| unsafe { vm.call_views(name, args) })
        })
    }

    /// Calls function number `func`, and stores the result in place.
    #[inline]
    pub(crate) fn call_into(
        &self,
        func: u32,
        args: &[AnyView<'_>],
        result: &mut Any,
    ) -> Result<()> {
        if let Some(outcome) = self.session.try_with(|s| s.call_into(func, args, result)) {
            return outcome;
        }
        // SAFETY: as for `call_views`.
        self.inside()?.enter(|vm| unsafe { vm.call_into(func, args, result) })
    }

    /// Calls a closure or function value.
    pub(crate) fn invoke_closure(
        &self,
        closure: &AnyView<'_>,
        args: &[AnyView<'_>],
    ) -> Result<Any> {
        let value = closure.to_owned();
        let outcome = self.session.try_with(|session| session.invoke_closure(&value, args));
        outcome.unwrap_or_else(|| {
            // SAFETY: as for `call_views`.
            self.inside()?.enter(|vm| unsafe { vm.invoke_closure(closure, args) })
        })
    }

    /// The way back in, if this thread is in a run of the session: then it is the thread that uses it.
    fn inside(&self) -> Result<&PlainReentry> {
        if self.reentry.is_inside() { Ok(&self.reentry) } else { Err(in_use()) }
    }
}

#[cold]
fn in_use() -> Error {
    Error::input("the session is in use")
}
