//! Decisions of sampling instructions: those that a trace records, and those that are drawn.
//!
//! Decision: docs/decisions/0088-schedule-primitives-of-tvm.md

use super::arguments::{Args, Value, refused};
use super::random::Random;
use crate::schedule::Schedule;
use crate::{Stmt, Var};

/// The largest innermost factor where a trace names none.
const INNERMOST: i64 = 16;

type Outcome = Result<Vec<Value>, String>;

/// The generator of a trace that has a seed.
fn random(args: &Args) -> Result<Random, String> {
    args.random().ok_or_else(|| {
        "the trace records no decision, and has no seed (`sch.seed(42)`) to draw one with"
            .to_owned()
    })
}

/// Starts the generator.
pub fn seed(_: &mut Schedule, args: &Args) -> Outcome {
    args.set_random(Random::new(args.int("seed")?));
    Ok(vec![])
}

/// The ways to write `n` as an ordered product of `parts` factors.
fn ways(mut n: i64, parts: i64) -> f64 {
    let (mut all, mut prime) = (1.0, 2);
    while n > 1 {
        if prime * prime > n {
            prime = n;
        }
        let mut power = 0;
        while n % prime == 0 {
            n /= prime;
            power += 1;
        }
        // Stars and bars: the powers of the prime in each of the factors.
        all *= (1..=power).map(|k| (parts - 1 + k) as f64 / k as f64).product::<f64>();
        prime += 1;
    }
    all
}

fn divisors(n: i64) -> Vec<i64> {
    let small: Vec<i64> = (1..).take_while(|d| d * d <= n).filter(|d| n % d == 0).collect();
    let large = small.iter().rev().map(|d| n / d).filter(|d| d * d > n);
    small.iter().copied().chain(large).collect()
}

/// Draws factors of `extent`: each tuple whose last one is at most `innermost`, or that has one alone, as often as any other.
fn draw_factors(random: &mut Random, extent: i64, count: i64, innermost: i64) -> Vec<i64> {
    let (mut rest, mut factors) = (extent, vec![]);
    // The innermost first.
    for left in (1..count).rev() {
        let most = if factors.is_empty() { innermost } else { rest };
        let candidates: Vec<i64> = divisors(rest).into_iter().filter(|d| *d <= most).collect();
        let weights: Vec<f64> = candidates.iter().map(|d| ways(rest / d, left)).collect();
        let factor = candidates[random.weighted(&weights)];
        factors.push(factor);
        rest /= factor;
    }
    factors.push(rest);
    factors.reverse();
    factors
}

/// The decision of an instruction that gives factors of a loop's extent; or those that `draw` draws of the extent
/// and their number.
fn factors(
    s: &mut Schedule,
    args: &Args,
    draw: impl FnOnce(&mut Random, i64, i64) -> Result<Vec<i64>, String>,
) -> Result<Vec<i64>, String> {
    let (at, count) = (args.at("loop")?, args.index("n")?);
    let extent = s.extent(at).map_err(refused)?;
    if args.optional("decision").is_none() {
        let mut random = random(args)?;
        let extent = extent.filter(|n| (1..=i64::from(i32::MAX)).contains(n));
        let (Some(extent), 1..=16) = (extent, count) else {
            return Err("one to 16 factors are drawn, of a constant extent below 2^31".to_owned());
        };
        let factors = draw(&mut random, extent, count as i64)?;
        args.set_random(random);
        args.decide(Value::List(factors.iter().copied().map(Value::Int).collect()));
        return Ok(factors);
    }
    let decided = args.ints("decision")?;
    let product = decided.iter().try_fold(1i64, |n, f| n.checked_mul(*f));
    if decided.len() != count || product.is_none() || product != extent {
        let extent = extent.map_or_else(|| "not constant".to_owned(), |n| n.to_string());
        return Err(format!("{decided:?} are no factors of the extent, which is {extent}"));
    }
    Ok(decided)
}

/// A positive number that may be left out.
fn positive(args: &Args, name: &str, otherwise: i64) -> Result<i64, String> {
    match args.optional(name) {
        None => Ok(otherwise),
        Some(_) => match args.int(name)? {
            n if n > 0 => Ok(n),
            n => Err(format!("`{name}` is {n}, a positive number is needed")),
        },
    }
}

pub fn sample_perfect_tile(s: &mut Schedule, args: &Args) -> Outcome {
    let innermost = positive(args, "max_innermost_factor", INNERMOST)?;
    let draw =
        |random: &mut Random, extent, count| Ok(draw_factors(random, extent, count, innermost));
    Ok(factors(s, args, draw)?.into_iter().map(Value::Int).collect())
}

/// As `sample_perfect_tile`, where the product of the factors from `partition_pos` on is a multiple of
/// `innerpart_factor`.
pub fn sample_partitioned_tile(s: &mut Schedule, args: &Args) -> Outcome {
    let multiple = positive(args, "innerpart_factor", 1)?;
    let outer = args.optional("partition_pos").map_or(Ok(0), |_| args.index("partition_pos"))?;
    if outer >= args.index("n")? {
        return Err("`partition_pos` is a place among the factors".to_owned());
    }
    let draw = |random: &mut Random, extent, count: i64| {
        draw_partitioned(random, extent, [outer as i64, count - outer as i64], multiple)
            .ok_or_else(|| format!("no factor of {extent} is a multiple of {multiple}"))
    };
    let found = factors(s, args, draw)?;
    if found[outer..].iter().product::<i64>() % multiple != 0 {
        return Err(format!("the factors {found:?} from {outer} on are no multiple of {multiple}"));
    }
    Ok(found.into_iter().map(Value::Int).collect())
}

