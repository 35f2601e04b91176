//! Integration tests of this crate as one program. Linking a program takes as long as compiling its tests.

#[path = "run/api.rs"]
mod api;
mod bootstrap;
mod health;
mod image;
#[path = "bootstrap/imds.rs"]
mod imds;
#[path = "run/machine.rs"]
mod machine;
mod nodeadm;
mod plan;
mod run;
mod run_systemd;
mod signing;
#[path = "bootstrap/test_host.rs"]
mod test_host;
mod tokens;
mod units;
mod usage;
