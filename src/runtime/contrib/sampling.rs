//! Choosing a token from a row of logits or probabilities, and changing such a row in place: TVM's
//! sampling builtins, on float32 in main memory.
//!
//! Random numbers are arguments, uniform in [0, 1). Top-p sampling (nucleus sampling, Holtzman et al.,
//! The Curious Case of Neural Text Degeneration, arXiv 1904.09751) chooses among the fewest tokens that
//! together have the probability p.

use std::cmp::Ordering;

use super::host_tensor::HostTensor;
use crate::error::Error;
use crate::function::{arg, check_arity};
use crate::tensor::Tensor;
use crate::tensor::data::Element;
use crate::value::{Any, AnyView};

/// A token with its logit or probability.
type Candidate = (f32, usize);

/// `sample_top_p_from_logits(logits, temperature, top_p, uniform)`: a token. Without temperature it is
/// the likeliest.
pub(super) fn sample_top_p_from_logits(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("vm.builtin.sample_top_p_from_logits", args, 4)?;
    let logits = row(args, 0)?;
    let (temperature, top_p, uniform): (f64, f64, f64) =
        (arg(args, 1)?, arg(args, 2)?, arg(args, 3)?);
    let mut all: Vec<Candidate> = candidates(elements::<f32>(&logits)?, f32::NEG_INFINITY);
    let &(highest, likeliest) = all.first().ok_or_else(nothing_to_sample)?;
    if temperature < 1e-6 {
        return Ok((likeliest as i64).into());
    }
    let scale = 1.0 / temperature as f32;
    for (value, _) in &mut all {
        *value = ((*value - highest) * scale).exp();
    }
    let sum: f32 = all.iter().map(|(value, _)| value).sum();
    for (value, _) in &mut all {
        *value /= sum;
    }
    let (count, mass) = nucleus(&all, top_p as f32);
    Ok((pick(&all[..count], mass, uniform) as i64).into())
}

/// `sample_top_p_from_prob(prob, top_p, uniform)`: a token.
pub(super) fn sample_top_p_from_prob(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("vm.builtin.sample_top_p_from_prob", args, 3)?;
    let prob = row(args, 0)?;
    let prob = elements::<f32>(&prob)?;
    let (top_p, uniform): (f64, f64) = (arg(args, 1)?, arg(args, 2)?);
    // Few tokens have so much of the probability, and most often they suffice.
    for least in [(top_p / 1024.0) as f32, 0.0] {
        let all = candidates(prob, least);
        let Some(&(highest, likeliest)) = all.first() else { continue };
        // As TVM does, the likeliest token has its share of `top_p`, not of what was chosen.
        if uniform < f64::from(highest) / top_p {
            return Ok((likeliest as i64).into());
        }
        let (count, mass) = nucleus(&all, top_p as f32);
        if mass >= top_p as f32 || least == 0.0 {
            return Ok((pick(&all[..count], mass, uniform) as i64).into());
        }
    }
    Err(nothing_to_sample())
}

/// `multinomial_from_uniform(prob, uniform)`: for each row of probabilities a token, in a column of
/// int64.
pub(super) fn multinomial_from_uniform(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("vm.builtin.multinomial_from_uniform", args, 2)?;
    let (prob, uniform) = (HostTensor::of(args, 0)?, HostTensor::of(args, 1)?);
    let (&rows, &tokens) = match (prob.shape.first(), prob.shape.last()) {
        (Some(rows), Some(tokens)) if prob.shape.len() >= 2 && *tokens > 0 => (rows, tokens),
        _ => return Err(Error::value_error(format!("{:?} has no rows", prob.shape))),
    };
    let (prob, uniform) = (elements::<f32>(&prob)?, elements::<f32>(&uniform)?);
    let (count, tokens) = (rows as usize, tokens as usize);
    if uniform.len() < count || prob.len() < count * tokens {
        return Err(Error::value_error(format!("{} numbers for {rows} rows", uniform.len())));
    }
    let chosen = prob.chunks(tokens).zip(uniform).take(count).map(|(row, uniform)| {
        let mut sum = 0.0;
        let found = row.iter().position(|prob| {
            sum += prob;
            sum > *uniform
        });
        found.unwrap_or(tokens - 1) as i64
    });
    Ok(Tensor::from_slice(&[rows, 1], &chosen.collect::<Vec<_>>())?.into())
}

/// `apply_repetition_penalty(logits, tokens, penalty)`: divides positive logits of these tokens, and
/// multiplies others.
pub(super) fn apply_repetition_penalty(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("vm.builtin.apply_repetition_penalty", args, 3)?;
    let penalty = arg::<f64>(args, 2)?;
    change_tokens(args, |logit, _| {
        let value = f64::from(*logit);
        *logit = if value <= 0.0 { value * penalty } else { value / penalty } as f32;
        Ok(())
    })
}

