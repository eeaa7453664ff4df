//! Replacing an intermediate by its definition, in its consumers or in its producer.

use super::regions::delinearise;
use super::state::{Schedule, ScheduleError};
use super::tree;
use crate::{Block, Buffer, Expr, ExprKind, IterKind, Stmt, Var};

/// A block that stores one element per instance, `buffer[v...] = value`, where the indices are
/// distinct iterators, all of them.
struct Elementwise {
    buffer: Buffer,
    at: Vec<Var>,
    value: Expr,
}

impl Schedule {
    /// `X[i] = f(i); Y[j] = g(X[h(j)])` becomes `Y[j] = g(f(h(j)))`: block `name` goes away and
    /// every read of the intermediate it writes becomes its definition. Values are computed in
    /// the same precision, once per read instead of once.
    ///
    /// Needs an intermediate written by this block alone, element by element over its whole
    /// shape, and definitions whose own inputs do not change before the reads.
    pub fn compute_inline(&mut self, name: &str) -> Result<(), ScheduleError> {
        let block = self.get_block(name)?.clone();
        self.require_movable("compute_inline", name)?;
        let refuse = |why: String| self.refuse("compute_inline", name, why);
        let def = self.elementwise(&block).map_err(refuse)?;
        self.require_private("compute_inline", name, def.buffer)?;
        for reader in self.readers(def.buffer) {
            let path = self.path_to_block("compute_inline", &reader)?;
            self.require_visible(&path, &block).map_err(refuse)?;
        }
        self.require_stable_inputs(name, &def)?;
        let shape = &self.func.buffers[def.buffer].shape;
        let extent = |v: &Var| block.iters.iter().find(|i| i.var == *v).map(|i| &i.extent);
        if def.at.iter().zip(shape).any(|(v, n)| extent(v) != Some(n)) {
            return Err(refuse("the block does not cover its whole buffer".into()));
        }
        let body = tree::remove(&self.func.body, &|s| is_block(s, name)).unwrap_or_else(Stmt::nop);
        let body = body.map_exprs(&mut |e| inline(e, &def, shape));
        self.func.body = self.refreshed(&body, &[def.buffer]);
        self.func.allocs.retain(|b| *b != def.buffer);
        self.note(format!("compute_inline {name}"));
        Ok(())
    }

    /// `X[i] = f(i); Y[p(j)] = g(X[j])` becomes `Y[p(i)] = g(f(i))`: block `name` goes away and
    /// its computation is done where its input is produced.
    ///
    /// Needs a block that reads the intermediate at its own iterators, all of them, each once,
    /// and a producer that stores element by element (not a reduction).
    pub fn reverse_compute_inline(&mut self, name: &str) -> Result<(), ScheduleError> {
        let consumer = self.get_block(name)?.clone();
        self.require_movable("reverse_compute_inline", name)?;
        let refuse = |why: &str| self.refuse("reverse_compute_inline", name, why);
        let (Stmt::Store { buffer: out, indices: out_at, value }, None) =
            (&consumer.body, &consumer.init)
        else {
            return Err(refuse("the block is not one store"));
        };
        if consumer.predicate.as_int() != Some(1) {
            return Err(refuse("the block has a predicate"));
        }
        let (buffer, at) = self.read_at_iterators(&consumer).map_err(|why| refuse(&why))?;
        self.require_private("reverse_compute_inline", name, buffer)?;
        let producer = self.sole_writer(buffer).map_err(|why| refuse(&why))?.clone();
        let def = self.elementwise(&producer).map_err(|why| refuse(&why))?;
        let path = self.path_to_block("reverse_compute_inline", &producer.name)?;
        self.require_visible(&path, &consumer).map_err(|why| refuse(&why))?;
        let covers = at
            .iter()
            .zip(&self.func.buffers[buffer].shape)
            .all(|(v, n)| consumer.iters.iter().any(|i| i.var == *v && i.extent == *n));
        if !covers {
            return Err(refuse("the block does not cover the whole intermediate"));
        }
        self.require_stable_reads(name, &producer.name, value, buffer)?;
        self.require_untouched_before(name, &producer.name, *out)?;
        // The consumer's iterators are the producer's, through the intermediate's indices.
        let rename =
            |e: &Expr| e.substitute(&|v| Some(Expr::var(def.at[at.iter().position(|x| *x == v)?])));
        let point: Vec<Expr> = def.at.iter().map(|v| Expr::var(*v)).collect();
        let value = replace_load(&rename(value), buffer, &point, &def.value);
        let store = Stmt::store(*out, out_at.iter().map(rename).collect(), value);
        let body = tree::remove(&self.func.body, &|s| is_block(s, name)).unwrap_or_else(Stmt::nop);
        self.func.allocs.retain(|b| *b != buffer);
        self.func.body = tree::replace_block(&body, &producer.name, |b| {
            let mut block = Block { body: store.clone(), ..b.clone() };
            self.refresh_regions(&mut block);
            Stmt::Block(Box::new(block))
        });
        self.note(format!("reverse_compute_inline {name}"));
        Ok(())
    }

