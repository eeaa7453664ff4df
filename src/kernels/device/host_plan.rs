//! The host's part of a GPU function as data: parameters, checks, intermediates, launches. A file
//! holds it beside the code of its kernels.
//!
//! Steps are in one list, those inside a step before it, so that they are decoded and checked
//! without recursion.
//!
//! Decision: docs/decisions/0061-host-entries.md

use reflex_runtime::device::{KernelSpec, TensorMap};
use reflex_runtime::dtype::DType;
use reflex_tir::codegen::{DeviceCode, DeviceKernel, TensorMap as TensorMapCode};
use reflex_tir::{Buffer, ForKind, IndexCheck, Param, PrimFunc, Stmt};
use serde::{Deserialize, Serialize};

use super::host_expr::{HostExpr, Slots};

/// Steps inside each other.
const DEPTH: u32 = 64;
/// Variables, and buffers, of a function.
const MOST: u32 = 1 << 16;

/// The host's part of a GPU function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostPlan {
    pub(super) name: String,
    pub(super) params: Vec<HostParam>,
    pub(super) checks: Vec<HostCheck>,
    /// The last step holds the others.
    pub(super) steps: Vec<HostStep>,
    /// The numbers of variables and of buffers.
    pub(super) slots: u32,
    pub(super) buffers: u32,
    pub(super) launches: Vec<HostLaunch>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum HostParam {
    Tensor { name: String, dtype: DType, shape: Vec<Extent>, buffer: u32 },
    Scalar { name: String, dtype: DType, slot: u32 },
}

/// An extent of a parameter: a variable takes the first extent that it meets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Extent {
    pub(super) value: HostExpr,
    /// The variable that the extent is, if it is one, and comes first here.
    pub(super) binds: Option<u32>,
}

/// A check of an index tensor, which is one of the parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HostCheck {
    pub(super) param: u32,
    pub(super) bounds: Vec<HostExpr>,
    pub(super) message: String,
}

/// The number of a step.
pub(super) type StepIndex = u32;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum HostStep {
    Seq(Vec<StepIndex>),
    Loop { slot: u32, min: HostExpr, extent: HostExpr, body: StepIndex },
    If { cond: HostExpr, then: StepIndex, otherwise: Option<StepIndex> },
    Let { slot: u32, value: HostExpr, body: StepIndex },
    Allocate { buffer: u32, count: HostExpr, dtype: DType, body: StepIndex },
    Launch(u32),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HostLaunch {
    /// The name of the kernel's entry.
    pub(super) kernel: String,
    pub(super) grid: [HostExpr; 3],
    pub(super) block: [u32; 3],
    pub(super) shared_bytes: u32,
    pub(super) buffers: Vec<u32>,
    pub(super) vars: Vec<u32>,
    /// Tensor maps, parameters behind those.
    pub(super) maps: Vec<HostMap>,
}

/// A tensor that a kernel copies boxes of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HostMap {
    /// The parameter that is its address.
    pub(super) param: u32,
    pub(super) dtype: DType,
    /// Extents, elements between neighbours, and elements of a box.
    pub(super) dims: Vec<(HostExpr, HostExpr, u32)>,
}

