//! Texts: what is refused says where and what, and nothing makes the parser panic.

mod common;

use reflex_ptx::{Arch, Device, LaunchOptions, Limits, Module, Order};

fn error(body: &str) -> String {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
         .reg .f32 %f<4>; .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p<4>;\n{body}\nret;\n}}\n"
    );
    Module::parse(&text).expect_err(body).to_string()
}

#[test]
fn refusals_name_line_column_and_instruction() {
    assert_eq!(error("  lg2.approx.f32 %f1, %f2;"), "7:3: unknown instruction lg2.approx.f32");
    assert_eq!(
        error("add.rn.ftz.f32 %f1, %f2, %f3;"),
        "7:1: instruction add.rn.ftz.f32: modifier .ftz is not supported"
    );
    assert_eq!(
        error("div.approx.f32 %f1, %f2, %f3;"),
        "7:1: instruction div.approx.f32: modifier .approx is not supported"
    );
    assert!(error("ex2.approx.f16 %r1, %r2;").contains("known as ex2.approx.f32"));
    assert!(error("atom.global.add.f32 %f1, [%rd1], %f2;").contains("type f32 are refused"));
    assert_eq!(error("add.s32 %r1, %r2, %r9;"), "7:1: unknown name %r9");
    assert_eq!(error("bra NOWHERE;"), "7:1: unknown label NOWHERE");
    assert_eq!(error("wmma.load.a.sync %r1;"), "7:1: unknown instruction wmma.load.a.sync");
    let bulk = "cp.async.bulk.commit_group;";
    assert_eq!(error(bulk), "7:1: cp.async.bulk needs .target sm_90");
    assert!(error("add.s32 %r1, %r2;").contains("operands"));
    assert!(error("mov.u32 %r1, @;").starts_with("7:14: unexpected"));
}

#[test]
fn recursion_and_giant_variables_are_refused() {
    let header = ".version 8.0 .target sm_80 .address_size 64 ";
    let recursive = format!(
        "{header} .func f() {{ call.uni f; ret; }} .visible .entry k() {{ call.uni f; ret; }}"
    );
    let message = Module::parse(&recursive).unwrap_err().to_string();
    assert!(message.contains("recursive call of f"), "{message}");
    for body in
        [".reg .b32 %r<4000000000>;", ".local .b8 x[1000000000];", ".shared .b8 y[99999999];"]
    {
        let text = format!("{header} .visible .entry k() {{ {body} ret; }}");
        assert!(Module::parse(&text).is_err(), "{body}");
    }
}

/// A sample with a few bytes changed, left out or repeated.
fn mutated(texts: &[String], u: &mut arbitrary::Unstructured<'_>) -> arbitrary::Result<String> {
    let mut text = u.choose(texts)?.clone().into_bytes();
    for _ in 0..u.int_in_range(1..=6)? {
        if text.is_empty() {
            break;
        }
        let at = u.int_in_range(0..=text.len() - 1)?;
        match u.int_in_range(0..=4)? {
            0 => text[at] = u.arbitrary()?,
            1 => drop(text.remove(at)),
            2 => text.truncate(at.max(1)),
            3 => text[at] = b'0' + u.int_in_range(0..=9)?,
            _ => {
                let length = u.int_in_range(0..=40)?.min(text.len() - at);
                let part = text[at..at + length].to_vec();
                let to = u.int_in_range(0..=text.len() - 1)?;
                text.splice(to..to, part);
            }
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn samples() -> Vec<String> {
    common::names().iter().map(|name| common::text(name)).collect()
}

#[test]
fn mutated_texts_are_accepted_or_refused() {
    let texts = samples();
    arbtest::arbtest(|u| {
        drop(Module::parse(&mutated(&texts, u)?));
        Ok(())
    })
    .budget_ms(1_000);
}

/// One digit or letter differs, so most are accepted; what they do is a result or a fault.
#[test]
fn mutated_kernels_end() {
    let texts = samples();
    arbtest::arbtest(|u| {
        let mut text = u.choose(&texts)?.clone().into_bytes();
        for _ in 0..u.int_in_range(1..=3)? {
            let at = u.int_in_range(0..=text.len() - 1)?;
            if text[at].is_ascii_digit() {
                text[at] = b'0' + u.int_in_range(0..=9)?;
            }
        }
        let Ok(module) = Module::parse(&String::from_utf8_lossy(&text)) else {
            return Ok(());
        };
        let mut device = Device::new(Limits::default());
        let buffer = device.alloc(4096).expect("memory");
        device.write(buffer, &[1; 4096]).expect("inside");
        for kernel in module.kernels().iter().filter(|kernel| kernel.param_size < 4096) {
            let mut params = vec![4; kernel.param_size as usize];
            for param in kernel.params.iter().filter(|param| param.size == 8) {
                let at = param.offset as usize;
                params[at..at + 8].copy_from_slice(&buffer.to_le_bytes());
            }
            let order = Order::Seeded(u.arbitrary()?);
            let arch = Arch::Sm90a;
            let options = LaunchOptions { order, arch, fuel: 20_000, ..LaunchOptions::default() };
            let block = [u.int_in_range(1..=64)?, 1, 1];
            let name = &kernel.name;
            drop(device.launch(&module, name, [2, 1, 1], block, 4096, &params, &options));
        }
        Ok(())
    })
    .budget_ms(2_000);
}
