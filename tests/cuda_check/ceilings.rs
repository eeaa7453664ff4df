//! Figures of the device: what no kernel of ours can be faster than, and what a launch costs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use reflex_runtime::device::Device;
use reflex_runtime::error::Error;

use crate::bare_driver::launches_of;
use crate::buffers::{Buffer, Kernel};

/// Figures by name.
pub type Figures = BTreeMap<String, f64>;

/// A measurement on a device.
type Measure = fn(&'static dyn Device, Size) -> Result<Figures, Error>;

/// Every measurement by name.
pub const CEILINGS: [(&str, Measure); 4] = [
    ("copy within the device", copy_driver),
    ("copy by a kernel", copy_kernel),
    ("fused multiply-add", multiply_add),
    ("launches", launches),
];

/// The amount of work of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Enough to measure a GPU.
    Full,
    /// Enough to run the code, on an interpreter: the figures mean nothing.
    Small,
}

impl Size {
    fn of<T>(self, full: T, small: T) -> T {
        match self {
            Size::Full => full,
            Size::Small => small,
        }
    }
}

/// The shortest of some runs, after one that is not counted.
fn shortest(size: Size, mut run: impl FnMut() -> Result<(), Error>) -> Result<Duration, Error> {
    run()?;
    let mut best = Duration::MAX;
    for _ in 0..size.of(7, 1) {
        let start = Instant::now();
        run()?;
        best = best.min(start.elapsed());
    }
    Ok(best.max(Duration::from_nanos(1)))
}

fn one(name: &str, value: f64) -> Figures {
    Figures::from([(name.to_owned(), value)])
}

/// Bytes read and written in a second, 10^9.
fn rate(bytes: usize, took: Duration) -> f64 {
    2.0 * bytes as f64 / took.as_secs_f64() / 1e9
}

/// The driver's copy, 1 GiB eight times.
fn copy_driver(device: &'static dyn Device, size: Size) -> Result<Figures, Error> {
    let (bytes, times) = (size.of(1 << 30, 1 << 12), size.of(8, 1));
    let from = Buffer::filled(device, bytes, 1)?;
    let to = Buffer::filled(device, bytes, 2)?;
    let took = shortest(size, || {
        (0..times).try_for_each(|_| to.copy_from(&from))?;
        device.synchronize(Default::default())
    })?;
    Ok(one("copy by the driver, GB/s read and written", rate(bytes * times, took)))
}

/// Copies 16 bytes a thread and round; `n` is the number of 16-byte words.
const COPY: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry copy(.param .u64 to, .param .u64 from, .param .u64 n) {
    .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<12>; .reg .b32 %v<5>;
    ld.param.u64 %rd1, [to];
    ld.param.u64 %rd2, [from];
    ld.param.u64 %rd3, [n];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mov.u32 %r4, %nctaid.x;
    mad.lo.s32 %r5, %r1, %r2, %r3;
    mul.lo.s32 %r6, %r4, %r2;
    cvt.u64.u32 %rd4, %r5;
    cvt.u64.u32 %rd5, %r6;
$ROUND:
    setp.ge.u64 %p1, %rd4, %rd3;
    @%p1 bra $DONE;
    shl.b64 %rd6, %rd4, 4;
    add.s64 %rd7, %rd1, %rd6;
    add.s64 %rd8, %rd2, %rd6;
    ld.global.v4.u32 {%v1, %v2, %v3, %v4}, [%rd8];
    st.global.v4.u32 [%rd7], {%v1, %v2, %v3, %v4};
    add.s64 %rd4, %rd4, %rd5;
    bra $ROUND;
$DONE:
    ret;
}
";

/// A kernel's copy, 1 GiB eight times.
fn copy_kernel(device: &'static dyn Device, size: Size) -> Result<Figures, Error> {
    let (bytes, times) = (size.of(1 << 30, 1 << 12), size.of(8, 1));
    let blocks = size.of(4096, 1);
    let from = Buffer::filled(device, bytes, 1)?;
    let to = Buffer::filled(device, bytes, 2)?;
    let kernel = Kernel::load(device, COPY, "copy")?;
    let params = [to.address(), from.address(), bytes as u64 / 16];
    let took = shortest(size, || {
        for _ in 0..times {
            // SAFETY: two buffers of so many words of 16 bytes, which live until the wait.
            unsafe { kernel.launch(blocks, size.of(256, 32), &params)? };
        }
        kernel.wait()
    })?;
    Ok(one("copy by a kernel, GB/s read and written", rate(bytes * times, took)))
}

