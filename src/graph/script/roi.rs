//! `R.vision.roi_align`: averages or maxima of samples in the cells of regions of images.

use reflex_tir::{DType, Expr};
use ruff_python_ast as ast;
use ruff_text_size::{Ranged, TextSize};

use super::args::Args;
use super::parser::{FuncParser, ParsedValue};
use super::source::Result;
use crate::{Binary, GatherKind, Op, OutOfRange, ReduceKind, Unary, Value, dims};

/// The samples of all regions along one axis: each `[regions, cells * samples]`.
struct AlongAxis {
    /// The elements before and after, int64, and the weight of the latter.
    low: Value,
    high: Value,
    weight: Value,
    /// Whether the sample is on the image, or near it.
    valid: Value,
}

/// The attributes that concern one axis.
struct Cells {
    /// The columns of the regions that begin and end it.
    ends: [usize; 2],
    extent: i64,
    count: i64,
    samples: i64,
    scale: f64,
    /// As in TVM: a region is not lengthened to one element. It moves nothing by half an element.
    aligned: bool,
}

impl FuncParser<'_, '_> {
    /// Samples between elements, so many for each cell and axis.
    pub(super) fn roi_align(&mut self, call: &ast::ExprCall) -> Result<ParsedValue> {
        let at = call.start();
        let names = &[
            "data",
            "rois",
            "pooled_size",
            "spatial_scale",
            "sample_ratio",
            "aligned",
            "layout",
            "mode",
        ];
        let args = Args::bind(self.source, call, names)?;
        args.only("layout", &["NCHW"])?;
        args.only("mode", &["avg", "max"])?;
        let operands = self.operands(&args, &["data", "rois"])?;
        let (x, rois) = (operands[0], operands[1]);
        let sizes: Vec<i64> = self.shape_of(x).iter().skip(2).filter_map(Expr::as_int).collect();
        let cells = self.per_axis(&args, "pooled_size", 2, 1)?;
        let samples = args.int("sample_ratio", -1)?;
        let ([batch, channels, ..], [height, width]) = (&self.shape_of(x)[..], &sizes[..]) else {
            return Err(self.source.refuse(at, "an image has four axes, and its size is known"));
        };
        if samples < 1 {
            let message = "`R.vision.roi_align` without a `sample_ratio` takes as many samples as the regions say";
            return Err(self.source.refuse(at, message));
        }
        let (scale, aligned) = (args.float("spatial_scale", 1.0)?, args.boolean("aligned", false)?);
        let axis = |ends, extent, count| Cells { ends, extent, count, samples, scale, aligned };
        let rows = self.along_axis(call, rois, &axis([2, 4], *height, cells[0]))?;
        let columns = self.along_axis(call, rois, &axis([1, 3], *width, cells[1]))?;
        // Channels last: a sample reads whole rows.
        let image = self.emit_value(at, Op::Transpose(vec![0, 2, 3, 1]), &[x])?;
        let area = Expr::i64(height * width);
        let flat = vec![dims::product(&[batch.clone(), area]), channels.clone()];
        let image = self.emit_value(at, Op::Reshape(flat), &[image])?;
        let first = self.column(at, rois, 0)?;
        let first = self.cast_to(call, first, DType::I64)?;
        let first = self.emit_binary_const(at, Binary::Mul, first, (height * width) as f64)?;
        let first = self.along(at, first, 0, 3)?;
        let sampled = self.between_four(at, image, first, *width, &rows, &columns)?;
        let regions = self.shape_of(rois)[0].clone();
        let numbers = [cells[0], samples, cells[1], samples].map(Expr::i64);
        let shape = [vec![regions], numbers.to_vec(), vec![channels.clone()]].concat();
        let sampled = self.emit_value(at, Op::Reshape(shape), &[sampled])?;
        let kind = match args.string("mode", "avg")?.as_str() {
            "max" => ReduceKind::Max,
            _ => ReduceKind::Mean,
        };
        let op = Op::Reduce { kind, axes: vec![2, 4], keep_dims: false };
        let pooled = self.emit_value(at, op, &[sampled])?;
        self.emit1(at, Op::Transpose(vec![0, 3, 1, 2]), &[pooled])
    }

    /// A column of the regions.
    fn column(&mut self, at: TextSize, rois: Value, number: usize) -> Result<Value> {
        let number = self.number(at, DType::I64, number as f64)?;
        let op = Op::Gather { kind: GatherKind::Axis(1), out_of_range: OutOfRange::Clamp };
        self.emit_value(at, op, &[rois, number])
    }

