//! Constant interning across modules: equal constants of a later module share the memory of an
//! earlier program's.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::literal::Literal;
use reflex_tir::DType;

type ByType = HashMap<(DType, Vec<i64>), Vec<Literal>>;

/// The constants of an earlier program, by type and shape.
#[derive(Clone, Default)]
pub struct ConstantPool(Arc<ByType>);

impl ConstantPool {
    /// Returns the pooled constant that is equal to `literal`, or `literal` itself. Adds nothing
    /// to the pool.
    pub fn intern(&self, literal: Literal) -> Literal {
        let key = (literal.dtype(), literal.shape().to_vec());
        let mut same_type = self.0.get(&key).into_iter().flatten();
        same_type.find(|pooled| literal.is_copy_of(pooled)).cloned().unwrap_or(literal)
    }
}

impl FromIterator<Literal> for ConstantPool {
    fn from_iter<I: IntoIterator<Item = Literal>>(literals: I) -> ConstantPool {
        let mut pool = ByType::new();
        for literal in literals {
            let key = (literal.dtype(), literal.shape().to_vec());
            pool.entry(key).or_default().push(literal);
        }
        ConstantPool(Arc::new(pool))
    }
}

impl fmt::Debug for ConstantPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} constants", self.0.values().map(Vec::len).sum::<usize>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_constants_share_memory() {
        let old = Literal::from_f32(vec![3], &[1.0, 2.0, -0.0]);
        let pool: ConstantPool =
            [Literal::from_f32(vec![3], &[1.0; 3]), old.clone()].into_iter().collect();
        let shared = |values: [f32; 3], shape| pool.intern(Literal::from_f32(shape, &values));
        assert!(std::ptr::eq(shared([1.0, 2.0, -0.0], vec![3]).bytes(), old.bytes()));
        assert!(!std::ptr::eq(shared([1.0, 2.0, 0.0], vec![3]).bytes(), old.bytes()));
        assert!(!std::ptr::eq(shared([1.0, 2.0, -0.0], vec![3, 1]).bytes(), old.bytes()));
    }
}
