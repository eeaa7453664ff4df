//! `R.vision.non_max_suppression`, and for all classes: in the order of their scores, boxes remove those of their class
//! that they overlap.

use reflex_tir::{DType, Expr};
use ruff_python_ast as ast;
use ruff_text_size::{Ranged, TextSize};

use super::args::Args;
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use crate::{
    Binary, GatherKind, Loop, Node, Op, OutOfRange, ReduceKind, TensorType, Type, Unary, Value,
    dims,
};

/// Rows of boxes in the order of their scores.
struct Ranked {
    /// Left, top, right and bottom, each `[rows, boxes]`.
    sides: [Value; 4],
    /// The boxes that may be kept.
    alive: Value,
    /// Those that others may remove.
    removable: Value,
    /// The class of each, where classes do not touch each other.
    class: Option<Value>,
    /// The boxes of a row that are kept at most, int64.
    most: Option<Value>,
    /// The overlap from which on a box is removed.
    overlap: Value,
}

impl FuncParser<'_, '_> {
    /// The operator, if it is one of these.
    pub(super) fn suppression(
        &mut self,
        name: &str,
        call: &ast::ExprCall,
    ) -> Result<Option<ParsedValue>> {
        Ok(Some(match name {
            "vision.non_max_suppression" => self.non_max_suppression(call)?,
            "vision.all_class_non_max_suppression" => self.all_class_non_max_suppression(call)?,
            _ => return Ok(None),
        }))
    }

    /// Elements along the second axis by indices of each row.
    fn ranked(&mut self, at: TextSize, x: Value, order: Value) -> Result<Value> {
        let mut shape = self.shape_of(order);
        shape.push(Expr::i64(1));
        let order = self.emit_value(at, Op::Reshape(shape), &[order])?;
        let (kind, out_of_range) = (GatherKind::Nd { batch_dims: 1 }, OutOfRange::Clamp);
        self.emit_value(at, Op::Gather { kind, out_of_range }, &[x, order])
    }

    /// The sides of boxes `[rows, boxes, ...]` whose corners begin at a component.
    fn box_sides(&mut self, at: TextSize, x: Value, first: i64) -> Result<[Value; 4]> {
        let flat = self.shape_of(x)[..2].to_vec();
        let mut parts = vec![];
        for number in first..first + 4 {
            let part = self.component(at, x, number)?;
            parts.push(self.emit_value(at, Op::Reshape(flat.clone()), &[part])?);
        }
        // Corners come in either order.
        let left = self.emit_binary(at, Binary::Min, parts[0], parts[2])?;
        let top = self.emit_binary(at, Binary::Min, parts[1], parts[3])?;
        let right = self.emit_binary(at, Binary::Max, parts[0], parts[2])?;
        let bottom = self.emit_binary(at, Binary::Max, parts[1], parts[3])?;
        Ok([left, top, right, bottom])
    }

    fn area(&mut self, at: TextSize, [left, top, right, bottom]: [Value; 4]) -> Result<Value> {
        let width = self.emit_binary(at, Binary::Sub, right, left)?;
        let height = self.emit_binary(at, Binary::Sub, bottom, top)?;
        self.emit_binary(at, Binary::Mul, width, height)
    }

    /// Whether each box is kept: `[rows, boxes]`. Each in turn removes those behind it.
    fn kept(&mut self, call: &ast::ExprCall, boxes: &Ranked) -> Result<Value> {
        let at = call.start();
        let shape = self.shape_of(boxes.alive);
        let (rows, count) = (shape[0].clone(), shape[1].clone());
        let none = self.number(at, DType::I64, 0.0)?;
        let so_far = Op::Broadcast(vec![rows.clone(), Expr::i64(1)]);
        let so_far = self.emit_value(at, so_far, &[none])?;
        let trips = Op::Dims { values: vec![count.clone()], scalar: true };
        let trips = self.emit_value(at, trips, &[])?;
        let init = vec![boxes.alive, so_far];
        self.b.open();
        let iter = self.b.body_param("", TensorType::new(DType::I64, vec![]));
        let cond_in = self.b.body_param("", TensorType::new(DType::BOOL, vec![]));
        let types = [
            TensorType::new(DType::BOOL, shape.clone()),
            TensorType::new(DType::I64, vec![rows.clone(), Expr::i64(1)]),
        ];
        let carried: Vec<Value> =
            types.iter().map(|ty| self.b.body_param("", ty.clone())).collect();
        let step = self.kept_step(call, boxes, iter, [carried[0], carried[1]]);
        let results = step.as_ref().map_or(vec![], |results| results.to_vec());
        let body = self.b.close(results);
        step?;
        let made = self.dims.fresh("trips");
        self.sync_dims();
        let stacked = vec![made, rows.clone(), Expr::i64(1)];
        let [alive, so_far] = types;
        let types = vec![alive, so_far, TensorType::new(DType::BOOL, stacked)];
        let node = Loop { max_trips: Some(trips), cond: None, init, iter, cond_in, carried, body };
        let node = Node::Loop(Box::new(node));
        let stacked = self.b.bind_values(node, types.into_iter().map(Type::Tensor).collect())[2];
        let known = TensorType::new(DType::BOOL, vec![count.clone(), rows.clone(), Expr::i64(1)]);
        let stacked = self.b.match_cast(stacked, known);
        let flat = self.emit_value(at, Op::Reshape(vec![count, rows]), &[stacked])?;
        self.emit_value(at, Op::Transpose(vec![1, 0]), &[flat])
    }

