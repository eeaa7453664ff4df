//! Damaged and hostile archives end in an error that names the place, never in a panic.

#[path = "../../../tests/common/torch_case.rs"]
mod torch_case;

use std::io::{Cursor, Read, Write};
use std::path::Path;

use reflex_torch::{ImportErrorKind, ProgramInfo, import, import_bytes, is_archive};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

const MODEL: &str = "mlp/models/model.json";

/// The archive that the others are made of.
fn archive() -> Vec<u8> {
    std::fs::read(torch_case::folder().join("mlp.pt2")).expect("an archive")
}

/// The files of an archive with their names.
fn files() -> Vec<(String, Vec<u8>)> {
    let mut zip = ZipArchive::new(Cursor::new(archive())).expect("a zip file");
    let read = |index| {
        let mut file = zip.by_index(index).expect("a file");
        let mut bytes = vec![];
        file.read_to_end(&mut bytes).expect("bytes");
        (file.name().expect("a name").into_owned(), bytes)
    };
    (0..zip_len()).map(read).collect()
}

fn zip_len() -> usize {
    ZipArchive::new(Cursor::new(archive())).expect("a zip file").len()
}

fn packed(files: &[(String, Vec<u8>)], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(vec![]));
    for (name, bytes) in files {
        let options = SimpleFileOptions::default().compression_method(method);
        zip.start_file(name.as_str(), options).expect("a file");
        zip.write_all(bytes).expect("bytes");
    }
    zip.finish().expect("a zip file").into_inner()
}

/// An archive with one file changed.
fn changed(name: &str, change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut files = files();
    let file = files.iter_mut().find(|(known, _)| known == name).expect(name);
    change(&mut file.1);
    packed(&files, CompressionMethod::Stored)
}

/// An archive whose program has other text.
fn replaced(from: &str, to: &str) -> Vec<u8> {
    changed(MODEL, |bytes| {
        let text = String::from_utf8(bytes.clone()).expect("text");
        assert!(text.contains(from), "{from}");
        *bytes = text.replace(from, to).into_bytes();
    })
}

fn refusal(bytes: Vec<u8>) -> String {
    import_bytes(bytes.into()).expect_err("an error").to_string()
}

#[test]
fn a_good_archive_is_imported_however_it_is_packed() {
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        import_bytes(packed(&files(), method).into()).expect("a module");
    }
    assert!(is_archive(Cursor::new(archive())));
    assert!(!is_archive(Cursor::new(b"PK\x03\x04".to_vec())));
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = archive();
    for length in (0..bytes.len()).step_by(7).chain(bytes.len() - 200..bytes.len()) {
        assert!(import_bytes(bytes[..length].to_vec().into()).is_err(), "{length}");
    }
}

#[test]
fn every_flipped_byte_is_survived() {
    let bytes = archive();
    for at in (0..bytes.len()).step_by(3) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x11 << (at % 3);
        if let Ok(module) = import_bytes(damaged.into()) {
            module.read_constants().expect("weights in memory");
        }
    }
}

#[test]
fn every_truncation_of_the_program_is_an_error() {
    let length = files().iter().find(|(name, _)| name == MODEL).expect("a program").1.len();
    for end in (0..length).step_by(97) {
        let message = refusal(changed(MODEL, |bytes| bytes.truncate(end)));
        assert!(message.contains("models/model.json"), "{message}");
    }
}

#[test]
fn bad_references_are_named() {
    let cases = [
        (
            "\"outputs\": [{\"as_tensor\": {\"name\": \"relu\"",
            "\"outputs\": [{\"as_tensor\": {\"name\": \"other\"",
            "`relu` is not defined",
        ),
        ("\"parameter_name\": \"a.bias\"", "\"parameter_name\": \"a.b\"", "no tensor `a.b`"),
        ("\"as_int\": 8}", "\"as_int\": -8}", "an extent of -8"),
        ("\"dtype\": 7", "\"dtype\": 99", "unknown element type 99"),
        ("\"dtype\": 7", "\"dtype\": 8", "the graph says float64"),
        ("aten.relu.default", "aten.nothing.default", "aten.nothing.default"),
        ("\"major\": 8", "\"major\": 9", "schema 9"),
        ("aten.relu.default", "aten.cat.default", "`tensors` is missing"),
        ("{\"as_int\": 4}", "{\"as_int\": 9223372036854775807}", "tensor"),
    ];
    for (from, to, words) in cases {
        let message = refusal(replaced(from, to));
        assert!(message.contains(words), "{from} to {to}: {message}");
    }
}

