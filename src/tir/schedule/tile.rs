//! Cutting several loops of one nest into tiles at once.

use super::state::{Schedule, ScheduleError};
use crate::Var;

impl Schedule {
    /// `for i { for j { S } }` becomes `for i_0 { for j_0 { for i_1 { for j_1 { S } } } }`: every
    /// loop is split by its size, and what runs over one tile goes inside what runs over tiles.
    ///
    /// Needs what [`Schedule::split`] and [`Schedule::reorder`] need; nothing changes where one of
    /// them refuses. Returns the loops over tiles and those in a tile; the given ones are gone.
    pub fn tile(
        &mut self,
        loops: &[Var],
        sizes: &[i64],
    ) -> Result<(Vec<Var>, Vec<Var>), ScheduleError> {
        let Some(&first) = loops.first().filter(|_| loops.len() == sizes.len()) else {
            let why = format!("{} sizes for {} loops", sizes.len(), loops.len());
            return Err(self.refuse("tile", "", why));
        };
        let name = self.func.vars.get(first).map_or_else(String::new, |v| v.name.to_string());
        let (before, steps) = (self.func.body.clone(), self.steps.len());
        self.tiled(loops, sizes).map_err(|refused| {
            self.func.body = before;
            self.steps.truncate(steps);
            self.refuse("tile", &name, format!("{}: {}", refused.primitive, refused.why))
        })
    }

    fn tiled(
        &mut self,
        loops: &[Var],
        sizes: &[i64],
    ) -> Result<(Vec<Var>, Vec<Var>), ScheduleError> {
        let (mut over, mut within) = (vec![], vec![]);
        for (at, size) in loops.iter().zip(sizes) {
            let (outer, inner) = self.split(*at, *size)?;
            over.push(outer);
            within.push(inner);
        }
        self.reorder(&[over.clone(), within.clone()].concat())?;
        Ok((over, within))
    }
}
