//! Environment variables of the user: for the whole machine as systemd's default environment, for a service as a drop-in of its
//! unit.

use std::collections::BTreeMap;

use machine::quote::quote;

use super::{BootstrapPlan, PlanPart};
use crate::host::environment::WHOLE_MACHINE;

/// Drop-in of systemd's manager.
pub const MANAGER_DROP_IN: &str = "/etc/systemd/system.conf.d/environment.conf";

type Variables = BTreeMap<String, String>;

pub(super) fn add(plan: &mut BootstrapPlan, environment: &BTreeMap<String, Variables>) {
    for (service, variables) in environment {
        let variables = named(plan, service, variables);
        if variables.is_empty() {
            continue;
        }
        if service == WHOLE_MACHINE {
            plan.put(PlanPart::System, MANAGER_DROP_IN, render("Manager", "DefaultEnvironment", &variables));
        } else if is_unit_name(service) {
            plan.put(PlanPart::System, &drop_in(service), render("Service", "Environment", &variables));
        } else {
            plan.warn(format!(
                "spec.instance.environment.{} has no effect: it is not a service; write the name of a unit",
                quote(service)
            ));
        }
    }
}

/// Returns the variables whose names systemd accepts; systemd ignores a line with any other name. Adds a warning for each other
/// name.
fn named(plan: &mut BootstrapPlan, service: &str, variables: &Variables) -> Variables {
    let (named, nameless): (Variables, Variables) =
        variables.clone().into_iter().partition(|(name, _)| is_variable_name(name));
    for name in nameless.keys() {
        plan.warn(format!(
            "spec.instance.environment.{}.{} has no effect: it is not a valid variable name; use letters, digits \
             and _",
            quote(service),
            quote(name)
        ));
    }
    named
}

fn is_variable_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && !name.starts_with(|first: char| first.is_ascii_digit()) && name.bytes().all(allowed)
}

/// Returns the drop-in of a service, whose name may omit `.service`.
fn drop_in(service: &str) -> String {
    let name = service.strip_suffix(".service").unwrap_or(service);
    format!("/etc/systemd/system/{name}.service.d/environment.conf")
}

/// Reports whether systemd accepts `name` as the name of a unit. No such name leads out of the folder of units.
fn is_unit_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte);
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(allowed)
}

fn render(section: &str, key: &str, variables: &Variables) -> String {
    let line = |(name, value): (&String, &String)| format!("{key}={}\n", quoted(&format!("{name}={value}")));
    let lines: String = variables.iter().map(line).collect();
    format!("[{section}]\n{lines}")
}

/// Returns a value in double quotes with C escapes, which systemd parses. `%` is doubled, because a single one begins a
/// specifier.
fn quoted(value: &str) -> String {
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push('"');
    for character in value.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '%' => quoted.push_str("%%"),
            control if control.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(control))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns a value in the double quotes of systemd's EnvironmentFile syntax, where a backslash escapes `"` and itself. systemd
/// splits such a value into arguments at white space, so control characters such as line ends become spaces.
pub(in crate::bootstrap) fn in_file(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace(char::is_control, " ");
    format!("\"{value}\"")
}
