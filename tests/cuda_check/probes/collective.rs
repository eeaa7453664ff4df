//! Probes of what a warp or a warpgroup does together: fragments of matrices and their products, and
//! asynchronous copies to shared memory. Results have the bits of the tensor core's model.

use std::fmt::Write as _;

use reflex_ptx::Arch;

use crate::packed::mix;

/// A launch whose blocks read their share of the input and write their share of the output, both in words
/// of 64 bits.
pub struct Collective {
    /// The instruction, and what it is tried with.
    pub form: String,
    /// The body of the kernel `probe`.
    body: String,
    /// The GPU that the text is for.
    target: &'static str,
    /// The architecture whose tensor cores the results are of, which alone gives them.
    pub arch: Option<Arch>,
    /// Blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Words that a block reads.
    reads: usize,
    /// Words that a block writes.
    writes: usize,
    /// The format of the numbers that are read, and bytes of each block's share that are float32.
    numbers: (Format, usize),
    /// Whether results are float32.
    pub is_float: bool,
}

/// A format of 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Float16,
    Bfloat16,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Float16 => "f16",
            Format::Bfloat16 => "bf16",
        }
    }

    /// Bits of the fraction, and the exponent's bias.
    fn shape(self) -> (u32, u64) {
        match self {
            Format::Float16 => (10, 15),
            Format::Bfloat16 => (7, 127),
        }
    }

    /// A value of a class: small integers, moderate numbers, exponents far apart, any bits.
    fn value(self, class: u32, bits: u64) -> u16 {
        let (fraction, bias) = self.shape();
        let sign = bits >> 63 << 15;
        let digits = bits & ((1 << fraction) - 1);
        let value = match class {
            // -4 to 4, of four significant bits.
            0 => sign | (bias + (bits >> 20 & 1)) << fraction | (bits & 7) << (fraction - 3),
            1 => sign | (bias - 3 + (bits >> 20) % 6) << fraction | digits,
            2 => sign | (bias - 12 + (bits >> 20) % 25) << fraction | digits,
            _ => bits & 0xffff,
        };
        value as u16
    }
}

/// A float32 of a class, as of [`Format::value`].
fn float32(class: u32, bits: u64) -> u32 {
    let (sign, digits) = ((bits >> 63) << 31, bits & 0x7f_ffff);
    let value = match class {
        0 => u64::from(((bits % 17) as f32 - 8.0).to_bits()),
        1 => sign | (124 + (bits >> 30) % 8) << 23 | digits,
        2 => sign | (107 + (bits >> 30) % 40) << 23 | digits,
        _ => bits & 0xffff_ffff,
    };
    value as u32
}

impl Collective {
    /// The text of the kernel.
    pub fn ptx(&self) -> String {
        format!(
            ".version 8.0\n.target {}\n.address_size 64
.visible .entry probe(.param .u64 rows, .param .u64 results) {{
.reg .pred %p<4>; .reg .b32 %w<32>; .reg .b64 %d<32>; .reg .b32 %a<8>; .reg .f32 %f<160>;
.shared .align 1024 .b8 tile[{TILE}];
ld.param.u64 %d0, [rows];
ld.param.u64 %d1, [results];
mov.u32 %w0, %ctaid.x;
mov.u32 %w1, %tid.x;
mul.wide.u32 %d2, %w0, {};
add.s64 %d0, %d0, %d2;
mul.wide.u32 %d2, %w0, {};
add.s64 %d1, %d1, %d2;
{}ret;\n}}\n",
            self.target,
            8 * self.reads,
            8 * self.writes,
            self.body
        )
    }

    /// The words that the blocks read.
    pub fn input(&self) -> Vec<u64> {
        let seed = u64::from(blake3::hash(self.form.as_bytes()).as_bytes()[0]) << 32;
        let (format, floats) = self.numbers;
        let word = |block: u32, at: usize| {
            let bits = |part: u64| mix(seed | u64::from(block) << 20 | (at as u64) << 3 | part);
            let class = block % 4;
            if 8 * at < floats {
                return u64::from(float32(class, bits(0)))
                    | u64::from(float32(class, bits(1))) << 32;
            }
            (0..4).fold(0, |word, n| word | u64::from(format.value(class, bits(n))) << (16 * n))
        };
        (0..self.blocks).flat_map(|b| (0..self.reads).map(move |at| word(b, at))).collect()
    }

    /// Words of all results.
    pub fn results(&self) -> usize {
        self.blocks as usize * self.writes
    }
}

