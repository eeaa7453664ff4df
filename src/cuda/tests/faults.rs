//! Failures of the driver, by the stand-in's plan: what is said, and what still works.
//!
//! Each case runs in a process of its own, since a process has one driver.

mod common;

use std::path::Path;
use std::process::Command;

use reflex_runtime::abi::DLDevice;
use reflex_runtime::alloc::device::OwnedBlock;
use reflex_runtime::device::{self, DEVICE_LOST, Device, KernelSpec, Launch, Stream};
use reflex_runtime::error::Error;
use reflex_runtime::tensor::Tensor;

/// Set in the process of a case.
const CASE: &str = "REFLEX_CUDA_TEST_CASE";
/// The stand-in that the process loads.
const DRIVER: &str = "REFLEX_CUDA_TEST_DRIVER";

/// Runs a test's body in a process of its own, with a plan and other variables.
fn in_a_process(test: &str, plan: &str, variables: &[(&str, &str)], driver: &Path, body: fn()) {
    if std::env::var(CASE).as_deref() == Ok(test) {
        let path = std::env::var_os(DRIVER).expect("a driver");
        // SAFETY: the library has no constructors.
        std::mem::forget(unsafe { libloading::Library::new(path) }.expect("it opens"));
        return body();
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .envs([(CASE, test), ("REFLEX_STANDIN", plan)])
        .env(DRIVER, driver)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, errors) = (text(&child.stdout), text(&child.stderr));
    assert!(child.status.success(), "{out}\n{errors}");
}

fn case(test: &str, plan: &str, body: fn()) {
    in_a_process(test, plan, &[], &common::stand_in(), body);
}

fn opening_fails(words: &str) {
    let error = reflex_cuda::open(0).err().expect("it cannot be opened");
    assert_eq!(error.kind(), "DriverError");
    assert!(error.message().starts_with(words), "{error}");
    // What is missing once is missing.
    assert_eq!(reflex_cuda::open(0).err().unwrap().message(), error.message());
}

#[test]
fn an_old_driver_is_refused() {
    case("an_old_driver_is_refused", "version=11080", || {
        opening_fails("the driver is for CUDA 11.8, and 12.0 is needed; install the driver, 525");
    });
}

