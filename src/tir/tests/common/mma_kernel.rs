//! A product of a warp, as text.

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

/// Bits of 256 floats of 16 bits, and of 256 of 32: many of like size, and, from `seed` 2 on (of each hundred), some that
/// are zero, subnormal, large, infinite or not numbers.
pub fn mma_bits(seed: u64) -> (Vec<u16>, Vec<u32>) {
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
    for _ in 0..256 {
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
