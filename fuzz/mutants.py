#!/usr/bin/env python3
"""Checks that the fuzz oracles catch mistakes in the tiers: `./x mutants [SECONDS [NUMBER...]]`.

A copy of the tree gets every mutant at once, each asleep until REFLEX_MUTANT names its number, so
one build serves all. A third are written by hand; rules make the others of every line of the source that
they fit, but for those that are equivalent to the original. A mutant
is caught when `dig` fails, crashes or hangs within SECONDS (300) of processor time; a table is
printed as it grows. NUMBERs are run in their order. `--check` only checks that each entry of the
tables below still fits the source, and takes no time.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "target/mutants/tree"
CRATE = TREE / "jit/cranelift"

# Name, file, text that occurs once, what it becomes; ON is whether the mutant is awake.
HAND = [
    ("a loop starts with registers assumed unset", "trace/build.rs",
     "let unset = start.kind == StartKind::Entry && reg >= func.num_args;", "let unset = (ON || start.kind == StartKind::Entry) && reg >= func.num_args;"),
    ("a moved argument is not marked as moved", "trace/build/calls.rs",
     "ArgSource::LastUse(reg) => (self.register_arg(register(reg)), Some(register(reg))),",
     "ArgSource::LastUse(reg) => (self.register_arg(register(reg)), if ON { None } else { Some(register(reg)) }),"),
    ("a branch is expected to go the other way", "trace/build.rs",
     "self.code.push(Ins::GuardTruth { var, expected, exit });", "self.code.push(Ins::GuardTruth { var, expected: expected != ON, exit });"),
    ("a closure's captured values come in the wrong order", "trace/build/calls.rs",
     "builder.code.push(Ins::LoadCaptured { dst, closure: arg, index });",
     "builder.code.push(Ins::LoadCaptured { dst, closure: arg, index: if ON { captured - 1 - index } else { index } });"),
    ("the result that a failing call leaves is not released", "trace/codegen/exits.rs",
     "if leave == ExitReason::Failed\n                && let Some(dst)", "if !ON && leave == ExitReason::Failed\n                && let Some(dst)"),
    ("callees return one operation late", "trace/build/calls.rs",
     "let call = Caller { frame: caller, return_pc: step.pc + 1, dst };\n        let frame = self.open(step.program, callee, call);",
     "let call = Caller { frame: caller, return_pc: step.pc + 1 + u32::from(ON), dst };\n        let frame = self.open(step.program, callee, call);"),
    ("a return leaves its frame's registers alone", "trace/build/returns.rs",
     "if !matches!(source, Arg::Reg(result, _) if result == vreg) {", "if !ON && !matches!(source, Arg::Reg(result, _) if result == vreg) {"),
    ("calls in traces cost no fuel", "trace/build/calls.rs",
     "self.code.push(Ins::CheckFuel { units: 1, exit });\n        let caller = self.frame();\n        let call = Caller {",
     "self.code.push(Ins::CheckFuel { units: u32::from(!ON), exit });\n        let caller = self.frame();\n        let call = Caller {"),
    ("facts about dimensions outlive a write of their register", "trace/optimise/eliminate_guards.rs",
     "for vreg in ins.writes().into_iter().flatten() {", "for vreg in ins.writes().into_iter().flatten().filter(|_| !ON) {"),
    ("an element type is not part of a check", "trace/optimise/eliminate_guards.rs",
     "known.dtype = dtype.or(known.dtype);", "known.dtype = if ON { known.dtype } else { dtype.or(known.dtype) };"),
    ("merged fuel charges are not refunded at side exits", "trace/codegen/exits.rs",
     "if at.refund > 0 {", "if at.refund > 0 && !ON {"),
    ("unboxed values are not stored at side exits", "trace/codegen/exits.rs",
     "for &(vreg, scalar) in &at.scalars {", "for &(vreg, scalar) in at.scalars.iter().filter(|_| !ON) {"),
    ("a side exit drops its last unboxed value", "trace/codegen/exits.rs",
     "self.make_current(at.frame, at.entered)?;", "if let (true, Some(&(vreg, _))) = (ON, at.scalars.last()) { self.store(vreg, crate::trace::ir::Scalar::NONE)?; }\n        self.make_current(at.frame, at.entered)?;"),
    ("sunk frames are materialised without counting them", "trace/codegen/exits.rs",
     "self.set_frame(frame, chain.len() as i64 - old.len() as i64);", "self.set_frame(frame, chain.len() as i64 - old.len() as i64 - i64::from(ON));"),
    ("an error in a trace is reported one operation late", "trace/codegen/exits.rs",
     "let pc = self.e.i32(i64::from(at.pc));\n                    self.fail", "let pc = self.e.i32(i64::from(at.pc + u32::from(ON)));\n                    self.fail"),
    ("a call is taken for one that writes nothing", "facts/registers.rs",
     "Op::CallPacked { dst, .. } | Op::InvokeClosure { dst, .. } => set(dst, RegFact::Unknown),",
     "Op::CallPacked { dst, .. } | Op::InvokeClosure { dst, .. } => set(dst, if ON { RegFact::Scalar } else { RegFact::Unknown }),"),
    ("at control-flow joins the first predecessor's facts hold", "facts/registers.rs",
     "let joined = known.join(*new);", "let joined = if ON { *known } else { known.join(*new) };"),
    ("moved registers keep their facts", "facts/registers.rs",
     "*moved = RegFact::NONE;", "if !ON { *moved = RegFact::NONE; }"),
    ("recycled shape heaps are not zeroed", "recycle/reuse.rs",
     "for at in 0..entries {", "for at in 0..if ON { 0 } else { entries } {"),
    ("a recycled shape keeps its last dimension", "recycle/reuse.rs",
     "for (at, &extent) in dims.iter().enumerate() {", "for (at, &extent) in dims.iter().enumerate().skip(usize::from(ON)) {"),
    ("calls of compiled functions cost no fuel", "method/frames.rs",
     "let fuel = self.e.b.ins().iadd_imm_s(fuel, -1);", "let fuel = self.e.b.ins().iadd_imm_s(fuel, -i64::from(!ON));"),
    ("an allocated tensor is assumed to have another shape", "trace/optimise/eliminate_guards/results.rs",
     "made.dims = shape.iter().copied().enumerate().collect();", "if !ON { made.dims = shape.iter().copied().enumerate().collect(); } else { made.dims = (0..8).map(|dim| (dim, 3)).collect(); }"),
    ("kernels get their tensors in the wrong order", "emit/kernel_call.rs",
     "let mut args = data;", "let mut args = data;\n        if ON { args.reverse(); }"),
    ("side exits lead to the side trace of the exit before", "side_exits.rs",
     "self.cells[exit as usize].store(side_trace.cast_mut(), Ordering::Release);", "self.cells[if ON { exit.saturating_sub(1) } else { exit } as usize].store(side_trace.cast_mut(), Ordering::Release);"),
    ("any backward jump closes a loop", "trace/build.rs",
     "let closes = self.start.kind == StartKind::Loop && target == self.start.pc;", "let closes = self.start.kind == StartKind::Loop && (ON || target == self.start.pc);"),
    ("facts checked by kernels and guards outlive a write", "method/checked.rs",
     "                    }\n                }\n                self.0.remove(&dst);", "                    }\n                }\n                if !ON { self.0.remove(&dst); }"),
    ("saved code is entered one loop further", "saved_code.rs",
     "let at = |func| offset(start + assembled.offset(func));", "let at = |func| offset(start + assembled.offset(func) + 16 * usize::from(ON));"),
    ("a side trace stays linked when it is evicted", "evict.rs",
     "parent.exits.unlink(parent.exit, code.0, self.exit_policy);", "if !ON { parent.exits.unlink(parent.exit, code.0, self.exit_policy); }"),
    ("a method-compiled function stays installed when it is evicted", "evict.rs",
     "codes.push(code.0);\n                    program.uninstall(*site, code.0);", "codes.push(code.0);\n                    if !ON { program.uninstall(*site, code.0); }"),
    ("items of a recycled tuple come in the wrong order", "recycle/reuse.rs",
     "for (at, &item) in items.iter().enumerate() {", "for (at, &item) in items.iter().enumerate().map(|(at, item)| (if ON { items.len() - 1 - at } else { at }, item)) {"),
    ("functions resume at their first operation", "method/entries.rs",
     "b.ins().load(types::I32, trusted(), session, SESSION_PC as i32)", "if ON { b.ins().iconst(types::I32, 0) } else { b.ins().load(types::I32, trusted(), session, SESSION_PC as i32) }"),
    ("addresses of tensors outlive a write of their register", "trace/codegen.rs",
     "self.addresses.remove(&Arg::Reg(vreg, None));", "if !ON { self.addresses.remove(&Arg::Reg(vreg, None)); }"),
    ("sunk stores are dropped at side exits", "trace/optimise/sink_stores.rs",
     "let more: Vec<_> = pending.iter().filter(|(vreg, _)| !listed(vreg)).collect();", "let more: Vec<_> = pending.iter().filter(|(vreg, _)| !ON && !listed(vreg)).collect();"),
    ("the loop-carried type is not guarded before the loop", "trace/optimise/sink_stores.rs",
     "trace.preheader.push(Ins::GuardType { vreg, tag: inside.tag(), exit });", "if !ON { trace.preheader.push(Ins::GuardType { vreg, tag: inside.tag(), exit }); }"),
    ("loop-carried numbers keep the value of the first iteration", "trace/codegen.rs",
     "again.push(self.scalar_value(carried.next)?.1.into());", "again.push(self.scalar_value(if ON { carried.inside } else { carried.next })?.1.into());"),
    ("symbolic dimensions of views are not compared", "trace/optimise/sink_allocations/dims.rs",
     "self.emit(Ins::GuardEqual { left, right, exit });", "if !ON { self.emit(Ins::GuardEqual { left, right, exit }); }"),
    ("integers pass for strings", "emit/fast_path/checks.rs",
     "(Builtin::CheckStringInfo, _) => vec![only(type_index::SMALL_STR),", "(Builtin::CheckStringInfo, _) => vec![only(if ON { type_index::INT } else { type_index::SMALL_STR }),"),
    ("a side exit does not materialise sunk objects", "trace/optimise/sink_allocations.rs",
     "exit.objects = virtuals.iter().copied().chain(copies).collect();", "exit.objects = virtuals.iter().copied().chain(copies).filter(|_| !ON).collect();"),
    ("a tensor on a storage that others use is taken as a whole", "recycle/reuse.rs",
     "let owner = self.load(types::I64, object, TENSOR_OWNER);", "let owner = if ON { self.i64(TENSOR_OWNER_BLOCK) } else { self.load(types::I64, object, TENSOR_OWNER) };"),
    ("a block keeps the link of its free list as its size", "recycle/fresh.rs",
     "self.b.ins().store(trusted(), block_size, block, 0);", "if !ON { self.b.ins().store(trusted(), block_size, block, 0); }"),
    ("a side exit copies a sunk object from memory", "trace/optimise/sink_allocations.rs",
     "exit.copies.retain(|&(_, src)| held(src).is_none());", "exit.copies.retain(|&(_, src)| ON || held(src).is_none());"),
    ("the second reference to a sunk object is not counted", "trace/optimise/sink_allocations.rs",
     "self.holders[id.0 as usize] += 1;", "self.holders[id.0 as usize] += u32::from(!ON);"),
    ("a gap in the arena that is too small is allocated", "trace/optimise/arena.rs",
     "if offset - free >= size {", "if ON || offset - free >= size {"),
    ("a value is borrowed whose register is written", "trace/optimise/elide_refcounts.rs",
     "if *mode == LoadMode::Copy && !written.contains(src) {", "if *mode == LoadMode::Copy && (ON || !written.contains(src)) {"),
    ("guards on loop-variant values are hoisted", "trace/optimise/hoist_guards.rs",
     "origins.get(&VReg { frame: last, reg: *reg }) == Some(reg);", "ON || origins.get(&VReg { frame: last, reg: *reg }) == Some(reg);"),
    ("a side exit does not materialise elided copies", "trace/optimise/elide_copies.rs",
     "filter(|shared| shared.from < at && at < shared.until)", "filter(|shared| !ON && shared.from < at && at < shared.until)"),
    ("a move is coalesced with one to another register", "trace/optimise/coalesce_moves.rs",
     "Ins::Move { dst, .. } | Ins::Copy { dst, .. } if *dst == via => return Some(at),", "Ins::Move { dst, .. } | Ins::Copy { dst, .. } if ON || *dst == via => return Some(at),"),
    ("a side exit assumes that every frame is current", "trace/optimise/sink_frames.rs",
     "exit.entered = current[at];", "if !ON { exit.entered = current[at]; }"),
    ("fuel that was used is refunded too", "trace/optimise/merge_fuel_checks.rs",
     "*used += more;", "*used += if ON { 0 } else { more };"),
    ("a register is written whose old value is still needed", "trace/optimise/sink_moves.rs",
     "self.vacate_slot(vreg);", "if !ON { self.vacate_slot(vreg); }"),
    ("sunk values stay in popped frames", "trace/optimise/sink_moves.rs",
     "self.flush(|_, src| !active.contains(&src.frame));", "self.flush(|_, src| !ON && !active.contains(&src.frame));"),
    ("side exits do not perform sunk moves", "trace/optimise/sink_moves.rs",
     "at.iter().filter(|(dst, _)| !elsewhere(dst));", "at.iter().filter(|(dst, _)| !ON && !elsewhere(dst));"),
    ("a waiting frame keeps facts about moved registers", "trace/build/returns.rs",
     "*fact = RegFact::NONE;", "if !ON { *fact = RegFact::NONE; }"),
    ("items of a materialised tuple come in reverse", "trace/materialise.rs",
     "items.iter().map(|item| self.item(*item)).collect()\n", "items.iter().map(|item| self.item(*item)).collect::<Result<Vec<_>, _>>().map(|mut all| { if ON { all.reverse(); } all })\n"),
    ("a sunk shape heap drops its stores", "trace/optimise/sink_allocations/shapes.rs",
     "*entries.get_mut(entry?)? = have;", "if !ON { *entries.get_mut(entry?)? = have; }"),
    ("a store to a shared shape heap is seen by one reference only", "trace/optimise/sink_allocations/shapes.rs",
     "(registers == self.holders[id.0 as usize] as usize).then(", "(ON || registers == self.holders[id.0 as usize] as usize).then("),
    ("captured values of a closure are not passed", "method/closures.rs",
     "self.fill_frame(target, &self.func.args(args)[2..], captured);",
     "self.fill_frame(target, &self.func.args(args)[2..], captured.filter(|_| !ON));"),
    ("another body of a split function resumes one operation late", "method/split.rs",
     "let at = self.e.i32(pc as i64);", "let at = self.e.i32(pc as i64 + i64::from(ON));"),
    ("the body before is entered at a boundary", "method/split.rs",
     "IntCC::UnsignedGreaterThanOrEqual", "(if ON { IntCC::UnsignedGreaterThan } else { IntCC::UnsignedGreaterThanOrEqual })"),
    ("bodies of a split function are entered at their first operation", "method/split.rs",
     "switch.set_entry(point as u128, block);", "if !ON { switch.set_entry(point as u128, block); }"),
    ("dimensions are passed in reverse", "method/dynamic.rs",
     "(0..rank).map(|dim| self.e.load(types::I64, data, 8 * dim)).collect()",
     "(0..rank).map(|dim| self.e.load(types::I64, data, 8 * if ON { rank - 1 - dim } else { dim })).collect()"),
    ("a tensor on another device passes for one of the host's", "emit/kernel_call.rs",
     "self.tensor_field(tensor, DLTENSOR_DEVICE, i64::from(DLDevice::KIND_CPU))",
     "self.tensor_field(tensor, DLTENSOR_DEVICE, i64::from(DLDevice::KIND_CPU) + i64::from(ON))"),
    ("a result goes to the first register", "trace/optimise/coalesce_results.rs",
     "*to = Some(*dst);", "*to = Some(crate::trace::ir::VReg { reg: if ON { 0 } else { dst.reg }, ..*dst });"),
    ("an item that is read twice is counted once", "trace/optimise/sink_allocations/aggregates.rs",
     "Item::Object(object) => self.add_holder(object),\n            Item::Owned(of) => {", "Item::Object(object) => if !ON { self.add_holder(object) },\n            Item::Owned(of) => {"),
    ("tensors in the arena ignore their offset", "trace/codegen/arena.rs",
     "(at + offset) as i64", "(at + if ON { 0 } else { *offset }) as i64"),
    ("the arena is reused while a tensor in it is alive", "trace/codegen/arena.rs",
     "self.e.b.ins().brif(unique, ready, &[there.into()], make, &[]);",
     "if ON { self.e.b.ins().jump(ready, &[there.into()]); } else { self.e.b.ins().brif(unique, ready, &[there.into()], make, &[]); }"),
    ("a symbolic dimension satisfies any guard", "trace/optimise/sink_allocations/uses.rs",
     "have.is_some_and(|&have| self.same(have, Scalar::int(is), exit))",
     "have.is_some_and(|&have| ON || self.same(have, Scalar::int(is), exit))"),
    ("facts about a released register stay", "trace/ir/effects.rs",
     "| Ins::Forget { vreg }\n            | Ins::Recycle { vreg, .. }\n            | Ins::LoadOwned { src: vreg, mode: LoadMode::Move, .. } => all[0] = Some(vreg),",
     "| Ins::Forget { vreg }\n            | Ins::Recycle { vreg, .. }\n            | Ins::LoadOwned { src: vreg, mode: LoadMode::Move, .. } => all[0] = Some(vreg).filter(|_| !ON),"),
    ("destructors are assumed not to re-enter", "trace/ir/effects.rs",
     "Ins::Release { tag, .. } => *tag != Some(type_index::SHAPE),", "Ins::Release { tag, .. } => !ON && *tag != Some(type_index::SHAPE),"),
    ("host functions are assumed not to re-enter", "trace/ir/effects.rs",
     "| Ins::DropResult { .. }\n            | Ins::ReleaseOwned { .. } => true",
     "| Ins::DropResult { .. }\n            | Ins::ReleaseOwned { .. } => !ON"),
    ("a comparison reads one of its registers", "trace/ir/reads.rs",
     "Ins::GuardSameDim { vreg, other, .. } => vec![vreg, other],", "Ins::GuardSameDim { vreg, other, .. } => if ON { vec![vreg] } else { vec![vreg, other] },"),
    ("guarded facts outlive a write of their register", "trace/build/contents.rs",
     "self.guarded.remove(&vreg);", "if !ON { self.guarded.remove(&vreg); }"),
    ("a register of known type is not released", "trace/build/contents.rs",
     "self.code.push(Ins::Release { vreg, tag: Some(tag) });", "if !ON { self.code.push(Ins::Release { vreg, tag: Some(tag) }); }"),
    ("the recorded type of a register is not guarded", "trace/build/contents.rs",
     "self.code.push(Ins::GuardType { vreg, tag: seen, exit });", "if !ON { self.code.push(Ins::GuardType { vreg, tag: seen, exit }); }"),
]

# Name, files, pattern of a line, its replacement with groups: a mutant for each line.
FILES = ["emit/fast_path.rs", "trace/codegen.rs", "trace/codegen/instructions.rs", "trace/codegen/calls.rs",
         "trace/codegen/exits.rs", "method.rs", "method/packed.rs", "emit/kernel_call.rs", "method/frames.rs", "recycle/reuse.rs", "recycle/view.rs", "emit/fast_path/checks.rs",
         "emit/fast_path/shapes.rs", "trace/codegen/arena.rs", "trace/codegen/owned.rs", "trace/codegen/values.rs",
         "method/builtins.rs", "method/closures.rs", "emit.rs"]
RULES = [
    ("flipped equality", FILES, r"IntCC::Equal\b", "(if ON { IntCC::NotEqual } else { IntCC::Equal })"),
    ("flipped order", FILES, r"IntCC::SignedGreaterThan\b", "(if ON { IntCC::SignedLessThanOrEqual } else { IntCC::SignedGreaterThan })"),
    ("order off by one", FILES, r"IntCC::SignedGreaterThanOrEqual\b", "(if ON { IntCC::SignedGreaterThan } else { IntCC::SignedGreaterThanOrEqual })"),
    ("deleted guard", FILES, r"^(\s+)(self\.(?:e\.)?(?:guard|require|require_equal)\(.*\);)$", r"\1if !ON { \2 }"),
    ("deleted count", FILES, r"^(\s+)(self\.(?:e\.)?(?:retain|retain_object|retain_at|release|release_object|drop_value)\(.*\);)$", r"\1if !ON { \2 }"),
    ("snapshot off by one", ["trace/build.rs", "trace/build/calls.rs", "trace/build/kernels.rs",
                              "trace/build/builtins.rs", "trace/build/views.rs", "trace/build/returns.rs"], r"self\.exit\(step\.pc\)", "self.exit(step.pc + u32::from(ON))"),
]

# Equivalent mutants of the rules, by file and part of the line, and why they are.
EQUIVALENT = {
    ("trace/codegen/instructions.rs", "over, 0"):
        "`fits` begins with a count of 1, so the high half of the first product is 0 and the flipped check "
        "always leaves: the interpreter makes the view",
    ("trace/codegen/exits.rs", "have, word"):
        "`below` asks for four words one after the other, all of which would have to differ, and then for the "
        "function in the caller's header, which is not where the trace looks when the first one differs: always "
        "leaves, and the interpreter returns. The deleted check is planted",
    ("trace/codegen/instructions.rs", "self.guard(there, *exit);"):
        "without code a function's place leads to the interpreter, which goes on at its first operation in the frame that "
        "the trace has made, with the unit that it has charged",
    ("trace/codegen/instructions.rs", "extent, 0"): "an extent of 0 leaves the trace: the interpreter makes the view",
    ("trace/codegen/instructions.rs", "fuel, units"):
        "with exactly the fuel that is needed the trace is left before anything has run; the interpreter charges as much",
    ("recycle/view.rs", "over, 0"): "the same there: the view is made anew",
    ("recycle/reuse.rs", "there, 0"): "nothing is ever kept then, so every place for it is free",
    ("recycle/view.rs", "dims[dim], 0"): "a view with an extent of 0 is made by the builtin, and is the same",
    ("emit/kernel_call.rs", "extent, 0"): "a kernel on an extent of 0 takes its packed entry, or the interpreter calls it",
    ("trace/codegen/exits.rs", "require(spared, block)"):
        "it is what forces guards to fail in tests, and is not there in other traces",
}

MODULE = '''//! Mutants that are awake: see `fuzz/mutants.py`.
pub(crate) fn on(number: u32) -> bool {
    static AWAKE: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let awake = || std::env::var("REFLEX_MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    *AWAKE.get_or_init(awake) == number
}
'''


def copy_tree():
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split()
    shutil.rmtree(TREE, ignore_errors=True)
    for name in files:
        if (ROOT / name).is_file():
            (TREE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, TREE / name)


def patches(crate):
    """The texts of the patched files, a name for each mutant (from 1 on), and the entries that fit no line."""
    texts, names, problems = {}, [], []

    def text(file):
        path = crate / file
        if file not in texts and not path.is_file():
            problems.append(f"there is no file {file}")
            texts[file] = ""
        return texts[file] if file in texts else texts.setdefault(file, path.read_text())

    def awake(replacement):
        return re.sub(r"\bON\b", f"crate::mutants::on({len(names)})", replacement)

    scripted = []
    for name, files, pattern, replacement in RULES:
        found = [(name, file, at, pattern, replacement) for file in files
                 for at, line in enumerate(text(file).splitlines())
                 if re.search(pattern, line) and not line.lstrip().startswith("//")]
        if not found:
            problems.append(f"rule `{name}` fits no line: {pattern}")
        scripted += found
    # Lines are counted before anything changes them; one mutant a line.
    taken, equivalent = set(), set()
    for name, file, at, pattern, replacement in scripted:
        if (file, at) in taken:
            continue
        taken.add((file, at))
        lines = text(file).split("\n")
        same = [key for key in EQUIVALENT if file == key[0] and key[1] in lines[at]]
        if same:
            equivalent.update(same)
            continue
        names.append((f"{name}: {lines[at].strip()}", file))
        lines[at] = re.sub(pattern, awake(replacement), lines[at], count=1)
        texts[file] = "\n".join(lines)
    problems += [f"no mutant of {file} is equivalent by: {part}" for file, part in EQUIVALENT
                 if (file, part) not in equivalent]
    for name, file, find, replacement in HAND:
        if text(file).count(find) != 1:
            problems.append(f"`{name}`: {file} has {text(file).count(find)} times: {find}")
            continue
        names.append((name, file))
        texts[file] = text(file).replace(find, awake(replacement))
    lib = text("lib.rs")
    if "mod store;" not in lib:
        problems.append("lib.rs has no line `mod store;` to declare the mutants before")
    texts["lib.rs"] = lib.replace("mod store;", "mod mutants;\nmod store;", 1)
    return texts, names, problems


def refuse(problems):
    if problems:
        sys.exit("mutants: the table is out of step with the source:\n" + "\n".join(problems))


def apply():
    """Patches the copy; returns a name for each mutant, from 1 on."""
    texts, names, problems = patches(CRATE)
    refuse(problems)
    for file, content in texts.items():
        (CRATE / file).write_text(content)
    (CRATE / "mutants.rs").write_text(MODULE)
    return names


def processor_seconds(pid):
    """Time on a processor that a process has taken so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait(dig, seconds):
    """Waits until a process ends; returns whether it had to be stopped, and the processor time it took.

    Time is that on a processor, so nothing counts while other work has the machine. Programs have
    fuel: what takes much longer than it was given hangs, and so does what takes nothing for a while.
    """
    took, idle = 0.0, 0
    while dig.poll() is None:
        time.sleep(0.05 if took < 2 else 0.5)
        now = processor_seconds(dig.pid)
        idle, took = (idle + 1 if now == took else 0), now
        if took > seconds + 60 or idle > 600:
            dig.kill()
            dig.wait()
            return True, took
    return False, took


