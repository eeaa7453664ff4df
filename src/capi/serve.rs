//! A session's server of TVM's RPC, over a connection of the host's own.

use std::ffi::{c_char, c_void};
#[cfg(feature = "serve")]
use std::path::Path;
use std::path::PathBuf;

use super::program::ReflexEngine;
use super::{ReflexStatus, give, quiet, slice, status, text};
use crate::error::{Error, Result};

/// A client's session at this process, over any connection.
pub struct ReflexServer {
    #[cfg(feature = "serve")]
    connection: crate::serve::Connection,
    answers: Vec<u8>,
    /// Folders of this session, which go with it.
    folders: [PathBuf; 2],
}

impl Drop for ReflexServer {
    fn drop(&mut self) {
        for folder in &self.folders {
            // What cannot be deleted stays; nobody is there to be told.
            drop(std::fs::remove_dir_all(folder));
        }
    }
}

impl ReflexServer {
    #[cfg(feature = "serve")]
    fn new(engine: &ReflexEngine, folder: &str, allow_code: bool) -> Result<ReflexServer> {
        use crate::serve::{Connection, Limits, ServeOptions};
        let folders = ["files", "contents"].map(|name| Path::new(folder).join(name));
        for folder in &folders {
            std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, &e))?;
        }
        let [files, contents] = folders.clone();
        let options = ServeOptions {
            engine: engine.0.clone(),
            mode: crate::options::Mode::Tiered,
            folder: files,
            contents,
            models: None,
            allow_code,
            limits: Limits::default(),
        };
        Ok(ReflexServer { connection: Connection::new(options), answers: vec![], folders })
    }

    #[cfg(not(feature = "serve"))]
    fn new(_: &ReflexEngine, _: &str, _: bool) -> Result<ReflexServer> {
        let text = "this build serves no sessions (the feature serve)";
        Err(Error::new(crate::error::ErrorKind::Unsupported, text))
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<bool> {
        self.answers.clear();
        #[cfg(feature = "serve")]
        return self.connection.receive(bytes, &mut self.answers);
        #[cfg(not(feature = "serve"))]
        Err(Error::input(format!("{} bytes for no session", bytes.len())))
    }
}

/// Starts a client's session of TVM's RPC protocol 0.8.0 over a connection of the caller's, such as a
/// WebSocket. Files of the session lie in `files` and `contents` in `folder`, which are deleted with the
/// server. `allow_code` opens libraries that the client uploads, which runs machine code of its choice.
///
/// ```c
/// ReflexServer *server;
/// CHECK_OK(reflex_server_new(engine, "/tmp/reflex-server", false, &server));
/// reflex_server_free(server);
/// ```
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_server_new(
    engine: *const ReflexEngine,
    folder: *const c_char,
    allow_code: bool,
    out: *mut *mut ReflexServer,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes a handle that is null or live.
        let engine = unsafe { super::live(engine, "the engine")? };
        // SAFETY: the caller passes a string that ends in NUL.
        let folder = unsafe { text(folder, "the folder")? };
        let server = Box::new(ReflexServer::new(engine, folder, allow_code)?);
        // SAFETY: the caller passes a result pointer that is null or may be written.
        unsafe { give(out, Box::into_raw(server)) }
    })
}

/// Takes bytes of the client, in pieces of any size, and answers the requests that are complete with them.
/// `answers` are bytes for the client, valid until the next call; after an error they may still say why. `open`
/// is false once the client has ended the session, and after an error there is none.
///
/// ```c
/// ReflexServer *server;
/// CHECK_OK(reflex_server_new(engine, "/tmp/reflex-server", false, &server));
/// const uint8_t shutdown[] = {4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0};
/// const void *answers;
/// size_t size;
/// bool open;
/// CHECK_OK(reflex_server_receive(server, shutdown, 8, &answers, &size, &open));
/// CHECK(open && size == 0);
/// CHECK_OK(reflex_server_receive(server, shutdown + 8, 4, &answers, &size, &open));
/// CHECK(!open);
/// reflex_server_free(server);
/// ```
///
/// # Safety
/// Pointers are null or valid; nothing else uses the server meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_server_receive(
    server: *mut ReflexServer,
    data: *const c_void,
    size: usize,
    answers: *mut *const c_void,
    answers_size: *mut usize,
    open: *mut bool,
) -> ReflexStatus {
    status(|| {
        // SAFETY: the caller passes a handle that is null or live, which nothing else uses.
        let server =
            unsafe { server.as_mut() }.ok_or_else(|| Error::input("the server is null"))?;
        // SAFETY: the caller passes so many bytes.
        let bytes = unsafe { slice(data.cast::<u8>(), size, "the data")? };
        let outcome = server.receive(bytes);
        // SAFETY: the caller passes result pointers that are null or may be written.
        unsafe {
            give(answers, server.answers.as_ptr().cast())?;
            give(answers_size, server.answers.len())?;
            give(open, matches!(outcome, Ok(true)))?;
        }
        outcome.map(|_| ())
    })
}

/// Ends a session's server.
///
/// ```c
/// ReflexServer *server;
/// CHECK_OK(reflex_server_new(engine, "/tmp/reflex-server", false, &server));
/// reflex_server_free(server);
/// ```
///
/// # Safety
/// `server` is null or came from `reflex_server_new`, and is used no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reflex_server_free(server: *mut ReflexServer) {
    quiet(|| {
        if !server.is_null() {
            // SAFETY: the caller passes what `reflex_server_new` made, and gives it up.
            drop(unsafe { Box::from_raw(server) });
        }
    });
}
