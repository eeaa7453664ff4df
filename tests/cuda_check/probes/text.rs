//! The text of a probe: each thread loads its row, runs one instruction, and stores the result.

use std::fmt::Write as _;

/// Loads of a row are from `%d20` on, stores go to `%d21`.
const HEAD: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry probe(.param .u64 rows, .param .u64 results) {
.reg .pred %p<12>; .reg .b16 %h<12>; .reg .b32 %w<30>; .reg .b64 %d<30>;
.shared .align 16 .b8 tile[1024];
.local .align 16 .b8 depot[16];
ld.param.u64 %d20, [rows];
ld.param.u64 %d21, [results];
mov.u32 %w20, %ctaid.x;
mov.u32 %w21, %ntid.x;
mov.u32 %w22, %tid.x;
mad.lo.s32 %w23, %w20, %w21, %w22;
mul.wide.u32 %d22, %w23, 32;
add.s64 %d20, %d20, %d22;
mul.wide.u32 %d23, %w23, 16;
add.s64 %d21, %d21, %d23;
";

/// A type of PTX, by its width in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Register {
    Predicate,
    Half,
    Word,
    Double,
}

use Register::{Double, Half, Predicate, Word};

impl Register {
    /// The register of a type such as `f32`.
    fn of(ty: &str) -> Option<Register> {
        match ty {
            "pred" => Some(Predicate),
            "b8" | "s8" | "u8" | "b16" | "s16" | "u16" | "f16" | "bf16" => Some(Half),
            "b32" | "s32" | "u32" | "f32" => Some(Word),
            "b64" | "s64" | "u64" | "f64" => Some(Double),
            _ => None,
        }
    }

    /// The name of the register of a number.
    fn name(self, number: usize) -> String {
        let letter = match self {
            Predicate => 'p',
            Half => 'h',
            Word => 'w',
            Double => 'd',
        };
        format!("%{letter}{number}")
    }

    fn bits(self) -> u32 {
        match self {
            Predicate => 1,
            Half => 16,
            Word => 32,
            Double => 64,
        }
    }

    /// Loads operand `number` of the row.
    fn load(self, number: usize) -> String {
        let (name, at) = (self.name(number), 8 * number);
        match self {
            Predicate => format!(
                "ld.global.b32 %w{number}, [%d20+{at}];\nand.b32 %w{number}, %w{number}, 1;\nsetp.ne.b32 {name}, %w{number}, 0;\n"
            ),
            _ => format!("ld.global.b{} {name}, [%d20+{at}];\n", self.bits()),
        }
    }

    /// Stores a register at a place of the result.
    fn store(self, number: usize, at: u32) -> String {
        let name = self.name(number);
        match self {
            Predicate => {
                format!(
                    "selp.b32 %w{number}, 1, 0, {name};\nst.global.b32 [%d21+{at}], %w{number};\n"
                )
            }
            _ => format!("st.global.b{} [%d21+{at}], {name};\n", self.bits()),
        }
    }
}

/// The text of a form's probe, or why there is none.
pub fn ptx(form: &str) -> Result<String, String> {
    let body = body(form).ok_or_else(|| format!("there is no probe for the form {form}"))?;
    Ok(format!("{HEAD}{body}ret;\n}}\n"))
}

