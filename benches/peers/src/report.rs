//! The Markdown that a run prints, and writes to a file as it grows.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::engines::Result;

/// Standard output and, if one was named, a file.
pub struct Report(Option<File>);

impl Report {
    pub fn new(file: Option<&Path>) -> Result<Report> {
        Ok(Report(file.map(File::create).transpose()?))
    }

    /// Writes a line at once, so that a run that is stopped leaves its rows.
    pub fn line(&mut self, text: &str) -> Result<()> {
        println!("{text}");
        if let Some(file) = &mut self.0 {
            writeln!(file, "{text}")?;
        }
        Ok(())
    }
}
