//! Contractions of float32 by split-bf16 on a GPU, run by this CPU thread after thread: errors are those of
//! float32 at most, and tiles that terms cannot compute have float32's bits.

use reflex::{Array, Engine, Feed, Mode, Precision, Program};

/// Matrices, and the rows, the depth and the columns of each.
#[derive(Clone, Copy)]
struct Extents {
    batch: usize,
    m: usize,
    k: usize,
    n: usize,
}

/// Few blocks: the smallest product that the rule takes without parts of the reduction.
const SMALL: Extents = Extents { batch: 2, m: 65, k: 256, n: 64 };

struct Case {
    of: Extents,
    a: Vec<f32>,
    b: Vec<f32>,
}

fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x1234_5678_9ABC_DEF1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) as f32 / (1u64 << 23) as f32) - 1.0
    };
    (0..count).map(|_| next()).collect()
}

impl Case {
    fn new(of: Extents, change: impl Fn(usize, f32) -> f32) -> Case {
        let Extents { batch, m, k, n } = of;
        let changed = |values: Vec<f32>| -> Vec<f32> {
            values.into_iter().enumerate().map(|(at, x)| change(at, x)).collect()
        };
        Case { of, a: changed(noise(batch * m * k, 3)), b: changed(noise(batch * k * n, 4)) }
    }

    /// The results in a precision, by a GPU's schedule.
    fn run(&self, precision: Precision) -> Vec<f32> {
        let Extents { batch, m, k, n } = self.of;
        let feed = Feed::from([("x", [batch, m, k], &self.a), ("w", [batch, k, n], &self.b)].map(
            |(name, shape, values)| {
                let shape = shape.map(|n| n as i64);
                (name.to_owned(), Array::of(&shape, values).expect("as many as it has"))
            },
        ));
        let program = self.program(precision);
        let prepared = program.prepare("main", &feed).expect("fits");
        let mut session = program.session(Mode::Bytecode).expect("a session");
        let results = session.call(&prepared).and_then(|o| o.arrays()).expect("runs");
        results[0].1.to_vec::<f32>().expect("float32")
    }

    fn program(&self, precision: Precision) -> Program {
        let Extents { batch, m, k, n } = self.of;
        let ty =
            |rows, columns| format!("R.Tensor(({batch}, {rows}, {columns}), dtype=\"float32\")");
        let (x, w, y) = (ty(m, k), ty(k, n), ty(m, n));
        let text = format!(
            "from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: {x}, w: {w}) -> {y}:
        y: {y} = R.matmul(x, w)
        return y
"
        );
        let engine = Engine::builder().schedule_for("cuda:sm_90a").precision(precision);
        let engine = engine.build().expect("an engine");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("model.py");
        std::fs::write(&path, text).expect("writable");
        engine.load(&path).expect("loads")
    }

    /// Each sum, and that of the products' sizes, exact enough.
    fn sums(&self) -> Vec<(f64, f64)> {
        let Extents { batch, m, k, n } = self.of;
        let of = |at: usize| {
            let (row, column) = (at / n * k, at / (m * n) * k * n + at % n);
            let product = |s| f64::from(self.a[row + s]) * f64::from(self.b[column + s * n]);
            (0..k).map(product).fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p.abs()))
        };
        (0..batch * m * n).map(of).collect()
    }

    /// The largest and the root of the mean square error, relative to the sum of the products' sizes.
    fn errors(&self, found: &[f32]) -> [f64; 2] {
        let error = |((sum, size), x): (&(f64, f64), &f32)| (f64::from(*x) - sum).abs() / size;
        let all: Vec<f64> = self.sums().iter().zip(found).map(error).collect();
        let squares: f64 = all.iter().map(|e| e * e).sum();
        [all.iter().copied().fold(0.0, f64::max), (squares / all.len() as f64).sqrt()]
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()
}

#[test]
fn errors_are_float32s_at_most() {
    // Signs that differ; sums without cancellation; sizes that differ by 2^20.
    let changes: [fn(usize, f32) -> f32; 3] = [|_, x| x, |_, x| x.abs(), |_, x| x * x * x * x * x];
    for (k, m) in [(256, 64), (1000, 70), (4096, 16)] {
        for (which, change) in changes.into_iter().enumerate() {
            let case = Case::new(Extents { batch: 2, m, k, n: 96 }, change);
            let reference = case.errors(&case.run(Precision::F32));
            let found = case.errors(&case.run(Precision::F32Fast));
            println!("{k} steps, {which}: largest and mean {reference:?}, by terms {found:?}");
            assert!(found != reference, "by terms");
            assert!(found[0] <= reference[0] && found[1] <= reference[1]);
        }
    }
}

/// One element of the last row of the first matrix, which is in a tile of its own.
#[test]
fn tiles_that_terms_cannot_compute_are_float32s() {
    let Extents { m, k, n, .. } = SMALL;
    let tiny = f32::from_bits((127 - 110) << 23);
    for (value, again) in [
        (f32::NAN, true),
        (f32::INFINITY, true),
        (f32::MAX, true),
        (1e-40, true),
        (f32::from_bits(tiny.to_bits() - 1), true),
        (tiny, false),
        (0.0, false),
        (1e30, false),
    ] {
        let mut case = Case::new(SMALL, |_, x| x);
        case.a[(m - 1) * k + 7] = value;
        let [found, wanted] =
            [Precision::F32Fast, Precision::F32].map(|precision| bits(&case.run(precision)));
        let same = |rows: std::ops::Range<usize>| {
            found[rows.start * n..rows.end * n] == wanted[rows.start * n..rows.end * n]
        };
        assert_eq!(same(m - 1..m), again, "{value:e}");
        assert!(!same(0..m - 1) && !same(m..2 * m), "{value:e}");
    }
}

/// Sums that overflow in parts are those of float32, whatever its order makes of them.
#[test]
fn sums_that_overflow_are_float32s() {
    let mut case = Case::new(SMALL, |at, _| if at / 16 % 2 == 0 { 3e25 } else { -3e25 });
    case.b.fill(1e13);
    let [found, wanted] =
        [Precision::F32Fast, Precision::F32].map(|precision| bits(&case.run(precision)));
    assert_eq!(found, wanted);
}

/// Products below the smallest normal number lose no more than a part of the smallest float32 each.
#[test]
fn small_products_are_not_flushed() {
    let case = Case::new(SMALL, |_, x| x * 2_f32.powi(-70));
    let found = case.run(Precision::F32Fast);
    for ((sum, _), x) in case.sums().iter().zip(&found) {
        assert!((f64::from(*x) - sum).abs() < 256.0 * 2_f64.powi(-149), "{x:e}, not {sum:e}");
    }
    assert!(found.iter().any(|x| *x != 0.0));
}
