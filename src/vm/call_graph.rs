//! The call graph, and the recursive calls in it.
//!
//! A call is recursive when caller and callee are in one strongly connected component. A call
//! through a closure may be one of any function that the program passes on as a value.

use crate::decode::{FuncCode, Op, Site, SiteId, SiteKind};

/// Adds a site at the return point of every recursive call; `values` are the functions that are
/// passed on as values.
pub(crate) fn return_sites(
    functions: &mut [Option<FuncCode>],
    values: &[u32],
    sites: &mut Vec<Site>,
) {
    let components = components(functions, values);
    for func in functions.iter_mut().flatten() {
        let own = components[func.index as usize];
        let recursive = |op: &Op| match *op {
            Op::CallVm { func: callee, .. } => components[callee as usize] == own,
            Op::InvokeClosure { .. } => components.last() == Some(&own),
            _ => false,
        };
        let calls = (0..).zip(&func.ops).filter(|(_, op)| recursive(op));
        let return_points: Vec<u32> = calls.map(|(pc, _)| pc + 1).collect();
        func.returns = return_points
            .into_iter()
            .map(|pc| {
                sites.push(Site { func: func.index, pc, kind: SiteKind::Return });
                (pc, SiteId(sites.len() as u32 - 1))
            })
            .collect();
    }
}

/// The strongly connected component of each function, and of a last node that stands for the callees
/// of closures (Tarjan's algorithm, iterative).
fn components(functions: &[Option<FuncCode>], values: &[u32]) -> Vec<u32> {
    const NEW: u32 = u32::MAX;
    let closures = functions.len();
    let callees = |at: usize| {
        let ops = functions.get(at).and_then(Option::as_ref).map_or(&[][..], |func| &func.ops);
        let called = ops.iter().filter_map(move |op| match *op {
            Op::CallVm { func, .. } => Some(func as usize),
            Op::InvokeClosure { .. } => Some(closures),
            _ => None,
        });
        let values = if at == closures { values } else { &[] };
        called.chain(values.iter().map(|&func| func as usize))
    };
    let mut order = vec![NEW; closures + 1];
    let mut lowest = vec![NEW; closures + 1];
    let mut component = vec![NEW; closures + 1];
    let (mut next, mut stack) = (0, Vec::new());
    for root in 0..=closures {
        let mut path = Vec::new();
        let mut unvisited = (order[root] == NEW).then_some(root);
        loop {
            if let Some(at) = unvisited.take() {
                (order[at], lowest[at]) = (next, next);
                next += 1;
                stack.push(at);
                path.push((at, callees(at)));
            }
            let Some((at, calls)) = path.last_mut() else { break };
            let at = *at;
            if let Some(callee) = calls.next() {
                if order[callee] == NEW {
                    unvisited = Some(callee);
                } else if component[callee] == NEW {
                    lowest[at] = lowest[at].min(order[callee]);
                }
                continue;
            }
            path.pop();
            if lowest[at] == order[at] {
                while let Some(member) = stack.pop() {
                    component[member] = order[at];
                    if member == at {
                        break;
                    }
                }
            }
            if let Some(&(caller, _)) = path.last() {
                lowest[caller] = lowest[caller].min(lowest[at]);
            }
        }
    }
    component
}

#[cfg(test)]
mod tests {
    use crate::builder::ExecBuilder;
    use crate::bytecode::Reg;
    use crate::decode::{SiteKind, decode};
    use crate::executable::FuncKind;
    use crate::verify::verify;

    /// Return points of recursive calls, by name of the function; `&f` passes a function on, and
    /// `&` calls the function value it was given.
    fn returns(calls: &[(&str, &[&str])]) -> Vec<(String, u32)> {
        let mut b = ExecBuilder::new();
        for (name, callees) in calls {
            b.function(name, 0).unwrap();
            for callee in *callees {
                match callee.strip_prefix('&') {
                    Some("") => {
                        let args = [b.vm_state(), b.r(0)];
                        b.emit_call("vm.builtin.invoke_closure", &args, b.r(0)).unwrap();
                    }
                    Some(value) => {
                        b.declare_function(value, FuncKind::Vm);
                        let args = [b.f(value)];
                        b.emit_call("vm.builtin.make_closure", &args, b.r(0)).unwrap();
                    }
                    None => b.emit_call(callee, &[], b.r(0)).unwrap(),
                }
            }
            b.emit_ret(Reg::VOID).unwrap();
            b.end_function().unwrap();
        }
        let exec = verify(b.finish().unwrap()).unwrap();
        let code = decode(&exec);
        let sites = code.sites.iter().filter(|site| site.kind == SiteKind::Return);
        let found = sites.map(|site| (exec.functions[site.func as usize].name.clone(), site.pc));
        found.collect()
    }

    #[test]
    fn calls_on_a_cycle_are_recursive() {
        let to = |name: &str, pc| (name.to_owned(), pc);
        assert_eq!(returns(&[("a", &["a", "b"]), ("b", &[])]), [to("a", 1)]);
        assert_eq!(returns(&[("a", &["b"]), ("b", &["c"]), ("c", &[])]), []);
        let found =
            returns(&[("a", &["b", "d"]), ("b", &["d", "c"]), ("c", &["a"]), ("d", &["d"])]);
        assert_eq!(found, [to("a", 1), to("b", 2), to("d", 1), to("c", 1)]);
    }

    #[test]
    fn calls_through_closures_may_be_recursive() {
        let to = |name: &str, pc| (name.to_owned(), pc);
        assert_eq!(returns(&[("a", &["&a", "&"])]), [to("a", 2)]);
        // The function that is passed on makes no recursive call.
        assert_eq!(returns(&[("a", &["&b", "&"]), ("b", &[])]), []);
        assert_eq!(returns(&[("a", &["b", "&a"]), ("b", &["&"])]), [to("a", 1), to("b", 1)]);
    }
}
