//! The code of a program's kernels for a GPU, as a file holds it.

#[cfg(feature = "compiler")]
use reflex_lower::compile::DeviceFunction;
use reflex_runtime::device::Image;
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
    #[serde(with = "super::deflated")]
    pub(crate) ptx: String,
    /// Of the PTX.
    hash: [u8; 32],
    /// Cubins of the same kernels.
    #[serde(with = "images")]
    pub(super) images: Vec<Image>,
    /// Of each cubin.
    image_hashes: Vec<[u8; 32]>,
}

/// Cubins in a file.
mod images {
    use reflex_runtime::device::Image;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Cubin {
        arch: String,
        #[serde(with = "super::super::deflated")]
        bytes: Vec<u8>,
    }

    pub(super) fn serialize<S: Serializer>(
        images: &[Image],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(images.iter().map(|image| {
            let Image { arch, bytes } = image.clone();
            Cubin { arch, bytes }
        }))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Image>, D::Error> {
        let cubins = Vec::<Cubin>::deserialize(deserializer)?;
        Ok(cubins.into_iter().map(|Cubin { arch, bytes }| Image { arch, bytes }).collect())
    }
}

impl FunctionCode {
    #[cfg(feature = "compiler")]
    pub(super) fn set_images(&mut self, images: Vec<Image>) {
        let hash = |image: &Image| blake3::hash(&image.bytes).into();
        self.image_hashes = images.iter().map(hash).collect();
        self.images = images;
    }

    fn verify(&self) -> Result<(), String> {
        let FunctionCode { plan, ptx, hash, images, image_hashes } = self;
        plan.verify()?;
        let name = plan.name();
        if blake3::hash(ptx.as_bytes()) != *hash {
            return Err(format!("the PTX of kernel {name} is damaged"));
        }
        if images.len() != image_hashes.len() {
            return Err(format!("kernel {name} has cubins without hashes"));
        }
        let whole = |(image, hash): &(&Image, &[u8; 32])| blake3::hash(&image.bytes) == **hash;
        match images.iter().zip(image_hashes).find(|pair| !whole(pair)) {
            Some((image, _)) => {
                Err(format!("the cubin of kernel {name} for {} is damaged", image.arch))
            }
            None => Ok(()),
        }
    }
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
            Ok(FunctionCode { plan, ptx, hash, images: vec![], image_hashes: vec![] })
        };
        let functions = functions.iter().map(code).collect::<Result<_, String>>()?;
        Ok(DeviceCodes { gpu: gpu.to_owned(), functions, on_cpu: on_cpu.to_vec() })
    }

    /// Checks code of any origin. An error names the kernel.
    pub(crate) fn verify(&self) -> Result<(), String> {
        self.functions.iter().try_for_each(FunctionCode::verify)
    }

    /// The GPU, and the cubins that there are.
    pub(crate) fn description(&self) -> String {
        match self.cubins()[..] {
            [] => format!("{}, as PTX without cubins", self.gpu),
            ref archs => format!("{}, with cubins for {}", self.gpu, archs.join(" and ")),
        }
    }

    /// The architectures that every function has cubins for.
    fn cubins(&self) -> Vec<&str> {
        let Some((first, others)) = self.functions.split_first() else { return vec![] };
        let has = |function: &FunctionCode, arch: &str| {
            function.images.iter().any(|image| image.arch == arch)
        };
        let archs = first.images.iter().map(|image| image.arch.as_str());
        archs.filter(|arch| others.iter().all(|function| has(function, arch))).collect()
    }
}
