//! Classifies an image and prints the five best classes.
//!
//! usage: classify MODEL LABELS IMAGE.ppm
//!
//! MODEL is pplcnet_orient.onnx, which tells how a page is turned, or a .so made from it; other models
//! of 224 by 224 pixels with ImageNet's means do as well. LABELS has a class on each line; `reflex info
//! pplcnet_orient.onnx` prints them, as `character` of its metadata. The latency goes to standard error.

use std::error::Error;
use std::io::Write;
use std::time::Instant;

use reflex::{Array, Engine, Feed, Mode};

const SIDE: usize = 224;
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Err(error) = run(&args, &mut std::io::stdout()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

/// Runs the example with the arguments of its command line.
pub fn run(args: &[String], out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let [model, labels, file] = args else {
        return Err("usage: classify MODEL LABELS IMAGE.ppm".into());
    };
    let labels = std::fs::read_to_string(labels)?;
    let labels: Vec<&str> = labels.lines().collect();
    let x = read_image(file)?;
    let program = Engine::new()?.load(model)?;
    let name = program.signature("main")?.inputs[0].name.clone();
    let prepared = program.prepare("main", &Feed::from([(name, x)]))?;
    let mut session = program.session(Mode::Tiered)?;
    session.warm_up(&prepared)?;
    let start = Instant::now();
    let outputs = session.call(&prepared)?.arrays()?;
    eprintln!("{:.2} ms", start.elapsed().as_secs_f64() * 1e3);

    let scores = outputs[0].1.to_vec::<f32>()?;
    let mut best: Vec<usize> = (0..scores.len()).collect();
    best.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    for class in best.into_iter().take(5) {
        writeln!(out, "{:.3} {}", scores[class], labels.get(class).unwrap_or(&"?"))?;
    }
    Ok(())
}

/// The middle square of an image at the model's size, the nearest pixel for each, as planes.
fn read_image(path: &str) -> Result<Array, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let fields: Vec<&[u8]> = bytes.splitn(5, u8::is_ascii_whitespace).collect();
    let [b"P6", width, height, b"255", pixels] = fields[..] else {
        return Err(format!("{path}: not a binary PPM image").into());
    };
    let (width, height): (usize, usize) =
        (str::from_utf8(width)?.parse()?, str::from_utf8(height)?.parse()?);
    if pixels.len() != 3 * width * height || width == 0 || height == 0 {
        return Err(format!("{path}: {} bytes of pixels", pixels.len()).into());
    }
    let side = width.min(height);
    let mut values = Vec::with_capacity(3 * SIDE * SIDE);
    for plane in 0..3 {
        for row in 0..SIDE {
            let y = (height - side) / 2 + row * side / SIDE;
            for column in 0..SIDE {
                let x = (width - side) / 2 + column * side / SIDE;
                let value = f32::from(pixels[3 * (y * width + x) + plane]) / 255.0;
                values.push((value - MEAN[plane]) / DEVIATION[plane]);
            }
        }
    }
    Ok(Array::of(&[1, 3, SIDE as i64, SIDE as i64], &values)?)
}
