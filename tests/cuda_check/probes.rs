//! Probes: a kernel around each instruction form that kernels use, over values that tell roundings,
//! saturations and special values apart.
//!
//! A form is an opcode with its modifiers. Its operands follow from it: most have the type that it
//! ends with.

use reflex_ptx::{Arch, LaunchOptions, Limits, Module, Params};
use reflex_runtime::device::Device;

use crate::buffers::{Buffer, Kernel};
use crate::compare::plain_float;
use crate::packed::{Pack, Probe};

pub mod collective;
mod inputs;
mod text;

use collective::Collective;
use inputs::rows;
pub use text::ptx;

/// Threads of a block.
const THREADS: u32 = 64;
/// Words of 64 bits that a thread writes.
const WRITTEN: usize = 2;

/// Forms that need no probe, by their beginnings: the probes themselves have them, or they have no value.
const STRUCTURE: [&str; 6] = ["bra", "ret", "ld.param.", "bar.sync", "barrier.sync", "cvta."];

/// Whether a form is one that every probe has, or has no value.
pub fn is_structure(form: &str) -> bool {
    STRUCTURE.iter().any(|start| form.starts_with(start))
}

/// The forms of the instructions of a text.
pub fn forms(ptx: &str) -> impl Iterator<Item = &str> {
    ptx.lines().filter_map(|line| {
        let line = line.trim();
        let (code, guarded) =
            (line.split_once("//").map_or(line, |(code, _)| code), line.starts_with('@'));
        let first = code.split_whitespace().nth(usize::from(guarded))?;
        let form = first.trim_end_matches(';');
        let is_form = code.trim_end().ends_with(';')
            && form.starts_with(|c: char| c.is_ascii_lowercase())
            && !form.contains(['(', '=']);
        is_form.then_some(form)
    })
}

/// Bits of a form's result if it is computed as a float: its NaNs are all the same.
pub fn float_bits(form: &str) -> Option<u32> {
    let moves = ["mov", "ld", "st", "selp", "setp"].contains(&form.split('.').next()?);
    let ty = match form.strip_prefix("cvt.") {
        Some(rest) => rest.rsplit('.').nth(1)?,
        None => form.rsplit('.').next()?,
    };
    let bits = match ty {
        "f16" => 16,
        "f32" => 32,
        "f64" => 64,
        _ => return None,
    };
    (!moves).then_some(bits)
}

/// The launch of a probe: what its threads read, and how many words they write.
struct Launched {
    input: Vec<u64>,
    blocks: u32,
    threads: u32,
    results: usize,
    /// Bits of the floats that results are.
    float: Option<u32>,
}

impl Launched {
    fn of(form: &str) -> Launched {
        if let Some(probe) = collective::find(form) {
            return Launched::of_collective(&probe);
        }
        let rows = rows(form);
        Launched {
            blocks: rows.len() as u32 / THREADS,
            threads: THREADS,
            results: rows.len() * WRITTEN,
            input: rows.into_flattened(),
            float: float_bits(form),
        }
    }

    fn of_collective(probe: &Collective) -> Launched {
        let Collective { blocks, threads, is_float, .. } = *probe;
        let (input, results) = (probe.input(), probe.results());
        Launched { input, blocks, threads, results, float: is_float.then_some(32) }
    }

    /// A word of results in which all NaNs are the same.
    fn plain(&self, word: u64) -> u64 {
        match self.float {
            Some(32) => plain_float(word >> 32, 32) << 32 | plain_float(word & 0xffff_ffff, 32),
            Some(bits) => plain_float(word, bits),
            None => word,
        }
    }
}

/// The hash of a probe's results, all NaNs being the same.
fn hash(launched: &Launched, words: &[u64]) -> String {
    let mut hasher = blake3::Hasher::new();
    for word in words {
        hasher.update(&launched.plain(*word).to_le_bytes());
    }
    hasher.finalize().to_string()
}

/// The hash of a form's results.
pub fn hash_of(form: &str, words: &[u64]) -> String {
    hash(&Launched::of(form), words)
}

