//! Tests of the command line: each form of each option, its replacements, and the messages for invalid ones.

use proptest::prelude::*;

use super::*;
use crate::nodeadm::command::{Action, Phase};

fn read_with(line: &str, variables: &[(&str, &str)]) -> Result<Settings, ArgumentError> {
    let words = std::iter::once("kerf-agent").chain(line.split(' ').filter(|word| !word.is_empty()));
    let variable = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
    Settings::read(words.map(OsString::from), &variable)
}

fn read(line: &str) -> Settings {
    read_with(line, &[]).unwrap_or_else(|refused| unreachable!("{line}: {refused}"))
}

fn wrong(line: &str) -> String {
    match read_with(line, &[]) {
        Err(ArgumentError::Wrong(why)) => why,
        other => unreachable!("{line}: {other:?}"),
    }
}

fn output(line: &str) -> String {
    match read_with(line, &[]) {
        Err(ArgumentError::Help(text)) => text,
        other => unreachable!("{line}: {other:?}"),
    }
}

#[test]
fn settings_have_defaults_when_no_option_is_given() {
    let settings = read("bootstrap");
    let expected = Settings {
        command: Command::Bootstrap,
        root: "/".into(),
        imds: "http://169.254.169.254".into(),
        fips: false,
        credential_provider: crate::bootstrap::plan::credentials::DEFAULT_PROVIDER.into(),
        cpu_folder: None,
        node_folder: None,
        log_format: Format::Auto,
        log_level: LevelFilter::Info,
        search_path: "/usr/sbin:/usr/bin:/sbin:/bin".into(),
    };
    assert_eq!(settings, expected);
}

#[test]
fn table_maps_each_command_to_its_own_variant() {
    for command in table::TABLE.commands {
        let needed = match command.words {
            "token" => "--cluster-name c --region r",
            "nodeadm-internal udev-net-manager" => "-a add -i ens5",
            _ => "",
        };
        let is_bootstrap = read(&format!("{} {needed}", command.words)).command == Command::Bootstrap;
        assert_eq!(is_bootstrap, command.words == "bootstrap", "{}", command.words);
    }
}

#[test]
fn read_accepts_every_form_of_an_option() {
    let json = Command::Status { output: Output::Json };
    for line in ["status -o json", "status -ojson", "status -o=json", "status --output json", "status --output=json"] {
        assert_eq!(read(line).command, json, "{line}");
    }
    for line in ["--root /x --fips run", "run --root=/x --fips", "--fips run --root /x"] {
        let settings = read(line);
        assert_eq!((settings.root, settings.fips), ("/x".into(), true), "{line}");
        assert_eq!(settings.command, Command::Run { metrics: None }, "{line}");
    }
}

#[test]
fn read_prefers_arguments_over_environment_over_defaults() {
    let variables = [("KERF_ROOT", "/env"), ("KERF_METRICS", "off"), ("AWS_USE_FIPS_ENDPOINT", "TRUE"), ("PATH", "")];
    let settings = read_with("run --root /given", &variables).unwrap_or_else(|refused| unreachable!("{refused}"));
    assert_eq!((settings.root, settings.fips), ("/given".into(), true));
    assert_eq!(settings.command, Command::Run { metrics: Some(Listen(None)) });
    assert_eq!(settings.search_path, "/usr/sbin:/usr/bin:/sbin:/bin", "an empty variable says nothing");
    let error = read_with("run", &[("AWS_USE_FIPS_ENDPOINT", "perhaps")]).map(drop);
    let error = error.map_err(|refused| refused.to_string()).err().unwrap_or_default();
    assert!(error.starts_with("invalid AWS_USE_FIPS_ENDPOINT `perhaps`: write true or false"), "{error}");
}