/// Bytes of a block's shared memory.
const TILE: usize = 40 << 10;
/// Blocks of most probes: four of each class of values.
const BLOCKS: u32 = 16;

/// Every probe.
pub fn all() -> Vec<Collective> {
    let mut all = vec![];
    for format in [Format::Float16, Format::Bfloat16] {
        for arch in [Arch::Sm80, Arch::Sm90a] {
            all.extend(["m16n8k8", "m16n8k16"].map(|shape| mma(shape, format, arch)));
        }
        for columns in [8, 64, 128, 256] {
            for swizzle in Swizzle::ALL {
                all.push(wgmma(format, columns, swizzle, Place::Rows, false));
            }
            all.push(wgmma(format, columns, Swizzle::Bytes128, Place::Registers, false));
        }
        for columns in [64, 128, 256] {
            for place in [Place::Rows, Place::Columns, Place::Registers] {
                all.push(wgmma(format, columns, Swizzle::Bytes128, place, true));
            }
        }
        all.push(wgmma(format, 64, Swizzle::Bytes128, Place::Columns, false));
    }
    for count in [1, 2, 4] {
        for transposed in [false, true] {
            all.push(matrices("ldmatrix", count, transposed));
            all.push(matrices("stmatrix", count, transposed));
        }
    }
    all.extend([4, 8, 16].map(asynchronous_copy));
    all
}

/// Whether a form of instruction has a probe: its own, or that of copies, which have their waits too.
pub fn covers(form: &str) -> bool {
    let copies = |probe: &Collective| form.starts_with("cp.async.") && probe.body.contains(form);
    all().iter().any(|probe| probe.form.split(" of ").next() == Some(form) || copies(probe))
}

/// The probe of a form.
pub fn find(form: &str) -> Option<Collective> {
    all().into_iter().find(|probe| probe.form == form)
}

fn list(prefix: &str, count: usize) -> String {
    let names: Vec<String> = (0..count).map(|n| format!("%{prefix}{n}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// A product of fragments by one warp. A lane reads four words of sums, then its fragments.
fn mma(shape: &str, format: Format, arch: Arch) -> Collective {
    let name = format.name();
    let instruction = format!("mma.sync.aligned.{shape}.row.col.f32.{name}.{name}.f32");
    let (of_a, of_b) = if shape == "m16n8k8" { (2, 1) } else { (4, 2) };
    let a: Vec<String> = (0..of_a).map(|n| format!("%a{n}")).collect();
    let b: Vec<String> = (4..4 + of_b).map(|n| format!("%a{n}")).collect();
    let body = format!(
        "mul.wide.u32 %d3, %w1, 16;
add.s64 %d4, %d0, %d3;
add.s64 %d1, %d1, %d3;
ld.global.v4.f32 {{%f0, %f1, %f2, %f3}}, [%d4];
ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%d4+512];
mul.wide.u32 %d3, %w1, 8;
add.s64 %d4, %d0, %d3;
ld.global.v2.b32 {{%a4, %a5}}, [%d4+1024];
{instruction} {{%f4, %f5, %f6, %f7}}, {{{}}}, {{{}}}, {{%f0, %f1, %f2, %f3}};
st.global.v4.f32 [%d1], {{%f4, %f5, %f6, %f7}};
",
        a.join(", "),
        b.join(", ")
    );
    Collective {
        form: format!("{instruction} of {arch:?}"),
        body,
        target: "sm_80",
        arch: Some(arch),
        blocks: 16 * BLOCKS,
        threads: 32,
        reads: 160,
        writes: 64,
        numbers: (format, 512),
        is_float: true,
    }
}

/// The permutation of an operand in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Swizzle {
    None,
    Bytes32,
    Bytes64,
    Bytes128,
}

impl Swizzle {
    const ALL: [Swizzle; 4] =
        [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128];

    /// Bytes of a row, and the descriptor without its address: the steps between groups of eight
    /// columns and between groups of eight rows, and the mode (PTX ISA, matrix descriptor).
    fn layout(self) -> (u64, u64) {
        let descriptor = |leading: u64, stride: u64, mode: u64| {
            leading >> 4 << 16 | stride >> 4 << 32 | mode << 62
        };
        match self {
            Swizzle::None => (32, descriptor(128, 256, 0)),
            Swizzle::Bytes32 => (32, descriptor(16, 256, 3)),
            Swizzle::Bytes64 => (64, descriptor(16, 512, 2)),
            Swizzle::Bytes128 => (128, descriptor(16, 1024, 1)),
        }
    }
}

/// Where the first operand of a product is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Registers,
    /// In shared memory, by rows.
    Rows,
    /// In shared memory, by columns.
    Columns,
}

