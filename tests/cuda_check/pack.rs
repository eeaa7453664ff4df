//! Writes the folder: programs as libraries with PTX, probes of the instructions that they have, inputs
//! and expected outputs.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use reflex::{
    Array, Engine, EngineBuilder, Feed, Mode, ModelFormat, ModelSource, Precision, Program, numpy,
};
use reflex_ptx::Arch;

use crate::compare::hash;
use crate::packed::{
    ANCHORS, Case, DATA, Expected, Input, Manifest, Pack, Probe, Span, TensorType, VERSION, seeded,
};
use crate::probes;

/// The GPU that programs are compiled for: their PTX runs on every later one.
const GPU: &str = "cuda:sm_80";
/// The architecture that programs have cubins for, where there is a `ptxas`.
const CUBINS: &str = "sm_90";
/// The GPU and the cubins of programs with instructions of Hopper alone.
const HOPPER: &str = "cuda:sm_90a";
const HOPPER_CUBINS: &str = "sm_90a";
/// Outputs of at most so many bytes are packed, so that a difference can be shown.
const SHOWN: usize = 64 << 10;
/// Most bytes of a folder.
const MOST: u64 = 60 << 20;

/// Arguments of `pack`.
#[derive(Args)]
pub struct PackArgs {
    /// The folder to write, which does not exist.
    folder: PathBuf,
    /// ONNX's node cases, and the list of those to pack.
    #[arg(long, requires = "list")]
    cases: Option<PathBuf>,
    /// Lines of a status and a case; those that pass are packed.
    #[arg(long)]
    list: Option<PathBuf>,
    /// Folder of models, with that of their inputs.
    #[arg(long, requires = "refs")]
    models: Option<PathBuf>,
    /// Folder of inputs of models.
    #[arg(long)]
    refs: Option<PathBuf>,
    /// Pack a few small programs alone, for an interpreter.
    #[arg(long)]
    small: bool,
    /// The program that checks (default: this one).
    #[arg(long)]
    program: Option<PathBuf>,
}

/// A program of this repository, with inputs by seed.
struct Shape {
    name: &'static str,
    text: &'static str,
    inputs: &'static [(&'static str, &'static [i64])],
    /// Extents that the text has names for, and the program is compiled for.
    known: &'static [(&'static str, i64)],
    /// Whether an interpreter runs it in a moment.
    is_small: bool,
    /// Type of the inputs, in the place of float32.
    dtype: &'static str,
    /// Rows of the first input, `m` of them, that alone are computed on the CPU.
    rows: Option<i64>,
    /// The GPU that it is compiled for.
    gpu: &'static str,
    precision: Precision,
}

const MATMUL: &str = include_str!("programs/matmul.py");
const MATMUL_PART: &str = include_str!("programs/matmul_part.py");
const SOFTMAX: &str = include_str!("../../examples/softmax.py");
const REDUCE: &str = include_str!("programs/reduce.py");
const NORM: &str = include_str!("programs/norm.py");
const CONV: &str = include_str!("programs/conv.py");
const ATTENTION: &str = include_str!("programs/attention.py");
const CONV_CHAIN: &str = include_str!("programs/conv_chain.py");

