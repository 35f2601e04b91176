//! `kerf top`: the nodes of a cluster with their pods, requests, usage and cost, as a table or as a terminal view.

mod columns;
pub(super) mod overview;
mod screen;
mod table;
mod terminal;
mod view;

use std::time::Duration;

use clap::ValueEnum;
use planner::Requirements;

use super::PlanAnswer;
use crate::failure::Failure;

pub(crate) use table::text;
pub(crate) use terminal::width;

/// Orders of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SortKey {
    /// The most expensive nodes first
    #[default]
    Cost,
    /// The lowest requests of CPU first
    Cpu,
    /// The lowest requests of memory first
    Memory,
    /// The fewest pods first
    Pods,
    /// By name
    Name,
}

/// Columns of nodes that the user requested.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExtraColumns {
    /// Keys of labels.
    pub(crate) labels: Vec<String>,
    /// Resources.
    pub(crate) resources: Vec<String>,
}

/// Nodes that are shown, with their order and columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShownNodes {
    /// Requirements for their labels.
    pub(crate) selected: Requirements,
    /// Order.
    pub(crate) sort: SortKey,
    /// Columns beside the usual ones.
    pub(crate) columns: ExtraColumns,
}

/// Choices of the user.
#[derive(Clone, Debug)]
pub(crate) struct TopOptions {
    /// Nodes, with their first order.
    pub(crate) shown: ShownNodes,
    /// Time between two readings; `None` for files, which are read once.
    pub(crate) interval: Option<Duration>,
    /// `true` if the terminal shows colours.
    pub(crate) colours: bool,
}

/// Shows the terminal view until the user ends it.
///
/// # Errors
/// Returns an error if the first reading fails, or if the terminal cannot be used.
pub(crate) fn show(
    options: &TopOptions,
    read: impl Fn() -> Result<PlanAnswer, Failure> + Send + Sync + 'static,
) -> Result<(), Failure> {
    terminal::run(options, read)
}
