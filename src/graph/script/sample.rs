//! Operators that sample: images at the points of a grid, classes from a distribution.

use reflex_tir::{DType, Expr};
use ruff_python_ast as ast;
use ruff_text_size::{Ranged, TextSize};

use super::args::Args;
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use crate::{Binary, GatherKind, Op, OutOfRange, ReduceKind, ScanKind, Unary, Value, dims};

/// An image and the points at which it is sampled.
struct Sampled {
    at: TextSize,
    /// `[batch, channels, height * width]`.
    x: Value,
    /// `[batch, channels, points]`.
    shape: Vec<Expr>,
    height: i64,
    width: i64,
}

/// A coordinate of each point: the sample before it, and the distance from that.
#[derive(Clone, Copy)]
struct Between {
    before: Value,
    distance: Value,
}

impl FuncParser<'_, '_> {
    /// The operator, if it is one of these.
    pub(super) fn sample(
        &mut self,
        name: &str,
        call: &ast::ExprCall,
    ) -> Result<Option<ParsedValue>> {
        Ok(Some(match name {
            "image.grid_sample" => self.grid_sample(call)?,
            "vision.roi_align" => self.roi_align(call)?,
            "multinomial_from_uniform" => self.multinomial(call)?,
            _ => return Ok(None),
        }))
    }

    /// Samples at points whose coordinates, columns before rows, are from -1 to 1 over the image.
    fn grid_sample(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &["data", "grid", "method", "layout", "padding_mode", "align_corners"];
        let args = Args::bind(self.source, call, names)?;
        args.only("layout", &["NCHW"])?;
        args.only("method", &["bilinear", "nearest"])?;
        args.only("padding_mode", &["zeros", "border"])?;
        let operands = self.operands(&args, &["data", "grid"])?;
        let (shape, grid) = (self.shape_of(operands[0]), self.shape_of(operands[1]));
        let sizes: Vec<i64> = shape.iter().skip(2).filter_map(Expr::as_int).collect();
        let ([batch, channels, ..], [_, _, rows, columns], [height, width]) =
            (&shape[..], &grid[..], &sizes[..])
        else {
            return Err(self.source.refuse(at, "an image has four axes, and its size is known"));
        };
        let points = dims::product(&[rows.clone(), columns.clone()]);
        let flat = vec![batch.clone(), channels.clone(), Expr::i64(height * width)];
        let x = self.emit_value(at, Op::Reshape(flat), &[operands[0]])?;
        let over = vec![batch.clone(), channels.clone(), points.clone()];
        let image = Sampled { at, x, shape: over, height: *height, width: *width };
        let corners = args.boolean("align_corners", false)?;
        let border = args.string("padding_mode", "zeros")? == "border";
        let mut places = vec![];
        for (axis, count) in [(0, *width), (1, *height)] {
            let index = self.number(at, DType::I64, axis as f64)?;
            let kind = GatherKind::Axis(1);
            let op = Op::Gather { kind, out_of_range: OutOfRange::Clamp };
            let place = self.emit_value(at, op, &[operands[1], index])?;
            let row = vec![batch.clone(), Expr::i64(1), points.clone()];
            let place = self.emit_value(at, Op::Reshape(row), &[place])?;
            let place = self.emit_binary_const(at, Binary::Add, place, 1.0)?;
            let place = match corners {
                true => self.emit_binary_const(at, Binary::Mul, place, (count - 1) as f64 / 2.0)?,
                false => {
                    let place =
                        self.emit_binary_const(at, Binary::Mul, place, count as f64 / 2.0)?;
                    self.emit_binary_const(at, Binary::Sub, place, 0.5)?
                }
            };
            places.push(if border { self.within(at, place, count)? } else { place });
        }
        let sampled = match args.string("method", "bilinear")?.as_str() {
            "nearest" => {
                let column = self.unary(at, Unary::Round, places[0])?;
                let row = self.unary(at, Unary::Round, places[1])?;
                self.tap(call, &image, row, column)?
            }
            _ => self.bilinear(call, &image, places[1], places[0])?,
        };
        let shape = vec![batch.clone(), channels.clone(), rows.clone(), columns.clone()];
        self.emit1(at, Op::Reshape(shape), &[sampled])
    }

    /// Clipped to `0..count`.
    fn within(&mut self, at: TextSize, place: Value, count: i64) -> Result<Value> {
        let place = self.emit_binary_const(at, Binary::Max, place, 0.0)?;
        self.emit_binary_const(at, Binary::Min, place, (count - 1) as f64)
    }

