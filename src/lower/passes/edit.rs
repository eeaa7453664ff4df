//! Pipelines as text: a name and edits.

use std::sync::Arc;

use super::sequence::{ModulePass, Pipeline, Place};

/// Reads the text of [`Pipeline::parse`].
pub(super) fn parse(
    text: &str,
    outside: &dyn Fn(&str) -> Result<Arc<dyn ModulePass>, String>,
) -> Result<Pipeline, String> {
    let mut edits = text.split(',').map(str::trim).peekable();
    let named = |part: &&str| !part.contains(['=', '-']);
    let name = edits.next_if(named).filter(|name| !name.is_empty()).unwrap_or("default");
    let mut pipeline = Pipeline::named(name)?;
    for edit in edits.filter(|edit| !edit.is_empty()) {
        apply(&mut pipeline, edit, outside)?;
    }
    Ok(pipeline)
}

fn apply(
    pipeline: &mut Pipeline,
    edit: &str,
    outside: &dyn Fn(&str) -> Result<Arc<dyn ModulePass>, String>,
) -> Result<(), String> {
    if let Some(pass) = edit.strip_prefix('-') {
        return pipeline.remove(pass);
    }
    let unknown = || {
        let forms = "-PASS, PASS.OPTION=VALUE, order=A+B, before:PASS=NAME or after:PASS=NAME";
        format!("`{edit}` is no edit of a pipeline; one is {forms}")
    };
    let (key, value) = edit.split_once('=').ok_or_else(unknown)?;
    if let Some(pass) = key.strip_prefix("before:") {
        return pipeline.insert(Place::Before(pass), value, outside(value)?);
    }
    if let Some(pass) = key.strip_prefix("after:") {
        return pipeline.insert(Place::After(pass), value, outside(value)?);
    }
    if key == "order" {
        return pipeline.reorder(&value.split('+').collect::<Vec<_>>());
    }
    let (pass, option) = key.split_once('.').ok_or_else(unknown)?;
    let number = value.parse().map_err(|_| format!("{key}: {value:?} is no whole number"))?;
    pipeline.set(pass, option, number)
}
