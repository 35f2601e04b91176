//! Invalid input is rejected with the field and the fix, before an instance is launched.

use machine::mime::{self, Part};
use machine::userdata::{
    AmiFamily, Bootstrap, LIMIT, NODE_CONFIG_TYPE, RenderError, Warning, check_size, encode, parse, render,
};

use super::support::{chain, document, input, with};

const NODE_CONFIG: &str = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n";

/// Returns a document of tables in tables, whose keys have 11 dots each: the parser limits the two only separately.
fn toml_levels(tables: usize) -> String {
    format!(
        "{}1{}",
        format!("a{} = {{", ".a".repeat(11)).repeat(tables).replacen('a', "settings", 1),
        "}".repeat(tables)
    )
}

#[test]
fn render_reports_field_and_fix_when_input_is_invalid() {
    use AmiFamily::{Al2, Al2023, Bottlerocket, Custom, Windows2022};
    let long = "#".repeat(LIMIT + 1);
    let agent = |settings: &str, user_data: &str| Bootstrap { agent: Some(settings.to_owned()), ..with(user_data) };
    let rows: Vec<(AmiFamily, Bootstrap, &str)> = vec![
        (Al2023, Bootstrap { cluster_cidr: String::new(), ..input() }, "unknown service CIDR of the cluster; wait"),
        (Al2, with("MIME-Version: 1.0\n\n"), "spec.userData of the EC2NodeClass is invalid MIME"),
        (Al2023, with("MIME-Version: 1.0\n\n"), "spec.userData of the EC2NodeClass is invalid MIME"),
        (Al2, with("#!/bin/sh\n--//\n"), "part 1 contains the line `--//`"),
        (Al2023, with("#!/bin/sh\n--//\n"), "part 1 contains the line `--//`"),
        (Al2, with(&long), "the limit of EC2 is 16384"),
        (Al2023, with(&long), "the limit of EC2 is 16384"),
        (Windows2022, with(&long), "the limit of EC2 is 16384"),
        (Custom, with(&long), "user data has 16385 bytes"),
        (Bottlerocket, with(&format!("[settings]\nmotd = '{long}'")), "the limit of EC2 is 16384"),
        (Bottlerocket, with("[settings]\na = 1\na = 2\n"), "line 3: invalid TOML: "),
        (Bottlerocket, with("#!/bin/sh\necho hello\n"), "line 2: invalid TOML: "),
        (Bottlerocket, with("apiVersion: node.eks.aws/v1alpha1\n"), "Bottlerocket takes settings as TOML"),
        (Bottlerocket, with("settings = 1"), "settings in spec.userData of the EC2NodeClass is integer; write a table"),
        (Bottlerocket, with("settings.kubernetes = 'x'"), "settings.kubernetes in spec.userData"),
        (
            Bottlerocket,
            with("settings.kubernetes.node-labels = ['a']"),
            "write a table [settings.kubernetes.node-labels]",
        ),
        (Bottlerocket, with("settings.kubernetes.node-taints = true"), "is boolean; write a table"),
        (
            Bottlerocket,
            Bootstrap { raid0: true, ..with("settings.bootstrap-commands = 1") },
            "settings.bootstrap-commands in spec.userData",
        ),
        (Bottlerocket, agent("units: []", ""), "set settings.host-containers.kerf-agent.source in spec.userData"),
        (
            Bottlerocket,
            agent("", "[settings.host-containers.kerf-agent]\nenabled = true"),
            "set settings.host-containers.kerf-agent.source",
        ),
        (Bottlerocket, agent("", "settings.host-containers.kerf-agent = 1"), "kerf-agent in spec.userData"),
        (
            Al2,
            agent("", ""),
            "images of family AL2; use AL2023 or Bottlerocket, or remove the annotations kerf.sh/agent",
        ),
        (Windows2022, agent("units: []", ""), "images of family Windows; use AL2023 or Bottlerocket"),
        (Al2023, agent("gates:\n  gpus: 1\n", ""), "kerf.sh/agent-settings of the EC2NodeClass: line 2"),
        (Custom, agent("units: []", ""), "spec.userData as a part application/kerf.sh-agent+yaml"),
        (
            Al2023,
            with(&format!("{NODE_CONFIG}spec: {{{{ .Values.x }}}}\n")),
            "part 1 of spec.userData of the EC2NodeClass is a NodeConfig",
        ),
        (Al2023, with(&format!("{NODE_CONFIG}spec: [\n")), "invalid YAML or JSON; correct it: line 3"),
        (
            Al2023,
            with(&format!("{NODE_CONFIG}spec: {}{}\n", "[".repeat(101), "]".repeat(101))),
            "correct it: line 3, column 106: more than 100 levels of lists and mappings",
        ),
        (Bottlerocket, with(&toml_levels(10)), "line 1: invalid TOML: more than 100 levels of tables and lists"),
        (
            Bottlerocket,
            with(&format!("[settings.'{}']\na = 1", "k".repeat(1100))),
            "line 1: invalid TOML: a path of keys has more than 1024 bytes; write shorter keys",
        ),
        (
            Bottlerocket,
            with(&format!("# {}\n", long.repeat(4))),
            "user data has 65543 bytes, the limit of EC2 is 16384",
        ),
        (Windows2022, with("<powershell>\nWrite-Host 'hi'\n"), "close it, or remove both tags"),
        (Windows2022, with("Write-Host 'hi'\n</powershell>\n"), "has a second <powershell> tag"),
        (Windows2022, with("<powershell>a</powershell><powershell>b</powershell>"), "merge them"),
    ];
    for (family, input, expected) in rows {
        let shown = input.user_data.clone().unwrap_or_default();
        let Err(error) = render(family, &input) else { panic!("{family:?} took {shown:.60}") };
        let message = chain(&error);
        assert!(message.contains(expected), "{family:?}, {shown:.60}: {message}");
        assert!(!message.contains('\n'), "{message}");
    }
}

