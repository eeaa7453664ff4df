//! The arrows of ARCHITECTURE.md, between crates and between modules, and what must be absent.

#[path = "common/imports.rs"]
mod imports;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use imports::Imports;

/// Crate, and the reflex crates it may depend on directly (outside tests).
const ARROWS: [(&str, &[&str]); 23] = [
    ("reflex-runtime", &[]),
    ("reflex-vm", &["reflex-runtime"]),
    ("reflex-relay", &["reflex-vm", "reflex-runtime"]),
    ("reflex-tir", &["reflex-runtime"]),
    ("reflex-graph", &["reflex-tir", "reflex-runtime"]),
    ("reflex-onnx", &["reflex-graph", "reflex-tir", "reflex-runtime"]),
    ("reflex-torch", &["reflex-graph", "reflex-tir", "reflex-runtime"]),
    ("reflex-lower", &["reflex-graph", "reflex-tir", "reflex-vm", "reflex-runtime"]),
    ("reflex-rpc", &["reflex-runtime"]),
    ("reflex-cuda", &["reflex-runtime"]),
    ("reflex-node", &[]),
    ("reflex-reflect", &["reflex-graph", "reflex-node", "reflex-tir"]),
    ("reflex-triton", &["reflex"]),
    ("reflex-codemem", &[]),
    ("reflex-ptx", &[]),
    ("reflex-libcuda", &["reflex-ptx"]),
    (
        "reflex-cuda-check",
        &["reflex", "reflex-cuda", "reflex-onnx", "reflex-runtime", "reflex-ptx"],
    ),
    ("reflex-cranelift", &["reflex-vm", "reflex-runtime", "reflex-codemem"]),
    ("reflex-baseline", &["reflex-tir", "reflex-runtime"]),
    ("reflex-source", &["reflex-tir", "reflex-runtime"]),
    ("reflex-llvm", &["reflex-tir", "reflex-runtime", "reflex-codemem"]),
    (
        "reflex-fuzz",
        &[
            "reflex",
            "reflex-cranelift",
            "reflex-vm",
            "reflex-relay",
            "reflex-lower",
            "reflex-graph",
            "reflex-onnx",
            "reflex-torch",
            "reflex-node",
            "reflex-reflect",
            "reflex-tir",
            "reflex-rpc",
            "reflex-runtime",
        ],
    ),
    (
        "reflex",
        &[
            "reflex-runtime",
            "reflex-vm",
            "reflex-relay",
            "reflex-tir",
            "reflex-graph",
            "reflex-onnx",
            "reflex-torch",
            "reflex-lower",
            "reflex-rpc",
            "reflex-cuda",
            "reflex-node",
            "reflex-reflect",
            "reflex-codemem",
            "reflex-baseline",
            "reflex-source",
            "reflex-cranelift",
        ],
    ),
];

/// Crates whose source may hold no `unsafe`.
const SAFE: [&str; 10] = [
    "jit/source",
    "src/relay",
    "src/tir",
    "src/graph",
    "src/onnx",
    "src/torch",
    "src/lower",
    "src/node",
    "src/reflect",
    "tests/ptx",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The only platform so far; packages of others need not be downloaded.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Normal dependencies of every package that cargo resolves, by name.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", PLATFORM])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let name_of = |id: &serde_json::Value| {
        let packages = metadata["packages"].as_array().expect("packages");
        let package = packages.iter().find(|p| p["id"] == *id).expect("listed");
        package["name"].as_str().expect("a name").to_string()
    };
    let nodes = metadata["resolve"]["nodes"].as_array().expect("nodes");
    let normal = |dep: &&serde_json::Value| {
        let kinds = dep["dep_kinds"].as_array().expect("kinds");
        kinds.iter().any(|k| k["kind"].is_null())
    };
    nodes
        .iter()
        .map(|node| {
            let deps = node["deps"].as_array().expect("deps");
            let names = deps.iter().filter(normal).map(|d| name_of(&d["pkg"])).collect();
            (name_of(&node["id"]), names)
        })
        .collect()
}

/// Everything reachable from a package.
fn closure(all: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let (mut seen, mut queue) = (BTreeSet::new(), vec![from.to_string()]);
    while let Some(name) = queue.pop() {
        for dep in &all[&name] {
            if seen.insert(dep.clone()) {
                queue.push(dep.clone());
            }
        }
    }
    seen
}

