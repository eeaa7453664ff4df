//! Axes divided into tiles, with the remainder at their end.

use reflex_tir::{Expr, ForKind, Stmt, Var};

use crate::schedule::core::decision::Refusal;
use crate::schedule::core::nest::Nest;
use crate::schedule::core::stage::Axis;

/// An axis and how it is addressed.
#[derive(Clone, Debug)]
pub enum TiledAxis {
    /// By one variable.
    Plain(Axis),
    /// By panel and lane of packed panels of `width`, padded at the end.
    Panels {
        /// Panel variable.
        panel: Var,
        /// Lane variable.
        lane: Var,
        /// Lanes per panel.
        width: i64,
        /// Elements in all.
        extent: Expr,
    },
    /// By block and lane of whole blocks, several of which make a tile.
    Blocks {
        /// Which block.
        block: Axis,
        /// Which lane: `width` of them.
        lane: Axis,
        /// Lanes per block.
        width: i64,
    },
}

/// A tile: `width` elements from `origin`, an element or the number of a panel.
#[derive(Clone, Debug)]
pub struct Tile {
    /// Where.
    pub origin: Expr,
    /// Lanes of its panel that come before it.
    pub first: Expr,
    /// Elements, of which the last ones may be past the bound.
    pub width: i64,
    /// The elements that exist.
    pub bound: Bound,
}

/// The part of a tile that is inside of the axis.
#[derive(Clone, Debug)]
pub enum Bound {
    /// All.
    Full,
    /// The first so many elements.
    First(i64),
    /// Elements of the axis below this.
    Below(Expr),
}

/// A tile of results: rows by columns.
#[derive(Clone, Copy)]
pub struct OutputTile<'a> {
    /// Rows; a contraction without rows has one.
    pub rows: Option<&'a Tile>,
    /// Columns.
    pub columns: &'a Tile,
}

impl Tile {
    fn new(origin: Expr, width: i64, bound: Bound) -> Tile {
        Tile { origin, first: Expr::i64(0), width, bound }
    }

    /// `width` of its elements, from a multiple of that.
    fn part(&self, first: Expr, width: i64) -> Tile {
        let bound = match (&self.bound, first.as_int()) {
            (Bound::First(count), Some(first)) if count - first >= width => Bound::Full,
            (Bound::First(count), Some(first)) => Bound::First(count - first),
            (bound, _) => bound.clone(),
        };
        Tile { origin: self.origin.clone(), first, width, bound }
    }

    /// Covers it with tiles of `width`, and a narrower one at its end where there is more.
    pub fn parts(
        &self,
        nest: &mut Nest<'_>,
        width: i64,
        body: &mut TileBody<'_>,
    ) -> Result<Stmt, Refusal> {
        let whole = self.width / width;
        if let Bound::Full = self.bound
            && self.width % width == 0
        {
            return nest.try_repeat(ForKind::Serial, "part", whole, |nest, part| {
                body(nest, self.part(part * width, width))
            });
        }
        let firsts = (0..self.width).step_by(width as usize);
        let each = firsts
            .map(|first| body(nest, self.part(Expr::i64(first), width.min(self.width - first))));
        Ok(Stmt::Seq(each.collect::<Result<_, _>>()?))
    }
}

type TileBody<'a> = dyn FnMut(&mut Nest<'_>, Tile) -> Result<Stmt, Refusal> + 'a;

impl TiledAxis {
    /// Elements; the number of blocks where it is blocks.
    pub fn extent(&self) -> &Expr {
        match self {
            TiledAxis::Plain(axis) => &axis.extent,
            TiledAxis::Panels { extent, .. } => extent,
            TiledAxis::Blocks { block, .. } => &block.extent,
        }
    }

    /// Width of the panels.
    pub fn width(&self) -> Option<i64> {
        match self {
            TiledAxis::Plain(_) | TiledAxis::Blocks { .. } => None,
            TiledAxis::Panels { width, .. } => Some(*width),
        }
    }

    /// Whether elements past the end may be read: panels hold zeros there.
    pub fn is_filled_up(&self) -> bool {
        matches!(self, TiledAxis::Panels { .. })
    }

    /// Whether `var` is one of its variables.
    pub fn has(&self, var: Var) -> bool {
        match self {
            TiledAxis::Plain(axis) => axis.var == var,
            TiledAxis::Panels { panel, lane, .. } => *panel == var || *lane == var,
            TiledAxis::Blocks { block, lane, .. } => block.var == var || lane.var == var,
        }
    }

    /// Its variables for a lane of a vector of `lanes` of a tile.
    pub fn bind(&self, tile: &Tile, [vector, lane]: [&Expr; 2], lanes: i64) -> Vec<(Var, Expr)> {
        let element = vector.clone() * lanes + lane.clone();
        match self {
            TiledAxis::Plain(axis) => vec![(axis.var, tile.origin.clone() + element)],
            TiledAxis::Panels { panel, lane: var, .. } => {
                vec![(*panel, tile.origin.clone()), (*var, tile.first.clone() + element)]
            }
            TiledAxis::Blocks { block, lane: var, .. } => {
                vec![(block.var, tile.origin.clone() + vector.clone()), (var.var, lane.clone())]
            }
        }
    }