/// A product of 64 rows by a warpgroup, from shared memory that is filled as it comes: twice, at every
/// second step of 16 columns that a row has room for, the first time without the sums before. What is `transposed` is in
/// panels of 64 rows (or columns) by 64 steps.
fn wgmma(
    format: Format,
    columns: usize,
    swizzle: Swizzle,
    place: Place,
    transposed: bool,
) -> Collective {
    let in_registers = place == Place::Registers;
    let name = format.name();
    let instruction = format!("wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{name}.{name}");
    let (pitch, layout) = swizzle.layout();
    /// Bytes of a panel.
    const PANEL: u64 = 64 * 128;
    let turns = [place == Place::Columns, transposed];
    let [layout_a, layout_b] = turns.map(|turned| match turned {
        true => layout & !(0x3fff << 16) | PANEL >> 4 << 16,
        false => layout,
    });
    // Units of 16 bytes of 16 steps.
    let [step_a, step_b] = turns.map(|turned| if turned { 128 } else { 2 });
    let (sums, a_bytes, b_bytes) = (columns / 2, 64 * pitch, columns as u64 * pitch);
    let mut body = String::new();
    // Sums of all threads come first in the input, then fragments, then both matrices.
    let fragments = 128 * 4 * sums as u64;
    let matrices = fragments + 128 * 16;
    let _ = write!(
        body,
        "mul.wide.u32 %d3, %w1, {};
add.s64 %d4, %d0, %d3;
add.s64 %d1, %d1, %d3;
mul.wide.u32 %d3, %w1, 16;
add.s64 %d5, %d0, %d3;
ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%d5+{fragments}];
mov.u64 %d6, tile;
add.s64 %d7, %d6, %d3;
mov.u32 %w2, %w1;
FILL:
ld.global.v4.b32 {{%a4, %a5, %a6, %a7}}, [%d5+{matrices}];
st.shared.v4.b32 [%d7], {{%a4, %a5, %a6, %a7}};
add.s64 %d5, %d5, 2048;
add.s64 %d7, %d7, 2048;
add.s32 %w2, %w2, 128;
setp.lt.u32 %p0, %w2, {};
@%p0 bra FILL;
fence.proxy.async.shared::cta;
bar.sync 0;
",
        4 * sums,
        (a_bytes + b_bytes) / 16
    );
    for n in 0..sums {
        let _ = writeln!(body, "ld.global.f32 %f{n}, [%d4+{}];", 4 * n);
    }
    // The address in a descriptor is in units of 16 bytes.
    let _ = write!(
        body,
        "cvt.u32.u64 %w3, %d6;
shr.u32 %w3, %w3, 4;
and.b32 %w3, %w3, 16383;
cvt.u64.u32 %d8, %w3;
or.b64 %d9, %d8, {layout_a};
add.s64 %d10, %d8, {};
or.b64 %d10, %d10, {layout_b};
wgmma.fence.sync.aligned;
",
        a_bytes / 16
    );
    let steps = (pitch / 32).max(1);
    for (n, step) in [0, steps - 1].into_iter().enumerate() {
        let a = match in_registers {
            true => list("a", 4),
            false => {
                let _ = writeln!(body, "add.s64 %d11, %d9, {};", step_a * step);
                "%d11".to_owned()
            }
        };
        let (sign_a, sign_b) = if n == 1 { (-1, 1) } else { (1, -1) };
        let _ = write!(
            body,
            "add.s64 %d12, %d10, {};
setp.ne.u32 %p1, {n}, 0;
{instruction} {}, {a}, %d12, %p1, {sign_a}, {sign_b}{};
",
            step_b * step,
            list("f", sums),
            match turns.map(u8::from) {
                [_, b] if in_registers => format!(", {b}"),
                [a, b] => format!(", {a}, {b}"),
            }
        );
    }
    body += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
    for n in 0..sums {
        let _ = writeln!(body, "st.global.f32 [%d1+{}], %f{n};", 4 * n);
    }
    let from = if in_registers { "registers" } else { "shared memory" };
    let columns = match turns {
        [false, false] => "",
        [true, false] => ", A transposed",
        [false, true] => ", B transposed",
        [true, true] => ", both transposed",
    };
    Collective {
        form: format!("{instruction}, A in {from}, rows of {pitch} bytes, {swizzle:?}{columns}"),
        body,
        target: "sm_90a",
        arch: Some(Arch::Sm90a),
        blocks: BLOCKS / 2,
        threads: 128,
        reads: (matrices + a_bytes + b_bytes) as usize / 8,
        writes: 128 * sums / 2,
        numbers: (format, fragments as usize),
        is_float: true,
    }
}

