//! Reading listings: one line at a time, names resolved at the end.

use std::collections::HashMap;

use reflex_runtime::dtype::DType;

use super::ParseError;
use crate::bytecode::{Arg, Args, Instr, MAX_IMM, MIN_IMM, Reg};
use crate::executable::{ConstData, Constant, Executable, FuncKind, Function, TensorConst};

/// Reads a listing.
pub fn parse(text: &str) -> Result<Executable, ParseError> {
    let mut parser = Parser::default();
    for (index, line) in text.lines().enumerate() {
        let line = strip_comment(line).trim();
        if line.is_empty() {
            continue;
        }
        parser
            .line(&mut Cursor { rest: line })
            .map_err(|reason| ParseError { line: index + 1, reason })?;
    }
    parser.finish()
}

/// The line up to a `;` that starts a comment; the one that ends a declaration is
/// dropped with it, which the parser does not need.
fn strip_comment(line: &str) -> &str {
    let mut in_string = false;
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        match c {
            ';' if !in_string => return &line[..at],
            '"' if !escaped => in_string = !in_string,
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    line
}

enum Pending {
    Call { dst: Reg, callee: String, args: Vec<PendingArg> },
    Ret(Reg),
    Goto(i64),
    If(Reg, i64),
}

enum PendingArg {
    Ready(Arg),
    Func(String),
}

#[derive(Default)]
struct Parser {
    exec: Executable,
    by_name: HashMap<String, usize>,
    code: Vec<(usize, Pending)>,
    /// The VM function that instruction lines belong to.
    open: Option<usize>,
}

impl Parser {
    fn line(&mut self, c: &mut Cursor<'_>) -> Result<(), String> {
        if c.eat("@") {
            return self.function(c);
        }
        if c.eat("const ") {
            let index = c.indexed("c")?;
            if index != self.exec.constants.len() as i64 {
                return Err(format!("constants are numbered in order; c[{index}] is not next"));
            }
            c.expect("=")?;
            let constant = c.constant()?;
            self.exec.constants.push(constant);
            return c.end();
        }
        if c.eat("scope ") {
            let index = c.indexed("c")?;
            let scope = c.string()?;
            self.exec.memory_scopes.push((index, scope));
            return c.end();
        }
        let Some(open) = self.open else {
            return Err("an instruction outside a function".to_owned());
        };
        let pending = c.instr()?;
        self.code.push((open, pending));
        c.end()
    }

    fn function(&mut self, c: &mut Cursor<'_>) -> Result<(), String> {
        let name = c.name()?;
        let mut function = Function::packed(&name);
        self.open = None;
        if c.eat("(") {
            (function.num_args, function.param_names) = c.params()?;
            c.expect("regs=")?;
            function.register_file_size = c.int()?;
            if c.eat(":") {
                function.kind = FuncKind::Vm;
                self.open = Some(self.exec.functions.len());
            } else {
                c.expect("vm_tir_func")?;
                function.kind = FuncKind::VmTir;
            }
        } else {
            c.expect("packed_func")?;
        }
        if self.by_name.insert(name, self.exec.functions.len()).is_some() {
            return Err("the function is declared twice".to_owned());
        }
        self.exec.functions.push(function);
        c.end()
    }

    fn index(&mut self, name: &str) -> u32 {
        let functions = &mut self.exec.functions;
        *self.by_name.entry(name.to_owned()).or_insert_with(|| {
            functions.push(Function::packed(name));
            functions.len() - 1
        }) as u32
    }

    fn finish(mut self) -> Result<Executable, ParseError> {
        let mut last = None;
        for (owner, pending) in std::mem::take(&mut self.code) {
            let at = self.exec.instr_offset.len() as i64;
            if last != Some(owner) {
                self.exec.functions[owner].start_instr = at;
                last = Some(owner);
            }
            self.exec.functions[owner].end_instr = at + 1;
            self.exec.instr_offset.push(self.exec.instr_data.len() as i64);
            self.encode(pending);
        }
        Ok(self.exec)
    }

    fn encode(&mut self, pending: Pending) {
        match pending {
            Pending::Call { dst, callee, args } => {
                let callee = self.index(&callee).into();
                let words: Vec<i64> = args
                    .into_iter()
                    .map(|arg| match arg {
                        PendingArg::Ready(arg) => arg.encode(),
                        PendingArg::Func(name) => Arg::Func(self.index(&name)).encode(),
                    })
                    .collect();
                Instr::Call { dst, callee, args: Args(&words) }.encode(&mut self.exec.instr_data);
            }
            Pending::Ret(result) => Instr::Ret { result }.encode(&mut self.exec.instr_data),
            Pending::Goto(offset) => Instr::Goto { offset }.encode(&mut self.exec.instr_data),
            Pending::If(cond, false_offset) => {
                Instr::If { cond, false_offset }.encode(&mut self.exec.instr_data);
            }
        }
    }
}

struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    fn eat(&mut self, token: &str) -> bool {
        match self.rest.trim_start().strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.eat(token) {
            return Ok(());
        }
        let found: String = self.rest.trim_start().chars().take(20).collect();
        Err(format!("expected `{token}`, found `{found}`"))
    }

    fn end(&mut self) -> Result<(), String> {
        match self.rest.trim() {
            "" => Ok(()),
            rest => Err(format!("`{rest}` is left over")),
        }
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest.trim_start();
        let end = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.rest = &rest[end..];
        &rest[..end]
    }

    fn int(&mut self) -> Result<i64, String> {
        let digits = self.take_while(|c| c.is_ascii_digit() || c == '-');
        digits.parse().map_err(|_| format!("`{digits}` is not an integer"))
    }

    fn small<T: TryFrom<i64>>(&mut self) -> Result<T, String> {
        let value = self.int()?;
        T::try_from(value).map_err(|_| format!("{value} is out of range"))
    }

    fn indexed(&mut self, kind: &str) -> Result<i64, String> {
        self.expect(kind)?;
        self.expect("[")?;
        let index = self.int()?;
        self.expect("]")?;
        Ok(index)
    }

    fn name(&mut self) -> Result<String, String> {
        if self.rest.trim_start().starts_with('"') {
            return self.string();
        }
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || "_.$:-".contains(c));
        if name.is_empty() { Err("a name is missing".to_owned()) } else { Ok(name.to_owned()) }
    }

    fn string(&mut self) -> Result<String, String> {
        self.expect("\"")?;
        let mut out = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(out);
                }
                '\\' => match chars.next() {
                    Some((_, escaped @ ('"' | '\\'))) => out.push(escaped),
                    Some((_, 'u')) => {
                        let hex: String = chars
                            .by_ref()
                            .skip_while(|&(_, c)| c == '{')
                            .take_while(|&(_, c)| c != '}')
                            .map(|(_, c)| c)
                            .collect();
                        let code = u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32);
                        out.push(code.ok_or_else(|| format!("bad escape `{hex}`"))?);
                    }
                    _ => return Err("unknown escape".to_owned()),
                },
                c => out.push(c),
            }
        }
        Err("the string does not end".to_owned())
    }

    fn list(&mut self) -> Result<Vec<i64>, String> {
        self.expect("[")?;
        let mut items = Vec::new();
        while !self.eat("]") {
            items.push(self.int()?);
            if !self.eat(",") {
                self.expect("]")?;
                break;
            }
        }
        Ok(items)
    }

    fn params(&mut self) -> Result<(i64, Vec<String>), String> {
        if self.rest.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            let count = self.int()?;
            self.expect(")")?;
            return Ok((count, Vec::new()));
        }
        let mut names = Vec::new();
        while !self.eat(")") {
            names.push(self.name()?);
            if !self.eat(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok((names.len() as i64, names))
    }

    fn dtype(&mut self) -> Result<DType, String> {
        if self.rest.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(DType { code: self.small()?, bits: self.small()?, lanes: self.small()? });
        }
        self.name()?.parse().map_err(|error| format!("{error}"))
    }

    fn constant(&mut self) -> Result<Constant, String> {
        let kind = self.name()?;
        Ok(match kind.as_str() {
            "int" => Constant::Int(self.int()?),
            "float" => Constant::Float(self.float()?),
            "dtype" => Constant::DType(self.dtype()?),
            "str" => Constant::Str(self.string()?.into()),
            "shape" => Constant::Shape(self.list()?.into()),
            "tensor" => {
                let (dtype, shape, hex) = (self.dtype()?, self.list()?, self.string()?);
                let data = ConstData::copy_of(&bytes_of_hex(&hex)?);
                Constant::Tensor(TensorConst { dtype, shape: shape.into(), data })
            }
            other => return Err(format!("unknown constant kind `{other}`")),
        })
    }

    fn float(&mut self) -> Result<f64, String> {
        let text = self.take_while(|c| !c.is_whitespace());
        if let Some(hex) = text.strip_prefix("0x") {
            let bits = u64::from_str_radix(hex, 16);
            return bits.map(f64::from_bits).map_err(|_| format!("`{text}` is not a float"));
        }
        text.parse().map_err(|_| format!("`{text}` is not a float"))
    }

    fn reg(&mut self) -> Result<Reg, String> {
        self.expect("%")?;
        if self.eat("void") {
            return Ok(Reg::VOID);
        }
        if self.eat("vm") { Ok(Reg::VM) } else { Ok(Reg(self.int()?)) }
    }

    fn arg(&mut self) -> Result<PendingArg, String> {
        let fits = |value: i64| {
            let inside = (MIN_IMM..=MAX_IMM).contains(&value);
            if inside { Ok(value) } else { Err(format!("{value} does not fit 56 bits")) }
        };
        let rest = self.rest.trim_start();
        Ok(match rest.chars().next() {
            Some('%') => PendingArg::Ready(Arg::Reg(Reg(fits(self.reg()?.0)?))),
            Some('i') => {
                self.expect("i")?;
                PendingArg::Ready(Arg::Imm(fits(self.int()?)?))
            }
            Some('c') => {
                let index = self.indexed("c")?;
                let index = u32::try_from(index).map_err(|_| format!("constant {index}"))?;
                PendingArg::Ready(Arg::Const(index))
            }
            Some('f') => {
                self.expect("f")?;
                self.expect("[")?;
                let name = self.name()?;
                self.expect("]")?;
                PendingArg::Func(name)
            }
            _ => return Err(format!("`{rest}` is not an argument")),
        })
    }

    fn instr(&mut self) -> Result<Pending, String> {
        if self.eat("call ") {
            let callee = self.name()?;
            self.expect("in:")?;
            let mut args = Vec::new();
            while !self.eat("dst:") {
                args.push(self.arg()?);
                if !self.eat(",") {
                    self.expect("dst:")?;
                    break;
                }
            }
            return Ok(Pending::Call { dst: self.reg()?, callee, args });
        }
        if self.eat("ret ") {
            return Ok(Pending::Ret(self.reg()?));
        }
        if self.eat("goto ") {
            return Ok(Pending::Goto(self.int()?));
        }
        self.expect("If ")?;
        let cond = self.reg()?;
        self.expect(",")?;
        Ok(Pending::If(cond, self.int()?))
    }
}

fn bytes_of_hex(hex: &str) -> Result<Vec<u8>, String> {
    let digit = |c: u8| (c as char).to_digit(16).ok_or_else(|| "a bad hex digit".to_owned());
    if !hex.len().is_multiple_of(2) {
        return Err("an odd number of hex digits".to_owned());
    }
    hex.as_bytes()
        .chunks(2)
        .map(|pair| Ok((digit(pair[0])? * 16 + digit(pair[1])?) as u8))
        .collect()
}
