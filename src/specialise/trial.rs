//! The trial of a specialised program: equal bits, and its time compared with the general one's.

use std::time::{Duration, Instant};

use reflex_runtime::alloc::device::{CPU, DeviceAllocator};
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};

use super::profile::Reason;
use crate::error::{Error, Result};
use crate::options::{Mode, SessionOptions};
use crate::program::loaded::LoadedProgram;
use crate::session::outputs::tensors_of;
use crate::session::plain::PlainSession;

/// Time for both programs, interleaved.
const TRIAL_TIME: Duration = Duration::from_millis(200);
/// Turns of each program.
const TURNS: u32 = 4;

/// Two programs, and the arguments to try them on.
pub(super) struct Trial<'a> {
    pub(super) general: &'a LoadedProgram,
    pub(super) general_func: u32,
    pub(super) special: &'a LoadedProgram,
    pub(super) func: u32,
    pub(super) args: &'a [Any],
}

/// Median times of a call.
pub(super) struct Medians {
    pub(super) general: Duration,
    pub(super) special: Duration,
}

/// One side of a trial.
struct Contender<'a> {
    session: PlainSession,
    func: u32,
    args: &'a [Any],
    times: Vec<Duration>,
}

impl Trial<'_> {
    /// Runs both programs; an error if a result differs in its bits.
    pub(super) fn run(&self) -> std::result::Result<Medians, Reason> {
        self.contest().map_err(|e| e.to_string())
    }

    fn contest(&self) -> Result<Medians> {
        // A copy of the general program: its own is in use, in whatever state its tiers are.
        let fork = self.general.fork()?;
        let mut general = Contender::new(&fork, self.general_func, self.args)?;
        let mut special = Contender::new(self.special, self.func, self.args)?;
        let expected = general.call()?;
        CPU.trim();
        let actual = special.call()?;
        if !same_bits(&tensors_of(&expected)?, &tensors_of(&actual)?) {
            return Err(Error::input("a result differs in its bits"));
        }
        drop((expected, actual));
        for _ in 0..TURNS {
            general.take_turn()?;
            special.take_turn()?;
        }
        Ok(Medians { general: general.median(), special: special.median() })
    }
}

impl<'a> Contender<'a> {
    fn new(program: &LoadedProgram, func: u32, args: &'a [Any]) -> Result<Contender<'a>> {
        let mut session = program.open(&SessionOptions::new(Mode::Compiled))?;
        // The other threads are left to the calls that go on meanwhile.
        session.set_threads(1);
        Ok(Contender { session, func, args, times: vec![] })
    }

    fn call(&mut self) -> Result<Any> {
        self.session.call(self.func, AnyView::slice(self.args))
    }

    fn take_turn(&mut self) -> Result<()> {
        // Memory for both programs at once would be more than calls ever need.
        CPU.trim();
        self.call()?;
        let turn = Instant::now();
        loop {
            let start = Instant::now();
            let outputs = self.call()?;
            self.times.push(start.elapsed());
            drop(outputs);
            if turn.elapsed() > TRIAL_TIME / (2 * TURNS) {
                return Ok(());
            }
        }
    }

    fn median(&mut self) -> Duration {
        self.times.sort_unstable();
        self.times[self.times.len() / 2]
    }
}

fn same_bits(a: &[Tensor], b: &[Tensor]) -> bool {
    let same = |(a, b): (&Tensor, &Tensor)| {
        let bytes = |t: &Tensor| t.to_bytes().ok();
        a.dtype() == b.dtype()
            && a.shape() == b.shape()
            && bytes(a).is_some_and(|bytes_of_a| bytes(b) == Some(bytes_of_a))
    };
    a.len() == b.len() && a.iter().zip(b).all(same)
}
