//! The analyser against evaluation: random index expressions over small ranges.

#[path = "../../../tests/common/property.rs"]
mod property;

use arbtest::arbitrary::{Result, Unstructured};
use property::property;
use reflex_tir::arith::Analyzer;
use reflex_tir::eval::{Scalar, eval_expr};
use reflex_tir::{CmpOp, Expr, PrimFunc, Var};

struct Setup {
    vars: Vec<Var>,
    extents: Vec<i64>,
    /// `vars[0]` is a symbolic dimension, and the extent of `vars[1]`.
    facts: Analyzer,
}

fn setup(u: &mut Unstructured<'_>) -> Result<Setup> {
    let mut f = PrimFunc::new("f");
    let vars: Vec<Var> = ["n", "i", "j", "k"].iter().map(|n| f.new_var(*n)).collect();
    let extents = vec![u.int_in_range(1..=9)?, 0, u.int_in_range(1..=12)?, u.int_in_range(1..=8)?];
    let mut facts = Analyzer::new();
    facts.at_least(vars[0], 1);
    facts.bind(vars[1], 0.into(), Expr::var(vars[0]));
    for at in 2..4 {
        facts.bind(vars[at], 0.into(), extents[at].into());
    }
    Ok(Setup { vars, extents, facts })
}

fn expression(u: &mut Unstructured<'_>, vars: &[Var], depth: u32) -> Result<Expr> {
    if depth == 0 || u.ratio(1, 5)? {
        return Ok(match u.ratio(3, 4)? {
            true => (*u.choose(vars)?).into(),
            false => Expr::i64(u.int_in_range(-6..=12)?),
        });
    }
    let a = expression(u, vars, depth - 1)?;
    let constant = u.int_in_range(1..=16)?;
    Ok(match u.int_in_range(0..=8)? {
        0 | 1 => a + expression(u, vars, depth - 1)?,
        2 => a - expression(u, vars, depth - 1)?,
        3 => a * constant,
        4 => a.floordiv(constant),
        5 => a.floormod(constant),
        6 => a.min(expression(u, vars, depth - 1)?),
        7 => a.max(expression(u, vars, depth - 1)?),
        _ => match u.int_in_range(0..=2)? {
            0 => a * Expr::var(vars[0]),
            1 => a.floordiv(Expr::var(vars[0])),
            _ => a.floormod(Expr::var(vars[0])),
        },
    })
}

/// A few assignments within the ranges.
fn points(u: &mut Unstructured<'_>, s: &Setup) -> Result<Vec<Vec<i64>>> {
    (0..12)
        .map(|_| {
            let mut at = vec![s.extents[0]];
            at.push(u.int_in_range(0..=s.extents[0] - 1)?);
            at.push(u.int_in_range(0..=s.extents[2] - 1)?);
            at.push(u.int_in_range(0..=s.extents[3] - 1)?);
            Ok(at)
        })
        .collect()
}

fn value(e: &Expr, s: &Setup, at: &[i64]) -> i64 {
    let var = |v| s.vars.iter().position(|x| *x == v).map(|i| Scalar::Int(at[i]));
    eval_expr(e, &var).unwrap().as_int().unwrap()
}

#[test]
fn simplify_preserves_values_and_bounds_and_strides_hold() {
    property(3000, |u| {
        let s = setup(u)?;
        let e = expression(u, &s.vars, 4)?;
        let simple = s.facts.simplify(&e);
        let again = s.facts.simplify(&simple);
        let (bounds, modular) = (s.facts.bounds(&e), s.facts.modular(&e));
        for at in points(u, &s)? {
            let want = value(&e, &s, &at);
            assert_eq!(value(&simple, &s, &at), want, "{e:?} became {simple:?} at {at:?}");
            assert_eq!(value(&again, &s, &at), want, "{simple:?} became {again:?} at {at:?}");
            assert!(bounds.min <= want && want <= bounds.max, "{e:?} in {bounds:?} at {at:?}");
            match modular.stride {
                0 => assert_eq!(want, modular.base, "{e:?}"),
                m => assert_eq!(want.rem_euclid(m), modular.base, "{e:?} mod {m} at {at:?}"),
            }
        }
        Ok(())
    });
}

