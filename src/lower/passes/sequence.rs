//! Pipelines: which passes run, in which order, with which options.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use reflex_graph::Module;
use reflex_runtime::module::Module as RuntimeModule;
use reflex_tir::codegen::OptLevel;
use reflex_tir::schedule_trace::{Trace, parse_traces};

use super::table::{self, OPT_LEVEL, PASSES, PassInfo, PassKind, Settings};

/// A pass from outside: takes a module, gives one.
pub trait ModulePass: Send + Sync {
    /// The module after the pass; a message why there is none.
    fn run(&self, module: Module, made: &mut RuntimeModules) -> Result<Module, String>;
}

/// Runtime modules that passes made, whose functions the program calls by name.
#[derive(Clone, Default)]
pub struct RuntimeModules(Vec<MadeModule>);

/// A runtime module with the name of what made it.
#[derive(Clone)]
pub struct MadeModule {
    /// The name of the pass.
    pub by: String,
    /// The module.
    pub module: RuntimeModule,
}

impl RuntimeModules {
    /// Adds a module; one that is there already stays once.
    pub fn add(&mut self, by: &str, module: RuntimeModule) {
        if !self.0.iter().any(|made| made.module.same(&module)) {
            self.0.push(MadeModule { by: by.to_owned(), module });
        }
    }

    /// The modules, in the order in which they were made.
    pub fn modules(&self) -> &[MadeModule] {
        &self.0
    }
}

impl fmt::Debug for RuntimeModules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|made| &made.by)).finish()
    }
}

/// A step of a pipeline.
#[derive(Clone)]
pub struct Step {
    pub(super) pass: Pass,
    pub(super) settings: Settings,
}

/// The pass of a step.
#[derive(Clone)]
pub enum Pass {
    /// A row of the table.
    Own(&'static PassInfo),
    /// A pass from outside.
    Outside {
        /// The name that errors and instruments have for it.
        name: String,
        /// The pass.
        run: Arc<dyn ModulePass>,
    },
}

impl Step {
    /// The name of the pass.
    pub fn name(&self) -> &str {
        match &self.pass {
            Pass::Own(info) => info.name,
            Pass::Outside { name, .. } => name,
        }
    }

    /// The pass.
    pub fn pass(&self) -> &Pass {
        &self.pass
    }

    /// The options that are set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn is_of_kernels(&self) -> bool {
        matches!(&self.pass, Pass::Own(PassInfo { kind: PassKind::Kernel, .. }))
    }
}

/// The place of a pass from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// Directly before a pass.
    Before(&'a str),
    /// After a pass, and after those that were put there earlier.
    After(&'a str),
}

/// The steps of a compilation, in order.
#[derive(Clone)]
pub struct Pipeline {
    pub(super) steps: Vec<Step>,
    /// The schedules of kernels by name, in place of those that the rules choose.
    traces: BTreeMap<String, Arc<Trace>>,
}

impl Default for Pipeline {
    fn default() -> Pipeline {
        let own = |info| Step { pass: Pass::Own(info), settings: Settings::new() };
        Pipeline { steps: PASSES.iter().map(own).collect(), traces: BTreeMap::new() }
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pipeline({self})")
    }
}

/// The steps, one on a line: the name and the options that are set. After the pass `schedule` stand the
/// kernels that are scheduled by a trace.
impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.steps.iter().enumerate() {
            let line = if at == 0 { "" } else { "\n" };
            write!(f, "{line}{}", step.name())?;
            for (option, value) in &step.settings {
                write!(f, " {option}={value}")?;
            }
            if step.name() == table::SCHEDULE {
                self.traces.keys().try_for_each(|kernel| write!(f, " {kernel}=trace"))?;
            }
        }
        Ok(())
    }
}

/// The names of the pipelines that [`Pipeline::named`] knows.
pub const NAMES: [&str; 2] = ["default", "minimal"];

impl Pipeline {
    /// A pipeline by name: `default` has every pass, `minimal` those that are needed.
    pub fn named(name: &str) -> Result<Pipeline, String> {
        let mut pipeline = Pipeline::default();
        match name {
            "default" => {}
            "minimal" => {
                let is_needed = |step: &Step| matches!(step.pass, Pass::Own(info) if info.needed);
                pipeline.steps.retain(is_needed);
            }
            _ => return Err(format!("no pipeline {name:?}; there are {}", NAMES.join(" and "))),
        }
        Ok(pipeline)
    }

