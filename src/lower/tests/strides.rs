//! Random networks of residual blocks: strides move to the producers of feature maps, and no bit
//! changes.

mod harness;

use harness::{agree, f32s};
use reflex_graph::builder::FuncBuilder;
use reflex_graph::{
    Binary, ConvAttrs, EvalValue, FuncData, Module, Node, Op, TensorType, Unary, Value, eval_func,
};
use reflex_lower::graph::propagate_strides;
use reflex_tir::{DType, Expr};

const CHANNELS: i64 = 16;

/// A network whose choices are the bits of `seed`.
struct Net<'m> {
    b: FuncBuilder<'m>,
    seed: u64,
}

impl Net<'_> {
    fn below(&mut self, n: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.seed >> 33) % n
    }

    fn conv(&mut self, x: Value, kernel: i64, stride: i64, groups: i64) -> Value {
        let seed = self.below(1 << 20);
        let w = self.b.constant(f32s(&[CHANNELS, CHANNELS / groups, kernel, kernel], seed));
        let pads = vec![kernel / 2; 2];
        let (strides, dilations) = (vec![stride, 1.max(stride - 1)], vec![1; 2]);
        let attrs =
            ConvAttrs { strides, pads_begin: pads.clone(), pads_end: pads, dilations, groups };
        self.b.emit1(Op::Conv(attrs), &[x, w]).unwrap()
    }

    fn rectified(&mut self, x: Value) -> Value {
        self.b.emit1(Op::Unary(Unary::Abs), &[x]).unwrap()
    }

    /// A block with its stride at `at`, of three convolutions; what joins its result differs.
    fn block(&mut self, x: Value) -> Value {
        let (stride, at) = (1 + self.below(3) as i64, self.below(3));
        let s = |n| if n == at { stride } else { 1 };
        let groups = if self.below(3) == 0 { CHANNELS } else { 1 };
        let y = self.conv(x, 1, s(0), 1);
        let y = self.rectified(y);
        let y = self.conv(y, 3, s(1), groups);
        let y = self.conv(y, 1, s(2), 1);
        let other = match (self.below(4), stride) {
            (0, _) => self.b.constant(f32s(&[CHANNELS, 1, 1], 3)),
            // A row differs along an axis of positions.
            (1, _) => {
                let width = self.b.tensor(y).shape[3].as_int().unwrap();
                self.b.constant(f32s(&[1, width], 5))
            }
            (_, 1) => x,
            _ => self.conv(x, 1, stride, 1),
        };
        let y = self.b.emit1(Op::Binary(Binary::Add), &[y, other]).unwrap();
        self.rectified(y)
    }
}

fn network(seed: u64) -> Module {
    let mut module = Module::default();
    let mut b = FuncBuilder::new(&mut module, "main");
    let n = Expr::var(b.sym("n"));
    let shape = vec![n, CHANNELS.into(), 11.into(), 9.into()];
    let x = b.param("x", TensorType::new(DType::F32, shape));
    let mut net = Net { b, seed };
    let first = net.conv(x, 3, 1, 1);
    let second = net.block(first);
    let third = net.block(second);
    let last = net.block(third);
    let kept = match net.below(4) {
        0 => second,
        1 => third,
        _ => last,
    };
    net.b.finish(vec![last, kept], vec!["last".into(), "kept".into()]);
    module
}

/// The product of all strides of convolutions wider than one position.
fn strides_of_windows(module: &Module) -> i64 {
    let mut product = 1;
    for func in module.funcs.values() {
        let FuncData::Graph(f) = func else { continue };
        f.body.walk(&mut |b| {
            if let Node::Op { op: Op::Conv(attrs), .. } = &b.node
                && attrs.pads_begin[0] > 0
            {
                product *= attrs.strides.iter().product::<i64>();
            }
        });
    }
    product
}

#[test]
fn networks_with_strides_moved_keep_their_bits() {
    let mut moved = 0;
    for seed in 0..24 {
        let module = network(seed);
        let mut after = module.clone();
        propagate_strides(&mut after).unwrap();
        moved += usize::from(strides_of_windows(&after) > strides_of_windows(&module));
        let args = [f32s(&[2, CHANNELS, 11, 9], seed + 1)];
        let answers = [&module, &after].map(|module| {
            let main = module.funcs.keys().next().unwrap();
            eval_func(module, main, &args.clone().map(EvalValue::Tensor)).unwrap()
        });
        assert!(answers[0] == answers[1], "seed {seed}");
        if seed < 4 {
            agree(&module, &args);
        }
    }
    assert!(moved > 6, "{moved}");
}
