//! The functions that Relax's operators `print`, `assert_op`, `shape_to_tensor`, `unique` and `nonzero`
//! call; TVM writes them in Python.

use std::cmp::Ordering;
use std::io::Write;

use super::host_tensor::{HostTensor, Key};
use crate::array::Array;
use crate::error::Error;
use crate::function::{arg, check_arity};
use crate::shape::Shape;
use crate::tensor::Tensor;
use crate::value::{Any, AnyView};

/// `shape_to_tensor(shape)`: its dimensions as an int64 vector.
pub(super) fn shape_to_tensor(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("relax.run.shape_to_tensor", args, 1)?;
    let extents: Shape = arg(args, 0)?;
    Ok(Tensor::from_slice(&[extents.len() as i64], &extents)?.into())
}

/// `print(format, values...)`: a line on standard output. `format` has Python's `{}` and `{N}`; an
/// empty one puts the values in a row.
pub(super) fn print(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let (format, values) = format_and_values(args, 0)?;
    let line = match format {
        "" => values.join(" "),
        format => formatted(format, &values)?,
    };
    // As of Python's print: a closed standard output is no error of the program.
    let _ = writeln!(std::io::stdout(), "{line}");
    Ok(Any::NONE)
}

/// `assert_op(condition, format, values...)`: an error with the formatted values unless the condition
/// is true.
pub(super) fn assert_op(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let (format, values) = format_and_values(args, 1)?;
    if truth(&args[0])? {
        return Ok(Any::NONE);
    }
    let message = match (format, values.as_slice()) {
        ("", []) => "Assertion Failed".to_owned(),
        ("", values) => values.join(", "),
        (format, values) => formatted(format, values)?,
    };
    Err(Error::new("AssertionError", message))
}

fn truth(condition: &AnyView<'_>) -> Result<bool, Error> {
    if let Some(value) = condition.as_int() {
        return Ok(value != 0);
    }
    let tensor = condition.downcast_ref::<Tensor>();
    let tensor = tensor.filter(|tensor| tensor.dtype().is_bool() && tensor.shape().is_empty());
    let scalar = tensor.ok_or_else(|| {
        let given = rendered(condition);
        Error::value_error(format!("the condition of an assertion is a bool scalar, got {given}"))
    })?;
    let bytes = HostTensor::new(scalar.dl()).map_err(Error::value_error)?;
    Ok(bytes.at(0).iter().any(|byte| *byte != 0))
}

fn format_and_values<'a>(
    args: &'a [AnyView<'_>],
    at: usize,
) -> Result<(&'a str, Vec<String>), Error> {
    let missing = || Error::type_error("the format string is missing");
    let format = args.get(at).ok_or_else(missing)?;
    let text = format.as_str().ok_or_else(|| format.mismatch("ffi.String"))?;
    Ok((text, args[at + 1..].iter().map(rendered).collect()))
}

/// Python's `format.format(*values)`, without conversions and format specifications.
fn formatted(format: &str, values: &[String]) -> Result<String, Error> {
    let wrong = |what: &str| Error::value_error(format!("format string `{format}`: {what}"));
    let (mut out, mut next, mut rest) = (String::new(), 0, format);
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            out.push_str(brace);
            rest = after;
            continue;
        }
        let end = rest.find('}').filter(|_| brace == "{");
        let end = end.ok_or_else(|| wrong("a single brace"))?;
        let index = match &rest[..end] {
            "" => {
                next += 1;
                next - 1
            }
            number => number.parse().map_err(|_| wrong("a field is `{}` or `{N}`"))?,
        };
        out.push_str(values.get(index).ok_or_else(|| wrong("too few values"))?);
        rest = &rest[end + 1..];
    }
    Ok(out + rest)
}

