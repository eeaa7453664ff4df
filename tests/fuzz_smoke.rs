//! Every oracle of `fuzz/`, for a short time on random bytes.
//!
//! `ARBTEST_BUDGET_MS=60000 cargo test --test fuzz_smoke` digs longer; a failure prints a seed to
//! repeat it with.

use reflex_fuzz::oracles::{self, Tally};
use reflex_fuzz::schedules::{self, ScheduleCase};

/// Time for each oracle, unless the environment says otherwise.
const BUDGET_MS: u64 = 4_000;

#[test]
fn tiers() {
    let mut total = Tally::default();
    let mut programs = 0;
    let property = |u: &mut arbtest::arbitrary::Unstructured<'_>| {
        let tally = oracles::tiers(&u.arbitrary()?);
        programs += 1;
        total.traces += tally.traces;
        total.exits += tally.exits;
        total.whole += tally.whole;
        Ok(())
    };
    let test = arbtest::arbtest(property).size_max(2_000);
    match std::env::var_os("ARBTEST_BUDGET_MS") {
        Some(_) => test.run(),
        None => test.budget_ms(BUDGET_MS).run(),
    };
    // An oracle over programs that never get hot would say nothing.
    assert!(total.traces > programs / 4, "{total:?} in {programs} programs");
    assert!(total.exits > programs / 4, "{total:?} in {programs} programs");
    assert!(total.whole > programs / 4, "{total:?} in {programs} programs");
    println!("{programs} programs, {total:?}");
}

#[test]
fn schedules() {
    let (mut applied, mut functions) = (0, 0);
    let property = |u: &mut arbtest::arbitrary::Unstructured<'_>| {
        let case: ScheduleCase = u.arbitrary()?;
        schedules::schedules(&case);
        functions += 1;
        applied += case.log.iter().filter(|step| !step.starts_with(' ')).count();
        Ok(())
    };
    let test = arbtest::arbtest(property).size_max(2_000);
    match std::env::var_os("ARBTEST_BUDGET_MS") {
        Some(_) => test.run(),
        None => test.budget_ms(BUDGET_MS).run(),
    };
    assert!(applied > functions / 2, "{applied} steps on {functions} functions");
    println!("{functions} functions, {applied} steps");
}
