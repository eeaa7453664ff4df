//! Programs over lists and trees: the time of a step in each mode, next to that of its kernels.
//!
//! `cargo bench -p reflex-cranelift --bench lists` prints a line for each program; arguments behind `--`
//! choose programs and modes, for a profiler. The modes take turns, and what counts is processor time, so
//! that what else runs on the machine disturbs them little; figures are medians.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use reflex_cranelift::{CompileMode, CraneliftTier, TierOptions};
use reflex_runtime::abi::TVMFFIAny;
use reflex_runtime::array::Array;
use reflex_runtime::dtype::DType;
use reflex_runtime::function::Function;
use reflex_runtime::tensor::Tensor;
use reflex_runtime::value::{Any, AnyView};
use reflex_vm::kernel::{RawKernel, TensorParam};
use reflex_vm::listing;
use reflex_vm::load::Library;
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::tier::Tier;
use reflex_vm::verify::verify;

/// Elements of a list, and nodes of a tree.
const LENGTH: usize = 1_000;
/// Numbers of a state of the tree's cells.
const WIDTH: usize = 16;
const ROUNDS: usize = 41;
/// Rounds before those that count, in which what is hot is compiled.
const WARM_UP: usize = 60;
/// Calls of a sample.
const CALLS: usize = 10;
const PROGRAM_NAMES: [&str; 4] = ["foldr", "map", "filter", "tree"];

/// 0 is Nil and Leaf (x), 1 is Cons (head, tail) and Node (left, right).
const PROGRAMS: &str = r#"
const c[0] = shape []
const c[1] = dtype float32
const c[2] = shape [16]
const c[3] = dtype bool
@plus(a, b) regs=4:
  call  vm.builtin.alloc_storage in: %vm, c[0], i0, c[1] dst: %2
  call  vm.builtin.alloc_tensor in: %2, i0, c[0], c[1] dst: %3
  call  vm.builtin.null_value in: dst: %2
  call  add in: %0, %1, %3 dst: %void
  ret   %3
@twice(a) regs=3:
  call  vm.builtin.alloc_storage in: %vm, c[0], i0, c[1] dst: %1
  call  vm.builtin.alloc_tensor in: %1, i0, c[0], c[1] dst: %2
  call  vm.builtin.null_value in: dst: %1
  call  add in: %0, %0, %2 dst: %void
  ret   %2
@is_positive(a) regs=3:
  call  vm.builtin.alloc_storage in: %vm, c[0], i0, c[3] dst: %1
  call  vm.builtin.alloc_tensor in: %1, i0, c[0], c[3] dst: %2
  call  vm.builtin.null_value in: dst: %1
  call  positive in: %0, %2 dst: %void
  ret   %2
@foldr_of(f, from, list) regs=6:
  call  relay.is in: %2, i0 dst: %3
  If    %3, 2
  ret   %1
  call  relay.is in: %2, i1 dst: %3
  If    %3, 9
  call  vm.builtin.tuple_getitem in: %2, i1 dst: %4
  call  vm.builtin.tuple_getitem in: %2, i2 dst: %5
  call  vm.builtin.null_value in: dst: %2
  call  foldr_of in: %0, %1, %5 dst: %5
  call  vm.builtin.invoke_closure in: %vm, %0, %4, %5 dst: %5
  call  vm.builtin.null_value in: dst: %4
  ret   %5
  call  relay.fatal in: dst: %void
  ret   %void
@map_of(f, list) regs=5:
  call  relay.is in: %1, i0 dst: %2
  If    %2, 3
  call  vm.builtin.make_tuple in: i0 dst: %3
  ret   %3
  call  relay.is in: %1, i1 dst: %2
  If    %2, 11
  call  vm.builtin.tuple_getitem in: %1, i1 dst: %3
  call  vm.builtin.tuple_getitem in: %1, i2 dst: %4
  call  vm.builtin.null_value in: dst: %1
  call  vm.builtin.invoke_closure in: %vm, %0, %3 dst: %3
  call  map_of in: %0, %4 dst: %4
  call  vm.builtin.make_tuple in: i1, %3, %4 dst: %1
  call  vm.builtin.null_value in: dst: %3
  call  vm.builtin.null_value in: dst: %4
  ret   %1
  call  relay.fatal in: dst: %void
  ret   %void
