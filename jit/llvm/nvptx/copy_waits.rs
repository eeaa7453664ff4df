//! Where threads wait for their copies from global to shared memory (`cp.async`), and how many may go on.
//!
//! The copies of a loop without a barrier are a group, which is committed behind it. A barrier lets other threads see
//! what this thread wrote, so before it the groups end whose buffers are touched behind it, before the next
//! barrier; later groups go on. Anything else that touches a buffer that is being copied waits for all groups.
//!
//! Two passes over a launch: backwards for what is touched behind each barrier, forwards for the groups that
//! are on their way, the most recent first. Where paths meet, groups of the same age are one; loops are
//! repeated until nothing changes.

use std::collections::{BTreeSet, HashMap, VecDeque};

use reflex_tir::launch::Launch;
use reflex_tir::uses::Uses;
use reflex_tir::{Buffer, PrimFunc, Scope, Stmt};

use crate::emit::in_flight::CopyWaits;
use crate::nvptx::async_copy::is_copy;

/// The waits that a launch's copies need.
pub fn copy_waits(func: &PrimFunc, launch: &Launch<'_>) -> CopyWaits {
    let waits = CopyWaits::default();
    let mut pass = Pass { func, behind: HashMap::new(), waits };
    if !destinations(launch.body).is_empty() {
        pass.before(launch.body, Buffers::new());
        pass.run(launch.body, Groups::new());
    }
    pass.waits
}

type Buffers = BTreeSet<Buffer>;

/// Groups that are being copied, the most recent first.
type Groups = VecDeque<Buffers>;

/// Both, where two paths meet.
fn join(mut a: Groups, b: &Groups) -> Groups {
    for (at, group) in b.iter().enumerate() {
        match a.get_mut(at) {
            Some(own) => own.extend(group),
            None => a.push_back(group.clone()),
        }
    }
    a
}

/// Adds the most recent group. Those behind the sixteenth count as that, so that there are not ever more.
fn commit(groups: &mut Groups, group: Buffers) {
    const MOST: usize = 16;
    groups.push_front(group);
    if groups.len() > MOST {
        let last = groups.pop_back().unwrap_or_default();
        groups[MOST - 1].extend(last);
    }
}

/// The buffers that copies in a statement write.
fn destinations(s: &Stmt) -> Buffers {
    let mut found = Buffers::new();
    s.visit(&mut |s| {
        if let Stmt::For(l) = s
            && let Stmt::Store { buffer, .. } = &l.body
            && is_copy(l)
        {
            found.insert(*buffer);
        }
    });
    found
}

fn has_barrier(s: &Stmt) -> bool {
    let mut any = false;
    s.visit(&mut |s| any |= matches!(s, Stmt::Barrier(_)));
    any
}

struct Pass<'f> {
    func: &'f PrimFunc,
    /// Buffers that are touched behind a barrier, before the next one.
    behind: HashMap<*const Stmt, Buffers>,
    waits: CopyWaits,
}

impl Pass<'_> {
    /// The shared buffers that are touched from a statement on until a barrier; `after` are those behind the
    /// statement.
    fn before(&mut self, s: &Stmt, after: Buffers) -> Buffers {
        match s {
            Stmt::Barrier(_) => {
                self.behind.entry(s).or_default().extend(after);
                Buffers::new()
            }
            Stmt::Seq(list) => list.iter().rev().fold(after, |after, s| self.before(s, after)),
            Stmt::For(l) if !is_copy(l) => {
                let first = self.before(&l.body, after.clone());
                let again = self.before(&l.body, union(&after, &first));
                union(&union(&again, &after), &self.own(s))
            }
            Stmt::While { body, .. } => {
                let first = self.before(body, after.clone());
                let again = self.before(body, union(&after, &first));
                union(&union(&again, &after), &self.own(s))
            }
            Stmt::If { then, otherwise, .. } => {
                let other = match otherwise {
                    Some(other) => self.before(other, after.clone()),
                    None => after.clone(),
                };
                union(&union(&self.before(then, after), &other), &self.own(s))
            }
            Stmt::Let { body, .. } | Stmt::Allocate { body, .. } => {
                union(&self.before(body, after), &self.own(s))
            }
            _ => union(&after, &self.all(s)),
        }
    }

    /// The groups that are being copied behind a statement. Notes the waits.
    fn run(&mut self, s: &Stmt, mut groups: Groups) -> Groups {
        match s {
            Stmt::Barrier(_) => {
                let behind = self.behind.get(&std::ptr::from_ref(s)).cloned().unwrap_or_default();
                let needed = groups.iter().position(|group| !group.is_disjoint(&behind));
                if let Some(left) = needed {
                    self.wait(s, left);
                    groups.truncate(left);
                }
                groups
            }
            Stmt::Seq(list) => list.iter().fold(groups, |groups, s| self.run(s, groups)),
            Stmt::For(l) => {
                let copied = destinations(s);
                if !copied.is_empty() && !has_barrier(s) {
                    // Copies to a buffer write other elements than those that go on.
                    let read = &self.all(s) - &copied;
                    groups = self.touch(s, &read, groups);
                    commit(&mut groups, copied);
                    self.waits.groups.insert(s);
                    return groups;
                }
                let groups = self.touch(s, &self.own(s), groups);
                self.repeat(&l.body, groups)
            }
            Stmt::While { body, .. } => {
                let groups = self.touch(s, &self.own(s), groups);
                self.repeat(body, groups)
            }
            Stmt::If { then, otherwise, .. } => {
                let groups = self.touch(s, &self.own(s), groups);
                let other = match otherwise {
                    Some(other) => self.run(other, groups.clone()),
                    None => groups.clone(),
                };
                join(self.run(then, groups), &other)
            }
            Stmt::Let { body, .. } | Stmt::Allocate { body, .. } => {
                let groups = self.touch(s, &self.own(s), groups);
                self.run(body, groups)
            }
            _ => self.touch(s, &self.all(s), groups),
        }
    }

    /// Any number of times.
    fn repeat(&mut self, body: &Stmt, mut groups: Groups) -> Groups {
        loop {
            let after = self.run(body, groups.clone());
            let met = join(groups.clone(), &after);
            if met == groups {
                return groups;
            }
            groups = met;
        }
    }

    /// Waits for all groups before a statement that touches what is being copied.
    fn touch(&mut self, s: &Stmt, touched: &Buffers, groups: Groups) -> Groups {
        if groups.iter().all(|group| group.is_disjoint(touched)) {
            return groups;
        }
        self.wait(s, 0);
        Groups::new()
    }

    fn wait(&mut self, s: &Stmt, left: usize) {
        let most = self.waits.left.entry(s).or_insert(left);
        *most = left.min(*most);
    }

    /// The shared buffers that a statement and all in it touch.
    fn all(&self, s: &Stmt) -> Buffers {
        self.shared(Uses::of(self.func, s))
    }

    /// Those that its own expressions read.
    fn own(&self, s: &Stmt) -> Buffers {
        self.shared(Uses::of_exprs(s))
    }

    fn shared(&self, uses: Uses) -> Buffers {
        let is_shared = |buffer: &Buffer| self.func.buffers[*buffer].scope == Scope::Shared;
        uses.buffers.into_iter().filter(is_shared).collect()
    }
}

fn union(a: &Buffers, b: &Buffers) -> Buffers {
    a | b
}
