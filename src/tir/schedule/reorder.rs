//! Permuting loops of one perfect nest.

use super::state::{Schedule, ScheduleError};
use super::{access, tree};
use crate::{For, Stmt, Var};

impl Schedule {
    /// Loop interchange: the given loops, which lie in one perfect nest, are permuted to the given
    /// order: `for i { for j { S } }` becomes `for j { for i { S } }`.
    /// Loops of the nest that are not named stay where they are.
    ///
    /// Loops that carry a dependence, as those of a reduction do, must keep their order among
    /// themselves, so that every element is accumulated in the order it was before.
    pub fn reorder(&mut self, order: &[Var]) -> Result<(), ScheduleError> {
        let Some(&first) = order.first() else {
            return Ok(());
        };
        let refuse = |why: String| Err(self.refuse_loop("reorder", first, why));
        let name = |v: Var| self.func.vars[v].name.clone();
        let (band, above) = self.band(order)?;
        let mut next = order.iter();
        let permuted: Vec<Var> = band
            .iter()
            .map(|l| if order.contains(&l.var) { *next.next().expect("as many") } else { l.var })
            .collect();
        let of = |v: Var| band.iter().find(|l| l.var == v).expect("in the band");
        for (at, var) in permuted.iter().enumerate() {
            let l = of(*var);
            let inside = permuted[at..].iter();
            let mut crossing =
                inside.filter(|v| tree::mentions(&l.extent, **v) || tree::mentions(&l.min, **v));
            if let Some(v) = crossing.next() {
                let why = format!("the bounds of `{}` depend on `{}`", name(*var), name(*v));
                return refuse(why);
            }
        }
        let body = &band[band.len() - 1].body;
        let mut facts = self.facts(&above);
        band.iter().for_each(|l| facts.bind_loop(l));
        let all: Vec<Var> = band.iter().map(|l| l.var).collect();
        let carries = |v: &Var| match self.runs_other_instances(body, *v, &facts, &all) {
            true => None,
            false => access::independent(&self.func, &facts, body, *v, &all).err(),
        };
        let carried: Vec<(Var, String)> =
            all.iter().filter_map(|v| Some((*v, carries(v)?))).collect();
        let kept = permuted.iter().filter(|v| carried.iter().any(|(c, _)| c == *v));
        if let Some(((was, why), now)) = carried.iter().zip(kept).find(|((a, _), b)| a != *b) {
            let (was, now) = (name(*was), name(*now));
            return refuse(format!("`{was}` and `{now}` carry dependences and would swap: {why}"));
        }
        let nest = permuted
            .iter()
            .rev()
            .fold(body.clone(), |body, v| Stmt::For(Box::new(of(*v).with_body(body))));
        let top = band[0].var;
        self.func.body = tree::replace_loop(&self.func.body, top, |_| nest.clone());
        self.note(format!("reorder {}", self.names(order)));
        Ok(())
    }

    /// The perfect nest from the outermost to the innermost of `loops`, and the path above it.
    fn band(&self, loops: &[Var]) -> Result<(Vec<&For>, Vec<&Stmt>), ScheduleError> {
        let mut paths = vec![];
        for (at, var) in loops.iter().enumerate() {
            if loops[..at].contains(var) {
                return Err(self.refuse_loop("reorder", *var, "the loop is named twice"));
            }
            paths.push(self.path_to_loop("reorder", *var)?);
        }
        let deepest = paths.iter().max_by_key(|p| p.len()).expect("not empty");
        let top = paths.iter().map(Vec::len).min().expect("not empty") - 1;
        let mut band = vec![];
        for stmt in &deepest[top..] {
            match stmt {
                Stmt::For(l) => band.push(&**l),
                _ => {
                    let why = "the loops are not perfectly nested";
                    return Err(self.refuse_loop("reorder", loops[0], why));
                }
            }
        }
        if let Some(missing) = loops.iter().find(|v| !band.iter().any(|l| l.var == **v)) {
            let why = "the loops do not lie in one nest";
            return Err(self.refuse_loop("reorder", *missing, why));
        }
        Ok((band, deepest[..top].to_vec()))
    }
}
