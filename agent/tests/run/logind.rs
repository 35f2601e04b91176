//! The protocol with logind, against a bus that is written from D-Bus's specification and shares no code with the agent.

use std::io::{IoSlice, Read as _, Write as _, pipe};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc as channel;
use std::thread;
use std::time::Duration;

use agent::notices::logind::{Argument, Delay, is_reboot, watch};
use agent::notices::{NoticeValue, WatchUpdate};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use tempfile::TempDir;
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::{sleep, timeout};

const SOON: Duration = Duration::from_secs(30);

/// Behaviour of one connection of the bus.
#[derive(Clone, Copy)]
pub struct Behavior {
    refuses_lock: bool,
    goes_down_already: bool,
    garbage: bool,
    hangs_up: bool,
    /// Action of the shutdown that has begun, in the property `ScheduledShutdown`.
    action: &'static str,
}

pub const PLAIN: Behavior =
    Behavior { refuses_lock: false, goes_down_already: false, garbage: false, hangs_up: false, action: "poweroff" };
pub const REBOOTS: Behavior = Behavior { action: "reboot", ..PLAIN };

/// D-Bus daemon with a logind.
pub struct Bus {
    /// Sends PrepareForShutdown on the newest connection.
    pub signals: channel::Sender<bool>,
    /// Receives one value for each released lock.
    pub released: channel::Receiver<()>,
}

impl Bus {
    pub fn start(root: &Path, behaviors: &'static [Behavior]) -> Self {
        let folder = root.join("run/dbus");
        std::fs::create_dir_all(&folder).unwrap();
        let listener = UnixListener::bind(folder.join("system_bus_socket")).unwrap();
        let (signals, wanted) = channel::channel();
        let (let_go, released) = channel::channel();
        thread::spawn(move || {
            for behavior in behaviors {
                let (stream, _) = listener.accept().unwrap();
                converse(stream, *behavior, &wanted, &let_go);
            }
        });
        Self { signals, released }
    }
}

/// Watches a logind with these connections, one after the other.
fn watched(behaviors: &'static [Behavior]) -> (TempDir, Bus, Delay, Receiver<WatchUpdate>) {
    let root = tempfile::tempdir().unwrap();
    let bus = Bus::start(root.path(), behaviors);
    let (sender, updates) = mpsc::channel(4);
    let delay = Delay::default();
    tokio::spawn(watch(root.path().to_owned(), delay.clone(), sender));
    (root, bus, delay, updates)
}

fn converse(
    mut stream: UnixStream,
    behavior: Behavior,
    signals: &channel::Receiver<bool>,
    let_go: &channel::Sender<()>,
) {
    greet(&mut stream);
    if behavior.garbage {
        // The client may already have closed the connection.
        drop(stream.write_all(&[0x6c, 0xff, 0xff, 9, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9]));
        return;
    }
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut serial = 100;
    loop {
        if let Ok(down) = signals.try_recv() {
            serial += 1;
            send(&stream, &signal(serial, down), None);
        }
        let Some(call) = read_call(&mut stream) else {
            continue;
        };
        let Some((asked, text)) = call else {
            return;
        };
        serial += 1;
        let calls = |method: &str| text.contains(method);
        if calls("Inhibit\0") && behavior.refuses_lock {
            send(&stream, &message(serial, 3, Some(asked), &[(4, "s", "org.a.Denied")], "s", &string("no")), None);
        } else if calls("Inhibit\0") {
            let (mut reader, writer) = pipe().unwrap();
            send(&stream, &message(serial, 2, Some(asked), &[], "h", &0_u32.to_le_bytes()), Some(writer.as_raw_fd()));
            drop(writer);
            let let_go = let_go.clone();
            thread::spawn(move || {
                // No byte is ever written: the read ends when the last copy of the other end is closed.
                drop(reader.read(&mut [0]));
                let _sent = let_go.send(());
            });
            if behavior.hangs_up {
                return;
            }
        } else if calls("InhibitDelayMaxUSec") {
            let micros = [&[1, b't', 0, 0, 0, 0, 0, 0][..], &30_000_000_u64.to_le_bytes()].concat();
            send(&stream, &message(serial, 2, Some(asked), &[], "v", &micros), None);
        } else if calls("ScheduledShutdown") {
            let body = [&[4, b'(', b's', b't', b')', 0, 0, 0][..], &string(behavior.action)].concat();
            let padded = body.len().next_multiple_of(8) - body.len();
            let body = [body, vec![0; padded], 0_u64.to_le_bytes().to_vec()].concat();
            send(&stream, &message(serial, 2, Some(asked), &[], "v", &body), None);
        } else if calls("PreparingForShutdown") {
            let flag = [&[1, b'b', 0, 0][..], &u32::from(behavior.goes_down_already).to_le_bytes()].concat();
            send(&stream, &message(serial, 2, Some(asked), &[], "v", &flag), None);
        } else {
            send(&stream, &message(serial, 2, Some(asked), &[], "s", &string(":1.7")), None);
        }
    }
}

