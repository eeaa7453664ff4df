//! `reflex-codegen` as a process: requests in, objects out, faults answered.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use reflex_llvm::process::{read_message, write_message};
use reflex_tir::builder::FuncBuilder;
use reflex_tir::codegen::{CpuTarget, OptLevel, PROTOCOL, Request, Response, Target};
use reflex_tir::{DType, Expr, PrimFunc, lower};

fn spawn(args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_reflex-codegen"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn add(name: &str, term: f64) -> PrimFunc {
    let mut f = FuncBuilder::new(name);
    let x = f.input("x", DType::F32, vec![4.into()]);
    f.output("add", "y", DType::F32, vec![4.into()], |f, i| {
        f.at(x, i) + Expr::float(term, DType::F32)
    });
    f.finish()
}

fn request(funcs: Vec<PrimFunc>) -> Request {
    let target = Target::Cpu(CpuTarget::host());
    Request { protocol: PROTOCOL, funcs, target, opt: OptLevel::O3, want_asm: false }
}

fn ask(child: &mut Child, request: &Request) -> Response {
    write_message(child.stdin.as_mut().unwrap(), request).unwrap();
    let answer = read_message(child.stdout.as_mut().unwrap()).unwrap().unwrap();
    postcard::from_bytes(&answer).unwrap()
}

#[test]
fn requests_are_answered_until_the_input_ends() {
    let mut child = spawn(&["--idle"]);
    for round in 0..2 {
        let funcs = vec![lower::lower(&add("one", 1.0)), lower::lower(&add("two", 2.0))];
        let Response::Objects(objects) = ask(&mut child, &request(funcs)) else {
            panic!("round {round}")
        };
        let names: Vec<&str> = objects.iter().map(|o| &*o.signature.name).collect();
        assert_eq!(names, ["one", "two"]);
        assert!(objects.iter().all(|o| o.elf.starts_with(b"\x7fELF") && o.asm.is_none()));
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_cannot_be_compiled_is_named() {
    let mut child = spawn(&[]);
    let Response::Failed { func, message } = ask(&mut child, &request(vec![add("raw", 1.0)]))
    else {
        panic!("a scheduled function compiled")
    };
    assert_eq!(func, "raw");
    assert!(message.contains("block `add` in lowered form"), "{message}");
    let old = Request { protocol: 0, ..request(vec![]) };
    let Response::Failed { message, .. } = ask(&mut child, &old) else { panic!() };
    assert!(message.contains("protocol 0"), "{message}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn garbage_ends_the_conversation() {
    let mut child = spawn(&[]);
    let stdin = child.stdin.as_mut().unwrap();
    stdin.write_all(&3u64.to_le_bytes()).unwrap();
    stdin.write_all(&[0xff; 3]).unwrap();
    stdin.flush().unwrap();
    let answer = read_message(child.stdout.as_mut().unwrap()).unwrap().unwrap();
    let Response::Failed { message, .. } = postcard::from_bytes(&answer).unwrap() else { panic!() };
    assert!(message.contains("cannot be decoded"), "{message}");
    assert!(child.wait().unwrap().success());

    let mut child = spawn(&[]);
    let stdin = child.stdin.as_mut().unwrap();
    stdin.write_all(&u64::MAX.to_le_bytes()).unwrap();
    drop(child.stdin.take());
    assert!(!child.wait().unwrap().success());
}

#[test]
fn the_version_names_the_protocol() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_reflex-codegen")).arg("--version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.trim(), format!("reflex-codegen 0.1.0 protocol {PROTOCOL}"));
}
