//! The time of the host for a launch on a GPU, over the driver's own: with the stand-in for the driver, which
//! accepts launches and runs nothing.
//!
//! A program of small products is called in a loop: interpreted, by traces (a session with fuel replays no
//! batches), and as a batch. Beside it the same driver is called with nothing before it. Each figure is
//! the median of rounds, in which all take turns.

#[path = "../tests/common/stand_in.rs"]
mod stand_in;

use std::ffi::c_void;
use std::fmt::Write;
use std::hint::black_box;
use std::ptr::null_mut;
use std::time::Instant;

use reflex::{AnyView, Engine, Mode, ModelFormat, ModelSource, Session, Tensor};
use reflex_runtime::abi::DLDevice;
use stand_in::Driver;

/// Products of the program.
const PRODUCTS: usize = 32;
/// Rounds, and calls of the program in a round.
const ROUNDS: usize = 101;
const CALLS: usize = 100;
/// More than a round takes, and a limit still.
const FUEL: u64 = 1 << 40;

/// A chain of products, each a launch.
fn program() -> String {
    let mut text =
        "from tvm.script import ir as I\nfrom tvm.script import relax as R\n\n@I.ir_module\n\
                    class Module:\n    @R.function\n    def main(x: R.Tensor((4, 4), \"float32\"), \
                    w: R.Tensor((4, 4), \"float32\")) -> R.Tensor((4, 4), \"float32\"):\n        \
                    with R.dataflow():\n            y0 = R.matmul(x, w)\n"
            .to_owned();
    for at in 1..PRODUCTS {
        let _ = writeln!(text, "            y{at} = R.matmul(y{}, w)", at - 1);
    }
    let last = PRODUCTS - 1;
    let _ = write!(text, "            R.output(y{last})\n        return y{last}\n");
    text
}

/// Nanoseconds of one of so many calls.
fn time(calls: usize, mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(|_| call());
    start.elapsed().as_nanos() as f64 / calls as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A kernel, a stream and a graph of the driver's.
struct Bare {
    launch: Launch,
    launch_graph: extern "C" fn(u64, u64) -> u32,
    kernel: u64,
    stream: u64,
    exec: u64,
}

type Launch = extern "C" fn(
    u64,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    u64,
    *mut *mut c_void,
    *mut *mut c_void,
) -> u32;

const PTX: &[u8] = b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(\
    .param .u64 a, .param .u64 b, .param .u64 c) { ret; }\n\0";

impl Bare {
    /// The device is open, and its context is this thread's.
    fn new(driver: &Driver) -> Bare {
        type Load = extern "C" fn(*mut u64, *const c_void, u32, *mut i32, *mut *mut c_void) -> u32;
        let (mut module, mut kernel, mut stream, mut graph, mut exec) = (0, 0, 0, 0, 0);
        // SAFETY: functions of these names have these types, by the driver's manual.
        let (load, launch, launch_graph) = unsafe {
            (
                std::mem::transmute::<*mut c_void, Load>(driver.symbol("cuModuleLoadDataEx")),
                std::mem::transmute::<*mut c_void, Launch>(driver.symbol("cuLaunchKernel")),
                std::mem::transmute::<*mut c_void, extern "C" fn(u64, u64) -> u32>(
                    driver.symbol("cuGraphLaunch"),
                ),
            )
        };
        assert_eq!(load(&mut module, PTX.as_ptr().cast(), 0, null_mut(), null_mut()), 0);
        let address = |place: &mut u64| std::ptr::from_mut(place).expose_provenance() as u64;
        let name = c"k".as_ptr().expose_provenance() as u64;
        driver.call("cuModuleGetFunction", [address(&mut kernel), module, name, 0]);
        driver.call("cuStreamCreate", [address(&mut stream), 1, 0, 0]);
        driver.call("cuGraphCreate", [address(&mut graph), 0, 0, 0]);
        driver.call("cuGraphInstantiateWithFlags", [address(&mut exec), graph, 0, 0]);
        Bare { launch, launch_graph, kernel, stream, exec }
    }

    fn launch(&self) {
        let mut words = [1_u64, 2, 3];
        let mut params = words.each_mut().map(|word| std::ptr::from_mut(word).cast::<c_void>());
        let Bare { launch, kernel, stream, .. } = *self;
        let params = black_box(params.as_mut_ptr());
        assert_eq!(launch(kernel, 1, 1, 1, 32, 1, 1, 0, stream, params, null_mut()), 0);
    }

    fn launch_graph(&self) {
        assert_eq!((self.launch_graph)(black_box(self.exec), self.stream), 0);
    }
}

fn main() {
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("REFLEX_STANDIN", "kernels=off") };
    let driver = Driver::load();
    let engine = Engine::builder().device("cuda:0").build().expect("the stand-in opens");
    let source = ModelSource::bytes(ModelFormat::Script, program());
    let program = engine.load(source).expect("compiles");
    let bare = Bare::new(&driver);
    let values: Vec<f32> = (0..16).map(|n| n as f32).collect();
    let tensor = || {
        let tensor = Tensor::from_slice(&[4, 4], &values).expect("a tensor");
        tensor.copy_to(DLDevice::cuda(0)).expect("copies")
    };
    let args = [tensor().into(), tensor().into()];
    let mut interpreted = program.session(Mode::Bytecode).expect("opens");
    let main = interpreted.function_index("main").expect("is there");
    let call = |session: &mut Session| {
        drop(session.call_index(main, AnyView::slice(&args)).expect("runs"));
    };
    let mut traced = program.session(Mode::Tiered).expect("opens");
    let mut batched = program.session(Mode::Tiered).expect("opens");
    traced.set_fuel(Some(FUEL));
    traced.warm_up_func(main, AnyView::slice(&args)).expect("runs");
    for _ in 0..5_000 {
        traced.set_fuel(Some(FUEL));
        call(&mut traced);
        call(&mut batched);
    }
    let (report, none) = (batched.batches(), traced.batches());
    let [(_, launches, _)] = report.ready[..] else { panic!("one batch: {report}") };
    assert!(none.ready.is_empty(), "{none}");
    let mut times = [const { vec![] }; 5];
    for _ in 0..ROUNDS {
        let per_launch = launches as f64;
        times[0].push(time(CALLS * launches, || bare.launch()));
        times[1].push(time(CALLS, || call(&mut interpreted)) / per_launch);
        traced.set_fuel(Some(FUEL));
        times[2].push(time(CALLS, || call(&mut traced)) / per_launch);
        times[3].push(time(CALLS * launches, || bare.launch_graph()));
        times[4].push(time(CALLS * launches, || call(&mut batched)));
    }
    let [launch, bytecode, trace, graph, batch] = times.map(median);
    println!("{launches} launches a call; nanoseconds\n");
    println!("| what | bare | with Reflex | over bare |\n|---|---|---|---|");
    for (what, bare, found) in [
        ("a launch, interpreted", launch, bytecode),
        ("a launch, by traces", launch, trace),
        ("a call as a batch", graph, batch),
    ] {
        println!("| {what} | {bare:.1} | {found:.1} | {:.1} |", found - bare);
    }
}
