//! Random loop functions under random legal schedules.

use arbitrary::{Arbitrary, Result, Unstructured};
use reflex_tir::eval::{self, EvalArg};
use reflex_tir::fuzzgen;
use reflex_tir::lower::PASSES;
use reflex_tir::schedule::Schedule;
use reflex_tir::script;
use reflex_tir::verify::{IrForm, verify};
use reflex_tir::{DType, PrimFunc, Stmt};

/// Types that functions compute in.
const TYPES: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::I32];

/// A function, what a schedule made of it, and arguments.
#[derive(Debug)]
pub struct ScheduleCase {
    /// As generated.
    pub func: PrimFunc,
    /// As scheduled.
    pub scheduled: PrimFunc,
    /// The steps that led there, and in parentheses those that were refused.
    pub log: Vec<String>,
    /// For either function.
    pub args: Vec<EvalArg>,
}

impl<'a> Arbitrary<'a> for ScheduleCase {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<ScheduleCase> {
        let func = fuzzgen::func(u, &TYPES)?;
        let mut schedule = Schedule::new(func.clone());
        let mut log = fuzzgen::steps(u, &mut schedule, 10)?;
        log.extend(fuzzgen::bindings(u, &mut schedule)?);
        let symbol = u.int_in_range(1..=9)?;
        let args = fuzzgen::arguments(u, &func, symbol)?;
        Ok(ScheduleCase { func, scheduled: schedule.into_func(), log, args })
    }
}

/// A scheduled function is well formed, reads back from its text, and computes bit for bit what
/// it did before; so does every stage of its lowering, but for what the polynomials of
/// `lower_math` change.
pub fn schedules(case: &ScheduleCase) {
    let what = |stage: &str, func: &PrimFunc| {
        format!("{stage}\n{}\n{}", case.log.join("\n"), script::print(func))
    };
    let mut expected = case.args.clone();
    let before = eval::eval(&case.func, &mut expected);
    assert_eq!(before, Ok(()), "{}", what("generated", &case.func));
    let agrees = |stage: &str, func: &PrimFunc| {
        assert_eq!(verify(func, form(func)), Ok(()), "{}", what(stage, func));
        let mut actual = case.args.clone();
        let ran = eval::eval(func, &mut actual);
        assert_eq!(ran, Ok(()), "{}", what(stage, func));
        assert!(actual == expected, "results differ\n{}", what(stage, func));
    };
    let reads_back = |stage: &str, func: &PrimFunc| {
        let text = script::print(func);
        let again = script::parse(&text).map(|f| script::print(&f));
        assert_eq!(again.as_ref(), Ok(&text), "{}", what(stage, func));
    };
    agrees("scheduled", &case.scheduled);
    reads_back("scheduled", &case.scheduled);
    let mut func = case.scheduled.clone();
    for (name, pass) in PASSES.iter().filter(|(name, _)| *name != "lower_math") {
        func = pass(&func);
        agrees(name, &func);
    }
    reads_back("lowered", &func);
}

fn form(func: &PrimFunc) -> IrForm {
    let mut form = IrForm::Lowered;
    func.body.visit(&mut |s| {
        if matches!(s, Stmt::Block(_)) {
            form = IrForm::Scheduled;
        }
    });
    form
}
