//! TVM's module `const_loader`: constants of sub-graphs that external code generators compiled. A module
//! that it imports gets those of a function before the function is first called.
//!
//! The serialized form is read as hostile: a size is checked before anything of it is allocated.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::tensor_bytes::Reader;
use crate::array::Array;
use crate::error::Error;
use crate::function::Function;
use crate::map::Map;
use crate::module::{Functions, Imports, Module};
use crate::tensor::Tensor;
use crate::value::{Any, AnyView};

/// The function that gives all constants by name.
const ALL: &str = "get_const_var_tensor";
/// Before the name of a function, that of the one which takes its constants.
const INIT_PREFIX: &str = "__init_";

struct ConstLoader {
    constants: HashMap<String, Tensor>,
    /// The constants of each function, until it got them.
    waiting: Mutex<HashMap<String, Vec<String>>>,
}

/// `(bytes)`: the module.
pub(super) fn load(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let bytes = args.first().and_then(AnyView::as_bytes);
    let bytes = bytes.ok_or_else(|| Error::type_error("argument 0 is the bytes of a module"))?;
    Ok(Module::new(ConstLoader::read(bytes)?).into())
}

impl ConstLoader {
    fn read(bytes: &[u8]) -> Result<ConstLoader, Error> {
        let mut reader = Reader::new(bytes, "a module of kind const_loader");
        let names = reader.strings()?;
        let count = reader.count(1)?;
        if count != names.len() {
            return Err(reader.fault("as many constants as names"));
        }
        let mut constants = HashMap::new();
        for name in names {
            constants.insert(name, reader.tensor()?);
        }
        let symbols = reader.strings()?;
        if reader.count(8)? != symbols.len() {
            return Err(reader.fault("as many lists as functions"));
        }
        let mut waiting = HashMap::new();
        for symbol in symbols {
            let wanted = reader.strings()?;
            if let Some(name) = wanted.iter().find(|name| !constants.contains_key(*name)) {
                return Err(reader.fault(&format!("a constant {name:?} for `{symbol}`")));
            }
            waiting.insert(symbol, wanted);
        }
        reader.finish()?;
        Ok(ConstLoader { constants, waiting: Mutex::new(waiting) })
    }

    /// Gives the function called `name` its constants, once.
    fn initialize(&self, name: &str, imports: &[Module]) -> Result<(), Error> {
        let mut waiting = self.waiting.lock();
        let Some(wanted) = waiting.get(name) else { return Ok(()) };
        let init = format!("{INIT_PREFIX}{name}");
        for import in imports {
            let Some(init) = import.function(&init, Imports::Skip)? else { continue };
            let given: Vec<Any> = wanted
                .iter()
                .filter_map(|name| Some(self.constants.get(name)?.clone().into()))
                .collect();
            let given = Any::from(Array::new(given));
            let status = init.call(&[given.view()])?.view().as_int().unwrap_or_default();
            if status != 0 {
                let text = format!("`{INIT_PREFIX}{name}` failed with status {status}");
                return Err(Error::runtime_error(text));
            }
            break;
        }
        waiting.remove(name);
        Ok(())
    }
}

impl Functions for ConstLoader {
    fn kind(&self) -> &str {
        "const_loader"
    }

    fn function(&self, name: &str) -> Result<Option<Function>, Error> {
        if name != ALL {
            return Ok(None);
        }
        let pairs = self
            .constants
            .iter()
            .map(|(name, tensor)| (Any::from(name.as_str()), Any::from(tensor.clone())));
        let all = Any::from(Map::new(pairs.collect::<Vec<_>>())?);
        Ok(Some(Function::new(move |_| Ok(all.clone()))))
    }

    fn function_of_imports(
        &self,
        name: &str,
        imports: &[Module],
    ) -> Result<Option<Function>, Error> {
        self.initialize(name, imports)?;
        for import in imports {
            if let Some(function) = import.function(name, Imports::Skip)? {
                return Ok(Some(function));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::string::Str;

    fn string(out: &mut Vec<u8>, text: &str) {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    }

    fn strings(out: &mut Vec<u8>, texts: &[&str]) {
        out.extend((texts.len() as u64).to_le_bytes());
        texts.iter().for_each(|text| string(out, text));
    }

    /// Constants `a` and `b`, of which function `f` wants `b`.
    fn serialized() -> Vec<u8> {
        let mut out = vec![];
        strings(&mut out, &["a", "b"]);
        out.extend(2_u64.to_le_bytes());
        for value in [1.0_f32, 2.0] {
            out.extend(0xDD5E_40F0_96B4_A13F_u64.to_le_bytes());
            out.extend(0_u64.to_le_bytes());
            out.extend([1_i32, 0, 1].iter().flat_map(|word| word.to_le_bytes()));
            out.extend([2, 32, 1, 0]);
            out.extend(1_i64.to_le_bytes());
            out.extend(4_i64.to_le_bytes());
            out.extend(value.to_le_bytes());
        }
        strings(&mut out, &["f"]);
        out.extend(1_u64.to_le_bytes());
        strings(&mut out, &["b"]);
        out
    }

    /// An external module that keeps its constants.
    struct External(std::sync::Arc<Mutex<Vec<f32>>>);

    impl Functions for External {
        fn kind(&self) -> &str {
            "test.external"
        }
        fn function(&self, name: &str) -> Result<Option<Function>, Error> {
            let kept = self.0.clone();
            Ok(match name {
                "__init_f" => Some(Function::new(move |args| {
                    for item in Array::try_from(args[0])?.iter() {
                        kept.lock().extend(Tensor::try_from(item.view())?.to_vec::<f32>()?);
                    }
                    Ok(Any::from(0_i64))
                })),
                "f" => Some(Function::new(move |_| Ok(Any::from(f64::from(kept.lock()[0]))))),
                _ => None,
            })
        }
    }

    #[test]
    fn constants_reach_the_importing_function_once() {
        let module = Module::new(ConstLoader::read(&serialized()).unwrap());
        let kept = std::sync::Arc::<Mutex<Vec<f32>>>::default();
        module.import(&Module::new(External(kept.clone()))).unwrap();
        for _ in 0..2 {
            let f = module.function("f", Imports::Skip).unwrap().unwrap();
            assert_eq!(f64::try_from(f.call(&[]).unwrap()).unwrap(), 2.0);
        }
        assert_eq!(*kept.lock(), [2.0]);
        let all = module.require(ALL).unwrap().call(&[]).unwrap();
        let all = Map::try_from(all).unwrap();
        let a = Tensor::try_from(all.get(&Any::from(Str::new("a")).view()).unwrap()).unwrap();
        assert_eq!((a.dtype(), a.to_vec::<f32>().unwrap()), (DType::F32, vec![1.0]));
    }

    #[test]
    fn every_truncation_and_flip_is_refused_or_read() {
        let bytes = serialized();
        (0..bytes.len())
            .for_each(|end| assert!(ConstLoader::read(&bytes[..end]).is_err(), "{end}"));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                drop(ConstLoader::read(&bad));
            }
        }
    }
}
