//! The parameters that the kernels of a PTX text declare. The driver reads as many as there are, so a
//! module that says otherwise is refused.

use reflex_runtime::error::Error;

use super::blob::{Entry, fault};

/// Checks that a text has the functions of a module, with parameters of their sizes.
pub(super) fn check(text: &str, entries: &[Entry]) -> Result<(), Error> {
    let text = without_comments(text);
    let declared: Vec<(&str, Option<Vec<usize>>)> =
        text.split(".entry").skip(1).filter_map(declaration).collect();
    for Entry { name, params, .. } in entries {
        let mut found = declared.iter().filter(|(known, _)| known == name);
        let Some((_, sizes)) = found.next() else {
            return Err(fault(&format!("no kernel `{name}` in its PTX")));
        };
        let given: Vec<usize> = params.iter().map(|param| param.bytes()).collect();
        if found.next().is_some() || sizes.as_ref() != Some(&given) {
            let text = format!("a kernel `{name}` whose parameters in the PTX are others");
            return Err(fault(&text));
        }
    }
    Ok(())
}

/// The text with a blank in place of each comment.
fn without_comments(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("//").into_iter().chain(rest.find("/*")).min() {
        out += &rest[..at];
        out.push(' ');
        let end = if rest[at..].starts_with("//") { "\n" } else { "*/" };
        let body = &rest[at + 2..];
        rest = body.find(end).map_or("", |close| &body[close + end.len()..]);
    }
    out + rest
}

/// The name of a kernel and the sizes of its parameters, from what follows `.entry`; no sizes where a
/// parameter is no number or address.
fn declaration(text: &str) -> Option<(&str, Option<Vec<usize>>)> {
    let text = text.trim_start();
    let end = text.find(|c: char| c.is_whitespace() || "({.".contains(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let Some(list) = rest.trim_start().strip_prefix('(') else { return Some((name, Some(vec![]))) };
    let (list, _) = list.split_once(')')?;
    let params = list.split(',').map(str::trim).filter(|param| !param.is_empty());
    Some((name, params.map(size).collect()))
}

/// The size of a parameter such as `.param .u64 .ptr .global .align 1 name`.
fn size(param: &str) -> Option<usize> {
    let mut words = param.split_whitespace();
    let kind = match (words.next()?, words.next()?) {
        (".param", ".align") => words.nth(1)?,
        (".param", kind) => kind,
        _ => return None,
    };
    if param.contains('[') {
        return None;
    }
    match kind {
        ".u64" | ".s64" | ".b64" | ".f64" => Some(8),
        ".u32" | ".s32" | ".b32" | ".f32" => Some(4),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::blob::Param;
    use super::*;

    const TEXT: &str = "// .entry no(\n.visible .entry k(\n\t.param .u64 .ptr .align 1 k_0, // a\n\
                        .param .u32 k_1\n)\n{ ret; }\n/* .entry k( */ .entry bare { ret; }\n\
                        .entry map(.param .align 64 .b8 m[128]) {}";

    fn said(name: &str, params: &[Param]) -> Option<String> {
        let entry = Entry {
            name: name.to_owned(),
            params: params.to_vec(),
            extents: vec![],
            has_dynamic_shared: false,
        };
        check(TEXT, &[entry]).err().map(|error| error.message().into_owned())
    }

    #[test]
    fn parameters_are_those_of_the_text() {
        assert_eq!(said("k", &[Param::Address, Param::Float32]), None);
        assert_eq!(said("bare", &[]), None);
        let others = "whose parameters in the PTX are others";
        for (name, params, words) in [
            ("k", &[Param::Address][..], others),
            ("k", &[Param::Address, Param::Int64], others),
            ("map", &[Param::Address], others),
            ("no", &[], "no kernel `no` in its PTX"),
        ] {
            let said = said(name, params).expect(name);
            assert!(said.contains(words), "{name}: {said}");
        }
    }
}
