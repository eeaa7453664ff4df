#!/usr/bin/env python3
"""Checks that what stands in for a GPU catches mistakes in code for one: `./x mutants --gpu [NUMBER...]`.

A copy of the tree gets every mutant at once, each asleep until REFLEX_MUTANT names its number, so one build serves
all. A mutant is caught when a test of its group fails, crashes or takes ten minutes. No test of texts is among them: those
would say that something is other than before, not that it is wrong. `--check` only checks that each entry
fits the source.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from mutants import MODULE, ROOT, TREE, copy_tree, refuse

# Seconds for a test binary.
LIMIT = 600

# The crates with mutants, and the line before which each declares its module of mutants.
CRATES = {
    "src/tir": "pub mod abi;",
    "src/lower": "pub mod bytecode;",
    "jit/llvm": "mod cpu;",
    "src/cuda": "mod call;",
    "src": "mod array;",
}

# Test binaries: package and target. The evaluator with threads in several orders, the interpreter of PTX, a
# stand-in for the driver, and all of it from the command line.
TIR, RULES = ("reflex-tir", "threads"), ("reflex-lower", "gpu")
PTX, CODE = ("reflex-llvm", "ptx_runs"), ("reflex-llvm", "nvptx")
ATTENTION, TERMS, RING = ("reflex-lower", "gpu_attention"), ("reflex", "gpu_terms"), ("reflex-llvm", "warp_specialised")
HOPPER = ("reflex", "cuda_hopper")
DEVICE, FAULTS, WHOLE = ("reflex-cuda", "conformance"), ("reflex-cuda", "faults"), ("reflex", "cuda")
# Those that take seconds come first.
SCHEDULES = [TIR, WHOLE, RULES, PTX]
ROWS = [("reflex-lower", "gpu_attention"), RULES]
CODEGEN = [CODE, WHOLE, PTX]
DRIVER = [DEVICE, FAULTS, WHOLE]
HOST = [WHOLE]

# Name, tests, file, text that occurs once, what it becomes; ON is whether the mutant is awake.
MUTANTS = [
    ("no barrier between nests of threads that conflict", SCHEDULES, "src/tir/lower/place_barriers.rs",
     "if conflicts(pending, &first) {\n                        parts", "if !ON && conflicts(pending, &first) {\n                        parts"),
    ("iterations of a loop do not meet the next one", SCHEDULES, "src/tir/lower/place_barriers.rs",
     "note(pending, carried.into_iter().map(later));", "if !ON { note(pending, carried.into_iter().map(later)); }"),
    ("a write after a read needs no barrier", SCHEDULES, "src/tir/lower/place_barriers.rs",
     "(a.writes || b.writes)", "(a.writes || (b.writes && !ON))"),
    ("accesses of other threads count as the same thread's", SCHEDULES, "src/tir/lower/place_barriers.rs",
     "x.is_some() && x == y", "(ON || x.is_some()) && x == y"),
    ("threads beyond a narrower nest take part in it", SCHEDULES, "src/tir/lower/unify_thread_bindings.rs",
     "guarded(Expr::from(*var).lt(l.extent.clone()), body)", "(if ON { body } else { guarded(Expr::from(*var).lt(l.extent.clone()), body) })"),
    ("all threads store what the first one has to", SCHEDULES, "src/tir/lower/unify_thread_bindings.rs",
     "guarded(first, s.clone())", "(if ON { s.clone() } else { guarded(first, s.clone()) })"),
    ("a tile of a product stores one row too many", SCHEDULES, "src/lower/schedule/gpu/gemm.rs",
     "let cond = row.clone().lt(count(&self.rows));", "let cond = row.clone().lt(count(&self.rows) + i64::from(ON));"),
    ("a pipeline loads the group after the next one", SCHEDULES, "src/lower/schedule/gpu/pipelined.rs",
     "all.push((self.load)(nest, group + stages));", "all.push((self.load)(nest, group + stages + i64::from(ON)));"),
    ("a pipeline fills the buffer that is multiplied", SCHEDULES, "src/lower/schedule/gpu/pipelined.rs",
     "((s + stages - 1) % stages)", "((s + if ON { stages } else { stages - 1 }) % stages)"),
    ("a pipeline's last group is not copied", SCHEDULES, "src/lower/schedule/gpu/pipelined.rs",
     "let more = [is_there(group + stages - 1),", "let more = [is_there(group + stages - i64::from(!ON)),"),
    ("a split reduction adds a step beyond the end", SCHEDULES, "src/lower/schedule/gpu/split_reduction.rs",
     "step.lt(steps.clone())", "step.lt(steps.clone() + i64::from(ON))"),
    ("a tree of sums stops one level early", SCHEDULES, "src/lower/schedule/gpu/split_reduction.rs",
     "while half > 0 {", "while half > i64::from(ON) {"),
    ("a transpose stores one row too many", SCHEDULES, "src/lower/schedule/gpu/transpose.rs",
     "i.lt(axes[0].extent.clone())", "i.lt(axes[0].extent.clone() + i64::from(ON))"),
    ("a tree of sums adds a neighbour's part", SCHEDULES, "src/tir/schedule/tree_reduce.rs",
     "combining.element(self, lane + h);", "combining.element(self, lane + if ON { 1 } else { h });"),
    ("shares of a column are added one level too few", ROWS, "src/lower/schedule/gpu/gemv/block.rs",
     "while half > 0 {", "while half > i64::from(ON) {"),
    ("weights beyond the last step are multiplied", ROWS, "src/lower/schedule/gpu/gemv/block.rs",
     "inside.and(step.clone().lt(count(&stage.reduce)))", "inside.and(step.clone().lt(count(&stage.reduce) + i64::from(ON)))"),
    ("a larger maximum leaves what was summed before", ROWS, "src/lower/schedule/gpu/attention/block.rs",
     "let scaled = load(total, &i) * load(factor, &i);", "let scaled = if ON { load(total, &i) } else { load(total, &i) * load(factor, &i) };"),
    ("keys beyond the last one have weights", ROWS, "src/lower/schedule/gpu/attention/block.rs",
     "inside.and(own_key.lt(key.extent.clone()))", "inside.and(own_key.lt(key.extent.clone() + i64::from(ON)))"),
    ("a row that may attend to nothing so far is NaN", ROWS, "src/lower/schedule/gpu/attention/combine.rs",
     "Expr::select(nothing, Expr::float(0.0, DType::F32), most)", "if ON { most } else { Expr::select(nothing, Expr::float(0.0, DType::F32), most) }"),
    ("a part of the keys weighs as the whole", ROWS, "src/lower/schedule/gpu/attention/combine.rs",
     "let weight = Expr::call(Intrin::Exp, vec![shifted]);", "let weight = if ON { Expr::float(1.0, DType::F32) } else { Expr::call(Intrin::Exp, vec![shifted]) };"),
    ("indices beyond 32 bits are computed in 32", CODEGEN, "src/tir/index_width.rs",
     "bounds.max <= of_i32.max {\n            return Some(Need::Nothing);", "(ON || bounds.max <= of_i32.max) {\n            return Some(Need::Nothing);"),
    ("what the host did not test fits in 32 bits", CODEGEN, "src/tir/index_width.rs",
     "self.given.contains(&limit)", "(ON || self.given.contains(&limit))"),
    ("products of warpgroups begin without a fence", CODEGEN, "jit/llvm/nvptx/wgmma.rs",
     "if before == 0 {", "if before == 0 && !ON {"),
    ("sums are read before products are done", CODEGEN, "jit/llvm/nvptx/wgmma.rs",
     "self.assembly(&wait, &values, &[])", "self.assembly(if ON { \"\" } else { &wait }, &values, &[])"),
    ("tensor cores read what threads wrote without a fence of proxies", CODEGEN, "jit/llvm/nvptx/kernel.rs",
     "if self.async_proxy {\n                    self.fence_proxy()?;", "if self.async_proxy && !ON {\n                    self.fence_proxy()?;"),
    ("panels are twice as far apart", CODEGEN, "jit/llvm/nvptx/wgmma.rs",
     "(true, Some(distance)) => distance * 2,", "(true, Some(distance)) => distance * if ON { 4 } else { 2 },"),
    ("the second operand's matrices come in the first one's order", CODEGEN, "jit/llvm/nvptx/mma.rs",
     "Side::B => (high, low),", "Side::B => if ON { (low, high) } else { (high, low) },"),
    ("copies beyond an operand's end read memory", CODEGEN, "jit/llvm/nvptx/async_copy.rs",
     "build_select(cond, all, none, \"\")", "build_select(cond, all, if ON { all } else { none }, \"\")"),
    ("a group of copies less is waited for", CODEGEN, "jit/llvm/nvptx/copy_waits.rs",
     "if let Some(left) = needed {", "if let Some(left) = needed.map(|left| left + usize::from(ON)) {"),
    ("groups of copies have no end", CODEGEN, "jit/llvm/nvptx/async_copy.rs",
     "if self.copy_waits.is_group(s) {", "if !ON && self.copy_waits.is_group(s) {"),
    ("a stage is filled before it is empty", [RING], "jit/llvm/nvptx/warp_specialised.rs",
     "build_xor(parity, e.ir.i32(1), \"\")", "build_xor(parity, e.ir.i32(i32::from(!ON)), \"\")"),
    ("products do not wait until their stage is full", [RING], "jit/llvm/nvptx/warp_specialised.rs",
     "e.run(WAIT, &[full, parity])?;", "if !ON { e.run(WAIT, &[full, parity])?; }"),
    ("a stage is given back while it is multiplied", [RING], "jit/llvm/nvptx/warp_specialised.rs",
     "e.settle_but(issued, &going)?;", "e.settle_but(if ON { 2 * issued } else { issued }, &going)?;"),
    ("consumers of one block say that a stage of the cluster is empty", [RING], "jit/llvm/nvptx/warp_specialised.rs",
     "(true, consumers * ring.pipeline.cluster)", "(true, if ON { consumers } else { consumers * ring.pipeline.cluster })"),
    ("a box that is a block's own is copied for the cluster", [RING], "src/tir/pipeline.rs",
     "&& !copy.exprs().iter().any(|e| own.varies(func, e))", "&& (ON || !copy.exprs().iter().any(|e| own.varies(func, e)))"),
    ("a tensor map of another address serves", [HOPPER], "src/cuda/tensor_maps.rs",
     "*at == address && shape == map", "(ON || *at == address) && shape == map"),
    ("the second term is the first one again", [TERMS], "src/lower/schedule/gpu/terms.rs",
     "let left = rest(&l) - term.cast(DType::F32);", "let left = if ON { rest(&l) } else { rest(&l) - term.cast(DType::F32) };"),
    ("sums are not rescaled when the maximum grows", [ATTENTION], "src/lower/schedule/gpu/attention/block.rs",
     "let rescaled = self.rescale(nest, thread);", "let rescaled = if ON { Stmt::nop() } else { self.rescale(nest, thread) };"),
    ("streams do not wait for each other", DRIVER, "src/cuda/streams.rs",
     "is_known && self.order.lock()", "ON || is_known && self.order.lock()"),
    ("a use of a stream is no work that others wait for", DRIVER, "src/cuda/streams.rs",
     "self.others.load(Ordering::Acquire).wrapping_add(self.launches.count())", "if ON { 0 } else { self.others.load(Ordering::Acquire).wrapping_add(self.launches.count()) }"),
    ("waits that are put off are forgotten", DRIVER, "src/cuda/streams.rs",
     "wait(*leads)?;", "if !ON { wait(*leads)?; }"),
    ("staging memory is written while a copy reads it", DRIVER, "src/cuda/staging.rs",
     "while self.busy.iter().any(", "while !ON && self.busy.iter().any("),
    ("memory goes back to the driver before work that uses it", DRIVER, "src/cuda/pool.rs",
     "gpu.wait_for_all()?;", "if !ON { gpu.wait_for_all()?; }"),
    ("another stream's block serves before its work", DRIVER, "src/cuda/pool.rs",
     "gpu.order(stream, other)?;", "if !ON { gpu.order(stream, other)?; }"),
    ("a batch keeps the address of the call before", DRIVER, "src/cuda/graph.rs",
     "if *param != change.value {", "if !ON && *param != change.value {"),
    ("a batch's new parameters go to its first launch", DRIVER, "src/cuda/graph.rs",
     "(&self.launches[at], self.nodes[at]);", "(&self.launches[at], self.nodes[if ON { 0 } else { at }]);"),
    ("a lost device goes on", DRIVER, "src/cuda/gpu.rs",
     "if !why.is_final() {", "if ON || !why.is_final() {"),
    ("launches do not come again in their own context", DRIVER, "src/cuda/gpu.rs",
     "if current == self.context.0 {", "if ON || current == self.context.0 {"),
    ("a place of a stream that has ended is found by its old number", DRIVER, "src/cuda/streams.rs",
     "earlier => (earlier & !VACANT) + (1 << PLACE_BITS),", "earlier => (earlier & !VACANT) + if ON { 0 } else { 1 << PLACE_BITS },"),
    ("the driver is not told of much shared memory", DRIVER, "src/cuda/module.rs",
     "if bytes <= kernel.shared_bytes.load(Ordering::Relaxed) {", "if ON || bytes <= kernel.shared_bytes.load(Ordering::Relaxed) {"),
    ("kernels get their numbers in reverse", HOST, "src/kernels/device/host_entry.rs",
     "self.words.extend(vars.iter().map(|slot| self.slots[*slot as usize] as u64));",
     "self.words.extend(vars.iter().map(|slot| self.slots[*slot as usize] as u64));\n        if ON { let at = buffers.len(); self.words[at..].reverse(); }"),
    ("a batch writes results to the first arguments", HOST, "src/session/batches.rs",
     "self.addresses[args.len() + n],", "self.addresses[if ON { n } else { args.len() + n }],"),
]


def crate_of(file):
    """The folder of a file's crate."""
    inside = [crate for crate in CRATES if file.startswith(crate + "/")]
    return max(inside, key=len)


