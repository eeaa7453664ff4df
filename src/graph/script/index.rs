//! Operators that pick elements: gathers, scatters, sorting.

use reflex_tir::{DType, Expr};
use ruff_python_ast as ast;
use ruff_text_size::Ranged;

use super::args::Args;
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use crate::{Binary, GatherKind, Op, OutOfRange, ScatterKind, ScatterReduce, Value};

impl FuncParser<'_, '_> {
    /// The operator, if it is one of these.
    pub(super) fn index(
        &mut self,
        name: &str,
        call: &ast::ExprCall,
    ) -> Result<Option<ParsedValue>> {
        let at = call.start();
        Ok(Some(match name {
            "take" => self.take(call)?,
            "gather_elements" => {
                let args = Args::bind(self.source, call, &["data", "indices", "axis", "mode"])?;
                let operands = self.operands(&args, &["data", "indices"])?;
                let axis = self.axis(at, args.int("axis", 0)?, self.rank(operands[0]))?;
                let out_of_range = self.out_of_range(call, &args)?;
                let kind = GatherKind::Elements(axis);
                self.emit1(at, Op::Gather { kind, out_of_range }, &operands)?
            }
            "gather_nd" => {
                let names = &["data", "indices", "batch_dims", "mode"];
                let args = Args::bind(self.source, call, names)?;
                let operands = self.operands(&args, &["data", "indices"])?;
                let batch_dims = usize::try_from(args.int("batch_dims", 0)?)
                    .map_err(|_| self.source.unsupported(call))?;
                let out_of_range = self.out_of_range(call, &args)?;
                let kind = GatherKind::Nd { batch_dims };
                self.emit1(at, Op::Gather { kind, out_of_range }, &operands)?
            }
            "scatter_elements" => {
                let names = &["data", "indices", "updates", "axis", "reduction", "mode"];
                let args = Args::bind(self.source, call, names)?;
                let operands = self.operands(&args, &["data", "indices", "updates"])?;
                let axis = self.axis(at, args.int("axis", 0)?, self.rank(operands[0]))?;
                let reduce = args.named("reduction", ScatterReduce::Replace)?;
                let out_of_range = self.out_of_range(call, &args)?;
                let kind = ScatterKind::Elements(axis);
                self.emit1(at, Op::Scatter { kind, reduce, out_of_range }, &operands)?
            }
            "scatter_nd" => {
                let names = &["data", "indices", "updates", "reduction", "mode"];
                let args = Args::bind(self.source, call, names)?;
                let operands = self.operands(&args, &["data", "indices", "updates"])?;
                let reduce = args.named("reduction", ScatterReduce::Replace)?;
                let out_of_range = self.out_of_range(call, &args)?;
                let op = Op::Scatter { kind: ScatterKind::Nd, reduce, out_of_range };
                self.emit1(at, op, &operands)?
            }
            "topk" => self.topk(call)?,
            "sort" => self.sort(call)?,
            "argsort" => self.argsort(call)?,
            "one_hot" => self.one_hot(call)?,
            _ => return Ok(None),
        }))
    }

    fn take(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let args = Args::bind(self.source, call, &["x", "indices", "axis", "mode"])?;
        let operands = self.operands(&args, &["x", "indices"])?;
        let (mut x, mut indices) = (operands[0], operands[1]);
        let axis = match args.get("axis") {
            Some(_) => self.axis(at, args.int("axis", 0)?, self.rank(x))?,
            None => {
                x = self.flat(at, x)?;
                0
            }
        };
        let dim = self.shape_of(x)[axis].clone();
        let mut out_of_range = OutOfRange::Clamp;
        match args.string("mode", "fast")?.as_str() {
            "fast" => {}
            "raise" => out_of_range = OutOfRange::Raise,
            "clip" => {
                let last = self.dim_as(call, dim - 1, indices)?;
                indices = self.emit_binary(at, Binary::Min, indices, last)?;
                indices = self.emit_binary_const(at, Binary::Max, indices, 0.0)?;
            }
            "wrap" => {
                let count = self.dim_as(call, dim, indices)?;
                indices = self.emit_binary(at, Binary::FloorMod, indices, count)?;
            }
            _ => return Err(self.source.unsupported(call)),
        }
        let kind = GatherKind::Axis(axis);
        self.emit1(at, Op::Gather { kind, out_of_range }, &[x, indices])
    }

    /// The `mode` of operators that have none in TVM.
    fn out_of_range(&self, call: &ast::ExprCall, args: &Args<'_>) -> Result<OutOfRange> {
        match args.get("mode") {
            None => Ok(OutOfRange::Clamp),
            Some(_) if args.string("mode", "")? == "raise" => Ok(OutOfRange::Raise),
            Some(_) => Err(self.source.unsupported(call)),
        }
    }