@filter_of(f, list) regs=6:
  call  relay.is in: %1, i0 dst: %2
  If    %2, 3
  call  vm.builtin.make_tuple in: i0 dst: %3
  ret   %3
  call  relay.is in: %1, i1 dst: %2
  If    %2, 15
  call  vm.builtin.tuple_getitem in: %1, i1 dst: %3
  call  vm.builtin.tuple_getitem in: %1, i2 dst: %4
  call  vm.builtin.null_value in: dst: %1
  call  vm.builtin.invoke_closure in: %vm, %0, %3 dst: %5
  call  relay.equal in: %5, i1 dst: %2
  call  vm.builtin.null_value in: dst: %5
  If    %2, 6
  call  filter_of in: %0, %4 dst: %4
  call  vm.builtin.make_tuple in: i1, %3, %4 dst: %1
  call  vm.builtin.null_value in: dst: %3
  call  vm.builtin.null_value in: dst: %4
  ret   %1
  call  filter_of in: %0, %4 dst: %4
  ret   %4
  call  relay.fatal in: dst: %void
  ret   %void
@tree_of(tree) regs=9:
  call  relay.is in: %0, i0 dst: %1
  If    %1, 3
  call  vm.builtin.tuple_getitem in: %0, i1 dst: %2
  ret   %2
  call  relay.is in: %0, i1 dst: %1
  If    %1, 19
  call  vm.builtin.tuple_getitem in: %0, i1 dst: %2
  call  vm.builtin.tuple_getitem in: %0, i2 dst: %3
  call  vm.builtin.null_value in: dst: %0
  call  tree_of in: %2 dst: %2
  call  tree_of in: %3 dst: %3
  call  vm.builtin.tuple_getitem in: %2, i1 dst: %4
  call  vm.builtin.tuple_getitem in: %2, i2 dst: %2
  call  vm.builtin.tuple_getitem in: %3, i1 dst: %5
  call  vm.builtin.tuple_getitem in: %3, i2 dst: %3
  call  vm.builtin.alloc_storage in: %vm, c[2], i0, c[1] dst: %6
  call  vm.builtin.alloc_tensor in: %6, i0, c[2], c[1] dst: %7
  call  vm.builtin.alloc_storage in: %vm, c[2], i0, c[1] dst: %6
  call  vm.builtin.alloc_tensor in: %6, i0, c[2], c[1] dst: %8
  call  vm.builtin.null_value in: dst: %6
  call  cell in: %4, %2, %5, %3, %7, %8 dst: %void
  call  vm.builtin.make_tuple in: i0, %7, %8 dst: %0
  ret   %0
  call  relay.fatal in: dst: %void
  ret   %void
@foldr(from, list) regs=3:
  call  foldr_of in: f[plus], %0, %1 dst: %2
  ret   %2
@map(from, list) regs=3:
  call  map_of in: f[twice], %1 dst: %2
  ret   %2
@filter(from, list) regs=3:
  call  filter_of in: f[is_positive], %1 dst: %2
  ret   %2
@tree(from, tree) regs=3:
  call  tree_of in: %1 dst: %2
  ret   %2
"#;

unsafe extern "C" fn add(x: *const f32, y: *const f32, sum: *mut f32) -> i32 {
    // SAFETY: the kernel's parameters are three tensors of one float.
    unsafe { *sum = *x + *y };
    0
}

unsafe extern "C" fn positive(x: *const f32, is: *mut u8) -> i32 {
    // SAFETY: the kernel's parameters are a float and a boolean.
    unsafe { *is = u8::from(*x > 0.0) };
    0
}

