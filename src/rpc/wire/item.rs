//! Values as they travel: a type index, then a payload. Reading and writing are in one file, for
//! the client and the server.

use std::io::Read;

use reflex_runtime::abi::{DLDevice, type_index as index};
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error;

use super::body::Body;
use crate::fault::Fault;
use crate::limits::Limits;

/// The second index of an object that stays at the server.
const OBJECT_REF: i32 = 115;

/// A tensor by its data's handle: compact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorRef {
    /// The handle of its data.
    pub data: u64,
    /// Where it is, as the server sees it.
    pub device: DLDevice,
    /// Element type.
    pub dtype: DType,
    /// The dimensions.
    pub shape: Vec<i64>,
    /// The byte offset of the first element in the data.
    pub byte_offset: u64,
}

impl TensorRef {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.data.to_le_bytes());
        write_device(self.device, out);
        out.extend((self.shape.len() as i32).to_le_bytes());
        write_dtype(self.dtype, out);
        out.extend(self.shape.iter().flat_map(|dim| dim.to_le_bytes()));
        out.extend(self.byte_offset.to_le_bytes());
    }
}

/// A value of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// No value.
    None,
    /// An integer.
    Int(i64),
    /// A boolean.
    Bool(bool),
    /// A float.
    Float(f64),
    /// A handle, or 0.
    Handle(u64),
    /// An element type.
    DType(DType),
    /// A device.
    Device(DLDevice),
    /// A tensor of the server.
    Tensor(TensorRef),
    /// A string; UTF-8 unless its sender is hostile.
    Text(Vec<u8>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A function of the server.
    Function(u64),
    /// A module of the server.
    Module(u64),
    /// Another object of the server.
    Object(u64),
}

impl Item {
    /// A string.
    pub fn text(text: &str) -> Item {
        Item::Text(text.as_bytes().to_vec())
    }

    /// The kind of the value, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Item::None => "None",
            Item::Int(_) => "an integer",
            Item::Bool(_) => "a boolean",
            Item::Float(_) => "a float",
            Item::Handle(_) => "a handle",
            Item::DType(_) => "an element type",
            Item::Device(_) => "a device",
            Item::Tensor(_) => "a tensor",
            Item::Text(_) => "a string",
            Item::Bytes(_) => "bytes",
            Item::Function(_) => "a function",
            Item::Module(_) => "a module",
            Item::Object(_) => "an object",
        }
    }
}

/// Appends the count of the values and these.
pub(super) fn write_seq(items: &[Item], out: &mut Vec<u8>) {
    out.extend((items.len() as i32).to_le_bytes());
    items.iter().for_each(|item| write(item, out));
}

fn write(item: &Item, out: &mut Vec<u8>) {
    let head = |index: i32, out: &mut Vec<u8>| out.extend(index.to_le_bytes());
    match item {
        Item::None => head(index::NONE, out),
        Item::Int(value) => number(index::INT, *value as u64, out),
        Item::Bool(value) => number(index::BOOL, u64::from(*value), out),
        Item::Float(value) => number(index::FLOAT, value.to_bits(), out),
        Item::Handle(handle) => number(index::OPAQUE_PTR, *handle, out),
        Item::Function(handle) => number(index::FUNCTION, *handle, out),
        Item::Module(handle) => number(index::MODULE, *handle, out),
        Item::Object(handle) => {
            head(OBJECT_REF, out);
            number(OBJECT_REF, *handle, out);
        }
        Item::DType(dtype) => {
            head(index::DATA_TYPE, out);
            write_dtype(*dtype, out);
            out.extend([0; 4]);
        }
        Item::Device(device) => {
            head(index::DEVICE, out);
            write_device(*device, out);
        }
        Item::Tensor(tensor) => {
            head(index::DL_TENSOR_PTR, out);
            tensor.write(out);
        }
        Item::Text(bytes) => counted(index::RAW_STR, bytes, out),
        Item::Bytes(bytes) => counted(index::BYTE_ARRAY_PTR, bytes, out),
    }
}

fn number(index: i32, payload: u64, out: &mut Vec<u8>) {
    out.extend(index.to_le_bytes());
    out.extend(payload.to_le_bytes());
}