impl HostPlan {
    /// Builds the plan of a lowered function, whose launches are those of `code`.
    pub(crate) fn of(func: &PrimFunc, code: &DeviceCode) -> Result<HostPlan, String> {
        let mut builder = Builder { func, slots: Slots::default(), steps: vec![], launches: 0 };
        let named = |what: String| format!("kernel {}: {what}", func.name);
        let plan = builder.plan(code).map_err(named)?;
        plan.verify()?;
        Ok(plan)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The kernels that it launches, by number.
    pub(super) fn kernels(&self) -> Vec<KernelSpec> {
        let spec =
            |l: &HostLaunch| KernelSpec { name: l.kernel.clone(), shared_bytes: l.shared_bytes };
        self.launches.iter().map(spec).collect()
    }

    /// Checks a plan of any origin: what its steps refer to is there.
    pub(crate) fn verify(&self) -> Result<(), String> {
        let name = &self.name;
        self.verify_parts().map_err(|what| format!("the host's part of kernel {name}: {what}"))
    }

    fn verify_parts(&self) -> Result<(), String> {
        if self.slots > MOST || self.buffers > MOST {
            return Err(format!("{} variables and {} buffers", self.slots, self.buffers));
        }
        for param in &self.params {
            match param {
                HostParam::Scalar { slot, .. } => below(*slot, self.slots, "slot")?,
                HostParam::Tensor { shape, buffer, .. } => {
                    below(*buffer, self.buffers, "buffer")?;
                    for extent in shape {
                        extent.value.verify(self.slots)?;
                        extent.binds.map_or(Ok(()), |slot| below(slot, self.slots, "slot"))?;
                    }
                }
            }
        }
        for check in &self.checks {
            below(check.param, self.params.len() as u32, "parameter")?;
            check.bounds.iter().try_for_each(|bound| bound.verify(self.slots))?;
        }
        for launch in &self.launches {
            launch.grid.iter().try_for_each(|extent| extent.verify(self.slots))?;
            launch.buffers.iter().try_for_each(|at| below(*at, self.buffers, "buffer"))?;
            launch.vars.iter().try_for_each(|at| below(*at, self.slots, "slot"))?;
            for map in &launch.maps {
                below(map.param, launch.buffers.len() as u32, "buffer of a tensor map")?;
                if map.dtype.itemsize() != 2 || map.dims.is_empty() {
                    return Err(format!("a tensor map of {} dimensions", map.dims.len()));
                }
                below(map.dims.len() as u32, TensorMap::MOST_DIMS as u32 + 1, "dimension")?;
                for (extent, stride, _) in &map.dims {
                    extent.verify(self.slots)?;
                    stride.verify(self.slots)?;
                }
            }
        }
        self.verify_steps()
    }

    /// Checks that the steps are a tree of limited depth, with the last one as its root.
    fn verify_steps(&self) -> Result<(), String> {
        let mut depths = Vec::with_capacity(self.steps.len());
        let mut is_inside = vec![false; self.steps.len()];
        for (at, step) in self.steps.iter().enumerate() {
            self.verify_step(step)?;
            let mut depth = 0;
            for inner in step.inner() {
                below(inner, at as u32, "step")?;
                if std::mem::replace(&mut is_inside[inner as usize], true) {
                    return Err(format!("step {inner} is inside two"));
                }
                depth = depth.max(depths[inner as usize] + 1);
            }
            if depth > DEPTH {
                return Err(format!("more than {DEPTH} steps inside each other"));
            }
            depths.push(depth);
        }
        match is_inside.split_last() {
            Some((false, others)) if others.iter().all(|inside| *inside) => Ok(()),
            _ => Err("its steps are not one tree".to_owned()),
        }
    }

    fn verify_step(&self, step: &HostStep) -> Result<(), String> {
        match step {
            HostStep::Seq(_) => Ok(()),
            HostStep::Loop { slot, min, extent, .. } => {
                below(*slot, self.slots, "slot")?;
                min.verify(self.slots)?;
                extent.verify(self.slots)
            }
            HostStep::If { cond, .. } => cond.verify(self.slots),
            HostStep::Let { slot, value, .. } => {
                below(*slot, self.slots, "slot")?;
                value.verify(self.slots)
            }
            HostStep::Allocate { buffer, count, .. } => {
                below(*buffer, self.buffers, "buffer")?;
                count.verify(self.slots)
            }
            HostStep::Launch(at) => below(*at, self.launches.len() as u32, "launch"),
        }
    }
}

fn below(at: u32, count: u32, what: &str) -> Result<(), String> {
    if at < count { Ok(()) } else { Err(format!("{what} {at} of {count}")) }
}

impl HostStep {
    /// The steps inside it.
    fn inner(&self) -> Vec<StepIndex> {
        match self {
            HostStep::Seq(steps) => steps.clone(),
            HostStep::Loop { body, .. }
            | HostStep::Let { body, .. }
            | HostStep::Allocate { body, .. } => vec![*body],
            HostStep::If { then, otherwise, .. } => [*then].into_iter().chain(*otherwise).collect(),
            HostStep::Launch(_) => vec![],
        }
    }
}

struct Builder<'f> {
    func: &'f PrimFunc,
    slots: Slots,
    steps: Vec<HostStep>,
    /// The launches of the steps so far.
    launches: u32,
}

fn number(buffer: Buffer) -> u32 {
    buffer.as_u32()
}