/// A cell of a Tree-LSTM whose gates are the inputs themselves: the states of two children make one.
unsafe extern "C" fn cell(
    left: *const [f32; WIDTH],
    left_cell: *const [f32; WIDTH],
    right: *const [f32; WIDTH],
    right_cell: *const [f32; WIDTH],
    out: *mut [f32; WIDTH],
    out_cell: *mut [f32; WIDTH],
) -> i32 {
    // SAFETY: the kernel's parameters are six tensors of `WIDTH` floats.
    unsafe {
        for at in 0..WIDTH {
            let gate = |x: f32| x / (1.0 + x.abs());
            let (h, g) = ((*left)[at] + (*right)[at], (*left)[at] - (*right)[at]);
            let c = gate(h) * ((*left_cell)[at] + (*right_cell)[at]) + gate(g) * gate(h);
            (*out_cell)[at] = c;
            (*out)[at] = gate(g) * gate(c);
        }
    }
    0
}

/// The data of a tensor argument.
///
/// # Safety
/// `args` are at least `at + 1` values, that one a tensor.
unsafe fn data<T>(args: *const TVMFFIAny, at: usize) -> *mut T {
    // SAFETY: see `# Safety`.
    let arg = unsafe { &AnyView::slice_from_raw(args, at as i32 + 1)[at] };
    arg.as_dltensor().expect("a tensor").data.cast()
}

unsafe extern "C" fn packed_add(
    _: *mut c_void,
    args: *const TVMFFIAny,
    _: i32,
    _: *mut TVMFFIAny,
) -> i32 {
    // SAFETY: the programs pass three tensors of one float.
    unsafe { add(data(args, 0), data(args, 1), data(args, 2)) }
}

unsafe extern "C" fn packed_positive(
    _: *mut c_void,
    args: *const TVMFFIAny,
    _: i32,
    _: *mut TVMFFIAny,
) -> i32 {
    // SAFETY: the programs pass a float and a boolean.
    unsafe { positive(data(args, 0), data(args, 1)) }
}

unsafe extern "C" fn packed_cell(
    _: *mut c_void,
    args: *const TVMFFIAny,
    _: i32,
    _: *mut TVMFFIAny,
) -> i32 {
    // SAFETY: the programs pass six tensors of `WIDTH` floats.
    unsafe {
        let at = |at| data(args, at);
        cell(at(0), at(1), at(2), at(3), data(args, 4), data(args, 5))
    }
}

struct Kernels;

impl Library for Kernels {
    fn function(&self, name: &str) -> Option<Function> {
        let code = match name {
            "add" => packed_add,
            "positive" => packed_positive,
            "cell" => packed_cell,
            _ => return None,
        };
        // SAFETY: they keep to the packed convention and own nothing.
        Some(unsafe { Function::from_native(code, ()) })
    }

    fn raw(&self, name: &str) -> Option<RawKernel> {
        let of = |dtype| TensorParam { dtype, shape: Vec::new() };
        let wide = || TensorParam {
            dtype: DType::F32,
            shape: vec![reflex_vm::kernel::Dim::Static(WIDTH as i64)],
        };
        let (code, params) = match name {
            "add" => (add as *const u8, vec![of(DType::F32), of(DType::F32), of(DType::F32)]),
            "positive" => (positive as *const u8, vec![of(DType::F32), of(DType::BOOL)]),
            "cell" => (cell as *const u8, (0..6).map(|_| wide()).collect()),
            _ => return None,
        };
        // SAFETY: they take pointers and do what the packed entries do.
        unsafe { RawKernel::new(code, params) }
    }
}

/// Numbers that differ from run to run in nothing (Marsaglia's xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn number(&mut self) -> f32 {
        (self.next() % 2_001) as f32 / 1_000.0 - 1.0
    }
}

fn node(tag: i64, fields: impl IntoIterator<Item = Any>) -> Any {
    let items: Vec<Any> = std::iter::once(Any::from(tag)).chain(fields).collect();
    Array::new(items).into()
}

fn scalar(value: f32) -> Any {
    Tensor::from_slice(&[], &[value]).expect("memory").into()
}

fn list(random: &mut Random) -> Any {
    (0..LENGTH).fold(node(0, []), |tail, _| node(1, [scalar(random.number()), tail]))
}

