//! Files of a loaded model that change: results never do.

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reflex::{
    Array, Engine, Feed, FileAccess, Mode, ModelFormat, ModelSource, Module, PassInstrument,
    Pipeline, Program, Session, TierPolicy,
};
use reflex_onnx::proto::*;

/// So many floats are read on their own.
const WIDTH: usize = 16 << 10;

/// `y = x + b`; the constant `b` is in the file itself, or in another one. `padding` bytes before it
/// move it through all alignments.
fn model(bias: f32, padding: usize, external: Option<&str>) -> (Vec<u8>, Vec<u8>) {
    let data: Vec<u8> = [bias; WIDTH].iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut b = TensorProto {
        name: "b".into(),
        data_type: data_type::FLOAT,
        dims: vec![WIDTH as i64],
        ..Default::default()
    };
    match external {
        None => b.raw_data = Some(data.clone().into()),
        Some(file) => {
            b.data_location = 1;
            let (key, value) = ("location".into(), file.into());
            b.external_data = vec![StringStringEntryProto { key, value }];
        }
    }
    let node = NodeProto {
        input: vec!["x".into(), "b".into()],
        output: vec!["y".into()],
        name: "a".repeat(padding),
        op_type: "Add".into(),
        ..Default::default()
    };
    let width = WIDTH.to_string();
    let dims: &[&str] = &["n", &width];
    let [x, y] = ["x", "y"].map(|name| common::tensor(name, data_type::FLOAT, dims));
    (common::model_with(17, vec![node], vec![x], y, vec![b]), data)
}

fn engine(access: FileAccess) -> Engine {
    // At the second call of a shape, on the calling thread.
    let policy = "compile=sync,shape-calls=2,shape-ms=0,specialise=always,shapes=9";
    let policy: TierPolicy = policy.parse().expect("a policy");
    Engine::builder().tier(policy).file_access(access).build().expect("an engine")
}

fn first(program: &Program, session: &mut Session, rows: i64) -> f32 {
    let x = Array::of(&[rows, WIDTH as i64], &vec![1.0_f32; WIDTH * rows as usize]).expect("fits");
    let prepared = program.prepare("main", &Feed::from([("x".to_owned(), x)])).expect("fits");
    let outputs = session.call(&prepared).and_then(|o| o.arrays()).expect("runs");
    let values = outputs[0].1.to_vec::<f32>().expect("floats");
    assert!(values.iter().all(|v| *v == values[0]), "{values:?}");
    values[0]
}

/// Calls a program until it has code for four rows.
fn assert_specialised(program: &Program) {
    let mut session = program.session(Mode::Tiered).expect("a session");
    for _ in 0..4 {
        assert_eq!(first(program, &mut session, 4), 3.0);
    }
    let tiers = program.tiers();
    assert!(tiers.contains('4') && !tiers.contains("not used"), "{tiers}");
}

/// Deploys as `cp new.onnx model.onnx` does: the same file gets other contents.
fn overwrite(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("writes");
}

#[test]
fn a_file_that_is_overwritten_or_cut_short_changes_no_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine(FileAccess::Read);
    for external in [None, Some("weights.bin")] {
        for padding in (0..64).step_by(if external.is_some() { 64 } else { 4 }) {
            let (path, weights) = (folder.path().join("m.onnx"), folder.path().join("weights.bin"));
            let [(old, old_data), (new, new_data)] =
                [2.0, 3.0].map(|bias| model(bias, padding, external));
            for contents in [(&new[..], &new_data[..]), (b"", b"")] {
                overwrite(&path, &old);
                overwrite(&weights, &old_data);
                let program = engine.load(&path).expect("loads");
                let mut session = program.session(Mode::Tiered).expect("a session");
                assert_eq!(first(&program, &mut session, 1), 3.0);
                overwrite(
                    if external.is_some() { &weights } else { &path },
                    match external {
                        Some(_) => contents.1,
                        None => contents.0,
                    },
                );
                // The program for three rows would be compiled from the file.
                for rows in [1, 3, 3, 3, 1] {
                    assert_eq!(first(&program, &mut session, rows), 3.0);
                }
                let tiers = program.tiers();
                assert!(tiers.contains("not used: the file has changed"), "{tiers}");
            }
        }
    }
}