def patches(root):
    """The texts of the patched files, and the entries that do not fit."""
    texts, problems = {}, []

    def text(file):
        path = root / file
        if file not in texts:
            texts[file] = path.read_text() if path.is_file() else ""
        return texts[file]

    for number, (name, _, file, find, replacement) in enumerate(MUTANTS, 1):
        count = text(file).count(find)
        if count != 1:
            problems.append(f"`{name}`: {file} has {count} times: {find}")
            continue
        awake = re.sub(r"\bON\b", f"crate::mutants::on({number})", replacement)
        texts[file] = text(file).replace(find, awake)
    for crate, line in CRATES.items():
        file = f"{crate}/lib.rs"
        if text(file).count(f"\n{line}\n") != 1:
            problems.append(f"{file} has no line `{line}` to declare the mutants before")
        texts[file] = text(file).replace(f"\n{line}\n", f"\nmod mutants;\n{line}\n", 1)
        texts[f"{crate}/mutants.rs"] = MODULE
    return texts, problems


def build():
    """Builds the tests in the copy; returns the program of each."""
    target = ROOT / "target/mutants/gpu"
    packages = sorted({package for _, tests, *_ in MUTANTS for package, _ in tests})
    targets = sorted({name for _, tests, *_ in MUTANTS for _, name in tests})
    options = [f for package in packages for f in ("-p", package)] + [f for name in targets for f in ("--test", name)]
    environment = dict(os.environ, CARGO_PROFILE_DEV_DEBUG="0", CARGO_PROFILE_TEST_DEBUG="0")
    common = dict(cwd=TREE, check=True, env=environment)
    subprocess.run(["cargo", "build", "--target-dir", target, "-p", "reflex-llvm", "-p", "reflex-libcuda", "--bins", "--lib"], **common)
    command = ["cargo", "test", "--no-run", "--message-format=json-render-diagnostics", "--target-dir", target, *options]
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, **common).stdout.splitlines()
    programs = {}
    for message in map(json.loads, lines):
        if message.get("reason") == "compiler-artifact" and message.get("executable") and message["profile"]["test"]:
            package = Path(message["manifest_path"]).parent
            programs[package, message["target"]["name"]] = message["executable"]
    names = {"reflex": TREE, "reflex-tir": TREE / "src/tir", "reflex-lower": TREE / "src/lower",
             "reflex-llvm": TREE / "jit/llvm", "reflex-cuda": TREE / "src/cuda"}
    return {(package, name): (programs[names[package], name], names[package])
            for _, tests, *_ in MUTANTS for package, name in tests}, target


