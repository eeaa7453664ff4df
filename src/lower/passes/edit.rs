//! Pipelines as text: a name and edits.

use std::sync::Arc;

use super::sequence::{ModulePass, Pipeline, Place};

/// Finds a pass from outside by its name, or says why there is none.
pub type FindPass<'a> = dyn Fn(&str) -> Result<Arc<dyn ModulePass>, String> + 'a;

/// A pipeline from text: a name, which may be left out for `default`, and edits, separated by
/// commas. `-PASS` leaves a pass out, `PASS.OPTION=VALUE` sets an option, `order=A+B+C` runs these
/// passes on the module alone, in this order, and `before:PASS=NAME` and `after:PASS=NAME` put in a
/// pass from outside, which `outside` finds by its name. `schedule=FILE` schedules kernels by the traces
/// of a file.
pub fn parse(text: &str, outside: &FindPass<'_>) -> Result<Pipeline, String> {
    let mut edits = text.split(',').map(str::trim).peekable();
    let named = |part: &&str| !part.contains(['=', '-']);
    let name = edits.next_if(named).filter(|name| !name.is_empty()).unwrap_or("default");
    let mut pipeline = Pipeline::named(name)?;
    for edit in edits.filter(|edit| !edit.is_empty()) {
        apply(&mut pipeline, edit, outside)?;
    }
    Ok(pipeline)
}

fn apply(pipeline: &mut Pipeline, edit: &str, outside: &FindPass<'_>) -> Result<(), String> {
    if let Some(pass) = edit.strip_prefix('-') {
        return pipeline.remove(pass);
    }
    let unknown = || {
        let forms = "-PASS, PASS.OPTION=VALUE, order=A+B, before:PASS=NAME, after:PASS=NAME or schedule=FILE";
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
    if key == "schedule" {
        let text = std::fs::read_to_string(value).map_err(|e| format!("{value}: {e}"))?;
        return pipeline.add_traces(&text).map_err(|why| format!("{value}: {why}"));
    }
    let (pass, option) = key.split_once('.').ok_or_else(unknown)?;
    let number = value.parse().map_err(|_| format!("{key}: {value:?} is no whole number"))?;
    pipeline.set(pass, option, number)
}

#[cfg(test)]
mod tests {
    use reflex_graph::Module;

    use super::super::sequence::RuntimeModules;
    use super::*;

    /// Gives the module back.
    struct Same;

    impl ModulePass for Same {
        fn run(&self, module: Module, _: &mut RuntimeModules) -> Result<Module, String> {
            Ok(module)
        }
    }

    fn parsed(text: &str) -> Result<Vec<String>, String> {
        let find = |name: &str| match name {
            "absent" => Err("no function \"absent\"".to_owned()),
            _ => Ok(Arc::new(Same) as Arc<dyn ModulePass>),
        };
        let pipeline = parse(text, &find)?;
        Ok(pipeline.to_string().lines().map(str::to_owned).collect())
    }

    #[test]
    fn texts_name_order_and_set_passes() {
        let minimal = ["canonicalize_loops", "fuse_operators", "lower", "codegen"];
        assert_eq!(parsed("minimal").unwrap(), minimal);
        assert_eq!(parsed("").unwrap(), parsed("default").unwrap());
        let text = "-simplify,fuse_operators.max_operators=1,after:fold_constants=a,\
                    after:fold_constants=b,before:fold_constants=c,codegen.opt_level=0";
        let all = parsed(text).unwrap();
        let found: Vec<&str> = all.iter().map(String::as_str).collect();
        let first = [
            "inline_functions",
            "decompose_conv_transpose",
            "widen_half_products",
            "widen_depthwise",
            "c",
            "fold_constants",
            "a",
            "b",
        ];
        assert_eq!(found[..8], first);
        assert!(!found.contains(&"simplify"));
        assert!(found.contains(&"fuse_operators max_operators=1"));
        assert_eq!(found.last(), Some(&"codegen opt_level=0"));
        let text = "before:simplify=mine,order=simplify+mine+canonicalize_loops+fuse_operators";
        let order = ["simplify", "mine", "canonicalize_loops", "fuse_operators"];
        assert_eq!(parsed(text).unwrap()[..4], order);
    }

    #[test]
    fn texts_that_mean_nothing_are_refused_with_what_there_is() {
        let cases = [
            ("fast", "no pipeline \"fast\"; there are default and minimal"),
            ("-nothing", "no pass \"nothing\"; there are inline_functions, decompose_"),
            ("-fuse_operators", "no program is compiled without the pass fuse_operators"),
            ("-lower", "no program is compiled without the pass lower"),
            ("minimal,-simplify", "the pass simplify is left out of this pipeline"),
            ("simplify.rounds=1", "the pass simplify has no option \"rounds\"; it has max_bytes"),
            ("lower.rounds=1", "the pass lower has no option \"rounds\"; it has none"),
            ("fuse_operators.max=1", "no option \"max\"; it has max_operators"),
            ("fuse_operators.max_operators=0", "it is 1 to 512"),
            ("fuse_operators.max_operators=a", "\"a\" is no whole number"),
            ("codegen.opt_level=2", "LLVM's level, 0 or 3"),
            ("order=fuse_operators", "without the pass canonicalize_loops"),
            ("order=fuse_operators+canonicalize_loops", "before canonicalize_loops, which it"),
            ("order=simplify+simplify", "stands twice"),
            ("order=lower", "whose order is fixed"),
            ("after:lower=mine", "works on kernels, a pass from outside on modules"),
            ("after:simplify=simplify", "there is a pass \"simplify\" already"),
            ("after:simplify=absent", "no function \"absent\""),
            ("simplify", "no pipeline \"simplify\""),
            ("default,simplify", "`simplify` is no edit of a pipeline"),
        ];
        for (text, why) in cases {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