/// Changes a file when the first pass begins, when large tensors have not been read yet.
struct Change {
    path: PathBuf,
    contents: Vec<u8>,
}

impl PassInstrument for Change {
    fn before(&self, _: &str, _: &Module) -> Result<bool, String> {
        std::fs::write(&self.path, &self.contents).map(|()| true).map_err(|e| e.to_string())
    }
}

#[test]
fn a_file_that_changes_while_it_is_loaded_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, weights) = (folder.path().join("m.onnx"), folder.path().join("weights.bin"));
    for external in [None, Some("weights.bin")] {
        let [(old, old_data), (new, new_data)] = [2.0, 3.0].map(|bias| model(bias, 0, external));
        let (changed, before, after) = match external {
            None => (&path, &old, new),
            Some(_) => (&weights, &old_data, new_data),
        };
        // A file cut short has no bytes to read, and another has other ones.
        for contents in [vec![], after, before[..before.len() / 2].to_vec()] {
            overwrite(&path, &old);
            overwrite(&weights, &old_data);
            let change = Arc::new(Change { path: changed.clone(), contents });
            let pipeline = Pipeline::default().instrument(change);
            let engine = Engine::builder().pipeline(pipeline).build().expect("an engine");
            let refused = engine.load(&path).err().expect("is refused");
            assert!(refused.to_string().contains("weights of the model"), "{refused}");
        }
    }
}

/// A file that is renamed over the model's is another one: mapped models do not see it either.
#[test]
fn a_file_that_is_replaced_changes_no_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, next) = (folder.path().join("m.onnx"), folder.path().join("next.onnx"));
    for access in [FileAccess::Read, FileAccess::Map] {
        for external in [None, Some("weights.bin")] {
            let [(old, data), (new, _)] = [2.0, 3.0].map(|bias| model(bias, 0, external));
            overwrite(&path, &old);
            overwrite(&folder.path().join("weights.bin"), &data);
            let engine = engine(access);
            let program = engine.load(&path).expect("loads");
            let mut session = program.session(Mode::Tiered).expect("a session");
            assert_eq!(first(&program, &mut session, 2), 3.0);
            overwrite(&next, &new);
            std::fs::rename(&next, &path).expect("renames");
            for rows in [2, 5, 5, 5] {
                assert_eq!(first(&program, &mut session, rows), 3.0);
            }
            assert!(program.tiers().contains("not used: the file has changed"));
        }
    }
}

/// A file that is not changed is read again for new shapes, external data included.
#[test]
fn a_file_that_stays_serves_new_shapes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m.onnx");
    for access in [FileAccess::Read, FileAccess::Map] {
        for external in [None, Some("weights.bin")] {
            let (bytes, data) = model(2.0, 0, external);
            overwrite(&path, &bytes);
            overwrite(&folder.path().join("weights.bin"), &data);
            assert_specialised(&engine(access).load(&path).expect("loads"));
        }
    }
}

/// A model in memory gets what a file gets: programs for new shapes, external data, artifacts.
#[test]
fn models_in_memory_are_as_good_as_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine(FileAccess::Read);
    for external in [None, Some("weights.bin")] {
        let (bytes, data) = model(2.0, 0, external);
        overwrite(&folder.path().join("weights.bin"), &data);
        let source = ModelSource::bytes(ModelFormat::Onnx, bytes).named("the bundle");
        if external.is_some() {
            let error = engine.load(source.clone()).err().expect("its data is missing").to_string();
            assert!(error.starts_with("the bundle: tensor `b`: "), "{error}");
        }
        let source = source.external_data(folder.path());
        let info = Engine::info(source.clone()).expect("readable");
        assert_eq!(
            (info.inputs[0].to_string(), info.parameters),
            (format!("x: float32[n, {WIDTH}]"), WIDTH as u64)
        );
        assert!(engine.dump_after(source.clone(), "fold_constants").is_ok());
        assert!(Engine::script(source.clone()).expect("text").contains("R.add"));
        let program = engine.load(source).expect("loads");
        assert_specialised(&program);
        let path = folder.path().join("m.so");
        program.save(&path).expect("saved");
        let library = std::fs::read(&path).expect("readable");
        std::fs::remove_file(&path).expect("removable");
        let source = || ModelSource::reader(ModelFormat::Library, &library[..]).expect("readable");
        let opened = [engine.load(source()), engine.load(source())].map(|p| p.expect("opens"));
        for program in &opened {
            let mut session = program.session(Mode::Compiled).expect("a session");
            assert_eq!(first(program, &mut session, 2), 3.0);
        }
        assert!(Engine::info(source()).expect("readable").file_bytes == library.len() as u64);
        let error = engine.load(ModelSource::bytes(ModelFormat::Library, &library[..999])).err();
        let error = error.expect("it is cut short").to_string();
        assert!(error.starts_with("the library in memory: "), "{error}");
    }
}

