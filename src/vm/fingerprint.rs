//! The fingerprint of a program: a hash of everything that its machine code depends on.
//!
//! Serialised code is valid for a program with the same fingerprint and no other: it
//! names operations, constants, sites and layouts by number. The contents of weights are not
//! hashed, since no code depends on them.

use std::hash::{Hash, Hasher};

use crate::executable::Constant;
use crate::kernel::RawKernel;
use crate::program::Program;

struct Digest(blake3::Hasher);

impl Hasher for Digest {
    fn finish(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = *self.0.finalize().as_bytes();
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}

impl Program {
    /// A hash of everything that machine code for the program depends on.
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut digest = Digest(blake3::Hasher::new());
        let contracts = [crate::abi::CONTRACT, reflex_runtime::abi::CONTRACT];
        (env!("CARGO_PKG_VERSION"), contracts).hash(&mut digest);
        self.code().hash(&mut digest);
        let exec = self.executable();
        for (function, number) in exec.functions.iter().zip(0..) {
            (function.kind, &function.name).hash(&mut digest);
            let raw = self.packed(number).and_then(|packed| packed.raw.as_ref());
            raw.map(RawKernel::params).hash(&mut digest);
        }
        for constant in &exec.constants {
            std::mem::discriminant(constant).hash(&mut digest);
            match constant {
                Constant::Int(value) => value.hash(&mut digest),
                Constant::Float(value) => value.to_bits().hash(&mut digest),
                Constant::DType(dtype) => dtype.hash(&mut digest),
                Constant::Str(text) => text.hash(&mut digest),
                Constant::Shape(shape) => shape.hash(&mut digest),
                Constant::Tensor(tensor) => (tensor.dtype, &tensor.shape).hash(&mut digest),
            }
        }
        *digest.0.finalize().as_bytes()
    }
}
