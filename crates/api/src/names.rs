//! Names in the Kubernetes API: labels, annotations, conditions, reasons and finalizers, each defined once.

pub mod annotation;
pub mod condition;
pub mod finalizer;
pub mod label;
pub mod reason;
