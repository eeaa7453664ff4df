//! Operators on memory and devices, which TVM's passes make. Memory is planned here, and a program in TVMScript
//! runs on one device: allocations are fresh tensors, and what only says where a tensor lies is the tensor itself.

use reflex_tir::Expr;
use ruff_python_ast::{self as ast, Expr as Py};
use ruff_text_size::Ranged;

use super::args::{Args, elements, string};
use super::parser::{FuncParser, ParsedValue};
use super::source::{Result, Source};
use crate::{LeafExpr, Op, TensorType, Type, Value, dims};

impl FuncParser<'_, '_> {
    pub(super) fn memory(&mut self, name: &str, call: &ast::ExprCall) -> Result<ParsedValue> {
        match name {
            "builtin.alloc_tensor" => {
                let names = &["shape", "dtype", "runtime_device_index", "storage_scope"];
                let args = Args::bind(self.source, call, names)?;
                self.global_memory(&args)?;
                self.allocated(&args)
            }
            "memory.alloc_storage" => {
                let names = &["size", "virtual_device_index", "storage_scope", "dtype"];
                let args = Args::bind(self.source, call, names)?;
                self.global_memory(&args)?;
                Ok(ParsedValue::Value(self.leaf(LeafExpr::Null, Type::Object)))
            }
            "memory.alloc_tensor" => {
                let names = &["storage", "offset", "shape", "dtype", "runtime_device_ind"];
                let args = Args::bind(self.source, call, names)?;
                self.allocated(&args)
            }
            "memory.kill_storage" | "memory.kill_tensor" => {
                self.one(call)?;
                Ok(ParsedValue::Values(vec![]))
            }
            "memory.view" => self.view(call),
            "hint_on_device" | "to_vdevice" => {
                let args = Args::bind(self.source, call, &["data", "dst_vdevice", "memory_scope"])?;
                args.only("memory_scope", &["global"])?;
                let device = args.need("dst_vdevice")?;
                if !self.is_cpu(device) {
                    return Err(self.source.unsupported(call));
                }
                self.value(args.need("data")?).map(ParsedValue::Value)
            }
            "wrap_param" => {
                let args = Args::bind(self.source, call, &["data", "dtype"])?;
                let data = self.value(args.need("data")?)?;
                let dtype = args.dtype("dtype")?.unwrap_or(reflex_tir::DType::F32);
                self.emit1(call.start(), Op::Cast(dtype), &[data])
            }
            _ => Err(self.source.unsupported(call)),
        }
    }

    /// Refuses memory of another scope.
    fn global_memory(&self, args: &Args<'_>) -> Result<()> {
        let Some(scope) = args.get("storage_scope") else { return Ok(()) };
        match string(self.source, unwrapped(scope, "R.str"))? {
            "global" => Ok(()),
            _ => Err(self.source.unsupported(scope)),
        }
    }

    /// A fresh tensor, which kernels fill. Two in one storage share nothing: each is written before it is read.
    fn allocated(&mut self, args: &Args<'_>) -> Result<ParsedValue> {
        let shape = self.dims_of(args.need("shape")?)?;
        let dtype = super::args::dtype(self.source, unwrapped(args.need("dtype")?, "R.dtype"))?;
        Ok(ParsedValue::Value(self.fresh_tensor(None, TensorType::new(dtype, shape))))
    }

    /// The elements under another shape, or their bits as another type of the same width.
    fn view(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let names = &["data", "shape", "dtype", "relative_byte_offset"];
        let args = Args::bind(self.source, call, names)?;
        let mut data = self.value(args.need("data")?)?;
        let at = call.start();
        if let Some(offset) = args.get("relative_byte_offset").filter(|e| !self.is_absent(e))
            && self.dim_of(offset)?.as_int() != Some(0)
        {
            return Err(self.source.refuse(at, "a view with an offset is not supported"));
        }
        if let Some(e) = args.get("dtype").filter(|e| !self.is_absent(e)) {
            let dtype = super::args::dtype(self.source, unwrapped(e, "R.dtype"))?;
            if dtype != self.dtype_of(data) {
                data = self.emit_value(at, Op::Bitcast(dtype), &[data])?;
            }
        }
        let Some(shape) = args.get("shape").filter(|e| !self.is_absent(e)) else {
            return Ok(ParsedValue::Value(data));
        };
        let shape = self.dims_of(shape)?;
        let count = |shape: &[Expr]| dims::product(shape);
        if dims::equal(&count(&shape), &count(&self.shape_of(data))) != Some(true) {
            return Err(self.source.refuse(at, "a view of a part of a tensor is not supported"));
        }
        self.emit1(at, Op::Reshape(shape), &[data])
    }

