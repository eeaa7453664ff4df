//! Dispatch by shape: each call goes to the general function, to a variant of it that was compiled
//! ahead of time for its shapes, or to a program that is specialised for them.
//!
//! Decision: docs/decisions/0016-shape-specialisation.md

use std::sync::Arc;
use std::time::Duration;

use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::devices::CpuAllocators;
use reflex_vm::session::Canceller;

use super::plain::PlainSession;
use crate::error::Result;
use crate::options::{Mode, SessionOptions};
use crate::program::loaded::LoadedProgram;
use crate::program::shape_variant::ShapeVariant;
use crate::specialise::profile::{ShapeProfile, SpecialisedProgram};
use crate::specialise::{Specialiser, copies};

/// Copies the tensors among arguments.
pub(super) fn tensor_copies(args: &[AnyView<'_>]) -> Vec<Any> {
    copies(args.iter().filter_map(|arg| arg.downcast_ref::<Tensor>()))
}

/// A session's dispatch by shape.
pub(crate) struct ShapeRouter {
    variants: Arc<[ShapeVariant]>,
    /// The variant that was called last, which is tried first.
    last: usize,
    specialisation: Option<Specialisation>,
}

/// The shape specialisations that a session uses next to the general program.
pub(crate) struct Specialisation {
    specialiser: Arc<Specialiser>,
    general: Arc<LoadedProgram>,
    canceller: Canceller,
    allocators: CpuAllocators,
    dynamic: Vec<DynamicFunction>,
    /// Shapes that this session has called with, the latest first.
    recent: Vec<RoutedShape>,
}

/// A function whose shapes may differ from call to call.
pub(crate) struct DynamicFunction {
    pub(crate) index: u32,
    pub(crate) name: String,
}

struct RoutedShape {
    profile: Arc<ShapeProfile>,
    /// A session on the specialised program, once there is one.
    session: Option<PlainSession>,
}

/// The target of a call.
pub(super) enum Route<'a> {
    /// The general program.
    General,
    /// Another function of the general program, compiled for the shapes of the call.
    Variant(u32),
    /// The general program; the call counts towards a specialisation.
    Counted(Arc<ShapeProfile>),
    /// A function of a specialised program.
    Specialised(&'a mut PlainSession, u32),
}

impl ShapeRouter {
    /// Returns the dispatch between these; `None` if there is only the general program.
    pub(crate) fn new(
        variants: &Arc<[ShapeVariant]>,
        specialisation: Option<Specialisation>,
    ) -> Option<ShapeRouter> {
        let needed = !variants.is_empty() || specialisation.is_some();
        needed.then(|| ShapeRouter { variants: variants.clone(), last: 0, specialisation })
    }

    /// Returns the most sets of shapes that have a specialised program at a time.
    pub(super) fn max_shapes(&self) -> usize {
        self.specialisation.as_ref().map_or(0, |s| s.specialiser.max_shapes())
    }

    /// Returns the variant of `func` for the shapes of a call.
    pub(super) fn variant(&self, func: u32, args: &[AnyView<'_>]) -> Option<u32> {
        let found = self.variants.iter().find(|variant| variant.matches(func, args))?;
        Some(found.variant)
    }

    /// Counts a call of the general program.
    pub(super) fn count(
        &self,
        profile: &Arc<ShapeProfile>,
        took: Duration,
        args: &dyn Fn() -> Vec<Any>,
    ) {
        if let Some(Specialisation { specialiser, general, .. }) = &self.specialisation {
            specialiser.count(profile, took, general, args);
        }
    }

    /// Specialises for the shapes of a call, or waits for the thread that does.
    pub(super) fn specialise_now(&self, func: u32, args: &[AnyView<'_>]) {
        let Some(specialisation) = &self.specialisation else { return };
        if let Some(profile) = specialisation.profile(func, args) {
            let Specialisation { specialiser, general, .. } = specialisation;
            specialiser.specialise_now(&profile, general, &|| tensor_copies(args));
        }
    }

    /// Chooses the target of a call.
    pub(super) fn route(&mut self, func: u32, args: &[AnyView<'_>]) -> Result<Route<'_>> {
        let matches = |variant: &ShapeVariant| variant.matches(func, args);
        if !self.variants.get(self.last).is_some_and(matches) {
            self.last = self.variants.iter().position(matches).unwrap_or(usize::MAX);
        }
        if let Some(variant) = self.variants.get(self.last) {
            return Ok(Route::Variant(variant.variant));
        }
        self.specialisation.as_mut().map_or(Ok(Route::General), |s| s.route(func, args))
    }
}

impl Specialisation {
    pub(crate) fn new(
        specialiser: Arc<Specialiser>,
        general: Arc<LoadedProgram>,
        dynamic: Vec<DynamicFunction>,
        canceller: Canceller,
        allocators: CpuAllocators,
    ) -> Specialisation {
        Specialisation { specialiser, general, canceller, allocators, dynamic, recent: Vec::new() }
    }

    /// Opens a session on a specialised program, cancelled with the general one.
    fn open(&self, specialised: &SpecialisedProgram) -> Result<PlainSession> {
        let options = SessionOptions::new(Mode::Compiled).with_allocators(self.allocators.clone());
        let mut session = specialised.program.open(&options)?;
        session.follow(&self.canceller);
        Ok(session)
    }

    /// Returns the profile of a call's shapes; `None` for functions of fixed shapes and for
    /// arguments that are not all tensors.
    fn profile(&self, func: u32, args: &[AnyView<'_>]) -> Option<Arc<ShapeProfile>> {
        let DynamicFunction { name, .. } = self.dynamic.iter().find(|f| f.index == func)?;
        self.specialiser.profile(name, func, args)
    }

    fn route(&mut self, func: u32, args: &[AnyView<'_>]) -> Result<Route<'_>> {
        if !self.recent.first().is_some_and(|routed| routed.profile.matches(func, args)) {
            // Shapes that the specialiser has evicted are evicted here too.
            self.recent.retain(|routed| !routed.profile.is_evicted());
            let Some(profile) = self.profile(func, args) else { return Ok(Route::General) };
            match self.recent.iter().position(|routed| Arc::ptr_eq(&routed.profile, &profile)) {
                Some(at) => self.recent[..=at].rotate_right(1),
                None => self.recent.insert(0, RoutedShape { profile, session: None }),
            }
        }
        let RoutedShape { profile, session } = &self.recent[0];
        let Some(specialised) = profile.specialised() else {
            return Ok(match profile.is_counting() {
                true => Route::Counted(profile.clone()),
                false => Route::General,
            });
        };
        let func = specialised.func;
        if session.is_none() {
            let opened = self.open(specialised)?;
            self.recent[0].session = Some(opened);
        }
        let session = &mut self.recent[0].session;
        Ok(session.as_mut().map_or(Route::General, |session| Route::Specialised(session, func)))
    }
}