    /// The steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The steps that work on the module.
    pub fn module_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| !step.is_of_kernels())
    }

    /// True if a pass from outside is among the steps.
    pub fn has_outside(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.pass, Pass::Outside { .. }))
    }

    /// Returns the pipeline as far as it is our own: what kernels are compiled with, as passes from
    /// outside see the module only.
    pub fn without_outside(mut self) -> Pipeline {
        self.steps.retain(|step| matches!(step.pass, Pass::Own(_)));
        self
    }

    /// True if kernels are scheduled.
    pub fn schedules(&self) -> bool {
        self.steps.iter().any(|step| step.name() == table::SCHEDULE)
    }

    /// LLVM's level.
    pub fn opt_level(&self) -> OptLevel {
        let codegen = self.steps.iter().find(|step| step.name() == table::CODEGEN);
        match codegen.and_then(|step| step.settings.get(OPT_LEVEL.name)) {
            Some(0) => OptLevel::O0,
            _ => OptLevel::O3,
        }
    }

    /// Schedules kernels by the traces of a text, each the kernel of its name.
    pub fn add_traces(&mut self, text: &str) -> Result<(), String> {
        let traces = parse_traces(text).map_err(|e| e.to_string())?;
        if traces.is_empty() {
            return Err("there is no trace, `def KERNEL(sch):`".to_owned());
        }
        for trace in traces {
            if self.traces.contains_key(&trace.kernel) {
                return Err(format!("the kernel {} has two traces", trace.kernel));
            }
            self.traces.insert(trace.kernel.clone(), Arc::new(trace));
        }
        Ok(())
    }

    /// The traces by kernel.
    pub fn traces(&self) -> &BTreeMap<String, Arc<Trace>> {
        &self.traces
    }

    /// Leaves a pass out.
    pub fn remove(&mut self, pass: &str) -> Result<(), String> {
        let at = self.position(pass)?;
        match &self.steps[at].pass {
            Pass::Own(info) if info.needed => {
                Err(format!("no program is compiled without the pass {pass}"))
            }
            _ => {
                self.steps.remove(at);
                Ok(())
            }
        }
    }

    /// Sets an option of a pass.
    pub fn set(&mut self, pass: &str, option: &str, value: i64) -> Result<(), String> {
        let at = self.position(pass)?;
        let Pass::Own(info) = &self.steps[at].pass else {
            return Err(format!("the pass {pass} is from outside and declares no options"));
        };
        let Some(known) = info.option(option) else {
            let names: Vec<&str> = info.options.iter().map(|option| option.name).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(format!("the pass {pass} has no option {option:?}; it has {known}"));
        };
        let (least, most) = known.range;
        let is_level = known.name != OPT_LEVEL.name || value == least || value == most;
        if !(least..=most).contains(&value) || !is_level {
            return Err(format!(
                "{pass}.{option}={value}: it is {least} to {most}: {}",
                known.about
            ));
        }
        self.steps[at].settings.insert(known.name, value);
        Ok(())
    }

    /// Puts a pass from outside before or after a pass that works on the module.
    pub fn insert(
        &mut self,
        place: Place<'_>,
        name: &str,
        run: Arc<dyn ModulePass>,
    ) -> Result<(), String> {
        let (Place::Before(pass) | Place::After(pass)) = place;
        let mut at = self.position(pass)?;
        if self.steps[at].is_of_kernels() {
            return Err(format!(
                "the pass {pass} works on kernels, a pass from outside on modules"
            ));
        }
        if self.steps.iter().any(|step| step.name() == name) || table::find(name).is_some() {
            return Err(format!("there is a pass {name:?} already"));
        }
        if matches!(place, Place::After(_)) {
            at += 1;
            let is_outside = |step: &Step| matches!(step.pass, Pass::Outside { .. });
            while self.steps.get(at).is_some_and(is_outside) {
                at += 1;
            }
        }
        let pass = Pass::Outside { name: name.to_owned(), run };
        self.steps.insert(at, Step { pass, settings: Settings::new() });
        Ok(())
    }

    /// Puts a pass from outside before all of our own, after those that were put there earlier.
    pub fn insert_first(&mut self, name: &str, run: Arc<dyn ModulePass>) -> Result<(), String> {
        let own = self.steps.iter().find(|step| matches!(step.pass, Pass::Own(_)));
        let first = own.map(|step| step.name().to_owned());
        let first = first.ok_or("a pipeline without passes of our own")?;
        self.insert(Place::Before(&first), name, run)
    }

    /// Runs these passes on the module, in this order, and no others.
    pub fn reorder(&mut self, names: &[&str]) -> Result<(), String> {
        let mut ordered: Vec<Step> = Vec::new();
        for name in names {
            if ordered.iter().any(|step| step.name() == *name) {
                return Err(format!("the pass {name} stands twice in the order"));
            }
            let at = self.position(name)?;
            if self.steps[at].is_of_kernels() {
                return Err(format!("the pass {name} works on kernels, whose order is fixed"));
            }
            ordered.push(self.steps[at].clone());
        }
        ordered.extend(self.steps.iter().filter(|step| step.is_of_kernels()).cloned());
        check_order(&ordered)?;
        self.steps = ordered;
        Ok(())
    }

    fn position(&self, name: &str) -> Result<usize, String> {
        if let Some(at) = self.steps.iter().position(|step| step.name() == name) {
            return Ok(at);
        }
        match table::find(name) {
            Some(_) => Err(format!("the pass {name} is left out of this pipeline")),
            None => {
                let names: Vec<&str> = self.steps.iter().map(Step::name).collect();
                Err(format!("no pass {name:?}; there are {}", names.join(", ")))
            }
        }
    }
}

/// Checks that the needed passes are there, and that none stands before one it builds on.
fn check_order(steps: &[Step]) -> Result<(), String> {
    let at = |name: &str| steps.iter().position(|step| step.name() == name);
    let missing = PASSES.iter().find(|info| info.needed && at(info.name).is_none());
    if let Some(info) = missing {
        return Err(format!("no program is compiled without the pass {}", info.name));
    }
    for (here, step) in steps.iter().enumerate() {
        let Pass::Own(info) = &step.pass else { continue };
        if let Some(later) = info.after.iter().find(|name| at(name) > Some(here)) {
            return Err(format!(
                "the pass {} stands before {later}, which it builds on",
                info.name
            ));
        }
    }
    Ok(())
}
