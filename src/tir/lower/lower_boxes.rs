//! Copies of boxes as loops, for the CPU that runs a launch's threads one after the other.
//!
//! ```text
//! T.tile_box(to[first], from, ..)    for n in range(elements of the box):
//!                                        to[swizzled(first + n)] = from[..] if it is inside of the tensor else 0
//! ```

use crate::box_copy::BoxCopy;
use crate::tile::{TileOp, swizzled_position};
use crate::{Expr, PrimFunc, Stmt};

/// Writes out every copy of a box.
pub fn lower_boxes(func: &PrimFunc) -> PrimFunc {
    let mut func = func.clone();
    let body = func.body.clone();
    func.body = body.replace(&mut |s| match s {
        Stmt::Tile(TileOp::Box(copy)) => Some(loops(&mut func, copy)),
        _ => None,
    });
    func
}

fn loops(func: &mut PrimFunc, copy: &BoxCopy) -> Stmt {
    let dtype = func.buffers[copy.to].dtype;
    let n = func.new_var("n");
    let (mut rest, mut position, mut inside) = (Expr::from(n), Expr::i64(0), None::<Expr>);
    for dim in &copy.dims {
        let index = dim.at.clone() + rest.clone().floormod(dim.count);
        rest = rest.floordiv(dim.count);
        position = position + index.clone() * dim.stride.clone();
        let here = index.clone().ge(0).and(index.lt(dim.extent.clone()));
        inside = Some(match inside {
            Some(others) => others.and(here),
            None => here,
        });
    }
    let inside = inside.unwrap_or_else(|| Expr::bool(true));
    let element = Expr::load(copy.from, vec![position], dtype);
    let value = Expr::if_then_else(inside, element, Expr::float(0.0, dtype));
    let to = swizzled_position(&(copy.first.clone() + Expr::from(n)));
    Stmt::serial(n, Expr::i64(copy.elements()), Stmt::store(copy.to, vec![to], value))
}
