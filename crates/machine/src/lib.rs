//! Configuration of one instance: its maximum number of pods, kubelet's reservations, and its user data. All code is pure, so
//! that controller and node compute the same values with the same formulas.

pub mod agent;
pub mod document;
pub mod expression;
pub mod gzip;
pub mod json;
pub mod mime;
pub mod nodeconfig;
pub mod pods;
pub mod quote;
pub mod tables;
pub mod userdata;
pub mod yaml;