def run(programs, target, tests, number):
    """The test that fails with a mutant awake, or None."""
    environment = dict(os.environ, REFLEX_MUTANT=str(number), RUST_BACKTRACE="0", REFLEX_CACHE="off",
                       REFLEX_CODEGEN=str(target / "debug/reflex-codegen"))
    for test in tests:
        program, folder = programs[test]
        try:
            done = subprocess.run([program], cwd=folder, env=environment, capture_output=True, text=True, errors="replace",
                                  timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return f"{test[1]}: takes too long"
        if done.returncode < 0:
            return f"{test[1]}: signal {-done.returncode}"
        if done.returncode:
            failed = re.findall(r"^test (\S+) \.\.\. FAILED$", done.stdout, re.M)
            return f"{test[1]}: {failed[0] if failed else 'fails'}"
    return None


def main():
    options = argparse.ArgumentParser(prog="./x mutants --gpu", description=__doc__.split("\n\n")[0])
    options.add_argument("number", nargs="*", type=int, help="mutants to run, in this order (all)")
    options.add_argument("--check", action="store_true", help="only check that every entry fits the source, and build nothing")
    options = options.parse_args()
    texts, problems = patches(ROOT)
    refuse(problems)
    if options.check:
        print(f"{len(MUTANTS)} mutants of code for GPUs")
        return
    copy_tree()
    for file, content in texts.items():
        (TREE / file).write_text(content)
    programs, target = build()
    every = list(dict.fromkeys(test for _, tests, *_ in MUTANTS for test in tests))
    failed = run(programs, target, every, 0)
    if failed:
        sys.exit(f"mutants: the tree fails without a mutant: {failed}")
    survivors = []
    print("| mutant | file | caught by | seconds |\n|---|---|---|---|", flush=True)
    for number in options.number or range(1, len(MUTANTS) + 1):
        name, tests, file, *_ = MUTANTS[number - 1]
        start = time.monotonic()
        how = run(programs, target, tests, number)
        survivors += [] if how else [number]
        print(f"| {number}. {name} | {file} | {how or 'nothing'} | {time.monotonic() - start:.1f} |", flush=True)
    print(f"\n{len(MUTANTS)} mutants, survivors: {survivors or 'none'}")
    if survivors:
        sys.exit(1)


if __name__ == "__main__":
    main()
