//! The code of a program's kernels for a GPU, as a file holds it.

#[cfg(feature = "compiler")]
use reflex_lower::compile::DeviceFunction;
use serde::{Deserialize, Serialize};

use super::host_plan::HostPlan;

/// The kernels of a program for a GPU.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DeviceCodes {
    /// The GPU that they are scheduled for.
    pub(crate) gpu: String,
    pub(crate) functions: Vec<FunctionCode>,
    /// Kernels without code for it, which the CPU runs.
    pub(crate) on_cpu: Vec<String>,
}

/// A function for a GPU: the host's part, and the kernels that it launches.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FunctionCode {
    pub(crate) plan: HostPlan,
    pub(crate) ptx: String,
    /// Of the PTX.
    hash: [u8; 32],
}

impl DeviceCodes {
    /// The code of functions that were compiled for `gpu`.
    #[cfg(feature = "compiler")]
    pub(crate) fn of(
        gpu: &str,
        functions: &[DeviceFunction],
        on_cpu: &[String],
    ) -> Result<DeviceCodes, String> {
        let code = |function: &DeviceFunction| {
            let plan = HostPlan::of(&function.func, &function.code)?;
            let ptx = function.code.ptx.clone();
            let hash = blake3::hash(ptx.as_bytes()).into();
            Ok(FunctionCode { plan, ptx, hash })
        };
        let functions = functions.iter().map(code).collect::<Result<_, String>>()?;
        Ok(DeviceCodes { gpu: gpu.to_owned(), functions, on_cpu: on_cpu.to_vec() })
    }

    /// Checks code of any origin. An error names the kernel.
    pub(crate) fn verify(&self) -> Result<(), String> {
        for FunctionCode { plan, ptx, hash } in &self.functions {
            plan.verify()?;
            if blake3::hash(ptx.as_bytes()) != *hash {
                return Err(format!("the PTX of kernel {} is damaged", plan.name()));
            }
        }
        Ok(())
    }
}
