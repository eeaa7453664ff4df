//! Products of a warp and of a warpgroup, as text.
#![allow(dead_code, reason = "each test binary uses a part")]

use reflex_tir::eval::EvalTensor;
use reflex_tir::{Expr, Param, PrimFunc};

/// `y = x w` by tensor cores, of 16 by 16 matrices: `x` by rows or, `transposed`, by columns; `w` by
/// columns or, `transposed`, by rows. `y` begins as the sum of before.
pub fn mma_kernel(dtype: &str, [a, b]: [bool; 2]) -> String {
    let flag = |transposed: bool| if transposed { "True" } else { "False" };
    let (a, b) = (flag(a), flag(b));
    format!(
        "@T.prim_func(s_tir=True)
def kernel(x: T.Buffer((T.int64(256),), \"{dtype}\"), w: T.Buffer((T.int64(256),), \"{dtype}\"), \
         z: T.Buffer((T.int64(256),), \"float32\"), y: T.Buffer((T.int64(256),), \"float32\")):
    T.func_attr({{\"tirx.noalias\": True}})
    for block in T.thread_binding(T.int64(1), thread=\"blockIdx.x\"):
        s = T.alloc_shared((T.int64(16), T.int64(24)), \"{dtype}\")
        u = T.alloc_shared((T.int64(16), T.int64(24)), \"{dtype}\")
        for t in T.thread_binding(T.int64(32), thread=\"threadIdx.x\"):
            acc = T.alloc_local((T.int64(8),))
            for i in range(T.int64(8)):
                s[(i * T.int64(32) + t) // T.int64(16), t % T.int64(16)] = x[i * T.int64(32) + t]
                u[(i * T.int64(32) + t) // T.int64(16), t % T.int64(16)] = w[i * T.int64(32) + t]
            T.tvm_storage_sync(\"shared\")
            for n in range(T.int64(8)):
                acc[n] = z[(t // T.int64(4) + n // T.int64(2) % T.int64(2) * T.int64(8)) * T.int64(16) \
         + t % T.int64(4) * T.int64(2) + n // T.int64(4) * T.int64(8) + n % T.int64(2)]
            T.tile_mma(acc[0], s[0], 24, {a}, u[0], 24, {b}, t)
            for n in range(T.int64(8)):
                y[(t // T.int64(4) + n // T.int64(2) % T.int64(2) * T.int64(8)) * T.int64(16) \
         + t % T.int64(4) * T.int64(2) + n // T.int64(4) * T.int64(8) + n % T.int64(2)] = acc[n]
"
    )
}

/// `y = x w` by tensor cores of a warpgroup, of a 64 x 64 matrix and one of 64 steps and `columns`: `x` by rows or,
/// `transposed`, by columns; `w` by columns or, `transposed`, by rows, which are whole panels. `y` begins as the sum of
/// before.
pub fn wgmma_kernel(dtype: &str, [a, b]: [bool; 2], columns: i64) -> String {
    let flag = |transposed: bool| if transposed { "True" } else { "False" };
    let panels = (columns + 63) / 64;
    let [x, w] = [(64, 1), if b { (64, panels) } else { (columns, 1) }];
    // The element `e` of an operand goes to its panel, where the eight vectors of a row change places.
    let fill = |tile: &str, from: &str, (rows, panels): (i64, i64)| {
        let width = panels * 64;
        format!(
            "            for i in range(T.int64({})):
                {tile}[(i * 128 + t) % {width} // 64 * {rows} + (i * 128 + t) // {width}, ((i * 128 + t) % 64 // 8 ^ \
         (i * 128 + t) // {width} % 8) * 8 + t % 8] = {from}[i * 128 + t]\n",
            rows * width / 128
        )
    };
    let (fill_a, fill_b) = (fill("s", "x", x), fill("u", "w", w));
    let (step_a, step_b) = (if a { 1024 } else { 16 }, if b { 1024 } else { 16 });
    let (a, b, each) = (flag(a), flag(b), columns / 2);
    let element = format!(
        "(t // 32 * 16 + t % 32 // 4 + n // 2 % 2 * 8) * {columns} + t % 4 * 2 + n // 4 * 8 + n % 2"
    );
    format!(
        "@T.prim_func(s_tir=True)
def kernel(x: T.Buffer((T.int64(4096),), \"{dtype}\"), w: T.Buffer((T.int64({w_size}),), \"{dtype}\"), \
         z: T.Buffer((T.int64({sums}),), \"float32\"), y: T.Buffer((T.int64({sums}),), \"float32\")):
    T.func_attr({{\"tirx.noalias\": True}})
    for block in T.thread_binding(T.int64(1), thread=\"blockIdx.x\"):
        s = T.alloc_shared((T.int64(64), T.int64(64)), \"{dtype}\")
        u = T.alloc_shared((T.int64({b_rows}), T.int64(64)), \"{dtype}\")
        for t in T.thread_binding(T.int64(128), thread=\"threadIdx.x\"):
            acc = T.alloc_local((T.int64({each}),))
{fill_a}{fill_b}            T.tvm_storage_sync(\"shared\")
            for n in T.unroll(T.int64({each})):
                acc[n] = z[{element}]
            for k in T.unroll(T.int64(4)):
                T.tile_wgmma({columns}, acc[0], s[k * {step_a}], 0, {a}, u[k * {step_b}], 4096, {b}, t)
            for n in T.unroll(T.int64({each})):
                y[{element}] = acc[n]
",
        w_size = w.0 * w.1 * 64,
        b_rows = w.0 * w.1,
        sums = 64 * columns,
    )
}

/// Bits of so many floats of 16 bits, and of as many of 32: most of like size, and, from `seed` 2 on (of each hundred), some that
/// are zero, subnormal, large, infinite or not numbers.
fn mma_bits(seed: u64, count: usize) -> (Vec<u16>, Vec<u32>) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 16
    };
    let special =
        [0_u16, 0x8000, 1, 0x8003, 0x3c00, 0x3f80, 0x7b00, 0x7f00, 0x7c00, 0x7f80, 0xff80, 0x7fff];
    let mut half = Vec::new();
    let mut single = Vec::new();
    for _ in 0..count {
        let r = next();
        // Signs, exponents near one, any fraction: in both types.
        half.push(
            match seed % 100 >= 2 && r.is_multiple_of(if seed % 100 == 2 { 5 } else { 97 }) {
                true => special[next() as usize % special.len()],
                false => (r as u16 & 0x83ff) | 0x3c00 ^ (next() as u16 & 0x0400),
            },
        );
        let r = next();
        single.push(match seed % 100 >= 2 && r.is_multiple_of(11) {
            true => u32::from(special[next() as usize % special.len()]) << 16,
            false => (r as u32 & 0x80ff_ffff) | 0x3f00_0000,
        });
    }
    (half, single)
}

/// Numbers for the parameters of a kernel: two operands, sums if there are any, and zeros for the results.
pub fn mma_arguments(func: &PrimFunc, seed: u64) -> Vec<EvalTensor> {
    let argument = |(n, param): (usize, &Param)| {
        let Param::Buffer(buffer) = param else { panic!("a kernel of tensors") };
        let data = &func.buffers[*buffer];
        let shape: Vec<i64> = data.shape.iter().filter_map(Expr::as_int).collect();
        let count = shape.iter().product::<i64>() as usize;
        let (halves, sums) = mma_bits(seed + if n == 1 { 100 } else { 0 }, count);
        let bytes = match n {
            0 | 1 if data.dtype.itemsize() == 2 => {
                halves.iter().flat_map(|bits| bits.to_le_bytes()).collect()
            }
            _ if n + 1 == func.params.len() => vec![0; data.dtype.itemsize() * count],
            _ => sums.iter().flat_map(|bits| bits.to_le_bytes()).collect(),
        };
        EvalTensor { dtype: data.dtype, shape, bytes }
    };
    func.params.iter().enumerate().map(argument).collect()
}

/// `y[b] = x[b] w[b]` of two matrices of 104 rows, 136 steps and 8 columns, by a loop whose tiles of 128 rows, 16 columns
/// and 64 steps are copied as boxes and multiplied by two warpgroups: `x` by rows or, `transposed`, by columns; `w` by
/// columns or, `transposed`, by rows.
pub fn pipelined_kernel(dtype: &str, transposed: [bool; 2], stages: usize) -> String {
    pipelined(dtype, transposed, stages, (104, "0"))
}

/// The same of 232 rows, by clusters of two blocks with 128 rows each: both have the same tile of `w`.
pub fn cluster_kernel(dtype: &str, transposed: [bool; 2], stages: usize) -> String {
    let text = pipelined(dtype, transposed, stages, (232, "cx * 128"));
    let (head, body) = text.split_once("        s = T.alloc").expect("shared memory");
    let body = format!("        s = T.alloc{body}").replace("\n        ", "\n            ");
    format!(
        "{head}        for cx in T.thread_binding(T.int64(2), thread=\"clusterCtaIdx.x\"):\n    {body}"
    )
}

fn pipelined(dtype: &str, [a, b]: [bool; 2], stages: usize, (m, row): (i64, &str)) -> String {
    let (n, k, first_row) = (8, 136, row);
    let rows_b = if b { 64 } else { 16 };
    // Sides of the matrix in memory, the boxes of a tile, and the operand of a product.
    let operand = |tile: &str, name: &str, side: i64, extent: i64, transposed: bool| {
        let (far, near) = if transposed { (k, extent) } else { (extent, k) };
        let boxes: String = (0..if transposed { side / 64 } else { 1 })
            .map(|panel| {
                let own = if tile == "s" { first_row } else { "0" };
                let (first, rows) = match transposed {
                    true if own == "0" => (format!("{}", panel * 64), ("k * 64", 64)),
                    true => (format!("{own} + {}", panel * 64), ("k * 64", 64)),
                    false => ("k * 64".to_owned(), (own, side)),
                };
                format!(
                    "                    T.tile_box({tile}[{to}], {name}, {near}, 1, {first}, 64, {far}, {near}, {at}, {count}, \
                     2, {matrix}, block, 1)\n",
                    to = panel * 4096,
                    at = rows.0,
                    count = rows.1,
                    matrix = near * far,
                )
            })
            .collect();
        let team = if tile == "s" { "ty * 4096 + " } else { "" };
        let product = match transposed {
            true => format!("{tile}[{team}kk * 1024], 4096, True"),
            false => format!("{tile}[{team}kk * 16], 0, False"),
        };
        (format!("(T.int64(2), T.int64({far}), T.int64({near}))"), boxes, product)
    };
    let (x, boxes_a, a) = operand("s", "x", 128, m, a);
    let (w, boxes_b, b) = operand("u", "w", rows_b, n, b);
    let own = if first_row == "0" { String::new() } else { format!("{first_row} + ") };
    let row = format!("{own}ty * 64 + tx // 32 * 16 + tx % 32 // 4 + n // 2 % 2 * 8");
    let column = "tx % 4 * 2 + n // 4 * 8 + n % 2";
    format!(
        "@T.prim_func(s_tir=True)
def kernel(x: T.Buffer({x}, \"{dtype}\"), w: T.Buffer({w}, \"{dtype}\"), \
         y: T.Buffer((T.int64(2), T.int64({m}), T.int64({n})), \"float32\")):
    T.func_attr({{\"tirx.noalias\": True}})
    for block in T.thread_binding(T.int64(2), thread=\"blockIdx.x\"):
        s = T.alloc_shared((T.int64(128), T.int64(64)), \"{dtype}\")
        u = T.alloc_shared((T.int64({rows_b}), T.int64(64)), \"{dtype}\")
        for ty in T.thread_binding(T.int64(2), thread=\"threadIdx.y\"):
            for tx in T.thread_binding(T.int64(128), thread=\"threadIdx.x\"):
                acc = T.alloc_local((T.int64(8),))
                for n in T.unroll(T.int64(8)):
                    acc[n] = T.float32(0.0)
                for k in T.serial(T.int64(3), annotations={{\"reflex.pipeline_stages\": {stages}}}):
                    T.tvm_storage_sync(\"shared\")
                    if ty < 1 and tx < 1:
{boxes}                    T.tvm_storage_sync(\"shared\")
                    for kk in T.unroll(T.int64(4)):
                        T.tile_wgmma(16, acc[0], {a}, {b}, tx)
                for n in T.unroll(T.int64(8)):
                    if {row} < {m} and {column} < {n}:
                        y[block, {row}, {column}] = acc[n]
",
        boxes = format!("{boxes_a}{boxes_b}")
            .replace("                    T.tile_box", "                        T.tile_box"),
    )
}
