//! Constants of a program made before, whose memory equal ones of a later module share.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use reflex_tir::DType;

use crate::Literal;

type ByType = HashMap<(DType, Vec<i64>), Vec<Literal>>;

/// Constants by type.
#[derive(Clone, Default)]
pub struct Known(Arc<ByType>);

impl Known {
    /// The known constant that is equal to `literal`, or `literal` itself.
    pub fn shared(&self, literal: Literal) -> Literal {
        let key = (literal.dtype(), literal.shape().to_vec());
        let mut alike = self.0.get(&key).into_iter().flatten();
        alike.find(|known| literal.is_copy_of(known)).cloned().unwrap_or(literal)
    }
}

impl FromIterator<Literal> for Known {
    fn from_iter<I: IntoIterator<Item = Literal>>(literals: I) -> Known {
        let mut known = ByType::new();
        for literal in literals {
            let key = (literal.dtype(), literal.shape().to_vec());
            known.entry(key).or_default().push(literal);
        }
        Known(Arc::new(known))
    }
}

impl fmt::Debug for Known {
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
        let known: Known =
            [Literal::from_f32(vec![3], &[1.0; 3]), old.clone()].into_iter().collect();
        let shared = |values: [f32; 3], shape| known.shared(Literal::from_f32(shape, &values));
        assert!(std::ptr::eq(shared([1.0, 2.0, -0.0], vec![3]).bytes(), old.bytes()));
        assert!(!std::ptr::eq(shared([1.0, 2.0, 0.0], vec![3]).bytes(), old.bytes()));
        assert!(!std::ptr::eq(shared([1.0, 2.0, -0.0], vec![3, 1]).bytes(), old.bytes()));
    }
}
