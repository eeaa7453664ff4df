//! Arguments out of what travels, and results into it.

use reflex_runtime::abi::type_index as index;
use reflex_runtime::error::Error;
use reflex_runtime::function::Function;
use reflex_runtime::module::Module;
use reflex_runtime::string::{Bytes, Str};
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::Any;

use crate::handles::{Handles, Held};
use crate::wire::item::{Item, TensorRef};

/// The arguments of a call.
pub(super) fn arguments(handles: &Handles, items: Vec<Item>) -> Result<Vec<Any>, Error> {
    let convert = |(at, item)| {
        argument(handles, item)
            .map_err(|e| Error::new(&e.kind(), format!("argument {at}: {}", e.message())))
    };
    items.into_iter().enumerate().map(convert).collect()
}

fn argument(handles: &Handles, item: Item) -> Result<Any, Error> {
    Ok(match item {
        Item::None | Item::Handle(0) => Any::NONE,
        Item::Int(value) => value.into(),
        Item::Bool(value) => value.into(),
        Item::Float(value) => value.into(),
        Item::DType(dtype) => dtype.into(),
        Item::Device(device) => device.into(),
        Item::Text(text) => {
            let text = std::str::from_utf8(&text);
            text.map_err(|_| Error::value_error("a string that is not UTF-8"))?.into()
        }
        Item::Bytes(bytes) => Bytes::new(&bytes).into(),
        Item::Tensor(tensor) => handles.tensor(&tensor)?.into(),
        Item::Function(handle) => handles.function(handle)?.into(),
        Item::Module(handle) => handles.module(handle)?.into(),
        Item::Object(handle) | Item::Handle(handle) => match handles.get(handle)? {
            Held::Function(function) => function.clone().into(),
            Held::Module(module) => module.clone().into(),
            Held::Tensor(tensor) => tensor.clone().into(),
            Held::Object(object) => object.clone(),
        },
    })
}

/// A result: its type index, and what goes with it.
pub(super) fn result(handles: &mut Handles, value: Any) -> Result<Vec<Item>, Error> {
    let index = value.type_index();
    let head = |index: i32| Item::Int(i64::from(index));
    let view = value.view();
    if let Some(module) = view.downcast_ref::<Module>().cloned() {
        let handle = handles.insert(Held::Module(module))?;
        return Ok(vec![head(index::MODULE), Item::Handle(handle)]);
    }
    let payload = match index {
        index::NONE => Item::None,
        index::INT => Item::Int(view.as_int().unwrap_or_default()),
        index::BOOL => Item::Bool(view.as_bool().unwrap_or_default()),
        index::FLOAT => Item::Float(view.as_float().unwrap_or_default()),
        index::DATA_TYPE => Item::DType(view.try_into()?),
        index::DEVICE => Item::Device(view.try_into()?),
        index::SMALL_STR | index::STR => Item::text(&Str::try_from(view)?),
        index::SMALL_BYTES | index::BYTES => Item::Bytes(Bytes::try_from(view)?.to_vec()),
        index::FUNCTION => Item::Handle(handles.insert(Held::Function(Function::try_from(view)?))?),
        index::TENSOR => return tensor(handles, &Tensor::try_from(view)?),
        _ if view.object_ref().is_none() => {
            return Err(Error::type_error(format!("a `{}` does not travel", view.type_key())));
        }
        _ => Item::Handle(handles.insert(Held::Object(value))?),
    };
    Ok(vec![head(index), payload])
}

/// A tensor: one handle for it and its data.
fn tensor(handles: &mut Handles, tensor: &Tensor) -> Result<Vec<Item>, Error> {
    let tensor = tensor.to_compact()?;
    let (device, dtype) = (tensor.device(), tensor.dtype());
    let shape = tensor.shape().to_vec();
    let data = handles.insert(Held::Tensor(tensor))?;
    let described = TensorRef { data, device, dtype, shape, byte_offset: 0 };
    Ok(vec![Item::Int(i64::from(index::TENSOR)), Item::Tensor(described), Item::Handle(data)])
}
