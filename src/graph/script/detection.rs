//! Operators of object detection whose results have shapes of their own: `R.vision.multibox_transform_loc`,
//! `R.vision.get_valid_counts`, `R.vision.roi_pool`.

use reflex_tir::{DType, Expr};
use ruff_python_ast as ast;
use ruff_text_size::{Ranged, TextSize};

use super::args::Args;
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use crate::{
    Binary, GatherKind, Op, OutOfRange, ReduceKind, ScanKind, ScatterKind, ScatterReduce, Unary,
    Value, dims,
};

impl FuncParser<'_, '_> {
    /// The operator, if it is one of these.
    pub(super) fn detection(
        &mut self,
        name: &str,
        call: &ast::ExprCall,
    ) -> Result<Option<ParsedValue>> {
        Ok(Some(match name {
            "vision.multibox_transform_loc" => self.multibox_transform_loc(call)?,
            "vision.get_valid_counts" => self.get_valid_counts(call)?,
            "vision.roi_pool" => self.roi_pool(call)?,
            _ => return Ok(None),
        }))
    }

    /// An element of each vector along the last axis, which stays, with one element.
    pub(super) fn component(&mut self, at: TextSize, x: Value, number: i64) -> Result<Value> {
        let mut shape = self.shape_of(x);
        let mut begin = vec![Expr::i64(0); shape.len()];
        let stride = vec![1; shape.len()];
        if let (Some(begin), Some(extent)) = (begin.last_mut(), shape.last_mut()) {
            (*begin, *extent) = (Expr::i64(number), Expr::i64(1));
        }
        self.emit_value(at, Op::Slice { begin, shape, stride }, &[x])
    }

    /// Boxes from their encodings by anchors, and scores above a threshold.
    fn multibox_transform_loc(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &[
            "cls_pred",
            "loc_pred",
            "anchor",
            "clip",
            "threshold",
            "variances",
            "keep_background",
            "apply_softmax",
        ];
        let args = Args::bind(self.source, call, names)?;
        let operands = self.operands(&args, &["cls_pred", "loc_pred", "anchor"])?;
        let (classes, anchor) = (operands[0], operands[2]);
        let variances = match args.get("variances") {
            Some(e) => self.floats(e)?,
            None => vec![1.0; 4],
        };
        let ([batch, _, count], [_, _], [_, _, _], [_, _, _, _]) = (
            &self.shape_of(classes)[..],
            &self.shape_of(operands[1])[..],
            &self.shape_of(anchor)[..],
            &variances[..],
        ) else {
            return Err(self.source.unsupported(call));
        };
        let shape = vec![batch.clone(), count.clone(), Expr::i64(4)];
        let encoded = self.emit_value(at, Op::Reshape(shape), &[operands[1]])?;
        let clip = args.boolean("clip", false)?;
        let mut ends = vec![];
        // Rows before columns, which the anchors and encodings have the other way round.
        for axis in [1, 0] {
            let low = self.component(at, anchor, axis)?;
            let high = self.component(at, anchor, axis + 2)?;
            let middle = self.emit_binary(at, Binary::Add, low, high)?;
            let middle = self.emit_binary_const(at, Binary::Mul, middle, 0.5)?;
            let size = self.emit_binary(at, Binary::Sub, high, low)?;
            let moved = self.component(at, encoded, axis)?;
            let moved = self.emit_binary_const(at, Binary::Mul, moved, variances[axis as usize])?;
            let moved = self.emit_binary(at, Binary::Mul, moved, size)?;
            let centre = self.emit_binary(at, Binary::Add, moved, middle)?;
            let grown = self.component(at, encoded, axis + 2)?;
            let grown =
                self.emit_binary_const(at, Binary::Mul, grown, variances[axis as usize + 2])?;
            let grown = self.unary(at, Unary::Exp, grown)?;
            let grown = self.emit_binary_const(at, Binary::Mul, grown, 0.5)?;
            let half = self.emit_binary(at, Binary::Mul, grown, size)?;
            for side in [Binary::Sub, Binary::Add] {
                let mut end = self.emit_binary(at, side, centre, half)?;
                if clip {
                    end = self.emit_binary_const(at, Binary::Min, end, 1.0)?;
                    end = self.emit_binary_const(at, Binary::Max, end, 0.0)?;
                }
                ends.push(end);
            }
        }
        let order = [ends[0], ends[2], ends[1], ends[3]];
        let boxes = self.emit_value(at, Op::Concat { axis: 2 }, &order)?;
        let mut scores = classes;
        if args.boolean("apply_softmax", true)? {
            scores = self.emit_value(at, Op::Softmax { axis: 1, log: false }, &[scores])?;
        }
        let threshold = args.float("threshold", 0.0)?;
        let kept = self.emit_binary_const(at, Binary::GreaterEqual, scores, threshold)?;
        let kept = self.cast_to(call, kept, self.dtype_of(scores))?;
        scores = self.emit_binary(at, Binary::Mul, scores, kept)?;
        if !args.boolean("keep_background", true)? {
            let number =
                self.emit_value(at, Op::Iota { count: self.shape_of(scores)[1].clone() }, &[])?;
            let background = self.emit_binary_const(at, Binary::Equal, number, 0.0)?;
            let background = self.along(at, background, 1, 3)?;
            let zero = self.number(at, self.dtype_of(scores), 0.0)?;
            scores = self.emit_value(at, Op::Where, &[background, zero, scores])?;
        }
        Ok(ParsedValue::Values(vec![boxes, scores]))
    }

