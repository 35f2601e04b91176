//! The commands of `kerf-agent` and their options, as a table: what is read and what `--help` tells are one thing.

use super::arguments::{Opt, Spec, Table};
use crate::bootstrap::credentials::{DEFAULT_PROVIDER, PROVIDER_VARIABLE};
use crate::imds::DEFAULT_ENDPOINT;

pub(super) const TABLE: Table = Table {
    program: "kerf-agent",
    help: "Boots, guards and empties one Kubernetes node on EC2",
    options: &[
        Opt {
            long: "root",
            value: "FOLDER",
            variable: "KERF_ROOT",
            default: "/",
            help: "Prefix of every path that is read or written",
            ..Opt::NONE
        },
        Opt {
            long: "imds",
            value: "URL",
            variable: "AWS_EC2_METADATA_SERVICE_ENDPOINT",
            default: DEFAULT_ENDPOINT,
            help: "Where the instance metadata service answers",
            ..Opt::NONE
        },
        Opt {
            long: "fips",
            variable: "AWS_USE_FIPS_ENDPOINT",
            help: "Use AWS's FIPS endpoints where a region has them",
            ..Opt::NONE
        },
        Opt {
            long: "credential-provider",
            value: "FILE",
            variable: PROVIDER_VARIABLE,
            default: DEFAULT_PROVIDER,
            help: "Where the credential provider for images of ECR is",
            ..Opt::NONE
        },
        Opt { long: "cpu-folder", value: "FOLDER", variable: "CPU_DIR", ..Opt::NONE },
        Opt { long: "node-folder", value: "FOLDER", variable: "NODE_DIR", ..Opt::NONE },
        Opt {
            long: "log-format",
            value: "FORMAT",
            variable: "KERF_LOG_FORMAT",
            default: "auto",
            help: "How to log: auto (journald, else text), json or text",
            ..Opt::NONE
        },
        Opt {
            long: "log-level",
            value: "LEVEL",
            variable: "KERF_LOG_LEVEL",
            default: "info",
            help: "The least severe level that is logged: off, error, warn, info, debug or trace",
            ..Opt::NONE
        },
        Opt {
            long: "search-path",
            value: "FOLDERS",
            variable: "PATH",
            default: "/usr/sbin:/usr/bin:/sbin:/bin",
            ..Opt::NONE
        },
    ],
    commands: &[
        Spec { words: "bootstrap", help: "Turn instance metadata into a running kubelet, then end", options: &[] },
        Spec {
            words: "run",
            help: "Guard the node until it may serve, and empty it when EC2 wants the machine back",
            options: &[Opt {
                long: "metrics",
                value: "ADDRESS:PORT",
                variable: "KERF_METRICS",
                help: "Where metrics are served, instead of what the settings say; or off",
                ..Opt::NONE
            }],
        },
        Spec { words: "status", help: "Say who this machine is and where everything stands", options: &[OUTPUT] },
        Spec {
            words: "doctor",
            help: "Check what the node needs from its surroundings, and say what to mend; fails when something is broken",
            options: &[
                OUTPUT,
                Opt {
                    long: "offline",
                    help: "Check an image instead, before any machine starts from it: no metadata, no cluster",
                    ..Opt::NONE
                },
            ],
        },
        Spec {
            words: "token",
            help: "Print a token for an EKS cluster, as a credential plugin of a kubeconfig does",
            options: &[
                Opt { long: "cluster-name", value: "NAME", help: "The cluster's name", ..Opt::NONE },
                Opt { long: "region", value: "REGION", help: "The cluster's region", ..Opt::NONE },
                Opt { long: "exec-info", value: "JSON", variable: "KUBERNETES_EXEC_INFO", ..Opt::NONE },
            ],
        },
        Spec {
            words: "nodeadm init",
            help: "Configure this machine as a node and start its daemons, once, as EKS's nodeadm does; any failure ends it",
            options: &[
                SOURCES,
                Opt {
                    long: "config-cache",
                    value: "FILE",
                    help: "File that keeps the last NodeConfig and what was found out about the machine",
                    ..Opt::NONE
                },
                Opt {
                    long: "skip",
                    short: Some('s'),
                    value: "PHASE",
                    many: true,
                    help: "Phases to leave out: config or run",
                    ..Opt::NONE
                },
                Opt {
                    long: "daemon",
                    short: Some('d'),
                    value: "NAME",
                    default: "containerd,kubelet",
                    many: true,
                    help: "The daemons to configure and start; an empty name is none",
                    ..Opt::NONE
                },
                Opt { long: "development", help: "Log as text for people", ..Opt::NONE },
            ],
        },
        Spec {
            words: "nodeadm config check",
            help: "Fail unless all sources together are a NodeConfig that a machine can follow, without unknown fields",
            options: &[SOURCES],
        },
        Spec {
            words: "nodeadm config dump",
            help: "Print what all sources together say, as YAML",
            options: &[SOURCES],
        },
        Spec {
            words: "nodeadm-internal boot-hook",
            help: "Wait until the links that systemd-networkd manages are configured and it leaves the others alone",
            options: &[],
        },
        Spec {
            words: "nodeadm-internal udev-net-manager",
            help: "Say who manages a network interface that udev reports, and configure it if that is systemd-networkd",
            options: &[
                Opt {
                    long: "action",
                    short: Some('a'),
                    value: "ACTION",
                    help: "What happened to the interface: add or remove",
                    ..Opt::NONE
                },
                Opt { long: "interface", short: Some('i'), value: "NAME", help: "Its name", ..Opt::NONE },
            ],
        },
    ],
};

const OUTPUT: Opt = Opt {
    long: "output",
    short: Some('o'),
    value: "FORMAT",
    default: "text",
    help: "For people (text), or one document (json)",
    ..Opt::NONE
};

const SOURCES: Opt = Opt {
    long: "config-source",
    short: Some('c'),
    value: "URI",
    default: "imds://user-data",
    many: true,
    help: "Where NodeConfigs are: imds://user-data, or file:// and a path to a file or folder; read and merged in order",
    ..Opt::NONE
};