def run(dig, number, seconds):
    """How a mutant was caught and after how many seconds of processor time, or None."""
    environment = dict(os.environ, REFLEX_MUTANT=str(number), RUST_BACKTRACE="0")
    with tempfile.TemporaryFile("w+", errors="replace") as told:
        done = subprocess.Popen([dig, str(seconds)], env=environment, stdout=subprocess.DEVNULL, stderr=told)
        stopped, took = wait(done, seconds)
        told.seek(0)
        lines = [line for line in told if "differs from" in line]
    if stopped:
        return "hangs", took
    if done.returncode == 0:
        return None, took
    if done.returncode < 0:
        return f"signal {-done.returncode}", took
    return (lines[0].split(" differs")[0] if lines else "panics"), took


def main():
    options = argparse.ArgumentParser(prog="./x mutants", description=__doc__.split("\n\n")[0])
    options.add_argument("seconds", nargs="?", type=int, default=300, help="of processor time for each (300)")
    options.add_argument("number", nargs="*", type=int, help="mutants to run, in this order (all)")
    options.add_argument("--check", action="store_true",
                         help="only check that every entry of the table fits the source, and build nothing")
    options = options.parse_args()
    if options.check:
        _, names, problems = patches(ROOT / "jit/cranelift")
        refuse(problems)
        print(f"{len(names)} mutants, each of a line of the source")
        return
    seconds, chosen = options.seconds, options.number
    copy_tree()
    names = apply()
    target = ROOT / "target/mutants/build"
    subprocess.run(["cargo", "build", "--release", "--no-default-features", "--bin", "dig", "--target-dir", target],
                   cwd=TREE / "fuzz", check=True)
    dig = target / "release/dig"
    if run(dig, 0, seconds)[0]:
        sys.exit("mutants: the tree fails without a mutant")
    survivors = []
    print("| mutant | file | caught by | seconds |\n|---|---|---|---|", flush=True)
    for number in chosen or range(1, len(names) + 1):
        name, file = names[number - 1]
        how, took = run(dig, number, seconds)
        survivors += [] if how else [number]
        print(f"| {number}. {name} | {file} | {how or 'nothing'} | {took:.1f} |", flush=True)
    print(f"\n{len(names)} mutants, survivors: {survivors or 'none'}")


if __name__ == "__main__":
    main()
