//! Invocations of closures that are known become calls.

use std::collections::{HashMap, HashSet};

use reflex_graph::{Body, Func, FuncId, LeafExpr, Node, Value};

/// A function with the values bound to its last parameters.
#[derive(Clone)]
struct Closure {
    func: FuncId,
    bound: Vec<Value>,
}

/// Replaces `invoke_closure` of a closure that this function makes, or of a function of the module, by a call.
/// `arities` has the functions that take part, with their numbers of parameters. Returns true if there was one.
pub(super) fn call_known_closures(func: &mut Func, arities: &HashMap<FuncId, usize>) -> bool {
    let mut known = HashMap::new();
    func.body.walk(&mut |binding| {
        let closure = match (&binding.node, &binding.outputs[..]) {
            (Node::Leaf(LeafExpr::Func(func)), _) => Closure { func: *func, bound: vec![] },
            (Node::CallPacked { name, args, ints }, [_])
                if name == "vm.builtin.make_closure" && ints.is_empty() =>
            {
                match args.split_first().and_then(|(f, bound)| Some((known.get(f)?, bound))) {
                    Some((Closure { func, bound: none }, bound)) if none.is_empty() => {
                        Closure { func: *func, bound: bound.to_vec() }
                    }
                    _ => return,
                }
            }
            // A check that a function is one.
            (Node::MatchCast(value), [_]) => match known.get(value) {
                Some(closure) => Closure::clone(closure),
                None => return,
            },
            _ => return,
        };
        known.insert(binding.outputs[0], closure);
    });
    if known.is_empty() {
        return false;
    }
    let changed = call(&mut func.body, &known, arities);
    if changed {
        drop_unread(func, &known);
    }
    changed
}

fn call(
    body: &mut Body,
    known: &HashMap<Value, Closure>,
    arities: &HashMap<FuncId, usize>,
) -> bool {
    let mut changed = false;
    for binding in &mut body.bindings {
        if let Node::CallPacked { name, args, ints } = &binding.node
            && name == "vm.builtin.invoke_closure"
            && ints.is_empty()
            && binding.outputs.len() == 1
            && let [_, callee, args @ ..] = &args[..]
            && let Some(Closure { func, bound }) = known.get(callee)
            && arities.get(func) == Some(&(args.len() + bound.len()))
        {
            let args = args.iter().chain(bound).copied().collect();
            binding.node = Node::CallFunc { func: *func, args };
            changed = true;
        }
        for nested in binding.node.bodies_mut() {
            changed |= call(nested, known, arities);
        }
    }
    changed
}

/// Removes closures that nothing reads any more.
fn drop_unread(func: &mut Func, known: &HashMap<Value, Closure>) {
    loop {
        let mut read = HashSet::new();
        func.body.uses(&mut |value| {
            read.insert(value);
        });
        if !drop_from(&mut func.body, &|value| known.contains_key(&value) && !read.contains(&value))
        {
            return;
        }
    }
}

fn drop_from(body: &mut Body, goes: &dyn Fn(Value) -> bool) -> bool {
    let before = body.bindings.len();
    body.bindings.retain(|binding| !matches!(binding.outputs[..], [value] if goes(value)));
    let mut changed = body.bindings.len() != before;
    for binding in &mut body.bindings {
        for nested in binding.node.bodies_mut() {
            changed |= drop_from(nested, goes);
        }
    }
    changed
}
