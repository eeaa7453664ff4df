//! The global functions that every server has: files, modules, measurements.

use std::sync::Arc;

use reflex_runtime::error::Error;
use reflex_runtime::function::{self, Function};
use reflex_runtime::module::{Imports, Module};
use reflex_runtime::string::{Bytes, Str};
use reflex_runtime::value::{Any, AnyView};

use super::{random, timing};
use crate::names;
use crate::store::Store;

/// Loads a file of the session.
pub type Load = dyn Fn(&str) -> Result<Module, Error> + Send + Sync;

/// The built-in function called `name`, on the session's files.
pub fn get(name: &str, store: &Store, load: &Arc<Load>) -> Option<Function> {
    let files = file_function(name, store.clone());
    files.or_else(|| content_function(name, store.clone())).or_else(|| match name {
        names::LOAD_MODULE => {
            let load = Arc::clone(load);
            Some(Function::new(move |args| Ok(load(&text(args, 0)?)?.into())))
        }
        names::MODULE_GET_FUNCTION => Some(Function::new(module_function)),
        names::IMPORT_MODULE => Some(Function::new(|args| {
            module(args, 0)?.import(&module(args, 1)?)?;
            Ok(Any::NONE)
        })),
        names::TIME_EVALUATOR => Some(Function::new(timing::evaluator)),
        names::RANDOM_FILL => Some(Function::new(random::fill)),
        _ => None,
    })
}

fn file_function(name: &str, store: Store) -> Option<Function> {
    Some(match name {
        names::UPLOAD => Function::new(move |args| {
            let bytes = args.get(1).and_then(AnyView::as_bytes);
            store.write(&text(args, 0)?, bytes.ok_or_else(|| expected(args, 1, "bytes"))?)?;
            Ok(Any::NONE)
        }),
        names::DOWNLOAD => {
            Function::new(move |args| Ok(Bytes::new(&store.read(&text(args, 0)?)?).into()))
        }
        names::REMOVE => Function::new(move |args| {
            store.remove(&text(args, 0)?)?;
            Ok(Any::NONE)
        }),
        names::LISTDIR => Function::new(move |args| match &*text(args, 0)? {
            "" | "." | "/" => Ok(Any::from(&*store.names()?.join(","))),
            other => Err(Error::value_error(format!("there is no folder {other:?}"))),
        }),
        _ => return None,
    })
}

fn content_function(name: &str, store: Store) -> Option<Function> {
    Some(match name {
        names::HAVE => Function::new(move |args| {
            Ok(Any::from(i64::try_from(store.have(&text(args, 0)?)?).unwrap_or(i64::MAX)))
        }),
        names::CHUNK => Function::new(move |args| {
            let bytes = args.get(2).and_then(AnyView::as_bytes);
            let bytes = bytes.ok_or_else(|| expected(args, 2, "bytes"))?;
            store.chunk(&text(args, 0)?, size(args, 1)?, bytes)?;
            Ok(Any::NONE)
        }),
        names::COMMIT => Function::new(move |args| {
            store.commit(&text(args, 0)?, size(args, 1)?, &text(args, 2)?)?;
            Ok(Any::NONE)
        }),
        _ => return None,
    })
}

fn module_function(args: &[AnyView<'_>]) -> Result<Any, Error> {
    Ok(module(args, 0)?.function(&text(args, 1)?, Imports::Search)?.into())
}

/// Argument `at` as text.
pub fn text(args: &[AnyView<'_>], at: usize) -> Result<Str, Error> {
    function::arg(args, at)
}

/// Argument `at` as a module.
pub fn module(args: &[AnyView<'_>], at: usize) -> Result<Module, Error> {
    let module = args.get(at).and_then(|arg| arg.downcast_ref::<Module>());
    module.cloned().ok_or_else(|| expected(args, at, "a module"))
}

/// Argument `at` as a number of bytes.
fn size(args: &[AnyView<'_>], at: usize) -> Result<u64, Error> {
    let size = function::arg::<i64>(args, at)?;
    u64::try_from(size).map_err(|_| Error::value_error(format!("{size} bytes")))
}

#[cold]
fn expected(args: &[AnyView<'_>], at: usize, what: &str) -> Error {
    let got = args.get(at).map_or_else(|| "nothing".to_owned(), AnyView::type_key);
    Error::type_error(format!("argument {at}: expected {what}, got `{got}`"))
}
