//! The reader of statements and operands.

use super::error::{ParseError, Position};
use super::lex::{Token, lex};
use super::tree::{Function, Instruction, Operand, Statement, Tree, Variable};

/// The longest text.
const TEXT: usize = 64 << 20;
/// The deepest nesting of operands and scopes.
const DEPTH: usize = 32;
/// The largest variable.
const SIZE: u64 = 1 << 30;

type Result<T> = std::result::Result<T, ParseError>;

/// Reads a module.
pub fn parse(text: &str) -> Result<Tree<'_>> {
    if text.len() > TEXT {
        return Err(ParseError::new(Position::default(), "text too long"));
    }
    let mut reader = Reader { tokens: lex(text)?, at: 0 };
    let mut tree = Tree::default();
    while reader.peek().is_some() {
        reader.top(&mut tree)?;
    }
    Ok(tree)
}

struct Reader<'a> {
    tokens: Vec<(Token<'a>, Position)>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).map(|(token, _)| *token)
    }

    fn position(&self) -> Position {
        let at = self.at.min(self.tokens.len().saturating_sub(1));
        self.tokens.get(at).map(|(_, position)| *position).unwrap_or_default()
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(ParseError::new(self.position(), message))
    }

    fn take(&mut self) -> Result<Token<'a>> {
        match self.peek() {
            Some(token) => {
                self.at += 1;
                Ok(token)
            }
            None => self.error("the text ends too early"),
        }
    }

    fn accept(&mut self, symbol: char) -> bool {
        let found = self.peek() == Some(Token::Symbol(symbol));
        self.at += usize::from(found);
        found
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(Token::Word(word));
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: char) -> Result<()> {
        if self.accept(symbol) {
            return Ok(());
        }
        let found = self.peek();
        self.error(format!("expected '{symbol}', found {found:?}"))
    }

    fn word(&mut self) -> Result<&'a str> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            other => self.error(format!("expected a name, found {other:?}")),
        }
    }

    fn integer(&mut self) -> Result<u64> {
        match self.peek() {
            Some(Token::Integer(value)) => {
                self.at += 1;
                Ok(value)
            }
            other => self.error(format!("expected an integer, found {other:?}")),
        }
    }

    /// A directive or declaration outside of functions.
    fn top(&mut self, tree: &mut Tree<'a>) -> Result<()> {
        let position = self.position();
        match self.word()? {
            ".version" => tree.version = self.word()?,
            ".target" => {
                tree.target = self.word()?;
                while self.accept(',') {
                    self.word()?;
                }
            }
            ".address_size" => {
                if self.integer()? != 64 {
                    return Err(ParseError::new(position, ".address_size other than 64"));
                }
            }
            ".file" => self.skip_line(position),
            ".pragma" => self.skip_to_semicolon()?,
            ".visible" | ".weak" | ".extern" | ".common" => {}
            ".entry" => self.function(tree, true, position)?,
            ".func" => self.function(tree, false, position)?,
            ".section" => self.skip_section()?,
            space @ (".global" | ".const" | ".shared") => {
                let variable = self.variable(space, position)?;
                self.expect(';')?;
                tree.variables.push(variable);
            }
            other => return Err(ParseError::new(position, format!("unknown directive {other}"))),
        }
        Ok(())
    }

    /// Skips the other tokens of a line.
    fn skip_line(&mut self, position: Position) {
        while self.at < self.tokens.len() && self.position().line == position.line {
            self.at += 1;
        }
    }

    fn skip_to_semicolon(&mut self) -> Result<()> {
        while !self.accept(';') {
            self.take()?;
        }
        Ok(())
    }

    fn skip_section(&mut self) -> Result<()> {
        while !self.accept('{') {
            self.take()?;
        }
        while !self.accept('}') {
            self.take()?;
        }
        Ok(())
    }

    fn function(&mut self, tree: &mut Tree<'a>, entry: bool, position: Position) -> Result<()> {
        let results = if self.accept('(') { self.parameters()? } else { vec![] };
        let name = self.word()?;
        let params = if self.accept('(') { self.parameters()? } else { vec![] };
        let mut function =
            Function { name, entry, results, params, directives: vec![], body: vec![], position };
        loop {
            match self.take()? {
                Token::Symbol(';') => return Ok(()),
                Token::Symbol('{') => break,
                Token::Word(".pragma") => self.skip_to_semicolon()?,
                Token::Word(".noreturn") => {}
                Token::Word(directive) if directive.starts_with('.') => {
                    let mut numbers = vec![];
                    if let Some(Token::Integer(_)) = self.peek() {
                        numbers.push(self.integer()?);
                        while self.accept(',') {
                            numbers.push(self.integer()?);
                        }
                    }
                    function.directives.push((directive, numbers));
                }
                other => return self.error(format!("unexpected {other:?} before a body")),
            }
        }
        self.body(&mut function)?;
        tree.functions.push(function);
        Ok(())
    }

    fn parameters(&mut self) -> Result<Vec<Variable<'a>>> {
        let mut found = vec![];
        if self.accept(')') {
            return Ok(found);
        }
        loop {
            let position = self.position();
            match self.word()? {
                ".param" => found.push(self.variable(".param", position)?),
                ".reg" => return self.error("parameters in registers (.reg) are not supported"),
                other => return self.error(format!("expected a parameter, found {other}")),
            }
            if self.accept(')') {
                return Ok(found);
            }
            self.expect(',')?;
        }
    }

    /// A variable behind its state space.
    fn variable(&mut self, space: &'a str, position: Position) -> Result<Variable<'a>> {
        let (mut align, mut width, mut lanes) = (0, 0, 1);
        let name = loop {
            match self.word()? {
                ".align" => {
                    let value = self.integer()?;
                    if align == 0 {
                        align = value;
                    }
                }
                ".ptr" | ".global" | ".shared" | ".const" | ".local" => {}
                ".v2" => lanes = 2,
                ".v4" => lanes = 4,
                word if word.starts_with('.') => match width_of(word) {
                    Some(bytes) => width = bytes,
                    None => return self.error(format!("unknown type {word}")),
                },
                name => break name,
            }
        };
        if width == 0 {
            return self.error(format!("variable {name} without a type"));
        }
        let align = if align == 0 { width * lanes } else { align };
        if !align.is_power_of_two() || align > 1 << 20 {
            return self.error(format!("alignment {align} of {name}"));
        }
        let mut size = Some(width * lanes);
        while self.accept('[') {
            if self.accept(']') {
                size = None;
                continue;
            }
            let count = self.integer()?;
            size = size.and_then(|size| size.checked_mul(count)).filter(|size| *size <= SIZE);
            if size.is_none() {
                return self.error(format!("variable {name} is too large"));
            }
            self.expect(']')?;
        }
        let mut init = vec![];
        if self.accept('=') {
            self.initial(width, &mut init, 0)?;
            let size = *size.get_or_insert(init.len() as u64);
            if init.len() as u64 > size {
                return self.error(format!("{name} has more values than elements"));
            }
            init.resize(size as usize, 0);
        }
        Ok(Variable { space, name, align, size, init, position })
    }

    fn initial(&mut self, width: u64, init: &mut Vec<u8>, depth: usize) -> Result<()> {
        if depth > DEPTH {
            return self.error("values nest too deep");
        }
        if self.accept('{') {
            while !self.accept('}') {
                self.initial(width, init, depth + 1)?;
                self.accept(',');
            }
            return Ok(());
        }
        let negative = self.accept('-');
        let value = match self.take()? {
            Token::Integer(value) if negative => value.wrapping_neg(),
            Token::Integer(value) => value,
            Token::Float(bits) => u64::from(bits) ^ if negative { 1 << 31 } else { 0 },
            Token::Double(bits) => bits ^ if negative { 1 << 63 } else { 0 },
            other => return self.error(format!("initial value {other:?} is not supported")),
        };
        init.extend(&value.to_le_bytes()[..(width as usize).min(8)]);
        Ok(())
    }

    fn body(&mut self, function: &mut Function<'a>) -> Result<()> {
        let mut depth = 0;
        loop {
            let position = self.position();
            if self.accept('{') {
                depth += 1;
                if depth > DEPTH {
                    return self.error("scopes nest too deep");
                }
                function.body.push((Statement::Open, position));
            } else if self.accept('}') {
                if depth == 0 {
                    return Ok(());
                }
                depth -= 1;
                function.body.push((Statement::Close, position));
            } else if !self.accept(';') {
                self.statement(function, position)?;
            }
        }
    }

    fn statement(&mut self, function: &mut Function<'a>, position: Position) -> Result<()> {
        let mut guard = None;
        if self.accept('@') {
            let negated = self.accept('!');
            guard = Some((self.word()?, negated));
        }
        let word = self.word()?;
        let body = &mut function.body;
        match word {
            ".reg" => return self.registers(body, position),
            ".loc" => {
                self.skip_line(position);
                return Ok(());
            }
            ".pragma" => return self.skip_to_semicolon(),
            ".shared" | ".local" | ".param" => {
                let variable = self.variable(word, position)?;
                self.expect(';')?;
                body.push((Statement::Variable(variable), position));
                return Ok(());
            }
            _ if word.starts_with('.') => {
                return Err(ParseError::new(position, format!("unknown directive {word}")));
            }
            _ => {}
        }
        if guard.is_none() && self.accept(':') {
            if self.accept_word(".branchtargets") {
                let mut targets = vec![self.word()?];
                while self.accept(',') {
                    targets.push(self.word()?);
                }
                self.expect(';')?;
                body.push((Statement::Targets(word, targets), position));
            } else if self.accept_word(".callprototype") {
                self.skip_to_semicolon()?;
            } else {
                body.push((Statement::Label(word), position));
            }
            return Ok(());
        }
        let mut operands = vec![];
        while !self.accept(';') {
            operands.push(self.operand(0)?);
            if !self.accept(',') {
                self.expect(';')?;
                break;
            }
        }
        let instruction = Instruction { guard, opcode: word, operands };
        body.push((Statement::Instruction(instruction), position));
        Ok(())
    }

    fn registers(
        &mut self,
        body: &mut Vec<(Statement<'a>, Position)>,
        position: Position,
    ) -> Result<()> {
        let kind = self.word()?;
        loop {
            let name = self.word()?;
            let mut count = None;
            if self.accept('<') {
                count = Some(self.integer()?);
                self.expect('>')?;
            }
            body.push((Statement::Registers(kind, name, count), position));
            if !self.accept(',') {
                return self.expect(';');
            }
        }
    }

    fn operand(&mut self, depth: usize) -> Result<Operand<'a>> {
        if depth > DEPTH {
            return self.error("operands nest too deep");
        }
        let position = self.position();
        match self.take()? {
            Token::Symbol('{') => Ok(Operand::Vector(self.operands('}', depth)?)),
            Token::Symbol('(') => Ok(Operand::List(self.operands(')', depth)?)),
            Token::Symbol('!') => Ok(Operand::Not(self.word()?)),
            Token::Symbol('[') => {
                let base = self.operand(depth + 1)?;
                let mut rest = vec![];
                while self.accept(',') {
                    rest.push(self.operand(depth + 1)?);
                }
                self.expect(']')?;
                Ok(Operand::Address(Box::new(base), rest))
            }
            Token::Symbol('-') => match self.take()? {
                Token::Integer(value) => Ok(Operand::Integer(value.wrapping_neg())),
                Token::Float(bits) => Ok(Operand::Float(bits ^ 1 << 31)),
                Token::Double(bits) => Ok(Operand::Double(bits ^ 1 << 63)),
                other => self.error(format!("unexpected {other:?} behind a minus")),
            },
            Token::Integer(value) => Ok(Operand::Integer(value)),
            Token::Float(bits) => Ok(Operand::Float(bits)),
            Token::Double(bits) => Ok(Operand::Double(bits)),
            Token::Word(name) if self.accept('|') => Ok(Operand::Pair(name, self.word()?)),
            Token::Word(name) => Ok(Operand::Name(name, self.offset()?)),
            other => Err(ParseError::new(position, format!("unexpected {other:?} as an operand"))),
        }
    }

    fn operands(&mut self, end: char, depth: usize) -> Result<Vec<Operand<'a>>> {
        let mut found = vec![];
        while !self.accept(end) {
            found.push(self.operand(depth + 1)?);
            if !self.accept(',') {
                self.expect(end)?;
                break;
            }
        }
        Ok(found)
    }

    /// `+4`, `+-4` or `-4` behind a name.
    fn offset(&mut self) -> Result<i64> {
        let plus = self.accept('+');
        let minus = self.accept('-');
        if !plus && !minus {
            return Ok(0);
        }
        let value = self.integer()? as i64;
        Ok(if minus { value.wrapping_neg() } else { value })
    }
}

/// Bytes of a fundamental type.
pub fn width_of(kind: &str) -> Option<u64> {
    Some(match kind {
        ".b8" | ".u8" | ".s8" | ".pred" => 1,
        ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => 2,
        ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" | ".bf16x2" => 4,
        ".b64" | ".u64" | ".s64" | ".f64" => 8,
        _ => return None,
    })
}