/// A binary tree with `leaves` leaves, split at random.
fn tree(random: &mut Random, leaves: usize) -> Any {
    if leaves == 1 {
        let state = |random: &mut Random| -> Any {
            let values: Vec<f32> = (0..WIDTH).map(|_| random.number()).collect();
            Tensor::from_slice(&[WIDTH as i64], &values).expect("memory").into()
        };
        let (h, c) = (state(random), state(random));
        return node(0, [node(0, [h, c])]);
    }
    let left = 1 + random.next() as usize % (leaves - 1);
    let (left, right) = (tree(random, left), tree(random, leaves - left));
    node(1, [left, right])
}

fn session(mode: Mode) -> Session {
    let exec = verify(listing::parse(PROGRAMS).expect("a listing")).expect("valid");
    let program = Program::load(exec, &[&Kernels]).expect("loads");
    // A thread that compiles would wait long for a busy machine.
    let options = TierOptions { compile_mode: CompileMode::Synchronous, ..TierOptions::default() };
    let tier = CraneliftTier::with_options(options).expect("a tier");
    program.attach(Arc::new(tier) as Arc<dyn Tier>);
    if mode == Mode::Compiled {
        assert!(program.compile_ahead_of_time().is_empty());
    }
    Session::new(&Arc::new(program), Options { mode, ..Options::default() }).expect("a session")
}

fn median(mut samples: Vec<Duration>) -> f64 {
    samples.drain(..samples.len().min(WARM_UP));
    samples.sort_unstable();
    if samples.is_empty() {
        return f64::NAN;
    }
    samples[samples.len() / 2].as_secs_f64() * 1e9 / (CALLS * LENGTH) as f64
}

/// Processor time of this thread.
fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists, and the call writes to a place of its type.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0, "a clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Processor time of calls of the kernel of a program.
fn kernel(name: &str) -> Duration {
    let (x, mut y, mut flag) = ([1.5_f32; WIDTH], [0.5_f32; WIDTH], 0_u8);
    let mut z = y;
    let start = now();
    for _ in 0..CALLS * LENGTH {
        let (x, y, z, flag) = std::hint::black_box((&x, &raw mut y, &raw mut z, &raw mut flag));
        // SAFETY: all are as long as the kernels want.
        unsafe {
            match name {
                "filter" => positive(x.as_ptr(), flag),
                "tree" => cell(x, x, x, x, y, z),
                _ => add(x.as_ptr(), x.as_ptr(), y.cast()),
            };
        }
    }
    now() - start
}

fn main() {
    let chosen: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let is_chosen = |names: &[&str], name: &str| {
        let mut of_kind = chosen.iter().filter(|name| names.contains(&name.as_str())).peekable();
        of_kind.peek().is_none() || of_kind.any(|chosen| chosen == name)
    };
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (list, tree) = (list(&mut random), tree(&mut random, LENGTH + 1));
    println!("nanoseconds a step; {LENGTH} steps a call, medians of {ROUNDS} rounds");
    println!("program   bytecode  compiled    tiered    kernel  bytecode/tiered");
    for name in PROGRAM_NAMES.into_iter().filter(|name| is_chosen(&PROGRAM_NAMES, name)) {
        let args = [scalar(0.0), if name == "tree" { tree.clone() } else { list.clone() }];
        let modes = ["bytecode", "compiled", "tiered"];
        let mut sessions = [Mode::Bytecode, Mode::Compiled, Mode::Tiered].map(session);
        let mut times = [const { Vec::new() }; 4];
        let chosen_modes = modes.map(|mode| is_chosen(&modes, mode));
        for _ in 0..ROUNDS + WARM_UP {
            for ((session, times), _) in
                sessions.iter_mut().zip(&mut times).zip(chosen_modes).filter(|(_, chosen)| *chosen)
            {
                let start = now();
                for _ in 0..CALLS {
                    session.call(name, &args).expect("an answer");
                }
                times.push(now() - start);
            }
            times[3].push(kernel(name));
        }
        let [bytecode, compiled, tiered, kernel] = times.map(median);
        let ratio = bytecode / tiered;
        println!(
            "{name:<8}{bytecode:>10.1}{compiled:>10.1}{tiered:>10.1}{kernel:>10.1}{ratio:>17.1}"
        );
    }
}
