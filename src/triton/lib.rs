//! A backend of [Triton Inference Server](https://github.com/triton-inference-server/server):
//! `libtriton_reflex.so` runs `.onnx` models and artifacts of a model repository.
//!
//! `entry` has the functions that the server calls, `ffi` those that it offers, `server` wraps these.
//! `model` is a loaded model, `instance` one of its sessions with the requests that it runs, `config`
//! reads and completes the model's configuration, `batch` checks and groups requests, `tensors` moves
//! their elements, `watch` stops runs whose clients have gone. Decision:
//! `docs/decisions/0070-triton-backend.md`.

mod batch;
mod config;
mod datatype;
mod entry;
mod ffi;
mod instance;
mod large_outputs;
mod model;
mod server;
mod tensors;
mod watch;
