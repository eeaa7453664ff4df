//! Two versions of launches whose indices fit in 32 bits as far as the host can tell before them.
//!
//! ```text
//! if n <= 2147483647 and n * m <= 2147483647:
//!     launch            indices in 32 bits
//! else:
//!     launch            in 64
//! ```
//!
//! Launches with constant extents stay as they are: their bounds are known ([`IndexWidths`]).
//!
//! Decision: docs/decisions/0111-index-widths.md

use super::rename;
use crate::index_width::{IndexWidths, condition};
use crate::launch::Launch;
use crate::{PrimFunc, Stmt};

/// Writes the versions.
pub fn narrow_indices(func: &PrimFunc) -> PrimFunc {
    let mut result = func.clone();
    let body = func.body.replace(&mut |s| {
        let launch = Launch::of(s)?;
        // What is inside of a launch is none.
        let Some(tests) = IndexWidths::of(func, &launch).tests(func, &launch) else {
            return Some(s.clone());
        };
        let wide = Box::new(rename::copy(&mut result, s));
        Some(Stmt::If { cond: condition(&tests), then: Box::new(s.clone()), otherwise: Some(wide) })
    });
    result.body = body;
    result
}
