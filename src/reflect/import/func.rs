//! One graph function as text: signature, bindings, control flow.

use std::collections::HashSet;

use reflex_node::graph::{Field, NodeId, Value};
use reflex_tir::script::{identifier, is_reserved, string};

use super::Writer;
use super::names::Names;
use super::reader::Read;
use super::types::Position;

impl Writer<'_> {
    /// A function of the module.
    pub(super) fn function(&mut self, name: &str, id: NodeId) -> Read<()> {
        self.names = Names::default();
        self.names.enter();
        self.is_kernel = false;
        self.iterations.clear();
        self.definition(name, id, true)
    }

    fn definition(&mut self, name: &str, id: NodeId, is_member: bool) -> Read<()> {
        let params = self.nodes.list(id, "params")?;
        for param in &params {
            self.nodes.expect_var(*param)?;
            let hint = self.nodes.child_text(*param, "name")?;
            self.names.define(*param, hint);
            self.values.insert(*param);
        }
        let mut texts = vec![];
        for param in &params {
            let ty = self.nodes.child(*param, "ty")?;
            let dims = self.name_dims(ty)?;
            self.symbols.extend(dims);
            let name = self.name_of(*param)?;
            texts.push(format!("{name}: {}", self.ty(ty, Position::Signature)?));
        }
        let (ret, body) = (self.nodes.child(id, "ret_ty")?, self.nodes.child(id, "body")?);
        let ret = match self.name_dims(ret)?.is_empty() {
            true => format!(" -> {}", self.ty(ret, Position::Signature)?),
            // Dimensions that only the body knows say nothing to the caller.
            false => String::new(),
        };
        let is_pure =
            self.nodes.node(id).field("is_pure") != Some(&Field::Value(Value::Bool(false)));
        let given = self.nodes.attrs(self.nodes.optional(id, "attrs")?)?;
        let is_private = !given.iter().any(|(key, _)| key == "global_symbol");
        self.line(match (is_private && is_member, is_pure) {
            (false, true) => "@R.function",
            (false, false) => "@R.function(pure=False)",
            (true, true) => "@R.function(private=True)",
            (true, false) => "@R.function(private=True, pure=False)",
        });
        self.line(&format!("def {name}({}){ret}:", texts.join(", ")));
        self.indented(|w| {
            let mut attrs = w.nodes.attrs(w.nodes.optional(id, "attrs")?)?;
            attrs.retain(|(key, _)| key != "global_symbol");
            if !attrs.is_empty() {
                let attrs = w.dict(&attrs)?;
                w.line(&format!("R.func_attr({attrs})"));
            }
            if is_member {
                w.inner(body)?;
            }
            let result = w.deeper(body, |w| w.bindings(body))?;
            w.line(&format!("return {result}"));
            Ok(())
        })
    }

    /// Declares the dimensions that the body has first, and finds the functions that are iterations of loops.
    fn inner(&mut self, body: NodeId) -> Read<()> {
        let mut bound = HashSet::new();
        let (mut dims, mut steps) = (vec![], vec![]);
        self.nodes.reached(body, &mut |nodes, id| match nodes.key(id) {
            "relax.expr.VarBinding" | "relax.expr.MatchCast" => {
                bound.extend(nodes.child(id, "var"))
            }
            "relax.expr.Function" => bound.extend(nodes.list(id, "params").into_iter().flatten()),
            "ir.Var" if nodes.is_scalar(id) => dims.push(id),
            "ir.Call" => {
                if let Ok([function, step, ..]) = nodes.list(id, "args").as_deref()
                    && nodes.child_text(*function, "global_symbol") == Ok("reflex.loop")
                {
                    steps.push(*step);
                }
            }
            _ => {}
        })?;
        // In the order in which they were made, which is that of sums of them.
        dims.sort_unstable();
        self.iterations.extend(steps.into_iter().map(|step| (step, None)));
        for var in dims {
            if !bound.contains(&var) && self.names.get(var).is_none() {
                let hint = self.nodes.child_text(var, "name")?;
                let name = self.names.define(var, hint);
                let dtype = self.nodes.dtype_of(var)?;
                self.line(&format!("{name} = T.{dtype}()"));
            }
        }
        Ok(())
    }

    pub(super) fn name_of(&self, var: NodeId) -> Read<String> {
        match self.names.get(var) {
            Some(name) => Ok(name.to_owned()),
            None => {
                let hint = self.nodes.child_text(var, "name")?;
                Err(format!("nothing defines the variable `{hint:.64}`"))
            }
        }
    }

    /// Writes the bindings of a sequence, and returns its result.
    fn bindings(&mut self, sequence: NodeId) -> Read<String> {
        if self.nodes.key(sequence) != "relax.expr.SeqExpr" {
            return self.expr(sequence);
        }
        for block in self.nodes.list(sequence, "blocks")? {
            for binding in self.nodes.list(block, "bindings")? {
                self.deeper(binding, |w| w.binding(binding))?;
            }
        }
        let result = self.nodes.child(sequence, "body")?;
        self.expr(result)
    }

    fn binding(&mut self, binding: NodeId) -> Read<()> {
        let (var, value) = (self.nodes.child(binding, "var")?, self.nodes.child(binding, "value")?);
        self.nodes.expect_var(var)?;
        if self.nodes.key(binding) == "relax.expr.MatchCast" {
            let (value, ty) = (self.expr(value)?, self.nodes.child(binding, "ty")?);
            let ty = self.ty(ty, Position::Body)?;
            let name = self.define(var)?;
            self.line(&format!("{name}: {ty} = R.match_cast({value}, {ty})"));
            return Ok(());
        }
        self.nodes.expect(binding, "relax.expr.VarBinding")?;
        match self.nodes.key(value) {
            "relax.expr.If" => self.choice(var, value),
            "relax.expr.Function" if self.iterations.contains_key(&var) => {
                self.iterations.insert(var, Some(value));
                Ok(())
            }
            "relax.expr.Function" => {
                let name = self.define(var)?;
                self.definition(&name, value, false)
            }
            "ir.Call" => match self.loop_step(value)? {
                Some(step) => self.run_loop(var, value, step),
                None => self.bind(var, value),
            },
            _ => self.bind(var, value),
        }
    }

    fn define(&mut self, var: NodeId) -> Read<String> {
        let hint = self.nodes.child_text(var, "name")?;
        self.values.insert(var);
        Ok(self.names.define(var, hint))
    }

    /// `: TYPE` of a variable.
    fn annotation(&mut self, var: NodeId) -> Read<String> {
        match self.nodes.optional(var, "ty")? {
            Some(ty) => Ok(format!(": {}", self.ty(ty, Position::Body)?)),
            None => Ok(String::new()),
        }
    }

    fn bind(&mut self, var: NodeId, value: NodeId) -> Read<()> {
        let text = match self.nodes.key(value) {
            "ir.IntImm" => format!("R.prim_value({})", self.prim(value)?),
            "ir.FloatImm" => format!("R.prim_value({})", self.nodes.immediate(value)?),
            key if key.starts_with("prim.") => format!("R.prim_value({})", self.prim(value)?),
            "ir.Var" if self.nodes.is_scalar(value) && !self.values.contains(&value) => {
                format!("R.prim_value({})", self.name_of(value)?)
            }
            _ => self.expr(value)?,
        };
        let ty = self.nodes.child(var, "ty")?;
        let is_empty =
            self.nodes.key(ty) == "ir.TupleType" && self.nodes.list(ty, "fields")?.is_empty();
        if is_empty && self.nodes.key(value) == "ir.Call" && self.uses[var as usize] == 0 {
            self.line(&text);
            return Ok(());
        }
        let annotation = match text.starts_with("R.call_tir(") {
            true => String::new(),
            false => self.annotation(var)?,
        };
        let name = self.define(var)?;
        self.line(&format!("{name}{annotation} = {text}"));
        Ok(())
    }

    fn choice(&mut self, var: NodeId, value: NodeId) -> Read<()> {
        let cond = self.nodes.child(value, "cond")?;
        let cond = self.expr(cond)?;
        let annotation = self.annotation(var)?;
        // Named first, so that no branch takes the name.
        let name = self.define(var)?;
        for (head, field) in
            [(format!("if {cond}:"), "true_branch"), ("else:".to_owned(), "false_branch")]
        {
            self.line(&head);
            let branch = self.nodes.child(value, field)?;
            self.indented(|w| {
                let result = w.deeper(branch, |w| w.bindings(branch))?;
                w.line(&format!("{name}{annotation} = {result}"));
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The function of one iteration, if a call is a loop.
    fn loop_step(&mut self, call: NodeId) -> Read<Option<NodeId>> {
        let args = self.nodes.list(call, "args")?;
        let [function, step, ..] = args[..] else { return Ok(None) };
        if self.nodes.child_text(function, "global_symbol") != Ok("reflex.loop") {
            return Ok(None);
        }
        match self.iterations.get(&step) {
            Some(Some(function)) => Ok(Some(*function)),
            _ => Err("`reflex.loop` without the function of an iteration".to_owned()),
        }
    }

    fn run_loop(&mut self, var: NodeId, call: NodeId, step: NodeId) -> Read<()> {
        let args = self.nodes.list(call, "args")?;
        let [_, _, trips, cond, init] = args[..] else {
            return Err("`reflex.loop` takes a function, trips, a condition and a tuple".to_owned());
        };
        let mut optional = |id: NodeId| -> Read<String> {
            let op = self.nodes.child(id, "op").ok().and_then(|op| self.nodes.node(op).text());
            match op {
                Some("relax.null_value") => Ok("None".to_owned()),
                _ => self.expr(id),
            }
        };
        let (trips, cond) = (optional(trips)?, optional(cond)?);
        let init = self.expr(init)?;
        let params = self.nodes.list(step, "params")?;
        let (mut names, mut types) = (vec![], vec![]);
        for (at, param) in params.iter().enumerate() {
            self.nodes.expect_var(*param)?;
            names.push(self.define(*param)?);
            if at >= 2 {
                let ty = self.nodes.child(*param, "ty")?;
                types.push(self.ty(ty, Position::Body)?);
            }
        }
        let (names, types) = (tuple(&names), tuple(&types));
        self.line(&format!(
            "with R.reflex.loop({trips}, {cond}, {init}, ty_args={types}) as {names}:"
        ));
        let body = self.nodes.child(step, "body")?;
        self.indented(|w| {
            let results = w.deeper(body, |w| w.iteration(body))?;
            let (annotation, name) = (w.annotation(var)?, w.define(var)?);
            w.line(&format!("{name}{annotation} = R.reflex.next({results})"));
            Ok(())
        })
    }

    /// Writes the bindings of an iteration, and returns its three results.
    fn iteration(&mut self, body: NodeId) -> Read<String> {
        self.nodes.expect(body, "relax.expr.SeqExpr")?;
        let results = self.nodes.child(body, "body")?;
        self.nodes.expect(results, "ir.Tuple")?;
        for block in self.nodes.list(body, "blocks")? {
            for binding in self.nodes.list(block, "bindings")? {
                self.deeper(binding, |w| w.binding(binding))?;
            }
        }
        let results = self.nodes.list(results, "fields")?;
        let [next, carried, scans] = results[..] else {
            return Err("an iteration of `reflex.loop` gives three results".to_owned());
        };
        let mut texts = vec![self.expr(next)?];
        for part in [carried, scans] {
            self.nodes.expect(part, "ir.Tuple")?;
            let items = self.nodes.list(part, "fields")?;
            let items: Vec<String> = items.iter().map(|id| self.expr(*id)).collect::<Read<_>>()?;
            texts.push(tuple(&items));
        }
        Ok(texts.join(", "))
    }

    /// An expression on the right of a binding, or among operands.
    pub(super) fn expr(&mut self, id: NodeId) -> Read<String> {
        self.deeper(id, |w| w.expr_inside(id))
    }

    fn expr_inside(&mut self, id: NodeId) -> Read<String> {
        Ok(match self.nodes.key(id) {
            "ir.Var" | "relax.expr.DataflowVar" => self.name_of(id)?,
            "ir.GlobalVar" => {
                let name = self.nodes.child_text(id, "name_hint")?;
                format!("Module.{}", member(name))
            }
            "ir.GenericConst" => self.constant(id)?,
            "ir.Tuple" => {
                let fields = self.nodes.list(id, "fields")?;
                let items: Vec<String> =
                    fields.iter().map(|field| self.expr(*field)).collect::<Read<_>>()?;
                if items.is_empty() { "R.tuple()".to_owned() } else { tuple(&items) }
            }
            "ir.TupleGetItem" => {
                let tuple = self.nodes.child(id, "tuple_value")?;
                format!("{}[{}]", self.expr(tuple)?, self.nodes.child_int(id, "index")?)
            }
            "relax.expr.ShapeExpr" => self.shape(id)?,
            "ir.StringImm" => format!("R.str({})", string(self.nodes.child_text(id, "value")?)),
            "ir.Call" if !self.is_scalar_call(id) => self.call(id)?,
            _ => self.prim(id)?,
        })
    }

    /// True for a call of an operator on scalars, such as the choice between two dimensions.
    fn is_scalar_call(&self, id: NodeId) -> bool {
        let op = self.nodes.child(id, "op").ok().and_then(|op| self.nodes.node(op).text());
        op.is_some_and(|op| op.starts_with("prim.") || op.starts_with("tirx."))
    }
}

/// The name of a function in the text: a kernel may be called as Python calls something else.
pub(super) fn member(name: &str) -> String {
    let name = identifier(name);
    if is_reserved(&name) { format!("{name}_") } else { name }
}

/// `(a, b)`, with Python's comma when there is one element.
pub(super) fn tuple(items: &[String]) -> String {
    match items {
        [one] => format!("({one},)"),
        _ => format!("({})", items.join(", ")),
    }
}
