//! Opens libraries, calls each of their functions with the same inputs in every process, and prints the
//! bits of the outputs.
//!
//! `bits MODE LIBRARY...`: for each library a line with its path, then those of `noise::lines`.

mod noise;

use std::error::Error;

use reflex::Engine;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mode = args.next().ok_or("bits MODE LIBRARY...")?.parse()?;
    let engine = Engine::new()?;
    for path in args {
        println!("library {path}");
        match engine.load(path.as_str()) {
            Ok(program) => println!("{}", noise::lines(&program, mode).join("\n")),
            Err(error) => println!("refused: {error}"),
        }
    }
    Ok(())
}
