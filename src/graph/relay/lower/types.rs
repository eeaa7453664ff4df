//! Types of Relay expressions, and their unification.

use std::collections::HashMap;

use reflex_tir::DType;

/// Most parts of a type. Repeated pairing makes types that are too large for any memory.
const PART_LIMIT: usize = 10_000;

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ty {
    /// Element type and dimensions; `None` is `?`.
    Tensor(DType, Vec<Option<i64>>),
    Tuple(Vec<Ty>),
    Function(Vec<Ty>, Box<Ty>),
    /// A data type, by its number, and its arguments.
    Data(usize, Vec<Ty>),
    /// A type parameter of the function that is read.
    Param(u32),
    /// A type that is not known yet.
    Unknown(u32),
}

/// Two types are different, or a type is infinite or too large.
#[derive(Debug)]
pub(super) struct Mismatch;

/// Facts about the types that the text leaves open.
#[derive(Default)]
pub(super) struct Unifier {
    known: Vec<Option<Ty>>,
    params: Vec<String>,
}

impl Unifier {
    pub fn fresh(&mut self) -> Ty {
        self.known.push(None);
        Ty::Unknown(self.known.len() as u32 - 1)
    }

    /// A type parameter.
    pub fn param(&mut self, name: &str) -> Ty {
        self.params.push(name.to_string());
        Ty::Param(self.params.len() as u32 - 1)
    }

    /// The name of a type parameter.
    pub fn param_name(&self, param: u32) -> &str {
        &self.params[param as usize]
    }

    /// The type itself, where it has become known.
    pub fn shallow(&self, ty: &Ty) -> Ty {
        let mut ty = ty;
        while let Ty::Unknown(n) = ty
            && let Some(known) = &self.known[*n as usize]
        {
            ty = known;
        }
        ty.clone()
    }

    /// Refuses a type of too many parts.
    pub fn check_size(&self, ty: &Ty) -> Result<(), Mismatch> {
        let (mut todo, mut parts) = (vec![self.shallow(ty)], 0);
        while let Some(ty) = todo.pop() {
            parts += 1;
            if parts + todo.len() > PART_LIMIT {
                return Err(Mismatch);
            }
            match ty {
                Ty::Tuple(items) | Ty::Data(_, items) => {
                    todo.extend(items.iter().take(PART_LIMIT).map(|t| self.shallow(t)));
                }
                Ty::Function(params, result) => {
                    todo.extend(params.iter().take(PART_LIMIT).map(|t| self.shallow(t)));
                    todo.push(self.shallow(&result));
                }
                Ty::Tensor(..) | Ty::Param(_) | Ty::Unknown(_) => {}
            }
        }
        Ok(())
    }

    /// Makes two types one. A dimension that is `?` in either is any.
    pub fn unify(&mut self, a: &Ty, b: &Ty) -> Result<(), Mismatch> {
        let (mut todo, mut steps) = (vec![(a.clone(), b.clone())], 0);
        while let Some((a, b)) = todo.pop() {
            steps += 1;
            if steps > PART_LIMIT {
                return Err(Mismatch);
            }
            match (self.shallow(&a), self.shallow(&b)) {
                (Ty::Unknown(a), Ty::Unknown(b)) if a == b => {}
                (Ty::Unknown(n), ty) | (ty, Ty::Unknown(n)) => {
                    self.check_size(&ty)?;
                    if self.mentions(&ty, n) {
                        return Err(Mismatch);
                    }
                    self.known[n as usize] = Some(ty);
                }
                (Ty::Tensor(a, x), Ty::Tensor(b, y)) if a == b && x.len() == y.len() => {
                    let differ = |(x, y): (&Option<i64>, &Option<i64>)| {
                        x.zip(*y).is_some_and(|(x, y)| x != y)
                    };
                    if x.iter().zip(&y).any(differ) {
                        return Err(Mismatch);
                    }
                }
                (Ty::Tuple(a), Ty::Tuple(b)) if a.len() == b.len() => {
                    todo.extend(a.into_iter().zip(b))
                }
                (Ty::Data(x, a), Ty::Data(y, b)) if x == y && a.len() == b.len() => {
                    todo.extend(a.into_iter().zip(b));
                }
                (Ty::Function(a, x), Ty::Function(b, y)) if a.len() == b.len() => {
                    todo.extend(a.into_iter().zip(b));
                    todo.push((*x, *y));
                }
                (Ty::Param(a), Ty::Param(b)) if a == b => {}
                _ => return Err(Mismatch),
            }
        }
        Ok(())
    }

    /// Returns true if the type mentions an unknown one.
    fn mentions(&self, ty: &Ty, unknown: u32) -> bool {
        let mut todo = vec![self.shallow(ty)];
        while let Some(ty) = todo.pop() {
            match ty {
                Ty::Unknown(n) if n == unknown => return true,
                Ty::Tuple(items) | Ty::Data(_, items) => {
                    todo.extend(items.iter().map(|t| self.shallow(t)));
                }
                Ty::Function(params, result) => {
                    todo.extend(params.iter().map(|t| self.shallow(t)));
                    todo.push(self.shallow(&result));
                }
                Ty::Tensor(..) | Ty::Param(_) | Ty::Unknown(_) => {}
            }
        }
        false
    }
}

/// Replaces type parameters. Types of declarations are as deep as their text, so recursion is.
pub(super) fn substitute(ty: &Ty, with: &HashMap<u32, Ty>) -> Ty {
    let all = |items: &[Ty]| items.iter().map(|t| substitute(t, with)).collect();
    match ty {
        Ty::Param(n) => with.get(n).cloned().unwrap_or_else(|| ty.clone()),
        Ty::Tuple(items) => Ty::Tuple(all(items)),
        Ty::Data(id, items) => Ty::Data(*id, all(items)),
        Ty::Function(params, result) => {
            Ty::Function(all(params), Box::new(substitute(result, with)))
        }
        Ty::Tensor(..) | Ty::Unknown(_) => ty.clone(),
    }
}