#[test]
fn what_is_proved_holds() {
    let mut proved = 0;
    property(5000, |u| {
        let s = setup(u)?;
        let (a, b) = (expression(u, &s.vars, 3)?, expression(u, &s.vars, 2)?);
        let ops = [CmpOp::Eq, CmpOp::Ne, CmpOp::Lt, CmpOp::Le, CmpOp::Gt, CmpOp::Ge];
        let claim = Expr::compare(*u.choose(&ops)?, a, b);
        if s.facts.prove(&claim) {
            proved += 1;
            for at in points(u, &s)? {
                assert_eq!(value(&claim, &s, &at), 1, "{claim:?} at {at:?}");
            }
        }
        Ok(())
    });
    assert!(proved > 50, "the prover proved only {proved} claims");
}

/// Whether `e` mentions one of `vars`.
fn mentions(e: &Expr, vars: &[Var]) -> bool {
    let mut found = false;
    e.visit(&mut |e| found |= e.as_var().is_some_and(|v| vars.contains(&v)));
    found
}

#[test]
fn values_lie_in_the_set_that_moving_variables_span() {
    let (mut known, mut moving_known) = (0, 0);
    property(3000, |u| {
        let s = setup(u)?;
        let e = expression(u, &s.vars, 3)?;
        // The innermost variables move, as those of the loops inside a region do.
        let moving = &s.vars[u.int_in_range(1..=3)?..];
        let Some((low, high)) = s.facts.symbolic_bounds(&e, &|v| moving.contains(&v)) else {
            return Ok(());
        };
        known += 1;
        moving_known += usize::from(mentions(&e, moving));
        assert!(!mentions(&low, moving) && !mentions(&high, moving), "{e:?}: {low:?}, {high:?}");
        for at in points(u, &s)? {
            let (low, x, high) = (value(&low, &s, &at), value(&e, &s, &at), value(&high, &s, &at));
            assert!(low <= x && x <= high, "{e:?} is {x} at {at:?}, not in {low}..={high}");
        }
        Ok(())
    });
    assert!(known > 1000 && moving_known > 500, "{known} sets, {moving_known} of something moving");
}

#[test]
fn sets_of_plain_sums_are_tight() {
    let mut f = PrimFunc::new("f");
    let (o, i, n) = (f.new_var("o"), f.new_var("i"), f.new_var("n"));
    let mut facts = Analyzer::new();
    facts.bind(o, 0.into(), Expr::var(n));
    facts.bind(i, 0.into(), 8.into());
    let at = Expr::var(o) * 8 + i;
    let inner = facts.symbolic_bounds(&at, &|v| v == i).unwrap();
    assert_eq!(inner, (Expr::var(o) * 8, Expr::var(o) * 8 + 7));
    let all = facts.symbolic_bounds(&at, &|v| v == i || v == o).unwrap();
    assert_eq!(all, (Expr::i64(0), Expr::var(n) * 8 - 1));
    let tile = facts.symbolic_bounds(&at.clone().floordiv(4), &|v| v == i).unwrap();
    assert_eq!(tile, (Expr::var(o) * 2, Expr::var(o) * 2 + 1));
    assert_eq!(facts.symbolic_bounds(&(at * i), &|v| v == i), None);
    assert!(facts.divides(&4.into(), &(Expr::var(o) * 8 + 12)));
    assert!(!facts.divides(&8.into(), &(Expr::var(o) * 8 + 12)));
}