    fn along_axis(
        &mut self,
        call: &ast::ExprCall,
        rois: Value,
        cells: &Cells,
    ) -> Result<AlongAxis> {
        let at = call.start();
        let dtype = self.dtype_of(rois);
        let mut ends = vec![];
        for number in cells.ends {
            let end = self.column(at, rois, number)?;
            ends.push(self.emit_binary_const(at, Binary::Mul, end, cells.scale)?);
        }
        let mut length = self.emit_binary(at, Binary::Sub, ends[1], ends[0])?;
        if !cells.aligned {
            length = self.emit_binary_const(at, Binary::Max, length, 1.0)?;
        }
        let cell = self.emit_binary_const(at, Binary::Div, length, cells.count as f64)?;
        // The middles of the samples, in cells from the first one on.
        let count = Expr::i64(cells.count * cells.samples);
        let middles = self.emit_value(at, Op::Iota { count }, &[])?;
        let middles = self.cast_to(call, middles, dtype)?;
        let middles = self.emit_binary_const(at, Binary::Add, middles, 0.5)?;
        let middles = self.emit_binary_const(at, Binary::Div, middles, cells.samples as f64)?;
        let middles = self.along(at, middles, 1, 2)?;
        let (cell, start) = (self.along(at, cell, 0, 2)?, self.along(at, ends[0], 0, 2)?);
        let place = self.emit_binary(at, Binary::Mul, cell, middles)?;
        let place = self.emit_binary(at, Binary::Add, place, start)?;
        let after = self.emit_binary_const(at, Binary::GreaterEqual, place, -1.0)?;
        let before = self.emit_binary_const(at, Binary::LessEqual, place, cells.extent as f64)?;
        let valid = self.emit_binary(at, Binary::And, after, before)?;
        let last = (cells.extent - 1) as f64;
        let place = self.emit_binary_const(at, Binary::Max, place, 0.0)?;
        let place = self.emit_binary_const(at, Binary::Min, place, last)?;
        let low = self.unary(at, Unary::Floor, place)?;
        let weight = self.emit_binary(at, Binary::Sub, place, low)?;
        let high = self.emit_binary_const(at, Binary::Add, low, 1.0)?;
        let high = self.emit_binary_const(at, Binary::Min, high, last)?;
        let (low, high) =
            (self.cast_to(call, low, DType::I64)?, self.cast_to(call, high, DType::I64)?);
        Ok(AlongAxis { low, high, weight, valid })
    }

    /// The samples `[regions, rows, columns, channels]`, each of four elements; zero where it is off the image.
    fn between_four(
        &mut self,
        at: TextSize,
        image: Value,
        first: Value,
        width: i64,
        rows: &AlongAxis,
        columns: &AlongAxis,
    ) -> Result<Value> {
        let mut sides = vec![];
        for (along, inserted) in [(rows, 2), (columns, 1)] {
            let one = self.number(at, self.dtype_of(along.weight), 1.0)?;
            let rest = self.emit_binary(at, Binary::Sub, one, along.weight)?;
            let mut both = vec![];
            for (mut place, weight) in [(along.low, rest), (along.high, along.weight)] {
                if inserted == 2 {
                    place = self.emit_binary_const(at, Binary::Mul, place, width as f64)?;
                }
                let place = self.axes_of(at, place, inserted, 3)?;
                both.push((place, self.axes_of(at, weight, inserted, 4)?));
            }
            sides.push([both[0], both[1]]);
        }
        let sum = self.weighted(at, [sides[0], sides[1]], |p, row, column| {
            let index = p.emit_binary(at, Binary::Add, row, column)?;
            let index = p.emit_binary(at, Binary::Add, index, first)?;
            let op = Op::Gather { kind: GatherKind::Axis(0), out_of_range: OutOfRange::Clamp };
            p.emit_value(at, op, &[image, index])
        })?;
        let (of_row, of_column) =
            (self.axes_of(at, rows.valid, 2, 4)?, self.axes_of(at, columns.valid, 1, 4)?);
        let valid = self.emit_binary(at, Binary::And, of_row, of_column)?;
        let zero = self.number(at, self.dtype_of(sum), 0.0)?;
        self.emit_value(at, Op::Where, &[valid, sum, zero])
    }

    /// `[regions, samples]` with an axis of one element at `inserted`, and further ones up to a rank.
    fn axes_of(&mut self, at: TextSize, v: Value, inserted: usize, rank: usize) -> Result<Value> {
        let mut shape = self.shape_of(v);
        shape.insert(inserted, Expr::i64(1));
        shape.resize(rank, Expr::i64(1));
        self.emit_value(at, Op::Reshape(shape), &[v])
    }
}
