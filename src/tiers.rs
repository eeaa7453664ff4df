//! What the tiers made of a program, as data and as text: `reflex inspect --tiers`.

use std::fmt;

use reflex_cranelift::Overview;
use serde::Serialize;

/// What the tiers made of a program.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tiers {
    /// Whether the policy says that nothing is compiled.
    pub off: bool,
    /// What was done with each function; nothing before the first session that may compile.
    pub code: Option<Overview>,
    /// Programs for extents, as text; nothing where there can be none.
    pub extents: Option<String>,
    /// Why the machine code in the model's file is not used, if there is some.
    pub saved_code_unused: Option<String>,
}

/// Whether traces and machine code are shown too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TierCode {
    /// Only how much there is.
    #[default]
    Hide,
    /// Traces as text, also after each pass over them, code as assembly.
    Show,
}

impl fmt::Display for Tiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.off {
            f.write_str("tiering is off\n")?;
        }
        if let Some(code) = &self.code {
            write!(f, "{code}")?;
        }
        f.write_str(self.extents.as_deref().unwrap_or_default())?;
        match &self.saved_code_unused {
            Some(unfit) => writeln!(f, "saved code is not used, since {unfit}"),
            None => Ok(()),
        }
    }
}