/// A store gives a model and its external data by name, once, and is not asked for what is outside the
/// model's folder.
#[test]
fn models_of_a_store_are_as_good_as_files() {
    let engine = engine(FileAccess::Read);
    for external in [None, Some("weights/a.bin"), Some("./weights/a.bin")] {
        let (bytes, data) = model(2.0, 0, external);
        let mut asked = vec![];
        let source = ModelSource::store("sealed/m.onnx", |name| {
            asked.push(name.to_owned());
            Ok(if asked.len() == 1 { bytes.clone() } else { data.clone() })
        });
        let names = ["sealed/m.onnx", "sealed/weights/a.bin"];
        assert_eq!(asked, names[..if external.is_some() { 2 } else { 1 }]);
        let source = source.expect("readable");
        let info = Engine::info(source.clone()).expect("readable");
        assert_eq!(info.parameters, WIDTH as u64);
        let program = engine.load(source).expect("loads");
        assert_specialised(&program);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.so");
        program.save(&path).expect("saved");
        let library = std::fs::read(&path).expect("readable");
        let source = ModelSource::store("sealed/m.so", |_| Ok(library.clone()));
        let program = engine.load(source.expect("readable")).expect("opens");
        let mut session = program.session(Mode::Compiled).expect("a session");
        assert_eq!(first(&program, &mut session, 2), 3.0);
    }
}

#[test]
fn errors_of_a_store_name_what_was_asked_for() {
    let error = |name: &str, external: &str, fails: &str| {
        let (bytes, data) = model(2.0, 0, Some(external));
        let source = ModelSource::store(name, |asked| match asked {
            _ if asked == fails => Err(std::io::Error::other("the key is wrong")),
            _ if asked == name => Ok(bytes.clone()),
            _ if asked.ends_with(external) => Ok(data[1..].to_vec()),
            _ => panic!("asked for {asked}"),
        });
        let loaded = source.and_then(|source| Engine::new()?.load(source));
        loaded.err().expect("fails").to_string()
    };
    assert_eq!(error("s/m.onnx", "w", "s/m.onnx"), "s/m.onnx: the key is wrong");
    assert_eq!(error("s/m.onnx", "w", "s/w"), "s/m.onnx: s/w: the key is wrong");
    let short = error("s/m.onnx", "w", "");
    let has = format!("s/m.onnx: tensor `b`: external data: `w` has {} bytes", 4 * WIDTH - 1);
    assert!(short.starts_with(&has), "{short}");
    for outside in ["../w", "/etc/passwd", "a/../../w"] {
        let message = error("s/m.onnx", outside, "");
        assert!(message.starts_with("s/m.onnx: tensor `b`: external data: "), "{message}");
        assert!(message.ends_with("leaves the model's folder"), "{message}");
    }
    let unknown = error("s/m.txt", "w", "");
    assert!(unknown.starts_with("s/m.txt: not a model by its name"), "{unknown}");
    let damaged = ModelSource::store("s/m.onnx", |_| Ok(b"not a model".to_vec())).err();
    let damaged = damaged.expect("fails").to_string();
    assert!(damaged.starts_with("s/m.onnx: not an ONNX model"), "{damaged}");
}