/// Shapes of each class of schedules: whole tiles, tails, and one row; of known extents, and of any.
const SHAPES: [Shape; 41] = [
    shape("matmul_ragged", MATMUL, &[("x", &[33, 17]), ("w", &[17, 65])], &[], true),
    shape("softmax_small", SOFTMAX, &[("x", &[5, 70])], &[], true),
    shape("reduce_small", REDUCE, &[("x", &[19, 37])], &[], true),
    shape("matmul_tails", MATMUL, &[("x", &[257, 129]), ("w", &[129, 511])], &[], false),
    shape("softmax_rows", SOFTMAX, &[("x", &[1000, 777])], &[], false),
    shape("reduce_large", REDUCE, &[("x", &[1023, 1025])], &[], false),
    shape("layer_norm", NORM, &[("x", &[513, 384]), ("g", &[384]), ("b", &[384])], &[], false),
    shape("matmul_square", MATMUL, &[("x", &[512, 512]), ("w", &[512, 512])], &cube(512), false),
    shape(
        "matmul_row",
        MATMUL,
        &[("x", &[1, 1024]), ("w", &[1024, 768])],
        &[("m", 1), ("k", 1024), ("n", 768)],
        false,
    ),
    shape(
        "matmul_large",
        MATMUL,
        &[("x", &[2048, 2048]), ("w", &[2048, 2048])],
        &cube(2048),
        false,
    ),
    shape("matmul_any", MATMUL, &[("x", &[2048, 2048]), ("w", &[2048, 2048])], &[], false),
    shape("softmax_large", SOFTMAX, &[("x", &[16384, 1024])], &[("m", 16384), ("n", 1024)], false),
    shape("softmax_long", SOFTMAX, &[("x", &[256, 65536])], &[("m", 256), ("n", 65536)], false),
    shape("softmax_any", SOFTMAX, &[("x", &[16384, 1024])], &[], false),
    shape("reduce_larger", REDUCE, &[("x", &[4096, 4096])], &[("m", 4096), ("n", 4096)], false),
    shape(
        "layer_norm_large",
        NORM,
        &[("x", &[65536, 384]), ("g", &[384]), ("b", &[384])],
        &[],
        false,
    ),
    shape("conv_3x3", CONV, &[("x", &[1, 32, 28, 28]), ("w", &[64, 32, 3, 3])], &[], false),
    halves(
        "matmul_f16_small",
        "float16",
        &[("x", &[40, 24]), ("w", &[24, 36])],
        &[("m", 40), ("k", 24), ("n", 36)],
        true,
    ),
    halves(
        "matmul_bf16_ragged",
        "bfloat16",
        &[("x", &[33, 17]), ("w", &[17, 65])],
        &[("m", 33), ("k", 17), ("n", 65)],
        true,
    ),
    halves(
        "matmul_bf16_square",
        "bfloat16",
        &[("x", &[512, 512]), ("w", &[512, 512])],
        &cube(512),
        false,
    ),
    halves(
        "matmul_bf16_large",
        "bfloat16",
        &[("x", &[2048, 2048]), ("w", &[2048, 2048])],
        &cube(2048),
        false,
    ),
    halves(
        "matmul_f16_large",
        "float16",
        &[("x", &[4096, 4096]), ("w", &[4096, 4096])],
        &cube(4096),
        false,
    ),
    halves(
        "matmul_bf16_larger",
        "bfloat16",
        &[("x", &[8192, 8192]), ("w", &[8192, 8192])],
        &cube(8192),
        false,
    ),
    shape(
        "gemv_small",
        MATMUL,
        &[("x", &[3, 130]), ("w", &[130, 66])],
        &[("m", 3), ("k", 130), ("n", 66)],
        true,
    ),
    halves(
        "gemv_bf16",
        "bfloat16",
        &[("x", &[1, 4096]), ("w", &[4096, 4096])],
        &[("m", 1), ("k", 4096), ("n", 4096)],
        false,
    ),
    halves(
        "gemv_f16_rows",
        "float16",
        &[("x", &[8, 4096]), ("w", &[4096, 11008])],
        &[("m", 8), ("k", 4096), ("n", 11008)],
        false,
    ),
    attention("attention_small", "float32", &SMALL, true),
    attention("attention_f32", "float32", &LONG, false),
    attention("attention_f16_small", "float16", &SMALL, true),
    attention("attention_bf16", "bfloat16", &LONG, false),
    attention("attention_row", "bfloat16", &ROW, false),
    conv_chain("conv_f16"),
    on_hopper(conv_chain("conv_f16_sm90a")),
    by_terms(
        "matmul_terms_large_sm90a",
        &[("x", &[2048, 2048]), ("w", &[2048, 2048])],
        &cube(2048),
        128,
    ),
    by_terms(
        "matmul_terms_larger_sm90a",
        &[("x", &[4096, 4096]), ("w", &[4096, 4096])],
        &cube(4096),
        32,
    ),
    by_terms(
        "matmul_terms_tails_sm90a",
        &[("x", &[1000, 1090]), ("w", &[1090, 4001])],
        &[("m", 1000), ("k", 1090), ("n", 4001)],
        32,
    ),
    on_hopper(halves(
        "matmul_bf16_large_sm90a",
        "bfloat16",
        &[("x", &[2048, 2048]), ("w", &[2048, 2048])],
        &cube(2048),
        false,
    )),
    on_hopper(halves(
        "matmul_f16_large_sm90a",
        "float16",
        &[("x", &[4096, 4096]), ("w", &[4096, 4096])],
        &cube(4096),
        false,
    )),
    on_hopper(halves(
        "matmul_bf16_tails_sm90a",
        "bfloat16",
        &[("x", &[4000, 1096]), ("w", &[1096, 5000])],
        &[("m", 4000), ("k", 1096), ("n", 5000)],
        false,
    )),
    on_hopper(halves(
        "matmul_bf16_larger_sm90a",
        "bfloat16",
        &[("x", &[8192, 8192]), ("w", &[8192, 8192])],
        &cube(8192),
        false,
    )),
    // An operand that begins inside of a tensor has no boxes: copies by all threads, beside those by TMA above.
    on_hopper(Shape {
        text: MATMUL_PART,
        ..halves(
            "matmul_bf16_part_sm90a",
            "bfloat16",
            &[("x", &[8192, 8192]), ("w", &[8192, 8200])],
            &[("m", 8192)],
            false,
        )
    }),
];

