//! Modifiers of an opcode, each of which has to be understood.

/// The parts of an opcode behind its first.
#[derive(Debug)]
pub struct Modifiers<'a> {
    /// The opcode's first part.
    pub name: &'a str,
    rest: Vec<&'a str>,
}

impl<'a> Modifiers<'a> {
    /// Splits an opcode.
    pub fn new(opcode: &'a str) -> Modifiers<'a> {
        let mut parts = opcode.split('.');
        Modifiers { name: parts.next().unwrap_or(""), rest: parts.collect() }
    }

    /// Takes a modifier if it is there.
    pub fn take(&mut self, name: &str) -> bool {
        match self.rest.iter().position(|part| *part == name) {
            Some(at) => {
                self.rest.remove(at);
                true
            }
            None => false,
        }
    }

    /// Takes the one of several modifiers that is there.
    pub fn one_of(&mut self, names: &[&'a str]) -> Option<&'a str> {
        names.iter().copied().find(|name| self.take(name))
    }

    /// Drops modifiers without meaning here.
    pub fn ignore(&mut self, names: &[&str]) {
        self.rest.retain(|part| !names.contains(part));
    }

    /// Takes the first modifier that is left.
    pub fn first(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() { None } else { Some(self.rest.remove(0)) }
    }

    /// Whether the first modifier that is left is one of these.
    pub fn first_is(&self, names: &[&str]) -> bool {
        self.rest.first().is_some_and(|first| names.contains(first))
    }

    /// Takes the last modifier, which most often is the type.
    pub fn last(&mut self) -> Option<&'a str> {
        self.rest.pop()
    }

    /// A modifier that was not understood.
    pub fn left(&self) -> Option<&'a str> {
        self.rest.first().copied()
    }
}