    /// The single buffer that all iterators of `block` index, one each, in every load of it.
    fn read_at_iterators(&self, block: &Block) -> Result<(Buffer, Vec<Var>), String> {
        let Stmt::Store { value, .. } = &block.body else {
            return Err("the block is not one store".into());
        };
        let mut found: Vec<(Buffer, Option<Vec<Var>>)> = vec![];
        value.visit(&mut |e| {
            if let ExprKind::Load { buffer, indices, .. } = e.kind()
                && self.func.allocs.contains(buffer)
            {
                let flat = indices.len() != self.func.buffers[*buffer].shape.len();
                let vars: Option<Vec<Var>> = indices.iter().map(Expr::as_var).collect();
                let vars = vars.filter(|_| !flat);
                if !found.contains(&(*buffer, vars.clone())) {
                    found.push((*buffer, vars));
                }
            }
        });
        let all = |vars: &[Var]| {
            vars.len() == block.iters.len()
                && block.iters.iter().all(|i| i.kind == IterKind::Spatial && vars.contains(&i.var))
        };
        let sole_reader = |b: Buffer| {
            let writer = self.sole_writer(b).map_or("", |w| &w.name);
            self.readers(b).iter().all(|r| *r == block.name || r == writer)
        };
        let mut fitting = found.iter().filter(|(b, vars)| {
            vars.as_deref().is_some_and(all)
                && found.iter().filter(|(c, _)| c == b).count() == 1
                && sole_reader(*b)
        });
        match (fitting.next(), fitting.next()) {
            (Some((buffer, Some(vars))), None) => Ok((*buffer, vars.clone())),
            (Some(_), Some(_)) => Err("several intermediates could be meant".into()),
            _ => Err("no intermediate is read by it alone, exactly at its iterators".into()),
        }
    }

    fn require_private(
        &self,
        primitive: &'static str,
        at: &str,
        b: Buffer,
    ) -> Result<(), ScheduleError> {
        let name = &self.func.buffers[b].name;
        if !self.func.allocs.contains(&b) {
            let why = format!("`{name}` is not an intermediate of the whole function");
            return Err(self.refuse(primitive, at, why));
        }
        self.sole_writer(b).map(|_| ()).map_err(|why| self.refuse(primitive, at, why))
    }

    pub(super) fn sole_writer(&self, buffer: Buffer) -> Result<&Block, String> {
        let mut writers = tree::blocks(&self.func.body);
        writers.retain(|b| Schedule::block_writes(b, buffer));
        match writers[..] {
            [writer] => Ok(writer),
            _ => Err(format!(
                "`{}` is written by {} blocks",
                self.func.buffers[buffer].name,
                writers.len()
            )),
        }
    }

    /// Names of the blocks that read `buffer`, in order.
    pub(super) fn readers(&self, buffer: Buffer) -> Vec<String> {
        let reads = |b: &Block| {
            let mut found = false;
            b.body.visit_exprs(&mut |e| {
                found |= matches!(e.kind(), ExprKind::Load { buffer: x, .. } if *x == buffer);
            });
            found
        };
        let blocks = tree::blocks(&self.func.body).into_iter();
        blocks.filter(|b| reads(b)).map(|b| b.name.clone()).collect()
    }

    /// The buffers a definition reads must not be written after it, or in a loop around it.
    fn require_stable_inputs(&self, name: &str, def: &Elementwise) -> Result<(), ScheduleError> {
        let path = self.path_to_block("compute_inline", name)?;
        let around = path.iter().find(|s| matches!(s, Stmt::For(_) | Stmt::Block(_)));
        let mut late: Vec<&Block> = around.map_or(vec![], |s| tree::blocks(s));
        let all = tree::blocks(&self.func.body);
        late.extend(all.iter().skip_while(|b| b.name != name).skip(1));
        for buffer in loads(&def.value) {
            if late.iter().any(|b| b.name != name && Schedule::block_writes(b, buffer)) {
                let why = format!("its input `{}` changes later", self.func.buffers[buffer].name);
                return Err(self.refuse("compute_inline", name, why));
            }
        }
        Ok(())
    }

