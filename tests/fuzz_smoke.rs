//! Every oracle of `fuzz/` on a few dozen or hundred cases, the same ones in every run.
//!
//! `REFLEX_FUZZ_MS=60000 cargo test --test fuzz_smoke` searches new cases for a minute.

#[path = "common/property.rs"]
mod property;

use property::property;
use reflex_fuzz::graphs::{self, GraphCase};
use reflex_fuzz::models::{self, Ended, ModelCase};
use reflex_fuzz::oracles::{self, Tally};
use reflex_fuzz::rpc;
use reflex_fuzz::schedules::{self, ScheduleCase};
use reflex_fuzz::tracker;

#[test]
fn tiers() {
    let mut total = Tally::default();
    let mut programs = 0;
    property(200, |u| {
        total += oracles::tiers(&u.arbitrary()?);
        programs += 1;
        Ok(())
    });
    println!("{programs} programs, {total:?}");
    // Shares of few programs, which a slow build runs in a limited time, are chance.
    if programs < 50 {
        return;
    }
    // An oracle over programs that never get hot would say nothing.
    assert!(total.traces > programs / 4, "{total:?} in {programs} programs");
    assert!(total.exits > programs / 4, "{total:?} in {programs} programs");
    assert!(total.methods > programs / 4, "{total:?} in {programs} programs");
    assert!(total.side_traces > programs / 4, "{total:?} in {programs} programs");
    assert!(total.recursive > programs / 4, "{total:?} in {programs} programs");
    assert!(total.raw > programs / 4, "{total:?} in {programs} programs");
    assert!(total.evicted > programs / 4, "{total:?} in {programs} programs");
}

#[test]
fn threads() {
    let mut total = Tally::default();
    property(40, |u| {
        total += oracles::threads(&u.arbitrary()?);
        Ok(())
    });
    println!("{total:?}");
}

#[test]
fn schedules() {
    let (mut applied, mut functions) = (0, 0);
    property(60, |u| {
        let case: ScheduleCase = u.arbitrary()?;
        schedules::schedules(&case);
        functions += 1;
        applied += case.log.iter().filter(|step| !step.starts_with(' ')).count();
        Ok(())
    });
    assert!(applied > functions / 2, "{applied} steps on {functions} functions");
    println!("{functions} functions, {applied} steps");
}

/// Packets whose frames are right, with any code and body: random bytes are seldom packets.
#[test]
fn rpc_servers() {
    let mut answered = 0;
    property(400, |u| {
        let mut bytes = vec![];
        while bytes.len() < 1000 && !u.is_empty() {
            let length = u.int_in_range(0..=120_u64)?;
            bytes.extend((length + 4).to_le_bytes());
            bytes.extend(u.int_in_range(0..=22_i32)?.to_le_bytes());
            bytes.extend(u.bytes((length as usize).min(u.len()))?);
        }
        answered += usize::from(rpc::rpc(&bytes) > 100);
        Ok(())
    });
    assert!(answered > 0);
    println!("{answered} sessions with answers");
}

/// Requests of several connections, most of them well formed, a few keys for all.
#[test]
fn rpc_trackers() {
    let (mut answers, mut cases) = (0, 0);
    property(400, |u| {
        let mut bytes = vec![];
        while bytes.len() < 20_000 && !u.is_empty() {
            bytes.push(u.int_in_range(0..=tracker::CONNECTIONS)?);
            if bytes.last() == Some(&tracker::CONNECTIONS) {
                continue;
            }
            let (key, number) = (u.choose(&["a", "b", "c"])?, u.int_in_range(0..=5_u8)?);
            let message = match u.int_in_range(0..=9)? {
                0..=3 => format!(r#"[3,"{key}",[{number},"{key}:{number}"],null]"#),
                4..=6 => format!(r#"[4,"{key}","",{number}]"#),
                7 => format!(r#"[5,{{"key":"server:{key}","addr":[null,{number}]}}]"#),
                8 => format!("[{number}]"),
                _ => u.choose(&["[6]", "[7]", "[[]", "[3,\"a\"]"])?.to_string(),
            };
            bytes.extend((message.len() as i32).to_le_bytes());
            bytes.extend(message.as_bytes());
        }
        answers += tracker::tracker(&bytes);
        cases += 1;
        Ok(())
    });
    println!("{answers} answers in {cases} rows of requests");
    assert!(answers > cases, "{answers} answers in {cases} cases");
}

#[test]
fn graphs() {
    let (mut functions, mut branches, mut loops) = (0, 0, 0);
    property(150, |u| {
        let case: GraphCase = u.arbitrary()?;
        graphs::graphs(&case);
        functions += 1;
        branches += case.bodies[0];
        loops += case.bodies[1];
        Ok(())
    });
    assert!(branches > functions / 2, "{branches} branches in {functions} graphs");
    assert!(loops > functions / 4, "{loops} loops in {functions} graphs");
    println!("{functions} graphs, {branches} branches, {loops} loops");
}

#[test]
fn onnx_models() {
    let (mut agreed, mut failed, mut refused) = (0, 0, 0);
    property(150, |u| {
        let case: ModelCase = u.arbitrary()?;
        match models::models(&case) {
            Ended::Agreed => agreed += 1,
            Ended::Failed => failed += 1,
            Ended::Refused => refused += 1,
        }
        Ok(())
    });
    println!("{agreed} agreed, {failed} failed in both, {refused} refused");
    assert!(agreed > 2 * (failed + refused), "{agreed} agreed, {failed} failed, {refused} refused");
}

#[test]
fn onnx_maps() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = reflex::Engine::builder().cache(folder.path()).build().expect("an engine");
    property(60, |u| models::maps(&engine, u));
}