/// Draws factors in two parts, each tuple whose second part multiplies to a multiple of `multiple` as often as
/// any other.
fn draw_partitioned(
    random: &mut Random,
    extent: i64,
    parts: [i64; 2],
    multiple: i64,
) -> Option<Vec<i64>> {
    let [outer, inner] = parts;
    let fits = |d: &i64| d % multiple == 0 && (outer > 0 || *d == extent);
    let products: Vec<i64> = divisors(extent).into_iter().filter(fits).collect();
    let weights: Vec<f64> =
        products.iter().map(|d| ways(*d, inner) * ways(extent / d, outer)).collect();
    let product = *products.get(random.weighted(&weights))?;
    let mut factors = match outer {
        0 => vec![],
        _ => draw_factors(random, extent / product, outer, extent),
    };
    factors.extend(draw_factors(random, product, inner, extent));
    Some(factors)
}

pub fn sample_categorical(_: &mut Schedule, args: &Args) -> Outcome {
    let candidates = args.list("candidates")?;
    if args.optional("decision").is_none() {
        let mut random = random(args)?;
        let weights = args.numbers("probs")?;
        let fit =
            weights.len() == candidates.len() && weights.iter().all(|w| (0.0..=1e300).contains(w));
        if !fit || weights.iter().all(|w| *w == 0.0) {
            return Err("`probs` are numbers of 0 or more, one for each candidate".to_owned());
        }
        let place = random.weighted(&weights);
        args.set_random(random);
        args.decide(Value::Int(place as i64));
        return Ok(vec![candidates[place].clone()]);
    }
    let decided = args.index("decision")?;
    let missing = || format!("decision {decided} of {} candidates", candidates.len());
    Ok(vec![candidates.get(decided).cloned().ok_or_else(missing)?])
}

/// Where TVM's decisions lie that are no loop.
const ROOT: i64 = -1;
const INLINE: i64 = -2;

/// A loop for `compute_at`: of the readers of a block, or for `reverse_compute_at` of what it reads. The decision
/// is the loop's depth, -1 for where the block is, -2 for into its readers.
pub fn sample_compute_location(s: &mut Schedule, args: &Args) -> Outcome {
    let name = args.block("block")?;
    let block = s.get_block(name).map_err(refused)?;
    let (reads, writes) = (block.reads.clone(), block.writes.clone());
    let mut others: Vec<(bool, String)> = vec![];
    s.func().body.visit(&mut |stmt| {
        if let Stmt::Block(b) = stmt
            && b.name != name
        {
            let reader = b.reads.iter().any(|r| writes.iter().any(|w| w.buffer == r.buffer));
            let writer = b.writes.iter().any(|w| reads.iter().any(|r| w.buffer == r.buffer));
            if reader || writer {
                others.push((reader, b.name.clone()));
            }
        }
    });
    let neighbour = others.iter().find(|(reader, _)| *reader).or(others.last());
    let loops = match neighbour {
        Some((_, other)) => s.get_loops(other).map_err(refused)?,
        None => vec![],
    };
    let decided = match args.optional("decision") {
        Some(_) => args.int("decision")?,
        None => {
            let mut random = random(args)?;
            let goes = |at: &Var| {
                s.clone().compute_at(name, *at).is_ok()
                    || s.clone().reverse_compute_at(name, *at).is_ok()
            };
            let depths = loops.iter().enumerate().filter(|(_, at)| goes(at));
            let mut places: Vec<i64> = depths.map(|(depth, _)| depth as i64).collect();
            places.push(ROOT);
            if s.clone().compute_inline(name).is_ok() {
                places.push(INLINE);
            }
            let place = places[random.weighted(&vec![1.0; places.len()])];
            args.set_random(random);
            args.decide(Value::Int(place));
            place
        }
    };
    Ok(vec![match decided {
        INLINE => Value::Inline,
        ROOT => Value::Root,
        depth => {
            let at = usize::try_from(depth).ok().and_then(|depth| loops.get(depth));
            let missing = || format!("decision {depth} of {} loops", loops.len());
            Value::Loop(*at.ok_or_else(missing)?)
        }
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Each way to write 12 in three factors comes about as often as any other.
    #[test]
    fn factors_are_drawn_evenly_within_the_bound() {
        let mut random = Random::new(7);
        let mut seen: BTreeMap<Vec<i64>, usize> = BTreeMap::new();
        for _ in 0..9_000 {
            *seen.entry(draw_factors(&mut random, 12, 3, 16)).or_default() += 1;
        }
        assert_eq!(seen.len(), 18, "{seen:?}");
        assert_eq!(ways(12, 3), 18.0);
        assert!(seen.values().all(|n| (400..600).contains(n)), "{seen:?}");
        let mut seen: BTreeMap<Vec<i64>, usize> = BTreeMap::new();
        for _ in 0..6_000 {
            let factors = draw_partitioned(&mut random, 12, [1, 2], 4).unwrap();
            assert!(factors[1] * factors[2] % 4 == 0, "{factors:?}");
            *seen.entry(factors).or_default() += 1;
        }
        // 3 * (4 in two factors), 1 * (12 in two factors).
        assert_eq!(seen.len(), 9);
        assert!(seen.values().all(|n| (550..790).contains(n)), "{seen:?}");
        assert_eq!(draw_partitioned(&mut random, 12, [1, 2], 5), None);
        assert_eq!(draw_partitioned(&mut random, 12, [0, 1], 4), Some(vec![12]));
        for (extent, count, most) in
            [(1, 1, 16), (7, 2, 3), (720_720, 5, 4), (i64::from(i32::MAX), 3, 1)]
        {
            for _ in 0..50 {
                let factors = draw_factors(&mut random, extent, count, most);
                assert_eq!(factors.iter().product::<i64>(), extent);
                assert!(count == 1 || *factors.last().unwrap() <= most, "{factors:?}");
            }
        }
    }
}
