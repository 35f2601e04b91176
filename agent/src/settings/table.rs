//! Commands of `kerf-agent` and their options, as a table: parser and `--help` use the same data.

use super::arguments::{Opt, Spec, Table};
use crate::aws::imds::DEFAULT_ENDPOINT;
use crate::bootstrap::facts::PROVIDER_VARIABLE;
use crate::bootstrap::plan::credentials::DEFAULT_PROVIDER;

pub(super) const TABLE: Table = Table {
    program: "kerf-agent",
    help: "Boots, guards and drains one Kubernetes node on EC2",
    options: &[
        Opt {
            long: "root",
            value: "FOLDER",
            variable: "KERF_ROOT",
            default: "/",
            help: "Prefix of all paths",
            ..Opt::NONE
        },
        Opt {
            long: "imds",
            value: "URL",
            variable: "AWS_EC2_METADATA_SERVICE_ENDPOINT",
            default: DEFAULT_ENDPOINT,
            help: "Endpoint of the instance metadata service",
            ..Opt::NONE
        },
        Opt {
            long: "fips",
            variable: "AWS_USE_FIPS_ENDPOINT",
            help: "Use FIPS endpoints where a region has them",
            ..Opt::NONE
        },
        Opt {
            long: "credential-provider",
            value: "FILE",
            variable: PROVIDER_VARIABLE,
            default: DEFAULT_PROVIDER,
            help: "Path of the credential provider for ECR",
            ..Opt::NONE
        },
        Opt { long: "cpu-folder", value: "FOLDER", variable: "CPU_DIR", ..Opt::NONE },
        Opt { long: "node-folder", value: "FOLDER", variable: "NODE_DIR", ..Opt::NONE },
        Opt {
            long: "log-format",
            value: "FORMAT",
            variable: "KERF_LOG_FORMAT",
            default: "auto",
            help: "Log format: auto (journald, else text), json or text",
            ..Opt::NONE
        },
        Opt {
            long: "log-level",
            value: "LEVEL",
            variable: "KERF_LOG_LEVEL",
            default: "info",
            help: "Log level: off, error, warn, info, debug or trace",
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
        Spec {
            words: "bootstrap",
            help: "Configure and start kubelet from instance metadata, then exit",
            options: &[],
        },
        Spec {
            words: "volumes",
            help: "Format and mount the EBS volumes that bootstrap planned, then exit; the unit kerf-volumes runs it",
            options: &[],
        },
        Spec {
            words: "run",
            help: "Hold the startup taint until the node is ready, and drain the node on interruption",
            options: &[Opt {
                long: "metrics",
                value: "ADDRESS:PORT",
                variable: "KERF_METRICS",
                help: "Address of the metrics, overrides the settings; or off",
                ..Opt::NONE
            }],
        },
        Spec { words: "status", help: "Show the identity and state of this node", options: &[OUTPUT] },
        Spec {
            words: "doctor",
            help: "Check everything that the node needs, with a fix for each problem; fails if there is one",
            options: &[
                OUTPUT,
                Opt {
                    long: "offline",
                    help: "Check a machine image instead: without metadata and cluster",
                    ..Opt::NONE
                },
            ],
        },
        Spec {
            words: "token",
            help: "Print a token for an EKS cluster, as a kubeconfig credential plugin",
            options: &[
                Opt { long: "cluster-name", value: "NAME", help: "Name of the cluster", ..Opt::NONE },
                Opt { long: "region", value: "REGION", help: "Region of the cluster", ..Opt::NONE },
                Opt { long: "exec-info", value: "JSON", variable: "KUBERNETES_EXEC_INFO", ..Opt::NONE },
            ],
        },
        Spec {
            words: "nodeadm init",
            help: "Configure this machine as a node and start its daemons once, as nodeadm of EKS does; exits at \
                   the first failure",
            options: &[
                SOURCES,
                Opt {
                    long: "config-cache",
                    value: "FILE",
                    help: "File for the last NodeConfig and the facts about the machine",
                    ..Opt::NONE
                },
                Opt {
                    long: "skip",
                    short: Some('s'),
                    value: "PHASE",
                    many: true,
                    help: "Phases to skip: config or run",
                    ..Opt::NONE
                },
                Opt {
                    long: "daemon",
                    short: Some('d'),
                    value: "NAME",
                    default: "containerd,kubelet",
                    many: true,
                    help: "Daemons to configure and start; an empty name for none",
                    ..Opt::NONE
                },
                Opt { long: "development", help: "Log as text", ..Opt::NONE },
            ],
        },
        Spec {
            words: "nodeadm config check",
            help: "Check that all sources together are a valid NodeConfig without unknown fields",
            options: &[SOURCES],
        },
        Spec {
            words: "nodeadm config dump",
            help: "Print the merged NodeConfig of all sources as YAML",
            options: &[SOURCES],
        },
        Spec {
            words: "nodeadm-internal boot-hook",
            help: "Wait until all links that systemd-networkd manages are configured",
            options: &[],
        },
        Spec {
            words: "nodeadm-internal udev-net-manager",
            help: "Report the manager of a network interface from udev, and configure it for systemd-networkd",
            options: &[
                Opt {
                    long: "action",
                    short: Some('a'),
                    value: "ACTION",
                    help: "Action of udev: add or remove",
                    ..Opt::NONE
                },
                Opt { long: "interface", short: Some('i'), value: "NAME", help: "Name of the interface", ..Opt::NONE },
            ],
        },
    ],
};

const OUTPUT: Opt = Opt {
    long: "output",
    short: Some('o'),
    value: "FORMAT",
    default: "text",
    help: "Output format: text or json",
    ..Opt::NONE
};

const SOURCES: Opt = Opt {
    long: "config-source",
    short: Some('c'),
    value: "URI",
    default: "imds://user-data",
    many: true,
    help: "Sources of NodeConfigs: imds://user-data, or file:// and a path to a file or folder; merged in order",
    ..Opt::NONE
};
