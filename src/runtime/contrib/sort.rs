//! Sorting along one axis. Equal elements keep their order; NaN counts as larger than any number.

use super::host_tensor::{HostTensor, Key};
use crate::dtype::DType;
use crate::error::Error;
use crate::function::{arg, check_arity};
use crate::value::{Any, AnyView};

/// `argsort(data, out, axis, ascending)`: indices in order.
pub(super) fn argsort(args: &[AnyView<'_>]) -> Result<Any, Error> {
    const NAME: &str = "tvm.contrib.sort.argsort";
    check_arity(NAME, args, 4)?;
    let (data, out) = (HostTensor::of(args, 0)?, HostTensor::of(args, 1)?);
    let (axis, direction) = (data.axis(arg(args, 2)?)?, Direction::of(args, 3)?);
    out.same_shape(&data)?;
    data.lines(axis, |line| {
        let order = data.order(line, direction)?;
        order.iter().enumerate().try_for_each(|(n, at)| out.put_index(line, n, *at))
    })
}

/// `sort(data, out, axis, ascending)`
pub(super) fn sort(args: &[AnyView<'_>]) -> Result<Any, Error> {
    const NAME: &str = "tvm.contrib.sort.sort";
    check_arity(NAME, args, 4)?;
    let (data, out) = (HostTensor::of(args, 0)?, HostTensor::of(args, 1)?);
    let (axis, direction) = (data.axis(arg(args, 2)?)?, Direction::of(args, 3)?);
    out.same_shape(&data)?;
    out.same_type(&data)?;
    data.lines(axis, |line| {
        let order = data.order(line, direction)?;
        let elements = order.iter().map(|at| data.element(line, *at)).collect::<Vec<_>>();
        // Read before any is written: the two may be one.
        elements.iter().enumerate().for_each(|(n, bytes)| out.put(line, n, bytes));
        Ok(())
    })
}

/// `topk(data, values?, indices?, k, axis, which, ascending)`: `which` is `both`, `values` or
/// `indices`; `k` below 1 is all.
pub(super) fn topk(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let which = args.len().checked_sub(2).and_then(|at| args[at].as_str()).unwrap_or_default();
    let (values, indices) = match which {
        "both" => (Some(1), Some(2)),
        "values" => (Some(1), None),
        "indices" => (None, Some(1)),
        other => return Err(Error::value_error(format!("topk returns no `{other}`"))),
    };
    let outputs = values.iter().chain(&indices).count();
    check_arity("tvm.contrib.sort.topk", args, 5 + outputs)?;
    let data = HostTensor::of(args, 0)?;
    let values = values.map(|at| HostTensor::of(args, at)).transpose()?;
    let indices = indices.map(|at| HostTensor::of(args, at)).transpose()?;
    let k: i64 = arg(args, 1 + outputs)?;
    let axis = data.axis(arg(args, 2 + outputs)?)?;
    let direction = Direction::of(args, 4 + outputs)?;
    let dim = data.shape[axis];
    let count = if k < 1 { dim } else { k.min(dim) };
    let mut shape = data.shape.clone();
    shape[axis] = count;
    for out in values.iter().chain(&indices) {
        if out.shape != shape {
            let message = format!("topk writes {shape:?}, given {:?}", out.shape);
            return Err(Error::value_error(message));
        }
    }
    if let Some(values) = &values {
        values.same_type(&data)?;
    }
    let (count, inner) = (count as usize, data.inner(axis));
    data.lines(axis, |line| {
        let order = data.order(line, direction)?;
        let target = Line { start: line.outer * count * inner + line.column, ..line };
        for (n, at) in order.iter().take(count).enumerate() {
            if let Some(values) = &values {
                values.put(target, n, &data.element(line, *at));
            }
            if let Some(indices) = &indices {
                indices.put_index(target, n, *at)?;
            }
        }
        Ok(())
    })
}

/// `argsort_nms(data, valid, out, axis, ascending)`: of each line the first `valid` elements in
/// order, the others where they are.
pub(super) fn argsort_nms(args: &[AnyView<'_>]) -> Result<Any, Error> {
    const NAME: &str = "tvm.contrib.sort.argsort_nms";
    check_arity(NAME, args, 5)?;
    let (data, valid, out) =
        (HostTensor::of(args, 0)?, HostTensor::of(args, 1)?, HostTensor::of(args, 2)?);
    let (axis, direction) = (data.axis(arg(args, 3)?)?, Direction::of(args, 4)?);
    out.same_shape(&data)?;
    let mut lines = data.shape.clone();
    lines.remove(axis);
    if valid.shape != lines || valid.dtype != DType::I32 {
        let message = format!("`{NAME}` needs int32 counts {lines:?}, given {:?}", valid.shape);
        return Err(Error::value_error(message));
    }
    let (inner, dim) = (data.inner(axis), data.shape[axis] as usize);
    data.lines(axis, |line| {
        let at = line.outer * inner + line.column;
        let count = valid.element(Line { start: at, step: 1, count: 1, outer: 0, column: 0 }, 0);
        let count = i32::from_le_bytes(count.try_into().unwrap_or_default());
        let count = usize::try_from(count).unwrap_or(0).min(dim);
        let order = data.order(Line { count, ..line }, direction)?;
        let rest = count..dim;
        order.into_iter().chain(rest).enumerate().try_for_each(|(n, at)| out.put_index(line, n, at))
    })
}

/// The order of a sort.
#[derive(Clone, Copy)]
enum Direction {
    Ascending,
    Descending,
}

impl Direction {
    /// The flag `ascending` that is argument `index`.
    fn of(args: &[AnyView<'_>], index: usize) -> Result<Direction, Error> {
        let ascending: bool = arg(args, index)?;
        Ok(if ascending { Direction::Ascending } else { Direction::Descending })
    }
}

/// The elements along an axis: `start`, `start + step`, ...
#[derive(Clone, Copy)]
struct Line {
    start: usize,
    step: usize,
    count: usize,
    outer: usize,
    column: usize,
}

impl HostTensor {
    fn same_shape(&self, other: &HostTensor) -> Result<(), Error> {
        if self.shape == other.shape {
            return Ok(());
        }
        Err(Error::value_error(format!("{:?} is sorted into {:?}", other.shape, self.shape)))
    }

    fn same_type(&self, other: &HostTensor) -> Result<(), Error> {
        if self.dtype == other.dtype {
            return Ok(());
        }
        Err(Error::type_error(format!("{} is sorted into {}", other.dtype, self.dtype)))
    }

    /// Elements between neighbours along an axis.
    fn inner(&self, axis: usize) -> usize {
        self.shape[axis + 1..].iter().product::<i64>() as usize
    }

    /// Runs `f` on every line along an axis.
    fn lines(
        &self,
        axis: usize,
        mut f: impl FnMut(Line) -> Result<(), Error>,
    ) -> Result<Any, Error> {
        let (inner, count) = (self.inner(axis), self.shape[axis] as usize);
        let outer = self.shape[..axis].iter().product::<i64>() as usize;
        for outer in 0..outer {
            for column in 0..inner {
                let start = outer * count * inner + column;
                f(Line { start, step: inner, count, outer, column })?;
            }
        }
        Ok(Any::NONE)
    }

    fn element(&self, line: Line, n: usize) -> Vec<u8> {
        let size = self.dtype.itemsize();
        let at = (line.start + n * line.step) * size;
        // SAFETY: lines are within the shape, whose bytes the caller vouches for.
        unsafe { std::slice::from_raw_parts(self.data.add(at), size) }.to_vec()
    }

    fn put(&self, line: Line, n: usize, bytes: &[u8]) {
        let at = (line.start + n * line.step) * self.dtype.itemsize();
        // SAFETY: as for `element`; `bytes` is one element.
        unsafe { bytes.as_ptr().copy_to_nonoverlapping(self.data.add(at), bytes.len()) };
    }

    fn put_index(&self, line: Line, n: usize, index: usize) -> Result<(), Error> {
        match self.dtype {
            DType::I32 => self.put(line, n, &(index as i32).to_le_bytes()),
            DType::I64 => self.put(line, n, &(index as i64).to_le_bytes()),
            DType::F32 => self.put(line, n, &(index as f32).to_le_bytes()),
            DType::F64 => self.put(line, n, &(index as f64).to_le_bytes()),
            other => return Err(Error::type_error(format!("indices are not written as {other}"))),
        }
        Ok(())
    }

    /// The positions of a line's elements in order.
    fn order(&self, line: Line, direction: Direction) -> Result<Vec<usize>, Error> {
        let keys = (0..line.count).map(|n| self.key(&self.element(line, n)));
        let keys = keys.collect::<Option<Vec<Key>>>();
        let keys =
            keys.ok_or_else(|| Error::type_error(format!("{} is not sorted", self.dtype)))?;
        let mut order: Vec<usize> = (0..line.count).collect();
        order.sort_by(|a, b| match direction {
            Direction::Ascending => keys[*a].compare(keys[*b]),
            Direction::Descending => keys[*b].compare(keys[*a]),
        });
        Ok(order)
    }
}

#[cfg(test)]
mod tests {
    use crate::dtype::DType;
    use crate::registry;
    use crate::tensor::Tensor;
    use crate::value::{Any, AnyView};

    fn call(name: &str, args: &[Any]) -> Result<Any, String> {
        let views: Vec<AnyView<'_>> = args.iter().map(Any::view).collect();
        let function = registry::get(name).expect("a function of this module");
        function.call(&views).map_err(|e| e.to_string())
    }

    fn floats(shape: &[i64], values: &[f32]) -> Tensor {
        Tensor::from_slice(shape, values).unwrap()
    }

    #[test]
    fn lines_are_sorted_along_any_axis_and_equals_keep_their_order() {
        let x = floats(&[2, 3], &[3.0, 1.0, 3.0, -1.0, f32::NAN, -2.0]);
        let out = Tensor::zeros(&[2, 3], DType::I32).unwrap();
        let run = |axis: i64, ascending: bool| {
            let args = [x.clone().into(), out.clone().into(), axis.into(), ascending.into()];
            call("tvm.contrib.sort.argsort", &args).unwrap();
            out.to_vec::<i32>().unwrap()
        };
        assert_eq!(run(1, true), [1, 0, 2, 2, 0, 1]);
        assert_eq!(run(-1, false), [0, 2, 1, 1, 0, 2]);
        assert_eq!(run(0, true), [1, 0, 1, 0, 1, 0]);
        let args = [x.clone().into(), x.clone().into(), 1_i64.into(), true.into()];
        call("tvm.contrib.sort.sort", &args).unwrap();
        let sorted = x.to_vec::<f32>().unwrap();
        assert_eq!(sorted[..5], [1.0, 3.0, 3.0, -2.0, -1.0]);
        assert!(sorted[5].is_nan());
    }

    #[test]
    fn the_first_k_are_taken() {
        let x = Tensor::from_slice(&[5, 2], &[1_i64, 9, 4, 7, 4, 8, 0, 9, 2, 6]).unwrap();
        let (v, i) = (Tensor::zeros(&[2, 2], DType::I64), Tensor::zeros(&[2, 2], DType::I64));
        let (v, i) = (v.unwrap(), i.unwrap());
        let args = |which: &str, k: i64| {
            let mut args: Vec<Any> = vec![x.clone().into()];
            if which != "indices" {
                args.push(v.clone().into());
            }
            if which != "values" {
                args.push(i.clone().into());
            }
            args.extend([k.into(), 0_i64.into(), which.into(), false.into()]);
            args
        };
        call("tvm.contrib.sort.topk", &args("both", 2)).unwrap();
        assert_eq!(v.to_vec::<i64>().unwrap(), [4, 9, 4, 9]);
        assert_eq!(i.to_vec::<i64>().unwrap(), [1, 0, 2, 3]);
        call("tvm.contrib.sort.topk", &args("indices", 2)).unwrap();
        let error = call("tvm.contrib.sort.topk", &args("values", 3)).unwrap_err();
        assert!(error.contains("topk writes [3, 2], given [2, 2]"), "{error}");
        assert!(call("tvm.contrib.sort.topk", &args("neither", 2)).is_err());
    }

    #[test]
    fn only_valid_elements_are_sorted() {
        let x = floats(&[2, 3], &[3.0, 1.0, 2.0, 1.0, 2.0, 3.0]);
        let valid = Tensor::from_slice(&[2], &[2_i32, 9]).unwrap();
        let out = Tensor::zeros(&[2, 3], DType::I32).unwrap();
        let args = [x.into(), valid.into(), out.clone().into(), 1_i64.into(), false.into()];
        call("tvm.contrib.sort.argsort_nms", &args).unwrap();
        assert_eq!(out.to_vec::<i32>().unwrap(), [0, 1, 2, 2, 1, 0]);
    }

    #[test]
    fn what_cannot_be_sorted_is_an_error() {
        let x = floats(&[2], &[2.0, 1.0]);
        let one = |args: &[Any]| call("tvm.contrib.sort.sort", args).unwrap_err();
        assert!(one(&[x.clone().into()]).contains("takes 4 arguments"));
        let f = |axis: i64, out: &Tensor| {
            one(&[x.clone().into(), out.clone().into(), axis.into(), true.into()])
        };
        assert!(f(1, &x).contains("axis 1 of a tensor of rank 1"));
        assert!(f(0, &floats(&[1], &[0.0])).contains("[2] is sorted into [1]"));
        assert!(f(0, &Tensor::zeros(&[2], DType::I32).unwrap()).contains("float32 is sorted into"));
        let args = [Any::from(1_i64), x.clone().into(), 0_i64.into(), true.into()];
        assert!(one(&args).contains("argument 0"));
    }
}
