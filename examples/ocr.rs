//! Reads a line of text at fifty widths: one program for all shapes, and how to warm it up.
//!
//! usage: ocr MODEL CHARACTERS LINE.ppm
//!
//! MODEL is ppocr4_rec.onnx or a .so made from it, which can hold code for widths that are known:
//!
//! reflex compile ppocr4_rec.onnx -o rec.so --shape x=1x3x48x160 --shape x=1x3x48x320
//!
//! CHARACTERS has one on each line; `reflex info ppocr4_rec.onnx --json` prints them, as `character`
//! of `metadata`. LINE.ppm is 48 pixels high. Prints what the left part of the line says, for each
//! width; latencies go to standard error.

use std::error::Error;
use std::io::Write;
use std::time::Instant;

use reflex::{Array, Engine, Feed, Mode, Prepared, Program, TierPolicy};

const HEIGHT: usize = 48;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Err(error) = run(&args, &mut std::io::stdout()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

/// Runs the example with the arguments of its command line.
pub fn run(args: &[String], out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let [model, characters, file] = args else {
        return Err("usage: ocr MODEL CHARACTERS LINE.ppm".into());
    };
    let characters = std::fs::read_to_string(characters)?;
    let characters: Vec<&str> = characters.lines().chain([" "]).collect();
    let (width, height, image) = read_ppm(file)?;
    if height != HEIGHT || width < 64 {
        return Err(format!("{file}: it must be {HEIGHT} pixels high and 64 wide").into());
    }
    // Fifty sets of shapes are more than are worth a specialised program each.
    let policy: TierPolicy = "shapes=0".parse()?;
    let program = Engine::builder().tier(policy).build()?.load(model)?;
    let mut session = program.session(Mode::Tiered)?;
    let widths = (0..50).map(|at| 64 + (width - 64) * at / 49);
    let calls = widths.map(|part| Ok((part, prepare(&program, &image, width, part)?)));
    let calls = calls.collect::<Result<Vec<_>, Box<dyn Error>>>()?;

    let mut times = vec![[0.0; 3]; calls.len()];
    for (round, name) in ["first call", "second call", "warmed up"].into_iter().enumerate() {
        if round == 2 {
            // The machine code of the general program serves every width: one is enough.
            session.warm_up(&calls[0].1)?;
        }
        for ((part, call), times) in calls.iter().zip(&mut times) {
            let start = Instant::now();
            let outputs = session.call(call)?;
            times[round] = start.elapsed().as_secs_f64() * 1e3;
            if round == 0 {
                writeln!(out, "{part}: {}", text(&outputs.arrays()?[0].1, &characters)?)?;
            }
        }
        let mut sorted: Vec<f64> = times.iter().map(|times| times[round]).collect();
        sorted.sort_by(f64::total_cmp);
        eprintln!("{name}: median {:.2} ms, longest {:.2} ms", sorted[25], sorted[49]);
    }
    for ((part, _), [first, second, warm]) in calls.iter().zip(times) {
        eprintln!("{part}: {first:.2}, {second:.2}, {warm:.2} ms");
    }
    Ok(())
}

/// The left part of the image as the model takes it: planes of numbers from -1 to 1.
fn prepare(
    program: &Program,
    image: &[u8],
    width: usize,
    part: usize,
) -> Result<Prepared, Box<dyn Error>> {
    let rows = |plane: usize| image.chunks_exact(3 * width).map(move |row| &row[plane..]);
    let pixels = (0..3).flat_map(rows).flat_map(|row| row.iter().step_by(3).take(part));
    let values: Vec<f32> = pixels.map(|v| (f32::from(*v) / 255.0 - 0.5) / 0.5).collect();
    let x = Array::of(&[1, 3, HEIGHT as i64, part as i64], &values)?;
    Ok(program.prepare("main", &Feed::from([("x".to_owned(), x)]))?)
}

/// The most probable character of each step, without repetitions and blanks (number 0).
fn text(scores: &Array, characters: &[&str]) -> Result<String, Box<dyn Error>> {
    let (mut found, mut last) = (String::new(), 0);
    for step in scores.to_vec::<f32>()?.chunks_exact(characters.len() + 1) {
        let best = (0..step.len()).rev().max_by(|a, b| step[*a].total_cmp(&step[*b])).unwrap_or(0);
        if best != 0 && best != last {
            found.push_str(characters[best - 1]);
        }
        last = best;
    }
    Ok(found)
}

/// Width, height and bytes of an image: P6, width, height and 255 with one space or line end between.
fn read_ppm(path: &str) -> Result<(usize, usize, Vec<u8>), Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let fields: Vec<&[u8]> = bytes.splitn(5, u8::is_ascii_whitespace).collect();
    let [b"P6", width, height, b"255", pixels] = fields[..] else {
        return Err(format!("{path}: not a binary PPM image").into());
    };
    let (width, height) = (str::from_utf8(width)?.parse()?, str::from_utf8(height)?.parse()?);
    match pixels.len() == 3 * width * height {
        true => Ok((width, height, pixels.to_vec())),
        false => Err(format!("{path}: {} bytes of pixels", pixels.len()).into()),
    }
}
