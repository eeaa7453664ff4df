//! Sessions at RPC servers as packed functions, for `reflex.rpc`.

use std::path::Path;
use std::time::Duration;

use reflex_rpc::client::{Copies, RemoteModule, RemoteSession, RemoteTensor, Results};
use reflex_runtime::array::Array;
use reflex_runtime::dtype::DType;
use reflex_runtime::error::Error as Raised;
use reflex_runtime::function::{Function, arg};
use reflex_runtime::module::Module;
use reflex_runtime::object;
use reflex_runtime::shape::Shape;
use reflex_runtime::string::{Bytes, Str};
use reflex_runtime::tensor::Tensor;
use reflex_runtime::timing::TimingOptions;
use reflex_runtime::value::{Any, AnyView};

use crate::remote::Endpoint;

type FfiResult<T = Any> = Result<T, Raised>;

fn optional(args: &[AnyView<'_>], at: usize) -> FfiResult<Option<Str>> {
    match args.get(at) {
        Some(value) if !value.is_none() => arg(args, at).map(Some),
        _ => Ok(None),
    }
}

/// `(address, key, certificates or None, file of a token or None, tracker or None, seconds to wait or
/// None)`: a session, a function whose first argument is the name of what to do. With a tracker there is
/// no address.
pub(super) fn connect(args: &[AnyView<'_>]) -> FfiResult {
    let address = || arg::<Str>(args, 0).map(|address| address.to_string());
    let key = arg::<Str>(args, 1)?.to_string();
    let secure = match (optional(args, 2)?, optional(args, 3)?) {
        (Some(certificates), Some(token)) => Some(((&*certificates).into(), (&*token).into())),
        (None, None) => None,
        _ => {
            let text = "certificates and a token are given together";
            return Err(Raised::value_error(text));
        }
    };
    let wait = match args.get(5) {
        Some(wait) if !wait.is_none() => {
            let wait = Duration::try_from_secs_f64(arg::<f64>(args, 5)?);
            Some(wait.map_err(|e| Raised::value_error(e.to_string()))?)
        }
        _ => None,
    };
    let endpoint = match (optional(args, 4)?, secure) {
        (Some(tracker), None) => Endpoint::Tracker { address: tracker.to_string(), key, wait },
        (Some(tracker), Some((certificates, token))) => {
            let address = tracker.to_string();
            Endpoint::SecureTracker { address, key, wait, certificates, token }
        }
        (None, Some((certificates, token))) => {
            Endpoint::Secure { address: address()?, key, certificates, token }
        }
        (None, None) => Endpoint::Server { address: address()?, key },
    };
    let session = endpoint.open()?;
    // A class for tensors of servers is looked up by this type's key.
    let _ = object::type_of::<RemoteTensor>();
    let method = move |args: &[AnyView<'_>]| {
        let name: Str = arg(args, 0)?;
        method(&session, &name, args.get(1..).unwrap_or_default())
    };
    Ok(Function::new(method).into())
}

fn method(session: &RemoteSession, name: &str, args: &[AnyView<'_>]) -> FfiResult {
    let text = |at| arg::<Str>(args, at);
    match name {
        "upload" => {
            let uploaded = session.upload(Path::new(&*text(0)?), &text(1)?)?;
            Ok(Any::from(i64::try_from(uploaded.sent).unwrap_or(i64::MAX)))
        }
        "upload_bytes" => {
            let bytes = args.get(1).and_then(AnyView::as_bytes);
            let bytes = bytes.ok_or_else(|| Raised::type_error("a file is uploaded as bytes"))?;
            session.upload_bytes(&text(0)?, bytes).map(|()| Any::NONE)
        }
        "download" => Ok(Bytes::new(&session.download(&text(0)?)?).into()),
        "remove" => session.remove(&text(0)?).map(|()| Any::NONE),
        "load_module" => Ok(session.load_module(&text(0)?)?.to_module(results(args, 1)?).into()),
        "function" => {
            let copies = Copies::Results(results(args, 1)?);
            let found = session.global(&text(0)?)?;
            Ok(found.map_or(Any::NONE, |function| function.to_function(copies).into()))
        }
        "empty" => {
            let shape = arg::<Shape>(args, 0)?;
            let dtype: DType = text(1)?
                .parse()
                .map_err(|_| Raised::value_error("there is no such element type".to_owned()))?;
            Ok(object::wrap(session.empty(&shape, dtype)?).into())
        }
        "to_remote" => {
            let tensor = arg::<Tensor>(args, 0)?.to_compact()?;
            Ok(object::wrap(session.to_remote(&tensor)?).into())
        }
        "time_evaluator" => time_evaluator(session, args),
        "shut_down" => {
            session.shut_down();
            Ok(Any::NONE)
        }
        _ => Err(Raised::new("AttributeError", format!("a remote session has no `{name}`"))),
    }
}

/// Where results stay: `here` or `there`.
fn results(args: &[AnyView<'_>], at: usize) -> FfiResult<Results> {
    match &*arg::<Str>(args, at)? {
        "here" => Ok(Results::Here),
        "there" => Ok(Results::There),
        other => Err(Raised::value_error(format!("results are here or there, not {other:?}"))),
    }
}

/// `(module, name, number, repeat, min_repeat_ms, limit_zero_time_iterations, cooldown_ms,
/// repeats_to_cooldown, cache_flush_bytes, f_preproc or None)`: a function that gives bytes of floats.
fn time_evaluator(session: &RemoteSession, args: &[AnyView<'_>]) -> FfiResult {
    let module = RemoteModule::of(&arg::<Module>(args, 0)?, session);
    let module =
        module.ok_or_else(|| Raised::value_error("the module belongs to another session"))?;
    let options = timing_options(args.get(2..).unwrap_or_default())?;
    let evaluator = module.time_evaluator(&arg::<Str>(args, 1)?, &options)?;
    Ok(evaluator.to_function(Copies::Results(Results::Here)).into())
}

/// `(number, repeat, min_repeat_ms, limit_zero_time_iterations, cooldown_ms, repeats_to_cooldown,
/// cache_flush_bytes, f_preproc or None)`.
pub(super) fn timing_options(args: &[AnyView<'_>]) -> FfiResult<TimingOptions> {
    let count = |at: usize| {
        let value = arg::<i64>(args, at)?;
        u32::try_from(value)
            .map_err(|_| Raised::value_error(format!("{value} is not from 0 to 4294967295")))
    };
    let milliseconds = |at: usize| {
        let time = Duration::try_from_secs_f64(arg::<f64>(args, at)? / 1e3);
        time.map_err(|error| Raised::value_error(error.to_string()))
    };
    let flush = usize::try_from(arg::<i64>(args, 6)?);
    Ok(TimingOptions {
        number: count(0)?,
        repeat: count(1)?,
        min_repeat: milliseconds(2)?,
        zero_time_limit: count(3)?,
        cooldown: milliseconds(4)?,
        repeats_to_cooldown: count(5)?,
        cache_flush_bytes: flush.map_err(|_| Raised::value_error("negative bytes to flush"))?,
        preprocess: optional(args, 7)?.map(|name| name.to_string()),
    })
}

fn remote<'a>(args: &'a [AnyView<'_>]) -> FfiResult<&'a RemoteTensor> {
    let object = args.first().and_then(|value| value.object_ref());
    let tensor = object.and_then(object::get::<RemoteTensor>);
    tensor.ok_or_else(|| Raised::type_error("argument 0 is no tensor of a server"))
}

/// `(remote tensor)`: a copy here.
pub(super) fn to_local(args: &[AnyView<'_>]) -> FfiResult {
    Ok(remote(args)?.to_local()?.into())
}

/// `(remote tensor, tensor)`: overwrites the elements.
pub(super) fn write(args: &[AnyView<'_>]) -> FfiResult {
    remote(args)?.write(&arg::<Tensor>(args, 1)?).map(|()| Any::NONE)
}

/// `(remote tensor)`: its element type and shape.
pub(super) fn describe(args: &[AnyView<'_>]) -> FfiResult {
    let tensor = remote(args)?;
    let dtype = tensor.dtype().to_string();
    Ok(Array::new([Any::from(dtype.as_str()), Shape::new(tensor.shape()).into()]).into())
}

/// `()`: the key of the type of remote tensors, which is known from then on.
pub(super) fn tensor_key(_: &[AnyView<'_>]) -> FfiResult {
    let _ = object::type_of::<RemoteTensor>();
    Ok(Any::from(<RemoteTensor as object::RustObject>::KEY))
}
