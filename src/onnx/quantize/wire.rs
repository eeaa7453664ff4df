//! Protobuf messages as fields whose bytes are copied as they are.
//!
//! The messages of [`proto`](crate::proto) have only what inference reads. A model that is written from
//! another's fields keeps everything that was not changed: documentation, properties, unknown fields.
//!
//! Wire format: <https://protobuf.dev/programming-guides/encoding/>.

use prost::Message;
use prost::bytes::Bytes;

use crate::error::{Result, malformed};

/// A field of a message.
pub(super) struct Field {
    pub number: u64,
    /// Key, length and payload.
    pub whole: Bytes,
    /// The payload of a field that has a length; of others, nothing.
    pub payload: Bytes,
}

/// The fields of a message, in order.
pub(super) fn fields(message: &Bytes) -> Result<Vec<Field>> {
    let mut fields = vec![];
    let mut at = 0;
    while at < message.len() {
        let start = at;
        let key = varint(message, &mut at)?;
        let payload = match key & 7 {
            0 => varint(message, &mut at).map(|_| at..at)?,
            1 => advance(message, &mut at, 8)?,
            2 => {
                let length = varint(message, &mut at)?;
                advance(message, &mut at, usize::try_from(length).unwrap_or(usize::MAX))?
            }
            5 => advance(message, &mut at, 4)?,
            kind => return Err(malformed(format!("protobuf: wire type {kind}"))),
        };
        let payload = message.slice(payload);
        fields.push(Field { number: key >> 3, whole: message.slice(start..at), payload });
    }
    Ok(fields)
}

fn advance(message: &Bytes, at: &mut usize, length: usize) -> Result<std::ops::Range<usize>> {
    let end = at.checked_add(length).filter(|end| *end <= message.len());
    let start = std::mem::replace(at, end.ok_or_else(|| malformed("protobuf: cut off"))?);
    Ok(start..*at)
}

fn varint(message: &Bytes, at: &mut usize) -> Result<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *message.get(*at).ok_or_else(|| malformed("protobuf: cut off"))?;
        *at += 1;
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Ok(value);
        }
    }
    Err(malformed("protobuf: a number of more than 64 bits"))
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a number.
pub(super) fn put_number(out: &mut Vec<u8>, number: u64, value: u64) {
    put_varint(out, number << 3);
    put_varint(out, value);
}

/// Appends a field of bytes.
pub(super) fn put_bytes(out: &mut Vec<u8>, number: u64, payload: &[u8]) {
    put_varint(out, number << 3 | 2);
    put_varint(out, payload.len() as u64);
    out.extend_from_slice(payload);
}

/// Appends a message.
pub(super) fn put_message(out: &mut Vec<u8>, number: u64, message: &impl Message) {
    put_varint(out, number << 3 | 2);
    put_varint(out, message.encoded_len() as u64);
    message.encode(out).expect("a vector grows");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_wire_type_and_what_is_written_is_read() {
        let mut bytes = vec![];
        put_number(&mut bytes, 1, 300);
        put_bytes(&mut bytes, 7, b"graph");
        bytes.extend_from_slice(&[0x15, 1, 2, 3, 4]); // field 2 of 32 bits
        bytes.extend_from_slice(&[0x19, 1, 2, 3, 4, 5, 6, 7, 8]); // field 3 of 64 bits
        let message = Bytes::from(bytes.clone());
        let fields = fields(&message).unwrap();
        let numbers: Vec<u64> = fields.iter().map(|f| f.number).collect();
        assert_eq!(numbers, [1, 7, 2, 3]);
        assert_eq!(&fields[1].payload[..], b"graph");
        let whole: Vec<u8> = fields.iter().flat_map(|f| f.whole.to_vec()).collect();
        assert_eq!(whole, bytes);
    }

    #[test]
    fn damaged_messages_are_refused() {
        for bytes in [&[0x3a, 5, 1][..], &[0x3a], &[0x0b], &[0x80; 11], &[0x15, 1, 2]] {
            assert!(fields(&Bytes::copy_from_slice(bytes)).is_err(), "{bytes:?}");
        }
    }
}