fn counted(index: i32, bytes: &[u8], out: &mut Vec<u8>) {
    number(index, bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn write_dtype(dtype: DType, out: &mut Vec<u8>) {
    out.extend([dtype.code, dtype.bits]);
    out.extend(dtype.lanes.to_le_bytes());
}

fn write_device(device: DLDevice, out: &mut Vec<u8>) {
    out.extend(device.device_type.to_le_bytes());
    out.extend(device.device_id.to_le_bytes());
}

/// Reads a value.
pub(super) fn read<R: Read>(body: &mut Body<'_, R>, limits: &Limits) -> Result<Item, Fault> {
    Ok(match body.i32()? {
        index::NONE => Item::None,
        index::INT => Item::Int(body.i64()?),
        index::BOOL => Item::Bool(body.i64()? != 0),
        index::FLOAT => Item::Float(f64::from_bits(body.u64()?)),
        index::OPAQUE_PTR => Item::Handle(body.u64()?),
        index::DATA_TYPE => {
            let dtype = body.dtype()?;
            body.i32()?;
            Item::DType(dtype)
        }
        index::DEVICE => Item::Device(body.device()?),
        index::DL_TENSOR_PTR => Item::Tensor(body.tensor()?),
        index::RAW_STR => Item::Text(body.counted("string bytes", limits.text)?),
        index::BYTE_ARRAY_PTR => Item::Bytes(body.counted("packet bytes", limits.packet)?),
        index::FUNCTION => Item::Function(body.u64()?),
        index::MODULE => Item::Module(body.u64()?),
        first @ (index::SMALL_STR | index::SMALL_BYTES) => read_object(first, body, limits)?,
        first if first >= index::STATIC_OBJECT_BEGIN => read_object(first, body, limits)?,
        other => return Err(unknown(other)),
    })
}

/// Reads what has a second index: a string, bytes, or an object by its handle.
fn read_object<R: Read>(
    first: i32,
    body: &mut Body<'_, R>,
    limits: &Limits,
) -> Result<Item, Fault> {
    Ok(match body.i32()? {
        index::STR => Item::Text(body.counted("string bytes", limits.text)?),
        index::BYTES => Item::Bytes(body.counted("packet bytes", limits.packet)?),
        OBJECT_REF => Item::Object(body.u64()?),
        _ => return Err(unknown(first)),
    })
}

#[cold]
fn unknown(index: i32) -> Fault {
    Error::type_error(format!("values of type index {index} do not travel")).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{self, Code, Packet};
    use arbtest::arbitrary::{Result as Drawn, Unstructured};
    use arbtest::arbtest;

    fn draw(u: &mut Unstructured<'_>) -> Drawn<Item> {
        Ok(match u.int_in_range(0..=12)? {
            0 => Item::None,
            1 => Item::Int(u.arbitrary()?),
            2 => Item::Bool(u.arbitrary()?),
            3 => Item::Float(f64::from(u.arbitrary::<i32>()?) / 8.0),
            4 => Item::Handle(u.arbitrary()?),
            5 => Item::DType(dtype(u)?),
            6 => Item::Device(device(u)?),
            7 => Item::Tensor(TensorRef {
                data: u.arbitrary()?,
                device: device(u)?,
                dtype: dtype(u)?,
                shape: (0..u.int_in_range(0..=9)?).map(|_| u.arbitrary()).collect::<Drawn<_>>()?,
                byte_offset: u.arbitrary()?,
            }),
            8 => Item::Text(u.arbitrary()?),
            9 => Item::Bytes(u.arbitrary()?),
            10 => Item::Function(u.arbitrary()?),
            11 => Item::Module(u.arbitrary()?),
            _ => Item::Object(u.arbitrary()?),
        })
    }

    fn dtype(u: &mut Unstructured<'_>) -> Drawn<DType> {
        Ok(DType { code: u.arbitrary()?, bits: u.arbitrary()?, lanes: u.arbitrary()? })
    }

    fn device(u: &mut Unstructured<'_>) -> Drawn<DLDevice> {
        Ok(DLDevice { device_type: u.arbitrary()?, device_id: u.arbitrary()? })
    }

    #[test]
    fn every_value_makes_the_round_trip() {
        arbtest(|u| {
            let items = (0..u.int_in_range(0..=8)?).map(|_| draw(u)).collect::<Drawn<Vec<_>>>()?;
            let mut bytes = vec![];
            Packet::of(Code::Return, &items).send(&[], &mut bytes).unwrap();
            let (mut input, limits) = (bytes.as_slice(), Limits::default());
            let (_, mut body) = wire::next(&mut input, &limits).unwrap().unwrap();
            assert_eq!(body.seq().unwrap(), items);
            body.finish().unwrap();
            Ok(())
        });
    }

    #[test]
    fn hostile_bytes_are_refused_within_the_packet() {
        let limits = Limits { packet: 1 << 12, values: 64, text: 256, ..Limits::default() };
        arbtest(|u| {
            let mut bytes = ((u.len() as u64).min(5000)).to_le_bytes().to_vec();
            bytes.extend(u.bytes(u.len().min(5000))?);
            let mut input = bytes.as_slice();
            if let Ok(Some((_, mut body))) = wire::next(&mut input, &limits) {
                drop(body.seq());
                body.skip().unwrap();
                assert!(input.is_empty());
            }
            Ok(())
        });
    }

    /// Both forms in which TVM's clients send bytes, and that of a string as an object.
    #[test]
    fn strings_and_bytes_have_two_forms() {
        for (first, second, item) in [
            (12, 66, Item::Bytes(b"abc".to_vec())),
            (66, 66, Item::Bytes(b"abc".to_vec())),
            (11, 65, Item::Text(b"abc".to_vec())),
            (65, 65, Item::Text(b"abc".to_vec())),
        ] {
            let mut packet = Packet::new(Code::Return);
            packet.bytes(&1_i32.to_le_bytes()).bytes(&i32::to_le_bytes(first));
            packet.bytes(&i32::to_le_bytes(second)).u64(3).bytes(b"abc");
            let mut bytes = vec![];
            packet.send(&[], &mut bytes).unwrap();
            let limits = Limits::default();
            let mut input = bytes.as_slice();
            let (_, mut body) = wire::next(&mut input, &limits).unwrap().unwrap();
            assert_eq!(body.seq().unwrap(), [item]);
        }
    }

    #[test]
    fn claimed_sizes_allocate_nothing() {
        let limits = Limits::default();
        for (index, what) in [(8, "too early"), (9, "too early"), (8, "string bytes")] {
            let count = if what == "too early" { 1 << 25 } else { u64::MAX };
            let mut packet = Packet::new(Code::Return);
            packet.bytes(&1_i32.to_le_bytes()).bytes(&i32::to_le_bytes(index)).u64(count);
            let mut bytes = vec![];
            packet.send(&[], &mut bytes).unwrap();
            let mut input = bytes.as_slice();
            let (_, mut body) = wire::next(&mut input, &limits).unwrap().unwrap();
            let fault = body.seq().unwrap_err().to_string();
            assert!(fault.contains(what), "{fault}");
        }
    }
}
