//! TVMScript text of loop IR, as TVM 0.27 prints it.
//!
//! [`print()`] and [`parse`] are inverse: parsing what was printed gives the same text again.
//! Both forms of a function print. What TVM prints with 32-bit indices is read with 64-bit ones,
//! the only kind there is here. A form that is not supported is refused with its name and line.
//! One form here is not TVM's: a single index into a buffer of another rank (a flat access).
//!
//! ```
//! let text = r#"
//! @T.prim_func(s_tir=True)
//! def add1(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
//!     for i in range(4):
//!         with T.sblock("b"):
//!             v = T.axis.spatial(4, i)
//!             B[v] = A[v] + T.float32(1)
//! "#;
//! let func = reflex_tir::script::parse(text)?;
//! assert_eq!((func.name.as_str(), func.num_outputs), ("add1", 1));
//! let again = reflex_tir::script::parse(&reflex_tir::script::print(&func))?;
//! assert_eq!(reflex_tir::script::print(&again), reflex_tir::script::print(&func));
//! # Ok::<(), reflex_tir::script::ScriptError>(())
//! ```

#[cfg(feature = "script")]
mod error;
mod names;
#[cfg(feature = "script")]
mod nesting;
mod ops;
#[cfg(feature = "script")]
mod parse;
#[cfg(feature = "script")]
mod parse_attrs;
#[cfg(feature = "script")]
mod parse_block;
#[cfg(feature = "script")]
mod parse_buffer;
#[cfg(feature = "script")]
mod parse_expr;
#[cfg(feature = "script")]
mod parse_packed;
#[cfg(feature = "script")]
mod parse_stmt;
#[cfg(feature = "script")]
mod parse_tile;
mod precedence;
mod print;
mod print_expr;

#[cfg(feature = "script")]
pub use error::ScriptError;
pub use names::{identifier, is_reserved};
#[cfg(feature = "script")]
pub use nesting::check_nesting;
#[cfg(feature = "script")]
pub use parse::{
    line_of, parse, parse_condition, parse_dim, parse_function, parse_index, parse_module, path,
};
#[cfg(feature = "script")]
pub(crate) use parse_attrs::text_attribute;
pub use precedence::Precedence;
pub use print::{print, print_indented, string, symbols};
pub use print_expr::float;
