//! The listener: accepts, greets, and starts itself again for each session. A session that crashes
//! ends alone, and is reported.

use std::collections::HashMap;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use reflex::{Error, Result};
use reflex_rpc::handshake::{self, Greeting};
use reflex_rpc::names;
use reflex_rpc::wire::item::Item;
use reflex_rpc::wire::{Code, Packet};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde_json::json;

use super::args::{ServeArgs, loopback};
use super::registration::Offer;
use crate::cli::output::{Format, println};

/// The longest wait for a greeting.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Looks whether a session has ended: the first after this long, and none rarer than the last.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LAST_LOOK: Duration = Duration::from_millis(50);

/// The state that the listener's threads share.
struct Shared<'a> {
    args: &'a ServeArgs,
    timeout: Duration,
    /// Holds the folders of the sessions.
    folder: &'a Path,
    sessions: Mutex<HashMap<IpAddr, usize>>,
    offer: Arc<Offer>,
    format: Format,
}

/// Listens until the process is ended.
pub fn run(args: &ServeArgs) -> Result<ExitCode> {
    let address = loopback(&args.listen)?;
    let failed = |e: std::io::Error| Error::io(args.listen.as_ref(), &e);
    let listener = TcpListener::bind(address).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    // Found now rather than in every session.
    drop(args.engine.engine()?);
    let folder = tempfile::Builder::new().prefix("reflex-serve-").tempdir();
    let folder = folder.map_err(|e| Error::io(&std::env::temp_dir(), &e))?;
    let format = Format::of(args.json);
    let offer = Offer::new(&args.key);
    match format {
        Format::Json => println!("{}", json!({ "listening": address.to_string() })),
        Format::Text => println!("listening on {address}"),
    }
    if let Some(tracker) = &args.tracker {
        offer.register(tracker, address.port())?;
    }
    let shared = Shared {
        args,
        timeout: args.timeout()?,
        folder: folder.path(),
        sessions: Mutex::default(),
        offer,
        format,
    };
    thread::scope(|scope| {
        for number in 1_u64.. {
            let (stream, peer) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Such as too many descriptors: others may end meanwhile.
                    eprintln!("reflex: accept: {error}");
                    thread::sleep(LAST_LOOK);
                    continue;
                }
            };
            let shared = &shared;
            let builder = thread::Builder::new().name(format!("session {number}"));
            let started = builder.spawn_scoped(scope, move || {
                if let Err(error) = shared.serve(number, stream, peer.ip()) {
                    eprintln!("reflex: session {number} of {peer}: {error}");
                }
            });
            if let Err(error) = started {
                eprintln!("reflex: session {number} of {peer}: {error}");
            }
        }
    });
    Ok(ExitCode::SUCCESS)
}