#[test]
fn render_warns_when_the_size_is_near_the_limit() {
    let warned = |size: usize| document(AmiFamily::Custom, &with(&"x".repeat(size))).warnings;
    assert_eq!(warned(14_745), []);
    assert_eq!(warned(14_746), [Warning::NearLimit { size: 14_746 }]);
    assert_eq!(warned(LIMIT), [Warning::NearLimit { size: LIMIT }]);
    assert!(warned(LIMIT)[0].to_string().contains("has 16384 bytes, near the limit of EC2 of 16384"));
    assert_eq!(check_size(LIMIT + 1), Err(RenderError::TooLarge { size: LIMIT + 1 }));
}

/// Rows: user data of a class, and the media types of the parsed parts.
#[test]
fn render_detects_the_type_of_user_data_for_amazon_linux() {
    let in_mime = |boundary: &str, types: &[&str]| {
        let parts: Vec<String> =
            types.iter().map(|kind| format!("--{boundary}\nContent-Type: {kind}\n\na: b\n")).collect();
        format!(
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{boundary}\"\n\n{}--{boundary}--\n",
            parts.concat()
        )
    };
    let config = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n";
    let json = r#"{"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig"}"#;
    const SHELL: &str = "text/x-shellscript";
    let rows: Vec<(String, &[&str])> = vec![
        (String::new(), &[]),
        ("  \n".to_owned(), &[]),
        ("#!/bin/bash\necho: hello\n".to_owned(), &[SHELL]),
        ("echo hello\n".to_owned(), &[SHELL]),
        ("#!/usr/bin/env python3\nprint({'a': 1})\n".to_owned(), &[SHELL]),
        ("[settings.kubernetes]\nmax-pods = 1\n".to_owned(), &[SHELL]),
        (config.to_owned(), &[NODE_CONFIG_TYPE]),
        (format!("---\n{config}"), &[NODE_CONFIG_TYPE]),
        (format!("# a word\r\n{}", config.replace('\n', "\r\n")), &[NODE_CONFIG_TYPE]),
        (json.to_owned(), &[NODE_CONFIG_TYPE]),
        (format!("{config}---\n"), &[NODE_CONFIG_TYPE]),
        (format!("{config}{config}"), &[NODE_CONFIG_TYPE]),
        ("#cloud-config\nruncmd: [\"true\"]\n".to_owned(), &["text/cloud-config"]),
        ("#cloud-boothook\n#!/bin/sh\n".to_owned(), &["text/cloud-boothook"]),
        ("#include\nhttps://example.com\n".to_owned(), &["text/x-include-url"]),
        (format!("MIME-Version: 1.0\nContent-Type: {SHELL}\n\n#!/bin/sh\n"), &[SHELL]),
        (in_mime("X", &["text/cloud-config"]), &["text/cloud-config"]),
        (in_mime("//", &[SHELL, "text/cloud-boothook"]), &[SHELL, "text/cloud-boothook"]),
        (format!("\n\n{}", in_mime("a b", &[NODE_CONFIG_TYPE])), &[NODE_CONFIG_TYPE]),
    ];
    for (user_data, types) in rows {
        for (family, generated) in [(AmiFamily::Al2023, NODE_CONFIG_TYPE), (AmiFamily::Al2, SHELL)] {
            let text = document(family, &with(&user_data)).text;
            let parts = mime::parse(text.as_bytes()).unwrap();
            let found: Vec<String> = parts.iter().map(Part::media_type).collect();
            // The image of Amazon Linux 2 does not support NodeConfig.
            let is_unread = family == AmiFamily::Al2 && !mime::is_mime(user_data.as_bytes());
            let types: Vec<&str> =
                types.iter().copied().filter(|kind| !is_unread || *kind != NODE_CONFIG_TYPE).collect();
            assert_eq!(found, [types, vec![generated]].concat(), "{family:?}: {user_data:?}");
            assert!(!text.contains('\r'));
        }
    }
    let own = format!("{config}spec: {{cluster: {{name: not-this-one}}, kubelet: {{flags: [--v=4]}}}}\n");
    let read = parse(encode(&document(AmiFamily::Al2023, &with(&own)).text).as_bytes()).unwrap().config.spec;
    assert_eq!(read.cluster.name, "demo", "what is generated wins");
    assert_eq!(read.kubelet.flags[0], "--v=4", "and the user's flags stay");
}