/// Matrices of 8 by 8 between shared memory and registers. Lanes give rows in another order than theirs.
fn matrices(name: &str, count: usize, transposed: bool) -> Collective {
    let turned = if transposed { ".trans" } else { "" };
    let form = format!("{name}.sync.aligned.m8n8.x{count}{turned}.shared.b16");
    let parts = list("a", count);
    let stores = name == "stmatrix";
    let each = |op: &str, register: char, base: &str| -> String {
        let line = |n: usize| {
            format!("{op}.b32 {{}}{n}, {base}+{}]", 4 * n).replace("{}", &format!("%{register}"))
        };
        (0..count).map(|n| line(n) + ";\n").collect()
    };
    let store_each: String =
        (0..count).map(|n| format!("st.global.b32 [%d1+{}], %a{n};\n", 4 * n)).collect();
    let head = "mul.wide.u32 %d3, %w1, 16;
add.s64 %d4, %d0, %d3;
add.s64 %d1, %d1, %d3;
mov.u64 %d6, tile;
add.s64 %d7, %d6, %d3;
mul.lo.s32 %w2, %w1, 11;
and.b32 %w2, %w2, 31;
mul.wide.u32 %d8, %w2, 16;
add.s64 %d9, %d6, %d8;
";
    let body = match stores {
        false => format!(
            "{head}ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%d4];
st.shared.v4.b32 [%d7], {{%a0, %a1, %a2, %a3}};
bar.sync 0;
mov.b32 %a0, 0;\nmov.b32 %a1, 0;\nmov.b32 %a2, 0;\nmov.b32 %a3, 0;
{form} {parts}, [%d9];
{store_each}"
        ),
        true => format!(
            "{head}mov.b32 %a0, 7;
st.shared.v4.b32 [%d7], {{%a0, %a0, %a0, %a0}};
bar.sync 0;
{}{form} [%d9], {parts};
bar.sync 0;
ld.shared.v4.b32 {{%a0, %a1, %a2, %a3}}, [%d7];
st.global.v4.b32 [%d1], {{%a0, %a1, %a2, %a3}};
",
            each("ld.global", 'a', "[%d4")
        ),
    };
    Collective {
        form,
        body,
        target: if stores { "sm_90a" } else { "sm_80" },
        arch: stores.then_some(Arch::Sm90a),
        blocks: 4,
        threads: 32,
        reads: 64,
        writes: 64,
        numbers: (Format::Float16, 0),
        is_float: false,
    }
}

/// Copies to shared memory in two groups, of which the second is waited for later, and fills what is not
/// read with zeros.
fn asynchronous_copy(bytes: u32) -> Collective {
    let cache = if bytes == 16 { "cg" } else { "ca" };
    let body = format!(
        "mul.wide.u32 %d3, %w1, 16;
add.s64 %d4, %d0, %d3;
add.s64 %d1, %d1, %d3;
mov.u64 %d6, tile;
add.s64 %d7, %d6, %d3;
mov.b32 %a0, 9;
st.shared.v4.b32 [%d7], {{%a0, %a0, %a0, %a0}};
st.shared.v4.b32 [%d7+1024], {{%a0, %a0, %a0, %a0}};
cp.async.{cache}.shared.global [%d7], [%d4], {bytes};
cp.async.commit_group;
and.b32 %w2, %w1, 1;
mul.lo.s32 %w2, %w2, {bytes};
cp.async.{cache}.shared.global [%d7+1024], [%d4], {bytes}, %w2;
cp.async.commit_group;
cp.async.wait_group 1;
bar.sync 0;
xor.b64 %d8, %d3, 48;
add.s64 %d9, %d6, %d8;
ld.shared.v4.b32 {{%a0, %a1, %a2, %a3}}, [%d9];
st.global.v4.b32 [%d1], {{%a0, %a1, %a2, %a3}};
cp.async.wait_all;
bar.sync 0;
ld.shared.v4.b32 {{%a0, %a1, %a2, %a3}}, [%d9+1024];
st.global.v4.b32 [%d1+1024], {{%a0, %a1, %a2, %a3}};
"
    );
    Collective {
        form: format!("cp.async.{cache}.shared.global, {bytes} bytes"),
        body,
        target: "sm_80",
        arch: None,
        blocks: 4,
        threads: 64,
        reads: 128,
        writes: 256,
        numbers: (Format::Float16, 0),
        is_float: false,
    }
}
