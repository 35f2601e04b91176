//! The file of the journal: its owner, and the content that survives a boot.

use agent::host::clock::WallOffset;
use agent::notices::{NoticeReading, NoticeStore, NoticeValue};
use agent::run::journal::{Journal, JournalError, OwnedMarks};
use drain::Millis;
use tempfile::TempDir;

const CORDONED: OwnedMarks = OwnedMarks { cordoned: true, excluded: false, dated: false, reported: false };
const FILE: &str = "var/lib/kerf/journal.json";

fn machine(boot: &str) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    reboot(&root, boot);
    root
}

fn reboot(root: &TempDir, boot: &str) {
    let folder = root.path().join("proc/sys/kernel/random");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("boot_id"), format!("{boot}\n")).unwrap();
}

fn with_notice(root: &TempDir) -> Journal {
    let mut journal = Journal::read(root.path(), "i-1").unwrap();
    let reported = NoticeValue::Spot { action: "stop".into(), time: Millis(5) };
    journal.notices.read(&NoticeReading { value: reported, date: None }, WallOffset::default(), Millis(1));
    journal.write(root.path()).unwrap();
    journal
}

#[test]
fn journal_write_leaves_one_file_that_read_returns() {
    let root = machine("one");
    let journal = with_notice(&root);
    assert_eq!(Journal::read(root.path(), "i-1").unwrap(), journal);
    let files: Vec<_> = std::fs::read_dir(root.path().join("var/lib/kerf")).unwrap().collect();
    assert_eq!(files.len(), 1, "{files:?}");
}

#[test]
fn journal_read_is_empty_when_boot_or_instance_differs() {
    let root = machine("one");
    with_notice(&root);
    assert_eq!(Journal::read(root.path(), "i-2").unwrap().notices, NoticeStore::default());
    reboot(&root, "two");
    let fresh = Journal::read(root.path(), "i-1").unwrap();
    assert_eq!((fresh.notices, fresh.boot), (NoticeStore::default(), Some("two".into())));
}

#[test]
fn journal_read_names_file_when_content_is_invalid() {
    let root = machine("one");
    with_notice(&root);
    std::fs::write(root.path().join(FILE), "{").unwrap();
    let error = Journal::read(root.path(), "i-1").unwrap_err();
    assert!(matches!(error, JournalError::Content { .. }) && error.to_string().contains(FILE), "{error}");
    let newer = Journal::new("i-1", Some("one".into()));
    let newer = serde_json::to_string(&newer).unwrap().replace("\"version\":2", "\"version\":3");
    std::fs::write(root.path().join(FILE), newer).unwrap();
    assert_eq!(Journal::read(root.path(), "i-1").unwrap().notices, NoticeStore::default());
}

#[test]
fn journal_write_keeps_old_file_when_it_fails() {
    let root = machine("one");
    let journal = with_notice(&root);
    // A folder blocks the path of the new file: not even root can write there.
    let draft = format!(".journal.json.kerf-{}", std::process::id());
    std::fs::create_dir(root.path().join(FILE).with_file_name(draft)).unwrap();
    let error = Journal::new("i-1", None).write(root.path()).unwrap_err();
    assert!(matches!(error, JournalError::File { action: "write", .. }), "{error}");
    assert_eq!(Journal::read(root.path(), "i-1").unwrap(), journal);
}

#[test]
fn journal_read_returns_leftover_marks_after_a_reboot() {
    let root = machine("one");
    let mut journal = with_notice(&root);
    journal.ours.cordoned = true;
    journal.write(root.path()).unwrap();
    assert_eq!(Journal::read(root.path(), "i-1").unwrap().leftover, None, "it is the same boot");
    assert_eq!(Journal::read(root.path(), "i-2").unwrap().leftover, None, "it is another machine");
    reboot(&root, "two");
    let fresh = Journal::read(root.path(), "i-1").unwrap();
    assert_eq!((fresh.leftover, fresh.ours), (Some(CORDONED), OwnedMarks::default()));
    fresh.write(root.path()).unwrap();
    reboot(&root, "three");
    let again = Journal::read(root.path(), "i-1").unwrap();
    assert_eq!(again.leftover, Some(CORDONED), "the boot between had no time for it");
}
