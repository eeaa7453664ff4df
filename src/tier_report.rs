//! The state of a program's tiers, as data and as text: `reflex inspect --tiers`.

use std::fmt;

use serde::Serialize;

use crate::jit::Overview;

/// The state of a program's tiers: code by function, specialised programs, saved code.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TierReport {
    /// True if the policy turns tiering off.
    pub off: bool,
    /// Code and counts by function; `None` before the first session that may compile.
    pub code: Option<Overview>,
    /// Shape specialisations, as text; `None` for programs that are not specialised.
    pub specialised: Option<String>,
    /// The reason why the saved code of the artifact is not used, if there is some.
    pub saved_code_unused: Option<String>,
}

/// The detail of a [`TierReport`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TierDetail {
    /// Counts and reasons.
    #[default]
    Summary,
    /// Traces as text too, also after each pass over them, and machine code as assembly.
    Code,
}

impl fmt::Display for TierReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.off {
            f.write_str("tiering is off\n")?;
        }
        if let Some(code) = &self.code {
            write!(f, "{code}")?;
        }
        f.write_str(self.specialised.as_deref().unwrap_or_default())?;
        match &self.saved_code_unused {
            Some(unfit) => writeln!(f, "saved code is not used, since {unfit}"),
            None => Ok(()),
        }
    }
}