/// A value as text: tensors as nested lists, tuples in parentheses.
fn rendered(value: &AnyView<'_>) -> String {
    if let Some(items) = value.downcast_ref::<Array>() {
        let items: Vec<String> = items.iter().map(|item| rendered(&item.view())).collect();
        return format!("({})", items.join(", "));
    }
    if let Some(text) = value.as_str() {
        return text.to_owned();
    }
    let Some(tensor) = value.downcast_ref::<Tensor>() else { return format!("{value:?}") };
    let Ok(host) = HostTensor::new(tensor.dl()) else {
        return format!("{} {:?}", tensor.dtype(), tensor.shape());
    };
    let mut out = String::new();
    nested(&host, 0, &mut 0, &mut out);
    out
}

fn nested(tensor: &HostTensor, axis: usize, at: &mut usize, out: &mut String) {
    if axis == tensor.shape.len() {
        out.push_str(&match tensor.key(tensor.at(*at)) {
            Some(Key::Float(value)) => format!("{value:?}"),
            Some(Key::Int(value)) => value.to_string(),
            Some(Key::Uint(value)) if tensor.dtype.is_bool() => (value != 0).to_string(),
            Some(Key::Uint(value)) => value.to_string(),
            None => "?".to_owned(),
        });
        *at += 1;
        return;
    }
    out.push('[');
    for n in 0..tensor.shape[axis] {
        out.push_str(if n == 0 { "" } else { ", " });
        nested(tensor, axis + 1, at, out);
    }
    out.push(']');
}

/// `nonzero(x)`: the indices of the elements that are not zero, a row for each axis.
pub(super) fn nonzero(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("relax.run.nonzero", args, 1)?;
    let x = HostTensor::of(args, 0)?;
    let shape = if x.shape.is_empty() { vec![1] } else { x.shape.clone() };
    let count = shape.iter().product::<i64>() as usize;
    let is_zero = |key: Key| match key {
        Key::Float(value) => value == 0.0,
        Key::Int(value) => value == 0,
        Key::Uint(value) => value == 0,
    };
    let keys = (0..count).map(|at| x.key(x.at(at))).collect::<Option<Vec<_>>>();
    let keys = keys.ok_or_else(|| Error::type_error(format!("{} has no zero", x.dtype)))?;
    let found: Vec<usize> = (0..count).filter(|at| !is_zero(keys[*at])).collect();
    let mut indices = Vec::with_capacity(found.len() * shape.len());
    for axis in 0..shape.len() {
        let inner = shape[axis + 1..].iter().product::<i64>() as usize;
        let extent = shape[axis] as usize;
        indices.extend(found.iter().map(|at| (at / inner % extent) as i64));
    }
    Ok(Tensor::from_slice(&[shape.len() as i64, found.len() as i64], &indices)?.into())
}

/// `unique(x, sorted, return_index, return_inverse, return_counts, axis?)`: the different elements, or
/// slices along an axis, and what is asked for besides.
pub(super) fn unique(args: &[AnyView<'_>]) -> Result<Any, Error> {
    const NAME: &str = "relax.run.unique";
    if !matches!(args.len(), 5 | 6) {
        return Err(Error::type_error(format!(
            "`{NAME}` takes 5 or 6 arguments, {} given",
            args.len()
        )));
    }
    let x = HostTensor::of(args, 0)?;
    let axis = match args.get(5).filter(|axis| !axis.is_none()) {
        Some(_) => Some(x.axis(arg(args, 5)?)?),
        None => None,
    };
    let asked = |index| Ok::<bool, Error>(arg::<i64>(args, index)? != 0);
    let groups = Groups::of(&Slices::new(&x, axis), asked(1)?)?;
    let int64 = |values: &mut dyn Iterator<Item = usize>| {
        let values: Vec<i64> = values.map(|value| value as i64).collect();
        Tensor::from_slice(&[values.len() as i64], &values).map(Any::from)
    };
    let mut outputs = vec![Any::from(Slices::new(&x, axis).take(&groups.first)?)];
    if asked(2)? {
        outputs.push(int64(&mut groups.first.iter().copied())?);
    }
    if asked(3)? {
        outputs.push(int64(&mut groups.of.iter().copied())?);
    }
    if asked(4)? {
        outputs.push(int64(&mut groups.counts.iter().copied())?);
    }
    Ok(if outputs.len() == 1 { outputs.remove(0) } else { Array::new(outputs).into() })
}

/// A tensor as slices along an axis, or as its elements.
struct Slices<'a> {
    x: &'a HostTensor,
    axis: Option<usize>,
    count: usize,
    inner: usize,
    outer: usize,
}

