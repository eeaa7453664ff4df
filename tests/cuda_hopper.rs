//! Kernels with tensor maps in a session on the stand-in for a Hopper: batches encode maps again for other arguments, and a
//! tensor of another framework may begin anywhere.

#[path = "common/stand_in.rs"]
mod stand_in;

use half::bf16;
use reflex::{AnyView, DType, Engine, Mode, ModelFormat, ModelSource, Tensor};
use reflex_runtime::abi::{DLDevice, DLManagedTensorVersioned, DLTensor};
use stand_in::Driver;

const PRODUCT: &str = "from tvm.script import ir as I
from tvm.script import relax as R
from typing import TypeVar

m = TypeVar(\"m\")

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((m, 136), dtype=\"bfloat16\"), w: R.Tensor((136, 24), dtype=\"bfloat16\")) -> R.Tensor((m, 24), dtype=\"bfloat16\"):
        y: R.Tensor((m, 24), dtype=\"bfloat16\") = R.matmul(x, w)
        return y
";

fn values(count: i64, seed: i64) -> Vec<bf16> {
    (0..count).map(|i| bf16::from_f32(((i * 37 + seed * 11) % 29) as f32 * 0.125 - 1.5)).collect()
}

fn tensor(shape: &[i64], seed: i64) -> Tensor {
    Tensor::from_slice(shape, &values(shape.iter().product(), seed)).expect("a tensor")
}

/// A tensor of another framework on the first device.
fn foreign(address: u64, shape: &'static [i64]) -> Tensor {
    unsafe extern "C" fn free(this: *mut DLManagedTensorVersioned) {
        // SAFETY: made by `foreign`, and called once.
        drop(unsafe { Box::from_raw(this) });
    }
    // SAFETY: all of its fields are numbers and addresses, for which zeros are values.
    let mut managed: DLManagedTensorVersioned = unsafe { std::mem::zeroed() };
    managed.version.major = 1;
    managed.deleter = Some(free);
    managed.dl_tensor = DLTensor {
        data: std::ptr::without_provenance_mut(address as usize),
        device: DLDevice::cuda(0),
        ndim: shape.len() as i32,
        dtype: DType::BF16,
        shape: shape.as_ptr().cast_mut(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    let managed = std::ptr::NonNull::from(Box::leak(Box::new(managed)));
    // SAFETY: a managed tensor that this gives away, of memory that stays.
    unsafe { Tensor::from_dlpack_versioned(managed) }.expect("a tensor")
}

#[test]
fn maps_follow_their_tensors() {
    // SAFETY: this is the only test of the process, and nothing else reads the environment yet.
    unsafe { std::env::set_var("REFLEX_STANDIN", "sm=90;seed=3") };
    let driver = Driver::load();
    let source = || ModelSource::bytes(ModelFormat::Script, PRODUCT);
    let load = |builder: reflex::EngineBuilder| {
        builder.build().expect("an engine").load(source()).expect("a program")
    };
    let engine = Engine::builder().schedule_for("cuda:sm_90a").build().expect("an engine");
    let ptx = &engine.ptx(source(), None).expect("PTX")[0].1;
    assert!(ptx.contains("cp.async.bulk.tensor"), "{ptx}");
    let on_cpu = load(Engine::builder().schedule_for("cuda:sm_90a"));
    let on_gpu = load(Engine::builder().device("cuda:0"));
    let mut expected = on_cpu.session(Mode::Bytecode).unwrap();
    let mut session = on_gpu.session(Mode::Tiered).unwrap();
    let mut interpreted = on_gpu.session(Mode::Bytecode).unwrap();
    let main = session.function_index("main").unwrap();
    let answer = |value: &reflex::Any| {
        let tensor = value.downcast_ref::<Tensor>().expect("a tensor");
        tensor.to_host().unwrap().to_vec::<bf16>().unwrap()
    };
    // Arguments of earlier calls stay where they are, so that each has an address of its own.
    let mut kept = vec![];
    for call in 0..8 {
        let args = [tensor(&[72, 136], call).into(), tensor(&[136, 24], 3 * call).into()];
        let wanted = answer(&expected.call_index(main, AnyView::slice(&args)).unwrap());
        assert!(wanted.iter().any(|x| *x != bf16::ZERO));
        let found = answer(&session.call_index(main, AnyView::slice(&args)).unwrap());
        assert_eq!(found, wanted, "call {call}");
        let there = |arg: &reflex::Any| {
            let tensor = arg.downcast_ref::<Tensor>().expect("a tensor");
            reflex::Any::from(tensor.copy_to(DLDevice::cuda(0)).unwrap())
        };
        kept.push(([there(&args[0]), there(&args[1])], wanted));
    }
    // The memory that host arguments are copied to has the last call's.
    for (call, (args, wanted)) in kept.iter().enumerate() {
        for (mode, session) in [("tiered", &mut session), ("bytecode", &mut interpreted)] {
            let found = answer(&session.call_index(main, AnyView::slice(args)).unwrap());
            assert_eq!(found, *wanted, "call {call}, {mode}, on the device");
        }
    }
    let report = session.batches();
    assert!(matches!(report.ready[..], [(_, 1, 12)]), "{report}");

    // An argument that begins at a multiple of 8 bytes, and not of 16.
    let x = values(72 * 136, 5);
    let mut address = 0_u64;
    let bytes = 2 * x.len() as u64;
    driver.call("cuMemAlloc_v2", [(&raw mut address).addr() as u64, bytes + 8, 0, 0]);
    let from = x.as_ptr().expose_provenance() as u64;
    let mut stream = 0_u64;
    driver.call("cuStreamCreate", [(&raw mut stream).addr() as u64, 1, 0, 0]);
    driver.call("cuMemcpyHtoDAsync_v2", [address + 8, from, bytes, stream]);
    driver.call("cuStreamSynchronize", [stream, 0, 0, 0]);
    let w = tensor(&[136, 24], 6);
    let wanted = [tensor(&[72, 136], 5).into(), w.clone().into()];
    let wanted = answer(&expected.call_index(main, AnyView::slice(&wanted)).unwrap());
    let args = [foreign(address + 8, &[72, 136]).into(), w.into()];
    let found = answer(&session.call_index(main, AnyView::slice(&args)).unwrap());
    assert_eq!(found, wanted, "it is copied to where it is aligned");
    assert_eq!(session.batches(), report, "and the call is no batch");
}