    /// The rows of each batch whose score is above a threshold, and whose class is one, moved to the front: their
    /// number, the rows, and where they were. What is behind them is -1.
    fn get_valid_counts(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &["data", "score_threshold", "id_index", "score_index"];
        let args = Args::bind(self.source, call, names)?;
        let x = self.value(args.need("data")?)?;
        let [batch, count, _] = &self.shape_of(x)[..] else {
            return Err(self.source.unsupported(call));
        };
        let (batch, count) = (batch.clone(), count.clone());
        let score = self.component(at, x, args.int("score_index", 1)?)?;
        let threshold = args.float("score_threshold", 0.0)?;
        let mut valid = self.emit_binary_const(at, Binary::Greater, score, threshold)?;
        let class = args.int("id_index", 0)?;
        if class >= 0 {
            let class = self.component(at, x, class)?;
            let known = self.emit_binary_const(at, Binary::GreaterEqual, class, 0.0)?;
            valid = self.emit_binary(at, Binary::And, valid, known)?;
        }
        let valid = self.emit_value(at, Op::Reshape(vec![batch, count]), &[valid])?;
        let (number, moved, source) = self.moved_to_front(call, valid, x)?;
        Ok(ParsedValue::Values(vec![number, moved, source]))
    }

    /// The rows `[batch, count, ...]` that a mask `[batch, count]` has, moved to the front: their number, the rows, and where
    /// they were. What is behind them is -1.
    pub(super) fn moved_to_front(
        &mut self,
        call: &ast::ExprCall,
        mask: Value,
        x: Value,
    ) -> Result<(Value, Value, Value)> {
        let at = call.start();
        let flat = self.shape_of(mask);
        let (batch, count) = (flat[0].clone(), flat[1].clone());
        let marks = self.cast_to(call, mask, DType::I64)?;
        let sum = Op::Reduce { kind: ReduceKind::Sum, axes: vec![1], keep_dims: false };
        let number = self.emit_value(at, sum, &[marks])?;
        let number = self.cast_to(call, number, DType::I32)?;
        let scan = Op::Scan { kind: ScanKind::Sum, axis: 1, exclusive: true, reverse: false };
        let before = self.emit_value(at, scan, &[marks])?;
        // The others go behind everything, and are cut off.
        let behind = Op::Dims { values: vec![count.clone()], scalar: true };
        let behind = self.emit_value(at, behind, &[])?;
        let place = self.emit_value(at, Op::Where, &[mask, before, behind])?;
        let none = self.number(at, DType::I64, -1.0)?;
        let room = vec![batch, dims::simplify(&(count.clone() + 1))];
        let room = self.emit_value(at, Op::Broadcast(room), &[none])?;
        let positions = self.emit_value(at, Op::Iota { count }, &[])?;
        let positions = self.emit_value(at, Op::Broadcast(flat.clone()), &[positions])?;
        let (kind, reduce) = (ScatterKind::Elements(1), ScatterReduce::Replace);
        let op = Op::Scatter { kind, reduce, out_of_range: OutOfRange::Clamp };
        let all = self.emit_value(at, op, &[room, place, positions])?;
        let begin = vec![Expr::i64(0); 2];
        let op = Op::Slice { begin, shape: flat.clone(), stride: vec![1; 2] };
        let source = self.emit_value(at, op, &[all])?;
        let column = [flat.clone(), vec![Expr::i64(1)]].concat();
        let column = self.emit_value(at, Op::Reshape(column), &[source])?;
        let (kind, out_of_range) = (GatherKind::Nd { batch_dims: 1 }, OutOfRange::Clamp);
        let moved = self.emit_value(at, Op::Gather { kind, out_of_range }, &[x, column])?;
        let there = self.emit_binary_const(at, Binary::GreaterEqual, source, 0.0)?;
        let mut shape = flat;
        shape.resize(self.rank(x), Expr::i64(1));
        let there = self.emit_value(at, Op::Reshape(shape), &[there])?;
        let missing = self.number(at, self.dtype_of(x), -1.0)?;
        let moved = self.emit_value(at, Op::Where, &[there, moved, missing])?;
        Ok((number, moved, self.cast_to(call, source, DType::I32)?))
    }

