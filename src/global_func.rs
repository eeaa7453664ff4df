//! Global functions, among them the VM's own builtins.

use reflex_runtime::function::Function;
use reflex_runtime::registry;
use reflex_vm::builtins::Builtin;

/// Returns the packed function that programs find under a name: a builtin of the virtual machine, one
/// that was registered, or one of TVM in a process that has it.
///
/// ```
/// use reflex::{Any, Function, get_global_func, register_global_func};
///
/// register_global_func("docs.one", Function::new(|_| Ok(Any::from(1_i64))))?;
/// assert!(get_global_func("docs.one").is_some());
/// assert!(get_global_func("vm.builtin.make_shape").is_some());
/// assert!(get_global_func("docs.nothing").is_none());
/// # Ok::<(), reflex::RaisedError>(())
/// ```
pub fn get_global_func(name: &str) -> Option<Function> {
    Builtin::from_name(name).map(Builtin::function).or_else(|| registry::get(name))
}