/// Runs a probe and returns the hash of its results; the error says what differs, or what failed.
pub fn run(device: &'static dyn Device, pack: &Pack, probe: &Probe) -> Result<String, String> {
    let failed = |e: reflex_runtime::error::Error| e.message().to_string();
    let launched = Launched::of(&probe.form);
    let kernel = Kernel::load(device, &probe.ptx, "probe").map_err(failed)?;
    let input = Buffer::of(device, &launched.input).map_err(failed)?;
    let output = Buffer::of(device, &vec![0; launched.results]).map_err(failed)?;
    let params = [input.address(), output.address()];
    // SAFETY: the kernel reads its share of the input and writes its share of the words for each thread;
    // both buffers live until the words are read.
    unsafe { kernel.launch(launched.blocks, launched.threads, &params) }.map_err(failed)?;
    let found = output.words().map_err(failed)?;
    let found_hash = hash(&launched, &found);
    if found_hash == probe.hash {
        return Ok(found_hash);
    }
    let Some(span) = probe.expected else { return Err("the hash of its results differs".into()) };
    let expected: Vec<u64> = pack
        .read(span)?
        .chunks_exact(8)
        .map(|w| u64::from_le_bytes(w.try_into().expect("eight")))
        .collect();
    if expected.len() != launched.results {
        return Err(format!("{} results, not {}", expected.len(), launched.results));
    }
    let differs = |at: &usize| launched.plain(found[*at]) != launched.plain(expected[*at]);
    let differing: Vec<usize> = (0..found.len()).filter(differs).collect();
    let Some(&at) = differing.first() else { return Err("its hash and its words disagree".into()) };
    let (count, of) = (differing.len(), found.len());
    let mut why = format!(
        "{count} of {of} words differ; word {at} is {:#x}, not {:#x}",
        found[at], expected[at]
    );
    if collective::find(&probe.form).is_none() {
        let row = &launched.input[at / WRITTEN * inputs::READ..][..inputs::READ];
        why += &format!(", of {row:#x?}");
    }
    Err(why)
}

