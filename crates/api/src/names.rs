//! Names in the Kubernetes API: labels, annotations, conditions, reasons and finalizers, each defined once, and names that are
//! similar to them.

pub mod annotation;
pub mod condition;
pub mod finalizer;
pub mod label;
pub mod reason;
pub mod similar;