impl Builder<'_> {
    fn plan(&mut self, code: &DeviceCode) -> Result<HostPlan, String> {
        let params = self.params()?;
        let checks = self.func.checks.iter().map(|check| self.check(check));
        let checks = checks.collect::<Result<_, _>>()?;
        self.step(&self.func.body)?;
        if self.launches as usize != code.kernels.len() {
            let kernels = code.kernels.len();
            return Err(format!("{} launches of {kernels} kernels", self.launches));
        }
        let launches = code.kernels.iter().map(|kernel| self.launch(kernel));
        let launches = launches.collect::<Result<_, _>>()?;
        Ok(HostPlan {
            name: self.func.name.clone(),
            params,
            checks,
            steps: std::mem::take(&mut self.steps),
            slots: self.slots.count(),
            buffers: self.func.buffers.len() as u32,
            launches,
        })
    }

    fn params(&mut self) -> Result<Vec<HostParam>, String> {
        let mut bound = vec![];
        let func = self.func;
        let mut of = |param: &Param| match *param {
            Param::Scalar(var) => {
                let data = &func.vars[var];
                if !data.dtype.is_int() {
                    return Err(format!("a parameter of {}", data.dtype));
                }
                let slot = self.slots.of(var);
                bound.push(slot);
                Ok(HostParam::Scalar { name: data.name.to_string(), dtype: data.dtype, slot })
            }
            Param::Buffer(buffer) => {
                let data = &func.buffers[buffer];
                let mut extent = |e: &reflex_tir::Expr| {
                    let value = HostExpr::of(e, &mut self.slots)?;
                    let binds = value.as_slot().filter(|slot| !bound.contains(slot));
                    bound.extend(binds);
                    Ok(Extent { value, binds })
                };
                let shape = data.shape.iter().map(&mut extent).collect::<Result<_, String>>()?;
                let (name, dtype) = (data.name.clone(), data.dtype);
                Ok(HostParam::Tensor { name, dtype, shape, buffer: number(buffer) })
            }
        };
        func.params.iter().map(&mut of).collect()
    }

    fn check(&mut self, check: &IndexCheck) -> Result<HostCheck, String> {
        let is = |param: &Param| matches!(param, Param::Buffer(buffer) if *buffer == check.buffer);
        let param = self.func.params.iter().position(is);
        let param = param.ok_or("an index tensor that is no parameter")? as u32;
        let bounds = check.bounds.iter().map(|bound| HostExpr::of(bound, &mut self.slots));
        let bounds = bounds.collect::<Result<_, _>>()?;
        Ok(HostCheck { param, bounds, message: check.message() })
    }

    /// Adds a step after those inside it.
    fn step(&mut self, stmt: &Stmt) -> Result<StepIndex, String> {
        let step = match reflex_tir::launch::Launch::of(stmt) {
            Some(_) => {
                self.launches += 1;
                HostStep::Launch(self.launches - 1)
            }
            None => self.step_of(stmt)?,
        };
        self.steps.push(step);
        Ok(self.steps.len() as u32 - 1)
    }

    fn step_of(&mut self, stmt: &Stmt) -> Result<HostStep, String> {
        Ok(match stmt {
            Stmt::Seq(list) => {
                HostStep::Seq(list.iter().map(|s| self.step(s)).collect::<Result<_, _>>()?)
            }
            Stmt::For(l) if l.kind == ForKind::Serial => HostStep::Loop {
                slot: self.slots.of(l.var),
                min: HostExpr::of(&l.min, &mut self.slots)?,
                extent: HostExpr::of(&l.extent, &mut self.slots)?,
                body: self.step(&l.body)?,
            },
            Stmt::If { cond, then, otherwise } => HostStep::If {
                cond: HostExpr::of(cond, &mut self.slots)?,
                then: self.step(then)?,
                otherwise: match otherwise {
                    Some(otherwise) => Some(self.step(otherwise)?),
                    None => None,
                },
            },
            Stmt::Let { var, value, body } => HostStep::Let {
                slot: self.slots.of(*var),
                value: HostExpr::of(value, &mut self.slots)?,
                body: self.step(body)?,
            },
            Stmt::Allocate { buffer, body } => {
                let data = &self.func.buffers[*buffer];
                let mut count = HostExpr::int(1);
                for extent in &data.shape {
                    count = count.times(HostExpr::of(extent, &mut self.slots)?);
                }
                let body = self.step(body)?;
                HostStep::Allocate { buffer: number(*buffer), count, dtype: data.dtype, body }
            }
            Stmt::For(_)
            | Stmt::Block(_)
            | Stmt::Store { .. }
            | Stmt::While { .. }
            | Stmt::Tile(_)
            | Stmt::CallPacked(_)
            | Stmt::Barrier(_) => return Err("a statement that the host cannot run".to_owned()),
        })
    }

    fn launch(&mut self, kernel: &DeviceKernel) -> Result<HostLaunch, String> {
        let [x, y, z] = &kernel.grid;
        let slots = &mut self.slots;
        let grid = [HostExpr::of(x, slots)?, HostExpr::of(y, slots)?, HostExpr::of(z, slots)?];
        let float = kernel.vars.iter().find(|var| self.func.vars[**var].dtype.is_float());
        if let Some(var) = float {
            return Err(format!("the float {} for a kernel", self.func.vars[*var].name));
        }
        let maps = kernel.maps.iter().map(|map| self.map(kernel, map));
        let maps = maps.collect::<Result<_, String>>()?;
        Ok(HostLaunch {
            kernel: kernel.name.clone(),
            grid,
            block: kernel.block,
            shared_bytes: kernel.shared_bytes,
            buffers: kernel.buffers.iter().map(|buffer| number(*buffer)).collect(),
            vars: kernel.vars.iter().map(|var| self.slots.of(*var)).collect(),
            maps,
        })
    }

    fn map(&mut self, kernel: &DeviceKernel, map: &TensorMapCode) -> Result<HostMap, String> {
        let param = kernel.buffers.iter().position(|buffer| *buffer == map.buffer);
        let param = param.ok_or("a tensor map of a buffer that is no parameter")? as u32;
        let dims = map.dims.iter().map(|(extent, stride, count)| {
            let slots = &mut self.slots;
            Ok((HostExpr::of(extent, slots)?, HostExpr::of(stride, slots)?, *count))
        });
        let dims = dims.collect::<Result<_, String>>()?;
        Ok(HostMap { param, dtype: self.func.buffers[map.buffer].dtype, dims })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(steps: Vec<HostStep>) -> HostPlan {
        let one = || HostExpr::int(1);
        let launch = HostLaunch {
            kernel: "k".to_owned(),
            grid: [one(), one(), one()],
            block: [32, 1, 1],
            shared_bytes: 0,
            buffers: vec![1],
            vars: vec![0],
            maps: vec![],
        };
        let (params, checks, launches) = (vec![], vec![], vec![launch]);
        HostPlan { name: "f".to_owned(), params, checks, steps, slots: 1, buffers: 2, launches }
    }

    #[test]
    fn damaged_plans_are_refused_by_name() {
        let launch = || HostStep::Launch(0);
        let seq = |steps: &[u32]| HostStep::Seq(steps.to_vec());
        let set = |body| HostStep::Let { slot: 0, value: HostExpr::int(2), body };
        plan(vec![launch(), launch(), seq(&[0, 1])]).verify().unwrap();
        let mut chain = vec![launch()];
        chain.extend((0..DEPTH + 1).map(set));
        for (steps, words) in [
            (vec![], "not one tree"),
            (vec![launch(), launch()], "not one tree"),
            (vec![seq(&[0])], "step 0 of 0"),
            (vec![launch(), seq(&[0, 0])], "step 0 is inside two"),
            (vec![HostStep::Launch(1)], "launch 1 of 1"),
            (vec![launch(), HostStep::Let { slot: 1, value: HostExpr::int(0), body: 0 }], "slot 1"),
            (chain, "more than 64 steps"),
        ] {
            let error = plan(steps).verify().unwrap_err();
            assert!(error.starts_with("the host's part of kernel f: "), "{error}");
            assert!(error.contains(words), "{error}");
        }
        let mut many = plan(vec![launch()]);
        many.slots = MOST + 1;
        assert!(many.verify().unwrap_err().contains("variables"));
        let mut buffers = plan(vec![launch()]);
        buffers.buffers = 1;
        assert!(buffers.verify().unwrap_err().contains("buffer 1 of 1"));
    }
}
