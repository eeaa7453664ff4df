//! Global functions that clients of TVM and of Reflex ask servers for.

/// `(name, bytes)`: writes a file of the session.
pub const UPLOAD: &str = "tvm.rpc.server.upload";
/// `(name) -> bytes`: a file of the session.
pub const DOWNLOAD: &str = "tvm.rpc.server.download";
/// `(name)`: deletes a file of the session.
pub const REMOVE: &str = "tvm.rpc.server.remove";
/// `(path) -> str`: names of the session's files, by commas.
pub const LISTDIR: &str = "tvm.rpc.server.listdir";
/// `(name) -> module`: loads a file of the session.
pub const LOAD_MODULE: &str = "tvm.rpc.server.load_module";
/// `(module, name, query_imports) -> function or None`.
pub const MODULE_GET_FUNCTION: &str = "tvm.rpc.server.ModuleGetFunction";
/// `(parent, child)`: the parent finds the child's functions too.
pub const IMPORT_MODULE: &str = "tvm.rpc.server.ImportModule";
/// `(module or None, name, device type, device id, ...) -> function` that measures another.
pub const TIME_EVALUATOR: &str = "runtime.RPCTimeEvaluator";
/// `(tensor)`: fills it with values to measure with; MetaSchedule's runner asks for it.
pub const RANDOM_FILL: &str = "tvm.contrib.random.random_fill_for_measure";
/// `() -> str`: JSON of the server's CPU, version and rights.
pub const TARGET: &str = "reflex.rpc.target";
/// `(blake3) -> int`: bytes of this content that the server has.
pub const HAVE: &str = "reflex.rpc.have";
/// `(blake3, offset, bytes)`: a piece of a content.
pub const CHUNK: &str = "reflex.rpc.chunk";
/// `(blake3, size, name)`: a complete content becomes a file of the session.
pub const COMMIT: &str = "reflex.rpc.commit";
/// Before the text of an error about a session that took too long; TVM's clients know it.
pub const TIMEOUT: &str = "RPCSessionTimeoutError";
