//! TLS and tokens: who is let in from other machines, and with what rights.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use reflex_rpc::client::{RemoteSession, connect as connection};
use reflex_rpc::handshake::Greeting;
use reflex_rpc::secure::{ClientTls, Rights, Token};
use reflex_rpc::tracker::client::TrackerClient;
use reflex_rpc::wire::item::Item;
use reflex_runtime::error::Error;

use super::{Listening, host_port, reflex, script, tvm, virtual_machine};

/// A certificate for this machine, and files of tokens.
struct Identity {
    folder: tempfile::TempDir,
}

impl Identity {
    fn new(clients: &[(&str, Rights, u64)]) -> Identity {
        let folder = tempfile::tempdir().expect("a folder");
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let identity = Identity { folder };
        identity.write("cert.pem", &made.cert.pem());
        identity.write("key.pem", &made.signing_key.serialize_pem());
        let mut lines = String::new();
        for (number, (name, rights, expires)) in clients.iter().enumerate() {
            let secret = [number as u8 + 1; 32];
            let sessions = if *name == "one" { 1 } else { 8 };
            let made = Token::new(name, secret, *rights, sessions, *expires).expect("a token");
            identity.write(name, &format!("{}\n", made.0));
            lines += &format!("{}\n", made.1);
        }
        identity.write("tokens", &lines);
        identity
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("writes");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    fn serve(&self, args: &[&str]) -> Listening {
        self.listen("serve", args)
    }

    fn listen(&self, command: &str, args: &[&str]) -> Listening {
        let (cert, key, tokens) =
            (self.text("cert.pem"), self.text("key.pem"), self.text("tokens"));
        let tls = [command, "--tls", &cert, &key, "--tokens", &tokens];
        Listening::start(&[&tls[..], args].concat())
    }

    fn client(&self, token: &str) -> ClientTls {
        ClientTls::read(&self.path("cert.pem"), &self.path(token)).expect("a client")
    }

    fn connect(&self, server: &Listening, token: &str) -> Result<RemoteSession, Error> {
        let greeting = Greeting { key: String::new(), timeout: None };
        RemoteSession::connect_secure(&server.address, &self.client(token), &greeting)
    }
}

const ALL: Rights = Rights { code: true, models: true };
const NONE: Rights = Rights { code: false, models: false };

#[test]
fn a_token_admits_its_client_with_its_rights() {
    let identity = Identity::new(&[("one", ALL, u64::MAX), ("none", NONE, u64::MAX)]);
    let mut server = identity.serve(&["--allow-code"]);
    let run = |session: &RemoteSession| {
        session.upload(script(), "softmax.py").expect("uploads");
        let machine = virtual_machine(session, "softmax.py");
        let function = machine.require("main").expect("a function");
        let x = session.to_remote(&super::x()).expect("copies");
        function.call(&[x.item()]).expect("runs").local().expect("a tensor")
    };
    let library = |session: &RemoteSession| {
        session.upload_bytes("x.so", b"no library").expect("uploads");
        session.load_module("x.so").map(drop).expect_err("it is none").kind().into_owned()
    };
    let session = identity.connect(&server, "one").expect("a session");
    run(&session);
    // Only one session at once: the token says so.
    let second = identity.connect(&server, "one").err().expect("refused");
    assert!(second.message().contains("the limit `sessions of a token` is 1"), "{second}");
    // The library is opened, and is none.
    assert_ne!(library(&session), "PermissionError");
    session.shut_down();
    let end = server.report();
    assert_eq!(end["end"], "ended");
    assert!(end["peer"].as_str().expect("a name").starts_with("one at "), "{end}");
    let session = identity.connect(&server, "none").expect("a session");
    run(&session);
    assert_eq!(library(&session), "PermissionError");
}

#[test]
fn others_are_refused() {
    let identity = Identity::new(&[("good", ALL, u64::MAX), ("late", ALL, 1)]);
    let server = identity.serve(&[]);
    let refused = |token: &str| {
        let error = identity.connect(&server, token).err().expect("refused");
        error.message().into_owned()
    };
    identity.write("wrong", &format!("good:{}", "0".repeat(64)));
    assert!(refused("wrong").contains("the token is not known"));
    identity.write("nobody", "nobody:1");
    assert!(refused("nobody").contains("the token is not known"));
    assert!(refused("late").contains("the token has expired"));
    // Without TLS, and with TLS to another server's certificate.
    let greeting = Greeting { key: String::new(), timeout: None };
    assert!(RemoteSession::connect(&server.address, &greeting).is_err());
    let other = Identity::new(&[("good", ALL, u64::MAX)]);
    let error = other.connect(&server, "good").err().expect("refused");
    assert!(error.message().contains("certificate"), "{error}");
    // A client that goes in the middle of it.
    let mut stream = TcpStream::connect(&server.address).expect("a connection");
    stream.write_all(&[22, 3, 1, 0, 200, 1]).expect("writes");
    drop(stream);
    identity.connect(&server, "good").expect("the listener goes on");
}

/// The bytes of one connection, sent again, are no second one.
#[test]
fn a_recorded_connection_does_not_open_another() {
    let identity = Identity::new(&[("good", ALL, u64::MAX)]);
    let server = identity.serve(&[]);
    let between = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = between.local_addr().expect("an address").to_string();
    let target = server.address.clone();
    let recorder = std::thread::spawn(move || {
        let (mut client, _) = between.accept().expect("a client");
        let mut upstream = TcpStream::connect(target).expect("a connection");
        let (mut back, mut to) = (upstream.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || drop(std::io::copy(&mut back, &mut to)));
        let (mut sent, mut buffer) = (vec![], [0; 4096]);
        while let Ok(count @ 1..) = client.read(&mut buffer) {
            sent.extend_from_slice(&buffer[..count]);
            upstream.write_all(&buffer[..count]).expect("forwards");
        }
        sent
    });
    let greeting = Greeting { key: String::new(), timeout: None };
    let tls = identity.client("good");
    let session = RemoteSession::connect_secure(&address, &tls, &greeting).expect("a session");
    session.upload_bytes("x", b"x").expect("uploads");
    session.shut_down();
    drop(session);
    let sent = recorder.join().expect("records");
    assert!(sent.len() > 200);
    let mut replay = TcpStream::connect(&server.address).expect("a connection");
    replay.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
    replay.write_all(&sent).expect("writes");
    // The server says hello anew and cannot read what follows: it ends the connection.
    let mut answer = vec![];
    drop(replay.read_to_end(&mut answer));
    assert!(!answer.is_empty() && answer.len() < 4096, "{}", answer.len());
}

/// Nothing is lost or reordered, whatever the sizes.
#[test]
fn large_tensors_travel_by_tls() {
    let identity = Identity::new(&[("good", ALL, u64::MAX)]);
    let server = identity.serve(&[]);
    let session = identity.connect(&server, "good").expect("a session");
    for bytes in [1_usize, 1 << 14, (1 << 14) + 1, 5_000_000] {
        let data: Vec<u8> = (0..bytes).map(|i| ((i * 31) >> 3) as u8).collect();
        session.upload_bytes("data", &data).expect("uploads");
        assert_eq!(session.download("data").expect("downloads"), data, "{bytes}");
        session.call_global("tvm.rpc.server.remove", &[Item::text("data")]).expect("removes");
    }
}

#[test]
fn commands_and_tvms_client_get_there_by_tls() {
    let identity = Identity::new(&[("all", ALL, u64::MAX)]);
    let server = identity.serve(&["--allow-code"]);
    let (cert, token) = (identity.text("cert.pem"), identity.text("all"));
    let tls = ["--ca", &cert, "--token-file", &token];
    let (here, _) = reflex(&["run", "--shape", "x=2x3", "--json"]);
    let run = ["run", "--shape", "x=2x3", "--json", "--remote", &server.address];
    assert_eq!(reflex(&[&run[..], &tls].concat()).0, here);
    let connect = ["connect", &server.address];
    let near = Listening::start(&[&connect[..], &tls].concat());
    super::connect(&near.address, None).upload_bytes("x", b"x").expect("uploads");
    let Some(python) = tvm::python() else { return };
    let folder = identity.folder.path().to_str().expect("UTF-8");
    let (host, port) = host_port(&near.address);
    assert!(tvm::script(&python, "rpc.py", &["client", host, port, folder]).contains("client ok"));
}

/// On every address, with a certificate and a token: the tracker, its servers, commands and clients.
#[test]
fn a_tracker_for_other_machines_hands_out_servers_to_tokens() {
    let clients = [("one", NONE, u64::MAX), ("good", ALL, u64::MAX), ("late", ALL, 1)];
    let identity = Identity::new(&clients);
    let tracker = identity.listen("tracker", &["--listen", "0.0.0.0:0"]);
    let (_, port) = host_port(&tracker.address);
    let at = format!("127.0.0.1:{port}");
    let refused = |token: &str| {
        let client = TrackerClient::connect_secure(&at, &identity.client(token));
        let error = client.err().expect("refused");
        (error.kind().into_owned(), error.message().into_owned())
    };
    assert!(refused("late").1.contains("the token has expired"));
    identity.write("wrong", &format!("good:{}", "0".repeat(64)));
    let (kind, message) = refused("wrong");
    assert_eq!(kind, "PermissionError");
    assert!(message.contains("the token is not known"), "{message}");
    assert!(TrackerClient::connect(&at).is_err(), "without TLS");
    // As many connections as the token has sessions, and another one once it has ended.
    let first = TrackerClient::connect_secure(&at, &identity.client("one")).expect("admitted");
    assert!(refused("one").1.contains("the limit `connections of a token` is 1"));
    drop(first);
    let again = || TrackerClient::connect_secure(&at, &identity.client("one"));
    let mut again = std::iter::repeat_with(again).find_map(Result::ok).expect("admitted");

    let (cert, token) = (identity.text("cert.pem"), identity.text("good"));
    let registered = ["--tracker", &at, "--key", "k", "--advertise", "localhost"];
    let files = ["--tracker-ca", &cert, "--tracker-token-file", &token];
    let server = identity.serve(&[&["--allow-code"][..], &registered, &files].concat());
    let (_, port) = host_port(&server.address);
    let port: u16 = port.parse().expect("a port");
    // A server says that it listens, and then registers.
    let asked = std::iter::repeat_with(|| again.summary().expect("a summary"));
    let summary = { asked }.find(|summary| !summary["server_info"][0].is_null()).expect("endless");
    assert_eq!(summary["server_info"][0]["addr"], serde_json::json!(["localhost", port]));
    let tls = ["--ca", &cert, "--token-file", &token];
    let (here, _) = reflex(&["run", "--shape", "x=2x3", "--json"]);
    let run = ["run", "--shape", "x=2x3", "--json", "--tracker", &at, "--key", "k"];
    assert_eq!(reflex(&[&run[..], &tls].concat()).0, here);
    let mut query = Command::new(env!("CARGO_BIN_EXE_reflex"));
    let output = query.args(["tracker", "--query", &at]).args(tls).output().expect("runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("server \"server:k\" at"), "{said}");
}

/// A token that `reflex token` prints is one that `reflex serve` takes, on every address.
#[test]
fn a_printed_token_opens_a_server_for_other_machines() {
    let identity = Identity::new(&[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
    command.args(["token", "lab", "--rights", "code", "--sessions", "2", "--json"]);
    let output = command.output().expect("runs");
    let made: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    identity.write("lab", made["token"].as_str().expect("a token"));
    identity.write("tokens", made["line"].as_str().expect("a line"));
    let server = identity.serve(&["--listen", "0.0.0.0:0"]);
    let (_, port) = host_port(&server.address);
    let greeting = Greeting { key: String::new(), timeout: None };
    let address = format!("localhost:{port}");
    RemoteSession::connect_secure(&address, &identity.client("lab"), &greeting).expect("admitted");
    assert!(connection("127.0.0.1:1").is_err());
    for args in [&["--tls", "a", "b"][..], &["--tokens", "a"], &["--tls", "a", "--tokens", "b"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reflex"));
        assert_eq!(command.arg("serve").args(args).output().expect("runs").status.code(), Some(2));
    }
    let missing = ClientTls::read(Path::new("/nonexistent"), &identity.path("lab"));
    assert!(missing.err().expect("no file").message().contains("/nonexistent"));
}
