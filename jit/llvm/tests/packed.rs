//! Refusals of packed entries and their messages, the same from both code generators.

mod common;

use common::Kernel;
use reflex_runtime::abi::{DLDevice, DLTensor, TVMFFIAny, type_index};
use reflex_tir::builder::FuncBuilder;
use reflex_tir::codegen::{CpuTarget, OptLevel};
use reflex_tir::{DType, Expr, PrimFunc, lower};

/// `f(x[n, 4], w[n + 1], s: int) -> y[n, 4]`
fn shaped() -> PrimFunc {
    let mut f = FuncBuilder::new("f");
    let n = f.symbol("n");
    let x = f.input("x", DType::F32, vec![n.clone(), 4.into()]);
    f.input("w", DType::I64, vec![n.clone() + 1]);
    let s = f.scalar("s");
    f.output("compute", "y", DType::F32, vec![n, 4.into()], |f, i| {
        f.at(x, i) + s.cast(DType::F32) * Expr::float(0.5, DType::F32)
    });
    lower::lower(&f.finish())
}

struct Call {
    shapes: [Vec<i64>; 3],
    strides: Option<Vec<i64>>,
    dtypes: [DType; 3],
    device: i32,
    offset: u64,
    null: bool,
}

impl Default for Call {
    fn default() -> Call {
        Call {
            shapes: [vec![2, 4], vec![3], vec![2, 4]],
            strides: None,
            dtypes: [DType::F32, DType::I64, DType::F32],
            device: 1,
            offset: 0,
            null: false,
        }
    }
}

impl Call {
    fn run(mut self, edit: impl FnOnce(&mut Vec<TVMFFIAny>)) -> Result<Vec<f32>, String> {
        let mut x: Vec<f32> = (0..16).map(|i| i as f32).collect();
        let mut w = [0i64; 8];
        let mut y = vec![0f32; 16];
        let data = [x.as_mut_ptr().cast(), w.as_mut_ptr().cast(), y.as_mut_ptr().cast()];
        let mut tensors: Vec<DLTensor> = (0..3)
            .map(|i| DLTensor {
                data: data[i],
                device: DLDevice::CPU,
                ndim: self.shapes[i].len() as i32,
                dtype: self.dtypes[i],
                shape: self.shapes[i].as_mut_ptr(),
                strides: std::ptr::null_mut(),
                byte_offset: 0,
            })
            .collect();
        tensors[0].device.device_type = self.device;
        tensors[0].byte_offset = self.offset;
        if let Some(strides) = &mut self.strides {
            tensors[0].strides = strides.as_mut_ptr();
        }
        if self.null {
            tensors[0].data = std::ptr::null_mut();
        }
        let mut any = |i: usize| {
            let tensor: *mut DLTensor = &raw mut tensors[i];
            TVMFFIAny::pointer(type_index::DL_TENSOR_PTR, tensor.cast())
        };
        let mut args = vec![any(0), any(1), TVMFFIAny::int_like(type_index::INT, 4), any(2)];
        edit(&mut args);
        let answer = Kernel::new(&shaped(), OptLevel::O3).call(&args).map(|()| y.clone());
        y.fill(0.0);
        let baseline =
            Kernel::baseline(&shaped(), &CpuTarget::host()).call(&args).map(|()| y.clone());
        assert_eq!(baseline, answer, "Cranelift and LLVM");
        y.fill(0.0);
        assert_eq!(Kernel::source(&shaped()).call(&args).map(|()| y), answer, "C and LLVM");
        answer
    }
}

/// A cached kernel gets its own name in place of another one in texts and in the description of its arguments; anywhere
/// else the name would make it be compiled again.
#[test]
fn the_name_is_in_texts_and_in_what_describes_arguments() {
    use object::{Object, ObjectSection, SectionKind};
    let name = "$kernel$$$$$$$$$";
    let mut f = FuncBuilder::new(name);
    let n = f.symbol("n");
    let x = f.input("x", DType::F32, vec![n.clone(), 4.into()]);
    f.output("compute", "y", DType::F32, vec![n, 4.into()], |f, i| f.at(x, i) + f.at(x, i));
    let func = lower::lower(&f.finish());
    let elf = reflex_llvm::compile(&func, &CpuTarget::host(), OptLevel::O3).unwrap().elf;
    let file = object::File::parse(&*elf).unwrap();
    let mut places = vec![];
    for section in file.sections() {
        let data = section.data().unwrap();
        if data.windows(name.len()).any(|bytes| bytes == name.as_bytes()) {
            let (kind, section) = (section.kind(), section.name().unwrap().to_owned());
            let is_text = kind == SectionKind::ReadOnlyString || section == ".strtab";
            assert!(
                is_text || section == reflex_tir::argument_checks::ARGUMENTS_SECTION,
                "{section}"
            );
            places.push(section);
        }
    }
    assert!(places.contains(&".rodata.arguments".to_owned()), "{places:?}");
}