/// `apply_presence_and_frequency_penalty(logits, tokens, counts, presence, frequency)`: subtracts
/// `presence + count * frequency` from the logits of these tokens.
pub(super) fn apply_presence_and_frequency_penalty(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("vm.builtin.apply_presence_and_frequency_penalty", args, 5)?;
    let counts = HostTensor::of(args, 2)?;
    let counts = elements::<i32>(&counts)?;
    let (presence, frequency): (f64, f64) = (arg(args, 3)?, arg(args, 4)?);
    change_tokens(args, |logit, at| {
        let count = counts.get(at).ok_or_else(|| Error::value_error("a token without a count"))?;
        *logit = (f64::from(*logit) - (f64::from(*count) * frequency + presence)) as f32;
        Ok(())
    })
}

/// `apply_softmax_with_temperature(logits, temperature)`: probabilities in the place of logits.
pub(super) fn apply_softmax_with_temperature(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("vm.builtin.apply_softmax_with_temperature", args, 2)?;
    let (mut logits, temperature) = (row(args, 0)?, arg::<f64>(args, 1)?);
    let logits = elements_mut::<f32>(&mut logits)?;
    let scale = 1.0 / temperature as f32;
    logits.iter_mut().for_each(|logit| *logit *= scale);
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|logit| f64::from((logit - highest).exp())).sum();
    for logit in logits {
        *logit = (f64::from((*logit - highest).exp()) / sum) as f32;
    }
    Ok(Any::NONE)
}

/// Changes the logits of the tokens that the second argument lists, in its order.
fn change_tokens(
    args: &[AnyView<'_>],
    mut change: impl FnMut(&mut f32, usize) -> Result<(), Error>,
) -> Result<Any, Error> {
    let (mut logits, tokens) = (row(args, 0)?, HostTensor::of(args, 1)?);
    let tokens = elements::<i32>(&tokens)?.to_vec();
    let logits = elements_mut::<f32>(&mut logits)?;
    for (at, token) in tokens.into_iter().enumerate() {
        let count = logits.len();
        let logit = usize::try_from(token).ok().and_then(|token| logits.get_mut(token));
        let logit = logit.ok_or_else(|| {
            Error::new("IndexError", format!("token {token} of a vocabulary of {count}"))
        })?;
        change(logit, at)?;
    }
    Ok(Any::NONE)
}

/// The tokens with at least `least`, the likeliest first; of equal ones the first. NaN is none.
fn candidates(row: &[f32], least: f32) -> Vec<Candidate> {
    let all = row.iter().enumerate().map(|(token, value)| (*value, token));
    let mut all: Vec<Candidate> = all.filter(|(value, _)| *value >= least).collect();
    all.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap_or(Ordering::Equal));
    all
}

/// The number of leading candidates that are chosen among, and their probability.
fn nucleus(all: &[Candidate], top_p: f32) -> (usize, f32) {
    let (mut count, mut mass) = (0, 0.0);
    while count < all.len() && (mass < top_p || count == 0) {
        mass += all[count].0;
        count += 1;
    }
    (count, mass)
}

/// The token at the fraction `uniform` of the candidates' probability `mass`.
fn pick(chosen: &[Candidate], mass: f32, uniform: f64) -> usize {
    let mut sum = 0.0;
    let found = chosen.iter().find(|(prob, _)| {
        sum += prob;
        uniform < f64::from(sum / mass)
    });
    found.or(chosen.last()).map_or(0, |(_, token)| *token)
}

#[cold]
fn nothing_to_sample() -> Error {
    Error::new("InternalError", "the probabilities are all NaN, or there are none")
}