impl Slices<'_> {
    fn new(x: &HostTensor, axis: Option<usize>) -> Slices<'_> {
        let product = |extents: &[i64]| extents.iter().product::<i64>() as usize;
        let (count, inner, outer) = match axis {
            None => (product(&x.shape), 1, 1),
            Some(axis) => {
                (x.shape[axis] as usize, product(&x.shape[axis + 1..]), product(&x.shape[..axis]))
            }
        };
        Slices { x, axis, count, inner, outer }
    }

    /// The positions of the elements of slice `n`, in order.
    fn elements(&self, n: usize) -> impl Iterator<Item = usize> {
        let (count, inner) = (self.count, self.inner);
        (0..self.outer).flat_map(move |o| (0..inner).map(move |i| (o * count + n) * inner + i))
    }

    fn keys(&self, n: usize) -> Result<Vec<Key>, Error> {
        let keys = self.elements(n).map(|at| self.x.key(self.x.at(at))).collect::<Option<_>>();
        keys.ok_or_else(|| Error::type_error(format!("{} is not compared", self.x.dtype)))
    }

    /// The slices `chosen`, as a tensor.
    fn take(&self, chosen: &[usize]) -> Result<Tensor, Error> {
        let part = Slices { count: chosen.len(), x: self.x, ..*self };
        let mut shape = match self.axis {
            None => vec![0],
            Some(_) => self.x.shape.clone(),
        };
        shape[self.axis.unwrap_or(0)] = chosen.len() as i64;
        let size = self.x.dtype.itemsize();
        let mut bytes = vec![0; chosen.len() * self.inner * self.outer * size];
        for (n, from) in chosen.iter().enumerate() {
            for (to, from) in part.elements(n).zip(self.elements(*from)) {
                bytes[to * size..][..size].copy_from_slice(self.x.at(from));
            }
        }
        Tensor::from_bytes(&shape, self.x.dtype, &bytes)
    }
}

/// Equal slices of a tensor.
struct Groups {
    /// The first slice of each group.
    first: Vec<usize>,
    /// The group of each slice.
    of: Vec<usize>,
    /// The number of slices in each group.
    counts: Vec<usize>,
}

