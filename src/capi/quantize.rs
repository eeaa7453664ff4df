//! Quantizing models, as a packed function.

use reflex_runtime::array::Array as Tuple;
use reflex_runtime::error::Error as Raised;
use reflex_runtime::function::arg;
use reflex_runtime::map::entries_of;
use reflex_runtime::string::Bytes;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};

use crate::array::{Array, Feed};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::quantize::{Method, QuantizeOptions, Quantizer};

type FfiResult<T = Any> = std::result::Result<T, Raised>;

/// `(method, feeds, excluded nodes, operators or None, block, reduced range)`: the bytes of the quantized
/// model, and the report as JSON. A feed is a map from names to tensors.
pub(super) fn quantize(
    engine: &Engine,
    model: &str,
    args: &[AnyView<'_>],
) -> FfiResult<Result<Any>> {
    let method = args.first().and_then(|method| method.as_str()).unwrap_or_default();
    let feeds: Vec<Feed> = arg::<Tuple>(args, 1)?.iter().map(feed).collect::<FfiResult<_>>()?;
    let block = usize::try_from(arg::<i64>(args, 4)?).unwrap_or(0);
    let method = match method {
        "dynamic" => Method::Dynamic,
        "static" => Method::Static(Default::default()),
        "weights4" => Method::Weights4(block),
        other => {
            let message = format!("method {other:?}: \"dynamic\", \"static\" or \"weights4\"");
            return Err(Raised::value_error(message));
        }
    };
    let mut options = QuantizeOptions::new(method);
    options.exclude = texts(&arg::<Tuple>(args, 2)?)?.into_iter().collect();
    if args.get(3).is_some_and(|operators| !operators.is_none()) {
        options.operators = texts(&arg::<Tuple>(args, 3)?)?.into_iter().collect();
    }
    options.reduce_range = args.get(5).and_then(AnyView::as_bool).unwrap_or(false);
    Ok(run(engine, model, options, &feeds))
}

fn run(engine: &Engine, model: &str, options: QuantizeOptions, feeds: &[Feed]) -> Result<Any> {
    let quantized = Quantizer::open(engine, model)?.quantize(options, feeds)?;
    let report =
        serde_json::to_string(&quantized.report()).map_err(|e| Error::input(e.to_string()))?;
    let both = [Any::from(Bytes::new(&quantized.bytes)), Any::from(report.as_str())];
    Ok(Tuple::new(both).into())
}

fn texts(list: &Tuple) -> FfiResult<Vec<String>> {
    let text = |value: &Any| {
        let view = value.view();
        view.as_str().map(str::to_owned).ok_or_else(|| view.mismatch("ffi.String"))
    };
    list.iter().map(text).collect()
}

fn feed(value: &Any) -> FfiResult<Feed> {
    let entries = entries_of(&value.view())?;
    let entry = |(name, value): (Any, Any)| {
        let view = name.view();
        let name = view.as_str().ok_or_else(|| view.mismatch("ffi.String"))?.to_owned();
        let array = Array::of_tensor(&Tensor::try_from(value)?).map_err(|e| e.to_object())?;
        Ok((name, array))
    };
    entries.into_iter().map(entry).collect()
}
