//! The offer of a server at a tracker: one client at a time, each with a key of its own.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use reflex::{Error, Result};
use reflex_rpc::secure::ClientTls;
use reflex_rpc::tracker::client::TrackerClient;

use crate::cli::tracker;

/// Asks whether the offer is taken this often.
const INTERVAL: Duration = Duration::from_secs(2);
/// A client that has taken the offer comes within this time, or another may take a new one.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(6);
/// Before the tracker is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// A tracker, and how a server registers there.
#[derive(Clone)]
pub struct At {
    /// `host:port` of the tracker.
    pub tracker: String,
    /// Certificates and a token, for a tracker with TLS.
    pub tls: Option<ClientTls>,
    /// The host that clients are sent to, if it is not the one that the tracker sees.
    pub host: Option<String>,
    /// The server's port.
    pub port: u16,
}

impl At {
    fn connect(&self, key: &str) -> Result<TrackerClient> {
        let mut client = tracker::connect(&self.tracker, self.tls.as_ref())?;
        client.update(key, self.host.as_deref(), self.port)?;
        Ok(client)
    }
}

struct State {
    match_key: String,
    /// Sessions that run.
    running: usize,
}

/// The keys by which a client that the tracker sent is known.
pub struct Offer {
    key: String,
    state: Mutex<State>,
}

impl Offer {
    /// An offer to any client that greets with `key`.
    pub fn new(key: &str) -> Arc<Offer> {
        let state = State { match_key: key.to_owned(), running: 0 };
        Arc::new(Offer { key: key.to_owned(), state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key that the next client greets with.
    pub fn match_key(&self) -> String {
        self.state().match_key.clone()
    }

    /// Marks a session as running, until the result is dropped.
    pub fn take(&self) -> Taken<'_> {
        self.state().running += 1;
        Taken(self)
    }

    /// Offers the server at a tracker, again after each session; an error if the tracker cannot be
    /// reached now. Later it is tried until it can be.
    pub fn register(self: &Arc<Self>, at: At) -> Result<()> {
        self.state().match_key = self.fresh();
        let mut client = Some(at.connect(&self.key)?);
        let offer = Arc::clone(self);
        let run = move || loop {
            let failed = match &mut client {
                Some(client) => offer.keep(client, &at).err(),
                None => match at.connect(&offer.key) {
                    Ok(connected) => {
                        client = Some(connected);
                        None
                    }
                    Err(error) => Some(error),
                },
            };
            if let Some(error) = failed {
                eprintln!("reflex: {error}");
                client = None;
                thread::sleep(RETRY);
            }
        };
        let spawned = thread::Builder::new().name("tracker".to_owned()).spawn(run);
        spawned.map(drop).map_err(|e| Error::io("the tracker's thread".as_ref(), &e))
    }

    /// Makes one offer, and returns when it has been used or is out of date.
    fn keep(&self, client: &mut TrackerClient, at: &At) -> Result<()> {
        let match_key = self.match_key();
        client.put(&self.key, at.host.as_deref(), at.port, &match_key)?;
        let mut taken = None;
        loop {
            thread::sleep(INTERVAL.min(Duration::from_millis(100)));
            if self.state().running > 0 {
                while self.state().running > 0 {
                    thread::sleep(Duration::from_millis(20));
                }
                self.state().match_key = self.fresh();
                return Ok(());
            }
            let asked = taken.get_or_insert_with(Instant::now);
            if asked.elapsed() < INTERVAL {
                continue;
            }
            if client.is_pending(&match_key)? {
                taken = None;
            } else if asked.elapsed() > ANSWER_TIMEOUT {
                self.state().match_key = self.fresh();
                return Ok(());
            }
        }
    }

    /// A key that no client has.
    fn fresh(&self) -> String {
        format!("{}:{:016x}", self.key, RandomState::new().hash_one(&self.key))
    }
}

/// A session that runs.
pub struct Taken<'a>(&'a Offer);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.state().running -= 1;
    }
}