#[test]
fn arrows_point_left() {
    let all = dependencies();
    for (name, allowed) in ARROWS {
        let ours = all[name].iter().filter(|d| d.starts_with("reflex"));
        let extra: Vec<_> = ours.filter(|d| !allowed.contains(&d.as_str())).collect();
        assert!(extra.is_empty(), "{name} must not depend on {extra:?}");
    }
    let known: BTreeSet<_> = ARROWS.iter().map(|(name, _)| *name).collect();
    let ours = all.keys().filter(|n| *n == "reflex" || n.starts_with("reflex-"));
    let unlisted: Vec<_> = ours.filter(|n| !known.contains(n.as_str())).collect();
    assert!(unlisted.is_empty(), "crates without a row in ARROWS: {unlisted:?}");
}

#[test]
fn only_codegen_links_llvm() {
    let all = dependencies();
    for (name, _) in ARROWS {
        let links = closure(&all, name).iter().any(|d| d == "llvm-sys");
        assert_eq!(links, name == "reflex-llvm", "{name}");
    }
}

#[test]
fn deployable_crates_know_no_compiler() {
    let all = dependencies();
    let absent = [
        "reflex-tir",
        "reflex-graph",
        "reflex-onnx",
        "reflex-torch",
        "reflex-lower",
        "prost",
        "zip",
    ];
    for name in ["reflex-runtime", "reflex-vm", "reflex-rpc", "reflex-cranelift"] {
        let reach = closure(&all, name);
        let found: Vec<_> = absent.iter().filter(|a| reach.contains(**a)).collect();
        assert!(found.is_empty(), "{name} reaches {found:?}");
    }
    assert!(
        !closure(&all, "reflex-vm").iter().any(|d| d.starts_with("cranelift")),
        "vm emits code"
    );
}

/// Packages that the facade is built from with some features.
fn with_features(features: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--package", "reflex", "--edges", "normal"])
        .args(["--target", PLATFORM, "--prefix", "none", "--format", "{p}"])
        .args(["--no-default-features", "--features", features])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn what_opens_artifacts_alone_is_small() {
    let own = |packages: BTreeSet<String>| -> Vec<String> {
        packages.into_iter().filter(|name| name.starts_with("reflex-")).collect()
    };
    let artifacts = ["reflex-runtime", "reflex-tir", "reflex-vm"];
    let packages = with_features("");
    for absent in
        ["prost", "ruff_python_parser", "cranelift-codegen", "rustls", "clap", "regex-lite"]
    {
        assert!(!packages.contains(absent), "{absent}");
    }
    assert_eq!(own(packages), artifacts);
    let jit = ["reflex-codemem", "reflex-cranelift"];
    assert_eq!(own(with_features("jit")), [&jit[..], &artifacts].concat());
    let models = with_features("onnx,cranelift");
    for absent in ["rustls", "clap", "reflex-rpc", "reflex-cuda", "reflex-node", "reflex-reflect"] {
        assert!(!models.contains(absent), "{absent}");
    }
    // The default needs no LLVM either, and decompresses by Deflate alone.
    let default = with_features("default");
    for absent in ["llvm-sys", "zstd-sys", "bzip2-sys"] {
        assert!(!default.contains(absent), "{absent}");
    }
}

#[test]
fn compiler_crates_forbid_unsafe() {
    for dir in SAFE {
        let lib = std::fs::read_to_string(root().join(dir).join("lib.rs")).expect("lib.rs");
        assert!(lib.contains("#![forbid(unsafe_code)]"), "{dir}/lib.rs");
    }
}

/// The modules of a crate: where it lies, and its layers.
struct Layout {
    dir: &'static str,
    /// Modules below the crate root, one string a layer, the lowest first. A module imports its
    /// own layer and those before it. The root itself only re-exports.
    layers: &'static [&'static str],
    /// The most files that may import each other in a circle.
    circle: usize,
}

