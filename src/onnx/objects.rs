//! Sequences and optionals that only a run knows: values of the graph without a tensor type, on which
//! packed functions work (`reflex.sequence.*`, `reflex.optional.*`).

use reflex_graph::{LeafExpr, Node, TensorType, Type, Value};
use reflex_tir::{DType, Expr};

use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::narrow;
use crate::value::{Content, Element, ObjectKind, OnnxValue, Rank, Scalar, Tensor};

impl ImportContext<'_> {
    /// The run-time form of a value that is no tensor, or of a tensor in an optional.
    pub fn object(&mut self, value: OnnxValue) -> Result<(Value, ObjectKind)> {
        match value {
            OnnxValue::Object(value, kind) => Ok((value, kind)),
            OnnxValue::Absent => {
                let node = Node::Leaf(LeafExpr::Null);
                let value = self.b.bind_values(node, vec![Type::Object])[0];
                Ok((value, ObjectKind::Optional(None)))
            }
            OnnxValue::Sequence(items, ty) => {
                let ranks = items.iter().map(|item| Rank::Known(item.rank() - ty.axes()));
                let rank = ranks.fold(Rank::None, Rank::and);
                let args = items.iter().map(|item| self.part(item)).collect::<Result<_>>()?;
                let value = self.packed_object("reflex.sequence.of", args);
                Ok((value, ObjectKind::List(Element { ty, rank })))
            }
            OnnxValue::Tensor(_) | OnnxValue::Strings(_) => {
                Err(invalid("a tensor in place of a sequence or an optional"))
            }
        }
    }

    /// The result of a packed function, which is no tensor.
    pub fn packed_object(&mut self, name: &str, args: Vec<Value>) -> Value {
        let node = Node::CallPacked { name: name.to_owned(), args, ints: vec![] };
        self.b.bind_values(node, vec![Type::Object])[0]
    }

    /// The result of a packed function that is a tensor of a type.
    pub fn packed_tensor(&mut self, name: &str, args: Vec<Value>, ty: TensorType) -> Tensor {
        let node = Node::CallPacked { name: name.to_owned(), args, ints: vec![] };
        self.bind(node, vec![ty]).remove(0)
    }

    /// A tensor as an element of a sequence, in the form of outputs.
    pub fn part(&mut self, item: &Tensor) -> Result<Value> {
        let item = self.narrow_output(item)?;
        self.value(&item)
    }

    /// A tensor from a value of which the rank is known; its dimensions are read at run time.
    pub fn element(&mut self, value: Value, element: &Element) -> Result<OnnxValue> {
        let Rank::Known(rank) = element.rank else {
            return Err(unsupported("an element of a sequence whose rank is not declared"));
        };
        let rank = rank + element.ty.axes();
        let dims = (0..rank).map(|axis| Expr::var(self.b.sym(format!("element_{axis}"))));
        let dims = dims.collect();
        let dtype = match element.ty {
            Scalar::Text => DType::U8,
            Scalar::Number(dtype) => dtype,
        };
        let ty = TensorType::new(narrow::boundary(dtype), dims);
        let value = self.b.match_cast_of(value, Type::Tensor(ty));
        let tensor = self.tensor_of(value);
        let tensor = self.narrow_input(&tensor, dtype)?;
        Ok(element.ty.value(tensor))
    }

    /// The content of an optional as a value.
    pub fn content(&mut self, value: Value, content: &Content) -> Result<OnnxValue> {
        let value = self.packed_object("reflex.optional.get", vec![value]);
        match content {
            Content::Tensor(element) => self.element(value, element),
            Content::List(element) => {
                Ok(OnnxValue::Object(value, ObjectKind::List(element.clone())))
            }
        }
    }
}
