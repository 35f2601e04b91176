//! `kerf prices` with a price list on loopback: complete, broken, or unavailable.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;

use crate::support::{Answer, kerf, silent_endpoint};

const HEADING: &str = "\"SKU\",\"TermType\",\"PricePerUnit\",\"Currency\",\"Unit\",\"Product Family\",\"Instance Type\",\
    \"Tenancy\",\"Operating System\",\"License Model\",\"Pre Installed S/W\",\"CapacityStatus\",\"Region Code\",\
    \"operation\",\"MarketOption\",\"PriceDescription\"\n";

/// Returns one record in the format of the file.
fn record(changes: &[(usize, &str)]) -> String {
    let mut fields = [
        "SKU1",
        "OnDemand",
        "0.1920000000",
        "USD",
        "Hrs",
        "Compute Instance",
        "m5.xlarge",
        "Shared",
        "Linux",
        "No License required",
        "NA",
        "Used",
        "us-west-2",
        "RunInstances",
        "OnDemand",
        "$0.192 per hour, \"\"m5\"\"",
    ];
    changes.iter().for_each(|(place, text)| fields[*place] = text);
    fields.map(|field| format!("\"{field}\"")).join(",") + "\n"
}

fn list() -> String {
    let mut text = "\"FormatVersion\",\"v1.0\"\n\"Disclaimer\",\"Prices, as they are.\nTwo lines.\"\n".to_owned();
    text.push_str(HEADING);
    let records: [&[(usize, &str)]; 12] = [
        &[],
        &[(6, "m5.large"), (2, "0.096")],
        &[(6, "m5.metal"), (2, "4.608"), (5, "Compute Instance (bare metal)"), (7, "Dedicated")],
        &[(6, "m5.2xlarge"), (7, "Dedicated"), (2, "9")],
        &[(6, "m5.4xlarge"), (8, "Windows"), (2, "9")],
        &[(6, "m5.8xlarge"), (1, "Reserved"), (2, "9")],
        &[(6, "m5.12xlarge"), (11, "UnusedCapacityReservation"), (2, "9")],
        &[(6, "m5.16xlarge"), (10, "SQL Std"), (13, "RunInstances:0004"), (2, "9")],
        &[(6, "m5.24xlarge"), (2, "0.0000000000")],
        &[(6, "p5.48xlarge"), (14, "CapacityBlock"), (2, "9")],
        &[(6, ""), (5, "Storage"), (2, "9")],
        &[(6, "m5.large"), (2, "0.0960000000"), (0, "SKU2")],
    ];
    records.iter().for_each(|changes| text.push_str(&record(changes)));
    text
}

/// Responds to one request with `head` and `body`, and returns the requested path.
fn serve(head: String, body: String) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        while !lines.next().unwrap().unwrap().is_empty() {}
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        first.split(' ').nth(1).unwrap().to_owned()
    });
    (endpoint, server)
}

fn ok(length: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")
}

fn fetch(folder: &Path, endpoint: &str) -> Answer {
    kerf(folder, &["prices", "--region", "us-west-2", "--out", "t.csv", "--endpoint", endpoint], "", &[])
}

#[test]
fn prices_writes_linux_on_demand_prices_that_plan_reads() {
    let folder = tempfile::tempdir().unwrap();
    let body = list();
    let (endpoint, server) = serve(ok(body.len()), body);
    let answer = fetch(folder.path(), &endpoint);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert_eq!(answer.stdout, "t.csv: 3 prices of us-west-2\n");
    assert_eq!(server.join().unwrap(), "/offers/v1.0/aws/AmazonEC2/current/us-west-2/index.csv");
    let table = std::fs::read_to_string(folder.path().join("t.csv")).unwrap();
    let expected = "# Linux on-demand prices of us-west-2, dollars per hour\ninstance_type,usd_per_hour\n\
        m5.large,0.096\nm5.metal,4.608\nm5.xlarge,0.192\n";
    assert_eq!(table, expected);
    let plan = kerf(folder.path(), &["plan", "-", "--region", "us-west-2", "--prices", "t.csv"], "# nothing", &[]);
    assert_eq!(plan.code, 0, "{}", plan.stderr);
    assert!(plan.stdout.contains("us-west-2: on-demand prices from t.csv"), "{}", plan.stdout);
    assert!(!plan.stdout.contains("estimates"), "{}", plan.stdout);
}

#[test]
fn prices_writes_to_the_default_path_when_out_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let body = list();
    let (endpoint, server) = serve(ok(body.len()), body);
    let data = [("XDG_DATA_HOME", folder.path().to_str().unwrap())];
    let answer = kerf(folder.path(), &["prices", "--region", "us-west-2", "--endpoint", &endpoint], "", &data);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    server.join().unwrap();
    assert!(folder.path().join("kerf/prices-us-west-2.csv").exists());
}

/// Rows: response of the server, and text of the error.
#[test]
fn prices_keeps_the_table_when_the_response_is_invalid() {
    let body = list();
    let half = body[..body.len() / 2].to_owned();
    let not_found = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned();
    let open_end = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_owned();
    let foreign = body.replace("us-west-2", "us-east-1");
    let rows = [
        ("cut off, length known", ok(body.len()), half.clone(), "interrupted after"),
        ("cut off, length unknown", open_end, half, "in the middle of a record"),
        ("not there", not_found, String::new(), "check that us-west-2 is a region"),
        ("something else", ok(5), "<html".to_owned(), "interrupted after 5 bytes"),
        ("no prices", ok(HEADING.len()), HEADING.to_owned(), "no price of a Linux instance"),
        ("no heading", ok(6), "a,b,c\n".to_owned(), "no header line"),
        ("another region", ok(foreign.len()), foreign, "of region \"us-east-1\", not of us-west-2"),
    ];
    for (what, head, body, complaint) in rows {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("t.csv"), "before").unwrap();
        let (endpoint, server) = serve(head, body);
        let answer = fetch(folder.path(), &endpoint);
        server.join().unwrap();
        assert_eq!(answer.code, 69, "{what}: {}", answer.stderr);
        assert!(answer.stderr.contains(complaint), "{what}: {}", answer.stderr);
        assert!(answer.stderr.contains("the table is unchanged"), "{what}: {}", answer.stderr);
        assert_eq!(std::fs::read_to_string(folder.path().join("t.csv")).unwrap(), "before", "{what}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1, "{what}: something was left behind");
    }
}

#[test]
fn prices_reports_the_fix_when_the_network_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let (_silent, endpoint) = silent_endpoint();
    let answer = fetch(folder.path(), &endpoint);
    assert_eq!(answer.code, 69);
    assert!(answer.stderr.contains("check the network and HTTPS_PROXY"), "{}", answer.stderr);
    assert!(!folder.path().join("t.csv").exists());
}

#[test]
fn prices_reports_the_fix_when_the_folder_is_not_writable() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let body = list();
    let (endpoint, server) = serve(ok(body.len()), body);
    let out = ["prices", "--region", "us-west-2", "--out", "file/t.csv", "--endpoint", &endpoint];
    let answer = kerf(folder.path(), &out, "", &[]);
    server.join().unwrap();
    assert_eq!(answer.code, 2);
    assert!(answer.stderr.contains("set --out"), "{}", answer.stderr);
}
