//! Measurement of the structure of a crate from its sources: modules per level, circles of imports, parameters, and `impl`
//! blocks.

use std::collections::{BTreeMap, BTreeSet};

use super::Counts;

/// Highest number of modules on one level.
pub const MODULES: usize = 12;
const PARAMETERS: usize = 6;
const IMPL_FILES: usize = 2;

/// Path of a module below the crate, and its shipped source.
pub struct Module {
    /// Parts of the path, such as `state`, `index`; empty for the crate's root.
    pub path: Vec<String>,
    /// Text before the unit tests of the module.
    pub source: String,
}

/// Counts the children of each module that has too many.
pub fn crowded_levels(modules: &[Module]) -> Counts {
    let mut children: Counts = Counts::new();
    for module in modules.iter().filter(|module| !module.path.is_empty()) {
        *children.entry(module.path[..module.path.len() - 1].join("::")).or_default() += 1;
    }
    children.into_iter().filter(|(_, count)| *count > MODULES).collect()
}

/// Counts the modules that reach themselves through imports, without imports between parent and child.
pub fn modules_in_circles(modules: &[Module]) -> usize {
    let paths: BTreeSet<&[String]> = modules.iter().map(|module| module.path.as_slice()).collect();
    let mut imports: BTreeMap<&[String], BTreeSet<&[String]>> = BTreeMap::new();
    for module in modules {
        let targets = imported_paths(module).into_iter().filter_map(|target| longest_known(&paths, &target));
        let others = targets.filter(|target| !target.starts_with(&module.path) && !module.path.starts_with(target));
        imports.insert(&module.path, others.collect());
    }
    modules.iter().filter(|module| reaches_itself(&imports, &module.path)).count()
}

fn longest_known<'p>(paths: &BTreeSet<&'p [String]>, target: &[String]) -> Option<&'p [String]> {
    (1..=target.len()).rev().find_map(|length| paths.get(&target[..length]).copied())
}

fn reaches_itself(imports: &BTreeMap<&[String], BTreeSet<&[String]>>, start: &[String]) -> bool {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&[String]> = imports[start].iter().copied().collect();
    while let Some(next) = open.pop() {
        if next == start {
            return true;
        }
        if seen.insert(next) {
            open.extend(imports.get(next).into_iter().flatten());
        }
    }
    false
}

/// Returns the paths in `use` items of the module, from the crate's root on.
fn imported_paths(module: &Module) -> Vec<Vec<String>> {
    let items = module.source.split("\n").collect::<Vec<_>>().join(" ");
    let uses = items.split("use ").skip(1).filter_map(|rest| rest.split_once(';')).map(|(tree, _)| tree.trim());
    uses.flat_map(|tree| flatten(tree, &[])).filter_map(|path| absolute(module, path)).collect()
}

fn absolute(module: &Module, path: Vec<String>) -> Option<Vec<String>> {
    let supers = path.iter().take_while(|part| *part == "super").count();
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "super" => {
            let base = module.path.len().checked_sub(supers)?;
            Some(module.path[..base].iter().chain(&path[supers..]).cloned().collect())
        }
        "self" => Some(module.path.iter().chain(&path[1..]).cloned().collect()),
        _ => None,
    }
}

/// Flattens `a::{b, c::d}` into `a::b` and `a::c::d`.
fn flatten(tree: &str, prefix: &[String]) -> Vec<Vec<String>> {
    let parts =
        |text: &str| text.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect();
    let Some((head, body)) = tree.split_once('{') else {
        let own: Vec<String> = parts(tree.split(" as ").next().unwrap_or(tree));
        return vec![prefix.iter().cloned().chain(own).collect()];
    };
    let own: Vec<String> = parts(head);
    let prefix: Vec<String> = prefix.iter().cloned().chain(own).collect();
    let body = body.trim_end().strip_suffix('}').unwrap_or(body);
    split_top(body).into_iter().flat_map(|part| flatten(part, &prefix)).collect()
}