impl Shared<'_> {
    /// Greets a client and runs its session to the end.
    fn serve(&self, number: u64, mut stream: TcpStream, peer: IpAddr) -> Result<()> {
        let failed = |e: std::io::Error| Error::io("the connection".as_ref(), &e);
        let _place = self.enter(peer)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(CLIENT_TIMEOUT)).map_err(failed)?;
        stream.set_write_timeout(Some(CLIENT_TIMEOUT)).map_err(failed)?;
        let key = self.offer.match_key();
        let greeting = handshake::receive(&mut stream, &key);
        let greeting = greeting.map_err(|fault| Error::input(fault.to_string()))?;
        let Some(greeting) = greeting else {
            return Err(Error::input("the client asked for another key"));
        };
        let _taken = self.offer.take();
        handshake::accept(&mut stream, &self.args.key).map_err(failed)?;
        stream.set_read_timeout(None).map_err(failed)?;
        stream.set_write_timeout(None).map_err(failed)?;
        let start = Instant::now();
        let outcome = self.run_process(number, &stream, &greeting)?;
        self.report(number, peer, &outcome, start.elapsed());
        Ok(())
    }

    /// Counts a session, unless there are too many.
    fn enter(&self, peer: IpAddr) -> Result<CountedSession<'_>> {
        let limits = &self.args.limits;
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, own) = (sessions.values().sum::<usize>(), sessions.get(&peer).copied());
        for (name, count, most) in [
            ("sessions", all, limits.max_sessions),
            ("sessions of an address", own.unwrap_or(0), limits.max_sessions_of_address),
        ] {
            if count >= most {
                return Err(Error::input(format!("refused: the limit `{name}` is {most}")));
            }
        }
        *sessions.entry(peer).or_default() += 1;
        Ok(CountedSession { sessions: &self.sessions, peer })
    }

    fn run_process(&self, number: u64, stream: &TcpStream, greeting: &Greeting) -> Result<Outcome> {
        let folder = self.folder.join(format!("session-{number}"));
        std::fs::create_dir(&folder).map_err(|e| Error::io(&folder, &e))?;
        let mut process = start(&folder, stream).map_err(|e| Error::io(&folder, &e))?;
        let timeout = greeting.timeout.unwrap_or(self.timeout).min(self.timeout);
        let outcome = wait(&mut process, stream, timeout);
        drop(std::fs::remove_dir_all(&folder));
        outcome.map_err(|e| Error::io("the session's process".as_ref(), &e))
    }

    fn report(&self, number: u64, peer: IpAddr, outcome: &Outcome, took: Duration) {
        let (end, seconds) = (outcome.text(), took.as_secs_f64());
        match self.format {
            Format::Json => println!(
                "{}",
                json!({ "session": number, "peer": peer.to_string(), "end": end, "seconds": seconds })
            ),
            Format::Text => println!("session {number} of {peer}: {end} after {seconds:.3} s"),
        }
    }
}

/// A session that counts towards the limits until this is dropped.
struct CountedSession<'a> {
    sessions: &'a Mutex<HashMap<IpAddr, usize>>,
    peer: IpAddr,
}

impl Drop for CountedSession<'_> {
    fn drop(&mut self) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = sessions.get_mut(&self.peer) {
            *count -= 1;
        }
        sessions.retain(|_, count| *count > 0);
    }
}

/// The end of a session's process.
enum Outcome {
    Ended(ExitStatus),
    TimedOut,
}

impl Outcome {
    fn text(&self) -> String {
        match self {
            Outcome::TimedOut => "ended by its timeout".to_owned(),
            Outcome::Ended(status) => match (status.code(), status.signal()) {
                (Some(0), _) => "ended".to_owned(),
                (Some(code), _) => format!("failed with exit code {code}"),
                (None, Some(signal)) => format!("killed by signal {signal} ({status})"),
                (None, None) => status.to_string(),
            },
        }
    }
}

/// Starts this program again for a session whose connection is its standard input.
fn start(folder: &Path, stream: &TcpStream) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .args(["--session", "0", "--folder"])
        .arg(folder)
        .stdin(Stdio::from(OwnedFd::from(stream.try_clone()?)))
        .stdout(Stdio::null())
        // A group of its own, to be ended as one.
        .process_group(0)
        .spawn()
}

/// Waits for a session's end; one that takes too long is told so, and killed.
fn wait(
    process: &mut Child,
    mut stream: &TcpStream,
    timeout: Duration,
) -> std::io::Result<Outcome> {
    let deadline = Instant::now().checked_add(timeout);
    let id = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
    let id = id.ok_or(std::io::ErrorKind::InvalidData)?;
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let mut look = FIRST_LOOK;
    let timed_out = loop {
        if waitid(WaitId::Pid(id), ended)?.is_some() {
            break false;
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            break true;
        }
        thread::sleep(look);
        look = (look * 2).min(LAST_LOOK);
    };
    // What the session has started ends with it. Its process has not been waited for yet, so the
    // group is still its own. One that is empty needs no signal.
    let _ = kill_process_group(id, Signal::KILL);
    let status = process.wait()?;
    if !timed_out {
        return Ok(Outcome::Ended(status));
    }
    let text = format!("{}: the session took longer than {timeout:?}", names::TIMEOUT);
    let told = Packet::of(Code::Exception, &[Item::text(&text)]).send(&[], &mut stream);
    // The client may be gone.
    drop(told.and_then(|()| stream.shutdown(std::net::Shutdown::Both)));
    Ok(Outcome::TimedOut)
}