    /// One box: whether to go on, what is left alive, the boxes kept so far, and whether it is kept.
    fn kept_step(
        &mut self,
        call: &ast::ExprCall,
        boxes: &Ranked,
        iter: Value,
        [alive, so_far]: [Value; 2],
    ) -> Result<[Value; 4]> {
        let at = call.start();
        let place = self.emit_value(at, Op::Reshape(vec![Expr::i64(1)]), &[iter])?;
        let own = |p: &mut Self, x: Value| {
            let (kind, out_of_range) = (GatherKind::Axis(1), OutOfRange::Clamp);
            p.emit_value(at, Op::Gather { kind, out_of_range }, &[x, place])
        };
        let mut keep = own(self, alive)?;
        if let Some(most) = boxes.most {
            let room = self.emit_binary(at, Binary::Less, so_far, most)?;
            keep = self.emit_binary(at, Binary::And, keep, room)?;
        }
        let one = self.cast_to(call, keep, DType::I64)?;
        let so_far = self.emit_binary(at, Binary::Add, so_far, one)?;
        let mut own_sides = vec![];
        for side in boxes.sides {
            own_sides.push(own(self, side)?);
        }
        let mut sides = vec![];
        for axis in 0..2 {
            let from = self.emit_binary(at, Binary::Max, own_sides[axis], boxes.sides[axis])?;
            let to =
                self.emit_binary(at, Binary::Min, own_sides[axis + 2], boxes.sides[axis + 2])?;
            let side = self.emit_binary(at, Binary::Sub, to, from)?;
            sides.push(self.emit_binary_const(at, Binary::Max, side, 0.0)?);
        }
        let shared = self.emit_binary(at, Binary::Mul, sides[1], sides[0])?;
        let own_area = [own_sides[0], own_sides[1], own_sides[2], own_sides[3]];
        let (own_area, area) = (self.area(at, own_area)?, self.area(at, boxes.sides)?);
        let union = self.emit_binary(at, Binary::Add, own_area, area)?;
        let union = self.emit_binary(at, Binary::Sub, union, shared)?;
        let ratio = self.emit_binary(at, Binary::Div, shared, union)?;
        let empty = self.emit_binary_const(at, Binary::LessEqual, union, 0.0)?;
        let zero = self.number(at, self.dtype_of(ratio), 0.0)?;
        let ratio = self.emit_value(at, Op::Where, &[empty, zero, ratio])?;
        let mut gone = self.emit_binary(at, Binary::GreaterEqual, ratio, boxes.overlap)?;
        let count = self.shape_of(alive)[1].clone();
        let places = self.emit_value(at, Op::Iota { count }, &[])?;
        let behind = self.emit_binary(at, Binary::Greater, places, iter)?;
        for also in [behind, keep, boxes.removable] {
            gone = self.emit_binary(at, Binary::And, gone, also)?;
        }
        if let Some(class) = boxes.class {
            let own_class = own(self, class)?;
            let same = self.emit_binary(at, Binary::Equal, own_class, class)?;
            gone = self.emit_binary(at, Binary::And, gone, same)?;
        }
        let left = self.unary(at, Unary::Not, gone)?;
        let alive = self.emit_binary(at, Binary::And, alive, left)?;
        let go_on = self.number(at, DType::BOOL, 1.0)?;
        Ok([go_on, alive, so_far, keep])
    }