#[test]
fn read_parses_the_arguments_of_nodeadm() {
    let line = "nodeadm init -c imds://user-data,file:///a --config-source file:///b -s config --skip=run -d kubelet \
                --config-cache /run/x --development";
    let Command::Nodeadm(Nodeadm::Init(init)) = read(line).command else { unreachable!("{line}") };
    let sources: Vec<String> = init.sources.sources.iter().map(ToString::to_string).collect();
    assert_eq!(sources, ["imds://user-data", "file:///a", "file:///b"]);
    assert_eq!((init.skip, init.daemons), (vec![Phase::Config, Phase::Run], vec!["kubelet".to_owned()]));
    assert_eq!((init.config_cache, init.development), (Some("/run/x".into()), true));
    assert_eq!(read(line).log_format(), Format::Text);
    let Command::Nodeadm(Nodeadm::Init(plain)) = read("nodeadm init --daemon=").command else { unreachable!() };
    assert_eq!((plain.daemons, plain.sources.sources.len()), (vec![String::new()], 1));
    let Command::NodeadmInternal(Internal::UdevNetManager(udev)) =
        read("nodeadm-internal udev-net-manager --action add -i ens5").command
    else {
        unreachable!()
    };
    assert_eq!((udev.action, udev.interface.as_str()), (Action::Add, "ens5"));
}

#[test]
fn read_reports_the_remedy_when_an_argument_is_invalid() {
    let rows = [
        (
            "",
            "no command given; write one of bootstrap, volumes, run, status, doctor, token, nodeadm, nodeadm-internal",
        ),
        ("nodeadm", "no command given; write one of init, config"),
        ("nodeadm config", "no command given; write one of check, dump"),
        ("guard", "unknown command `guard`; write one of bootstrap,"),
        ("run fast", "unknown command `fast`; write nothing more"),
        ("run --fast", "unknown option `--fast`"),
        ("run -o json", "unknown option `-o`"),
        ("status -o yaml", "invalid --output `yaml`: write text or json"),
        ("status -o", "option `--output` needs a value: FORMAT"),
        ("run --root --fips", "option `--root` needs a value: FOLDER"),
        ("run --fips=yes", "option `--fips` takes no value"),
        ("run --root /a --root /b", "option `--root` is repeated"),
        ("run --metrics here", "invalid --metrics `here`: `here` is not an address; write 127.0.0.1:9192, or off"),
        ("run --log-level loud", "invalid --log-level `loud`"),
        ("token --region r", "option `--cluster-name` is required"),
        ("nodeadm init --skip everything", "invalid --skip `everything`: write config or run"),
    ];
    for (line, why) in rows {
        let error = wrong(line);
        assert!(error.starts_with(why), "{line}: {error}");
        assert!(error.contains("--help`"), "{line}: {error}");
    }
}

#[test]
fn help_lists_all_commands_and_all_documented_options() {
    let all = output("--help");
    for command in table::TABLE.commands {
        assert!(all.contains(&format!("  {}\n", command.words)), "{all}");
        let own = output(&format!("{} -h", command.words));
        for option in command.options.iter().chain(table::TABLE.options) {
            let shown = own.contains(&format!("--{}", option.long));
            assert_eq!(shown, !option.help.is_empty(), "{}: {own}", option.long);
        }
        assert!(own.contains(command.help), "{own}");
    }
    assert!(output("nodeadm --help").contains("nodeadm config dump"));
    assert_eq!(output("-V"), format!("kerf-agent {}\n", env!("CARGO_PKG_VERSION")));
}

proptest! {
    /// Tests that, with any command line, the parser does not panic and an error has a message.
    #[test]
    fn read_returns_a_message_when_any_line_is_invalid(words in prop::collection::vec("(run|status|nodeadm|init|token|-{0,2}[a-z=,/]{0,9}|\\PC{0,4})", 0..7)) {
        let arguments = std::iter::once("kerf-agent".to_owned()).chain(words).map(OsString::from);
        if let Err(refused) = Settings::read(arguments, &|_| None) {
            prop_assert!(!refused.to_string().trim().is_empty());
        }
    }
}