fn greet(stream: &mut UnixStream) {
    for (expected, answer) in
        [("\0AUTH EXTERNAL ", "OK 1234\r\n"), ("NEGOTIATE_UNIX_FD", "AGREE_UNIX_FD\r\n"), ("BEGIN", "")]
    {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        assert!(line.starts_with(expected.as_bytes()), "{}", String::from_utf8_lossy(&line));
        stream.write_all(answer.as_bytes()).unwrap();
    }
}

/// Returns `None` while no call arrives, `Some(None)` at the end, else the serial and the bytes as text.
fn read_call(stream: &mut UnixStream) -> Option<Option<(u32, String)>> {
    let mut head = [0; 16];
    match stream.read(&mut head[..1]) {
        Ok(0) => return Some(None),
        Err(_) => return None,
        Ok(_) => {}
    }
    stream.set_read_timeout(None).unwrap();
    stream.read_exact(&mut head[1..]).unwrap();
    let number = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
    let rest = number(12).next_multiple_of(8) + number(4);
    let mut all = vec![0; rest as usize];
    stream.read_exact(&mut all).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    Some(Some((number(8), String::from_utf8_lossy(&all).into_owned())))
}

fn string(text: &str) -> Vec<u8> {
    [&u32::try_from(text.len()).unwrap().to_le_bytes()[..], text.as_bytes(), &[0]].concat()
}

fn signal(serial: u32, down: bool) -> Vec<u8> {
    let fields = [
        (1, "o", "/org/freedesktop/login1"),
        (2, "s", "org.freedesktop.login1.Manager"),
        (3, "s", "PrepareForShutdown"),
    ];
    message(serial, 4, None, &fields, "b", &u32::from(down).to_le_bytes())
}

fn message(
    serial: u32,
    kind: u8,
    answers: Option<u32>,
    texts: &[(u8, &str, &str)],
    signature: &str,
    body: &[u8],
) -> Vec<u8> {
    let mut fields = Vec::new();
    let pad = |bytes: &mut Vec<u8>| bytes.resize(bytes.len().next_multiple_of(8), 0);
    for (code, kind, text) in texts {
        pad(&mut fields);
        fields.extend([*code, 1, kind.as_bytes()[0], 0]);
        fields.extend(string(text));
    }
    if let Some(answers) = answers {
        pad(&mut fields);
        fields.extend([5, 1, b'u', 0]);
        fields.extend(answers.to_le_bytes());
    }
    pad(&mut fields);
    fields.extend([8, 1, b'g', 0, 1, signature.as_bytes()[0], 0]);
    if signature == "h" {
        pad(&mut fields);
        fields.extend([9, 1, b'u', 0, 1, 0, 0, 0]);
    }
    let mut all = vec![b'l', kind, 0, 1];
    all.extend(u32::try_from(body.len()).unwrap().to_le_bytes());
    all.extend(serial.to_le_bytes());
    all.extend(u32::try_from(fields.len()).unwrap().to_le_bytes());
    all.extend(fields);
    pad(&mut all);
    all.extend(body);
    all
}

fn send(stream: &UnixStream, bytes: &[u8], descriptor: Option<RawFd>) {
    let descriptors = descriptor.as_slice();
    let rights = [ControlMessage::ScmRights(descriptors)];
    let controls = if descriptors.is_empty() { &[][..] } else { &rights[..] };
    // The client may already have closed the connection.
    let _sent = sendmsg::<()>(stream.as_raw_fd(), &[IoSlice::new(bytes)], controls, MsgFlags::MSG_NOSIGNAL, None);
}

async fn held(delay: &Delay) {
    let waiting = async {
        while !delay.is_held() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, waiting).await.expect("the lock is taken");
}

