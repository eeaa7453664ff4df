//! The `tracing` events of specialisation and of slow calls. The subscriber is the process's.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reflex::{Array, Engine, Feed, Mode, SessionOptions};

/// Collects what `tracing` events say.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stream_of_short_calls_is_specialised_and_the_log_says_so() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false);
    subscriber.with_writer(move || writer.clone()).init();
    // No call is ever long enough.
    let policy =
        "compile=sync,shape-calls=2,shape-ms=3600000,shape-stream-calls=4,specialise=always";
    let engine = Engine::builder().tier(policy.parse().expect("a policy")).build();
    let program = engine.and_then(|e| e.load("examples/softmax.py")).expect("loads");
    let x = Array::of(&[2, 5], &[1.0_f32; 10]).expect("ten elements");
    let prepared = program.prepare("main", &Feed::from([("x".to_owned(), x)])).expect("fits");
    let options = SessionOptions::new(Mode::Tiered).slow_call(Duration::ZERO);
    let mut session = program.open(&options).expect("a session");
    let tiers = |ending: &str| {
        let text = program.tiers();
        assert!(text.lines().any(|l| l.starts_with("shapes ") && l.contains(ending)), "{text}");
    };
    (0..3).for_each(|_| drop(session.call(&prepared).expect("runs")));
    tiers("3 calls");
    session.call(&prepared).expect("runs");
    tiers("in use");
    let text = String::from_utf8(log.0.lock().expect("no panic").clone()).expect("text");
    assert_eq!(text.matches("slow call").count(), 4, "{text}");
    for part in ["function=\"main\"", "page_faults=", "specialisation started", "in use"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}
