//! Columns of the list of nodes. A narrow terminal shows the most important ones.

use super::overview::NodeLine;
use crate::output::fit;
use crate::output::money::rounded;

/// Spaces between two columns.
const GAP: usize = 1;
/// Maximum width of names; more is of no use.
const WIDEST_NAME: usize = 44;

/// A column.
pub(super) struct Column {
    title: &'static str,
    width: usize,
    /// Position in the order of importance, from 0.
    importance: usize,
    is_number: bool,
    text: fn(&NodeLine) -> String,
}

const fn column(
    title: &'static str,
    width: usize,
    importance: usize,
    is_number: bool,
    text: fn(&NodeLine) -> String,
) -> Column {
    Column { title, width, importance, is_number, text }
}

/// All columns from left to right. The first one gets the remaining width.
const ALL: [Column; 10] = [
    column("NODE", 16, 0, false, |node| node.name.clone()),
    column("STATE", 11, 5, false, |node| node.state.to_owned()),
    column("TYPE", 12, 6, false, |node| node.kind.clone()),
    column("CAPACITY", 9, 7, false, |node| node.capacity_type.clone()),
    column("ZONE", 12, 8, false, |node| node.zone.clone()),
    column("NODEPOOL", 16, 9, false, |node| node.pool.clone()),
    column("PODS", 4, 4, true, |node| node.pods.to_string()),
    column("CPU %", 7, 1, true, |node| node.cpu.text()),
    column("MEM %", 7, 2, true, |node| node.memory.text()),
    column("$/H", 7, 3, true, |node| {
        node.price.map_or_else(|| "-".to_owned(), |price| rounded(price).replace('$', ""))
    }),
];

/// Shown columns with their widths.
pub(super) struct Columns(Vec<(&'static Column, usize)>);

impl Columns {
    /// Returns as many of the most important columns as fit.
    pub(super) fn within(width: usize) -> Self {
        let mut by_importance: Vec<&'static Column> = ALL.iter().collect();
        by_importance.sort_by_key(|column| column.importance);
        let mut needed = 0;
        let fits = |column: &&&Column| {
            needed += column.width + GAP;
            needed <= width + GAP
        };
        let count = by_importance.iter().take_while(fits).count().max(1);
        let shown: Vec<&'static Column> = ALL.iter().filter(|column| column.importance < count).collect();
        let others: usize = shown.iter().skip(1).map(|column| column.width + GAP).sum();
        let name = width.saturating_sub(others).clamp(1, WIDEST_NAME);
        let widths = std::iter::once(name).chain(shown.iter().skip(1).map(|column| column.width));
        Self(shown.iter().copied().zip(widths).collect())
    }

    /// Returns all columns, with the whole text of these nodes.
    pub(super) fn whole(nodes: &[NodeLine]) -> Self {
        let width = |column: &Column| {
            let longest = nodes.iter().map(|node| (column.text)(node).chars().count()).max();
            longest.unwrap_or(0).max(column.title.len())
        };
        Self(ALL.iter().map(|column| (column, width(column))).collect())
    }

    /// Returns the line of titles.
    pub(super) fn heading(&self) -> String {
        self.line(|column| column.title.to_owned())
    }

    /// Returns the line of a node.
    pub(super) fn row(&self, node: &NodeLine) -> String {
        self.line(|column| (column.text)(node))
    }

    fn line(&self, text: impl Fn(&Column) -> String) -> String {
        let cells = self.0.iter().map(|(column, width)| {
            let text = fit(&text(column), *width);
            if column.is_number { format!("{text:>width$}") } else { format!("{text:<width$}") }
        });
        cells.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_shows_more_columns_on_wider_terminals() {
        let rows = [
            (40, "NODE               CPU %   MEM %     $/H"),
            (80, "NODE             STATE       TYPE         CAPACITY  PODS   CPU %   MEM %     $/H"),
        ];
        for (width, heading) in rows {
            assert_eq!(Columns::within(width).heading(), heading, "{width}");
        }
        assert!(Columns::within(140).heading().contains("NODEPOOL"));
    }

    #[test]
    fn whole_cuts_no_text() {
        let name = "ip-10-0-12-133.eu-central-1.compute.internal".repeat(2);
        let node = NodeLine { name: name.clone(), pool: "general-with-a-long-name".to_owned(), ..NodeLine::default() };
        let columns = Columns::whole(std::slice::from_ref(&node));
        assert!(columns.row(&node).contains(&name) && columns.row(&node).contains("general-with-a-long-name"));
        assert_eq!(columns.heading().find("STATE"), Some(name.len() + 1));
    }

    #[test]
    fn every_line_fits_the_width() {
        let node = NodeLine { name: "ip-10-0-12-133.eu-central-1.compute.internal".repeat(2), ..NodeLine::default() };
        for width in 1..200 {
            assert!(Columns::within(width).row(&node).chars().count() <= width, "{width}");
        }
    }
}