const fn cube(n: i64) -> [(&'static str, i64); 3] {
    [("m", n), ("k", n), ("n", n)]
}

const fn shape(
    name: &'static str,
    text: &'static str,
    inputs: &'static [(&'static str, &'static [i64])],
    known: &'static [(&'static str, i64)],
    is_small: bool,
) -> Shape {
    let precision = Precision::F32;
    Shape { name, text, inputs, known, is_small, dtype: "float32", rows: None, gpu: GPU, precision }
}

/// A program with instructions of Hopper alone.
const fn on_hopper(shape: Shape) -> Shape {
    Shape { gpu: HOPPER, ..shape }
}

/// A product of float32 by split-bf16, whose first rows are compared: enough that the rule takes them too.
const fn by_terms(
    name: &'static str,
    inputs: &'static [(&'static str, &'static [i64])],
    known: &'static [(&'static str, i64)],
    rows: i64,
) -> Shape {
    let shape = shape(name, MATMUL, inputs, known, false);
    on_hopper(Shape { precision: Precision::F32Fast, rows: Some(rows), ..shape })
}

/// Convolutions of float16, whose feature maps have their channels last.
const fn conv_chain(name: &'static str) -> Shape {
    Shape { dtype: "float16", ..shape(name, CONV_CHAIN, &[("x", &[8, 3, 56, 56])], &[], false) }
}

/// A product of two matrices of 16-bit floats of known extents, whose first rows are compared.
const fn halves(
    name: &'static str,
    dtype: &'static str,
    inputs: &'static [(&'static str, &'static [i64])],
    known: &'static [(&'static str, i64)],
    is_small: bool,
) -> Shape {
    Shape { dtype, rows: Some(32), ..shape(name, MATMUL, inputs, known, is_small) }
}

