//! A stage to launch, with its epilogue.

use reflex_tir::{Buffer, Expr, Var};

use crate::schedule::core::decision::Refusal;
use crate::schedule::core::stage::Stage;

/// A stage to launch, and the elementwise stage that is computed of its results where they are made; both
/// without axes of extent 1.
pub struct Work {
    /// The stage.
    pub stage: Stage,
    /// Its epilogue, over axes of its own.
    pub epilogue: Option<Stage>,
}

impl Work {
    /// The stage, for a rule that knows no epilogues.
    pub fn alone(&self) -> Result<&Stage, Refusal> {
        match self.epilogue {
            None => Ok(&self.stage),
            Some(_) => Err(Refusal::Epilogue),
        }
    }

    /// Where a result goes and as what value, over the axes of the stage.
    pub fn store(&self, result: Expr) -> (Buffer, Vec<Expr>, Expr) {
        let Work { stage, epilogue } = self;
        let Some(next) = epilogue else { return (stage.buffer, stage.indices.clone(), result) };
        let axis = |var| next.spatial.iter().position(|axis| axis.var == var);
        let next = next.substitute(&|var| Some(stage.spatial[axis(var)?].var.into()));
        let value = next.value.replace_loads(stage.buffer, &mut |_, _| result.clone());
        (next.buffer, next.indices, value)
    }

    /// The same at places of the axes.
    pub fn placed(
        &self,
        result: Expr,
        place: &dyn Fn(Var) -> Option<Expr>,
    ) -> (Buffer, Vec<Expr>, Expr) {
        let (buffer, indices, value) = self.store(result);
        let indices = indices.iter().map(|e| e.substitute(place)).collect();
        (buffer, indices, value.substitute(place))
    }
}
