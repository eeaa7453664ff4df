//! Random nodes over values of each kind.

use arbitrary::{Result, Unstructured};
use reflex_onnx::proto::*;

use super::file::{encoded, int, ints, texts};

/// Columns of floats.
pub(super) const WIDTH: i64 = 16;
/// The words that strings are made of.
pub(super) const WORDS: [&str; 6] = ["", "a", "bc", "\u{fc}ber", "A longer one", "7"];

/// A quantised tensor with its scale and zero point.
type Quantised = [String; 3];

/// A model in the making.
pub(super) struct Generator<'g, 'a> {
    pub(super) u: &'g mut Unstructured<'a>,
    pub(super) nodes: Vec<NodeProto>,
    constants: Vec<TensorProto>,
    floats: Vec<String>,
    quantised: Vec<Quantised>,
    ints: Vec<String>,
    texts: Vec<String>,
    lists: Vec<String>,
    text_lists: Vec<String>,
}

impl<'g, 'a> Generator<'g, 'a> {
    pub(super) fn new(u: &'g mut Unstructured<'a>) -> Self {
        let names = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        Generator {
            u,
            nodes: vec![],
            constants: vec![],
            floats: names(&["x", "y"]),
            quantised: vec![],
            ints: names(&["i"]),
            texts: names(&["t"]),
            lists: vec![],
            text_lists: vec![],
        }
    }

    fn node(
        &mut self,
        op: &str,
        inputs: &[&str],
        outputs: usize,
        attribute: Vec<AttributeProto>,
    ) -> Vec<String> {
        let domain = match op {
            "LabelEncoder" => "ai.onnx.ml",
            "MatMulNBits" | "QLinearAdd" => "com.microsoft",
            _ => "",
        };
        let at = self.nodes.len();
        let output: Vec<String> = (0..outputs).map(|k| format!("v{at}_{k}")).collect();
        self.nodes.push(NodeProto {
            input: inputs.iter().map(ToString::to_string).collect(),
            output: output.clone(),
            op_type: op.into(),
            domain: domain.into(),
            attribute,
            ..NodeProto::default()
        });
        output
    }

    fn one(&mut self, op: &str, inputs: &[&str], attribute: Vec<AttributeProto>) -> String {
        self.node(op, inputs, 1, attribute).remove(0)
    }

    fn constant(&mut self, data_type: i32, dims: &[i64], bytes: Vec<u8>) -> String {
        let name = format!("c{}", self.constants.len());
        let raw_data = Some(bytes.into());
        let tensor = TensorProto {
            name: name.clone(),
            dims: dims.to_vec(),
            data_type,
            raw_data,
            ..Default::default()
        };
        self.constants.push(tensor);
        name
    }

    fn number(&mut self, value: f32) -> String {
        self.constant(data_type::FLOAT, &[], value.to_le_bytes().to_vec())
    }

    fn axes(&mut self, axis: i64) -> String {
        self.constant(data_type::INT64, &[1], axis.to_le_bytes().to_vec())
    }

    fn bytes(&mut self, count: usize) -> Result<Vec<u8>> {
        let seed = self.u.arbitrary::<u32>()?;
        Ok((0..count as u32)
            .map(|k| (seed.wrapping_add(k).wrapping_mul(0x9e37_79b9) >> 13) as u8)
            .collect())
    }

    fn float(&mut self) -> Result<String> {
        self.u.choose(&self.floats).cloned()
    }

    fn text(&mut self) -> Result<String> {
        self.u.choose(&self.texts).cloned()
    }

    fn int(&mut self) -> Result<String> {
        self.u.choose(&self.ints).cloned()
    }

    /// Adds nodes.
    pub(super) fn step(&mut self) -> Result<()> {
        match self.u.int_in_range(0..=4)? {
            0 => self.number_step(),
            1 => self.quantised_step(),
            2 => self.text_step(),
            3 => self.list_step(false),
            _ => self.list_step(true),
        }
    }

    fn number_step(&mut self) -> Result<()> {
        let (a, b) = (self.float()?, self.float()?);
        let made = match self.u.int_in_range(0..=2)? {
            0 => {
                let op = *self.u.choose(&["Relu", "Neg", "Abs"])?;
                self.one(op, &[&a], vec![])
            }
            1 => {
                let op = *self.u.choose(&["Sub", "Min", "Max"])?;
                self.one(op, &[&a, &b], vec![])
            }
            _ => {
                let half = self.number(0.5);
                self.one("Mul", &[&a, &half], vec![])
            }
        };
        self.floats.push(made);
        Ok(())
    }