async fn next_notice(updates: &mut Receiver<WatchUpdate>) -> NoticeValue {
    loop {
        if let WatchUpdate::Reading(reading) =
            timeout(SOON, updates.recv()).await.expect("news in time").expect("the watch goes on")
        {
            return reading.value;
        }
    }
}

const NONE: NoticeValue = NoticeValue::Shutdown(None);
const LASTING: NoticeValue = NoticeValue::Shutdown(Some(Duration::from_secs(30)));

#[tokio::test]
async fn watch_reports_shutdown_and_holds_lock_until_release() {
    let (_root, bus, delay, mut updates) = watched(&[PLAIN]);
    held(&delay).await;
    assert_eq!(next_notice(&mut updates).await, NONE, "an earlier one was cancelled meanwhile");
    bus.signals.send(true).unwrap();
    assert_eq!(next_notice(&mut updates).await, LASTING);
    assert!(bus.released.try_recv().is_err(), "it waits for us");
    delay.release();
    assert_eq!(bus.released.recv_timeout(SOON), Ok(()));
    assert!(!delay.is_held());
    bus.signals.send(false).unwrap();
    assert_eq!(next_notice(&mut updates).await, NONE);
    held(&delay).await;
    bus.signals.send(true).unwrap();
    assert_eq!(next_notice(&mut updates).await, LASTING, "the next one waits too");
}

#[tokio::test]
async fn watch_reports_shutdown_when_lock_is_refused() {
    let (_root, bus, delay, mut updates) = watched(&[Behavior { refuses_lock: true, ..PLAIN }]);
    assert_eq!(next_notice(&mut updates).await, NONE);
    bus.signals.send(true).unwrap();
    assert_eq!(next_notice(&mut updates).await, LASTING);
    assert!(!delay.is_held());
}

#[tokio::test]
async fn watch_reconnects_when_bus_fails_or_sends_garbage() {
    const WELL: Behavior = Behavior { goes_down_already: true, ..PLAIN };
    let behaviors = &[Behavior { garbage: true, ..WELL }, Behavior { hangs_up: true, ..WELL }, WELL];
    let (_root, _bus, delay, mut updates) = watched(behaviors);
    assert_eq!(next_notice(&mut updates).await, LASTING, "it had begun before we listened");
    held(&delay).await;
}

#[tokio::test]
async fn watch_continues_when_bus_is_absent() {
    let root = tempfile::tempdir().unwrap();
    let (sender, mut updates) = mpsc::channel(1);
    let watching = tokio::spawn(watch(root.path().to_owned(), Delay::default(), sender));
    assert!(timeout(Duration::from_millis(300), updates.recv()).await.is_err(), "nothing is said");
    assert!(!watching.is_finished());
}

#[tokio::test]
async fn watch_reports_a_reboot_as_such() {
    let (_root, bus, delay, mut updates) = watched(&[REBOOTS]);
    held(&delay).await;
    assert_eq!(next_notice(&mut updates).await, NONE);
    bus.signals.send(true).unwrap();
    assert_eq!(next_notice(&mut updates).await, NoticeValue::Reboot(Duration::from_secs(30)));
}

/// Columns: action and time of the property, in seconds from now. A later time belongs to another shutdown.
#[test]
fn is_reboot_requires_the_action_of_the_present_shutdown() {
    let now = jiff::Timestamp::from_second(1_767_268_800).unwrap();
    let (patience, zero, never) = (Duration::from_secs(30), -1_767_268_800, 1_767_268_800);
    let rows = [
        ("reboot", zero, true),
        ("reboot", -5, true),
        ("reboot", 30, true),
        ("reboot", 31, false),
        ("kexec", zero, true),
        ("soft-reboot", zero, true),
        ("poweroff", zero, false),
        ("halt", -5, false),
        ("dry-reboot", zero, false),
        ("", never, false),
    ];
    for (action, seconds, expected) in rows {
        let micros = u64::try_from((now.as_second() + seconds) * 1_000_000).unwrap();
        let property = Argument::Structure(vec![Argument::Text(action.to_owned()), Argument::Number(micros)]);
        assert_eq!(is_reboot(Some(&property), patience, now), expected, "{action} {seconds}");
    }
    for property in [None, Some(&Argument::Text("reboot".to_owned())), Some(&Argument::Structure(Vec::new()))] {
        assert!(!is_reboot(property, patience, now), "{property:?}");
    }
}