#[test]
fn what_schedules_need_is_proved() {
    let mut f = PrimFunc::new("f");
    let v: Vec<Var> = ["n", "o", "i", "m", "j"].iter().map(|n| f.new_var(*n)).collect();
    let e = |at: usize| Expr::var(v[at]);
    let mut facts = Analyzer::new();
    facts.bind(v[1], 0.into(), e(0).floordiv(8));
    facts.bind(v[2], 0.into(), 8.into());
    facts.bind(v[4], 0.into(), e(3));
    assert!(facts.prove(&(e(1) * 8 + e(2)).lt(e(0))), "a loop over whole tiles stays inside");
    let mut tail = Analyzer::new();
    tail.bind(v[1], 0.into(), e(0).ceildiv(8));
    tail.bind(v[2], 0.into(), 8.into());
    assert!(facts.prove(&e(0).floordiv(8).le(e(0).ceildiv(8))), "whole tiles are among all tiles");
    assert!(!facts.prove(&e(0).ceildiv(8).le(e(0).floordiv(8))), "there may be one more");
    assert!(!tail.prove(&(e(1) * 8 + e(2)).lt(e(0))), "the last tile may be cut");
    assert_eq!(facts.simplify(&(e(1) * e(3) + e(4)).floordiv(e(3))), e(1));
    assert_eq!(facts.simplify(&(e(1) * e(3) + e(4)).floormod(e(3))), e(4));
    assert_eq!(facts.simplify(&(e(0).floordiv(8) * 8 + e(0).floormod(8))), e(0));
    assert_eq!(facts.simplify(&(e(0) * 16 + 8).floormod(8)), Expr::i64(0));
    assert_eq!(facts.simplify(&e(0).floordiv(4).floordiv(8)), e(0).floordiv(32));
}

#[test]
fn whole_parts_of_quotients_are_among_all_parts() {
    let mut f = PrimFunc::new("f");
    let [x, y] = ["x", "y"].map(|name| f.new_var(name));
    let mut facts = Analyzer::new();
    [x, y].into_iter().for_each(|var| facts.at_least(var, 0));
    let [rows, columns] = [x, y].map(|var| (Expr::var(var) + 1).floordiv(2));
    for all in [rows.clone(), (rows.clone() + 1).floordiv(2), rows * columns] {
        let (whole, parts) = (all.clone().floordiv(64), (all + 63).floordiv(64));
        assert!(facts.prove(&whole.clone().ge(0)));
        assert!(facts.prove(&whole.clone().le(parts.clone())));
        assert!(!facts.prove(&parts.le(whole)));
    }
}

/// Comparing the operands of one minimum compares those of the minima in it.
#[test]
fn nested_minima_take_no_exponential_time() {
    let mut f = PrimFunc::new("f");
    let mut facts = Analyzer::new();
    let n = f.new_var("n");
    facts.at_least(n, 1);
    let mut e = Expr::var(n);
    for k in 0..8 {
        let i = f.new_var(format!("i{k}"));
        facts.bind(i, 0.into(), e.clone());
        e = (e + i).min(Expr::var(n) * (k + 2) - i);
    }
    assert!(!facts.prove(&e.clone().ge(5)));
    assert!(facts.prove(&e.clone().le(e + 1)));
}

/// Copies share what is found of a range, but not what only one of them is told.
#[test]
fn copies_do_not_learn_from_each_other() {
    for inner_first in [true, false] {
        let mut f = PrimFunc::new("f");
        let (n, i) = (f.new_var("n"), f.new_var("i"));
        let mut outer = Analyzer::new();
        outer.bind(i, n.into(), (Expr::var(n) + 4) - n);
        let claim = Expr::var(i).ge(5);
        if !inner_first {
            assert!(!outer.prove(&claim));
        }
        let mut inner = outer.clone();
        inner.at_least(n, 5);
        assert!(inner.prove(&claim) && inner.bounds(&i.into()).min == 5);
        assert!(!outer.prove(&claim) && outer.bounds(&i.into()).min == i64::MIN);
    }
}

/// Ends that mention the variable itself, as no verified function has them, say nothing.
#[test]
fn ranges_of_themselves_say_nothing() {
    let mut f = PrimFunc::new("f");
    let i = f.new_var("i");
    let mut facts = Analyzer::new();
    facts.bind(i, i.into(), Expr::var(i).max(3));
    assert!(!facts.prove(&Expr::var(i).ge(0)));
    assert_eq!(facts.bounds(&i.into()).min, i64::MIN);
}
