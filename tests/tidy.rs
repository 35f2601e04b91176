//! Checks the structure of the workspace: permitted imports, sizes of files and functions, and the required content of files
//! and manifests.
//!
//! The data comes from the sources and from `cargo tree`, one crate at a time. A resolution of the whole workspace would show
//! the features of all crates together.
#![expect(clippy::expect_used, clippy::panic, reason = "a failed assumption should fail the test")]

#[path = "tidy/filters.rs"]
mod filters;
#[path = "tidy/functions.rs"]
mod functions;
#[path = "tidy/glossary.rs"]
mod glossary;
#[path = "tidy/language.rs"]
mod language;
#[path = "tidy/modules.rs"]
mod modules;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use modules::Module;

/// Occurrences by subject, such as a file or a type.
type Counts = BTreeMap<String, usize>;

const FILE_LINES: usize = 500;
const TEST_FILE_LINES: usize = 800;
const FUNCTION_LINES: usize = 80;
const MEDIAN_FUNCTION_LINES: usize = 9;
const P90_FUNCTION_LINES: usize = 30;
const MAIN_LINES: usize = 20;
const INDENTATION: usize = 40;

/// Crates, each with the workspace crates that it may import, and package names (prefixes end in `*`) that it must never reach.
const ARROWS: &[(&str, &[&str], &[&str])] = &[
    ("api", &[], &["tokio", "hyper", "aws-*", "kube", "kube-client"]),
    ("machine", &["api"], &["tokio", "hyper", "aws-*"]),
    ("planner", &[], &["tokio", "kube*", "k8s-openapi", "aws-*", "tracing", "rand", "log", "jiff", "chrono", "time"]),
    ("snapshot", &["api", "planner"], &["tokio", "hyper", "aws-*"]),
    ("replay", &["api", "planner", "snapshot"], &["tokio", "hyper", "aws-*"]),
    ("drain", &["api"], &["tokio", "kube", "kube-client", "aws-*"]),
    ("cloud", &["api", "planner", "machine", "daemon"], &["aws-*", "kube", "kube-client"]),
    ("aws", &["cloud"], &["kube", "kube-client", "controller"]),
    ("daemon", &[], &["kube*", "aws-*", "api", "planner"]),
    ("controller", &["api", "machine", "planner", "snapshot", "drain", "cloud", "aws", "daemon"], &["aws-lc-rs"]),
    ("cli", &["api", "machine", "planner", "replay", "snapshot", "cloud", "daemon"], &["aws-*", "kube", "kube-client"]),
    ("fuzz", &["agent", "cli", "daemon", "drain", "machine"], &["kube", "kube-client", "aws-*"]),
    ("day", &["api", "planner", "replay", "snapshot", "cloud", "controller", "daemon", "simulator"], &["aws-*"]),
    ("peers", &["api", "planner", "replay", "snapshot", "cloud", "cli", "day", "go-programs"], &["aws-*"]),
    ("go-programs", &[], &["tokio", "kube*", "aws-*"]),
    ("simulator", &["api", "cloud", "controller", "daemon", "planner", "snapshot"], &["aws-*"]),
    ("ship", &[], &["tokio", "kube*", "aws-*"]),
    ("skip", &[], &["tokio", "kube*", "aws-*"]),
    ("systemd-container", &["skip"], &["tokio", "kube*", "aws-*"]),
    ("agent", &["api", "machine", "drain", "daemon"], &["planner", "cloud", "kube", "kube-client", "aws-*"]),
];

/// The only crate whose manifest may name the SDK.
const SDK_CRATE: &str = "aws";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests crate lies in the workspace").to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn crate_folder(name: &str) -> PathBuf {
    let folders = [root().join("crates").join(name), root().join("tests").join(name)];
    folders.into_iter().find(|folder| folder.exists()).unwrap_or_else(|| root().join(name))
}

/// Returns every Rust source below the workspace, without build output.
fn sources() -> Vec<PathBuf> {
    let found = files_below(&["agent", "controller", "crates", "tests", "cli"]);
    let sources: Vec<PathBuf> =
        found.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect();
    assert!(sources.len() > 20, "the walk lost its way: only {} sources", sources.len());
    sources
}

