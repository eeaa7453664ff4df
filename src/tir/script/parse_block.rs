//! Blocks from text.

use std::collections::BTreeMap;

use ruff_python_ast::{self as ast, Expr as Py, Stmt as PyStmt};
use ruff_text_size::Ranged;

use super::parse::{Name, Parser, Read, path};
use crate::arith::Analyzer;
use crate::schedule::refresh_regions;
use crate::{Block, BlockIter, Expr, IterKind, Region, Stmt};

/// The parts of a block's header read so far.
#[derive(Default)]
struct Header {
    iters: Vec<BlockIter>,
    predicate: Option<Expr>,
    reads: Vec<Region>,
    writes: Vec<Region>,
    annotations: BTreeMap<String, String>,
    init: Option<Stmt>,
}

impl Parser<'_> {
    /// `with T.sblock("name"): ...`; older versions of TVM write `T.block`.
    pub fn sblock(&mut self, w: &ast::StmtWith) -> Read<Stmt> {
        let [item] = &w.items[..] else { return Err(self.unsupported(w)) };
        let Py::Call(call) = &item.context_expr else { return Err(self.unsupported(w)) };
        let name = match (path(&call.func).as_deref(), &call.arguments.args[..]) {
            (Some("T.sblock" | "T.block"), [Py::StringLiteral(name)]) => {
                name.value.to_str().to_string()
            }
            (Some("T.sblock" | "T.block"), []) => String::new(),
            _ => return Err(self.unsupported(&item.context_expr)),
        };
        // Allocations inside are collected in the function's list and taken from there.
        let outer_allocs = std::mem::take(&mut self.func.allocs);
        let read = self.scoped(|p| {
            let mut header = Header::default();
            let mut at = 0;
            while at < w.body.len() && p.header(&w.body[at], &mut header)? {
                at += 1;
            }
            Ok((header, p.statements(&w.body[at..])?))
        });
        let allocs = std::mem::replace(&mut self.func.allocs, outer_allocs);
        let (header, body) = read?;
        let mut block = Block {
            name,
            iters: header.iters,
            predicate: header.predicate.unwrap_or_else(|| Expr::bool(true)),
            reads: header.reads,
            writes: header.writes,
            init: header.init,
            allocs,
            annotations: header.annotations,
            body,
        };
        self.complete_regions(&mut block);
        Ok(Stmt::Block(Box::new(block)))
    }

    /// Declared regions stand when they name every buffer the body touches; primitives rely on
    /// that. Otherwise (TVM leaves them empty for opaque blocks) they are computed.
    fn complete_regions(&self, block: &mut Block) {
        let mut computed = block.clone();
        refresh_regions(&self.func, &mut computed);
        let covers = |declared: &[Region], used: &[Region]| {
            used.iter().all(|u| declared.iter().any(|d| d.buffer == u.buffer))
        };
        if !covers(&block.reads, &computed.reads) {
            block.reads = computed.reads;
        }
        if !covers(&block.writes, &computed.writes) {
            block.writes = computed.writes;
        }
    }

    /// Reads one statement of the header; false when the body has begun.
    fn header(&mut self, stmt: &PyStmt, header: &mut Header) -> Read<bool> {
        match stmt {
            PyStmt::Assign(a) => {
                let ([target], Py::Call(call)) = (&a.targets[..], &*a.value) else {
                    return Ok(false);
                };
                let function = path(&call.func).unwrap_or_default();
                if let ("T.sblock_alloc_buffer", Py::Name(name)) = (&*function, target) {
                    self.block_allocation(&name.id, call)?;
                    return Ok(true);
                }
                let Some(kind) = function.strip_prefix("T.axis.") else { return Ok(false) };
                self.axis(kind, target, call, header)?;
                Ok(true)
            }
            PyStmt::Expr(e) => {
                let Py::Call(call) = &*e.value else { return Err(self.unsupported(stmt)) };
                match (path(&call.func).as_deref(), &call.arguments.args[..]) {
                    (Some("T.where"), [cond]) => header.predicate = Some(self.condition(cond)?),
                    (Some("T.reads"), regions) => header.reads = self.regions(regions)?,
                    (Some("T.writes"), regions) => header.writes = self.regions(regions)?,
                    (Some("T.sblock_attr" | "T.block_attr"), [attrs]) => {
                        header.annotations = self.dict(attrs)?
                    }
                    _ => return Ok(false),
                }
                Ok(true)
            }
            PyStmt::With(w) => {
                let [item] = &w.items[..] else { return Ok(false) };
                let Py::Call(call) = &item.context_expr else { return Ok(false) };
                if path(&call.func).as_deref() != Some("T.init") {
                    return Ok(false);
                }
                header.init = Some(self.suite(&w.body)?);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn axis(
        &mut self,
        kind: &str,
        target: &Py,
        call: &ast::ExprCall,
        header: &mut Header,
    ) -> Read<()> {
        let args = &call.arguments.args;
        let names: Vec<&Py> = match target {
            Py::Tuple(t) => t.elts.iter().collect(),
            one => vec![one],
        };
        let mut bound = vec![];
        match (kind, &args[..]) {
            ("remap", [Py::StringLiteral(kinds), Py::List(values)]) => {
                let kinds = kinds.value.to_str();
                if kinds.len() != values.elts.len() {
                    return Err(self.unsupported(call));
                }
                for (kind, value) in kinds.chars().zip(&values.elts) {
                    let kind = match kind {
                        'S' => IterKind::Spatial,
                        'R' => IterKind::Reduce,
                        'O' => IterKind::Opaque,
                        _ => return Err(self.unsupported(call)),
                    };
                    let value = self.index(value)?;
                    let whole = value.as_var().and_then(|v| self.loops.get(&v));
                    let Some((min, extent)) = whole else { return Err(self.unsupported(call)) };
                    if min.as_int() != Some(0) {
                        return Err(self.unsupported(call));
                    }
                    bound.push((kind, extent.clone(), value));
                }
            }
            ("spatial" | "reduce" | "opaque", [extent, value]) => {
                let kind = match kind {
                    "spatial" => IterKind::Spatial,
                    "reduce" => IterKind::Reduce,
                    _ => IterKind::Opaque,
                };
                bound.push((kind, self.index(extent)?, self.index(value)?));
            }
            _ => return Err(self.unsupported(call)),
        }
        if names.len() != bound.len() {
            return Err(self.unsupported(call));
        }
        for (name, (kind, extent, value)) in names.into_iter().zip(bound) {
            let Py::Name(name) = name else { return Err(self.unsupported(target)) };
            let var = self.func.new_var(name.id.as_str());
            self.define(&name.id, Name::Var(var));
            header.iters.push(BlockIter { var, extent, kind, value });
        }
        Ok(())
    }

    fn regions(&mut self, list: &[Py]) -> Read<Vec<Region>> {
        list.iter().map(|e| self.region(e)).collect()
    }

    /// `A[i, j:j + 4]`
    fn region(&mut self, e: &Py) -> Read<Region> {
        let Py::Subscript(s) = e else { return Err(self.unsupported(e)) };
        let Py::Name(name) = &*s.value else { return Err(self.unsupported(e)) };
        let Some(Name::Buffer(buffer)) = self.lookup(&name.id) else {
            return Err(self.refuse(e.start(), format!("buffer `{}` is not defined", name.id)));
        };
        let parts: Vec<&Py> = match &*s.slice {
            Py::Tuple(t) => t.elts.iter().collect(),
            one => vec![one],
        };
        let mut ranges = vec![];
        for part in parts {
            ranges.push(match part {
                Py::Slice(slice) => {
                    let (Some(low), Some(high), None) = (&slice.lower, &slice.upper, &slice.step)
                    else {
                        return Err(self.unsupported(e));
                    };
                    let (min, end) = (self.index(low)?, self.index(high)?);
                    let extent = Analyzer::new().simplify(&(end - min.clone()));
                    (min, extent)
                }
                one => (self.index(one)?, Expr::i64(1)),
            });
        }
        Ok(Region { buffer, ranges })
    }
}