    /// The scale and the zero point of a tensor that the model quantises.
    fn grid(&mut self) -> Result<[String; 2]> {
        let scale = *self.u.choose(&[0.125, 0.25, 1.0])?;
        let zero = *self.u.choose(&[0, 7, 128])?;
        Ok([self.number(scale), self.constant(data_type::UINT8, &[], vec![zero])])
    }

    fn weight(&mut self) -> Result<(String, String)> {
        let kind = *self.u.choose(&[data_type::INT8, data_type::UINT8])?;
        let bytes = self.bytes((WIDTH * WIDTH) as usize)?;
        let zero = u8::from(self.u.arbitrary::<bool>()?) * 3;
        Ok((self.constant(kind, &[WIDTH, WIDTH], bytes), self.constant(kind, &[], vec![zero])))
    }

    fn quantised_step(&mut self) -> Result<()> {
        let x = self.float()?;
        let known = self.quantised.last().cloned();
        match (self.u.int_in_range(0..=6)?, known) {
            (0, _) => {
                let [q, scale, zero] =
                    self.node("DynamicQuantizeLinear", &[&x], 3, vec![]).try_into().expect("three");
                self.quantised.push([q, scale, zero]);
            }
            (1, _) => {
                let (bytes, scale) = (self.bytes(WIDTH as usize * 8)?, 0.125_f32.to_le_bytes());
                let codes = self.constant(data_type::UINT8, &[WIDTH, 1, 8], bytes);
                let scales =
                    self.constant(data_type::FLOAT, &[WIDTH], scale.repeat(WIDTH as usize));
                let level = *self.u.choose(&[0, 1, 4])?;
                let sizes = [
                    ("K", WIDTH),
                    ("N", WIDTH),
                    ("bits", 4),
                    ("block_size", 16),
                    ("accuracy_level", level),
                ]
                .map(|(k, v)| int(k, v));
                let product = self.one("MatMulNBits", &[&x, &codes, &scales], sizes.to_vec());
                self.smaller(&product, 1.0 / 16.0);
            }
            (2, Some([q, scale, zero])) => {
                let y = self.one("DequantizeLinear", &[&q, &scale, &zero], vec![]);
                self.floats.push(y);
            }
            (3, Some([q, _, zero])) => {
                let (w, w_zero) = self.weight()?;
                let sums = self.one("MatMulInteger", &[&q, &w, &zero, &w_zero], vec![]);
                let sums = self.one("Cast", &[&sums], vec![int("to", 1)]);
                self.smaller(&sums, 1.0 / 65536.0);
            }
            (4, Some([q, scale, zero])) => {
                let ((w, w_zero), [y_scale, y_zero]) = (self.weight()?, self.grid()?);
                let w_scale = self.number(1.0 / 256.0);
                let args = [&q, &scale, &zero, &w, &w_scale, &w_zero, &y_scale, &y_zero];
                let y = self.one("QLinearMatMul", &args.map(String::as_str), vec![]);
                self.quantised.push([y, y_scale, y_zero]);
            }
            (5, Some([a, a_scale, a_zero])) => {
                let [b, b_scale, b_zero] = self.u.choose(&self.quantised)?.clone();
                let [y_scale, y_zero] = self.grid()?;
                let args = [&a, &a_scale, &a_zero, &b, &b_scale, &b_zero, &y_scale, &y_zero];
                let y = self.one("QLinearAdd", &args.map(String::as_str), vec![]);
                self.quantised.push([y, y_scale, y_zero]);
            }
            _ => {
                let [scale, zero] = self.grid()?;
                let q = self.one("QuantizeLinear", &[&x, &scale, &zero], vec![]);
                self.quantised.push([q, scale, zero]);
            }
        }
        Ok(())
    }

    /// A product as a float that does not grow.
    fn smaller(&mut self, x: &str, by: f32) {
        let by = self.number(by);
        let y = self.one("Mul", &[x, &by], vec![]);
        self.floats.push(y);
    }