#[test]
fn weights_of_other_lengths_are_refused() {
    let config = "mlp/data/weights/model_weights_config.json";
    let short = changed("mlp/data/weights/weight_0", |bytes| bytes.truncate(8));
    assert!(refusal(short).contains("tensor `a.weight`"));
    let edit = |from: &'static str, to: &'static str| {
        changed(config, move |bytes| {
            let text = String::from_utf8(bytes.clone()).expect("text");
            assert!(text.contains(from), "{from} in {text}");
            *bytes = text.replace(from, to).into_bytes();
        })
    };
    let cases = [
        (
            "\"storage_offset\": {\"as_int\": 0}",
            "\"storage_offset\": {\"as_int\": 4611686018427387904}",
        ),
        ("{\"as_int\": 8}, {\"as_int\": 4}", "{\"as_int\": 4294967296}, {\"as_int\": 4294967296}"),
        ("\"strides\": [{\"as_int\": 4}, ", "\"strides\": [{\"as_int\": 9223372036854775807}, "),
        ("\"strides\": [{\"as_int\": 4}, ", "\"strides\": [{\"as_int\": -4}, "),
        ("weight_0", "../weights/weight_0"),
        ("weight_0", "weight_77"),
        ("\"use_pickle\": false", "\"use_pickle\": true"),
    ];
    for (from, to) in cases {
        let message = refusal(edit(from, to));
        assert!(message.contains("tensor `a."), "{to}: {message}");
    }
}

#[test]
fn what_inflates_without_end_is_refused() {
    let mut files = files();
    let file = files.iter_mut().find(|(name, _)| name == MODEL).expect("a program");
    file.1 = vec![b' '; 200 << 20];
    let bomb = packed(&files, CompressionMethod::Deflated);
    assert!(bomb.len() < 1 << 20);
    assert!(refusal(bomb).contains("inflated"));
}

#[test]
fn json_nested_without_end_is_refused() {
    let nested = |bytes: &mut Vec<u8>| *bytes = "[".repeat(1 << 20).into_bytes();
    assert!(import_bytes(changed(MODEL, nested).into()).is_err());
    let graphs = "{\"graph_module\": {\"graph\": {\"nodes\": [{\"target\": \"x\", \"outputs\": [], \"inputs\": [{\"arg\": {\"as_graph\": ".repeat(5000);
    assert!(
        import_bytes(changed(MODEL, |bytes| *bytes = graphs.clone().into_bytes()).into()).is_err()
    );
}

#[test]
fn other_archives_are_refused_with_a_remedy() {
    let other = |name: &str| packed(&[(name.to_owned(), vec![])], CompressionMethod::Stored);
    for (name, words) in [
        ("serialized_exported_program.json", "PyTorch before 2.8"),
        ("m/constants.pkl", "TorchScript"),
        ("m/data.pkl", "pickled objects"),
        ("m/other", "archive_format"),
    ] {
        let message = refusal(other(name));
        assert!(message.contains(words), "{message}");
    }
    let format = changed("mlp/archive_format", |bytes| *bytes = b"pt3".to_vec());
    assert!(refusal(format).contains("pt3"));
    let order = changed("mlp/byteorder", |bytes| *bytes = b"big".to_vec());
    assert!(refusal(order).contains("byte order"));
}

#[test]
fn unreadable_files_name_the_path() {
    let error = import(Path::new("/nowhere/model.pt2")).unwrap_err();
    assert_eq!(error.kind(), ImportErrorKind::Io);
    assert!(error.to_string().contains("/nowhere/model.pt2"));
    assert!(import(Path::new(env!("CARGO_MANIFEST_DIR"))).is_err());
    assert!(ProgramInfo::read(Path::new("/nowhere/model.pt2")).is_err());
}