const LAYOUTS: [Layout; 23] = [
    Layout {
        dir: "src/runtime",
        layers: &[
            "dtype exported_symbols file_bytes fp page simd split_mix timing",
            "abi amx",
            "aligned_bytes alloc error function host late_file no_host object shape string type_info types value",
            "array bundle closure device map module storage threads",
            "tensor",
            "dlpack text",
            "contrib",
            "registry",
            "backend exports legacy library",
        ],
        // Values hold objects that hold values.
        circle: 9,
    },
    Layout {
        dir: "src/vm",
        layers: &[
            "bytecode devices instrument membarrier mode native_stack no_membarrier no_native_stack output_buffers \
             run_error stack stack_on_heap",
            "abi executable profile",
            "kernel serialize text watched",
            // A session's state, its frames and what runs in them.
            "align builtins call_graph call_sites calls decode epoch fast_path hooks interp listing \
             liveness program reentry state tier verify",
            "builder fingerprint libcalls quiescence unwind vmtir",
            "load session",
        ],
        circle: 3,
    },
    Layout {
        dir: "src/relay",
        layers: &[
            "executable host instr",
            "bytes kernels print read",
            "params text verify write",
            "builder lower",
        ],
        circle: 4,
    },
    Layout {
        dir: "src/tir",
        layers: &[
            "half_float thread",
            "mma",
            "abi adjacent argument_checks arith box_copy builder expr flops index_width launch packed_call pipeline tile uses visit",
            "body_copy codegen eval func lower verify",
            "host level op_pattern schedule script tensor_intrin",
            "fuzzgen schedule_trace",
        ],
        // Parts of the analyser, which is one type.
        circle: 6,
    },
    Layout {
        dir: "src/graph",
        layers: &[
            "dim_text dims op registered_op strides",
            "block_quantized func_type infer literal visit",
            "builder constant_pool registered saved_tensor verify",
            "ir relay script",
            "bind_symbolic_vars eval print",
            "pattern",
        ],
        circle: 4,
    },
    Layout {
        dir: "src/onnx",
        layers: &[
            "error opset proto value",
            "dim external_data model_file",
            "narrow strings",
            "call custom fold function node_order registered tensor",
            "model",
            "context",
            "case_value emit half_precision moved_integers moved_strings narrow_cast objects ops",
            "import operator_table",
            "info quantize",
        ],
        circle: 1,
    },
    Layout {
        dir: "src/torch",
        layers: &[
            "error schema sym_expr target value",
            "archive call dtype",
            "aliases weights",
            "context",
            "emit ops",
            "operator_table program",
            "import",
            "info",
        ],
        circle: 1,
    },
    Layout {
        dir: "src/lower",
        layers: &[
            "error extent interface kernel_cache kernel_name kernel_packs layout optimize_for parallel precision",
            "bytecode codegen_process content_digest graph kernel_source schedule winograd",
            "packing",
            "legalize",
            "fuse schedule_by_trace",
            "passes",
            "dispatch pipeline",
            "compile",
            "program_cache",
        ],
        circle: 1,
    },
    Layout {
        dir: "src/node",
        layers: &["graph path reader table", "builder equal_rules writer", "hash json", "equal"],
        circle: 1,
    },
    // An exporter and its parts; a reader and the error that names a node by its text.
    Layout { dir: "src/reflect", layers: &["error table", "export", "import"], circle: 4 },
    Layout {
        dir: "src/rpc",
        layers: &[
            "content fault limits names",
            "handshake secure store wire",
            "handles",
            "client proxy serve tracker",
        ],
        // A client's session, its values and its functions.
        circle: 4,
    },
    Layout {
        dir: "src/cuda",
        layers: &[
            "blocks call driver images launches settings",
            "staging streams tensor_maps",
            "gpu pool",
            "facts graph module",
            "cuda_device tvm",
        ],
        // A device and its memory, each with the errors of the device.
        circle: 2,
    },
    Layout {
        dir: "src/triton",
        layers: &[
            "batch datatype ffi",
            "config large_outputs server",
            "tensors watch model",
            "instance",
            "entry",
        ],
        circle: 1,
    },
    Layout {
        dir: "jit/codemem",
        layers: &[
            "error gdb instruction_cache jitdump machine perf_map",
            "call_cells imports pages",
            "object_file",
            "link",
            "resolve",
            "elf elf_writer relocate",
        ],
        circle: 2,
    },
    Layout {
        dir: "jit/cranelift",
        layers: &[
            "error facts forced_exits penalty usage",
            "options side_exits",
            "assemble",
            "emit trampolines",
            "recycle",
            "method trace",
            "report saved_code worker",
            "store",
            "evict",
            "compiler",
            "tier",
            "overview",
        ],
        circle: 3,
    },
    Layout {
        dir: "jit/baseline",
        layers: &[
            "effort error hoist position",
            "micro_kernel target",
            "unit",
            "emit",
            "shared_code",
            "cpu",
        ],
        circle: 1,
    },
    Layout {
        dir: "jit/source",
        layers: &["error", "dialect names", "helpers", "print", "cpu", "gpu"],
        circle: 1,
    },
    Layout { dir: "jit/llvm", layers: &["error passes process", "emit", "cpu nvptx"], circle: 1 },
    Layout {
        dir: "tests/ptx",
        layers: &[
            "fault num options parse tensor_map",
            "mem op",
            "counters decode",
            "exec module",
            "device",
        ],
        circle: 1,
    },
    Layout {
        dir: "tests/libcuda",
        layers: &["plan status tensor_maps", "memory streams", "driver", "api"],
        circle: 1,
    },
    Layout {
        dir: "tests/cuda_check",
        layers: &[
            "bare_driver buffers compare facts packed",
            "ceilings probes programs report",
            "check import pack",
            "cli",
        ],
        circle: 1,
    },
    Layout {
        dir: "src",
        layers: &[
            "error global_func install ir jit library_function log memory no_onnx prepared schedule \
             target tier_report whole_file",
            "array baseline bound_dims disassemble dispatch dump kernels model_source operators passes tier_policy",
            "numpy options signature stats",
            "model_info",
            "artifact program session specialise",
            "compiler no_compiler shared_session",
            "stored",
            "engine",
            "module",
            "capi conformance ndarray_interop quantize remote serve",
            "cli",
        ],
        circle: 1,
    },
    Layout {
        dir: "fuzz",
        layers: &[
            "dig host kernels mutate nodes programs rpc schedules scripts tracker watcher",
            "blobs graphs models oracles",
            "facade relay",
        ],
        circle: 2,
    },
];