    fn encoder(&mut self, x: &str, to: &str) -> String {
        let words = texts("keys_strings", &WORDS[..4]);
        let values = match to {
            "values_strings" => texts(to, &["one", "", "\u{e9}", "four"]),
            _ => ints(to, &[5, -3, 0, 1 << 40]),
        };
        self.one("LabelEncoder", &[x], vec![words, values])
    }

    fn text_step(&mut self) -> Result<()> {
        let (a, b) = (self.text()?, self.text()?);
        match self.u.int_in_range(0..=6)? {
            // Each makes strings as wide as both.
            0 if self.nodes.len() < 8 => {
                let y = self.one("StringConcat", &[&a, &b], vec![]);
                self.texts.push(y);
            }
            1 => {
                let y = self.encoder(&a, "values_int64s");
                self.ints.push(y);
            }
            2 => {
                let y = self.encoder(&a, "values_strings");
                self.texts.push(y);
            }
            3 => {
                let i = self.int()?;
                let y = self.one("Cast", &[&i], vec![int("to", 8)]);
                if self.u.arbitrary()? {
                    let back = self.one("Cast", &[&y], vec![int("to", 7)]);
                    self.ints.push(back);
                }
                self.texts.push(y);
            }
            // Most strings are no numbers: an error when it runs.
            4 if self.u.ratio(1, 6)? => {
                let y = self.one("Cast", &[&a], vec![int("to", 7)]);
                self.ints.push(y);
            }
            _ => {
                let same = self.one("Equal", &[&a, &b], vec![]);
                let c = self.text()?;
                let y = self.one("Where", &[&same, &a, &c], vec![]);
                self.texts.push(y);
            }
        }
        Ok(())
    }

    /// Makes, changes or reads a sequence.
    fn list_step(&mut self, is_text: bool) -> Result<()> {
        let x = if is_text { self.text()? } else { self.float()? };
        let known = if is_text { &self.text_lists } else { &self.lists };
        let list = match known.is_empty() {
            true => None,
            false => Some(self.u.choose(known)?.clone()),
        };
        let zero = self.constant(data_type::INT64, &[], vec![0; 8]);
        let at = if self.u.arbitrary()? { "at".to_owned() } else { zero };
        let made = match (self.u.int_in_range(0..=8)?, list) {
            (0, Some(list)) => Some(self.one("SequenceInsert", &[&list, &x], vec![])),
            (1, Some(list)) => Some(self.one("SequenceInsert", &[&list, &x, &at], vec![])),
            (2, Some(list)) => Some(self.one("SequenceErase", &[&list, &at], vec![])),
            (3, Some(list)) => Some(self.branches(&list, &x)),
            (4, Some(list)) => {
                let y = self.one("SequenceAt", &[&list, &at], vec![]);
                self.reduced(&y, is_text);
                None
            }
            (5, Some(list)) => {
                let y = self.one("ConcatFromSequence", &[&list], vec![int("axis", 0)]);
                self.reduced(&y, is_text);
                None
            }
            (6, Some(list)) => {
                let length = self.one("SequenceLength", &[&list], vec![]);
                let i = self.int()?;
                let sum = self.one("Add", &[&i, &length], vec![]);
                self.ints.push(sum);
                None
            }
            (7, _) => {
                let keep = i64::from(self.u.arbitrary::<bool>()?);
                let axis = vec![int("axis", 0), int("keepdims", keep)];
                let list = self.one("SplitToSequence", &[&x], axis);
                // Single rows have another rank than what else is in sequences.
                if keep == 0 {
                    let length = self.one("SequenceLength", &[&list], vec![]);
                    self.ints.push(length);
                    return Ok(());
                }
                Some(list)
            }
            _ => Some(self.one("SequenceConstruct", &[&x, &x], vec![])),
        };
        let lists = if is_text { &mut self.text_lists } else { &mut self.lists };
        lists.extend(made);
        Ok(())
    }

