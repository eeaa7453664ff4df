//! Parameters that the functions of one process share by name, and the folders that they are loaded
//! from: TVM's `vm.builtin.tensor_cache.*` and `vm.builtin.param_array_from_cache*`.
//!
//! Such a folder has a list, `tensor-cache.json`, and files that the list names (shards), each with the
//! bytes of some parameters. float32 may be stored as bfloat16.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use parking_lot::Mutex;
use serde::Deserialize;

use crate::abi::DLDevice;
use crate::array::Array;
use crate::dtype::DType;
use crate::error::Error;
use crate::function::{arg, arg_ref, check_arity};
use crate::tensor::{Tensor, byte_size};
use crate::value::{Any, AnyView};

static CACHE: Mutex<BTreeMap<String, Tensor>> = Mutex::new(BTreeMap::new());

/// The list of a folder.
#[derive(Deserialize)]
struct List {
    records: Vec<Shard>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shard {
    data_path: String,
    format: String,
    nbytes: u64,
    records: Vec<Parameter>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Parameter {
    name: String,
    shape: Vec<i64>,
    dtype: String,
    format: String,
    nbytes: usize,
    byte_offset: usize,
}

/// `tensor_cache.load(folder, device type, device id)`: all parameters of a folder, in the place of
/// those that have their names.
pub(super) fn load(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("vm.builtin.tensor_cache.load", args, 3)?;
    let (folder, kind) = (text(args, 0)?, arg::<i64>(args, 1)?);
    if kind != i64::from(DLDevice::KIND_CPU) {
        return Err(Error::value_error(format!("parameters are loaded to a CPU, not to {kind}")));
    }
    let folder = Path::new(folder);
    let list = folder.join("tensor-cache.json");
    let wrong =
        |what: &dyn std::fmt::Display| Error::value_error(format!("{}: {what}", list.display()));
    let read = std::fs::read(&list).map_err(|error| wrong(&error))?;
    let List { records } = serde_json::from_slice(&read).map_err(|error| wrong(&error))?;
    for shard in records {
        let loaded = shard.load(folder);
        let loaded = loaded.map_err(|what| wrong(&format!("`{}`: {what}", shard.data_path)))?;
        CACHE.lock().extend(loaded);
    }
    Ok(Any::NONE)
}

impl Shard {
    fn load(&self, folder: &Path) -> Result<Vec<(String, Tensor)>, String> {
        let path = Path::new(&self.data_path);
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err("a file outside the folder".to_owned());
        }
        if self.format != "raw-shard" {
            return Err(format!("format `{}` instead of `raw-shard`", self.format));
        }
        let bytes = std::fs::read(folder.join(path)).map_err(|error| error.to_string())?;
        if bytes.len() as u64 != self.nbytes {
            let size = bytes.len();
            return Err(format!("{size} bytes instead of {}; it is damaged", self.nbytes));
        }
        let load = |it: &Parameter| {
            let tensor = it.load(&bytes).map_err(|what| format!("`{}`: {what}", it.name))?;
            Ok((it.name.clone(), tensor))
        };
        self.records.iter().map(load).collect()
    }
}

impl Parameter {
    fn load(&self, shard: &[u8]) -> Result<Tensor, String> {
        let end = self.byte_offset.checked_add(self.nbytes);
        let bytes = end.and_then(|end| shard.get(self.byte_offset..end)).ok_or_else(|| {
            format!("{} bytes at {} are outside the file", self.nbytes, self.byte_offset)
        })?;
        let dtype: DType =
            self.dtype.parse().map_err(|_| format!("element type {}", self.dtype))?;
        let size = byte_size(&self.shape, dtype).map_err(|error| error.message().into_owned())?;
        let halved = dtype == DType::F32 && self.format == "f32-to-bf16";
        if self.nbytes != if halved { size / 2 } else { size } {
            let Parameter { shape, nbytes, .. } = self;
            return Err(format!("{nbytes} bytes for {shape:?} of {dtype}"));
        }
        let wide: Vec<u8>;
        let bytes = if halved {
            // A bfloat16 is the upper half of a float32.
            wide = bytes.chunks_exact(2).flat_map(|half| [0, 0, half[0], half[1]]).collect();
            &wide
        } else {
            bytes
        };
        Tensor::from_bytes(&self.shape, dtype, bytes).map_err(|error| error.message().into_owned())
    }
}

/// `tensor_cache.get(name)`: the tensor, or None.
pub(super) fn get(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("vm.builtin.tensor_cache.get", args, 1)?;
    Ok(CACHE.lock().get(text(args, 0)?).cloned().map_or(Any::NONE, Any::from))
}

/// `tensor_cache.update(name, tensor, override?)`: without `override`, a name that is there is an error.
pub(super) fn update(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let name = text(args, 0)?;
    let (tensor, overrides): (Tensor, bool) = match args.len() {
        2 => (arg(args, 1)?, false),
        3 => (arg(args, 1)?, arg::<i64>(args, 2)? != 0),
        given => {
            let message =
                format!("`vm.builtin.tensor_cache.update` takes 2 or 3 arguments, {given} given");
            return Err(Error::type_error(message));
        }
    };
    let mut cache = CACHE.lock();
    if !overrides && cache.contains_key(name) {
        return Err(Error::value_error(format!("`{name}` is in the tensor cache")));
    }
    let before = cache.insert(name.to_owned(), tensor);
    // What is dropped may run code of the host.
    drop(cache);
    drop(before);
    Ok(Any::NONE)
}

/// `tensor_cache.remove(name)`
pub(super) fn remove(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("vm.builtin.tensor_cache.remove", args, 1)?;
    let removed = CACHE.lock().remove(text(args, 0)?);
    drop(removed);
    Ok(Any::NONE)
}

/// `tensor_cache.clear()`
pub(super) fn clear(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("vm.builtin.tensor_cache.clear", args, 0)?;
    let all = std::mem::take(&mut *CACHE.lock());
    drop(all);
    Ok(Any::NONE)
}

/// `param_array_from_cache(prefix, n)`: the tensors `prefix_0` to `prefix_{n-1}`; of -1, all that
/// follow each other.
pub(super) fn param_array(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("vm.builtin.param_array_from_cache", args, 2)?;
    let (prefix, count) = (text(args, 0)?, arg::<i64>(args, 1)?);
    let mut found = Vec::new();
    while count < 0 || (found.len() as i64) < count {
        let name = format!("{prefix}_{}", found.len());
        match CACHE.lock().get(&name) {
            Some(tensor) => found.push(Any::from(tensor.clone())),
            None if count < 0 => break,
            None => return Err(missing(&name)),
        }
    }
    Ok(Array::new(found).into())
}

/// `param_array_from_cache_by_name(names)`
pub(super) fn param_array_by_name(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("vm.builtin.param_array_from_cache_by_name", args, 1)?;
    let names: Vec<AnyView<'_>> = arg_ref::<Array>(args, 0)?.iter().map(Any::view).collect();
    by_names(&names)
}

/// `param_array_from_cache_by_name_unpacked(names...)`
pub(super) fn param_array_by_name_unpacked(args: &[AnyView<'_>]) -> Result<Any, Error> {
    by_names(args)
}

fn by_names(names: &[AnyView<'_>]) -> Result<Any, Error> {
    let find = |at| {
        let name = text(names, at)?;
        let found = CACHE.lock().get(name).cloned();
        found.map(Any::from).ok_or_else(|| missing(name))
    };
    let found = (0..names.len()).map(find).collect::<Result<Vec<_>, Error>>()?;
    Ok(Array::new(found).into())
}

#[cold]
fn missing(name: &str) -> Error {
    Error::value_error(format!("`{name}` is not in the tensor cache"))
}

fn text<'a>(args: &'a [AnyView<'_>], index: usize) -> Result<&'a str, Error> {
    let value = args.get(index);
    let value = value.ok_or_else(|| Error::type_error(format!("argument {index} is missing")))?;
    value.as_str().ok_or_else(|| value.mismatch("ffi.String"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    fn call(name: &str, args: &[Any]) -> Result<Any, Error> {
        let views: Vec<AnyView<'_>> = args.iter().map(Any::view).collect();
        registry::get(&format!("vm.builtin.{name}"))
            .expect("a function of this module")
            .call(&views)
    }

    fn folder(name: &str, list: &str, shard: &[u8]) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("reflex-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("tensor-cache.json"), list).unwrap();
        std::fs::write(folder.join("shard_0.bin"), shard).unwrap();
        folder
    }

    fn list(path: &str, offset: usize, shape: &str) -> String {
        format!(
            r#"{{"metadata": {{}}, "records": [{{"dataPath": "{path}", "format": "raw-shard",
            "nbytes": 12, "records": [
            {{"name": "cached_0", "shape": [2], "dtype": "int32", "format": "raw", "nbytes": 8,
              "byteOffset": {offset}}},
            {{"name": "cached_1", "shape": {shape}, "dtype": "float32", "format": "f32-to-bf16",
              "nbytes": 4, "byteOffset": 8}}]}}]}}"#
        )
    }

    const SHARD: [u8; 12] = [7, 0, 0, 0, 9, 0, 0, 0, 0x80, 0x3f, 0x20, 0xc0];

    #[test]
    fn parameters_of_a_folder_are_found_by_name() {
        let folder = folder("cache", &list("shard_0.bin", 0, "[1, 2]"), &SHARD);
        let path = folder.to_str().unwrap();
        call("tensor_cache.load", &[path.into(), 1_i64.into(), 0_i64.into()]).unwrap();
        let all = call("param_array_from_cache", &["cached".into(), (-1_i64).into()]).unwrap();
        let all = all.downcast_ref::<Array>().unwrap();
        let tensor = |at: usize| all[at].downcast_ref::<Tensor>().unwrap();
        assert_eq!((all.len(), tensor(0).to_vec::<i32>().unwrap()), (2, vec![7, 9]));
        assert_eq!(tensor(1).to_vec::<f32>().unwrap(), [1.0, -2.5]);
        assert_eq!(tensor(1).shape(), [1, 2]);
        let named = ["cached_1".into(), "cached_0".into()];
        let unpacked = call("param_array_from_cache_by_name_unpacked", &named).unwrap();
        assert_eq!(unpacked.downcast_ref::<Array>().unwrap().len(), 2);
        let packed = [Array::new(named.clone()).into()];
        assert!(call("param_array_from_cache_by_name", &packed).is_ok());

        let other = Any::from(Tensor::from_slice(&[1], &[5_i64]).unwrap());
        let taken = call("tensor_cache.update", &["cached_1".into(), other.clone()]).unwrap_err();
        assert!(taken.message().contains("`cached_1` is in"));
        call("tensor_cache.update", &["cached_1".into(), other, true.into()]).unwrap();
        let found = call("tensor_cache.get", &["cached_1".into()]).unwrap();
        assert_eq!(found.downcast_ref::<Tensor>().unwrap().to_vec::<i64>().unwrap(), [5]);
        call("tensor_cache.remove", &["cached_1".into()]).unwrap();
        assert!(call("tensor_cache.get", &["cached_1".into()]).unwrap().is_none());
        let error = call("param_array_from_cache", &["cached".into(), 2_i64.into()]).unwrap_err();
        assert_eq!(error.to_string(), "ValueError: `cached_1` is not in the tensor cache");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn lists_that_do_not_fit_their_files_are_refused() {
        let cases = [
            (list("../shard_0.bin", 0, "[2]"), "outside the folder"),
            (list("/etc/passwd", 0, "[2]"), "outside the folder"),
            (list("shard_0.bin", 5, "[2]"), "outside the file"),
            (list("shard_0.bin", usize::MAX, "[2]"), "outside the file"),
            (list("shard_0.bin", 0, "[3]"), "4 bytes for [3] of float32"),
            (list("shard_0.bin", 0, "[-2]"), "-2"),
            (list("none.bin", 0, "[2]"), "No such file"),
            ("{}".to_owned(), "records"),
        ];
        for (at, (list, why)) in cases.into_iter().enumerate() {
            let folder = folder(&format!("damaged-{at}"), &list, &SHARD);
            let args = [folder.to_str().unwrap().into(), 1_i64.into(), 0_i64.into()];
            let error = call("tensor_cache.load", &args).unwrap_err();
            assert!(error.message().contains(why), "{error}");
            std::fs::remove_dir_all(folder).unwrap();
        }
        let args = ["/nowhere".into(), 2_i64.into(), 0_i64.into()];
        assert!(call("tensor_cache.load", &args).unwrap_err().message().contains("to a CPU"));
    }
}
