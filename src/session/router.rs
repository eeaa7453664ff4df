//! Which program a call goes to: the general one, or one for its extents.

use std::sync::Arc;
use std::time::Duration;

use reflex_runtime::alloc::device::AllocatorKind;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::session::Canceller;

use super::Session;
use crate::error::Result;
use crate::options::{Mode, SessionOptions};
use crate::program::Program;
use crate::specialise::{Special, Specialiser, Variant, copies};

/// Copies of the tensors among arguments.
pub(super) fn tensors(args: &[AnyView<'_>]) -> Vec<Any> {
    copies(args.iter().filter_map(|arg| arg.downcast_ref::<Tensor>()))
}

/// The programs for extents that a session runs beside the general one.
pub(crate) struct Extents {
    specialiser: Arc<Specialiser>,
    general: Program,
    canceller: Canceller,
    allocator: AllocatorKind,
    /// Functions with extents that differ from call to call, and their names.
    dynamic: Vec<(u32, String)>,
    /// Extents seen here, those of the last call first.
    known: Vec<Known>,
}

struct Known {
    variant: Arc<Variant>,
    /// On the program for these extents, once there is one.
    session: Option<Session>,
}

/// Where a call goes.
pub(super) enum Route<'a> {
    /// To the general program.
    General,
    /// There too, and its time counts towards a program of its own.
    Counted(Arc<Variant>),
    /// To a function of a program for its extents.
    Special(&'a mut Session, u32),
}

impl Extents {
    pub(crate) fn new(
        specialiser: Arc<Specialiser>,
        general: Program,
        (canceller, allocator): (Canceller, AllocatorKind),
        dynamic: Vec<(u32, String)>,
    ) -> Extents {
        Extents { specialiser, general, canceller, allocator, dynamic, known: Vec::new() }
    }

    /// For how many extents programs are kept.
    pub(super) fn most(&self) -> usize {
        self.specialiser.most()
    }

    /// A session of a program for extents, cancelled with the general one.
    pub(crate) fn open(&self, special: &Special) -> Result<Session> {
        let options = SessionOptions::new(Mode::Compiled).allocator(self.allocator);
        let mut session = special.program.open(&options)?;
        session.vm().follow(&self.canceller);
        Ok(session)
    }

    /// The variant of a call, if its function has extents to know and all arguments are tensors.
    pub(crate) fn variant(&self, func: u32, args: &[AnyView<'_>]) -> Option<Arc<Variant>> {
        let (_, name) = self.dynamic.iter().find(|(number, _)| *number == func)?;
        self.specialiser.variant(name, func, args)
    }

    /// Counts a call of the general program.
    pub(crate) fn note(&self, variant: &Arc<Variant>, took: Duration, args: &dyn Fn() -> Vec<Any>) {
        self.specialiser.note(variant, took, &self.general, args);
    }

    /// Returns when it is known whether calls like this one get a program of their own.
    pub(super) fn settle(&self, func: u32, args: &[AnyView<'_>]) {
        if let Some(variant) = self.variant(func, args) {
            self.specialiser.settle(&variant, &self.general, &|| tensors(args));
        }
    }

    pub(super) fn route(&mut self, func: u32, args: &[AnyView<'_>]) -> Result<Route<'_>> {
        if !self.known.first().is_some_and(|known| known.variant.fits(func, args)) {
            // Extents that lost their place are forgotten here too.
            self.known.retain(|known| !known.variant.is_dropped());
            let Some(variant) = self.variant(func, args) else { return Ok(Route::General) };
            match self.known.iter().position(|known| Arc::ptr_eq(&known.variant, &variant)) {
                Some(at) => self.known[..=at].rotate_right(1),
                None => self.known.insert(0, Known { variant, session: None }),
            }
        }
        let Known { variant, session } = &self.known[0];
        let Some(special) = variant.special() else {
            return Ok(match variant.counts() {
                true => Route::Counted(variant.clone()),
                false => Route::General,
            });
        };
        let func = special.func;
        if session.is_none() {
            let opened = self.open(special)?;
            self.known[0].session = Some(opened);
        }
        let session = &mut self.known[0].session;
        Ok(session.as_mut().map_or(Route::General, |session| Route::Special(session, func)))
    }
}