/// Rows: user data of a class, and the beginning of the warning about it.
#[test]
fn render_warns_about_user_data_without_effect() {
    use AmiFamily::{Al2, Al2023, Bottlerocket, Windows2022};
    let labels = "[settings.kubernetes.node-labels]\n\"kubernetes.io/cluster/shop\" = \"owned\"\n\
        \"node-role.kubernetes.io/worker\" = \"\"\n\"node.kubernetes.io/x\" = \"y\"\nteam = \"a\"\n";
    let worker =
        format!("{NODE_CONFIG}spec: {{kubelet: {{flags: ['--node-labels=node-role.kubernetes.io/worker=']}}}}\n");
    let mixed = "Content-Type: multipart/mixed; boundary=B\n\n";
    let rows = [
        (
            Bottlerocket,
            "[settings.bootstrap-containers.tune]\nmode = \"once\"\n",
            "settings.bootstrap-containers.tune in spec.userData has no source",
        ),
        (
            Bottlerocket,
            "settings.host-containers.mine.enabled = true",
            "settings.host-containers.mine in spec.userData",
        ),
        (
            Bottlerocket,
            labels,
            "settings.kubernetes.node-labels in spec.userData has kubernetes.io/cluster/shop, \
             node-role.kubernetes.io/worker, with which kubelet does not start: ignored; use a domain",
        ),
        (
            Al2023,
            &worker,
            "spec.kubelet.flags of the NodeConfig in spec.userData has the labels node-role.kubernetes.io/worker, with",
        ),
        (Al2023, &format!("{mixed}--C\n"), "spec.userData has no effect: no line `--B` opens a part"),
        (
            Al2023,
            &format!("{mixed}--B\nContent-Type: text/x-shellscript\n\n{NODE_CONFIG}--B--\n"),
            "part 1 of spec.userData is a NodeConfig of another media type: sent as application/node.eks.aws",
        ),
        (
            Al2023,
            &NODE_CONFIG.replace("v1alpha1", "v1"),
            "part 1 of spec.userData is sent as application/node.eks.aws, but",
        ),
        (
            Al2023,
            "spec: {}\n",
            "part 1 of spec.userData is sent as application/node.eks.aws, but nodeadm may refuse it",
        ),
        (Al2, NODE_CONFIG, "spec.userData is a NodeConfig, which images of family AL2 do not read: ignored"),
        (Windows2022, NODE_CONFIG, "spec.userData is a NodeConfig, which images of family Windows2022 do not read"),
        (Al2, "#!/bin/sh\n/etc/eks/bootstrap.sh shop\n", "spec.userData calls /etc/eks/bootstrap.sh, which also runs"),
        (
            Al2,
            &format!("{mixed}--B\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n/etc/eks/bootstrap.sh shop\n--B--\n"),
            "spec.userData calls /etc/eks/bootstrap.sh",
        ),
        (Al2023, "#!/bin/sh\nnodeadm init\n", "spec.userData calls nodeadm init"),
        (Windows2022, "& $x\\Start-EKSBootstrap.ps1 -A b\n", "spec.userData calls Start-EKSBootstrap.ps1"),
    ];
    for (family, user_data, expected) in rows {
        let document = document(family, &with(user_data));
        let warnings: Vec<String> = document.warnings.iter().map(ToString::to_string).collect();
        assert!(warnings.len() == 1 && warnings[0].starts_with(expected), "{user_data}: {warnings:?}");
        assert!(!document.text.contains("node-role") || family == Al2023, "{}", document.text);
    }
    for (family, user_data) in [
        (Bottlerocket, "[settings.host-containers.admin]\nenabled = true\n"),
        (Bottlerocket, "[settings.bootstrap-containers.tune]\nsource = \"x\"\n"),
        (Al2, "#!/bin/sh\n# /etc/eks/bootstrap.sh runs later\n"),
    ] {
        assert_eq!(document(family, &with(user_data)).warnings, [], "{user_data}");
    }
}
