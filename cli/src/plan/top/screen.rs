//! Draws the view. Colours only repeat what words say, and red and green do not occur.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::columns::Columns;
use super::table::{command_lines, pool_heading, pool_row, summary};
use super::view::{Explanation, Tab, View};
use crate::output::fit;

const KEYS: &str = "Tab list  Enter why  s sort  / filter  q quit";
const KEYS_OF_EXPLANATION: &str = "Esc back  q quit";

/// Draws everything, and tells the view the height of its lists.
pub(super) fn draw(frame: &mut Frame<'_>, view: &mut View, colours: bool) {
    let areas =
        Layout::vertical([Constraint::Length(3), Constraint::Min(1), Constraint::Length(1)]).split(frame.area());
    let paint = Paint { colours };
    let mut head: Vec<Line<'_>> = summary(view.overview()).into_iter().map(Line::from).collect();
    head.push(paint.tabs(view));
    frame.render_widget(Paragraph::new(head), areas[0]);
    view.page = usize::from(areas[1].height).saturating_sub(1).max(1);
    match &view.explanation {
        Some(explanation) => frame.render_widget(Paragraph::new(visible(explanation, areas[1])), areas[1]),
        None => frame.render_widget(Paragraph::new(paint.list(view, areas[1])), areas[1]),
    }
    frame.render_widget(Paragraph::new(paint.footer(view)), areas[2]);
}

fn visible(explanation: &Explanation, area: Rect) -> Vec<Line<'_>> {
    let lines = explanation.lines.iter().skip(explanation.above);
    lines.take(area.height.into()).map(|line| Line::from(line.as_str())).collect()
}

struct Paint {
    colours: bool,
}

impl Paint {
    fn accent(&self) -> Style {
        let style = Style::default().add_modifier(Modifier::BOLD);
        if self.colours { style.fg(Color::Cyan) } else { style }
    }

    fn tabs(&self, view: &View) -> Line<'static> {
        let title =
            |tab: &Tab| if *tab == view.tab { format!("[{}]", tab.title()) } else { format!(" {} ", tab.title()) };
        Line::styled(Tab::ALL.iter().map(title).collect::<Vec<_>>().join(" "), self.accent())
    }

    fn footer(&self, view: &View) -> Line<'static> {
        if view.explanation.is_some() {
            return Line::from(format!("{KEYS_OF_EXPLANATION}  |  {}", view.status));
        }
        if view.is_filtering || !view.filter.is_empty() {
            return Line::styled(format!("filter: {}  (Esc clears it)", view.filter), self.accent());
        }
        Line::from(format!("{KEYS}  |  by {:?}  |  {}", view.sort, view.status))
    }

    /// Returns the titles and the part of the current list around its selected line.
    fn list(&self, view: &View, area: Rect) -> Vec<Line<'static>> {
        let begin = view.selected.saturating_sub(view.page.saturating_sub(1));
        let (heading, rows) = rows(view, area.width.into(), begin);
        let selected = Style::default().add_modifier(Modifier::REVERSED);
        let line = |(position, text)| {
            if position == view.selected { Line::styled(text, selected) } else { Line::from(text) }
        };
        std::iter::once(Line::styled(heading, self.accent())).chain((begin..).zip(rows).map(line)).collect()
    }
}

/// Returns the titles, and one page of the current list. Only these lines are formatted: a cluster may have thousands of nodes.
fn rows(view: &View, width: usize, begin: usize) -> (String, Vec<String>) {
    let (overview, page) = (view.overview(), view.page);
    match view.tab {
        Tab::Nodes => {
            let columns = Columns::within(width, overview);
            let nodes = view.nodes().into_iter().skip(begin).take(page);
            (columns.heading(), nodes.map(|node| columns.row(node)).collect())
        }
        Tab::NodePools => {
            let pools = overview.pools.iter().filter(|pool| view.is_kept(&pool.name));
            (pool_heading(), pools.skip(begin).take(page).map(pool_row).collect())
        }
        Tab::PendingPods => {
            let pods = overview.pending.iter().filter(|(pod, _)| view.is_kept(pod)).skip(begin).take(page);
            ("POD: REASON".to_owned(), pods.map(|(pod, why)| fit(&format!("{pod}: {why}"), width)).collect())
        }
        Tab::Commands => {
            let commands = overview.commands.iter().filter(|command| view.is_kept(&command.nodes.join(" ")));
            let line = |lines: Vec<String>| lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join("; ");
            let text =
                commands.skip(begin).take(page).map(|command| fit(&line(command_lines(command)), width)).collect();
            ("NODES: REASON, SAVINGS".to_owned(), text)
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::SortKey;
    use super::super::overview::{Load, NodeLine, Overview};
    use super::super::view::Key;
    use super::*;

    fn view() -> View {
        let load = Load { allocatable: 4000, requested: 3000, used: Some(1000) };
        let node = |number: usize| NodeLine {
            name: format!("node-{number:02}"),
            pool: "general".to_owned(),
            kind: "m7g.large".to_owned(),
            capacity_type: "spot".to_owned(),
            price: Some(34_000),
            pods: number,
            cpu: load,
            memory: load,
            state: "ready",
            ..NodeLine::default()
        };
        let pending = vec![("shop/big".to_owned(), "no type is large enough".to_owned())];
        let overview = Overview {
            nodes: (0..30).map(node).collect(),
            pending,
            cost: 1_020_000,
            cost_after: Some(1_020_000),
            ..Overview::default()
        };
        View::new(overview, SortKey::Name, "read at 12:00:00".to_owned())
    }

    fn screen(view: &mut View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, view, false)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect()
    }

    #[test]
    fn draw_shows_summary_lists_and_keys() {
        let mut view = view();
        let expected = [
            "30 nodes, 435 pods, 1 pod without a place",
            "$1.020/h, $744.600/month; CPU 75/25 %, memory 75/25 %",
            "[Nodes]  NodePools   Pending pods   Commands",
            "NODE             STATE       TYPE         CAPACITY  PODS   CPU %   MEM %     $/H",
            "node-00          ready       m7g.large    spot         0   75/25   75/25   0.034",
            "node-01          ready       m7g.large    spot         1   75/25   75/25   0.034",
            "Tab list  Enter why  s sort  / filter  q quit  |  by Name  |  read at 12:00:00",
        ];
        assert_eq!(screen(&mut view, 80, 7), expected);
    }

    #[test]
    fn draw_follows_the_selected_line_and_changes_lists() {
        let mut view = view();
        screen(&mut view, 40, 8);
        view.press(Key::Last);
        assert!(screen(&mut view, 40, 8)[6].starts_with("node-29"));
        view.press(Key::Tab);
        view.press(Key::Tab);
        assert_eq!(screen(&mut view, 40, 8)[3..5], ["POD: REASON", "shop/big: no type is large enough"]);
    }

    #[test]
    fn draw_works_on_tiny_terminals() {
        for (width, height) in [(1, 1), (5, 3), (20, 4)] {
            assert_eq!(screen(&mut view(), width, height).len(), usize::from(height));
        }
    }
}