    /// The consumer's other inputs must be complete before the producer runs.
    pub(super) fn require_stable_reads(
        &self,
        name: &str,
        producer: &str,
        value: &Expr,
        except: Buffer,
    ) -> Result<(), ScheduleError> {
        let path = self.path_to_block("reverse_compute_inline", producer)?;
        let around = path.iter().find(|s| matches!(s, Stmt::For(_) | Stmt::Block(_)));
        let mut late: Vec<&Block> = around.map_or(vec![], |s| tree::blocks(s));
        let all = tree::blocks(&self.func.body);
        late.extend(all.iter().skip_while(|b| b.name != producer));
        for buffer in loads(value).into_iter().filter(|b| *b != except) {
            if late.iter().any(|b| Schedule::block_writes(b, buffer)) {
                let input = &self.func.buffers[buffer].name;
                let why = format!("its input `{input}` is not complete where `{producer}` runs");
                return Err(self.refuse("reverse_compute_inline", name, why));
            }
        }
        Ok(())
    }

    /// Between the producer, included, and the consumer nothing may touch what the latter writes.
    pub(super) fn require_untouched_before(
        &self,
        name: &str,
        producer: &str,
        out: Buffer,
    ) -> Result<(), ScheduleError> {
        let readers = self.readers(out);
        let all = tree::blocks(&self.func.body);
        let from = all.iter().skip_while(|b| b.name != producer);
        let mut between = from.take_while(|b| b.name != name);
        match between.find(|b| readers.contains(&b.name) || Schedule::block_writes(b, out)) {
            Some(b) => {
                let why = format!("`{}` uses `{}` before", b.name, self.func.buffers[out].name);
                Err(self.refuse("reverse_compute_inline", name, why))
            }
            None => Ok(()),
        }
    }
}

fn is_block(stmt: &Stmt, name: &str) -> bool {
    matches!(stmt, Stmt::Block(b) if b.name == name)
}

impl Schedule {
    fn elementwise(&self, block: &Block) -> Result<Elementwise, String> {
        let refused = |r: ScheduleError| r.why;
        let (buffer, indices, value) = self.single_store("inline", block).map_err(refused)?;
        elementwise(block, buffer, indices, value)
    }
}

fn elementwise(
    block: &Block,
    buffer: Buffer,
    indices: &[Expr],
    value: &Expr,
) -> Result<Elementwise, String> {
    if block.init.is_some() {
        return Err(format!("block `{}` is a reduction", block.name));
    }
    if block.predicate.as_int() != Some(1) {
        return Err(format!("block `{}` has a predicate", block.name));
    }
    let at: Option<Vec<Var>> = indices.iter().map(Expr::as_var).collect();
    let at = at.filter(|at| {
        let spatial = block.iters.iter().filter(|i| i.kind == IterKind::Spatial);
        // Iterators of extent 1 may be missing: TVM keeps them for constant indices.
        let needed = spatial.filter(|i| i.extent.as_int() != Some(1) || at.contains(&i.var));
        let mut missing = needed.map(|i| at.iter().filter(|v| **v == i.var).count());
        missing.all(|n| n == 1) && block.iters.iter().all(|i| i.kind == IterKind::Spatial)
    });
    match at {
        Some(at) if !loads(value).contains(&buffer) => {
            // Iterators left out have extent 1 and so are 0.
            let value = value.substitute(&|v| {
                let left_out = block.iters.iter().any(|i| i.var == v) && !at.contains(&v);
                left_out.then(|| Expr::i64(0))
            });
            Ok(Elementwise { buffer, at, value })
        }
        _ => Err(format!("block `{}` does not store one element per iterator tuple", block.name)),
    }
}

/// The buffers that `value` loads from.
pub(super) fn loads(value: &Expr) -> Vec<Buffer> {
    let mut found = vec![];
    value.visit(&mut |e| {
        if let ExprKind::Load { buffer, .. } = e.kind()
            && !found.contains(buffer)
        {
            found.push(*buffer);
        }
    });
    found
}

fn inline(e: &Expr, def: &Elementwise, shape: &[Expr]) -> Expr {
    e.replace_loads(def.buffer, &mut |indices, _| {
        let indices = match indices {
            [position] if shape.len() != 1 => &delinearise(position, shape)[..],
            _ => indices,
        };
        let at = |v: Var| def.at.iter().position(|x| *x == v).map(|n| indices[n].clone());
        def.value.substitute(&at)
    })
}

fn replace_load(e: &Expr, buffer: Buffer, at: &[Expr], with: &Expr) -> Expr {
    match e.kind() {
        ExprKind::Load { buffer: b, indices, .. } if *b == buffer && indices == at => with.clone(),
        _ => e.map_children(&mut |c| replace_load(c, buffer, at, with)),
    }
}
