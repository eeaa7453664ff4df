//! Small damage to bytes and text, for oracles that want input which is nearly right.

use arbitrary::{Result, Unstructured};

/// Changes a few bits, words or ranges of `bytes`.
pub fn bytes(u: &mut Unstructured<'_>, bytes: &mut Vec<u8>) -> Result<()> {
    for _ in 0..u.int_in_range(1..=2)? {
        if bytes.is_empty() {
            return Ok(());
        }
        let at = u.choose_index(bytes.len())?;
        match u.int_in_range(0..=9)? {
            0 => bytes[at] ^= 1 << u.int_in_range(0..=7)?,
            1 => bytes[at] = u.arbitrary()?,
            2..=7 => {
                // Most of an executable is words of eight bytes, counted from its end, and most
                // words are small.
                let word = u.int_in_range(-2..=12_i64)?.to_le_bytes();
                let at = bytes.len() % word.len() + at / word.len() * word.len();
                let end = bytes.len().min(at + word.len());
                bytes[at..end].copy_from_slice(&word[..end - at]);
            }
            8 => bytes.truncate(at),
            _ => {
                let range = at..bytes.len().min(at + u.int_in_range(1..=32)?);
                let part = bytes[range.clone()].to_vec();
                if u.arbitrary()? {
                    let to = u.choose_index(bytes.len())?;
                    bytes.splice(to..to, part);
                } else {
                    bytes.drain(range);
                }
            }
        }
    }
    Ok(())
}

/// Drops, repeats and moves words of `text`, and puts others of their kind in their place.
pub fn text(u: &mut Unstructured<'_>, text: &str) -> Result<String> {
    let mut words: Vec<&str> = text.split_inclusive([' ', '\n', ',', '(', '[']).collect();
    for _ in 0..u.int_in_range(1..=2)? {
        if words.is_empty() {
            break;
        }
        let (at, from) = (u.choose_index(words.len())?, u.choose_index(words.len())?);
        match u.int_in_range(0..=7)? {
            0 => words[at] = words[from],
            1 => words.insert(at, words[from]),
            2 => words.swap(at, from),
            3 => drop(words.remove(at)),
            _ => {
                // Registers, immediates and the like begin alike and end alike.
                let kind = |word: &str| (word.chars().next(), word.chars().last());
                let found = (0..words.len()).map(|step| words[(from + step) % words.len()]);
                let like = found.filter(|word| kind(word) == kind(words[at]));
                words[at] = like.into_iter().next().unwrap_or(words[at]);
            }
        }
    }
    Ok(words.concat())
}
