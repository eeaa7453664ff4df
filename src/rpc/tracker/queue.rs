//! Free servers and waiting clients by key: higher priority first, then first come.

use std::collections::{BTreeMap, VecDeque};

use reflex_runtime::error::Error;
use serde_json::{Value, json};

use super::Request;
use crate::limits::check;

/// Most free servers of a connection and clients that wait on it, together.
pub const MAX_OF_CONNECTION: u64 = 256;
/// Most keys.
pub const MAX_KEYS: u64 = 4096;

/// A connection to the tracker.
pub type Connection = u64;

/// A server that is free.
struct Free {
    connection: Connection,
    host: String,
    port: u16,
    match_key: String,
}

/// A client that waits.
struct Waiting {
    connection: Connection,
    priority: i64,
}

#[derive(Default)]
struct Queue {
    free: VecDeque<Free>,
    waiting: VecDeque<Waiting>,
}

/// The state that all connections share.
#[derive(Default)]
pub struct Queues {
    keys: BTreeMap<String, Queue>,
    servers: BTreeMap<Connection, (String, Value)>,
}

/// Answers that go out now, each to its connection.
pub type Answers = Vec<(Connection, Value)>;

impl Queues {
    /// Takes a request of a connection that comes from `peer`.
    ///
    /// # Errors
    /// The request passes a limit: the connection is to end.
    pub fn take(
        &mut self,
        connection: Connection,
        peer: &str,
        request: Request,
    ) -> Result<Answers, Error> {
        Ok(match request {
            Request::Ping => vec![(connection, json!(0))],
            // Clients are not authenticated, so none may stop the tracker.
            Request::Stop => vec![(connection, json!(-1))],
            Request::Put { key, port, match_key, address } => {
                let host = address.unwrap_or_else(|| peer.to_owned());
                let free = Free { connection, host, port, match_key };
                let queue = self.queue(connection, &key)?;
                queue.free.push_back(free);
                let mut answers = vec![(connection, json!(0))];
                answers.extend(queue.matches());
                answers
            }
            Request::Request { key, priority } => {
                let queue = self.queue(connection, &key)?;
                let before = queue.waiting.iter().take_while(|w| w.priority >= priority).count();
                queue.waiting.insert(before, Waiting { connection, priority });
                queue.matches()
            }
            Request::Update { key, address } => {
                let at = match &address[0] {
                    Value::Null => json!([peer, address[1]]),
                    _ => address,
                };
                self.servers.insert(connection, (key, at));
                vec![(connection, json!(0))]
            }
            Request::Summary => vec![(connection, json!([0, self.summary()]))],
            Request::PendingKeys => {
                let free = self.keys.values().flat_map(|queue| &queue.free);
                let own = free.filter(|free| free.connection == connection);
                let keys: Vec<&str> = own.map(|free| free.match_key.as_str()).collect();
                vec![(connection, json!(keys))]
            }
        })
    }

    /// The queue of a key, with room for one more of a connection.
    fn queue(&mut self, connection: Connection, key: &str) -> Result<&mut Queue, Error> {
        let queues = self.keys.values();
        let own: usize = queues.map(|queue| queue.count_of(connection)).sum();
        check("requests of a connection", own as u64 + 1, MAX_OF_CONNECTION)?;
        if !self.keys.contains_key(key) {
            check("tracker keys", self.keys.len() as u64 + 1, MAX_KEYS)?;
        }
        Ok(self.keys.entry(key.to_owned()).or_default())
    }

    /// Forgets a connection that has ended.
    pub fn forget(&mut self, connection: Connection) {
        self.servers.remove(&connection);
        for queue in self.keys.values_mut() {
            queue.free.retain(|free| free.connection != connection);
            queue.waiting.retain(|waiting| waiting.connection != connection);
        }
        self.keys.retain(|_, queue| !queue.free.is_empty() || !queue.waiting.is_empty());
    }

    /// Keys with their counts, and servers.
    fn summary(&self) -> Value {
        let names = self.servers.values().map(|(key, _)| key.trim_start_matches("server:"));
        let mut queues: BTreeMap<&str, Value> =
            names.map(|name| (name, json!({ "free": 0, "pending": 0 }))).collect();
        for (key, queue) in &self.keys {
            let counts = json!({ "free": queue.free.len(), "pending": queue.waiting.len() });
            queues.insert(key, counts);
        }
        let servers = self.servers.values();
        let servers: Vec<Value> =
            servers.map(|(key, addr)| json!({ "key": key, "addr": addr })).collect();
        json!({ "queue_info": queues, "server_info": servers })
    }
}

impl Queue {
    fn count_of(&self, connection: Connection) -> usize {
        let free = self.free.iter().filter(|free| free.connection == connection);
        let waiting = self.waiting.iter().filter(|waiting| waiting.connection == connection);
        free.count() + waiting.count()
    }

    /// Hands free servers to waiting clients.
    fn matches(&mut self) -> Answers {
        let mut answers = vec![];
        while !self.free.is_empty() {
            let Some(waiting) = self.waiting.pop_front() else { break };
            if let Some(Free { host, port, match_key, .. }) = self.free.pop_front() {
                answers.push((waiting.connection, json!([0, [host, port, match_key]])));
            }
        }
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(match_key: &str) -> Request {
        let (key, match_key) = ("k".to_owned(), match_key.to_owned());
        Request::Put { key, port: 9090, match_key, address: None }
    }

    fn ask(priority: i64) -> Request {
        Request::Request { key: "k".to_owned(), priority }
    }

    #[test]
    fn higher_priorities_come_first_and_then_who_came_first() {
        let mut queues = Queues::default();
        for (client, priority) in [(1, 1), (2, 5), (3, 5), (4, 1)] {
            assert!(queues.take(client, "c", ask(priority)).unwrap().is_empty());
        }
        let mut served = vec![];
        for turn in 0..4 {
            let answers = queues.take(10, "s", put(&format!("k:{turn}"))).unwrap();
            served.extend(answers.iter().skip(1).map(|(client, _)| *client));
        }
        assert_eq!(served, [2, 3, 1, 4]);
        queues.take(10, "s", put("k:9")).unwrap();
        let answers = queues.take(5, "c", ask(1)).unwrap();
        assert_eq!(answers, [(5, json!([0, ["s", 9090, "k:9"]]))]);
    }

    #[test]
    fn connections_that_end_leave_nothing() {
        let mut queues = Queues::default();
        queues.take(1, "s", put("k:1")).unwrap();
        let keys = queues.take(1, "s", Request::PendingKeys).unwrap();
        assert_eq!(keys, [(1, json!(["k:1"]))]);
        let info = Request::Update { key: "server:k".to_owned(), address: json!([null, 9090]) };
        queues.take(1, "s", info).unwrap();
        let summary = queues.take(2, "c", Request::Summary).unwrap().remove(0).1;
        assert_eq!(summary[1]["queue_info"]["k"], json!({ "free": 1, "pending": 0 }));
        assert_eq!(summary[1]["server_info"][0], json!({ "key": "server:k", "addr": ["s", 9090] }));
        queues.forget(1);
        assert!(queues.take(2, "c", ask(1)).unwrap().is_empty());
        queues.forget(2);
        assert!(queues.keys.is_empty() && queues.servers.is_empty());
    }

    #[test]
    fn limits_are_named() {
        let mut queues = Queues::default();
        for _ in 0..MAX_OF_CONNECTION {
            queues.take(1, "c", ask(1)).unwrap();
        }
        let error = queues.take(1, "c", ask(1)).unwrap_err();
        assert!(error.message().contains("`requests of a connection` is 256"), "{error}");
    }
}
