//! Documents say what is there: links and paths exist, decisions are linked from the code they
//! govern, counts and figures are those of their sources, and private words stay out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Folders and files that a path in a document may start with.
const ROOTS: [&str; 11] = [
    "src/",
    "jit/",
    "tests/",
    "benches/",
    "fuzz/",
    "docs/",
    "examples/",
    "include/",
    "python/",
    "bindings/",
    ".",
];

/// Private words of earlier days, with the contexts in which the letters mean something else.
/// The field's terms are in `docs/glossary.md`.
const PRIVATE: [(&str, &[&str]); 20] = [
    ("programs for extents", &[]),
    ("program for extents", &[]),
    ("terms of bfloat16", &[]),
    ("bfloat16 terms", &[]),
    ("each channel alone", &[]),
    ("over all channels", &[]),
    ("channels in blocks", &[]),
    ("compiled whole", &[]),
    ("by halves", &[]),
    ("by tiles", &[]),
    ("written out", &[]),
    ("makes room", &[]),
    ("making room", &[]),
    ("in turns", &[]),
    ("join_loops", &[]),
    ("write_out", &[]),
    ("nobody", &[]),
    ("somebody", &[]),
    ("whoever", &[]),
    ("recipe", &[]),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    let file = root().join(path);
    std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// Files below a folder with one of the endings, as paths from the root.
fn below(folder: &str, endings: &[&str], found: &mut Vec<String>) {
    let entries = std::fs::read_dir(root().join(folder)).expect("a folder");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        let relative = path.strip_prefix(root()).expect("below the root").display().to_string();
        if path.is_dir() && !path.ends_with("target") {
            below(&relative, endings, found);
        } else if endings.iter().any(|ending| relative.ends_with(ending)) {
            found.push(relative);
        }
    }
}

/// Every document that describes the tree as it is; records of the past are not among them.
fn documents() -> Vec<String> {
    let mut found = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .map(str::to_owned)
        .to_vec();
    let packages = ["go", "java", "javascript"];
    found.extend(packages.map(|name| format!("bindings/{name}/README.md")));
    below("docs", &[".md"], &mut found);
    found
}

/// Rust files of every crate.
fn sources() -> Vec<String> {
    let mut found = vec![];
    for folder in ["src", "jit", "fuzz", "tests", "examples", "benches"] {
        below(folder, &[".rs"], &mut found);
    }
    found
}