    /// Maxima in the cells of regions of images. A cell without an element is zero.
    fn roi_pool(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &["data", "rois", "pooled_size", "spatial_scale", "layout"];
        let args = Args::bind(self.source, call, names)?;
        args.only("layout", &["NCHW"])?;
        let operands = self.operands(&args, &["data", "rois"])?;
        let (image, rois) = (operands[0], operands[1]);
        let [_, _, height, width] = &self.shape_of(image)[..] else {
            return Err(self.source.unsupported(call));
        };
        let extents = [height.clone(), width.clone()];
        let cells = self.per_axis(&args, "pooled_size", 2, 1)?;
        let scale = args.float("spatial_scale", 1.0)?;
        let first = self.component(at, rois, 0)?;
        let first = self.flat(at, first)?;
        let first = self.cast_to(call, first, DType::I64)?;
        let op = Op::Gather { kind: GatherKind::Axis(0), out_of_range: OutOfRange::Clamp };
        let mut pooled = self.emit_value(at, op, &[image, first])?;
        let never = self.number(at, self.dtype_of(image), f64::NEG_INFINITY)?;
        let mut empty = vec![];
        // Rows, then columns: each cell's elements are the product of both.
        for axis in 0..2 {
            let ends = [2 - axis as i64, 4 - axis as i64];
            let [from, to] =
                self.cell_bounds(call, rois, ends, scale, cells[axis], &extents[axis])?;
            let none = self.emit_binary(at, Binary::LessEqual, to, from)?;
            let shape = self.shape_of(none);
            let (regions, count) = (shape[0].clone(), shape[1].clone());
            let one = Expr::i64(1);
            let mut wide = vec![regions.clone(), one.clone(), one.clone(), one.clone()];
            wide[2 + axis] = count.clone();
            empty.push(self.emit_value(at, Op::Reshape(wide), &[none])?);
            // Before the axis of the image comes that of the cells.
            let mut own = vec![one; 5];
            (own[0], own[2 + axis]) = (regions, count);
            let from = self.emit_value(at, Op::Reshape(own.clone()), &[from])?;
            let to = self.emit_value(at, Op::Reshape(own), &[to])?;
            let place = self.emit_value(at, Op::Iota { count: extents[axis].clone() }, &[])?;
            let place = self.along(at, place, 3 + axis, 5)?;
            let after = self.emit_binary(at, Binary::GreaterEqual, place, from)?;
            let before = self.emit_binary(at, Binary::Less, place, to)?;
            let inside = self.emit_binary(at, Binary::And, after, before)?;
            let mut shape = self.shape_of(pooled);
            shape.insert(2 + axis, Expr::i64(1));
            let parts = self.emit_value(at, Op::Reshape(shape), &[pooled])?;
            let parts = self.emit_value(at, Op::Where, &[inside, parts, never])?;
            let op = Op::Reduce { kind: ReduceKind::Max, axes: vec![3 + axis], keep_dims: false };
            pooled = self.emit_value(at, op, &[parts])?;
        }
        let empty = self.emit_binary(at, Binary::Or, empty[0], empty[1])?;
        let zero = self.number(at, self.dtype_of(image), 0.0)?;
        self.emit1(at, Op::Where, &[empty, zero, pooled])
    }

    /// The first element of each cell of each region along an axis, and the one behind its last.
    fn cell_bounds(
        &mut self,
        call: &ast::ExprCall,
        rois: Value,
        ends: [i64; 2],
        scale: f64,
        count: i64,
        extent: &Expr,
    ) -> Result<[Value; 2]> {
        let at = call.start();
        let dtype = self.dtype_of(rois);
        let mut whole = vec![];
        for column in ends {
            let end = self.component(at, rois, column)?;
            let end = self.emit_binary_const(at, Binary::Mul, end, scale)?;
            let end = self.emit_binary_const(at, Binary::Add, end, 0.5)?;
            let end = self.unary(at, Unary::Floor, end)?;
            whole.push(self.cast_to(call, end, DType::I64)?);
        }
        let length = self.emit_binary(at, Binary::Sub, whole[1], whole[0])?;
        let length = self.emit_binary_const(at, Binary::Add, length, 1.0)?;
        let length = self.emit_binary_const(at, Binary::Max, length, 1.0)?;
        let length = self.cast_to(call, length, dtype)?;
        let cell = self.emit_binary_const(at, Binary::Div, length, count as f64)?;
        let last =
            self.emit_value(at, Op::Dims { values: vec![extent.clone()], scalar: true }, &[])?;
        let mut bounds = vec![];
        for (next, whole_number) in [(0.0, Unary::Floor), (1.0, Unary::Ceil)] {
            let number = self.emit_value(at, Op::Iota { count: Expr::i64(count) }, &[])?;
            let number = self.emit_binary_const(at, Binary::Add, number, next)?;
            let number = self.cast_to(call, number, dtype)?;
            let number = self.along(at, number, 1, 2)?;
            let bound = self.emit_binary(at, Binary::Mul, number, cell)?;
            let bound = self.unary(at, whole_number, bound)?;
            let bound = self.cast_to(call, bound, DType::I64)?;
            let bound = self.emit_binary(at, Binary::Add, bound, whole[0])?;
            let bound = self.emit_binary_const(at, Binary::Max, bound, 0.0)?;
            bounds.push(self.emit_binary(at, Binary::Min, bound, last)?);
        }
        Ok([bounds[0], bounds[1]])
    }
}