    /// A dimension as a scalar tensor with the element type of `like`.
    pub(super) fn dim_as(&mut self, call: &ast::ExprCall, dim: Expr, like: Value) -> Result<Value> {
        let dim = crate::dims::simplify(&dim);
        if let Some(value) = dim.as_int() {
            return self.number(call.start(), self.dtype_of(like), value as f64);
        }
        let values = vec![dim];
        let value = self.emit_value(call.start(), Op::Dims { values, scalar: true }, &[])?;
        self.cast_to(call, value, self.dtype_of(like))
    }

    pub(super) fn cast_to(
        &mut self,
        call: &ast::ExprCall,
        x: Value,
        dtype: DType,
    ) -> Result<Value> {
        match self.dtype_of(x) == dtype {
            true => Ok(x),
            false => self.emit_value(call.start(), Op::Cast(dtype), &[x]),
        }
    }

    fn topk(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &["data", "k", "axis", "ret_type", "largest", "dtype"];
        let args = Args::bind(self.source, call, names)?;
        let x = self.value(args.need("data")?)?;
        let axis = self.axis(at, args.int("axis", -1)?, self.rank(x))?;
        let largest = args.boolean("largest", true)?;
        let dtype = self.dtype_or(&args, "dtype", DType::I32)?;
        let k = match args.get("k") {
            // TVM: all elements.
            Some(_) if args.int("k", 1)? < 1 => self.shape_of(x)[axis].clone(),
            Some(_) => Expr::i64(args.int("k", 1)?),
            None => Expr::i64(1),
        };
        let outputs = self.emit(at, Op::TopK { axis, k, largest }, &[x])?;
        Ok(match args.string("ret_type", "both")?.as_str() {
            "both" => {
                let indices = self.cast_to(call, outputs[1], dtype)?;
                ParsedValue::Values(vec![outputs[0], indices])
            }
            "values" => ParsedValue::Value(outputs[0]),
            "indices" => ParsedValue::Value(self.cast_to(call, outputs[1], dtype)?),
            _ => return Err(self.source.unsupported(call)),
        })
    }

    fn sort(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let args = Args::bind(self.source, call, &["x", "axis", "descending"])?;
        Ok(ParsedValue::Value(self.sorted(&args)?[0]))
    }

    fn argsort(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let args = Args::bind(self.source, call, &["x", "axis", "descending", "dtype"])?;
        let outputs = self.sorted(&args)?;
        let dtype = self.dtype_or(&args, "dtype", DType::I32)?;
        self.cast_to(call, outputs[1], dtype).map(ParsedValue::Value)
    }

    /// All elements along an axis in order, and their indices.
    fn sorted(&mut self, args: &Args<'_>) -> Result<Vec<Value>> {
        let x = self.value(args.need("x")?)?;
        let axis = self.axis(args.at(), args.int("axis", -1)?, self.rank(x))?;
        let largest = args.boolean("descending", false)?;
        let k = self.shape_of(x)[axis].clone();
        self.emit(args.at(), Op::TopK { axis, k, largest }, &[x])
    }

    /// Compares the indices with a counter along a new axis.
    fn one_hot(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &["indices", "on_value", "off_value", "depth", "axis"];
        let args = Args::bind(self.source, call, names)?;
        let indices = self.value(args.need("indices")?)?;
        let depth = args.int("depth", 0)?;
        let rank = self.rank(indices);
        let axis = self.axis(at, args.int("axis", -1)?, rank + 1)?;
        let (on, off) = (args.need("on_value")?, args.need("off_value")?);
        let whole = |e| super::args::int(self.source, e).is_ok();
        let dtype = if whole(on) && whole(off) { DType::I64 } else { DType::F32 };
        let on = self.number(at, dtype, args.float("on_value", 1.0)?)?;
        let off = self.number(at, dtype, args.float("off_value", 0.0)?)?;
        let mut wide = self.shape_of(indices);
        wide.insert(axis, Expr::i64(1));
        let wide = self.emit_value(at, Op::Reshape(wide), &[indices])?;
        let counter = self.emit_value(at, Op::Iota { count: Expr::i64(depth) }, &[])?;
        let counter = self.cast_to(call, counter, self.dtype_of(indices))?;
        let counter = self.along(at, counter, axis, rank + 1)?;
        let hit = self.emit_binary(at, Binary::Equal, wide, counter)?;
        self.emit1(at, Op::Where, &[hit, on, off])
    }
}