fn body(form: &str) -> Option<String> {
    let parts: Vec<&str> = form.split('.').collect();
    let (op, last) = (*parts.first()?, *parts.last()?);
    if op == "setp" && last == "f16x2" && parts.len() == 3 {
        // The halves of words are compared one by one.
        let loads = Word.load(0) + &Word.load(1);
        let stores = Predicate.store(9, 0) + &Predicate.store(8, 4);
        return Some(format!("{loads}{form} %p9|%p8, %w0, %w1;\n{stores}"));
    }
    let ty = Register::of(last)?;
    if parts.contains(&"approx") {
        return None;
    }
    let (result, operands): (Register, Vec<Register>) = match op {
        "ld" | "st" => return memory(op, &parts, ty),
        "setp" if parts.len() == 3 => (Predicate, vec![ty; 2]),
        "selp" => (ty, vec![ty, ty, Predicate]),
        "cvt" if parts[parts.len() - 2].ends_with("x2") => (Word, vec![ty; 2]),
        "cvt" => (Register::of(parts[parts.len() - 2])?, vec![ty]),
        "mul" if parts[1] == "wide" => (wider(ty)?, vec![ty; 2]),
        "mad" if parts[1] == "wide" => (wider(ty)?, vec![ty, ty, wider(ty)?]),
        "mad" | "fma" => (ty, vec![ty; 3]),
        "add" | "sub" | "mul" | "div" | "rem" | "min" | "max" | "and" | "or" | "xor" => {
            (ty, vec![ty; 2])
        }
        "shl" | "shr" => (ty, vec![ty, Word]),
        "bfe" => (ty, vec![ty, Word, Word]),
        "shf" | "prmt" => (Word, vec![Word; 3]),
        "neg" | "abs" | "not" | "sqrt" | "rcp" | "mov" | "brev" => (ty, vec![ty]),
        "popc" | "clz" => (Word, vec![ty]),
        _ => return None,
    };
    let mut text = String::new();
    operands.iter().enumerate().for_each(|(n, operand)| text += &operand.load(n));
    let names: Vec<String> = operands.iter().enumerate().map(|(n, r)| r.name(n)).collect();
    let _ = writeln!(text, "{form} {}, {};", result.name(9), names.join(", "));
    Some(text + &result.store(9, 0))
}

fn wider(ty: Register) -> Option<Register> {
    match ty {
        Half => Some(Word),
        Word => Some(Double),
        Predicate | Double => None,
    }
}

/// A load or store of a space: the row's first 16 bytes go there and back, through the form once.
/// In shared memory, a thread reads what its neighbour wrote.
fn memory(op: &str, parts: &[&str], ty: Register) -> Option<String> {
    let (space, last) = (*parts.get(1)?, *parts.last()?);
    let count = match parts.iter().find(|part| part.starts_with('v')) {
        Some(&"v2") => 2,
        Some(&"v4") => 4,
        Some(_) => return None,
        None => 1,
    };
    let bytes = if last.ends_with('8') && ty == Half { 1 } else { ty.bits() / 8 };
    // Narrow integers are extended to a word when they are loaded.
    let register = if bytes == 1 && op == "ld" { Word } else { ty };
    let names: Vec<String> = (0..count).map(|n| register.name(n + 1)).collect();
    let list = match count {
        1 => names[0].clone(),
        _ => format!("{{{}}}", names.join(", ")),
    };
    let form = parts.join(".");
    let plain = format!("b{}", 8 * bytes);
    let each = |line: &dyn Fn(usize, u32) -> String| -> String {
        (0..count).map(|n| line(n + 1, n as u32 * bytes)).collect()
    };
    let load_row = each(&|n, at| format!("ld.global.{plain} {}, [%d20+{at}];\n", register.name(n)));
    let store = each(&|n, at| register.store(n, at * register.bits() / 8 / bytes));
    let (place, there, neighbour) = match space {
        "global" => {
            return Some(match op {
                "ld" => format!("{form} {list}, [%d20];\n{store}"),
                _ => format!("{load_row}{form} [%d21], {list};\n"),
            });
        }
        "shared" => (
            "mul.wide.u32 %d24, %w22, 16;\nmov.u64 %d25, tile;\nadd.s64 %d26, %d25, %d24;\nxor.b64 %d27, %d24, 16;\nadd.s64 %d28, %d25, %d27;\n",
            "[%d26",
            "[%d28",
        ),
        "local" => ("mov.u64 %d26, depot;\n", "[%d26", "[%d26"),
        _ => return None,
    };
    let barrier = if space == "shared" { "bar.sync 0;\n" } else { "" };
    let write = match op {
        "st" => format!("{form} {there}], {list};\n"),
        _ => each(&|n, at| format!("st.{space}.{plain} {there}+{at}], {};\n", register.name(n))),
    };
    let read = match op {
        "ld" => format!("{form} {list}, {neighbour}];\n"),
        _ => {
            each(&|n, at| format!("ld.{space}.{plain} {}, {neighbour}+{at}];\n", register.name(n)))
        }
    };
    Some(format!("{place}{load_row}{write}{barrier}{read}{store}"))
}