/// The results of a probe by the PTX interpreter.
pub fn expect(form: &str, ptx: &str, arch: Option<Arch>) -> Result<Vec<u64>, String> {
    let failed = |what: &dyn std::fmt::Display| format!("the probe of {form}: {what}");
    let launched = Launched::of(form);
    let module = Module::parse(ptx).map_err(|e| failed(&e))?;
    let mut device = reflex_ptx::Device::new(Limits::default());
    let bytes: Vec<u8> = launched.input.iter().flat_map(|word| word.to_le_bytes()).collect();
    let results = launched.results * 8;
    let mut place = |bytes: &[u8]| -> Result<u64, reflex_ptx::MemoryError> {
        let at = device.alloc(bytes.len() as u64)?;
        device.write(at, bytes)?;
        Ok(at)
    };
    let input = place(&bytes).map_err(|e| failed(&e))?;
    let output = place(&vec![0; results]).map_err(|e| failed(&e))?;
    let params = Params::new().u64(input).u64(output).bytes;
    let (grid, block) = ([launched.blocks, 1, 1], [launched.threads, 1, 1]);
    let options = LaunchOptions { arch: arch.unwrap_or(Arch::Sm80), ..LaunchOptions::default() };
    device.launch(&module, "probe", grid, block, 0, &params, &options).map_err(|e| failed(&e))?;
    let bytes = device.read(output, results).map_err(|e| failed(&e))?;
    Ok(bytes.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("eight"))).collect())
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::inputs::READ;
    use super::*;

    #[test]
    fn forms_are_read_from_a_text() {
        let text = "\t.reg .b32 %r<4>;\n$L:\n\t@%p1 bra $L;\n\tfma.rn.f32 \t%f1, %f2, %f3, %f4;\n\tret;\n// x.y z;\n";
        assert_eq!(forms(text).collect::<Vec<_>>(), ["bra", "fma.rn.f32", "ret"]);
    }

    #[test]
    fn probes_have_the_values_of_rust() {
        let value = |form: &str, of: &dyn Fn(&[u64; READ]) -> u64| {
            let found = expect(form, &ptx(form).unwrap(), None).unwrap();
            let bits = float_bits(form);
            let plain = |word: u64| bits.map_or(word, |bits| plain_float(word, bits));
            for (row, words) in rows(form).iter().zip(found.chunks(WRITTEN)) {
                assert_eq!(plain(words[0]), plain(of(row)), "{form} of {row:#x?}");
            }
        };
        let f32_of = |word: u64| f32::from_bits(word as u32);
        let bits = |value: f32| u64::from(value.to_bits());
        value("add.rn.f32", &|r| bits(f32_of(r[0]) + f32_of(r[1])));
        value("fma.rn.f32", &|r| bits(f32_of(r[0]).mul_add(f32_of(r[1]), f32_of(r[2]))));
        value("div.rn.f32", &|r| bits(f32_of(r[0]) / f32_of(r[1])));
        value("sqrt.rn.f32", &|r| bits(f32_of(r[0]).sqrt()));
        value("mul.wide.u32", &|r| (r[0] & 0xffff_ffff) * (r[1] & 0xffff_ffff));
        value("mul.hi.s64", &|r| {
            ((i128::from(r[0] as i64) * i128::from(r[1] as i64)) >> 64) as u64
        });
        value("div.s64", &|r| (r[0] as i64 / r[1] as i64) as u64);
        value("rem.u32", &|r| u64::from(r[0] as u32 % r[1] as u32));
        value("shr.s64", &|r| ((r[0] as i64) >> (r[1] as u32).min(63)) as u64);
        value("setp.lt.s64", &|r| u64::from((r[0] as i64) < r[1] as i64));
        let half = |word: u64, n: usize| f16::from_bits((word >> (16 * n)) as u16);
        value("setp.le.f16x2", &|r| {
            let le = |n: usize| u64::from(half(r[0], n) <= half(r[1], n));
            le(0) | le(1) << 32
        });
        value("selp.b32", &|r| if r[2] & 1 == 1 { r[0] & 0xffff_ffff } else { r[1] & 0xffff_ffff });
        value("cvt.rn.f32.s64", &|r| bits(r[0] as i64 as f32));
        value("cvt.rzi.s32.f32", &|r| u64::from(f32_of(r[0]) as i32 as u32));
        value("cvt.u64.u32", &|r| r[0] & 0xffff_ffff);
        value("ld.global.s8", &|r| u64::from(r[0] as i8 as i32 as u32));
        value("ld.global.v4.f32", &|r| r[0]);
        value("st.global.u16", &|r| r[0] & 0xffff);
        value("xor.pred", &|r| (r[0] ^ r[1]) & 1);
    }

    /// Forms of kernels that the test of the whole way does not pack.
    const OTHERS: &str = "add.rn.f16 add.rn.f64 add.s16 bfe.s32 bfe.u64 cvt.f64.f16 cvt.rzi.s32.f64 cvt.rzi.u32.f64 cvt.rzi.u64.f32 cvt.rmi.f32.f32 \
         cvt.rn.f32.s16 cvt.rn.f32.u16 cvt.rn.f32.u64 cvt.rni.f64.f64 cvt.rpi.f64.f64 \
         cvt.rzi.s32.f32 cvt.rzi.s64.f64 cvt.s32.s8 cvt.u16.u32 cvt.u32.u16 div.rn.f64 \
         fma.rn.f64 ld.global.s32 ld.global.s8 ld.global.v4.b16 ld.global.v4.u32 \
         ld.local.f32 ld.shared.f32 ld.shared.v4.f32 mad.lo.s32 max.u16 min.s16 min.u64 \
         mov.b16 mov.b64 mul.lo.s32 mul.wide.u16 or.b16 or.b32 rem.s64 rem.u16 rem.u32 \
         selp.b16 selp.f64 setp.eq.s32 setp.ge.f16 setp.ge.f64 setp.ge.s16 setp.gt.f64 \
         setp.gt.s32 setp.le.f64 setp.lt.f16 setp.lt.u16 setp.nan.f16 setp.nan.f64 \
         setp.le.f16x2 setp.neu.f32 shl.b16 st.global.u16 st.global.v2.f32 st.global.v4.u32 \
         st.local.v2.f32 st.shared.u8 st.shared.v4.f32 sub.rn.f16 xor.b16 xor.b32";

    #[test]
    fn other_forms_have_probes_that_the_interpreter_runs() {
        for form in OTHERS.split_whitespace() {
            let found = expect(form, &ptx(form).unwrap(), None).unwrap();
            assert!(found.iter().any(|word| *word != 0), "{form} writes nothing");
        }
    }

    /// Results that a device gave are the interpreter's, whatever changes in it.
    #[test]
    fn the_interpreter_has_the_results_of_a_device() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/record/cuda-probes.txt");
        let text = std::fs::read_to_string(path).expect("the record");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let (mut count, mut collectives) = (0, 0);
        for (found, form) in lines.filter_map(|line| line.split_once(' ')) {
            let probe = collective::find(form);
            let text = probe.as_ref().map_or_else(|| ptx(form).unwrap(), Collective::ptx);
            let arch = probe.as_ref().and_then(|probe| probe.arch);
            let words = expect(form, &text, arch).unwrap();
            assert_eq!(hash_of(form, &words), found, "{form}");
            (count, collectives) = (count + 1, collectives + usize::from(probe.is_some()));
        }
        assert!(count > 200 && collectives > 50, "{count} probes, {collectives} collectives");
    }

    #[test]
    fn a_form_that_is_unknown_is_refused_by_name() {
        for form in ["atom.global.add.u32", "mma.sync.aligned.m16n8k8", "tanh.approx.f32", "ld"] {
            let why = ptx(form).unwrap_err();
            assert!(why.contains(form), "{why}");
        }
    }
}
