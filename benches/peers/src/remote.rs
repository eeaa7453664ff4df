//! An engine in a process of its own: a line of JSON when it is ready, then for each line with a
//! duration in seconds one with the microseconds of its calls.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::engines::{Peer, Result};

/// The process and what it said of itself.
pub struct Remote<About> {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    pub about: About,
}

impl<About: DeserializeOwned> Remote<About> {
    /// Starts the process and waits until it has loaded its model.
    pub fn start(command: &mut Command) -> Result<Remote<About>> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let to = child.stdin.take().ok_or("no pipe")?;
        let mut from = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        let mut line = String::new();
        from.read_line(&mut line)?;
        match serde_json::from_str(&line) {
            Ok(about) => Ok(Remote { child, to, from, about }),
            Err(_) => {
                let _ = child.kill();
                let status = child.wait()?;
                Err(format!("the model was not loaded ({status}): {line:?}").into())
            }
        }
    }
}

impl<About> Peer for Remote<About> {
    fn round(&mut self, duration: Duration) -> Result<Vec<f64>> {
        writeln!(self.to, "{}", duration.as_secs_f64())?;
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

impl<About> Drop for Remote<About> {
    fn drop(&mut self) {
        // A child that is gone already cannot be killed again.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