/// Queries, keys and values of an attention by heads, and the extents.
struct Heads {
    inputs: [(&'static str, &'static [i64]); 3],
    known: [(&'static str, i64); 4],
}

const SMALL: Heads = Heads {
    inputs: [("q", &[2, 34, 16]), ("k", &[2, 70, 16]), ("v", &[2, 70, 16])],
    known: [("h", 2), ("m", 34), ("n", 70), ("d", 16)],
};
const LONG: Heads = Heads {
    inputs: [("q", &[16, 512, 64]), ("k", &[16, 512, 64]), ("v", &[16, 512, 64])],
    known: [("h", 16), ("m", 512), ("n", 512), ("d", 64)],
};
const ROW: Heads = Heads {
    inputs: [("q", &[32, 1, 128]), ("k", &[32, 4096, 128]), ("v", &[32, 4096, 128])],
    known: [("h", 32), ("m", 1), ("n", 4096), ("d", 128)],
};

const fn attention(
    name: &'static str,
    dtype: &'static str,
    heads: &'static Heads,
    is_small: bool,
) -> Shape {
    Shape { dtype, ..shape(name, ATTENTION, &heads.inputs, &heads.known, is_small) }
}

impl Shape {
    /// The text with the extents that are known.
    fn text(&self, known: &[(&str, i64)]) -> String {
        let defines = |line: &&str| {
            !known.iter().any(|(name, _)| line.starts_with(&format!("{name} = TypeVar(")))
        };
        let text: Vec<&str> = self.text.lines().filter(defines).collect();
        let dtype = |name: &str| format!("dtype=\"{name}\"");
        let text = text.join("\n").replace(&dtype("float32"), &dtype(self.dtype));
        let extent = |text: String, (name, n): &(&str, i64)| {
            let before = ["(", " "].map(|left| format!("{left}{name}"));
            before.iter().fold(text, |text, from| {
                [",", ")"].iter().fold(text, |text, right| {
                    text.replace(&format!("{from}{right}"), &format!("{}{n}{right}", &from[..1]))
                })
            })
        };
        known.iter().fold(text, extent)
    }
}

/// Models with the file of their inputs, and whether an interpreter runs them in a moment.
pub const MODELS: [(&str, &str, bool); 7] = [
    ("surfaces_mlp", "surfaces_mlp.rows", true),
    ("silero_vad", "silero_vad.main", false),
    ("pplcnet_orient", "pplcnet_orient.main", false),
    ("magika", "magika.main", false),
    ("oww_embedding", "oww_embedding.main", false),
    ("ppocr_cls", "ppocr_cls.main", false),
    ("ppocr4_det", "ppocr4_det.sizes", false),
];

/// Every so many node cases of the list are packed for an interpreter.
const FEW: usize = 40;

/// A folder that is being written.
struct Writer {
    folder: PathBuf,
    data: File,
    /// Bytes of the data so far.
    length: u64,
    /// Compiles libraries for the GPU.
    gpu: Engine,
    /// Runs the same schedules on the CPU.
    oracle: Engine,
    forms: BTreeSet<String>,
    cases: Vec<Case>,
}

/// Writes a folder.
pub fn pack(args: &PackArgs) -> Result<(), String> {
    let folder = &args.folder;
    let at = |e: std::io::Error| format!("{}: {e}", folder.display());
    std::fs::create_dir_all(folder.parent().unwrap_or(Path::new("."))).map_err(at)?;
    std::fs::create_dir(folder).map_err(at)?;
    let engine = |builder: EngineBuilder| builder.build().map_err(text);
    let mut writer = Writer {
        folder: folder.clone(),
        data: File::create(folder.join(DATA)).map_err(at)?,
        length: 0,
        gpu: engine(for_gpu(GPU)?)?,
        oracle: engine(Engine::builder().schedule_for(GPU))?,
        forms: BTreeSet::new(),
        cases: vec![],
    };
    for shape in SHAPES.iter().filter(|shape| shape.is_small || !args.small) {
        writer.add_shape(shape)?;
    }
    if let (Some(models), Some(refs)) = (&args.models, &args.refs) {
        for (model, inputs, is_small) in MODELS {
            if is_small || !args.small {
                writer.add_model(model, &models.join(format!("{model}.onnx")), refs, inputs)?;
            }
        }
    }
    if let (Some(cases), Some(list)) = (&args.cases, &args.list) {
        let list = std::fs::read_to_string(list).map_err(|e| format!("{}: {e}", list.display()))?;
        let passing = list.lines().filter_map(|line| line.strip_prefix("pass "));
        for name in passing.step_by(if args.small { FEW } else { 1 }) {
            writer.add_node_case(name, &cases.join(name))?;
        }
    }
    writer.finish(args.program.as_deref())
}

/// The options of what compiles for the GPU.
fn for_gpu(gpu: &str) -> Result<EngineBuilder, String> {
    let cubins = if gpu == HOPPER { HOPPER_CUBINS } else { CUBINS };
    let cubins = Program::has_ptxas().map_err(text)?.then_some(cubins);
    Ok(Engine::builder().device(gpu).cubins(cubins))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Writer {
    fn add_shape(&mut self, shape: &Shape) -> Result<(), String> {
        let source = |known: &[(&str, i64)]| {
            ModelSource::bytes(ModelFormat::Script, shape.text(known).into_bytes())
        };
        let dtype = shape.dtype.parse().map_err(|_| format!("no type {}", shape.dtype))?;
        let (mut inputs, mut arrays) = (vec![], vec![]);
        for (n, (name, dims)) in shape.inputs.iter().enumerate() {
            let (seed, mut dims) = (n as u64 + 1, dims.to_vec());
            let ty = TensorType { dtype: shape.dtype.to_owned(), shape: dims.clone() };
            inputs.push(((*name).to_owned(), Input::Seeded { ty, seed }));
            if let (0, Some(rows)) = (n, shape.rows) {
                dims[0] = dims[0].min(rows);
            }
            arrays.push(((*name).to_owned(), seeded(dtype, &dims, seed)?));
        }
        let mut known = shape.known.to_vec();
        for (name, extent) in &mut known {
            if let ("m", Some(rows)) = (*name, shape.rows) {
                *extent = (*extent).min(rows);
            }
        }
        let oracle = source(&known);
        let feed = arrays.into_iter().collect();
        let rows = shape.rows.and(shape.inputs[0].1.first().copied());
        let sources = (source(shape.known), oracle);
        self.with_engines(
            shape.gpu,
            |builder| builder.precision(shape.precision),
            |writer| writer.add(shape.name, sources, inputs, feed, (true, rows)),
        )
    }

    fn add_model(
        &mut self,
        name: &str,
        model: &Path,
        refs: &Path,
        inputs: &str,
    ) -> Result<(), String> {
        let cases = numpy::read_cases(&refs.join(format!("{inputs}.npz"))).map_err(text)?;
        let case = cases.into_iter().next().ok_or_else(|| format!("{inputs}: no case"))?;
        // Programs for the shapes of the inputs: whoever deploys a model to a GPU knows them.
        let shapes: Vec<(String, Vec<i64>)> =
            case.inputs.iter().map(|(name, array)| (name.clone(), array.shape.clone())).collect();
        let inputs = self.stored(&case.inputs)?;
        let source = ModelSource::from(model);
        self.with_engines(
            GPU,
            |builder| builder.shapes(shapes.clone()),
            |writer| writer.add(name, (source.clone(), source), inputs, case.inputs, (true, None)),
        )
    }

    /// Adds programs by engines for a GPU with options of their own.
    fn with_engines(
        &mut self,
        gpu: &str,
        options: impl Fn(EngineBuilder) -> EngineBuilder,
        add: impl FnOnce(&mut Writer) -> Result<(), String>,
    ) -> Result<(), String> {
        let engine = |builder: EngineBuilder| options(builder).build().map_err(text);
        let own = [engine(for_gpu(gpu)?)?, engine(Engine::builder().schedule_for(gpu))?];
        let [for_gpu, oracle] = own;
        let general = [
            std::mem::replace(&mut self.gpu, for_gpu),
            std::mem::replace(&mut self.oracle, oracle),
        ];
        let added = add(self);
        [self.gpu, self.oracle] = general;
        added
    }

    fn add_node_case(&mut self, name: &str, folder: &Path) -> Result<(), String> {
        let model = folder.join("model.onnx");
        let program = self.oracle.load(&model).map_err(text)?;
        let mut feed = Feed::new();
        for (n, input) in program.signature("main").map_err(text)?.inputs.iter().enumerate() {
            let path = folder.join(format!("test_data_set_0/input_{n}.pb"));
            let literal = reflex_onnx::read_tensor_pb(&path).map_err(text)?;
            let (dtype, shape) = (literal.dtype(), literal.shape().to_vec());
            let data = literal.bytes().to_vec();
            feed.insert(input.name.clone(), Array { dtype, shape, data });
        }
        let inputs = self.stored(&feed)?;
        let source = ModelSource::from(model.as_path());
        self.add(name, (source.clone(), source), inputs, feed, (false, None))
    }

    /// Writes inputs to the data file.
    fn stored(&mut self, feed: &Feed) -> Result<Vec<(String, Input)>, String> {
        let store = |(name, array): (&String, &Array)| {
            let input = Input::Stored { ty: TensorType::of(array), at: self.write(&array.data)? };
            Ok((name.clone(), input))
        };
        feed.iter().map(store).collect()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<Span, String> {
        self.data.write_all(bytes).map_err(text)?;
        let span = Span { start: self.length, bytes: bytes.len() as u64 };
        self.length += span.bytes;
        Ok(span)
    }

    /// Compiles a program for the GPU, and computes outputs of another one on the CPU: of the same, or of
    /// one for the first of `rows` rows, which do not depend on others.
    fn add(
        &mut self,
        name: &str,
        (source, same): (ModelSource, ModelSource),
        inputs: Vec<(String, Input)>,
        feed: Feed,
        (is_timed, rows): (bool, Option<i64>),
    ) -> Result<(), String> {
        let failed = |e: reflex::Error| format!("{name}: {e}");
        let library = format!("{name}.so");
        let program = self.gpu.load(source.clone()).map_err(failed)?;
        program.save(self.folder.join(&library)).map_err(failed)?;
        let mut on_tensor_cores = false;
        for (_, ptx) in self.oracle.ptx(source.clone(), None).map_err(failed)? {
            on_tensor_cores |= ptx.contains("mma.sync") || ptx.contains("wgmma");
            // Instructions of Hopper alone have probes of their own.
            if !ptx.contains(".target sm_90a") {
                self.forms.extend(probes::forms(&ptx).map(str::to_owned));
            }
        }
        let oracle = self.oracle.load(same).map_err(failed)?;
        let mut outputs = vec![];
        for array in run(&oracle, &feed).map_err(failed)? {
            let data = match array.data.len() <= SHOWN {
                true => Some(self.write(&array.data)?),
                false => None,
            };
            let mut ty = TensorType::of(&array);
            let known = array.shape.iter().product::<i64>() as u64;
            if let Some(rows) = rows {
                ty.shape[0] = rows;
            }
            outputs.push(Expected { ty, known, hash: hash(&array), data });
        }
        eprintln!("packed {name}");
        let (name, file) = (name.to_owned(), library);
        let capability = on_tensor_cores.then_some((9, 0));
        self.cases.push(Case { name, file, inputs, outputs, is_timed, capability });
        Ok(())
    }

    /// A probe with the interpreter's results.
    fn probe(&mut self, form: String, ptx: String, arch: Option<Arch>) -> Result<Probe, String> {
        let words = probes::expect(&form, &ptx, arch)?;
        let hash = probes::hash_of(&form, &words);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let expected = match bytes.len() <= SHOWN {
            true => Some(self.write(&bytes)?),
            false => None,
        };
        let capability = arch.map(|arch| match arch {
            Arch::Sm80 => (8, 0),
            Arch::Sm90a => (9, 0),
        });
        Ok(Probe { form, ptx, hash, expected, capability })
    }

    /// Adds the probes, the manifest and the program.
    fn finish(mut self, program: Option<&Path>) -> Result<(), String> {
        let forms = std::mem::take(&mut self.forms);
        let mut probes = vec![];
        // What a warp does together has probes of its own.
        let alone =
            |form: &String| !probes::is_structure(form) && !probes::collective::covers(form);
        for form in forms.into_iter().filter(alone) {
            let ptx = probes::ptx(&form)?;
            probes.push(self.probe(form, ptx, None)?);
        }
        for probe in probes::collective::all() {
            let ptx = probe.ptx();
            probes.push(self.probe(probe.form, ptx, probe.arch)?);
        }
        let reflex = env!("CARGO_PKG_VERSION").to_owned();
        let manifest = Manifest { version: VERSION, reflex, probes, cases: self.cases };
        Pack::write(&self.folder, &manifest)?;
        let own = std::env::current_exe().map_err(text)?;
        std::fs::write(self.folder.join(ANCHORS), include_str!("anchors.py")).map_err(text)?;
        let copy = self.folder.join("reflex-cuda-check");
        std::fs::copy(program.unwrap_or(&own), &copy).map_err(text)?;
        std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o755)).map_err(text)?;
        let bytes = size(&self.folder)?;
        let (probes, programs) = (manifest.probes.len(), manifest.cases.len());
        let cubins = Program::has_ptxas().map_err(text)?;
        let cubins = if cubins { "with cubins" } else { "without cubins, as there is no ptxas" };
        eprintln!(
            "{probes} probes, {programs} programs {cubins}, {:.1} MiB",
            bytes as f64 / 1048576.0
        );
        match bytes <= MOST || cfg!(debug_assertions) {
            true => Ok(()),
            false => Err(format!("{}: more than {} MiB", self.folder.display(), MOST >> 20)),
        }
    }
}

/// Bytes of the files in a folder.
fn size(folder: &Path) -> Result<u64, String> {
    let entries = std::fs::read_dir(folder).map_err(text)?;
    entries.map(|entry| Ok(entry.and_then(|e| e.metadata()).map_err(text)?.len())).sum()
}

/// The outputs of `main`.
fn run(program: &Program, feed: &Feed) -> reflex::Result<Vec<Array>> {
    let prepared = program.prepare("main", feed)?;
    let outputs = program.session(Mode::Bytecode)?.call(&prepared)?.arrays()?;
    Ok(outputs.into_iter().map(|(_, array)| array).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_of_a_program_have_its_type() {
        for shape in SHAPES.iter().filter(|shape| shape.dtype != "float32") {
            let text = shape.text(shape.known);
            assert!(text.contains(shape.dtype), "{}", shape.name);
            // Sums inside of kernels are float32.
            let mut relax = text.lines().filter(|line| line.contains("R."));
            assert!(relax.all(|line| !line.contains("float32")), "{}:\n{text}", shape.name);
        }
    }
}
