//! Shapes: immutable lists of 64-bit dimensions.

use std::ops::Deref;

use crate::abi::{TVMFFIShapeCell, type_index};
use crate::object::{self, ObjectRef, ObjectType};
use crate::value::impl_object_conversions;

/// A reference to a shape.
///
/// ```
/// use reflex_runtime::{shape::Shape, value::Any};
/// let shape = Shape::new(&[2, 3]);
/// assert_eq!(shape.iter().product::<i64>(), 6);
/// assert_eq!(Shape::try_from(Any::from(shape)).unwrap()[1], 3);
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct Shape(ObjectRef);

// SAFETY: transparent; reads the cell that every `ffi.Shape` has.
unsafe impl ObjectType for Shape {
    const KEY: &'static str = "ffi.Shape";
    #[inline]
    fn type_index() -> i32 {
        type_index::SHAPE
    }
}

impl_object_conversions!(Shape);

impl Shape {
    /// Copies `dims`.
    pub fn new(dims: &[i64]) -> Shape {
        Shape::from_fn(dims.len(), |index| dims[index])
    }

    /// A shape of `rank` dimensions, each computed by `dim` from its index.
    pub fn from_fn(rank: usize, mut dim: impl FnMut(usize) -> i64) -> Shape {
        Shape(object::create(type_index::SHAPE, size_of::<i64>() * rank, |tail| {
            let data = tail.cast::<i64>();
            for index in 0..rank {
                // SAFETY: the tail is as long as `rank` dimensions and is aligned to 8.
                unsafe { data.add(index).write(dim(index)) };
            }
            TVMFFIShapeCell { data: data.as_ptr(), size: rank }
        }))
    }
}

impl Deref for Shape {
    type Target = [i64];
    #[inline]
    fn deref(&self) -> &[i64] {
        // SAFETY: shapes have this cell, and never change.
        let cell = unsafe { &*self.0.cell::<TVMFFIShapeCell>() };
        if cell.size == 0 {
            return &[];
        }
        // SAFETY: the cell describes dimensions that live as long as the object.
        unsafe { std::slice::from_raw_parts(cell.data, cell.size) }
    }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Shape) -> bool {
        **self == **other
    }
}

impl Eq for Shape {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Any;

    #[test]
    fn dimensions_are_copied() {
        assert!(Shape::new(&[]).is_empty());
        let shape = Shape::new(&[1, -2, i64::MAX]);
        assert_eq!(&*shape, &[1, -2, i64::MAX]);
        assert_eq!(format!("{shape:?}"), "Shape[1, -2, 9223372036854775807]");
        let value = Any::from(shape.clone());
        assert_eq!(shape.object().strong_count(), 2);
        assert_eq!(Shape::try_from(value).unwrap(), shape);
        assert!(shape.object().is_unique());
    }
}
