//! Parallel loops: one function per loop that runs a range of iterations, launched as tasks.
//!
//! The range is divided statically, so what each task does depends only on the number of
//! tasks, and results do not depend on it at all. A loop of at most one iteration is called
//! directly. Parallel loops inside a task run in order.

use reflex_tir::For;
use reflex_tir::uses::Uses;

use crate::cpu::raw_entry::written;
use crate::dialect::stored_type;
use crate::error::Result;
use crate::print::Printer;
use crate::print::text::Text;

impl<'f> Printer<'_, 'f> {
    /// Prints a parallel loop; a part that fails makes the function leave with its status.
    pub(crate) fn parallel(&mut self, l: &'f For) -> Result<()> {
        let Uses { vars, buffers } = Uses::of(self.func, &l.body);
        let vars: Vec<_> =
            vars.into_iter().filter(|v| *v != l.var && self.vars.contains_key(v)).collect();
        let buffers: Vec<_> =
            buffers.into_iter().filter(|b| self.buffers.contains_key(b)).collect();
        self.part_count += 1;
        let part = format!("rf_part{}_{}", self.part_count, self.func.name);
        let written = written(&l.body);

        let mut fields = vec!["int64_t min, extent;".to_owned()];
        let mut p = Printer::new(self.dialect, self.func, &mut *self.helpers);
        p.in_parallel = true;
        let mut values = vec![];
        p.out.open(format!(
            "static int32_t {part}(int64_t begin, int64_t end, const struct {part} *all)"
        ));
        for name in ["begin", "end", "all"] {
            p.names.declare(name);
        }
        for (number, var) in vars.iter().enumerate() {
            let word = p.value_word(self.func.vars[*var].dtype)?;
            fields.push(format!("{word} v{number};"));
            values.push(self.vars[var].clone());
            let name = p.declare(*var);
            p.out.line(format!("const {word} {name} = all->v{number};"));
            // An extent of a buffer, which not every loop needs.
            p.out.line(format!("(void){name};"));
        }
        p.positions = self.positions.clone();
        for (number, buffer) in buffers.iter().enumerate() {
            let data = &self.func.buffers[*buffer];
            let word = self.dialect.word(stored_type(data.dtype))?;
            let constant = if written.contains(buffer) { "" } else { "const " };
            let restrict = if self.func.is_unaliased(*buffer) { "restrict " } else { "" };
            fields.push(format!("{word} *b{number};"));
            values.push(format!("({word} *){}", self.buffers[buffer]));
            let name = p.names.declare(&data.name);
            p.out.line(format!("{constant}{word} *{restrict}{name} = all->b{number};"));
            p.buffers.insert(*buffer, name);
        }
        p.counted(l, "begin", &Text::primary("end"))?;
        p.out.line("return 0;");
        p.out.close();
        let (body, inner) = (p.out.take(), p.parts);
        self.parts.push_str(&inner);
        self.parts.push_str(&format!(
            "struct {part} {{ {} }};\n{body}{}",
            fields.join(" "),
            task(&part)
        ));
        self.launch(l, &part, &values)
    }

    fn launch(&mut self, l: &For, part: &str, values: &[String]) -> Result<()> {
        let (min, extent) = (self.bound(&l.min)?, self.bound(&l.extent)?);
        self.out.open("");
        let mark = self.names.open();
        let all = self.names.declare("all");
        let status = self.names.declare("failed");
        let values: Vec<&str> = [min.as_str(), extent.as_str()]
            .into_iter()
            .chain(values.iter().map(String::as_str))
            .collect();
        self.out.line(format!("struct {part} {all} = {{ {} }};", values.join(", ")));
        self.out.line(format!(
            "const int32_t {status} = {all}.extent <= 1 ? {part}({all}.min, {all}.min + {all}.extent, &{all}) : __TVMBackendParallelLaunch({part}_task, &{all}, 0);"
        ));
        self.check_status(&status);
        self.names.close(mark);
        self.out.close();
        Ok(())
    }
}

/// The function of a task: the id-th of equal ranges, `ceil(extent / tasks)` each, the last ones fewer.
fn task(part: &str) -> String {
    format!(
        "static int32_t {part}_task(int32_t id, rf_tasks *tasks, void *data) {{
    const struct {part} *all = (const struct {part} *)data;
    const int64_t step = (all->extent + tasks->num_task - 1) / tasks->num_task, begin = id * step, end = begin + step;
    return {part}(all->min + (begin < all->extent ? begin : all->extent), all->min + (end < all->extent ? end : all->extent), all);
}}
"
    )
}
