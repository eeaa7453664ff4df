//! TVM's RPC protocol 0.8.0: packets, values and handles, a server's state machine, a client, and
//! the tracker that hands servers to clients.
//!
//! Moves bytes, values and handles over any `Read` and `Write`. It knows no programs, processes or
//! listeners, and neither bytecode nor models.
//!
//! Everything from the network is hostile: handles are checked numbers and never addresses, tensors
//! are checked against their allocation at each access, nothing is allocated by a claimed size, and
//! an error names the limit that was passed.
//!
//! Decision: docs/decisions/0055-rpc.md

#[cfg(unix)]
pub mod client;
mod content;
pub mod fault;
pub mod handles;
pub mod handshake;
pub mod limits;
pub mod names;
#[cfg(feature = "proxy")]
pub mod proxy;
#[cfg(unix)]
pub mod secure;
pub mod serve;
pub mod store;
#[cfg(unix)]
pub mod tracker;
pub mod wire;