    /// Whether a lane of a vector exists; `None` where all of the tile surely does.
    pub fn inside(&self, tile: &Tile, [vector, lane]: [&Expr; 2], lanes: i64) -> Option<Expr> {
        let element = vector.clone() * lanes + lane.clone();
        match &tile.bound {
            Bound::Full => None,
            Bound::First(count) => {
                let vectors = (tile.width + lanes - 1) / lanes;
                (vectors * lanes > *count).then(|| element.lt(*count))
            }
            Bound::Below(end) => {
                let first = match self {
                    TiledAxis::Plain(_) | TiledAxis::Blocks { .. } => tile.origin.clone(),
                    TiledAxis::Panels { width, .. } => {
                        tile.origin.clone() * *width + tile.first.clone()
                    }
                };
                Some((first + element).lt(end.clone()))
            }
        }
    }

    /// Covers the axis with tiles of `width`, then with [the remainder](Self::rest).
    pub fn tiles(
        &self,
        nest: &mut Nest<'_>,
        kind: ForKind,
        width: i64,
        grain: i64,
        body: &mut TileBody<'_>,
    ) -> Result<Stmt, Refusal> {
        let main = self.whole(nest, kind, width, body)?;
        Ok(match self.rest(nest, width, grain, body)? {
            None => main,
            Some(rest) => Stmt::Seq(vec![main, rest]),
        })
    }

    /// The whole tiles.
    pub fn whole(
        &self,
        nest: &mut Nest<'_>,
        kind: ForKind,
        width: i64,
        body: &mut TileBody<'_>,
    ) -> Result<Stmt, Refusal> {
        let (step, count) = match self {
            TiledAxis::Plain(_) => (width, width),
            TiledAxis::Panels { width: own, .. } if *own != width => {
                return Err(Refusal::PartsOfPanels);
            }
            TiledAxis::Panels { .. } => (1, width),
            TiledAxis::Blocks { width: lanes, .. } => (width / lanes, width / lanes),
        };
        let whole = self.extent().clone().floordiv(count);
        nest.try_repeat(kind, "t", whole, |nest, t| {
            body(nest, Tile::new(if step == 1 { t } else { t * step }, width, Bound::Full))
        })
    }

    /// The remainder of whole tiles of `width`: in multiples of `grain` where the extent is static,
    /// else in single grains (under a bound where those are vectors).
    pub fn rest(
        &self,
        nest: &mut Nest<'_>,
        width: i64,
        grain: i64,
        body: &mut TileBody<'_>,
    ) -> Result<Option<Stmt>, Refusal> {
        if let TiledAxis::Blocks { block, width: lanes, .. } = self {
            return rest_of_blocks(nest, block, width / lanes, *lanes, body);
        }
        let whole = self.extent().clone().floordiv(width);
        let origin = |tile: Expr| match self {
            TiledAxis::Plain(_) => tile * width,
            TiledAxis::Panels { .. } | TiledAxis::Blocks { .. } => tile,
        };
        let rest = match (self.extent().as_int(), self) {
            (Some(n), _) if n % width == 0 => return Ok(None),
            (Some(n), _) => {
                let left = n % width;
                let bound = if grain == 1 { Bound::Full } else { Bound::First(left) };
                let width = if grain == 1 { left } else { (left + grain - 1) / grain * grain };
                body(nest, Tile::new(origin(whole), width, bound))?
            }
            (None, TiledAxis::Panels { extent, .. }) => {
                let tile = Tile::new(origin(whole), width, Bound::Below(extent.clone()));
                let cond = extent.clone().floormod(width).gt(0);
                Stmt::If { cond, then: Box::new(body(nest, tile)?), otherwise: None }
            }
            (None, TiledAxis::Blocks { .. }) => return Ok(None),
            (None, TiledAxis::Plain(_)) if width == 1 => return Ok(None),
            (None, TiledAxis::Plain(axis)) if grain == 1 => {
                let first = whole * width;
                let left = axis.extent.clone() - first.clone();
                nest.try_repeat(ForKind::Serial, "t", left, |nest, t| {
                    body(nest, Tile::new(first.clone() + t, 1, Bound::Full))
                })?
            }
            (None, TiledAxis::Plain(axis)) => {
                let first = whole * width;
                let left = axis.extent.clone() - first.clone();
                nest.try_repeat(ForKind::Serial, "t", left.ceildiv(grain), |nest, t| {
                    let bound = Bound::Below(axis.extent.clone());
                    body(nest, Tile::new(first.clone() + t * grain, grain, bound))
                })?
            }
        };
        Ok(Some(rest))
    }
}

/// The blocks that tiles of `count` leave: one tile where their number is known.
fn rest_of_blocks(
    nest: &mut Nest<'_>,
    block: &Axis,
    count: i64,
    lanes: i64,
    body: &mut TileBody<'_>,
) -> Result<Option<Stmt>, Refusal> {
    let full = |origin, count: i64| Tile::new(origin, count * lanes, Bound::Full);
    let first = block.extent.clone().floordiv(count) * count;
    match block.extent.as_int() {
        Some(n) if n % count == 0 => Ok(None),
        Some(n) => body(nest, full(first, n % count)).map(Some),
        None => {
            let left = block.extent.clone() - first.clone();
            nest.try_repeat(ForKind::Serial, "t", left, |nest, t| {
                body(nest, full(first.clone() + t, 1))
            })
            .map(Some)
        }
    }
}
