//! Texts and machine code of kernels as a file holds them: by DEFLATE, a third to a fifth of their size.

use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use serde::{Deserialize, Deserializer, Serializer};

/// Most bytes of what is read: no file makes more of a few.
const MOST: usize = 64 << 20;
/// The effort, of 0 to 10.
const LEVEL: u8 = 8;

/// Writes bytes in fewer.
pub(super) fn serialize<S: Serializer>(
    bytes: &impl AsRef<[u8]>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(&compress_to_vec(bytes.as_ref(), LEVEL))
}

/// Reads what was written. Damaged bytes are read as others or as none, and the hash beside them, by which the
/// reader knows the kernel, is not theirs.
pub(super) fn deserialize<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<Vec<u8>> + Default,
{
    let fewer = <&[u8]>::deserialize(deserializer)?;
    let bytes = decompress_to_vec_with_limit(fewer, MOST).unwrap_or_default();
    Ok(bytes.try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    #[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
    struct Part {
        #[serde(with = "super")]
        text: String,
        #[serde(with = "super")]
        bytes: Vec<u8>,
    }

    #[test]
    fn what_is_written_is_read() {
        let part = Part { text: ".reg .b32 %r<8>;\n".repeat(100), bytes: vec![1; 5000] };
        let written = postcard::to_allocvec(&part).unwrap();
        assert!(written.len() < 200);
        assert_eq!(postcard::from_bytes::<Part>(&written).unwrap(), part);
        assert!(postcard::from_bytes::<Part>(&written[..written.len() - 1]).is_err(), "cut");
        let mut damaged = written.clone();
        damaged[3] ^= 16;
        assert_ne!(postcard::from_bytes::<Part>(&damaged).unwrap(), part);
        let bomb = Part { text: String::new(), bytes: vec![0; super::MOST + 1] };
        let written = postcard::to_allocvec(&bomb).unwrap();
        let read = postcard::from_bytes::<Part>(&written).unwrap();
        assert!(read.bytes.is_empty(), "too many bytes");
    }
}