/// Sums in eight chains of `n` rounds each, of eight multiply-adds.
fn multiply_add_text() -> String {
    let chains: String =
        (1..=8).map(|n| format!("fma.rn.f32 %f{n}, %f{n}, %f9, %f10;\n")).collect();
    let start: String = (1..=8).map(|n| format!("mov.f32 %f{n}, 0f3F80000{n};\n")).collect();
    let sum: String = (2..=8).map(|n| format!("add.f32 %f1, %f1, %f{n};\n")).collect();
    let rounds = chains.repeat(8);
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64
.visible .entry sums(.param .u64 to, .param .u64 n) {{
.reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<12>;
ld.param.u64 %rd1, [to];
ld.param.u64 %rd2, [n];
{start}mov.f32 %f9, 0f3F7FFFFF;
mov.f32 %f10, 0f33800000;
$ROUND:
{rounds}add.s64 %rd2, %rd2, -1;
setp.ne.s64 %p1, %rd2, 0;
@%p1 bra $ROUND;
{sum}mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %ntid.x;
mov.u32 %r3, %tid.x;
mad.lo.s32 %r4, %r1, %r2, %r3;
cvt.u64.u32 %rd3, %r4;
shl.b64 %rd4, %rd3, 2;
add.s64 %rd5, %rd1, %rd4;
st.global.f32 [%rd5], %f1;
ret;
}}
"
    )
}

/// Multiply-adds of float32 without memory.
fn multiply_add(device: &'static dyn Device, size: Size) -> Result<Figures, Error> {
    let (blocks, threads, rounds) = size.of((4096_u32, 256_u32, 1024_u64), (1, 32, 1));
    let to = Buffer::filled(device, (blocks * threads * 4) as usize, 0)?;
    let kernel = Kernel::load(device, &multiply_add_text(), "sums")?;
    let took = shortest(size, || {
        // SAFETY: the buffer has a float32 for each thread, and lives until the wait.
        unsafe { kernel.launch(blocks, threads, &[to.address(), rounds])? };
        kernel.wait()
    })?;
    let operations = 2.0 * 64.0 * rounds as f64 * f64::from(blocks) * f64::from(threads);
    Ok(one("float32 multiply-add, TFLOP/s", operations / took.as_secs_f64() / 1e12))
}

/// A kernel that does nothing.
const EMPTY: &str = ".version 8.0\n.target sm_80\n.address_size 64
.visible .entry empty(.param .u64 a) { ret; }\n";

/// Launches of an empty kernel through the device's trait: the host's time for each while the queue has
/// room, the time until each is over, and one with a wait.
fn launches(device: &'static dyn Device, size: Size) -> Result<Figures, Error> {
    let kernel = Kernel::load(device, EMPTY, "empty")?;
    let enqueue = |count: u32| {
        // SAFETY: the kernel reads no parameter.
        (0..count).try_for_each(|_| unsafe { kernel.launch(1, 32, &[0]) })
    };
    let few = size.of(256, 2);
    let mut host = Duration::MAX;
    let whole = shortest(size, || {
        let start = Instant::now();
        enqueue(few)?;
        host = host.min(start.elapsed());
        kernel.wait()
    })?;
    let waited = shortest(size, || {
        enqueue(1)?;
        kernel.wait()
    })?;
    let micros = |took: Duration, count: u32| took.as_secs_f64() * 1e6 / f64::from(count);
    let mut figures = Figures::from([
        ("launch, us of the host".to_owned(), micros(host, few)),
        ("launch, us until it is over, in a row".to_owned(), micros(whole, few)),
        ("launch and wait, us".to_owned(), micros(waited, 1)),
    ]);
    // The stand-in has no more of the driver than we call.
    if size == Size::Full {
        let bare = launches_of(EMPTY, few, 7)?;
        figures.insert("launch by the driver alone, us of the host".to_owned(), micros(bare, few));
    }
    Ok(figures)
}