#[test]
fn missing_functions_are_named() {
    // A driver whose library has those two under other names.
    let mut bytes = std::fs::read(common::stand_in()).unwrap();
    for name in ["cuEventRecord", "cuMemcpyPeerAsync"] {
        let found: Vec<usize> = (0..bytes.len() - name.len())
            .filter(|at| bytes[*at..].starts_with(name.as_bytes()))
            .collect();
        assert!(!found.is_empty());
        found.into_iter().for_each(|at| bytes[at] = b'x');
    }
    let folder = std::env::temp_dir().join(format!("reflex-driver-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let driver = folder.join("libcuda.so.1");
    std::fs::write(&driver, bytes).unwrap();
    in_a_process("missing_functions_are_named", "", &[], &driver, || {
        opening_fails("the driver's libcuda.so.1 lacks cuEventRecord, cuMemcpyPeerAsync;");
    });
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn devices_that_are_not_there_are_named() {
    case("devices_that_are_not_there_are_named", "devices=1", || {
        let error = reflex_cuda::open(1).err().unwrap();
        assert_eq!(error.message(), "there is no cuda:1; there is cuda:0");
        assert!(reflex_cuda::open(-1).is_err() && reflex_cuda::open(0).is_ok());
    });
}

/// A device with the kernel `add`, and two tensors of 64 elements.
struct Bench {
    gpu: &'static dyn Device,
    module: Box<dyn device::LoadedKernels>,
    to: Tensor,
    from: Tensor,
}

impl Bench {
    fn new(number: i32) -> Bench {
        let gpu = reflex_cuda::open(number).unwrap();
        let spec = KernelSpec { name: "add".into(), shared_bytes: 0 };
        let module = gpu.load(&common::ADD.into(), &[spec]).unwrap();
        let values: Vec<i32> = (0..64).collect();
        let tensor = || Tensor::from_slice(&[64], &values).unwrap().copy_to(gpu.id()).unwrap();
        Bench { gpu, module, to: tensor(), from: tensor() }
    }

    /// `to[..n] += from[..n]`
    fn add(&self, n: u64) -> Result<(), Error> {
        let params = [self.to.data_ptr().addr() as u64, self.from.data_ptr().addr() as u64, n];
        let grid = [n.div_ceil(64) as u32, 1, 1];
        let launch = Launch {
            kernel: 0,
            grid,
            block: [64, 1, 1],
            shared_bytes: 0,
            params: &params,
            addresses: 2,
            maps: &[],
        };
        // SAFETY: the parameters are those of `add`, and both tensors live until it has run. More
        // elements than there are is what a case is about: the stand-in finds it.
        unsafe { self.module.launch(Stream::DEFAULT, &launch) }
    }

    fn sums(&self) -> Result<Vec<i32>, Error> {
        self.to.to_host()?.to_vec()
    }
}

#[test]
fn a_late_error_names_the_kernels_and_loses_the_device_alone() {
    case("a_late_error_names_the_kernels_and_loses_the_device_alone", "late=3:700", || {
        let (bench, other) = (Bench::new(0), Bench::new(1));
        bench.add(64).unwrap();
        assert_eq!(bench.sums().unwrap()[63], 126);
        bench.add(64).unwrap();
        bench.add(64).unwrap();
        let error = bench.gpu.synchronize(Stream::DEFAULT).unwrap_err();
        assert_eq!(error.kind(), DEVICE_LOST);
        let text = error.message().into_owned();
        assert!(
            text.starts_with("cuda:0 is lost: cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS")
                && text.ends_with("the 2 kernels since the last synchronisation: add, add"),
            "{text}"
        );
        // Everything says so from now on, and nothing is freed.
        let live = bench.gpu.allocator().statistics().live;
        for error in [
            bench.add(64).unwrap_err(),
            bench.sums().unwrap_err(),
            OwnedBlock::new(bench.gpu.allocator(), 10).unwrap_err(),
            bench.gpu.create_stream().unwrap_err(),
        ] {
            assert_eq!(error.kind(), DEVICE_LOST);
            assert!(error.message().contains(text.as_str()), "{error}");
        }
        drop(bench);
        assert!(device::get(DLDevice::cuda(0)).unwrap().allocator().statistics().live < live);
        // The other device and the CPU go on.
        other.add(64).unwrap();
        assert_eq!(other.sums().unwrap()[63], 126);
    });
}

#[test]
fn synchronous_launches_name_one_kernel() {
    let (test, driver) = ("synchronous_launches_name_one_kernel", common::stand_in());
    let variables = [(reflex_cuda::SYNC_VARIABLE, "1")];
    in_a_process(test, "late=2:719", &variables, &driver, || {
        let bench = Bench::new(0);
        bench.add(64).unwrap();
        let text = bench.add(64).unwrap_err().message().into_owned();
        assert!(text.ends_with("the kernel since the last synchronisation: add"), "{text}");
    });
}

#[test]
fn a_kernel_out_of_bounds_is_an_illegal_address() {
    case("a_kernel_out_of_bounds_is_an_illegal_address", "", || {
        let bench = Bench::new(0);
        bench.add(640).unwrap();
        let error = bench.sums().unwrap_err();
        assert!(error.message().contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{error}");
    });
}

#[test]
fn short_memory_is_an_error_that_leaves_the_rest() {
    case("short_memory_is_an_error_that_leaves_the_rest", "memory=4194304", || {
        let bench = Bench::new(0);
        let allocator = bench.gpu.allocator();
        let block = |bytes| OwnedBlock::new(allocator, bytes);
        let half = block(2 << 20).unwrap();
        let error = block(3 << 20).unwrap_err();
        assert_eq!(error.kind(), "MemoryError");
        assert!(error.message().contains("CUDA_ERROR_OUT_OF_MEMORY"), "{error}");
        bench.add(64).unwrap();
        assert_eq!(bench.sums().unwrap()[1], 2);
        // Free blocks of another size go back to the driver, so that this fits.
        drop(half);
        block(3 << 20).unwrap();
    });
}

#[test]
fn free_memory_of_another_stream_serves_after_its_work() {
    // Work runs when it is needed, and no sooner.
    case("free_memory_of_another_stream_serves_after_its_work", "memory=2621440", || {
        let bench = Bench::new(0);
        let other = bench.gpu.create_stream().unwrap();
        let (first, kept) = {
            let _scope = device::StreamScope::enter(bench.gpu.id(), other);
            let block = OwnedBlock::new(bench.gpu.allocator(), 2 << 20).unwrap();
            let kept = OwnedBlock::new(bench.gpu.allocator(), 16).unwrap();
            let (from, to) = (block.data().as_ptr(), kept.data().as_ptr());
            // SAFETY: the blocks have so many bytes.
            unsafe {
                bench.gpu.fill(other, from, 1, 2 << 20).unwrap();
                bench.gpu.copy(other, to, from, 1).unwrap();
            }
            (block.data(), kept)
        };
        let again = OwnedBlock::new(bench.gpu.allocator(), 2 << 20).unwrap();
        assert_eq!(again.data(), first);
        let mut byte = [0];
        // SAFETY: the block has so many bytes, and the host's is there.
        unsafe {
            bench.gpu.fill(Stream::DEFAULT, again.data().as_ptr(), 2, 2 << 20).unwrap();
            let from = again.data().as_ptr();
            bench.gpu.copy_to_host(Stream::DEFAULT, byte.as_mut_ptr(), from, 1).unwrap();
            assert_eq!(byte, [2]);
            let theirs = kept.data().as_ptr();
            bench.gpu.copy_to_host(other, byte.as_mut_ptr(), theirs, 1).unwrap();
            assert_eq!(byte, [1], "the other stream's work had the memory to itself");
            bench.gpu.copy_to_host(Stream::DEFAULT, byte.as_mut_ptr(), from, 1).unwrap();
            assert_eq!(byte, [2], "the other stream's fill came before");
        }
        bench.gpu.destroy_stream(other);
    });
}

#[test]
fn devices_copy_to_each_other() {
    case("devices_copy_to_each_other", "seed=7", || {
        let (here, there) = (Bench::new(0), Bench::new(1));
        here.add(64).unwrap();
        let copy = here.to.to_device(DLDevice::cuda(1)).unwrap();
        // Later work of the source's stream comes after the copy.
        here.add(64).unwrap();
        assert_eq!(copy.device(), DLDevice::cuda(1));
        let values: Vec<i32> = copy.to_host().unwrap().to_vec().unwrap();
        assert!(values.iter().zip(0..).all(|(value, n)| *value == 2 * n), "{values:?}");
        assert_eq!(here.sums().unwrap()[2], 6);
        there.add(64).unwrap();
        assert_eq!(there.sums().unwrap()[2], 4);
    });
}

#[test]
fn calls_that_fail_are_named() {
    case("calls_that_fail_are_named", "fail=cuStreamCreate:3:2;fail=cuLaunchKernel:1:701", || {
        let bench = Bench::new(0);
        bench.gpu.create_stream().map(|stream| bench.gpu.destroy_stream(stream)).unwrap();
        let error = bench.gpu.create_stream().unwrap_err();
        let text = "cuda:0: cuStreamCreate: CUDA_ERROR_OUT_OF_MEMORY (out of memory)";
        assert_eq!((&*error.kind(), &*error.message()), ("MemoryError", text));
        let error = bench.add(64).unwrap_err();
        let text = error.message();
        assert!(text.starts_with("kernel add: cuda:0: cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF"));
        bench.add(64).unwrap();
        assert_eq!(bench.sums().unwrap()[3], 6);
    });
}
