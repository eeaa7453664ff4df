//! Sequences and optionals that only a run knows: values of the graph without a tensor type, on which
//! packed functions work (`reflex.sequence.*`, `reflex.optional.*`).

use reflex_graph::{LeafExpr, Node, TensorType, Type, Value};
use reflex_tir::Expr;

use crate::context::ImportContext;
use crate::error::{Result, invalid, unsupported};
use crate::narrow;
use crate::value::{Content, Element, ObjectKind, OnnxValue, Rank, Tensor};

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
            OnnxValue::Sequence(items, dtype) => {
                if narrow::carrier(dtype).is_some() {
                    return Err(unsupported(format!("sequences of {dtype}")));
                }
                let ranks = items.iter().map(|item| Rank::Known(item.rank()));
                let rank = ranks.fold(Rank::None, Rank::and);
                let args = items.iter().map(|item| self.value(item)).collect::<Result<_>>()?;
                let value = self.packed_object("reflex.sequence.of", args);
                Ok((value, ObjectKind::List(Element { dtype, rank })))
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

    /// A tensor from a value of which the rank is known; its dimensions are read at run time.
    pub fn element(&mut self, value: Value, element: &Element) -> Result<Tensor> {
        let Rank::Known(rank) = element.rank else {
            return Err(unsupported("an element of a sequence whose rank is not declared"));
        };
        let dims = (0..rank).map(|axis| Expr::var(self.b.sym(format!("element_{axis}"))));
        let ty = TensorType::new(element.dtype, dims.collect());
        let value = self.b.match_cast_of(value, Type::Tensor(ty));
        Ok(self.tensor_of(value))
    }

    /// The content of an optional as a value.
    pub fn content(&mut self, value: Value, content: &Content) -> Result<OnnxValue> {
        let value = self.packed_object("reflex.optional.get", vec![value]);
        Ok(match content {
            Content::Tensor(element) => OnnxValue::Tensor(self.element(value, element)?),
            Content::List(element) => OnnxValue::Object(value, ObjectKind::List(element.clone())),
        })
    }
}
