//! The code of each row of the table of builtins.

use reflex_runtime::function::Function;

use super::args::{Context, Run};
use super::{Builtin, check, cuda_graph, for_each_builtin, memory, registry, relay, shape, value};

macro_rules! code {
    ($(
        $(#[$doc:meta])*
        $id:ident = $name:literal [$($param:ident),*] $rest:expr => $result:ident in $reentrancy:ident,
        $module:ident.$run:ident, $rule:path, $lowering:ident;
    )*) => {
        impl Builtin {
            /// Its code.
            pub const fn run(self) -> Run {
                match self { $(Builtin::$id => $module::$run),* }
            }
        }
    };
}

for_each_builtin!(code);

impl Builtin {
    /// The builtin as a function value. It believes its VM argument, which it never
    /// dereferences unless that VM runs on the calling thread.
    pub fn function(self) -> Function {
        Function::new(move |args| {
            let vm = args.first().and_then(|arg| arg.as_opaque());
            (self.run())(Context { vm: vm.unwrap_or(std::ptr::null_mut()) }, args)
        })
    }
}
