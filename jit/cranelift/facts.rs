//! Facts about values of a program, shared by recording, optimisation and code generation. Nothing
//! here emits code.

pub(crate) mod call_args;
pub(crate) mod registers;
pub(crate) mod tensor;
