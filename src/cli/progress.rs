//! Progress on standard error after one second, when it is a terminal.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use reflex::Progress;

/// A callback for [`reflex::EngineBuilder::progress`] that draws a bar after one second.
pub fn bar() -> Progress {
    let bar = ProgressBar::no_length().with_style(
        ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} {elapsed}")
            .expect("a constant template"),
    );
    let start = Instant::now();
    Progress::new(move |stage, done, total| {
        if start.elapsed() < Duration::from_secs(1) && done < total {
            return;
        }
        bar.set_length(total as u64);
        bar.set_message(stage.to_string());
        bar.set_position(done as u64);
        if done >= total {
            bar.finish_and_clear();
        }
    })
}
