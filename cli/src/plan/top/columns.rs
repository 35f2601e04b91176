//! Columns of the list of nodes. A narrow terminal shows the most important ones.

use super::overview::{NodeLine, Overview};
use crate::output::money::rounded;
use crate::output::{age, fit};

/// Spaces between two columns.
const GAP: usize = 1;
/// Maximum width of names; more is of no use.
const WIDEST_NAME: usize = 44;
/// Maximum width of a requested column in a terminal.
const WIDEST_EXTRA: usize = 20;

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
const ALL: [Column; 11] = [
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
    column("AGE", 4, 10, true, |node| node.age.map_or_else(|| "-".to_owned(), age)),
];

/// Shown columns with their widths, first the usual ones.
pub(super) struct Columns {
    usual: Vec<(&'static Column, usize)>,
    extra: Vec<(String, usize)>,
}

impl Columns {
    /// Returns the requested columns, and as many of the most important others as fit.
    pub(super) fn within(width: usize, overview: &Overview) -> Self {
        let extra: Vec<_> =
            overview.extra.iter().map(|(title, width)| (title.clone(), (*width).min(WIDEST_EXTRA))).collect();
        let wanted: usize = extra.iter().map(|(_, width)| width + GAP).sum();
        let (extra, width) = if wanted < width { (extra, width - wanted) } else { (Vec::new(), width) };
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
        Self { usual: shown.iter().copied().zip(widths).collect(), extra }
    }

    /// Returns all columns, with the whole text of the nodes.
    pub(super) fn whole(overview: &Overview) -> Self {
        let width = |column: &Column| {
            let longest = overview.nodes.iter().map(|node| (column.text)(node).chars().count()).max();
            longest.unwrap_or(0).max(column.title.len())
        };
        Self { usual: ALL.iter().map(|column| (column, width(column))).collect(), extra: overview.extra.clone() }
    }

    /// Returns the line of titles.
    pub(super) fn heading(&self) -> String {
        self.line(|column| column.title.to_owned(), |position| self.extra[position].0.clone())
    }

    /// Returns the line of a node.
    pub(super) fn row(&self, node: &NodeLine) -> String {
        self.line(|column| (column.text)(node), |position| node.extra.get(position).cloned().unwrap_or_default())
    }

    fn line(&self, text: impl Fn(&Column) -> String, extra: impl Fn(usize) -> String) -> String {
        let usual = self.usual.iter().map(|(column, width)| {
            let text = fit(&text(column), *width);
            if column.is_number { format!("{text:>width$}") } else { format!("{text:<width$}") }
        });
        let extra = self.extra.iter().enumerate().map(|(position, (_, width))| {
            let text = fit(&extra(position), *width);
            format!("{text:<width$}")
        });
        usual.chain(extra).collect::<Vec<_>>().join(" ").trim_end().to_owned()
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
            assert_eq!(Columns::within(width, &Overview::default()).heading(), heading, "{width}");
        }
        assert!(Columns::within(140, &Overview::default()).heading().ends_with("     $/H  AGE"));
    }

    #[test]
    fn within_prefers_requested_columns() {
        let node = NodeLine {
            name: "node-1".to_owned(),
            extra: vec!["50".to_owned(), "web".to_owned()],
            ..NodeLine::default()
        };
        let overview = Overview { extra: vec![("GPU %".to_owned(), 5), ("TEAM".to_owned(), 4)], ..Overview::default() };
        let columns = Columns::within(60, &overview);
        assert_eq!(columns.heading(), "NODE                 PODS   CPU %   MEM %     $/H GPU % TEAM");
        assert!(columns.row(&node).ends_with("50    web"), "{}", columns.row(&node));
        assert_eq!(Columns::within(11, &overview).heading(), "NODE", "there is no room for them");
    }

    #[test]
    fn whole_cuts_no_text() {
        let name = "ip-10-0-12-133.eu-central-1.compute.internal".repeat(2);
        let node = NodeLine { name: name.clone(), pool: "general-with-a-long-name".to_owned(), ..NodeLine::default() };
        let columns = Columns::whole(&Overview { nodes: vec![node.clone()], ..Overview::default() });
        assert!(columns.row(&node).contains(&name) && columns.row(&node).contains("general-with-a-long-name"));
        assert_eq!(columns.heading().find("STATE"), Some(name.len() + 1));
    }

    #[test]
    fn every_line_fits_the_width() {
        let node = NodeLine { name: "ip-10-0-12-133.eu-central-1.compute.internal".repeat(2), ..NodeLine::default() };
        for width in 1..200 {
            for extra in [Vec::new(), vec![("TEAM".to_owned(), 30)]] {
                let overview = Overview { extra, ..Overview::default() };
                assert!(Columns::within(width, &overview).row(&node).chars().count() <= width, "{width}");
            }
        }
    }
}
