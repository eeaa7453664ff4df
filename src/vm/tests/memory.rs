//! The memory that a program whose sizes never repeat leaves resident. The numbers are the
//! process's, so this is the only test of its binary.

use std::sync::{Arc, Barrier};

use reflex_runtime::abi::DLDevice;
use reflex_runtime::alloc::device::{self, AllocatorKind, CPU, DeviceAllocator};
use reflex_runtime::dtype::DType;
use reflex_runtime::shape::Shape;
use reflex_runtime::tensor::Tensor;
use reflex_vm::builder::ExecBuilder;
use reflex_vm::bytecode::Reg;
use reflex_vm::devices::{CpuAllocators, Devices};
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::verify::verify;

/// Bytes of the largest tensor.
const LARGEST: i64 = 6_200_000;
const SIZES: i64 = 400;

/// `main(s)`: a tensor of shape `s` on the first device, allocated next to another one of the same size;
/// `second(s)`: the same on the second one. `clear()`: trims the allocator.
fn session(allocators: impl Into<CpuAllocators>) -> Session {
    let mut b = ExecBuilder::new();
    for (name, device) in [("main", 0), ("second", 1)] {
        b.function(name, 1).unwrap();
        let (dtype, scope) = (b.dtype(DType::U8), b.string("global"));
        let (zero, device) = (b.imm(0).unwrap(), b.imm(device).unwrap());
        for (storage, tensor) in [(1, 2), (3, 4)] {
            let args = [b.vm_state(), b.r(0), device, dtype, scope];
            b.emit_call("vm.builtin.alloc_storage", &args, b.r(storage)).unwrap();
            let args = [b.r(storage), zero, b.r(0), dtype];
            b.emit_call("vm.builtin.alloc_tensor", &args, b.r(tensor)).unwrap();
        }
        b.emit_ret(Reg(2)).unwrap();
        b.end_function().unwrap();
    }
    b.function("clear", 0).unwrap();
    b.emit_call("vm.builtin.memory_manager.clear", &[], b.r(0)).unwrap();
    b.emit_ret(Reg(0)).unwrap();
    b.end_function().unwrap();
    let program = Program::load(verify(b.finish().unwrap()).unwrap(), &[]).unwrap();
    let devices = Devices::Listed(vec![DLDevice::cpu(0), DLDevice::cpu(1)]);
    let options = Options { allocators: allocators.into(), devices, ..Options::default() };
    Session::new(&Arc::new(program), options).unwrap()
}

/// Threads keep the bytes of small blocks that they released in the process's count: neither what is
/// told to be in use nor the limit includes them.
fn small_blocks_of_threads_are_counted_exactly() {
    const THREADS: usize = 3;
    const BYTES: usize = 64;
    let make = |count: usize| -> Result<Vec<Tensor>, _> {
        (0..count).map(|_| Tensor::empty(&[BYTES as i64], DType::U8)).collect()
    };
    let (dropped, checked) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for count in [1, 700, 3000] {
                    drop(make(count).unwrap());
                }
                let kept = make(2).unwrap();
                dropped.wait();
                checked.wait();
                // There is a limit now.
                drop(kept);
                drop(make(4).unwrap());
            });
        }
        dropped.wait();
        let kept = 2 * THREADS * BYTES;
        assert_eq!(CPU.statistics().live, kept);
        device::set_memory_limit(kept + 10 * BYTES);
        let all = make(10).unwrap();
        assert_eq!(CPU.statistics().live, kept + 10 * BYTES);
        assert!(make(1).unwrap_err().to_string().contains("exceed the limit"));
        drop(all);
        device::set_memory_limit(kept + 4 * THREADS * BYTES);
        checked.wait();
    });
    assert_eq!(CPU.statistics().live, 0);
    device::set_memory_limit(usize::MAX);
    drop(make(100).unwrap());
    let peak = CPU.statistics().peak_live;
    (0..100).for_each(|_| drop(make(100).unwrap()));
    assert_eq!((CPU.statistics().live, CPU.statistics().peak_live), (0, peak));
}

#[test]
#[cfg_attr(miri, ignore = "too much memory for Miri")]
fn four_hundred_sizes_leave_at_most_twice_the_largest_working_set() {
    small_blocks_of_threads_are_counted_exactly();
    CPU.trim();

    let mut s = session(AllocatorKind::Pooled);
    for step in 1..=SIZES {
        // Up and down, so that small sizes come after large ones.
        let bytes = LARGEST * if step % 2 == 0 { step } else { SIZES + 1 - step } / SIZES;
        let made = s.call("main", &[Shape::new(&[bytes]).into()]).unwrap();
        assert_eq!(Tensor::try_from(made).unwrap().nbytes() as i64, bytes);
        let memory = CPU.statistics();
        assert!(memory.resident <= 2 * memory.peak_live, "step {step}: {memory:?}");
    }
    let memory = CPU.statistics();
    // Two tensors at once, in blocks that are at most a quarter larger.
    assert!(memory.peak_live as i64 <= 2 * (LARGEST + LARGEST / 4), "{memory:?}");
    // While a block is being added, the last ones may still be kept.
    assert!(memory.peak_resident <= 3 * memory.peak_live, "{memory:?}");
    assert_eq!(memory.live, 0, "{memory:?}");

    s.call("clear", &[]).unwrap();
    assert_eq!(CPU.statistics().resident, 0, "{:?}", CPU.statistics());

    // Without a pool nothing is kept at all.
    let mut naive = session(AllocatorKind::Naive);
    drop(naive.call("main", &[Shape::new(&[LARGEST]).into()]).unwrap());
    assert_eq!(CPU.statistics().resident, 0, "{:?}", CPU.statistics());

    // One device keeps, another does not.
    let mut both = session("naive,cpu:1=pooled".parse::<CpuAllocators>().unwrap());
    drop(both.call("main", &[Shape::new(&[LARGEST]).into()]).unwrap());
    assert_eq!(CPU.statistics().resident, 0, "{:?}", CPU.statistics());
    let made = both.call("second", &[Shape::new(&[LARGEST]).into()]).unwrap();
    assert_eq!(Tensor::try_from(made).unwrap().device(), DLDevice::cpu(1));
    assert!(CPU.statistics().resident as i64 >= LARGEST, "{:?}", CPU.statistics());
    s.call("clear", &[]).unwrap();

    device::set_cache_limit(1 << 20);
    drop(s.call("main", &[Shape::new(&[LARGEST]).into()]).unwrap());
    assert!(CPU.statistics().resident <= 1 << 20, "{:?}", CPU.statistics());

    device::set_memory_limit(1 << 20);
    let error = s.call("main", &[Shape::new(&[LARGEST]).into()]).unwrap_err();
    assert!(error.to_string().contains("exceed the limit of 1048576 bytes"), "{error}");
    assert!(s.call("main", &[Shape::new(&[1000]).into()]).is_ok());
    assert_eq!(CPU.statistics().live, 0, "{:?}", CPU.statistics());
}
