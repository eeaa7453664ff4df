//! The listener: accepts, greets, and starts itself again for each session. A session that crashes
//! ends alone, and is reported.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use reflex::{Error, Result};
use reflex_rpc::handshake::{self, Greeting};
use reflex_rpc::names;
use reflex_rpc::secure::{Rights, ServerTls};
use reflex_rpc::wire::item::Item;
use reflex_rpc::wire::{Code, Packet};
use rustix::net::Shutdown;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde_json::json;

use super::args::{ServeArgs, address_of, loopback};
use super::registration::{At, Offer, Taken};
use crate::cli::output::{Format, println};
use crate::cli::tracker::client_tls;

/// The longest wait for a greeting.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Looks whether a session has ended: the first after this long, and none rarer than the last.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LAST_LOOK: Duration = Duration::from_millis(50);

/// The state that the listener's threads share.
struct Shared<'a> {
    args: &'a ServeArgs,
    runner: Vec<&'a str>,
    timeout: Duration,
    secure: Option<ServerTls>,
    /// Holds the folders of the sessions.
    folder: &'a Path,
    sessions: Mutex<HashMap<Client, usize>>,
    offer: Arc<Offer>,
    format: Format,
}

/// Listens until the process is ended.
pub fn run(args: &ServeArgs) -> Result<ExitCode> {
    let secure = args.secure()?;
    let runner = args.runner()?;
    let address = match &secure {
        Some(_) => address_of(&args.listen)?,
        None => {
            loopback(&args.listen, "add --tls and --tokens, or forward a port, as ssh -L does")?
        }
    };
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
        let files = (args.tracker_ca.as_deref(), args.tracker_token_file.as_deref());
        offer.register(At {
            tracker: tracker.clone(),
            tls: client_tls(files.0, files.1)?,
            host: args.advertise.clone(),
            port: address.port(),
        })?;
    }
    let shared = Shared {
        args,
        runner,
        timeout: args.timeout()?,
        secure,
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
    /// Admits and greets a client, and runs its session to the end.
    fn serve(&self, number: u64, mut stream: TcpStream, peer: IpAddr) -> Result<()> {
        let failed = |e: std::io::Error| Error::io("the connection".as_ref(), &e);
        let limits = &self.args.limits;
        let _place = self.enter(Client::Address(peer), limits.max_sessions_of_address)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(CLIENT_TIMEOUT)).map_err(failed)?;
        stream.set_write_timeout(Some(CLIENT_TIMEOUT)).map_err(failed)?;
        let Some(secure) = &self.secure else {
            let (greeting, _taken) = self.greet(&mut stream)?;
            stream.set_read_timeout(None).map_err(failed)?;
            stream.set_write_timeout(None).map_err(failed)?;
            return self.session(number, &peer.to_string(), None, stream.into(), &greeting);
        };
        let admitted = secure.admit(stream)?;
        let token = admitted.token.clone();
        let _own = match self.enter(Client::Token(token.name.clone()), token.sessions) {
            Ok(own) => own,
            Err(error) => {
                admitted.refuse(&error.to_string());
                return Err(error);
            }
        };
        let mut stream = admitted.accept()?;
        let (greeting, _taken) = self.greet(&mut stream)?;
        let (session, local) = UnixStream::pair().map_err(failed)?;
        thread::scope(|scope| {
            scope.spawn(move || {
                if let Err(error) = stream.forward(&local) {
                    eprintln!("reflex: session {number} of {peer}: TLS: {error}");
                }
            });
            let client = format!("{} at {peer}", token.name);
            self.session(number, &client, Some(token.rights), session.into(), &greeting)
        })
    }

    fn greet(&self, stream: &mut (impl Read + Write)) -> Result<(Greeting, Taken<'_>)> {
        let greeting = handshake::receive(stream, &self.offer.match_key());
        let greeting = greeting.map_err(|fault| Error::input(fault.to_string()))?;
        let greeting = greeting.ok_or_else(|| Error::input("the client asked for another key"))?;
        let taken = self.offer.take();
        let accepted = handshake::accept(stream, &self.args.key);
        accepted.map_err(|e| Error::io("the connection".as_ref(), &e))?;
        Ok((greeting, taken))
    }

    /// Runs the session on a connection, and closes that.
    fn session(
        &self,
        number: u64,
        client: &str,
        rights: Option<Rights>,
        connection: OwnedFd,
        greeting: &Greeting,
    ) -> Result<()> {
        let start = Instant::now();
        let outcome = self.run_process(number, connection, rights, greeting)?;
        self.report(number, client, &outcome, start.elapsed());
        Ok(())
    }

    /// Counts a session of a client, unless there are too many.
    fn enter(&self, client: Client, most: usize) -> Result<CountedSession<'_>> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let addresses = sessions.iter().filter(|(client, _)| matches!(client, Client::Address(_)));
        let all = addresses.map(|(_, count)| *count).sum::<usize>();
        let own = sessions.get(&client).copied().unwrap_or(0);
        let (all, name) = match &client {
            Client::Address(_) => (all, "sessions of an address"),
            // Its address has been counted already.
            Client::Token(_) => (0, "sessions of a token"),
        };
        for (name, count, most) in
            [("sessions", all, self.args.limits.max_sessions), (name, own, most)]
        {
            if count >= most {
                return Err(Error::input(format!("refused: the limit `{name}` is {most}")));
            }
        }
        *sessions.entry(client.clone()).or_default() += 1;
        Ok(CountedSession { sessions: &self.sessions, client })
    }

    fn run_process(
        &self,
        number: u64,
        connection: OwnedFd,
        rights: Option<Rights>,
        greeting: &Greeting,
    ) -> Result<Outcome> {
        let failed = |e: std::io::Error| Error::io("the connection".as_ref(), &e);
        let folder = self.folder.join(format!("session-{number}"));
        std::fs::create_dir(&folder).map_err(|e| Error::io(&folder, &e))?;
        let input = connection.try_clone().map_err(failed)?;
        let mut process = start(&self.runner, &folder, rights, input)?;
        let timeout = greeting.timeout.unwrap_or(self.timeout).min(self.timeout);
        let outcome = wait(&mut process, connection, timeout);
        drop(std::fs::remove_dir_all(&folder));
        outcome.map_err(|e| Error::io("the session's process".as_ref(), &e))
    }

    fn report(&self, number: u64, client: &str, outcome: &Outcome, took: Duration) {
        let (end, seconds) = (outcome.text(), took.as_secs_f64());
        match self.format {
            Format::Json => println!(
                "{}",
                json!({ "session": number, "peer": client, "end": end, "seconds": seconds })
            ),
            Format::Text => println!("session {number} of {client}: {end} after {seconds:.3} s"),
        }
    }
}

