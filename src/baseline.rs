//! Cranelift as the code generator of kernels. Builds without the feature `cranelift` have one that refuses.

#[cfg(feature = "cranelift")]
pub(crate) use reflex_baseline::{CraneliftCodegen, Effort, IDENTITY, QUICK_IDENTITY};

#[cfg(not(feature = "cranelift"))]
pub(crate) use absent::{CraneliftCodegen, Effort, IDENTITY, QUICK_IDENTITY};

/// Whether this build has it.
pub(crate) const IS_BUILT: bool = cfg!(feature = "cranelift");

#[cfg(not(feature = "cranelift"))]
mod absent {
    use std::sync::LazyLock;

    use reflex_tir::codegen::{Codegen, Request, Response};

    use crate::error::lacks;

    pub(crate) static IDENTITY: LazyLock<String> = LazyLock::new(|| "no cranelift".to_owned());
    pub(crate) static QUICK_IDENTITY: LazyLock<String> = LazyLock::new(|| IDENTITY.clone());

    /// The use of the kernels.
    pub(crate) enum Effort {
        Full,
        Quick,
    }

    pub(crate) struct CraneliftCodegen {
        pub(crate) effort: Effort,
    }

    impl Codegen for CraneliftCodegen {
        fn compile(&self, _: &Request) -> Response {
            let _ = &self.effort;
            Response::Failed { func: String::new(), message: lacks("cranelift").to_string() }
        }
    }
}
