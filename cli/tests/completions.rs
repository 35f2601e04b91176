//! Shell completions: each script contains every subcommand that `kerf --help` lists, and bash itself completes them.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::path::Path;
use std::process::Command;

use crate::support::{Answer, kerf};

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

fn ask(words: &[&str]) -> Answer {
    kerf(Path::new(env!("CARGO_MANIFEST_DIR")), words, "", &[])
}

fn script(shell: &str) -> String {
    let answer = ask(&["completions", shell]);
    assert_eq!((answer.code, answer.stderr.as_str()), (0, ""), "{shell}");
    answer.stdout
}

/// Returns the first word of each line below `Commands:`.
fn verbs() -> Vec<String> {
    let help = ask(&["--help"]).stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let verbs: Vec<String> = listed.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    assert!(["plan", "why", "completions"].iter().all(|verb| verbs.iter().any(|known| known == verb)), "{verbs:?}");
    verbs
}

#[test]
fn completions_contain_every_subcommand_for_each_shell() {
    for shell in SHELLS {
        let script = script(shell);
        for verb in verbs() {
            let known = script.split(|letter: char| !letter.is_ascii_alphanumeric()).any(|word| word == verb);
            assert!(known, "{shell} does not know `kerf {verb}`");
        }
        assert!(script.contains("spot-prices"), "{shell} does not know the flag --spot-prices");
    }
}

/// Returns the completions that bash offers for the last word of `line`.
fn offered(folder: &Path, line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let asked = format!(
        "source ./kerf.bash && COMP_WORDS=({line}) && COMP_CWORD={} && _kerf kerf '{}' '{}' && printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.len() - 1,
        words[words.len() - 1],
        words[words.len() - 2],
    );
    let output = Command::new("bash").args(["-c", &asked]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_subcommands_flags_and_values() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("kerf.bash"), script("bash")).unwrap();
    for (line, expected) in [
        ("kerf pl", &["plan"][..]),
        ("kerf p", &["plan", "prices"]),
        ("kerf plan --spot", &["--spot-prices"]),
        ("kerf types --output j", &["json"]),
        ("kerf completions z", &["zsh"]),
    ] {
        assert_eq!(offered(folder.path(), line), expected, "{line}");
    }
}

#[test]
fn completions_lists_known_shells_when_the_shell_is_unknown() {
    let answer = ask(&["completions", "tcsh"]);
    assert_eq!(answer.code, 2);
    for shell in SHELLS {
        assert!(answer.stderr.contains(shell), "{}", answer.stderr);
    }
}
