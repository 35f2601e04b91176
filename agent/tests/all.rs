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
#[path = "bootstrap/room.rs"]
mod room;
mod run;
mod run_systemd;
mod signing;
mod tokens;
mod units;
mod usage;
