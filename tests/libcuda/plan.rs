//! The plan of a run, from the environment variable `REFLEX_STANDIN`: parts between semicolons.
//!
//! | part | meaning |
//! |---|---|
//! | `seed=N` | the order of streams and threads; 0, the default, is in order and as late as can be |
//! | `devices=N` | devices, 2 by default |
//! | `sm=N` | their compute capability, 80 by default |
//! | `memory=BYTES` | memory of each, 1 GiB by default |
//! | `version=N` | the driver's, 12000 by default |
//! | `fail=NAME:N:STATUS` | the N-th call of a function, from 1, gives a status and does nothing |
//! | `cubins=FOLDER` | the cubins that run: in this folder, each beside the PTX that it was made of, as `NAME.cubin` and `NAME.ptx` (or `NAME.fatbin`); others are for no device that there is |
//! | `kernels=off` | launches are accepted and run nothing, for measuring what comes before them |
//! | `lanes=any` | a shuffle from a lane that does not take part gives any value, which is not used; else it is a fault |
//! | `late=N:STATUS` | the N-th launch gives a status when it runs |

use std::path::PathBuf;

/// The variable.
pub const VARIABLE: &str = "REFLEX_STANDIN";

/// The plan of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The order of streams and threads.
    pub seed: u64,
    /// Devices.
    pub devices: usize,
    /// Their compute capability, times ten.
    pub sm: i32,
    /// Memory of each, bytes.
    pub memory: u64,
    /// The driver's version.
    pub version: i32,
    /// The folder of the cubins that run, with their PTX.
    pub cubins: Option<PathBuf>,
    /// Whether kernels run.
    pub runs_kernels: bool,
    /// Whether shuffles may read lanes that do not take part.
    pub any_lanes: bool,
    /// Calls that fail.
    pub failures: Vec<Failure>,
    /// Launches that fail when they run: their numbers, from 1, and statuses.
    pub late: Vec<(u64, u32)>,
}

/// A call that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The function.
    pub function: String,
    /// Which call of it, from 1.
    pub call: u64,
    /// The status that it returns.
    pub status: u32,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            seed: 0,
            devices: 2,
            sm: 80,
            memory: 1 << 30,
            version: 12_000,
            cubins: None,
            runs_kernels: true,
            any_lanes: false,
            failures: vec![],
            late: vec![],
        }
    }
}

impl Plan {
    /// The plan of the environment. A part that is not understood ends the process: a test that
    /// plans nothing would pass for the wrong reason.
    pub fn of_environment() -> Plan {
        let text = std::env::var(VARIABLE).unwrap_or_default();
        Plan::parse(&text).unwrap_or_else(|part| {
            eprintln!("{VARIABLE}: cannot understand {part:?}");
            std::process::abort()
        })
    }

    /// Reads a plan; the error is the part that is not understood.
    pub fn parse(text: &str) -> Result<Plan, String> {
        let mut plan = Plan::default();
        for part in text.split(';').filter(|part| !part.trim().is_empty()) {
            plan.read(part.trim()).ok_or(part)?;
        }
        Ok(plan)
    }

    fn read(&mut self, part: &str) -> Option<()> {
        let (key, value) = part.split_once('=')?;
        match key {
            "seed" => self.seed = value.parse().ok()?,
            "devices" => self.devices = value.parse().ok()?,
            "sm" => self.sm = value.parse().ok()?,
            "memory" => self.memory = value.parse().ok()?,
            "version" => self.version = value.parse().ok()?,
            "cubins" => self.cubins = Some(value.into()),
            "kernels" if value == "off" => self.runs_kernels = false,
            "lanes" if value == "any" => self.any_lanes = true,
            "fail" => {
                let mut words = value.split(':');
                let function = words.next()?.to_owned();
                let (call, status) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                self.failures.push(Failure { function, call, status });
            }
            "late" => {
                let (launch, status) = value.split_once(':')?;
                self.late.push((launch.parse().ok()?, status.parse().ok()?));
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_whole() {
        let plan = Plan::parse("seed=3; devices=1;fail=cuMemAlloc_v2:2:2;late=1:700").unwrap();
        assert_eq!((plan.seed, plan.devices, plan.version), (3, 1, 12_000));
        let failure = Failure { function: "cuMemAlloc_v2".into(), call: 2, status: 2 };
        assert_eq!((plan.failures, plan.late), (vec![failure], vec![(1, 700)]));
        assert!(Plan::default().runs_kernels && !Plan::parse("kernels=off").unwrap().runs_kernels);
        assert!(Plan::parse("kernels=on").is_err());
        assert_eq!(Plan::parse("seeds=3"), Err("seeds=3".to_owned()));
        assert_eq!(Plan::parse(""), Ok(Plan::default()));
    }
}
