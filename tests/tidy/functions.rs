//! Measurement of functions in sources that rustfmt has formatted: a body ends at the first closing brace with the indentation
//! of its `fn` line.

/// Function with its number of lines, signature and braces included.
pub struct Function {
    /// Name of the function.
    pub name: String,
    /// Number of lines from `fn` to the closing brace.
    pub lines: usize,
}

/// Returns every function with a body in `text`.
pub fn lengths(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    (0..lines.len()).filter_map(|start| measure(&lines, start)).collect()
}

fn measure(lines: &[&str], start: usize) -> Option<Function> {
    let name = function_name(lines[start])?;
    let indent = lines[start].len() - lines[start].trim_start().len();
    if lines[start].trim_end().ends_with('}') {
        return Some(Function { name, lines: 1 });
    }
    let closing = format!("{}}}", " ".repeat(indent));
    for (offset, line) in lines[start..].iter().enumerate() {
        if line.trim_end().ends_with(';') && line.starts_with(&" ".repeat(indent)) && offset == 0 {
            return None;
        }
        if *line == closing {
            return Some(Function { name, lines: offset + 1 });
        }
    }
    None
}

fn function_name(line: &str) -> Option<String> {
    let mut words = line.split_whitespace().peekable();
    while let Some(word) = words.next() {
        match word {
            "pub" | "const" | "async" | "unsafe" | "extern" | "pub(crate)" | "pub(super)" => {}
            "fn" => return words.next()?.split(['(', '<']).next().map(str::to_owned),
            _ => return None,
        }
    }
    None
}
