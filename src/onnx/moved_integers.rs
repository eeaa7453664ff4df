//! Data movement of dequantised tensors: an operator that moves elements moves the integers that they are made of
//! too, so that a quantisation behind it undoes the dequantisation in front of it, and products behind it are
//! of integers. What nothing reads of it goes as dead code.

use std::rc::Rc;

use reflex_graph::Literal;
use reflex_tir::DType;

use crate::call::Call;
use crate::context::{ImportContext, Operator};
use crate::error::Result;
use crate::value::{Dequantised, OnnxValue, Tensor};

/// Operators whose results are elements of their first inputs, so many of these. The maxima are such, as
/// dequantisation is monotonic.
const MOVES: &[(&str, Data)] = &[
    ("Concat", Data::All),
    ("DepthToSpace", Data::First),
    ("Expand", Data::First),
    ("Flatten", Data::First),
    ("Gather", Data::First),
    ("MaxPool", Data::First),
    ("Pad", Data::Padded),
    ("Reshape", Data::First),
    ("Resize", Data::Nearest),
    ("Slice", Data::First),
    ("SpaceToDepth", Data::First),
    ("Split", Data::First),
    ("Squeeze", Data::First),
    ("Tile", Data::First),
    ("Transpose", Data::First),
    ("Unsqueeze", Data::First),
];

/// The inputs that an operator moves.
#[derive(Clone, Copy, PartialEq)]
enum Data {
    First,
    All,
    /// The first one, with zeros around it.
    Padded,
    /// The first one, whose nearest elements are taken.
    Nearest,
}

impl Dequantised {
    /// The scale, where all elements have one that is known, and products and quotients with it are exact enough to
    /// undo each other: `round((q * scale) / scale) = q` for integers of nine bits.
    fn uniform_scale(&self) -> Option<f32> {
        let literal = self.scale.as_literal().filter(|l| l.dtype() == DType::F32)?;
        let scale = f32::from_le_bytes(literal.bytes().as_array().copied()?);
        (1e-30..1e30).contains(&scale).then_some(scale)
    }

    /// The zero point, where all elements have one that is known.
    fn uniform_zero(&self) -> Option<i64> {
        match &self.zero_point {
            None => Some(0),
            Some(zero) => match zero.as_literal().and_then(Literal::to_i64)?.as_slice() {
                [zero] => Some(*zero),
                _ => None,
            },
        }
    }

    /// The type of the integers and what they stand for, where that is the same for all of them.
    fn meaning(&self) -> Option<(DType, u32, i64)> {
        Some((self.x.dtype(), self.uniform_scale()?.to_bits(), self.uniform_zero()?))
    }
}

/// The integers of a dequantised tensor, if its quantisation by these parameters gives them back.
pub(crate) fn quantised_again(
    x: &Tensor,
    scale: &Tensor,
    zero_point: Option<&Tensor>,
    to: DType,
) -> Option<Tensor> {
    let from = x.dequantised.as_ref()?;
    let zero_point = zero_point.cloned();
    let next = Dequantised { x: from.x.clone(), scale: scale.clone(), zero_point, axis: 0 };
    (from.x.dtype() == to && from.meaning()? == next.meaning()?).then(|| from.x.clone())
}

/// The dequantised inputs that a call moves, all of one meaning.
fn moved(domain: &str, call: &Call) -> Option<(Data, Rc<Dequantised>)> {
    let name = call.node.op_type.as_str();
    let (_, data) = MOVES.iter().find(|(known, _)| domain == "ai.onnx" && *known == name)?;
    let dequantised = |input: &Option<OnnxValue>| match input {
        Some(OnnxValue::Tensor(x)) => x.dequantised.clone(),
        _ => None,
    };
    let first = call.inputs.first().and_then(dequantised)?;
    let meaning = first.meaning()?;
    let same = |input| dequantised(input).and_then(|d| d.meaning()) == Some(meaning);
    let fits = match data {
        Data::First => true,
        Data::All => call.inputs.iter().all(same),
        // Outside of what is cropped there is a value of its own.
        Data::Nearest => {
            let text = |name, otherwise| call.text(name, otherwise).unwrap_or_default();
            let mode = text("coordinate_transformation_mode", "half_pixel");
            text("mode", "nearest") == "nearest" && mode != "tf_crop_and_resize"
        }
        // The value is the third input, or an attribute of old versions.
        Data::Padded => call.opset >= 11 && matches!(call.inputs.get(2), None | Some(None)),
    };
    fits.then_some((*data, first))
}

impl ImportContext<'_> {
    /// Imports a call again with integers in place of what was dequantised from them, for the results of its import.
    pub fn move_integers(
        &mut self,
        operator: Operator,
        domain: &str,
        mut call: Call,
        outputs: &mut [OnnxValue],
    ) -> Result<()> {
        let Some((data, of)) = moved(domain, &call) else { return Ok(()) };
        for input in &mut call.inputs {
            if let Some(OnnxValue::Tensor(x)) = input
                && let Some(own) = x.dequantised.clone()
            {
                *x = own.x.clone();
            }
            if data != Data::All {
                break;
            }
        }
        if data == Data::Padded {
            call.inputs.resize(call.inputs.len().max(3), None);
            let zero = of.uniform_zero().unwrap_or(0);
            call.inputs[2] = Some(OnnxValue::Tensor(self.num(zero as f64, of.x.dtype())?));
        }
        for (output, moved) in outputs.iter_mut().zip(operator(self, &call)?) {
            let (OnnxValue::Tensor(y), OnnxValue::Tensor(x)) = (output, moved) else { continue };
            if y.dtype() == DType::F32 && x.dtype() == of.x.dtype() {
                let (scale, zero_point) = (of.scale.clone(), of.zero_point.clone());
                y.dequantised = Some(Rc::new(Dequantised { x, scale, zero_point, axis: 0 }));
            }
        }
        Ok(())
    }
}