/// The text without its fenced blocks of code.
fn prose(text: &str) -> String {
    let mut inside = false;
    let mut kept = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// Targets of the links of a document, but for what only looks like one between backticks.
fn links(text: &str) -> Vec<String> {
    let plain = text.lines().map(|line| line.split('`').step_by(2).collect::<String>() + "\n");
    let text: String = plain.collect();
    let ends = text.split("](").skip(1);
    ends.filter_map(|rest| rest.split_once(')')).map(|(link, _)| link.to_owned()).collect()
}

/// The texts between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

/// Whether quoted text is meant as a path in this tree.
fn is_path(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-*".contains(c);
    text.contains('/') && text.chars().all(plain) && ROOTS.iter().any(|r| text.starts_with(r))
}

/// Whether a path exists; a `*` in its last part stands for anything.
fn exists(path: &str) -> bool {
    let Some((folder, pattern)) = path.rsplit_once('/') else {
        return root().join(path).exists();
    };
    let Some((start, end)) = pattern.split_once('*') else {
        return root().join(path).exists();
    };
    let Ok(mut entries) = std::fs::read_dir(root().join(folder)) else {
        return false;
    };
    entries.any(|entry| {
        let name = entry.expect("an entry").file_name();
        name.to_str().is_some_and(|name| name.starts_with(start) && name.ends_with(end))
    })
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn links_lead_somewhere() {
    let mut wrong = vec![];
    for document in documents().into_iter().chain(["fuzz/README.md".to_owned()]) {
        let folder = root().join(&document).parent().expect("a folder").to_owned();
        for link in links(&prose(&read(&document))) {
            if link.starts_with("https://") {
                continue;
            }
            let (path, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { root().join(&document) } else { folder.join(path) };
            if !target.exists() {
                wrong.push(format!("{document}: {link}"));
            } else if !heading.is_empty() {
                let text = prose(&std::fs::read_to_string(&target).expect("a document"));
                let headings = text.lines().filter_map(|line| line.strip_prefix('#'));
                let mut anchors = headings.map(|h| anchor(h.trim_start_matches('#')));
                if !anchors.any(|a| a == heading) {
                    wrong.push(format!("{document}: {link} (no such heading)"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "links to nowhere:\n{}", wrong.join("\n"));
}

#[test]
fn paths_exist() {
    let mut wrong = vec![];
    for document in documents() {
        let text = prose(&read(&document));
        let paths = quoted(&text).into_iter().filter(|text| is_path(text));
        wrong.extend(paths.filter(|p| !exists(p)).map(|path| format!("{document}: {path}")));
    }
    assert!(wrong.is_empty(), "paths that do not exist:\n{}", wrong.join("\n"));
}

/// Names in documents that are other systems'.
const FOREIGN: [&str; 1] = ["ARCH_REQ_XCOMP_PERM"];

/// Words of a text that could be names.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Whether quoted text is meant as a name in code: of several words, or a type's.
fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let told = text.contains('_') || text.contains("::") || text.starts_with(char::is_uppercase);
    text.chars().all(plain) && text.starts_with(|c: char| c.is_ascii_alphabetic()) && told
}

#[test]
fn names_exist() {
    let mut files = sources();
    below("python", &[".py"], &mut files);
    for (folder, endings) in [("go", [".go"]), ("java", [".java"]), ("javascript", [".ts"])] {
        below(&format!("bindings/{folder}"), &endings, &mut files);
    }
    files.retain(|file| !file.contains("node_modules"));
    below("tests", &[".py", ".txt"], &mut files);
    below(".github", &[".yml"], &mut files);
    files.extend(["include/reflex.h", "Cargo.toml", "x"].map(str::to_owned));
    files.retain(|file| file != "tests/docs.rs");
    let texts: Vec<String> = files.iter().map(|file| read(file)).collect();
    let known: BTreeSet<&str> = texts.iter().flat_map(|text| words(text)).collect();
    let mut wrong = vec![];
    // These two name what other systems have.
    let others = ["docs/glossary.md", "docs/mission.md"];
    for document in documents().into_iter().filter(|d| !others.contains(&d.as_str())) {
        let text = prose(&read(&document));
        for name in quoted(&text).into_iter().filter(|text| is_name(text)) {
            if !FOREIGN.contains(&name) && !words(name).all(|word| known.contains(word)) {
                wrong.push(format!("{document}: {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "names that no source has:\n{}", wrong.join("\n"));
}

/// Decisions by number: file, and the files that it says it governs.
fn decisions() -> BTreeMap<usize, (String, Vec<String>)> {
    let mut files = vec![];
    below("docs/decisions", &[".md"], &mut files);
    let parsed = files.into_iter().map(|file| {
        let name = file.rsplit('/').next().expect("a name");
        let number = name[..4].parse().unwrap_or_else(|_| panic!("{file}: no number"));
        let text = read(&file);
        let code = text.split("- Code:").nth(1).unwrap_or_else(|| panic!("{file}: no code"));
        let code = code.split("\n\n").next().expect("a list");
        (number, (file, quoted(code).into_iter().map(str::to_owned).collect()))
    });
    parsed.collect()
}

#[test]
fn decisions_are_numbered_and_linked() {
    let (all, map) = (decisions(), read("ARCHITECTURE.md"));
    let numbers: Vec<usize> = all.keys().copied().collect();
    assert_eq!(numbers, (1..=all.len()).collect::<Vec<_>>(), "a gap, or a number twice");
    let mut wrong = vec![];
    for (file, code) in all.values() {
        let text = read(file);
        for part in ["\n- Status: ", "\n## Context\n", "\n## Decision\n", "\n## Rejected\n"] {
            if !text.contains(part) {
                wrong.push(format!("{file}: lacks {part:?}"));
            }
        }
        if !map.contains(&format!("({file})")) {
            wrong.push(format!("{file}: not in ARCHITECTURE.md"));
        }
        if !code.iter().any(|path| read(path).contains(file.as_str())) {
            wrong.push(format!("{file}: no file that it governs names it: {code:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sources_name_decisions_that_exist() {
    let mut wrong = vec![];
    for file in sources() {
        if file == "tests/docs.rs" {
            continue;
        }
        let text = read(&file);
        for rest in text.split("docs/").skip(1) {
            let plain = |c: &char| c.is_ascii_alphanumeric() || "/._-".contains(*c);
            let path: String = rest.chars().take_while(plain).collect();
            let path = path.trim_end_matches('.');
            if path.ends_with(".md") && !root().join("docs").join(path).exists() {
                wrong.push(format!("{file}: docs/{path}"));
            }
        }
    }
    assert!(wrong.is_empty(), "pages that do not exist:\n{}", wrong.join("\n"));
}

/// Rows of the tables of a text, as cells.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|---"));
    lines.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
}

#[test]
fn the_glossary_names_places_that_exist() {
    let text = read("docs/glossary.md");
    let mut wrong = vec![];
    for row in rows(&text).filter(|row| row[0] != "term") {
        let paths: Vec<&str> = row.get(2).map(|cell| quoted(cell)).unwrap_or_default();
        if row.len() != 4 || !paths.iter().any(|path| root().join(path).exists()) {
            wrong.push(row.join(" | "));
        }
    }
    assert!(wrong.is_empty(), "rows without four cells or a path:\n{}", wrong.join("\n"));
}

#[test]
fn a_term_of_the_glossary_has_one_row() {
    let text = read("docs/glossary.md");
    let mut seen = BTreeSet::new();
    let mut twice = vec![];
    for row in rows(&text).filter(|row| row[0] != "term") {
        twice.extend(row[0].split(", ").filter(|term| !seen.insert(*term)).map(str::to_owned));
    }
    assert!(twice.is_empty(), "terms with more than one row: {twice:?}");
}

#[test]
fn the_mission_counts_what_it_lists() {
    let text = read("docs/mission.md");
    let mut counted: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    let (mut claimed, mut numbers, mut part) = (BTreeMap::new(), BTreeSet::new(), String::new());
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            part = title.to_owned();
        }
        let Some(cells) = rows(line).next() else {
            continue;
        };
        if let (5, Ok(number)) = (cells.len(), cells[0].parse::<usize>()) {
            assert!(numbers.insert(number), "row {number} twice");
            let status = ["yes", "partly", "no"].iter().position(|s| *s == cells[3]);
            let status = status.unwrap_or_else(|| panic!("row {number}: status {:?}", cells[3]));
            for part in [part.as_str(), "all"] {
                counted.entry(part.to_owned()).or_default()[status] += 1;
            }
            let shown = quoted(cells[4]).into_iter().any(|path| root().join(path).exists());
            assert!(status != 0 || shown, "row {number}: yes, and no path as evidence");
        } else if let (5, Ok(sum)) = (cells.len(), cells[4].parse::<usize>()) {
            let counts = [1, 2, 3].map(|at: usize| cells[at].parse().expect("a count"));
            assert_eq!(counts.iter().sum::<usize>(), sum, "{}", cells[0]);
            claimed.insert(cells[0].to_owned(), counts);
        }
    }
    assert_eq!(numbers, (1..=numbers.len()).collect(), "rows are missing");
    assert_eq!(claimed, counted, "the summary counts what is listed");
}

/// The fenced blocks of a language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("\n```{language}\n");
    let starts = text.split(fence.as_str()).skip(1);
    starts.filter_map(|rest| rest.split("\n```").next()).map(str::to_owned).collect()
}

#[test]
fn the_readme_quotes_its_sources() {
    let readme = read("README.md");
    for (language, example) in [("c", "examples/mlp.c"), ("python", "examples/mlp.py")] {
        let example = read(example);
        let lines: BTreeSet<&str> = example.lines().map(str::trim).collect();
        let blocks = blocks(&readme, language);
        assert!(!blocks.is_empty(), "no example in {language}");
        for line in blocks.iter().flat_map(|block| block.lines()).map(str::trim) {
            assert!(lines.contains(line), "not in the {language} example: {line}");
        }
    }
    let record = read("benches/record/peers.md");
    let measured: Vec<Vec<&str>> = rows(&record).collect();
    let mut figures = 0;
    for row in rows(&readme).filter(|row| row.len() == 7 && row[0].contains(" / ")) {
        if row[0] == "model / case" {
            continue;
        }
        for (threads, part) in [("1", &row[1..4]), ("2", &row[4..7])] {
            let one_row = |m: &&Vec<&str>| {
                let figure = |cell: &str| m.contains(&cell.trim_matches('*'));
                m[0] == row[0] && m.get(1) == Some(&threads) && part.iter().all(|c| figure(c))
            };
            assert!(measured.iter().any(|m| one_row(&m)), "not in the record: {row:?}");
            figures += 1;
        }
    }
    assert!(figures > 0, "README has no figures");
    let manifest = read("Cargo.toml");
    let msrv = manifest.split("rust-version = \"").nth(1).and_then(|rest| rest.split('"').next());
    let said = format!("Rust {} or newer", msrv.expect("rust-version"));
    assert!(readme.contains(&said), "README does not say {said:?}");
}

#[test]
fn the_page_on_deploying_quotes_its_record() {
    let (page, record) = (read("docs/deploying.md"), read("benches/record/examples.md"));
    let measured: BTreeSet<&str> = record.lines().collect();
    let number = |line: &str| line.split(" | ").nth(1).is_some_and(|c| c.parse::<f64>().is_ok());
    let figures: Vec<&str> = page.lines().filter(|line| number(line)).collect();
    assert!(!figures.is_empty(), "no figures");
    let missing: Vec<_> = figures.into_iter().filter(|line| !measured.contains(line)).collect();
    assert!(missing.is_empty(), "not in the record:\n{}", missing.join("\n"));
}

/// Blocks that name a file after their language are quoted from it, line by line.
#[test]
fn quoted_blocks_are_in_their_files() {
    let (mut wrong, mut blocks) = (vec![], 0);
    for document in documents() {
        let text = read(&document);
        for block in text.split("\n```text ").skip(1) {
            let (path, rest) = block.split_once('\n').expect("a line");
            let quoted = rest.split("\n```").next().expect("an end");
            let source = read(path);
            let plain = |line: &str| line.trim_start_matches('|').trim().to_owned();
            let lines: BTreeSet<String> = source.lines().map(plain).collect();
            let missing = quoted.lines().filter(|line| !lines.contains(line.trim()));
            wrong.extend(missing.map(|line| format!("{document}: not in {path}: {line}")));
            blocks += 1;
        }
    }
    assert!(wrong.is_empty() && blocks > 0, "{blocks} blocks:\n{}", wrong.join("\n"));
}

/// Lines of documents and of doc comments, with where they are.
fn said() -> Vec<(String, String)> {
    let mut found = vec![];
    for document in documents() {
        let text = read(&document);
        let lines =
            text.lines().zip(1..).map(|(line, n)| (format!("{document}:{n}"), line.to_owned()));
        found.extend(lines);
    }
    for file in sources() {
        let text = read(&file);
        for (line, n) in text.lines().zip(1..) {
            let line = line.trim_start();
            if let Some(doc) = line.strip_prefix("//!").or_else(|| line.strip_prefix("///")) {
                found.push((format!("{file}:{n}"), doc.to_owned()));
            }
        }
    }
    found
}

#[test]
fn private_words_stay_out() {
    let mut wrong = vec![];
    for (at, line) in said() {
        let (line, at_test) = (line.to_lowercase(), at.starts_with("tests/docs.rs"));
        for (word, allowed) in PRIVATE {
            if !at_test && line.contains(word) && !allowed.iter().any(|a| line.contains(a)) {
                wrong.push(format!("{at}: {word:?}: {}", line.trim()));
            }
        }
    }
    let count = wrong.len();
    assert!(wrong.is_empty(), "{count} private words:\n{}", wrong.join("\n"));
}

#[test]
fn doc_comments_say_what_a_thing_is() {
    let opens = |line: &str| [" What ", " How "].iter().any(|word| line.starts_with(word));
    let found = said().into_iter().filter(|(at, line)| at.contains(".rs:") && opens(line));
    let wrong: Vec<String> = found.map(|(at, line)| format!("{at}:{line}")).collect();
    assert!(wrong.is_empty(), "doc comments that open with a question:\n{}", wrong.join("\n"));
}

#[test]
fn decisions_are_short_sentences() {
    let mut wrong = vec![];
    for (file, _) in decisions().into_values() {
        let text = prose(&read(&file));
        let lines = text.lines().filter(|line| !line.starts_with(['|', '#']));
        let paragraphs = lines.collect::<Vec<_>>().join("\n").replace("\n- ", "\n\n- ");
        for paragraph in paragraphs.split("\n\n") {
            let joined = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
            let long = joined.split(". ").filter(|s| s.split_whitespace().count() > 40);
            wrong.extend(long.map(|sentence| format!("{file}: {sentence}")));
        }
    }
    assert!(wrong.is_empty(), "sentences of more than 40 words:\n{}", wrong.join("\n"));
}
