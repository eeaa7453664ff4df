//! Lists and tuples as Python writes them.

use reflex_tir::script::float;

/// `[1, 2]`
pub(super) fn ints<T: ToString>(list: &[T]) -> String {
    format!("[{}]", list.iter().map(T::to_string).collect::<Vec<_>>().join(", "))
}

/// `[1.0, 2.5]`
pub(super) fn floats(list: &[f64]) -> String {
    format!("[{}]", list.iter().map(|x| float(*x)).collect::<Vec<_>>().join(", "))
}

/// `(a, b)`, with Python's comma when there is one element.
pub(super) fn tuple(items: &[String]) -> String {
    match items {
        [one] => format!("({one},)"),
        _ => format!("({})", items.join(", ")),
    }
}
