//! All integration tests of this crate as one program, because linking a program takes as long as compiling its tests.

mod agent_settings;
mod document;
mod expression;
mod gzip;
mod json;
mod merging;
mod mime;
mod nodeconfig;
mod pods;
mod rendered;
mod upstream;
mod userdata;
