//! One kernel as text: signature, statements, blocks.

use reflex_node::graph::NodeId;
use reflex_tir::DType;
use reflex_tir::script::string;

use super::Writer;
use super::func::member;
use super::names::Names;
use super::reader::Read;

impl Writer<'_> {
    /// A kernel of the module.
    pub(super) fn kernel(&mut self, name: &str, id: NodeId) -> Read<()> {
        self.names = Names::default();
        self.names.enter();
        self.is_kernel = true;
        let mut texts = vec![];
        let params = self.nodes.list(id, "params")?;
        for param in &params {
            if self.nodes.is_scalar(*param) {
                self.define_var(*param)?;
            }
        }
        for param in &params {
            let ty = self.nodes.child(*param, "ty")?;
            if self.nodes.is_scalar(*param) {
                let (name, dtype) = (self.name_of(*param)?, self.nodes.dtype(ty)?);
                texts.push(format!("{name}: T.{dtype}"));
                continue;
            }
            let dims = self.name_dims(ty)?;
            self.symbols.extend(dims);
            let name = self.define_var(*param)?;
            let (shape, dtype, scope) = self.buffer(*param)?;
            if scope != "global" {
                return Err(format!("the scope `{scope:.32}` of a parameter"));
            }
            let mut dims = vec![];
            for dim in shape {
                let text = self.prim(dim)?;
                let is_plain = matches!(self.nodes.key(dim), "ir.IntImm" | "ir.Var");
                dims.push(if is_plain { text } else { string(&text) });
            }
            texts.push(format!("{name}: T.Buffer({}, \"{dtype}\")", shape_text(&dims)));
        }
        let mut attrs = self.nodes.attrs(self.nodes.optional(id, "attrs")?)?;
        let is_private = !attrs.iter().any(|(key, _)| key == "global_symbol");
        let written = member(name);
        attrs.retain(|(key, _)| match key.as_str() {
            // The text's own name is not that of the kernel then.
            "global_symbol" => written != name,
            key => key != "s_tir",
        });
        let private = if is_private { "private=True, " } else { "" };
        self.line(&format!("@T.prim_func({private}s_tir=True)"));
        let result = match self.nodes.optional(id, "ret_type")? {
            Some(ty) if self.nodes.key(ty) == "ir.PrimType" => {
                format!(" -> T.{}", self.nodes.dtype(ty)?)
            }
            _ => String::new(),
        };
        self.line(&format!("def {written}({}){result}:", texts.join(", ")));
        self.indented(|w| {
            if !attrs.is_empty() {
                let attrs = w.dict(&attrs)?;
                w.line(&format!("T.func_attr({attrs})"));
            }
            let body = w.nodes.child(id, "body")?;
            match w.root_block(body)? {
                Some(block) => {
                    w.allocations(block)?;
                    let body = w.nodes.child(block, "body")?;
                    w.stmt(body)
                }
                None => w.stmt(body),
            }
        })
    }

    /// The block around a kernel's body that says nothing but what is allocated.
    fn root_block(&self, body: NodeId) -> Read<Option<NodeId>> {
        if self.nodes.key(body) != "s_tir.SBlockRealize" {
            return Ok(None);
        }
        let block = self.nodes.child(body, "block")?;
        let mut is_root = self.nodes.child_text(block, "name_hint") == Ok("root");
        for list in ["iter_vars", "reads", "writes", "match_buffers"] {
            is_root &= self.nodes.list(block, list)?.is_empty();
        }
        is_root &= self.nodes.optional(block, "init")?.is_none();
        let annotations = self.nodes.optional(block, "annotations")?;
        is_root &= annotations.is_none_or(|id| self.nodes.entries(id).is_ok_and(|e| e.is_empty()));
        Ok(is_root.then_some(block))
    }

    fn define_var(&mut self, var: NodeId) -> Read<String> {
        self.nodes.expect(var, "ir.Var")?;
        let hint = self.nodes.child_text(var, "name")?;
        Ok(self.names.define(var, hint))
    }

    /// Shape, element type and scope of a buffer, which is compact.
    fn buffer(&self, var: NodeId) -> Read<(Vec<NodeId>, String, String)> {
        let ty = self.nodes.child(var, "ty")?;
        self.nodes.expect(ty, "tirx.BufferType")?;
        let name = self.nodes.child_text(var, "name")?;
        let offset = self.nodes.optional(ty, "elem_offset")?;
        let is_plain = self.nodes.list(ty, "strides")?.is_empty()
            && offset.is_none_or(|id| self.nodes.int(id) == Ok(0));
        if !is_plain {
            return Err(format!("strides or the offset of the buffer `{name:.64}`"));
        }
        let dtype = self.nodes.dtype(self.nodes.child(ty, "dtype")?)?;
        let scope = self.nodes.child_text(ty, "storage_scope")?;
        Ok((self.nodes.list(ty, "shape")?, dtype.to_string(), scope.to_owned()))
    }

    /// `name = T.alloc_buffer(...)`
    fn allocation(&mut self, function: &str, var: NodeId) -> Read<()> {
        let (shape, dtype, scope) = self.buffer(var)?;
        let dims: Vec<String> = shape.iter().map(|dim| self.prim(*dim)).collect::<Read<_>>()?;
        let name = self.define_var(var)?;
        let (shape, scope) = (shape_text(&dims), string(&scope));
        self.line(&format!("{name} = T.{function}({shape}, \"{dtype}\", scope={scope})"));
        Ok(())
    }

    /// `name = T.decl_buffer(..., data=of.data)`, another name of a buffer.
    fn other_name(&mut self, id: NodeId) -> Read<()> {
        let (var, data) = (self.nodes.child(id, "buffer")?, self.nodes.child(id, "data")?);
        let of = self.nodes.list(data, "args")?;
        let op = self.nodes.child(data, "op").ok().and_then(|op| self.nodes.node(op).text());
        let (Some("tirx.buffer_data"), [of]) = (op, &of[..]) else {
            return Err("a buffer over data that is no buffer's".to_owned());
        };
        let of = self.prim(*of)?;
        let (shape, dtype, scope) = self.buffer(var)?;
        if scope != "global" {
            return Err(format!("a buffer of the scope `{scope:.32}` over another's data"));
        }
        let dims: Vec<String> = shape.iter().map(|dim| self.prim(*dim)).collect::<Read<_>>()?;
        let (name, shape) = (self.define_var(var)?, shape_text(&dims));
        self.line(&format!("{name} = T.decl_buffer({shape}, \"{dtype}\", data={of}.data)"));
        Ok(())
    }

    /// The buffers that a block allocates.
    fn allocations(&mut self, block: NodeId) -> Read<()> {
        for buffer in self.nodes.list(block, "alloc_buffers")? {
            self.allocation("sblock_alloc_buffer", buffer)?;
        }
        Ok(())
    }

    /// A statement in names of its own.
    fn suite(&mut self, stmt: NodeId) -> Read<()> {
        self.indented(|w| {
            w.names.enter();
            let result = w.stmt(stmt);
            w.names.leave();
            result
        })
    }

    fn stmt(&mut self, id: NodeId) -> Read<()> {
        self.deeper(id, |w| w.stmt_inside(id))
    }

    fn stmt_inside(&mut self, id: NodeId) -> Read<()> {
        match self.nodes.key(id) {
            "tirx.SeqStmt" => {
                let stmts = self.nodes.list(id, "seq")?;
                if stmts.is_empty() {
                    self.line("T.evaluate(0)");
                }
                stmts.iter().try_for_each(|stmt| self.stmt(*stmt))
            }
            "tirx.For" => self.for_loop(id),
            "s_tir.SBlockRealize" => self.block(id),
            "tirx.BufferStore" => {
                if let Some(predicate) = self.nodes.optional(id, "predicate")? {
                    return Err(format!(
                        "the predicate {:.64} of a store",
                        self.nodes.key(predicate)
                    ));
                }
                let (element, value) =
                    (self.element(id, "buffer")?, self.nodes.child(id, "value")?);
                let value = self.prim(value)?;
                self.line(&format!("{element} = {value}"));
                Ok(())
            }
            "tirx.IfThenElse" => {
                let cond = self.nodes.child(id, "condition")?;
                let cond = self.prim(cond)?;
                self.line(&format!("if {cond}:"));
                let then = self.nodes.child(id, "then_case")?;
                self.suite(then)?;
                if let Some(otherwise) = self.nodes.optional(id, "else_case")? {
                    self.line("else:");
                    self.suite(otherwise)?;
                }
                Ok(())
            }
            "tirx.While" => {
                let cond = self.nodes.child(id, "condition")?;
                let cond = self.prim(cond)?;
                self.line(&format!("while {cond}:"));
                let body = self.nodes.child(id, "body")?;
                self.suite(body)
            }
            "tirx.Bind" => {
                let (var, value) = (self.nodes.child(id, "var")?, self.nodes.child(id, "value")?);
                let (value, dtype) = (self.prim(value)?, self.nodes.dtype_of(var)?);
                let name = self.define_var(var)?;
                self.line(&format!("{name}: T.let[T.{dtype}] = {value}"));
                Ok(())
            }
            "tirx.AllocBuffer" => {
                let buffer = self.nodes.child(id, "buffer")?;
                self.allocation("alloc_buffer", buffer)
            }
            "tirx.DeclBuffer" => self.other_name(id),
            "tirx.Return" => {
                let value = self.nodes.child(id, "value")?;
                let value = self.prim(value)?;
                self.line(&format!("return {value}"));
                Ok(())
            }
            "tirx.Evaluate" => {
                let value = self.nodes.child(id, "value")?;
                self.evaluate(value)
            }
            key => Err(format!("the statement {key:.64}")),
        }
    }

    fn evaluate(&mut self, value: NodeId) -> Read<()> {
        if self.nodes.key(value) == "ir.IntImm" {
            self.line("T.evaluate(0)");
            return Ok(());
        }
        self.nodes.expect(value, "ir.Call")?;
        let op = self.nodes.child(value, "op")?;
        let (op, args) = (self.nodes.text(op)?, self.nodes.list(value, "args")?);
        match (op, &args[..]) {
            ("tirx.tvm_storage_sync", [scope, ..]) => {
                let scope = self.nodes.immediate(*scope)?;
                self.line(&format!("T.tvm_storage_sync({scope})"));
                Ok(())
            }
            ("tirx.tvm_call_packed", args) => {
                let args: Vec<String> =
                    args.iter().map(|arg| self.packed_arg(*arg)).collect::<Read<_>>()?;
                self.line(&format!("T.call_packed({})", args.join(", ")));
                Ok(())
            }
            ("tirx.call_pure_extern", args) => {
                let (name, args) = self.external(args)?;
                self.statement_of_ours(name, &args)
            }
            (op, _) => Err(format!("a call of `{op:.64}`")),
        }
    }

    /// An argument of a packed function: a buffer as it came, or a plain value.
    fn packed_arg(&mut self, arg: NodeId) -> Read<String> {
        if self.nodes.key(arg) != "ir.Call" {
            return match self.nodes.dtype_of(arg) {
                Ok(DType::I32) => Ok(self.nodes.int(arg)?.to_string()),
                _ => self.prim(arg),
            };
        }
        let op = |w: &Self, id: NodeId| {
            w.nodes.child(id, "op").ok().and_then(|op| w.nodes.node(op).text())
        };
        let args = self.nodes.list(arg, "args")?;
        let (Some("tirx.tvm_stack_make_array"), [data, shape, strides, rank, dtype, offset]) =
            (op(self, arg), &args[..])
        else {
            return Err("an argument of a packed function that is no buffer".to_owned());
        };
        let (data, dims) = (self.nodes.list(*data, "args")?, self.nodes.list(*shape, "args")?);
        let [buffer] = data[..] else { return Err("a buffer without data".to_owned()) };
        let (buffer, dims) = (self.prim(buffer)?, self.prims(&dims)?);
        let rest: Vec<String> = [strides, rank, dtype, offset]
            .iter()
            .map(|arg| self.packed_arg(**arg))
            .collect::<Read<_>>()?;
        Ok(format!(
            "T.tvm_stack_make_array({buffer}.data, T.tvm_stack_make_shape({dims}), {})",
            rest.join(", ")
        ))
    }

    /// `T.tile_load(...)` and the like.
    fn statement_of_ours(&mut self, name: &str, args: &[NodeId]) -> Read<()> {
        let texts: Vec<String> = args.iter().map(|arg| self.prim(*arg)).collect::<Read<_>>()?;
        let truth =
            |text: &String| text.trim_start_matches("T.bool(").trim_end_matches(')').to_owned();
        let line = match (name, &texts[..]) {
            ("check_indices", [buffer, bounds @ .., node]) => {
                format!("T.check_indices({buffer}, [{}], {node})", bounds.join(", "))
            }
            ("tile_zero", [tile]) => format!("T.tile_zero({tile})"),
            ("tile_load" | "tile_store", [tile, buffer, first, stride]) => {
                format!("T.{name}({tile}, {buffer}[{first}], {stride})")
            }
            (_, [_, _, _]) if name.starts_with("tile_dot_") => {
                format!("T.{name}({})", texts.join(", "))
            }
            (
                "tile_mma",
                [sum, first, a, a_first, a_stride, a_t, b, b_first, b_stride, b_t, lane],
            ) => {
                let (a_t, b_t) = (truth(a_t), truth(b_t));
                format!(
                    "T.tile_mma({sum}[{first}], {a}[{a_first}], {a_stride}, {a_t}, {b}[{b_first}], \
                     {b_stride}, {b_t}, {lane})"
                )
            }
            ("tile_box", [to, first, from, dims @ ..]) => {
                format!("T.tile_box({to}[{first}], {from}, {})", dims.join(", "))
            }
            _ => return Err(format!("`reflex.{name}` with {} arguments", texts.len())),
        };
        self.line(&line);
        Ok(())
    }

    fn for_loop(&mut self, id: NodeId) -> Read<()> {
        let (min, extent) = (self.nodes.child(id, "min")?, self.nodes.child(id, "extent")?);
        if let Some(step) = self.nodes.optional(id, "step")?
            && self.nodes.int(step) != Ok(1)
        {
            return Err("the step of a loop".to_owned());
        }
        let extent_text = self.prim(extent)?;
        let range = match (self.nodes.int(min), self.nodes.int(extent)) {
            (Ok(0), _) => extent_text,
            (Ok(min), Ok(extent)) if min.checked_add(extent).is_some() => {
                format!("T.int64({min}), T.int64({})", min + extent)
            }
            _ => {
                let min = self.prim(min)?;
                format!("{min}, {min} + ({extent_text})")
            }
        };
        let annotations = match self.nodes.optional(id, "annotations")? {
            Some(map) => self.nodes.named(map)?,
            None => vec![],
        };
        let extra = match annotations.is_empty() {
            true => String::new(),
            false => format!(", annotations={}", self.dict(&annotations)?),
        };
        let head = match self.nodes.child_int(id, "kind")? {
            0 => format!("T.serial({range}{extra})"),
            1 => format!("T.parallel({range}{extra})"),
            2 => format!("T.vectorized({range}{extra})"),
            3 => format!("T.unroll({range}{extra})"),
            4 => {
                let thread = self.nodes.child(id, "thread_binding")?;
                let tag = string(self.nodes.child_text(thread, "thread_tag")?);
                format!("T.thread_binding({range}, thread={tag}{extra})")
            }
            kind => return Err(format!("a loop of kind {kind}")),
        };
        let (var, body) = (self.nodes.child(id, "loop_var")?, self.nodes.child(id, "body")?);
        self.names.enter();
        let name = self.define_var(var)?;
        self.line(&format!("for {name} in {head}:"));
        let result = self.suite(body);
        self.names.leave();
        result
    }

    fn block(&mut self, id: NodeId) -> Read<()> {
        let block = self.nodes.child(id, "block")?;
        if !self.nodes.list(block, "match_buffers")?.is_empty() {
            return Err("the regions that a block matches".to_owned());
        }
        let name = string(self.nodes.child_text(block, "name_hint")?);
        self.line(&format!("with T.sblock({name}):"));
        self.indented(|w| {
            w.names.enter();
            let result = w.block_inside(id, block);
            w.names.leave();
            result
        })
    }

    fn block_inside(&mut self, id: NodeId, block: NodeId) -> Read<()> {
        let (iters, values) =
            (self.nodes.list(block, "iter_vars")?, self.nodes.list(id, "iter_values")?);
        if iters.len() != values.len() {
            return Err("iterators of a block without values".to_owned());
        }
        let predicate = self.nodes.child(id, "predicate")?;
        // Over loop variables, which the iterators do not hide.
        let predicate = match self.nodes.int(predicate) {
            Ok(1) => None,
            _ => Some(self.prim(predicate)?),
        };
        for (iter, value) in iters.into_iter().zip(values) {
            let (value, dom) = (self.prim(value)?, self.nodes.child(iter, "dom")?);
            let (min, extent) = (self.nodes.child(dom, "min")?, self.nodes.child(dom, "extent")?);
            if self.nodes.int(min) != Ok(0) {
                return Err("an iterator of a block that does not start at 0".to_owned());
            }
            let kind = match self.nodes.child_int(iter, "iter_type")? {
                0 => "spatial",
                2 => "reduce",
                4 => "opaque",
                kind => return Err(format!("an iterator of kind {kind}")),
            };
            let extent = self.prim(extent)?;
            let var = self.nodes.child(iter, "var")?;
            let name = self.define_var(var)?;
            self.line(&format!("{name} = T.axis.{kind}({extent}, {value})"));
        }
        if let Some(predicate) = predicate {
            self.line(&format!("T.where({predicate})"));
        }
        for (function, field) in [("reads", "reads"), ("writes", "writes")] {
            let regions = self.nodes.list(block, field)?;
            let regions: Vec<String> =
                regions.iter().map(|region| self.region(*region)).collect::<Read<_>>()?;
            self.line(&format!("T.{function}({})", regions.join(", ")));
        }
        if let Some(annotations) = self.nodes.optional(block, "annotations")? {
            let annotations = self.nodes.named(annotations)?;
            if !annotations.is_empty() {
                let annotations = self.dict(&annotations)?;
                self.line(&format!("T.sblock_attr({annotations})"));
            }
        }
        self.allocations(block)?;
        if let Some(init) = self.nodes.optional(block, "init")? {
            self.line("with T.init():");
            self.suite(init)?;
        }
        let body = self.nodes.child(block, "body")?;
        self.stmt(body)
    }

    fn region(&mut self, region: NodeId) -> Read<String> {
        self.nodes.expect(region, "ir.TensorRegion")?;
        let source = self.nodes.child(region, "source")?;
        let mut ranges = vec![];
        for range in self.nodes.list(region, "region")? {
            let (min, extent) =
                (self.nodes.child(range, "min")?, self.nodes.child(range, "extent")?);
            let text = self.prim(min)?;
            ranges.push(match (self.nodes.int(min), self.nodes.int(extent)) {
                (_, Ok(1)) => text,
                (Ok(first), Ok(extent)) if first.checked_add(extent).is_some() => {
                    format!("{text}:T.int64({})", first + extent)
                }
                _ => format!("{text}:{text} + ({})", self.prim(extent)?),
            });
        }
        let ranges = if ranges.is_empty() { "()".to_owned() } else { ranges.join(", ") };
        Ok(format!("{}[{ranges}]", self.prim(source)?))
    }
}

/// `(a, b)`, with Python's comma when there is one element.
fn shape_text(dims: &[String]) -> String {
    match dims {
        [one] => format!("({one},)"),
        _ => format!("({})", dims.join(", ")),
    }
}