    fn between(&mut self, at: TextSize, place: Value) -> Result<Between> {
        let before = self.unary(at, Unary::Floor, place)?;
        let distance = self.emit_binary(at, Binary::Sub, place, before)?;
        Ok(Between { before, distance })
    }

    /// The four samples around a point, by their distances.
    fn bilinear(
        &mut self,
        call: &ast::ExprCall,
        image: &Sampled,
        row: Value,
        column: Value,
    ) -> Result<Value> {
        let at = image.at;
        let mut sides = vec![];
        for place in [row, column] {
            let Between { before, distance } = self.between(at, place)?;
            let one = self.number(at, self.dtype_of(before), 1.0)?;
            let after = self.emit_binary(at, Binary::Add, before, one)?;
            let rest = self.emit_binary(at, Binary::Sub, one, distance)?;
            sides.push([(before, rest), (after, distance)]);
        }
        self.weighted(at, [sides[0], sides[1]], |p, y, x| p.tap(call, image, y, x))
    }

    /// The sum of four samples: each at a row and a column, and times the weights of both.
    pub(super) fn weighted(
        &mut self,
        at: TextSize,
        [rows, columns]: [[(Value, Value); 2]; 2],
        mut sample: impl FnMut(&mut Self, Value, Value) -> Result<Value>,
    ) -> Result<Value> {
        let mut parts = vec![];
        for (row, of_row) in rows {
            for (column, of_column) in columns {
                let weight = self.emit_binary(at, Binary::Mul, of_row, of_column)?;
                let taken = sample(self, row, column)?;
                parts.push(self.emit_binary(at, Binary::Mul, taken, weight)?);
            }
        }
        let mut sum = parts[0];
        for part in &parts[1..] {
            sum = self.emit_binary(at, Binary::Add, sum, *part)?;
        }
        Ok(sum)
    }

    /// The samples at whole coordinates; outside of the image zero.
    fn tap(
        &mut self,
        call: &ast::ExprCall,
        image: &Sampled,
        row: Value,
        column: Value,
    ) -> Result<Value> {
        let at = image.at;
        let mut inside: Option<Value> = None;
        let mut places = vec![];
        for (place, count) in [(row, image.height), (column, image.width)] {
            let kept = self.within(at, place, count)?;
            let same = self.emit_binary(at, Binary::Equal, kept, place)?;
            inside = Some(match inside {
                Some(other) => self.emit_binary(at, Binary::And, other, same)?,
                None => same,
            });
            places.push(self.cast_to(call, kept, DType::I64)?);
        }
        let index = self.emit_binary_const(at, Binary::Mul, places[0], image.width as f64)?;
        let index = self.emit_binary(at, Binary::Add, index, places[1])?;
        let index = self.emit_value(at, Op::Broadcast(image.shape.clone()), &[index])?;
        let kind = GatherKind::Elements(2);
        let op = Op::Gather { kind, out_of_range: OutOfRange::Clamp };
        let taken = self.emit_value(at, op, &[image.x, index])?;
        let zero = self.number(at, self.dtype_of(taken), 0.0)?;
        let inside = inside.ok_or_else(|| self.source.unsupported(call))?;
        self.emit_value(at, Op::Where, &[inside, taken, zero])
    }

    /// The first class whose cumulative probability is more than the sample.
    fn multinomial(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &["prob", "uniform_sample", "sample_indices", "dtype"];
        let args = Args::bind(self.source, call, names)?;
        let operands = self.operands(&args, &["prob", "uniform_sample", "sample_indices"])?;
        let (probability, uniform, rows) = (operands[0], operands[1], operands[2]);
        let dtype = self.dtype_or(&args, "dtype", DType::I64)?;
        let (kind, axis) = (ScanKind::Sum, 1);
        let op = Op::Scan { kind, axis, exclusive: false, reverse: false };
        let total = self.emit_value(at, op, &[probability])?;
        let count = vec![self.shape_of(rows)[0].clone()];
        let rows = self.emit_value(at, Op::Reshape(count), &[rows])?;
        let kind = GatherKind::Axis(0);
        let op = Op::Gather { kind, out_of_range: OutOfRange::Clamp };
        let total = self.emit_value(at, op, &[total, rows])?;
        let before = self.emit_binary(at, Binary::LessEqual, total, uniform)?;
        let before = self.cast_to(call, before, DType::I64)?;
        let op = Op::Reduce { kind: ReduceKind::Sum, axes: vec![1], keep_dims: true };
        let class = self.emit_value(at, op, &[before])?;
        self.cast_to(call, class, dtype).map(ParsedValue::Value)
    }
}