    /// A tensor of any number of rows, brought back to the shape of the others.
    fn reduced(&mut self, x: &str, is_text: bool) {
        if is_text {
            let codes = self.encoder(x, "values_int64s");
            let codes = self.running_sums(&codes);
            let axes = self.axes(0);
            let sum = self.one("ReduceSum", &[&codes, &axes], vec![]);
            let sum = self.one("Add", &["i", &sum], vec![]);
            self.ints.push(sum);
            return;
        }
        let x = self.running_sums(x);
        let axes = self.axes(0);
        let sum = self.one("ReduceSum", &[&x, &axes], vec![]);
        let less = self.number(1.0 / 64.0);
        let sum = self.one("Mul", &[&sum, &less], vec![]);
        let sum = self.one("Add", &["x", &sum], vec![]);
        self.floats.push(sum);
    }

    /// Sums of the rows so far, whose sum depends on their order.
    fn running_sums(&mut self, x: &str) -> String {
        let axis = self.constant(data_type::INT64, &[], vec![0; 8]);
        self.one("CumSum", &[x, &axis], vec![])
    }

    /// Reads the newest sequence of each kind: its last element, and all of them in order.
    pub(super) fn read_lists(&mut self) {
        let last = self.constant(data_type::INT64, &[], (-1_i64).to_le_bytes().to_vec());
        for is_text in [false, true] {
            let lists = if is_text { &self.text_lists } else { &self.lists };
            let Some(list) = lists.last().cloned() else { continue };
            let y = self.one("SequenceAt", &[&list, &last], vec![]);
            self.reduced(&y, is_text);
            let y = self.one("ConcatFromSequence", &[&list], vec![int("axis", 0)]);
            self.reduced(&y, is_text);
            let [numbers, sums] = match is_text {
                true => [self.ints.pop(), self.ints.pop()].map(Option::unwrap_or_default),
                false => [self.floats.pop(), self.floats.pop()].map(Option::unwrap_or_default),
            };
            let both = self.one("Add", &[&numbers, &sums], vec![]);
            if is_text { self.ints.push(both) } else { self.floats.push(both) }
        }
    }

    /// A sequence, in one branch with an element more.
    fn branches(&mut self, list: &str, x: &str) -> String {
        let graph = |name: &str, node: NodeProto| {
            let output = vec![ValueInfoProto { name: node.output[0].clone(), r#type: None }];
            let graph =
                GraphProto { node: vec![node], name: name.into(), output, ..Default::default() };
            AttributeProto {
                name: name.into(),
                g: Some(graph),
                r#type: attribute_type::GRAPH,
                ..Default::default()
            }
        };
        let node = |op: &str, input: &[&str]| NodeProto {
            input: input.iter().map(ToString::to_string).collect(),
            output: vec![format!("b{}_{op}", self.nodes.len())],
            op_type: op.into(),
            ..NodeProto::default()
        };
        let then = graph("then_branch", node("SequenceInsert", &[list, x]));
        let otherwise = graph("else_branch", node("Identity", &[list]));
        self.one("If", &["flag"], vec![then, otherwise])
    }

    /// The model, whose results are the newest values of each kind.
    pub(super) fn model(self) -> Vec<u8> {
        let quantised = self.quantised.last().map(|[q, ..]| q.clone());
        let newest = [self.floats.last(), self.ints.last(), self.texts.last()];
        let results = newest.into_iter().flatten().cloned().chain(quantised);
        let info = |name: &str, elem_type: i32, dims: &[Option<i64>]| {
            let dim = |d: &Option<i64>| DimensionProto {
                value: Some(d.map_or_else(
                    || DimensionValue::DimParam("n".into()),
                    DimensionValue::DimValue,
                )),
            };
            let shape = Some(TensorShapeProto { dim: dims.iter().map(dim).collect() });
            let tensor_type = Some(TensorTypeProto { elem_type, shape });
            let ty = TypeProto { tensor_type, ..TypeProto::default() };
            ValueInfoProto { name: name.into(), r#type: Some(ty) }
        };
        let rows = [None, Some(WIDTH)];
        let input = vec![
            info("x", data_type::FLOAT, &rows),
            info("y", data_type::FLOAT, &rows),
            info("t", data_type::STRING, &[None]),
            info("i", data_type::INT64, &[None]),
            info("at", data_type::INT64, &[]),
            info("flag", data_type::BOOL, &[]),
        ];
        let output = results.map(|name| ValueInfoProto { name, r#type: None }).collect();
        let (node, initializer) = (self.nodes, self.constants);
        encoded(GraphProto {
            node,
            name: "g".into(),
            input,
            output,
            initializer,
            ..Default::default()
        })
    }
}