/// Returns all files in these folders of the repository and below, without build output, in order.
fn files_below(folders: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|name| root().join(name)).collect();
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for path in entries.map(|entry| entry.expect("a readable folder").path()) {
            if !path.is_dir() {
                found.push(path);
            } else if path.file_name().is_some_and(|name| name != "target") {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

fn is_test(path: &Path) -> bool {
    let relative = path.strip_prefix(root()).expect("a source of the workspace");
    relative.starts_with("tests")
        || relative.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "benches")
        || relative.file_stem().is_some_and(|stem| stem == "tests")
}

/// Returns the number of lines before the file's own unit tests.
fn shipped_lines(text: &str) -> usize {
    text.lines().take_while(|line| *line != "#[cfg(test)]").count()
}

fn report(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}:\n  {}", findings.join("\n  "));
}

/// Returns the packages that the crate reaches through normal dependencies, without itself. Default features are off: the only
/// default feature of the command adds the Kubernetes client, and the rest of the command must work without it.
fn reached(name: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--offline",
            "-p",
            name,
            "-e",
            "normal",
            "--no-default-features",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo tree -p {name}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("cargo prints UTF-8");
    let names: BTreeSet<String> =
        text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    assert!(names.contains(name), "cargo tree does not know {name}");
    names.into_iter().filter(|found| found != name).collect()
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

/// Deeper lines are parts of a message that was split to fit, and grep cannot find such a message.
#[test]
fn messages_are_not_broken_into_pieces() {
    let mut findings = Vec::new();
    for path in sources() {
        for (number, line) in (1..).zip(read(&path).lines()) {
            if line.len() - line.trim_start().len() > INDENTATION {
                findings.push(format!("{}:{number}: {}", path.display(), line.trim_start()));
            }
        }
    }
    report("lines that are indented too deep", &findings);
}

#[test]
fn crates_import_only_permitted_crates() {
    let ours: Vec<&str> = ARROWS.iter().map(|(name, _, _)| *name).collect();
    let mut findings = Vec::new();
    for (name, _, forbidden) in ARROWS {
        for reached in reached(name) {
            if forbidden.iter().any(|pattern| matches(pattern, &reached)) {
                findings.push(format!("{name} reaches {reached}"));
            }
        }
    }
    for (name, allowed, _) in ARROWS {
        for direct in direct_dependencies(name) {
            if ours.contains(&direct.as_str()) && !allowed.contains(&direct.as_str()) {
                findings.push(format!("{name} imports {direct}"));
            }
            if direct.starts_with("aws-") && *name != SDK_CRATE {
                findings.push(format!("{name} names {direct}: only `{SDK_CRATE}` may link the SDK"));
            }
        }
    }
    report("arrows (docs/architecture.md, \"Crates and permitted dependencies\")", &findings);
}

/// Returns the names under `[dependencies]` in the crate's manifest.
fn direct_dependencies(name: &str) -> Vec<String> {
    read(&crate_folder(name).join("Cargo.toml"))
        .lines()
        .skip_while(|line| *line != "[dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn arrows_contains_every_workspace_member() {
    let manifest = read(&root().join("Cargo.toml"));
    let members: BTreeSet<&str> = manifest
        .split_once("members = [")
        .and_then(|(_, rest)| rest.split_once(']'))
        .expect("the root manifest lists members")
        .0
        .lines()
        .filter_map(|line| line.trim().strip_prefix('"')?.split('"').next())
        .filter_map(|path| path.rsplit('/').next())
        .collect();
    let mut known: BTreeSet<&str> = ARROWS.iter().map(|(name, _, _)| *name).collect();
    known.insert("tests");
    assert_eq!(members, known);
}

#[test]
fn manifests_inherit_workspace_lints_and_versions() {
    let mut findings = Vec::new();
    for name in ARROWS.iter().map(|(name, _, _)| *name).chain(["tests"]) {
        let manifest = read(&crate_folder(name).join("Cargo.toml"));
        if !manifest.contains("[lints]\nworkspace = true") {
            findings.push(format!("{name}/Cargo.toml lacks `[lints] workspace = true`"));
        }
        for line in manifest.lines().filter(|line| line.contains("version = \"") && line.contains('{')) {
            findings.push(format!("{name}/Cargo.toml pins a version of its own: {line}"));
        }
    }
    report("manifests", &findings);
}

#[test]
fn planner_clippy_bans_include_workspace_bans() {
    let root_bans = read(&root().join("clippy.toml"));
    let planner_bans = read(&root().join("crates/planner/clippy.toml"));
    let missing: Vec<String> = root_bans
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("{ path") && !planner_bans.contains(*line))
        .map(str::to_owned)
        .collect();
    report("crates/planner/clippy.toml replaces the root file, so it must repeat", &missing);
}

#[test]
fn sources_begin_with_a_module_comment() {
    let findings: Vec<String> = sources()
        .iter()
        .filter(|path| !read(path).starts_with("//!"))
        .map(|path| format!("{} does not start with `//!`", path.display()))
        .collect();
    report("module docs", &findings);
}

#[test]
fn sources_read_only_files_of_the_repository() {
    let outside = concat!("../", "shared");
    let findings: Vec<String> =
        sources().iter().filter(|path| read(path).contains(outside)).map(|path| path.display().to_string()).collect();
    report("folders beside the checkout, which no user has", &findings);
}

#[test]
fn filters_of_tests_match_tests() {
    let known: BTreeSet<String> =
        sources().iter().flat_map(|path| filters::names(&read(path)).collect::<Vec<_>>()).collect();
    let mut findings = Vec::new();
    for file in ["Makefile", "CONTRIBUTING.md"] {
        let filters = filters::filters(&read(&root().join(file)));
        assert!(!filters.is_empty(), "{file} has no filter of tests");
        let unknown = filters.into_iter().filter(|filter| !filters::is_known(filter, &known));
        findings.extend(unknown.map(|filter| format!("{file}: no test matches `{filter}`")));
    }
    report("filters of tests", &findings);
}

/// Folders of the repository with paths that documents name.
const FOLDERS: [&str; 6] = ["agent/", "cli/", "controller/", "crates/", "docs/", "tests/"];

#[test]
fn glossary_names_existing_files_and_items() {
    let page = read(&root().join("docs/glossary.md"));
    let crates: Vec<&str> = ARROWS.iter().map(|(name, _, _)| *name).collect();
    let texts: Vec<(PathBuf, String)> = sources().into_iter().map(|path| (path.clone(), read(&path))).collect();
    let exists = |reference: &&str| match glossary::crate_and_item(reference, &crates) {
        Some((name, item)) => {
            let folder = crate_folder(name);
            texts.iter().any(|(path, text)| path.starts_with(&folder) && glossary::defines(text, item))
        }
        None => !FOLDERS.iter().any(|folder| reference.starts_with(folder)) || root().join(reference).exists(),
    };
    let references = glossary::references(&page);
    assert!(references.len() > 100, "only {} references were found in the page", references.len());
    let missing: Vec<String> = references.into_iter().filter(|it| !exists(it)).map(str::to_owned).collect();
    report("docs/glossary.md names what does not exist", &missing);
}

#[test]
fn files_have_few_lines() {
    let mut findings = Vec::new();
    for path in sources() {
        let text = read(&path);
        let (lines, limit) = if path.ends_with("src/main.rs") {
            (text.lines().count(), MAIN_LINES)
        } else if is_test(&path) {
            (text.lines().count(), TEST_FILE_LINES)
        } else {
            (shipped_lines(&text), FILE_LINES)
        };
        if lines > limit {
            findings.push(format!("{}: {lines} lines, limit {limit}", path.display()));
        }
    }
    report("sizes of files", &findings);
}

#[test]
fn functions_have_few_lines() {
    let mut shipped = Vec::new();
    let mut findings = Vec::new();
    for path in sources() {
        for function in functions::lengths(&read(&path)) {
            if function.lines > FUNCTION_LINES {
                findings.push(format!("{}: fn {} has {} lines", path.display(), function.name, function.lines));
            }
            if !is_test(&path) {
                shipped.push(function.lines);
            }
        }
    }
    report("functions over the limit", &findings);
    shipped.sort_unstable();
    let (median, p90) = (shipped[shipped.len() / 2], shipped[shipped.len() * 9 / 10]);
    assert!(median <= MEDIAN_FUNCTION_LINES, "the median function has {median} lines");
    assert!(p90 <= P90_FUNCTION_LINES, "one function in ten has more than {p90} lines");
}

#[test]
fn files_have_meaningful_names() {
    let banned = ["common", "utils", "util", "prelude", "helpers", "misc"];
    let findings: Vec<String> = sources()
        .iter()
        .filter(|path| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            stem == "mod" || banned.contains(&stem.as_str())
        })
        .map(|path| path.display().to_string())
        .collect();
    report("names that say nothing (and mod.rs, which hides the name)", &findings);
}

