//! Instructions of threads per second, by sample: `cargo bench -p reflex-ptx`.

use std::time::Instant;

use reflex_ptx::{Device, LaunchOptions, Limits, Module, Params, Policy};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for (name, grid, block) in
        [("gemm", [8, 8, 1], [16, 16, 1]), ("reduce", [64, 1, 1], [128, 1, 1])]
    {
        for races in [Policy::Fault, Policy::Allow] {
            let path = format!("{}/samples/{name}.ptx", env!("CARGO_MANIFEST_DIR"));
            let module = Module::parse(&std::fs::read_to_string(path)?)?;
            let mut device = Device::new(Limits::default());
            let size = 4 * 128 * 1024;
            let buffers = [device.alloc(size)?, device.alloc(size)?, device.alloc(size)?];
            for buffer in buffers {
                device.write(buffer, &vec![0; size as usize])?;
            }
            let [a, b, c] = buffers;
            let params = match name {
                "gemm" => Params::new().u64(a).u64(b).u64(c).u32(128).u32(128),
                _ => Params::new().u64(a).u64(b).u32(2048),
            };
            let options = LaunchOptions { races, ..LaunchOptions::default() };
            let start = Instant::now();
            let counters = device.launch(&module, name, grid, block, 0, &params.bytes, &options)?;
            let seconds = start.elapsed().as_secs_f64();
            let rate = counters.total() as f64 / seconds / 1e6;
            println!("{name}, races {races:?}: {rate:.0} million a second");
        }
    }
    Ok(())
}