#[test]
fn good_arguments_run() {
    let y = Call::default().run(|_| {}).unwrap();
    assert_eq!(y[..8], [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
    let y = Call { offset: 8, ..Call::default() }.run(|_| {}).unwrap();
    assert_eq!(y[..2], [4.0, 5.0]);
    // Strides that are compact, and a stride that does not matter.
    let strides = Some(vec![4, 1]);
    Call { strides, ..Call::default() }.run(|_| {}).unwrap();
    let shapes = [vec![1, 4], vec![2], vec![1, 4]];
    Call { shapes, strides: Some(vec![77, 1]), ..Call::default() }.run(|_| {}).unwrap();
    // No elements, no data.
    let shapes = [vec![0, 4], vec![1], vec![0, 4]];
    Call { shapes, null: true, ..Call::default() }.run(|_| {}).unwrap();
}

#[test]
fn bad_arguments_are_named() {
    let refuse = |call: Call, message: &str| {
        assert_eq!(call.run(|_| {}).unwrap_err(), message);
    };
    let base = Call::default;
    let dtypes = [DType::I64, DType::I64, DType::F32];
    refuse(
        Call { dtypes, ..base() },
        "TypeError: f: argument 0 (x): expected dtype float32, got int64",
    );
    let dtypes = [DType::F32.with_lanes(4), DType::I64, DType::F32];
    refuse(
        Call { dtypes, ..base() },
        "TypeError: f: argument 0 (x): expected dtype float32, got float32x4",
    );
    let shapes = |x: &[i64], w: &[i64], y: &[i64]| Call {
        shapes: [x.to_vec(), w.to_vec(), y.to_vec()],
        ..Call::default()
    };
    refuse(
        shapes(&[2], &[3], &[2, 4]),
        "ValueError: f: argument 0 (x): expected 2 dimensions, got 1",
    );
    refuse(
        shapes(&[2, 5], &[3], &[2, 4]),
        "ValueError: f: argument 0 (x): dimension 1: expected 4, got 5",
    );
    refuse(
        shapes(&[-2, 4], &[3], &[2, 4]),
        "ValueError: f: argument 0 (x): dimension 0: expected an extent, got -2",
    );
    refuse(
        shapes(&[2, 4], &[4], &[2, 4]),
        "ValueError: f: argument 1 (w): dimension 0: expected 3, got 4",
    );
    refuse(
        shapes(&[2, 4], &[3], &[3, 4]),
        "ValueError: f: argument 3 (y): dimension 0: expected 2, got 3",
    );
    refuse(
        Call { strides: Some(vec![1, 2]), ..base() },
        "ValueError: f: argument 0 (x): stride of dimension 0: expected 4, got 1",
    );
    refuse(
        Call { device: 2, ..base() },
        "ValueError: f: argument 0 (x): expected a tensor on the CPU, got device type 2",
    );
    refuse(
        Call { null: true, ..base() },
        "ValueError: f: argument 0 (x): the data pointer is null",
    );
}

#[test]
fn bad_values_are_named() {
    let run = |edit: &dyn Fn(&mut Vec<TVMFFIAny>)| Call::default().run(|a| edit(a)).unwrap_err();
    assert_eq!(run(&|a| a.truncate(3)), "TypeError: f: expected 4 arguments, got 3");
    assert_eq!(
        run(&|a| a[1] = TVMFFIAny::int_like(type_index::INT, 3)),
        "TypeError: f: argument 1 (w): expected a tensor, got int"
    );
    assert_eq!(
        run(&|a| a[1] = TVMFFIAny::int_like(1234, 3)),
        "TypeError: f: argument 1 (w): expected a tensor, got type index 1234"
    );
    assert_eq!(
        run(&|a| a[2] = TVMFFIAny::int_like(type_index::FLOAT, 3)),
        "TypeError: f: argument 2 (s): expected a scalar int64, got float"
    );
    assert_eq!(
        run(&|a| a[0] = TVMFFIAny::pointer(type_index::DL_TENSOR_PTR, std::ptr::null_mut())),
        "TypeError: f: argument 0 (x): expected a tensor, got a null pointer"
    );
}