/// The client of a session, as limits count it.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Client {
    Address(IpAddr),
    Token(String),
}

/// A session that counts towards the limits until this is dropped.
struct CountedSession<'a> {
    sessions: &'a Mutex<HashMap<Client, usize>>,
    client: Client,
}

impl Drop for CountedSession<'_> {
    fn drop(&mut self) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = sessions.get_mut(&self.client) {
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
                // What shells and emulators say of a program that is not started.
                (Some(code @ (126 | 127)), _) => format!(
                    "failed with exit code {code}: its process was not started; --runner COMMAND names \
                     what starts it"
                ),
                (Some(code), _) => format!("failed with exit code {code}"),
                (None, Some(signal)) => format!("killed by signal {signal} ({status})"),
                (None, None) => status.to_string(),
            },
        }
    }
}

/// Starts this program again, by `runner` if there is one, for a session whose connection is its
/// standard input.
fn start(runner: &[&str], folder: &Path, rights: Option<Rights>, input: OwnedFd) -> Result<Child> {
    let own = std::env::current_exe().map_err(|e| Error::io("this program".as_ref(), &e))?;
    let words = runner.iter().map(OsStr::new).chain([own.as_os_str()]);
    let words: Vec<&OsStr> = words.collect();
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .args(std::env::args_os().skip(1))
        .args(["--session", "0", "--folder"])
        .arg(folder)
        .args(rights.map(|rights| format!("--rights={rights}")))
        .stdin(Stdio::from(input))
        .stdout(Stdio::null())
        // A group of its own, to be ended as one.
        .process_group(0);
    command.spawn().map_err(|error| match error.raw_os_error() {
        Some(libc::ENOEXEC) => Error::input(format!(
            "{}: this system does not start it by itself; name what does: --runner COMMAND",
            words[0].display()
        )),
        _ => Error::io(words[0].as_ref(), &error),
    })
}

/// Waits for a session's end; one that takes too long is told so, and killed.
fn wait(process: &mut Child, connection: OwnedFd, timeout: Duration) -> std::io::Result<Outcome> {
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
    let mut connection = File::from(connection);
    let told = Packet::of(Code::Exception, &[Item::text(&text)]).send(&[], &mut connection);
    // The client may be gone.
    drop(told.and_then(|()| Ok(rustix::net::shutdown(&connection, Shutdown::Both)?)));
    Ok(Outcome::TimedOut)
}
