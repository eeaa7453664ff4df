//! The kernels of a program before they are scheduled, in memory or still encoded as they were stored.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use reflex_runtime::aligned_bytes::AlignedBytes;
use reflex_tir::PrimFunc;

use crate::LowerError;
use crate::kernel_cache::RequestDigest;

/// A kernel before it is scheduled.
#[derive(Clone)]
pub struct KernelSource {
    /// Its name.
    pub name: String,
    func: Source,
}

#[derive(Clone)]
enum Source {
    Function(PrimFunc),
    Stored {
        /// The requests for it, one for each CPU: what finds its code in the cache without decoding.
        digests: Vec<RequestDigest>,
        bytes: Arc<AlignedBytes>,
        range: Range<usize>,
    },
}

impl From<PrimFunc> for KernelSource {
    fn from(func: PrimFunc) -> KernelSource {
        KernelSource { name: func.name.clone(), func: Source::Function(func) }
    }
}

impl KernelSource {
    /// A kernel that is encoded in `range` of `bytes`; `None` outside of them.
    pub(crate) fn stored(
        name: String,
        digests: Vec<RequestDigest>,
        bytes: Arc<AlignedBytes>,
        range: Range<usize>,
    ) -> Option<KernelSource> {
        (*bytes).as_ref().get(range.clone())?;
        Some(KernelSource { name, func: Source::Stored { digests, bytes, range } })
    }

    /// The function. One that was stored is decoded.
    pub fn func(&self) -> Result<Cow<'_, PrimFunc>, LowerError> {
        match &self.func {
            Source::Function(func) => Ok(Cow::Borrowed(func)),
            Source::Stored { bytes, range, .. } => {
                let func = postcard::from_bytes(&(**bytes).as_ref()[range.clone()]);
                let failed = |e| LowerError::internal(format!("kernel {}: stored: {e}", self.name));
                func.map(Cow::Owned).map_err(failed)
            }
        }
    }

    /// A measure of the work to compile it: its expressions, or its encoded bytes.
    pub(crate) fn weight(&self) -> usize {
        match &self.func {
            Source::Function(func) => {
                let mut count = 0;
                func.body.visit_exprs(&mut |_| count += 1);
                count
            }
            Source::Stored { range, .. } => range.len(),
        }
    }

    /// The digest of the request for CPU number `cpu`, where it is known without the function.
    pub(crate) fn digest(&self, cpu: usize) -> Option<RequestDigest> {
        match &self.func {
            Source::Function(_) => None,
            Source::Stored { digests, .. } => digests.get(cpu).copied(),
        }
    }
}

impl std::fmt::Debug for KernelSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KernelSource({})", self.name)
    }
}
