//! All integration tests of this crate in one binary, because linking a binary takes as long as compiling its tests.

mod fake;
mod launch;
mod launch_price;
mod launch_templates;
mod nodeclass;
mod policy;
mod rate_limiter;
mod sizes;
mod types;
mod user_data;
