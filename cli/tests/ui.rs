//! `kerf ui`: what its page gets over HTTP, and that nothing of a cluster becomes markup.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::Value;

use crate::page::here;
use crate::support::kerf;

const CASE: &str = "cli/tests/cases/consolidated";
const FLAGS: [&str; 5] = [".", "--catalogue", "../catalogue.json", "--now", "2026-11-21T12:00:00Z"];

/// Running `kerf ui`, which ends with the test.
struct Server {
    child: Child,
    /// Address, and path of the page.
    address: String,
    path: String,
}

impl Server {
    fn start() -> Self {
        Self::at(&["--port", "0"])
    }

    fn at(place: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kerf"))
            .current_dir(here(CASE))
            .arg("ui")
            .args(FLAGS)
            .args(place)
            .env_clear()
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (address, path) = line.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
        Self { child, address: address.to_owned(), path: format!("/{path}") }
    }

    /// Returns status, headers and body of a path of the page.
    fn get(&self, path: &str) -> (u16, String, String) {
        self.get_absolute(&format!("{}{path}", self.path))
    }

    fn get_absolute(&self, path: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), head.to_lowercase(), body.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The child may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn ui_serves_the_page_below_a_secret_path_only() {
    let (one, other) = (Server::start(), Server::start());
    assert!(one.address.starts_with("127.0.0.1:"), "{}", one.address);
    assert!(one.path.len() > 32 && one.path != other.path);
    for (path, media_type) in
        [("", "text/html"), ("app.js", "text/javascript"), ("style.css", "text/css"), ("data.json", "application/json")]
    {
        let (status, head, _) = one.get(path);
        assert!(status == 200 && head.contains(&format!("content-type: {media_type}")), "{path}: {head}");
    }
    for path in ["/", "/data.json", "/app.js", other.path.as_str(), &format!("{}data.json", other.path)] {
        let (status, _, body) = one.get_absolute(path);
        assert_eq!((status, body.as_str()), (404, "the address of the page is in the output of kerf ui\n"), "{path}");
    }
}

/// For a Service in the cluster, whose readers do not know a secret, and whose pod kubelet probes and ends.
#[test]
fn ui_serves_other_machines_without_a_secret_until_sigterm() {
    let mut server = Server::at(&["--listen", "127.0.0.1:0"]);
    assert_eq!(server.path, "/");
    for path in ["", "data.json", "healthz"] {
        assert_eq!(server.get(path).0, 200, "{path}");
    }
    let id = Pid::from_raw(server.child.id().try_into().unwrap());
    nix::sys::signal::kill(id, Signal::SIGTERM).unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn ui_refuses_an_address_that_is_no_address() {
    for (place, expected) in [
        (vec!["--listen", "8877"], "invalid socket address syntax"),
        (vec!["--listen", "203.0.113.7:8877"], "--listen 203.0.113.7:8877 cannot be used"),
        (vec!["--listen", "127.0.0.1:0", "--port", "1"], "cannot be used with"),
    ] {
        let words: Vec<&str> = ["ui"].into_iter().chain(FLAGS).chain(place).collect();
        let refused = kerf(&here(CASE), &words, "", &[]);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
}

#[test]
fn ui_shows_the_nodes_with_the_answers_of_why() {
    let server = Server::start();
    let data: Value = serde_json::from_str(&server.get("data.json").2).unwrap();
    let nodes: Vec<(&str, &str, &str)> = data["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["name"].as_str().unwrap(), node["state"].as_str().unwrap(), node["price"].as_str().unwrap()))
        .collect();
    let removed = |name, price| (name, "to remove", price);
    let expected = [
        removed("half-one", "$0.100"),
        removed("half-two", "$0.100"),
        ("held", "ready", "$0.380"),
        removed("old", "$0.100"),
        removed("wide", "$0.380"),
    ];
    assert_eq!(nodes, expected);
    assert_eq!((data["cost"].as_str(), data["costAfter"].as_str()), (Some("$1.060"), Some("$0.380")));
    assert_eq!(data["commands"].as_array().unwrap().len(), 4, "{data}");
    assert_eq!(data["undecided"], "files have no decisions");
    for (path, words) in [
        ("why/node/held", vec!["why", "node", "held"]),
        ("why/pod/shop/db", vec!["why", "pod", "shop/db"]),
        ("why/cost", vec!["why", "cost"]),
        ("why/cost/app", vec!["why", "cost", "--by", "app"]),
    ] {
        let words: Vec<&str> = words.into_iter().chain(FLAGS).collect();
        assert_eq!(server.get(path).2, kerf(&here(CASE), &words, "", &[]).stdout, "{path}");
    }
    let unknown = server.get("why/node/hel").2;
    assert!(unknown.contains("node hel is not in the input; did you mean held?"), "{unknown}");
    assert_eq!(server.get("why/secret/x").0, 404);
}

#[test]
fn ui_compares_plans_with_and_without_a_change() {
    let server = Server::start();
    let what_if = |change: &str| {
        let digits: String = change.bytes().map(|byte| format!("{byte:02x}")).collect();
        server.get(&format!("what-if/{digits}")).2
    };
    let change = "nodepool.general.spec.disruption.consolidationPolicy=WhenEmpty";
    let compared = what_if(change);
    let words: Vec<&str> = ["plan"].into_iter().chain(FLAGS).chain(["--set", change]).collect();
    let plan = kerf(&here(CASE), &words, "", &[]).stdout;
    assert!(
        compared.contains("cost per hour") && plan.ends_with(&format!("WHAT IF\n{compared}")),
        "{compared}\n{plan}"
    );
    assert!(what_if("nodepool.genral.spec.weight=1").contains("no NodePool of this name; the input has general"));
    assert!(what_if("weight").contains("has no value: write it like nodepool.general"));
    assert_eq!(server.get("what-if/7").0, 404);
}

/// Names and messages of a cluster can contain anything. The script may only create text from them.
#[test]
fn page_has_no_way_from_text_to_markup() {
    let read = |name: &str| std::fs::read_to_string(here("cli/src/plan/ui").join(name)).unwrap();
    let script = read("app.js");
    for unsafe_name in
        ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "DOMParser"]
    {
        assert!(!script.contains(unsafe_name), "{unsafe_name}");
    }
    let page = read("index.html");
    assert!(page.contains("Content-Security-Policy\" content=\"default-src 'self'; img-src data:\""));
    assert!(
        !page.contains("<style") && !page.contains("onclick") && !page.contains("https://"),
        "the page needs no network"
    );
}

#[test]
fn ui_ends_with_an_interrupt_and_names_a_busy_port() {
    let mut server = Server::start();
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    let words: Vec<&str> = ["ui"].into_iter().chain(FLAGS).chain(["--port", &port]).collect();
    let second = kerf(&here(CASE), &words, "", &[]);
    assert_eq!(second.code, 2);
    assert!(second.stderr.contains(&format!("port {port} cannot be used: ")), "{}", second.stderr);
    assert!(second.stderr.contains("give another one with --port"), "{}", second.stderr);
    let interrupt = format!("kill -INT {}", server.child.id());
    assert!(Command::new("sh").args(["-c", &interrupt]).status().unwrap().success());
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}