    fn non_max_suppression(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &[
            "data",
            "valid_count",
            "indices",
            "max_output_size",
            "iou_threshold",
            "force_suppress",
            "top_k",
            "coord_start",
            "score_index",
            "id_index",
            "return_indices",
            "invalid_to_bottom",
            "soft_nms_sigma",
            "score_threshold",
        ];
        let args = Args::bind(self.source, call, names)?;
        if args.float("soft_nms_sigma", 0.0)? != 0.0 {
            return Err(self.source.refuse(at, "suppression by lower scores (`soft_nms_sigma`)"));
        }
        args.float("score_threshold", 0.0)?;
        let operands = self.operands(&args, &["data", "valid_count", "indices"])?;
        let x = operands[0];
        let [rows, count, _] = &self.shape_of(x)[..] else {
            return Err(self.source.unsupported(call));
        };
        let flat = vec![rows.clone(), count.clone()];
        let column = Op::Reshape(vec![rows.clone(), Expr::i64(1)]);
        let valid = self.emit_value(at, column, &[operands[1]])?;
        let mut valid = self.cast_to(call, valid, DType::I64)?;
        let places = self.emit_value(at, Op::Iota { count: count.clone() }, &[])?;
        let listed = self.emit_binary(at, Binary::Less, places, valid)?;
        let scored = args.int("score_index", 1)?;
        let score = self.component(at, x, scored)?;
        let score = self.emit_value(at, Op::Reshape(flat.clone()), &[score])?;
        let never = self.number(at, self.dtype_of(x), f64::NEG_INFINITY)?;
        let key = self.emit_value(at, Op::Where, &[listed, score, never])?;
        let op = Op::TopK { axis: 1, k: count.clone(), largest: true };
        let order = self.emit(at, op, &[key])?[1];
        let sorted = self.ranked(at, x, order)?;
        let top = args.int("top_k", -1)?;
        if top > 0 {
            valid = self.emit_binary_const(at, Binary::Min, valid, top as f64)?;
        }
        let inside = self.emit_binary(at, Binary::Less, places, valid)?;
        let score = self.component(at, sorted, scored)?;
        let score = self.emit_value(at, Op::Reshape(flat.clone()), &[score])?;
        let positive = self.emit_binary_const(at, Binary::Greater, score, 0.0)?;
        let alive = self.emit_binary(at, Binary::And, inside, positive)?;
        let id = args.int("id_index", 0)?;
        let class = match id >= 0 && !args.boolean("force_suppress", false)? {
            true => {
                let class = self.component(at, sorted, id)?;
                Some(self.emit_value(at, Op::Reshape(flat), &[class])?)
            }
            false => None,
        };
        let most = args.int("max_output_size", -1)?;
        let most = (most > 0).then(|| self.number(at, DType::I64, most as f64)).transpose()?;
        let overlap = args.float("iou_threshold", 0.5)?;
        let overlap = self.number(at, self.dtype_of(x), overlap)?;
        let sides = self.box_sides(at, sorted, args.int("coord_start", 2)?)?;
        let boxes = Ranked { sides, alive, removable: positive, class, most, overlap };
        let kept = self.kept(call, &boxes)?;
        if !args.boolean("return_indices", true)? {
            let out = self.only_where(at, kept, sorted)?;
            return Ok(ParsedValue::Value(match args.boolean("invalid_to_bottom", false)? {
                true => self.moved_to_front(call, kept, out)?.1,
                false => out,
            }));
        }
        let indices = self.ranked(at, operands[2], order)?;
        let indices = self.cast_to(call, indices, DType::I32)?;
        let (number, indices, _) = self.moved_to_front(call, kept, indices)?;
        let column = Op::Reshape(vec![rows.clone(), Expr::i64(1)]);
        let number = self.emit_value(at, column, &[number])?;
        Ok(ParsedValue::Values(vec![indices, number]))
    }

    /// The rows that a mask has; -1 elsewhere.
    fn only_where(&mut self, at: TextSize, mask: Value, x: Value) -> Result<Value> {
        let mut shape = self.shape_of(mask);
        shape.resize(self.rank(x), Expr::i64(1));
        let mask = self.emit_value(at, Op::Reshape(shape), &[mask])?;
        let missing = self.number(at, self.dtype_of(x), -1.0)?;
        self.emit_value(at, Op::Where, &[mask, x, missing])
    }

