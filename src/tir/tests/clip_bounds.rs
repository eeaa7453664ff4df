//! Ranges in which conditions hold: they hold for the same points, and are those that TVM detects.

mod common;
#[path = "../../../tests/common/skip.rs"]
mod skip;

use std::path::Path;
use std::process::Command;

use arbitrary::{Result, Unstructured};
use common::property;
use reflex_tir::arith::{Analyzer, ClipBound};
use reflex_tir::{BinOp, CmpOp, Expr, ExprKind, PrimFunc, Var};

/// `x`, `y` and, in no range, `n`.
const NAMES: [&str; 3] = ["x", "y", "n"];
/// Values of `n`.
const SYMBOL: [i64; 3] = [-5, 0, 6];

struct Case {
    vars: Vec<Var>,
    parts: Vec<Expr>,
    text: String,
}

fn case(u: &mut Unstructured<'_>) -> Result<Case> {
    let mut f = PrimFunc::new("f");
    let vars: Vec<Var> = NAMES.iter().map(|name| f.new_var(*name)).collect();
    let (mut parts, mut texts) = (vec![], vec![]);
    for _ in 0..u.int_in_range(1..=3)? {
        let strides = [
            *u.choose(&[-3, -2, -1, 0, 1, 1, 1, 2, 4])?,
            *u.choose(&[0, 0, 0, -1, 1, 3])?,
            *u.choose(&[0, 0, 1, -1, 2])?,
        ];
        let constant = u.int_in_range(-9..=9)?;
        let op = *u.choose(&[CmpOp::Lt, CmpOp::Le, CmpOp::Gt, CmpOp::Ge, CmpOp::Eq])?;
        let other = u.int_in_range(-9..=9)?;
        let mut sum = Expr::i64(constant);
        let mut text = constant.to_string();
        for ((var, name), stride) in vars.iter().zip(NAMES).zip(strides) {
            if stride != 0 {
                sum = sum + Expr::var(*var) * stride;
                text = format!("{text} + {name} * {stride}");
            }
        }
        if strides[..2] == [0, 0] {
            continue;
        }
        let sign = match op {
            CmpOp::Lt => "<",
            CmpOp::Le => "<=",
            CmpOp::Gt => ">",
            CmpOp::Ge => ">=",
            CmpOp::Eq | CmpOp::Ne => "==",
        };
        parts.push(Expr::compare(op, sum, Expr::i64(other)));
        texts.push(format!("({text} {sign} {other})"));
    }
    if parts.is_empty() {
        parts.push(Expr::compare(CmpOp::Lt, Expr::var(vars[0]), Expr::i64(3)));
        texts.push("(x < 3)".to_owned());
    }
    Ok(Case { vars, parts, text: texts.join(", ") })
}

fn condition(case: &Case) -> Expr {
    case.parts.iter().skip(1).fold(case.parts[0].clone(), |all, part| all.and(part.clone()))
}

fn value(e: &Expr, vars: &[Var], at: [i64; 3]) -> i64 {
    let of = |e: &Expr| value(e, vars, at);
    match e.kind() {
        ExprKind::Int { value, .. } => *value,
        ExprKind::Var { var, .. } => at[vars.iter().position(|v| v == var).expect("a variable")],
        ExprKind::Binary { op, a, b } => {
            let (a, b) = (of(a), of(b));
            match op {
                BinOp::Add => a + b,
                BinOp::Sub => a - b,
                BinOp::Mul => a * b,
                BinOp::Min => a.min(b),
                BinOp::Max => a.max(b),
                BinOp::FloorDiv => a.div_euclid(b),
                BinOp::FloorMod => a.rem_euclid(b),
                other => panic!("{other:?}"),
            }
        }
        ExprKind::Compare { op, a, b } => i64::from(op.holds(&of(a), &of(b))),
        ExprKind::And(a, b) => of(a) & of(b),
        _ => panic!("{e:?}"),
    }
}

fn within(bounds: &[ClipBound], vars: &[Var], at: [i64; 3]) -> bool {
    bounds.iter().zip(at).all(|(bound, x)| {
        bound.min.as_ref().is_none_or(|min| value(min, vars, at) <= x)
            && bound.max.as_ref().is_none_or(|max| x <= value(max, vars, at))
    })
}

#[test]
fn a_condition_holds_exactly_within_its_bounds() {
    let mut found = 0;
    property(3000, |u| {
        let case = case(u)?;
        let cond = condition(&case);
        let Some(bounds) = Analyzer::new().clip_bounds(&cond, &case.vars[..2]) else {
            return Ok(());
        };
        found += 1;
        for n in SYMBOL {
            for (x, y) in (-14..=14).flat_map(|x| (-14..=14).map(move |y| (x, y))) {
                let at = [x, y, n];
                let holds = value(&cond, &case.vars, at) != 0;
                assert_eq!(
                    holds,
                    within(&bounds, &case.vars, at),
                    "{} at {at:?}: {bounds:?}",
                    case.text
                );
            }
        }
        Ok(())
    });
    assert!(found > 500, "{found}");
}

/// Needs `REFLEX_TVM_PYTHON`. TVM takes no stride but 1 and -1 beside a symbol, and rounds no equation.
#[test]
fn tvm_detects_the_same_bounds() {
    let Some(python) = skip::variable("REFLEX_TVM_PYTHON") else { return };
    let (mut lines, mut ours) = (vec![], vec![]);
    property(1500, |u| {
        let case = case(u)?;
        lines.push(case.text.clone());
        let bounds = Analyzer::new().clip_bounds(&condition(&case), &case.vars[..2]);
        ours.push(bounds.map(|bounds| {
            let at = |e: &Option<Expr>, n| e.as_ref().map(|e| value(e, &case.vars, [0, 0, n]));
            let both = |b: &ClipBound| [&b.min, &b.max].map(|e| SYMBOL.map(|n| at(e, n)));
            let flat: Vec<_> = bounds.iter().flat_map(both).flatten().collect();
            let text = |v: &Option<i64>| v.map_or("null".to_owned(), |v| v.to_string());
            format!("[{}]", flat.iter().map(text).collect::<Vec<_>>().join(", "))
        }));
        Ok(())
    });
    let file = std::env::temp_dir().join(format!("reflex-clip-bounds-{}", std::process::id()));
    std::fs::write(&file, lines.join("\n")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/clip_bounds.py");
    let run = Command::new(&python).arg(&script).arg(&file).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let said = String::from_utf8(run.stdout).unwrap();
    assert_eq!(said.lines().count(), lines.len());
    let (mut both, mut only_ours, mut neither) = (0, 0, 0);
    for ((line, ours), theirs) in lines.iter().zip(&ours).zip(said.lines()) {
        match (ours, theirs) {
            (Some(ours), theirs) if theirs != "null" => {
                assert_eq!(ours, theirs, "{line}");
                both += 1;
            }
            (Some(_), _) => only_ours += 1,
            (None, "null") => neither += 1,
            // An equation with a stride: TVM rounds its bounds.
            (None, _) => assert!(line.contains("=="), "only TVM has bounds of {line}"),
        }
    }
    println!(
        "tvm: bounds of {both} conditions are the same, {only_ours} are found here alone, {neither} by neither"
    );
    assert!(both > 200, "{both}");
}