fn imports_of(dir: &str) -> Imports {
    let others = LAYOUTS.iter().map(|layout| layout.dir);
    let below = others.filter(|other| *other != dir && other.starts_with(dir));
    let mut skip: Vec<_> = below.map(|other| root().join(other)).collect();
    // Programs of their own, and what cargo builds.
    skip.extend(["fuzz_targets", "target"].map(|folder| root().join(dir).join(folder)));
    let imports = Imports::read(&root().join(dir), &skip);
    assert!(imports.edges.len() > 3, "{dir} was not read");
    imports
}

#[test]
fn circles_of_imports_stay_small() {
    for Layout { dir, circle: most, .. } in LAYOUTS {
        for circle in imports_of(dir).circles() {
            let names: Vec<_> = circle.iter().map(|module| module.join("::")).collect();
            let count = names.len();
            assert!(count <= most, "{dir}: {count} files import each other: {names:?}");
        }
    }
}

#[test]
fn modules_import_their_layer_and_those_below() {
    let mut faults = vec![];
    for Layout { dir, layers, .. } in LAYOUTS {
        let rows = layers.iter().enumerate();
        let layer_of: BTreeMap<&str, usize> =
            rows.flat_map(|(at, row)| row.split_whitespace().map(move |name| (name, at))).collect();
        let imports = imports_of(dir);
        let seen: BTreeSet<&str> =
            imports.edges.keys().filter_map(|module| module.first()).map(String::as_str).collect();
        for name in layer_of.keys().filter(|name| !seen.contains(**name)) {
            faults.push(format!("{dir}: {name} is listed and not there"));
        }
        for name in seen.iter().filter(|name| !layer_of.contains_key(**name)) {
            faults.push(format!("{dir}: {name} has no layer in LAYOUTS"));
        }
        for (from, targets) in &imports.edges {
            let Some(from_layer) = from.first().and_then(|name| layer_of.get(name.as_str())) else {
                continue;
            };
            for to in targets {
                let to_layer = to.first().and_then(|name| layer_of.get(name.as_str()));
                if to_layer.is_some_and(|to_layer| to_layer > from_layer) {
                    let (from, to) = (from.join("::"), to.join("::"));
                    faults.push(format!("{dir}: {from} must not import {to}, which lies above"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