    /// Batch, class and number of each box that is kept, and how many there are.
    fn all_class_non_max_suppression(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &[
            "boxes",
            "scores",
            "max_output_boxes_per_class",
            "iou_threshold",
            "score_threshold",
            "output_format",
        ];
        let args = Args::bind(self.source, call, names)?;
        args.only("output_format", &["onnx"])?;
        let operands = self.operands(
            &args,
            &["boxes", "scores", "max_output_boxes_per_class", "iou_threshold", "score_threshold"],
        )?;
        if self.b.as_constant(operands[2]).is_none() {
            let message = "`max_output_boxes_per_class` is a constant: TVM reads no other";
            return Err(self.source.refuse(at, message));
        }
        let [batch, classes, count] = &self.shape_of(operands[1])[..] else {
            return Err(self.source.unsupported(call));
        };
        let (batch, classes, count) = (batch.clone(), classes.clone(), count.clone());
        let rows = dims::product(&[batch.clone(), classes.clone()]);
        let flat = vec![rows.clone(), count.clone()];
        let score = self.emit_value(at, Op::Reshape(flat), &[operands[1]])?;
        let op = Op::TopK { axis: 1, k: count.clone(), largest: true };
        let sorted = self.emit(at, op, &[score])?;
        let (score, order) = (sorted[0], sorted[1]);
        let four = Expr::i64(4);
        let wide = vec![batch.clone(), Expr::i64(1), count.clone(), four.clone()];
        let boxes = self.emit_value(at, Op::Reshape(wide), &[operands[0]])?;
        let wide = vec![batch, classes.clone(), count.clone(), four.clone()];
        let boxes = self.emit_value(at, Op::Broadcast(wide), &[boxes])?;
        let boxes = self.emit_value(at, Op::Reshape(vec![rows, count.clone(), four]), &[boxes])?;
        let boxes = self.ranked(at, boxes, order)?;
        let sides = self.box_sides(at, boxes, 0)?;
        let scalar = |p: &mut Self, v: Value| p.emit_value(at, Op::Reshape(vec![]), &[v]);
        let overlap = scalar(self, operands[3])?;
        let least = scalar(self, operands[4])?;
        let most = scalar(self, operands[2])?;
        let most = Some(self.cast_to(call, most, DType::I64)?);
        let mut alive = self.emit_binary(at, Binary::Greater, score, least)?;
        let listed = self.emit_binary_const(at, Binary::Greater, score, -1.0)?;
        let any = self.emit_binary_const(at, Binary::Greater, overlap, 0.0)?;
        for also in [listed, any] {
            alive = self.emit_binary(at, Binary::And, alive, also)?;
        }
        let removable = self.emit_binary_const(at, Binary::Greater, score, 0.0)?;
        let boxes = Ranked { sides, alive, removable, class: None, most, overlap };
        let kept = self.kept(call, &boxes)?;
        let kept = self.flat(at, kept)?;
        let selected = self.selected(call, kept)?;
        let order = self.flat(at, order)?;
        let (kind, out_of_range) = (GatherKind::Axis(0), OutOfRange::Clamp);
        let number = self.emit_value(at, Op::Gather { kind, out_of_range }, &[order, selected])?;
        let [count, classes] = [count, classes].map(|dim| dims::simplify(&dim.max(1)));
        let count = self.emit_value(at, Op::Dims { values: vec![count], scalar: true }, &[])?;
        let classes = self.emit_value(at, Op::Dims { values: vec![classes], scalar: true }, &[])?;
        let row = self.emit_binary(at, Binary::Div, selected, count)?;
        let batch = self.emit_binary(at, Binary::Div, row, classes)?;
        let class = self.emit_binary(at, Binary::FloorMod, row, classes)?;
        let mut columns = vec![];
        for column in [batch, class, number] {
            columns.push(self.along(at, column, 0, 2)?);
        }
        let indices = self.emit_value(at, Op::Concat { axis: 1 }, &columns)?;
        let marks = self.cast_to(call, kept, DType::I64)?;
        let op = Op::Reduce { kind: ReduceKind::Sum, axes: vec![0], keep_dims: true };
        let total = self.emit_value(at, op, &[marks])?;
        Ok(ParsedValue::Values(vec![indices, total]))
    }
}