impl Groups {
    /// Groups in ascending order if `sorted`, else as they first occur.
    fn of(slices: &Slices<'_>, sorted: bool) -> Result<Groups, Error> {
        let keys = (0..slices.count).map(|n| slices.keys(n)).collect::<Result<Vec<_>, _>>()?;
        let compare = |a: &[Key], b: &[Key]| {
            let mut pairs = a.iter().zip(b).map(|(a, b)| a.compare(*b));
            pairs.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        };
        let mut order: Vec<usize> = (0..slices.count).collect();
        order.sort_by(|a, b| compare(&keys[*a], &keys[*b]));
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for n in order {
            match groups.last_mut() {
                Some(group) if compare(&keys[group[0]], &keys[n]).is_eq() => group.push(n),
                _ => groups.push(vec![n]),
            }
        }
        if !sorted {
            groups.sort_by_key(|group| group[0]);
        }
        let mut of = vec![0; slices.count];
        for (at, group) in groups.iter().enumerate() {
            group.iter().for_each(|n| of[*n] = at);
        }
        let first = groups.iter().map(|group| group[0]).collect();
        Ok(Groups { first, of, counts: groups.iter().map(Vec::len).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::registry;

    fn call(name: &str, args: &[Any]) -> Result<Any, Error> {
        let views: Vec<AnyView<'_>> = args.iter().map(Any::view).collect();
        registry::get(name).expect("a function of this module").call(&views)
    }

    fn ints(value: &Any) -> (Vec<i64>, Vec<i64>) {
        let tensor = value.downcast_ref::<Tensor>().expect("a tensor");
        (tensor.shape().to_vec(), tensor.to_vec::<i64>().expect("int64"))
    }

    #[test]
    fn unique_elements_and_slices_are_found_with_index_inverse_and_counts() {
        let x = Any::from(Tensor::from_slice(&[5], &[7_i64, 3, 7, 1, 3]).unwrap());
        let run = |x: &Any, flags: [i64; 4], axis: Any| {
            let flags = flags.map(Any::from);
            let value = call("relax.run.unique", &[&[x.clone()][..], &flags, &[axis]].concat());
            let value = value.unwrap();
            match value.downcast_ref::<Array>() {
                Some(items) => items.iter().map(ints).collect::<Vec<_>>(),
                None => vec![ints(&value)],
            }
        };
        assert_eq!(run(&x, [1, 0, 0, 0], Any::NONE), [(vec![3], vec![1, 3, 7])]);
        assert_eq!(run(&x, [0, 0, 0, 0], Any::NONE), [(vec![3], vec![7, 3, 1])]);
        let all: Vec<_> = run(&x, [1, 1, 1, 1], Any::NONE).into_iter().map(|(_, v)| v).collect();
        assert_eq!(all, [vec![1, 3, 7], vec![3, 1, 0], vec![2, 1, 2, 0, 1], vec![1, 2, 2]]);
        let all: Vec<_> = run(&x, [0, 1, 1, 1], Any::NONE).into_iter().map(|(_, v)| v).collect();
        assert_eq!(all, [vec![7, 3, 1], vec![0, 1, 3], vec![0, 1, 0, 2, 1], vec![2, 2, 1]]);
        let rows = Any::from(Tensor::from_slice(&[3, 2], &[2_i64, 1, 0, 5, 2, 1]).unwrap());
        let by_row = run(&rows, [1, 0, 1, 0], 0_i64.into());
        assert_eq!(by_row, [(vec![2, 2], vec![0, 5, 2, 1]), (vec![3], vec![1, 0, 1])]);
        let by_column = run(&rows, [1, 0, 0, 0], 1_i64.into());
        assert_eq!(by_column, [(vec![3, 2], vec![1, 2, 5, 0, 1, 2])]);
    }

    #[test]
    fn nonzero_gives_a_row_for_each_axis() {
        let x = Any::from(Tensor::from_slice(&[2, 2], &[0.0_f32, 1.5, f32::NAN, -0.0]).unwrap());
        let found = call("relax.run.nonzero", &[x]).unwrap();
        assert_eq!(ints(&found), (vec![2, 2], vec![0, 1, 1, 0]));
        let scalar = Any::from(Tensor::from_slice(&[], &[3_i64]).unwrap());
        assert_eq!(ints(&call("relax.run.nonzero", &[scalar]).unwrap()), (vec![1, 1], vec![0]));
    }

    #[test]
    fn assertions_fail_with_their_formatted_values() {
        let x = Any::from(Tensor::from_slice(&[2], &[1.0_f32, 2.5]).unwrap());
        let run = |condition: bool, format: &str| {
            call("relax.run.assert_op", &[condition.into(), format.into(), x.clone(), 3_i64.into()])
        };
        assert!(run(true, "never {9}").is_ok());
        let error = run(false, "{1} of {{{0}}}").unwrap_err();
        assert_eq!(error.to_string(), "AssertionError: 3 of {[1.0, 2.5]}");
        assert_eq!(run(false, "").unwrap_err().message(), "[1.0, 2.5], 3");
        assert_eq!(run(false, "{").unwrap_err().kind(), "ValueError");
        let error = call("relax.run.assert_op", &[x.clone(), "".into()]).unwrap_err();
        assert!(error.message().contains("bool scalar"), "{error}");
    }

    #[test]
    fn shapes_become_vectors() {
        let shape = Any::from(Shape::new(&[4, 0, 7]));
        let vector = call("relax.run.shape_to_tensor", &[shape]).unwrap();
        assert_eq!(ints(&vector), (vec![3], vec![4, 0, 7]));
        assert_eq!(vector.downcast_ref::<Tensor>().unwrap().dtype(), DType::I64);
    }
}
