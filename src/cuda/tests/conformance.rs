//! One suite for all devices: the CPU, a CUDA device of the stand-in, and one of the machine's driver
//! where there is one.

mod common;

use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use reflex_runtime::abi::DLDevice;
use reflex_runtime::alloc::device::OwnedBlock;
use reflex_runtime::device::{
    self, Device, KernelSpec, Launch, LoadedKernels, Stream, StreamScope,
};
use reflex_runtime::dtype::DType;
use reflex_runtime::tensor::Tensor;

/// Set in the child process that asks for the machine's own driver.
const OWN_DRIVER: &str = "REFLEX_CUDA_OWN_DRIVER";

/// One test at a time: a device's counters and its memory limit are the process's, and a test of a
/// device uses host memory too.
static DEVICES: Mutex<()> = Mutex::new(());

#[test]
fn the_cpu_conforms() {
    let _alone = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    suite(DLDevice::CPU);
    let cpu = device::get(DLDevice::CPU).unwrap();
    let spec = KernelSpec { name: "add".into(), shared_bytes: 0 };
    let error = cpu.load(&common::ADD.into(), &[spec]).unwrap_err();
    assert_eq!(error.message(), "cpu:0 loads no texts of kernels: add");
}

#[test]
fn a_cuda_device_conforms() {
    let _alone = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    if std::env::var_os(OWN_DRIVER).is_none() {
        common::load_stand_in();
    }
    match reflex_cuda::open(0) {
        Ok(gpu) => {
            assert_eq!(gpu.id(), DLDevice::cuda(0));
            suite(gpu.id());
            launches(gpu);
        }
        // The machine has none: then the error says so.
        Err(error) if std::env::var_os(OWN_DRIVER).is_some() => {
            assert_eq!(error.kind(), "DriverError");
            let text = error.message();
            assert!(text.starts_with("there is no NVIDIA driver: libcuda.so.1"), "{text}");
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_machines_own_driver_conforms_or_is_missing_by_name() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_cuda_device_conforms"])
        .env(OWN_DRIVER, "1")
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
}

/// The cases for every device.
fn suite(id: DLDevice) {
    let device = device::get(id).unwrap();
    copies_there_and_back(id);
    fills_and_copies_within(device);
    memory_is_counted_reused_and_limited(device);
    streams_are_ordered_by_events(device);
    streams_follow_each_other(device);
    later_work_is_waited_for_again(device);
    memory_goes_back_after_its_work(device);
    tensors_move(id);
}

fn copies_there_and_back(id: DLDevice) {
    // More than one part of a staging ring, and than the whole ring.
    for count in [0, 1, 1000, 300_000, 1_500_000] {
        let values: Vec<i32> = (0..count).map(|n: i32| n.wrapping_mul(2_654_435)).collect();
        let there = Tensor::from_slice(&[values.len() as i64], &values).unwrap();
        let there = there.copy_to(id).unwrap();
        assert_eq!((there.device(), there.shape()), (id, &[values.len() as i64][..]));
        assert_eq!(there.to_host().unwrap().to_vec::<i32>().unwrap(), values);
    }
}

fn fills_and_copies_within(device: &'static dyn Device) {
    let [a, b] = [0, 1].map(|_| OwnedBlock::new(device.allocator(), 1000).unwrap());
    let (stream, mut back) = (Stream::DEFAULT, [0_u8; 1000]);
    // SAFETY: both blocks have 1000 bytes, and only this test uses them.
    unsafe {
        device.fill(stream, a.data().as_ptr(), 7, 1000).unwrap();
        device.fill(stream, b.data().as_ptr(), 9, 1000).unwrap();
        let middle = b.data().as_ptr().wrapping_add(100);
        device.copy(stream, middle, a.data().as_ptr(), 300).unwrap();
        device.copy_to_host(stream, back.as_mut_ptr(), b.data().as_ptr(), 1000).unwrap();
    }
    let want = |n| if (100..400).contains(&n) { 7 } else { 9 };
    assert!(back.iter().enumerate().all(|(n, byte)| *byte == want(n)));
}

fn memory_is_counted_reused_and_limited(device: &'static dyn Device) {
    let allocator = device.allocator();
    let before = allocator.statistics();
    let block = OwnedBlock::new(allocator, 3 << 20).unwrap();
    let (first, now) = (block.data(), allocator.statistics());
    assert!(now.live >= before.live + (3 << 20) && now.peak_live >= now.live);
    drop(block);
    assert!(allocator.statistics().live < now.live);
    let again = OwnedBlock::new(allocator, 3 << 20).unwrap();
    assert_eq!(again.data(), first, "in the order of its stream a block is free at once");
    device.set_memory_limit(now.live + (1 << 20));
    let error = OwnedBlock::new(allocator, 8 << 20).unwrap_err();
    assert_eq!(error.kind(), "MemoryError", "{error}");
    device.set_memory_limit(usize::MAX);
    OwnedBlock::new(allocator, 8 << 20).unwrap();
    drop(again);
    allocator.trim();
}

fn streams_are_ordered_by_events(device: &'static dyn Device) {
    one_stream_leads(device, |one, two| {
        let event = device.record(one).unwrap();
        device.wait(two, &event).unwrap();
        device.destroy_event(event);
    });
}

fn later_work_is_waited_for_again(device: &'static dyn Device) {
    one_stream_leads(device, |one, two| device.order(two, one).unwrap());
}

/// A stream reads what another one wrote, again and again; `order` makes the second wait for the first.
fn one_stream_leads(device: &'static dyn Device, order: impl Fn(Stream, Stream)) {
    let [one, two] = [0, 1].map(|_| device.create_stream().unwrap());
    for round in 1..9_u8 {
        let (a, b) = {
            let _scope = StreamScope::enter(device.id(), one);
            let allocate = || OwnedBlock::new(device.allocator(), 4096).unwrap();
            (allocate(), allocate())
        };
        let mut back = [0_u8; 4096];
        // SAFETY: both blocks have 4096 bytes; `two` reads `a` after what `one` wrote.
        unsafe {
            device.fill(one, a.data().as_ptr(), round, 4096).unwrap();
            order(one, two);
            device.copy(two, b.data().as_ptr(), a.data().as_ptr(), 4096).unwrap();
            device.copy_to_host(two, back.as_mut_ptr(), b.data().as_ptr(), 4096).unwrap();
        }
        assert!(back.iter().all(|byte| *byte == round), "round {round}");
        // `one` may use both again: this waited for `two`.
    }
    device.synchronize(one).unwrap();
    device.destroy_stream(one);
    device.destroy_stream(two);
}

fn streams_follow_each_other(device: &'static dyn Device) {
    let [one, two] = [0, 1].map(|_| device.create_stream().unwrap());
    let (a, b) = {
        let _scope = StreamScope::enter(device.id(), one);
        let allocate = || OwnedBlock::new(device.allocator(), 4096).unwrap();
        (allocate(), allocate())
    };
    for round in 0..8_u8 {
        let mut back = [[0_u8; 4096]; 2];
        let order = if round % 2 == 0 {
            [(0, one, &a), (1, two, &b)]
        } else {
            [(1, two, &b), (0, one, &a)]
        };
        // SAFETY: both blocks have 4096 bytes; `two` reads `a` after what `one` wrote, and `one` writes it again after that.
        unsafe {
            device.fill(one, a.data().as_ptr(), round, 4096).unwrap();
            device.order(two, one).unwrap();
            device.order(two, one).unwrap();
            device.copy(two, b.data().as_ptr(), a.data().as_ptr(), 4096).unwrap();
            device.order_later(one, two).unwrap();
            device.order_later(one, two).unwrap();
            device.fill(one, a.data().as_ptr(), 100 + round, 4096).unwrap();
            for (at, stream, block) in order {
                device
                    .copy_to_host(stream, back[at].as_mut_ptr(), block.data().as_ptr(), 4096)
                    .unwrap();
            }
        }
        assert!(back[0].iter().all(|byte| *byte == 100 + round), "round {round}");
        assert!(back[1].iter().all(|byte| *byte == round), "round {round}");
    }
    // What is to come before its next use does not keep a stream from ending, in either order.
    device.order_later(one, two).unwrap();
    device.destroy_stream(two);
    device.synchronize(one).unwrap();
    device.destroy_stream(one);
}

fn memory_goes_back_after_its_work(device: &'static dyn Device) {
    let stream = device.create_stream().unwrap();
    let scope = StreamScope::enter(device.id(), stream);
    let [a, b] = [0, 1].map(|_| OwnedBlock::new(device.allocator(), 4096).unwrap());
    let mut back = [0_u8; 4096];
    // SAFETY: both blocks have 4096 bytes; `a` is released in the order of the stream, behind the copy.
    unsafe {
        device.fill(stream, a.data().as_ptr(), 5, 4096).unwrap();
        device.copy(stream, b.data().as_ptr(), a.data().as_ptr(), 4096).unwrap();
        drop(a);
        device.allocator().trim();
        device.copy_to_host(stream, back.as_mut_ptr(), b.data().as_ptr(), 4096).unwrap();
    }
    assert!(back.iter().all(|byte| *byte == 5));
    drop((b, scope));
    device.destroy_stream(stream);
}

fn tensors_move(id: DLDevice) {
    let x = Tensor::from_slice(&[2, 3], &[1_i64, 2, 3, 4, 5, 6]).unwrap();
    let there = x.copy_to(id).unwrap();
    let again = there.copy_to(id).unwrap();
    let view = again.view(24, &[3], DType::I64).unwrap();
    drop((there, again));
    assert_eq!(view.to_host().unwrap().to_vec::<i64>().unwrap(), [4, 5, 6]);
    if !id.is_host() {
        let error = view.to_vec::<i64>().unwrap_err();
        let text = error.message();
        assert_eq!(
            text,
            format!("the data is on {id}, which host code cannot touch: copy it first")
        );
        // SAFETY: the slice is refused.
        assert!(unsafe { view.as_slice::<i64>() }.is_err() && view.to_bytes().is_err());
    }
}

/// The cases for devices with kernels.
fn launches(gpu: &'static dyn Device) {
    let spec = KernelSpec { name: "add".into(), shared_bytes: 0 };
    let module = gpu.load(&common::ADD.into(), std::slice::from_ref(&spec)).unwrap();
    let module: Arc<dyn LoadedKernels> = module.into();
    let stream = gpu.create_stream().unwrap();
    let scope = StreamScope::enter(gpu.id(), stream);
    let n = 1000_usize;
    let values: Vec<i32> = (0..n as i32).collect();
    let [a, b] = [0, 1]
        .map(|_| Tensor::from_slice(&[n as i64], &values).unwrap().copy_to(gpu.id()).unwrap());
    let params = [a.data_ptr().addr() as u64, b.data_ptr().addr() as u64, n as u64];
    let (grid, block) = ([n.div_ceil(64) as u32, 1, 1], [64, 1, 1]);
    let launch = Launch {
        kernel: 0,
        grid,
        block,
        shared_bytes: 0,
        params: &params,
        addresses: 2,
        maps: &[],
    };
    let launches = |launch: Launch<'_>| {
        // SAFETY: the parameters are those of `add`, and both tensors live until it has run.
        unsafe { module.launch(stream, &launch) }
    };
    for _ in 0..3 {
        launches(launch).unwrap();
    }
    // A thread without a context launches too.
    std::thread::scope(|scope| drop(scope.spawn(|| launches(launch).unwrap())));
    let prepared = Arc::clone(&module).prepare(&launch).expect("is within the limits");
    // SAFETY: as for the other launches.
    unsafe { prepared.launch(stream, &params) }.unwrap();
    let sums = a.to_host().unwrap().to_vec::<i32>().unwrap();
    assert!(sums.iter().zip(&values).all(|(sum, value)| *sum == 6 * value));

    let nothing = Launch { grid: [0, 1, 1], ..launch };
    launches(nothing).unwrap();
    assert!(Arc::clone(&module).prepare(&nothing).is_none());
    for (bad, words) in [
        (Launch { grid: [1, 70_000, 1], ..launch }, "kernel add: [1, 70000, 1] blocks, of at most"),
        (Launch { block: [2048, 1, 1], ..launch }, "kernel add: [2048, 1, 1] threads in a block"),
        (Launch { shared_bytes: 1 << 20, ..launch }, "kernel add: 1048576 bytes of shared memory"),
        (Launch { kernel: 1, ..launch }, "a module has no kernel 1"),
    ] {
        let error = launches(bad).unwrap_err();
        assert!(error.message().starts_with(words), "{error}");
        assert!(Arc::clone(&module).prepare(&bad).is_none(), "{error}");
    }
    drop(scope);
    gpu.destroy_stream(stream);
    // The next stream has another number, whatever it has of this one.
    let later = gpu.create_stream().unwrap();
    let error = launches(launch).unwrap_err();
    assert_eq!(error.message(), format!("cuda:0: there is no stream {:#x}", stream.0));
    gpu.destroy_stream(later);
    drop((a, b, prepared, module));
    refusals(gpu, &spec);
}

fn refusals(gpu: &'static dyn Device, spec: &KernelSpec) {
    let load = |text: &str, name: &str| {
        let spec = KernelSpec { name: name.to_owned(), ..spec.clone() };
        gpu.load(&text.into(), &[spec]).unwrap_err().message().into_owned()
    };
    let damaged = common::ADD.replace("ld.param.u64 %rd2", "ld.param.u64 rd2 %");
    let text = load(&damaged, "add");
    assert!(
        text.starts_with("the code of add: cuda:0: cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX")
    );
    let text = load(common::ADD, "subtract");
    assert!(text.starts_with("kernel subtract: cuda:0: cuModuleGetFunction: CUDA_ERROR_NOT_FOUND"));
    let later = common::ADD.replace("sm_80", "sm_999");
    let text = load(&later, "add");
    assert!(
        text.starts_with("cuda:0: the code of add is for sm_999, and the device is sm_"),
        "{text}"
    );
    assert_eq!(load("\x7fELF", "add"), "cuda:0: the code of add is no PTX: it names no target");
    let shared = KernelSpec { shared_bytes: 1 << 20, ..spec.clone() };
    let error = gpu.load(&common::ADD.into(), &[shared]).unwrap_err();
    assert!(error.message().starts_with("cuda:0: add needs 1048576 bytes of shared memory"));
}
