//! An emulated API server that lists the objects of a cluster, and lines of a shell with its kubeconfig.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use serde_json::{Value, json};

use crate::page::here;

/// Number of items on a page of a list.
const PAGE: usize = 3;

/// Starts an API server that returns lists of a cluster's kinds until the test ends, in pages, single objects, and 403 for paths
/// with a message.
/// Returns its address.
pub fn api_server(objects: Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let objects = objects.clone();
            std::thread::spawn(move || serve(stream, &objects));
        }
    });
    format!("http://{address}")
}

fn serve(stream: TcpStream, objects: &Value) {
    let mut reader = BufReader::new(&stream);
    let mut first = String::new();
    while reader.read_line(&mut first).is_ok_and(|length| length > 0) {
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|length| length > 2) {
            line.clear();
        }
        let (path, begin) = position(first.split(' ').nth(1).unwrap_or_default());
        let (status, body) = match objects.get(&path) {
            Some(Value::String(reason)) => (
                "403 Forbidden",
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden", "message": reason, "code": 403}),
            ),
            Some(object @ Value::Object(_)) => ("200 OK", object.clone()),
            Some(items) => ("200 OK", page(items, begin)),
            None => (
                "404 Not Found",
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound", "message": "no such kind", "code": 404}),
            ),
        };
        let body = body.to_string();
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        if (&stream).write_all((head + &body).as_bytes()).is_err() {
            return;
        }
        first.clear();
    }
}

/// Returns the path of a list without its page, and the number of the page's first item.
fn position(path: &str) -> (String, usize) {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut rest = Vec::new();
    let mut begin = 0;
    for part in query.split('&') {
        match part.split_once('=') {
            Some(("limit", limit)) => assert_eq!(limit, "500"),
            Some(("continue", token)) => begin = token.parse().unwrap(),
            _ => rest.push(part),
        }
    }
    let query = rest.join("&");
    (if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }, begin)
}

fn page(items: &Value, begin: usize) -> Value {
    let items = items.as_array().unwrap();
    let end = items.len().min(begin + PAGE);
    let next = if end < items.len() { end.to_string() } else { String::new() };
    json!({"kind": "List", "apiVersion": "v1", "metadata": {"continue": next}, "items": items[begin..end]})
}

/// Runs one line in a folder, with a kubeconfig for this API server.
pub fn run(folder: &Path, line: &str, server: &str) -> (i32, String, String) {
    let kubeconfig = folder.join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    crate::shell::run(folder, line, &[("KUBECONFIG", kubeconfig.to_str().unwrap())])
}

/// Returns the lists of the cluster of a case, by the path of their kind.
pub fn cluster_of(case: &str) -> Value {
    let text = std::fs::read_to_string(here("cli/tests/cases").join(case)).unwrap();
    let paths = [
        ("Deployment", "/apis/apps/v1/deployments"),
        ("NodePool", "/apis/karpenter.sh/v1/nodepools"),
        ("NodeClaim", "/apis/karpenter.sh/v1/nodeclaims"),
        ("EC2NodeClass", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"),
        ("Node", "/api/v1/nodes"),
        ("Pod", "/api/v1/pods"),
    ];
    let mut lists = json!({});
    for document in text.split("---\n") {
        let mut object: Value = serde_saphyr::from_str(document).unwrap();
        let (_, path) = paths.iter().find(|(kind, _)| object["kind"] == *kind).unwrap();
        object.as_object_mut().unwrap().retain(|key, _| key != "kind" && key != "apiVersion");
        let list = lists.as_object_mut().unwrap().entry(*path).or_insert_with(|| json!([]));
        list.as_array_mut().unwrap().push(object);
    }
    lists
}