/// Splits a text at commas outside of all brackets.
fn split_top(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_i32, 0, Vec::new());
    let bytes = text.as_bytes();
    for (at, letter) in text.char_indices() {
        match letter {
            '{' | '(' | '[' | '<' => depth += 1,
            '>' if at > 0 && matches!(bytes[at - 1], b'-' | b'=') => {}
            '}' | ')' | ']' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// Counts functions with too many parameters, or with a tuple as a parameter.
pub fn wide_functions(source: &str) -> usize {
    signatures(source).filter(|list| is_wide(list)).count()
}

fn is_wide(list: &str) -> bool {
    let parameters = split_top(list);
    let is_tuple = |parameter: &&str| {
        let kind = parameter.split_once(": ").map_or("", |(_, kind)| kind);
        let kind = kind.trim_start_matches(['&', ' ']).trim_start_matches("mut ");
        kind.starts_with('(') && kind.contains(',')
    };
    let own = parameters.iter().filter(|parameter| !parameter.ends_with("self")).count();
    own > PARAMETERS || parameters.iter().any(is_tuple)
}

/// Returns the parameter lists of all functions.
fn signatures(source: &str) -> impl Iterator<Item = &str> {
    source.lines().enumerate().filter(|(_, line)| is_function(line)).filter_map(move |(number, _)| {
        let start: usize = source.lines().take(number).map(|line| line.len() + 1).sum();
        parameter_list(&source[start..])
    })
}

fn is_function(line: &str) -> bool {
    let line = line.trim_start();
    !line.starts_with("//") && line.split_whitespace().take(5).any(|word| word == "fn")
}

fn parameter_list(text: &str) -> Option<&str> {
    let name = text.find("fn ")?;
    let mut angle = 0_i32;
    let open = text[name..].char_indices().find_map(|(at, letter)| {
        match letter {
            '<' => angle += 1,
            '>' => angle -= 1,
            _ => {}
        }
        (letter == '(' && angle == 0).then_some(name + at)
    })?;
    let mut depth = 0_i32;
    let close = text[open..].char_indices().find_map(|(at, letter)| {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(open + at)
    })?;
    Some(&text[open + 1..close])
}

/// Counts the files with inherent `impl` blocks of each type that is spread over too many.
pub fn spread_impls(modules: &[Module]) -> Counts {
    let mut files: BTreeMap<String, BTreeSet<&[String]>> = BTreeMap::new();
    for module in modules {
        for name in module.source.lines().filter_map(inherent_impl) {
            files.entry(name).or_default().insert(&module.path);
        }
    }
    files.into_iter().map(|(name, files)| (name, files.len())).filter(|(_, count)| *count > IMPL_FILES).collect()
}

fn inherent_impl(line: &str) -> Option<String> {
    let rest = line.strip_prefix("impl")?;
    if rest.contains(" for ") {
        return None;
    }
    let after = match rest.strip_prefix('<') {
        None => rest,
        Some(generic) => {
            let mut depth = 1;
            let end = generic.char_indices().find_map(|(at, letter)| {
                depth += i32::from(letter == '<') - i32::from(letter == '>');
                (depth == 0).then_some(at)
            })?;
            &generic[end + 1..]
        }
    };
    let name = after.trim_start().split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(path: &str, source: &str) -> Module {
        let path = path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        Module { path, source: source.to_owned() }
    }

    #[test]
    fn modules_in_circles_leaves_out_parent_and_child() {
        let modules = [
            module("", "mod a;"),
            module("a", "use crate::b::B;"),
            module("b", "use super::a::{A, C};"),
            module("b::c", "use super::B;\nuse crate::d;"),
            module("d", "use std::fmt;"),
        ];
        assert_eq!(modules_in_circles(&modules), 2);
    }

    #[test]
    fn wide_functions_finds_long_lists_and_tuples() {
        let source = "fn a(&self, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8) {}\n\
                      fn h(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8) {}\n\
                      fn t(x: &(u8, u8)) {}\nfn c(f: impl Fn(u8, u8) -> u8) {}\nfn g<T: Into<(u8, u8)>>(t: T) {}\n";
        assert_eq!(wide_functions(source), 2);
    }

    #[test]
    fn spread_impls_counts_files_of_a_type() {
        let own = "impl<'a> Solver<'a> {\n";
        let modules = [module("a", own), module("b", own), module("c", own), module("d", "impl Drop for Solver {\n")];
        assert_eq!(spread_impls(&modules), Counts::from([("Solver".to_owned(), 3)]));
    }
}