/// A tensor of one row: all extents but the last are 1.
fn row(args: &[AnyView<'_>], index: usize) -> Result<HostTensor, Error> {
    let tensor = HostTensor::of(args, index)?;
    match tensor.shape.split_last() {
        Some((_, leading)) if leading.iter().all(|extent| *extent == 1) => Ok(tensor),
        _ => Err(Error::value_error(format!("{:?} is not one row", tensor.shape))),
    }
}

fn length<T: Element>(tensor: &HostTensor) -> Result<usize, Error> {
    if tensor.dtype != T::DTYPE || !tensor.data.cast::<T>().is_aligned() {
        let message = format!("expected aligned {} elements, got {}", T::DTYPE, tensor.dtype);
        return Err(Error::value_error(message));
    }
    Ok(tensor.shape.iter().product::<i64>() as usize)
}

fn elements<T: Element>(tensor: &HostTensor) -> Result<&[T], Error> {
    match length::<T>(tensor)? {
        0 => Ok(&[]),
        // SAFETY: the elements are compact and aligned; the maker of the tensor vouches for them, and
        // nothing else writes them during the call.
        count => Ok(unsafe { std::slice::from_raw_parts(tensor.data.cast::<T>(), count) }),
    }
}

fn elements_mut<T: Element>(tensor: &mut HostTensor) -> Result<&mut [T], Error> {
    match length::<T>(tensor)? {
        0 => Ok(&mut []),
        // SAFETY: as in `elements`; what is read besides was copied, or is of another type and so
        // another tensor.
        count => Ok(unsafe { std::slice::from_raw_parts_mut(tensor.data.cast::<T>(), count) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    fn call(name: &str, args: &[Any]) -> Result<Any, Error> {
        let views: Vec<AnyView<'_>> = args.iter().map(Any::view).collect();
        registry::get(&format!("vm.builtin.{name}"))
            .expect("a function of this module")
            .call(&views)
    }

    fn f32s(values: &[f32]) -> Any {
        Tensor::from_slice(&[1, values.len() as i64], values).unwrap().into()
    }

    fn i32s(values: &[i32]) -> Any {
        Tensor::from_slice(&[values.len() as i64], values).unwrap().into()
    }

    fn read(tensor: &Any) -> Vec<f32> {
        tensor.downcast_ref::<Tensor>().unwrap().to_vec().unwrap()
    }

    #[test]
    fn top_p_chooses_among_the_likeliest_by_their_shares() {
        let prob = f32s(&[0.1, 0.4, 0.3, 0.2]);
        let pick = |top_p: f64, uniform: f64| {
            let value =
                call("sample_top_p_from_prob", &[prob.clone(), top_p.into(), uniform.into()]);
            i64::try_from(value.unwrap()).unwrap()
        };
        // Of 0.4 and 0.3 the first has four of seven parts.
        assert_eq!(
            [pick(0.7, 0.0), pick(0.7, 0.56), pick(0.7, 0.58), pick(0.7, 0.999)],
            [1, 1, 2, 2]
        );
        assert_eq!(
            [pick(1.0, 0.39), pick(1.0, 0.41), pick(1.0, 0.75), pick(1.0, 0.95)],
            [1, 2, 3, 0]
        );
        let logits = f32s(&[0.1_f32.ln(), 0.4_f32.ln(), 0.3_f32.ln(), 0.2_f32.ln()]);
        let pick = |temperature: f64, uniform: f64| {
            let args = [logits.clone(), temperature.into(), 0.7_f64.into(), uniform.into()];
            i64::try_from(call("sample_top_p_from_logits", &args).unwrap()).unwrap()
        };
        assert_eq!([pick(1.0, 0.56), pick(1.0, 0.58), pick(0.0, 0.999)], [1, 2, 1]);
        let nothing = call("sample_top_p_from_prob", &[f32s(&[f32::NAN]), 1.0.into(), 0.5.into()]);
        assert!(nothing.unwrap_err().message().contains("NaN"));
        let two = Any::from(Tensor::from_slice(&[2, 1], &[0.5_f32; 2]).unwrap());
        let error = call("sample_top_p_from_prob", &[two, 1.0.into(), 0.5.into()]).unwrap_err();
        assert_eq!(error.to_string(), "ValueError: [2, 1] is not one row");
    }

    #[test]
    fn each_row_has_its_own_number() {
        let prob = Any::from(Tensor::from_slice(&[2, 2], &[0.25_f32, 0.75, 0.5, 0.5]).unwrap());
        let uniform = Any::from(Tensor::from_slice(&[2, 1], &[0.3_f32, 0.3]).unwrap());
        let chosen = call("multinomial_from_uniform", &[prob.clone(), uniform]).unwrap();
        let chosen = chosen.downcast_ref::<Tensor>().unwrap();
        assert_eq!((chosen.shape(), chosen.to_vec::<i64>().unwrap()), (&[2, 1][..], vec![1, 0]));
        assert!(call("multinomial_from_uniform", &[prob, f32s(&[0.1])]).is_err());
    }

    #[test]
    fn logits_change_in_place() {
        let logits = f32s(&[2.0, -2.0, 1.0]);
        call("apply_repetition_penalty", &[logits.clone(), i32s(&[0, 1]), 2.0.into()]).unwrap();
        assert_eq!(read(&logits), [1.0, -4.0, 1.0]);
        let args = [logits.clone(), i32s(&[2]), i32s(&[3]), 0.5.into(), 0.25.into()];
        call("apply_presence_and_frequency_penalty", &args).unwrap();
        assert_eq!(read(&logits), [1.0, -4.0, -0.25]);
        let error = call("apply_repetition_penalty", &[logits, i32s(&[3]), 2.0.into()]);
        assert_eq!(error.unwrap_err().to_string(), "IndexError: token 3 of a vocabulary of 3");
        // All negative: a maximum that starts at a positive number would lose them.
        let logits = f32s(&[-200.0, -200.0]);
        call("apply_softmax_with_temperature", &[logits.clone(), 0.5.into()]).unwrap();
        assert_eq!(read(&logits), [0.5, 0.5]);
    }
}
