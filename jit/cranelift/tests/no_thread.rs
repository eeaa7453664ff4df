//! If the system refuses the tier a thread, programs run interpreted and the reason is counted. The
//! test is alone in its process, whose memory it limits.

use std::sync::Arc;
use std::time::Duration;

use reflex_cranelift::{CraneliftTier, TierOptions};
use reflex_runtime::value::Any;
use reflex_vm::listing;
use reflex_vm::load::Library;
use reflex_vm::mode::Mode;
use reflex_vm::program::Program;
use reflex_vm::session::{Options, Session};
use reflex_vm::tier::Tier;
use reflex_vm::verify::verify;

const TEXT: &str = "@main(n) regs=2:\n  call  vm.builtin.copy in: %0 dst: %1\n  ret   %1\n";

/// Half of what a thread's stack takes.
const SPARE: u64 = 1 << 20;

/// Bytes of address space that the process takes.
fn taken() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096
}

fn limit(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a system call that reads the structure it is given.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

#[test]
fn no_thread_to_compile_on_is_a_reason() {
    let program = verify(listing::parse(TEXT).unwrap()).unwrap();
    let nothing: [&dyn Library; 0] = [];
    let program = Program::load(program, &nothing).unwrap();
    let options =
        TierOptions { threshold: 2, record_delay: Duration::ZERO, ..TierOptions::default() };
    let tier = Arc::new(CraneliftTier::with_options(options).unwrap());
    program.attach(Arc::clone(&tier) as Arc<dyn Tier>);
    let program = Arc::new(program);
    let options = Options { mode: Mode::Tiered, ..Options::default() };
    let mut session = Session::new(&program, options).unwrap();
    limit(taken() + SPARE);
    for at in 0..40_i64 {
        assert_eq!(session.call("main", &[Any::from(at)]).unwrap().view().as_int(), Some(at));
    }
    limit(libc::RLIM_INFINITY);
    assert_eq!(program.bailouts(), [("codegen", 3), ("blacklisted", 1)].into());
    let text = tier.overview(&program, None, None).to_string();
    assert!(text.contains("  entry: not compiled: blacklisted 1, codegen 3\n"), "{text}");
}