#[test]
fn sources_contain_no_todo_marks() {
    let marks = ["TODO", "FIXME", "XXX", "HACK"];
    let this_file = root().join("tests/tidy.rs");
    let mut findings = Vec::new();
    for path in sources().into_iter().filter(|path| *path != this_file) {
        for (number, line) in read(&path).lines().enumerate() {
            if marks.iter().any(|mark| line.contains(mark)) {
                findings.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    report("open ends belong in docs/roadmap.md", &findings);
}

/// Returns the dependencies that the root manifest declares for all members, by name.
fn workspace_dependencies() -> BTreeMap<String, String> {
    let manifest = read(&root().join("Cargo.toml"));
    let lines = manifest.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    let declared = lines.take_while(|line| !line.starts_with('[')).filter_map(|line| line.split_once(" = "));
    let declared: BTreeMap<String, String> =
        declared.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    assert!(declared.len() > 20, "the root manifest is read wrongly");
    declared
}

#[test]
fn dependencies_have_a_reason_in_architecture_md() {
    let page = read(&root().join("docs/architecture.md"));
    let findings: Vec<String> = workspace_dependencies()
        .into_iter()
        .filter(|(name, value)| !value.contains("path = ") && !page.contains(&format!("`{name}`")))
        .map(|(name, _)| name)
        .collect();
    report("dependencies that docs/architecture.md does not give a reason for", &findings);
}

#[test]
fn workspace_dependencies_are_used_by_a_member() {
    let manifests: Vec<String> = ARROWS
        .iter()
        .map(|(name, _, _)| *name)
        .chain(["tests"])
        .map(|name| read(&crate_folder(name).join("Cargo.toml")))
        .collect();
    let used: BTreeSet<&str> = manifests
        .iter()
        .flat_map(|manifest| manifest.lines())
        .filter_map(|line| {
            let detailed = || Some(line.split_once(" = { workspace = true")?.0);
            line.strip_suffix(".workspace = true").or_else(detailed)
        })
        .collect();
    let findings: Vec<String> =
        workspace_dependencies().into_keys().filter(|name| !used.contains(name.as_str())).collect();
    report("dependencies that no member uses", &findings);
}

#[test]
fn members_use_their_declared_dependencies() {
    let mut findings = Vec::new();
    for name in ARROWS.iter().map(|(name, _, _)| *name).chain(["tests"]) {
        let (folder, elsewhere) = (crate_folder(name), targets_elsewhere(name));
        let is_of_crate = |path: &&PathBuf| path.starts_with(&folder) || elsewhere.contains(path);
        let texts: Vec<String> = sources().iter().filter(is_of_crate).map(|path| read(path)).collect();
        for declared in declared_by(name) {
            let word = declared.replace('-', "_");
            if !texts.iter().any(|text| mentions(text, &word)) {
                findings.push(format!("{name} declares {declared}"));
            }
        }
    }
    report("dependencies that no source of the crate mentions", &findings);
}

/// Returns the targets of the crate outside its folder.
fn targets_elsewhere(name: &str) -> Vec<PathBuf> {
    let folder = crate_folder(name);
    let manifest = read(&folder.join("Cargo.toml"));
    let paths = manifest.lines().filter_map(|line| line.strip_prefix("path = \"../")?.strip_suffix('"'));
    paths.map(|path| folder.join("..").join(path).canonicalize().expect("a target of the manifest exists")).collect()
}

/// Returns the names that the crate's manifest takes from the workspace, test dependencies included.
fn declared_by(name: &str) -> Vec<String> {
    let manifest = read(&crate_folder(name).join("Cargo.toml"));
    let sections = manifest.split_once("[dependencies]").map(|(_, rest)| rest.to_owned()).unwrap_or_default();
    sections.lines().filter_map(|line| line.strip_suffix(".workspace = true")).map(str::to_owned).collect()
}

/// Reports whether `word` occurs in `text` as the first part of a path, in an attribute, or in a list of imports.
fn mentions(text: &str, word: &str) -> bool {
    [format!("{word}::"), format!("use {word}"), format!("{word} as "), format!("#[{word}")]
        .iter()
        .any(|form| text.contains(form))
}

/// Returns the Rust sources of shipped programs, by crate.
fn shipped_sources() -> BTreeMap<String, Vec<PathBuf>> {
    let mut crates: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for path in sources().into_iter().filter(|path| !is_test(path)) {
        let relative = path.strip_prefix(root()).expect("a source of the workspace").to_owned();
        let mut parts = relative.iter().map(|part| part.to_string_lossy().into_owned());
        let first = parts.next().unwrap_or_default();
        let name = if first == "crates" { parts.next().unwrap_or_default() } else { first };
        crates.entry(name).or_default().push(path);
    }
    crates
}

/// Returns the modules of a crate, from its files in `src`.
fn modules_of(paths: &[PathBuf]) -> Vec<Module> {
    let module = |path: &PathBuf| {
        let text = path.to_string_lossy().into_owned();
        let inner = text.split_once("/src/")?.1.strip_suffix(".rs")?;
        let parts = inner.split('/').filter(|part| !matches!(*part, "lib" | "main"));
        let source = read(path);
        let shipped = shipped_lines(&source);
        let source = source.lines().take(shipped).collect::<Vec<_>>().join("\n");
        Some(Module { path: parts.map(str::to_owned).collect(), source })
    };
    paths.iter().filter_map(module).collect()
}

/// Returns the Markdown pages for users and developers, by path.
fn pages() -> BTreeMap<String, String> {
    let folders = [root(), root().join("docs"), root().join("docs/how-to")];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder of pages"));
    let paths = files.map(|entry| entry.expect("a readable folder").path());
    let pages = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let name = |path: &Path| path.strip_prefix(root()).expect("a page").to_string_lossy().into_owned();
    pages.map(|path| (name(&path), read(&path))).collect()
}

fn expect_none(rule: &str, counts: &Counts) {
    let found = counts.iter().filter(|(_, count)| **count > 0);
    report(rule, &found.map(|(subject, count)| format!("{subject}: {count}")).collect::<Vec<_>>());
}

/// Returns the result of `measure` for each shipped source, by path.
fn by_file(measure: impl Fn(&str) -> usize) -> Counts {
    let paths = shipped_sources().into_values().flatten();
    paths.map(|path| (path.display().to_string(), measure(&read(&path)))).collect()
}

#[test]
fn texts_contain_no_banned_words() {
    let mut counts = Counts::new();
    let sources = shipped_sources().into_values().flatten();
    let texts = sources.map(|path| (path.display().to_string(), read(&path)));
    // The two excluded pages quote banned words.
    let pages = pages().into_iter().filter(|(name, _)| !name.ends_with("style.md") && name != "CHANGELOG.md");
    for (subject, text) in texts.chain(pages) {
        for (word, count) in language::banned_words(&text) {
            counts.insert(format!("{subject} {word}"), count);
        }
    }
    expect_none("words that docs/style.md bans", &counts);
}

/// Folders with what users apply, install, build images from and run.
const MANIFESTS: [&str; 9] = [
    "examples",
    "packer",
    "images",
    "systemd",
    "controller/chart",
    "controller/chart-crd",
    "controller/monitoring",
    "controller/rights",
    "tests/steps",
];

/// Scripts, units, charts and manifests. The descriptions in CRDs are those of the API, and certificates are no text.
#[test]
fn manifests_and_scripts_contain_no_banned_words() {
    let is_foreign = |path: &Path| {
        let name = path.to_string_lossy();
        name.contains("/crds/") || name.contains("/definitions/") || name.ends_with(".crt")
    };
    let mut counts = Counts::new();
    let files = files_below(&MANIFESTS).into_iter().chain([root().join("Makefile")]);
    for path in files.filter(|path| !is_foreign(path)) {
        let found = language::banned_in_manifests(&read(&path)).into_iter();
        counts.extend(found.map(|(word, count)| (format!("{} {word}", path.display()), count)));
    }
    expect_none("words that docs/style.md bans", &counts);
}

/// Test folders that still have the former dialect. Remove a folder from this list together with its last banned name.
const FORMER_DIALECT: [&str; 0] = [];

/// Returns the sources of test code with their paths inside the workspace, including unit tests in shipped sources.
fn test_sources() -> Vec<(PathBuf, String)> {
    let unit_tests =
        |text: String| text.split_once("#[cfg(test)]").map(|(_, tests)| tests.to_owned()).unwrap_or_default();
    let with_text = sources().into_iter().map(|path| {
        let text = if is_test(&path) { read(&path) } else { unit_tests(read(&path)) };
        (path.strip_prefix(root()).expect("a source of the workspace").to_owned(), text)
    });
    with_text.filter(|(path, _)| !FORMER_DIALECT.iter().any(|folder| path.starts_with(folder))).collect()
}

#[test]
fn identifiers_of_tests_contain_no_banned_words() {
    let mut counts = Counts::new();
    for (path, text) in test_sources() {
        let words = language::banned_identifiers(&text).into_iter();
        counts.extend(words.map(|(word, count)| (format!("{} {word}", path.display()), count)));
    }
    expect_none("words that docs/style.md bans, in names of tests", &counts);
}

#[test]
fn files_of_tests_have_no_banned_names() {
    let named = |path: &PathBuf| path.iter().any(|part| language::is_banned_name(&part.to_string_lossy()));
    let findings: Vec<String> = test_sources()
        .into_iter()
        .filter(|(path, text)| !text.is_empty() && path != Path::new("tests/tidy.rs") && named(path))
        .map(|(path, _)| path.display().to_string())
        .collect();
    report("names of files and folders of test code", &findings);
}

#[test]
fn doc_comments_begin_with_a_verb_or_noun() {
    expect_none("doc comments that begin with a question word", &by_file(language::question_comments));
}

#[test]
fn sentences_of_pages_are_short() {
    let counts = pages().into_iter().map(|(name, page)| (name, language::long_sentences(&page)));
    expect_none("sentences of more than 35 words", &counts.collect());
}

#[test]
fn functions_take_few_named_parameters() {
    expect_none("functions with too many parameters, or with a tuple as one", &by_file(modules::wide_functions));
}

#[test]
fn levels_have_few_modules() {
    let mut counts = Counts::new();
    for (name, paths) in shipped_sources() {
        let crowded = modules::crowded_levels(&modules_of(&paths));
        counts.extend(crowded.into_iter().map(|(level, count)| (format!("{name} {level}"), count)));
    }
    expect_none("levels with too many modules", &counts);
}

#[test]
fn modules_do_not_import_each_other() {
    let circles =
        shipped_sources().into_iter().map(|(name, paths)| (name, modules::modules_in_circles(&modules_of(&paths))));
    expect_none("modules that import each other", &circles.collect());
}

#[test]
fn impls_of_a_type_are_in_few_files() {
    let mut counts = Counts::new();
    for (name, paths) in shipped_sources() {
        let spread = modules::spread_impls(&modules_of(&paths));
        counts.extend(spread.into_iter().map(|(kind, count)| (format!("{name} {kind}"), count)));
    }
    expect_none("types with `impl` blocks in too many files", &counts);
}
