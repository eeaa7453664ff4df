//! Messages of several connections to the state of an RPC tracker.
//!
//! An input is a row of frames as connections send them, each after a byte that says whose it is. From
//! [`CONNECTIONS`] on it ends a connection instead, without a frame.

use reflex_rpc::tracker::queue::{Answers, Connection, MAX_KEYS, MAX_OF_CONNECTION, Queues};
use reflex_rpc::tracker::{MAX_MESSAGE, Request, receive};
use serde_json::{Value, json};

/// Connections at once.
pub const CONNECTIONS: u8 = 8;

/// A server that was offered.
struct Offer {
    connection: Connection,
    key: String,
    found: Value,
}

/// A client that waits.
struct Wait {
    connection: Connection,
    key: String,
    priority: i64,
}

/// The tracker's state without its structure: offers and waits in the order in which they were said.
#[derive(Default)]
struct Said {
    offers: Vec<Offer>,
    waits: Vec<Wait>,
}

/// The tracker answers each message as a list of offers and requests says, or ends its connection, which leaves
/// nothing behind. Returns the number of answers.
pub fn tracker(mut bytes: &[u8]) -> usize {
    let (mut queues, mut said) = (Queues::default(), Said::default());
    let mut count = 0;
    while let Some((first, rest)) = bytes.split_first() {
        bytes = rest;
        let connection = Connection::from(first % CONNECTIONS);
        if *first >= CONNECTIONS {
            end(&mut queues, &mut said, connection);
            continue;
        }
        let before = bytes.len();
        let Ok(message) = receive(&mut bytes) else {
            end(&mut queues, &mut said, connection);
            continue;
        };
        assert!(message.len() <= before && message.len() as u64 <= MAX_MESSAGE);
        let Ok(request) = Request::parse(&message) else {
            end(&mut queues, &mut said, connection);
            continue;
        };
        let text = request.to_json().to_string();
        assert_eq!(Request::parse(text.as_bytes()).expect("its own text"), request);
        match queues.take(connection, "peer", request.clone()) {
            Ok(answers) => {
                said.check(connection, request, &answers);
                count += answers.len();
            }
            Err(error) => {
                assert!(said.is_full(connection), "{error}");
                end(&mut queues, &mut said, connection);
            }
        }
    }
    for connection in 0..CONNECTIONS {
        end(&mut queues, &mut said, connection.into());
    }
    let rest = queues.take(0, "peer", Request::Summary).expect("a summary");
    assert_eq!(rest, [(0, json!([0, { "queue_info": {}, "server_info": [] }]))]);
    count
}

fn end(queues: &mut Queues, said: &mut Said, connection: Connection) {
    queues.forget(connection);
    said.offers.retain(|offer| offer.connection != connection);
    said.waits.retain(|wait| wait.connection != connection);
}

impl Said {
    /// Takes a request, and compares what the tracker answered.
    fn check(&mut self, connection: Connection, request: Request, answers: &Answers) {
        match request {
            Request::Ping | Request::Update { .. } => {
                assert_eq!(*answers, [(connection, json!(0))])
            }
            Request::Stop => assert_eq!(*answers, [(connection, json!(-1))]),
            Request::Put { key, port, match_key, address } => {
                let host = address.unwrap_or_else(|| "peer".to_owned());
                let found = json!([0, [host, port, match_key]]);
                self.offers.push(Offer { connection, key, found });
                let mut expected = vec![(connection, json!(0))];
                expected.extend(self.handed());
                assert_eq!(*answers, expected);
            }
            Request::Request { key, priority } => {
                self.waits.push(Wait { connection, key, priority });
                let expected: Answers = self.handed().into_iter().collect();
                assert_eq!(*answers, expected);
            }
            Request::PendingKeys => {
                let own = self.offers.iter().filter(|offer| offer.connection == connection);
                // Keys come in the order of their names.
                let mut own: Vec<&Offer> = own.collect();
                own.sort_by(|a, b| a.key.cmp(&b.key));
                let keys: Vec<&Value> = own.iter().map(|offer| &offer.found[1][2]).collect();
                assert_eq!(*answers, [(connection, json!(keys))]);
            }
            Request::Summary => {
                let [(to, answer)] = &answers[..] else { panic!("{answers:?}") };
                assert_eq!(*to, connection);
                let queues = answer[1]["queue_info"].as_object().expect("queues by key");
                let sum = |what| queues.values().map(|q| q[what].as_u64().expect("a count")).sum();
                let (free, pending): (u64, u64) = (sum("free"), sum("pending"));
                let (offers, waits) = (self.offers.len() as u64, self.waits.len() as u64);
                assert_eq!((free, pending), (offers, waits), "{answer}");
            }
        }
    }

    /// The offer that goes to a client, if one waits for its key: the first offer to the first of those who wait
    /// with the highest priority.
    fn handed(&mut self) -> Option<(Connection, Value)> {
        let (offers, waits) = (&self.offers, &self.waits);
        let is_wanted = |offer: &Offer| waits.iter().any(|wait| wait.key == offer.key);
        let offer = offers.iter().position(is_wanted)?;
        let offer = self.offers.remove(offer);
        let fitting = self.waits.iter().filter(|wait| wait.key == offer.key);
        let highest = fitting.map(|wait| wait.priority).max()?;
        let is_first = |wait: &Wait| wait.key == offer.key && wait.priority == highest;
        let first = self.waits.iter().position(is_first)?;
        Some((self.waits.remove(first).connection, offer.found))
    }

    /// Whether the tracker may refuse a connection one more offer or request.
    fn is_full(&self, connection: Connection) -> bool {
        let offers = self.offers.iter().filter(|offer| offer.connection == connection);
        let waits = self.waits.iter().filter(|wait| wait.connection == connection);
        let all = offers.count() as u64 + waits.count() as u64;
        all >= MAX_OF_CONNECTION || self.keys() >= MAX_KEYS
    }

    fn keys(&self) -> u64 {
        let offers = self.offers.iter().map(|offer| &offer.key);
        let waits = self.waits.iter().map(|wait| &wait.key);
        offers.chain(waits).collect::<std::collections::BTreeSet<_>>().len() as u64
    }
}