    /// Whether an argument says that there is none, as TVM prints it: an empty tuple, or a value that is null.
    fn is_absent(&self, e: &Py) -> bool {
        if elements(e).is_some_and(<[Py]>::is_empty) {
            return true;
        }
        match e {
            Py::Call(call) => {
                let path = reflex_tir::script::path(&call.func);
                let empty = call.arguments.args.is_empty();
                empty && matches!(path.as_deref(), Some("R.tuple" | "R.null_value"))
            }
            Py::Name(name) => match self.lookup(name.id.as_str()) {
                Some(ParsedValue::Value(value)) => self.is_null(value),
                Some(ParsedValue::Values(list)) => list.is_empty(),
                _ => false,
            },
            _ => false,
        }
    }

    fn is_null(&self, value: Value) -> bool {
        self.b.leaf_of(value).is_some_and(|leaf| *leaf == LeafExpr::Null)
    }

    /// Whether a device is a CPU: `"llvm"`, `I.vdevice("llvm", 0)`, `R.device(1, 0)`.
    fn is_cpu(&self, e: &Py) -> bool {
        let number = |e: &Py| super::args::int(self.source, e).is_ok_and(|kind| kind == 1);
        let Py::Call(call) = e else { return is_cpu_text(self.source, e) };
        let keyword = |keyword: &ast::Keyword| {
            let name = keyword.arg.as_ref().map(|name| name.as_str());
            matches!(name, Some("dev_type" | "device_type")) && number(&keyword.value)
        };
        is_cpu_device(self.source, call)
            || call.arguments.args.first().is_some_and(number)
            || call.arguments.keywords.iter().any(keyword)
    }
}

/// Refuses `I.module_global_infos(...)`, the devices that texts name by number, unless all are CPUs.
pub(super) fn only_cpus(source: Source<'_>, e: &Py) -> Result<()> {
    let Py::Call(call) = e else { return Err(source.unsupported(e)) };
    let [Py::Dict(infos)] = &*call.arguments.args else { return Err(source.unsupported(call)) };
    for item in &infos.items {
        let devices = item
            .key
            .as_ref()
            .is_some_and(|key| string(source, key).is_ok_and(|name| name == "vdevice"));
        let cpu = |e: &Py| matches!(e, Py::Call(device) if is_cpu_device(source, device));
        if !devices || !elements(&item.value).is_some_and(|list| list.iter().all(cpu)) {
            return Err(source.unsupported(call));
        }
    }
    Ok(())
}

/// Whether the first argument of `I.vdevice(...)` is a target that is a CPU, by name or as a dictionary.
fn is_cpu_device(source: Source<'_>, call: &ast::ExprCall) -> bool {
    match call.arguments.args.first() {
        Some(Py::Dict(target)) => target.items.iter().any(|item| {
            let is_kind = |key: &Py| string(source, key).is_ok_and(|key| key == "kind");
            item.key.as_ref().is_some_and(is_kind) && is_cpu_text(source, &item.value)
        }),
        Some(e) => is_cpu_text(source, e),
        None => false,
    }
}

/// Whether a text names a CPU: `"llvm"`, `"llvm:0:global"`.
pub(super) fn is_cpu_text(source: Source<'_>, e: &Py) -> bool {
    let kind = string(source, e).ok().and_then(|text| text.split(':').next());
    matches!(kind, Some("llvm" | "c" | "cpu"))
}

/// The argument of `R.str(...)` or `R.dtype(...)`, or the expression itself.
fn unwrapped<'e>(e: &'e Py, wrapper: &str) -> &'e Py {
    match e {
        Py::Call(call) if reflex_tir::script::path(&call.func).as_deref() == Some(wrapper) => {
            call.arguments.args.first().unwrap_or(e)
        }
        e => e,
    }
}
