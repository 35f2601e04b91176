//! State of the terminal view: the lists, the selected line, and the effect of each key. Nothing here knows a terminal.

use super::SortKey;
use super::overview::{self, NodeLine, Overview};

/// Lists of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    Nodes,
    NodePools,
    PendingPods,
    Commands,
}

impl Tab {
    /// All lists, in their order.
    pub(super) const ALL: [Self; 4] = [Self::Nodes, Self::NodePools, Self::PendingPods, Self::Commands];

    /// Returns the title.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Nodes => "Nodes",
            Self::NodePools => "NodePools",
            Self::PendingPods => "Pending pods",
            Self::Commands => "Commands",
        }
    }

    fn next(self) -> Self {
        let position = Self::ALL.iter().position(|tab| *tab == self).unwrap_or_default();
        Self::ALL[(position + 1) % Self::ALL.len()]
    }
}

/// Keys of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Enter,
    Escape,
    Tab,
    Backspace,
    Letter(char),
    /// Ctrl-C.
    Interrupt,
}

/// Effect of a key on the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    /// Shows the explanation of this node.
    ExplainNode(String),
    /// Shows the explanation of this pod.
    ExplainPod(String),
    Quit,
}

/// Text over the lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Explanation {
    pub(super) lines: Vec<String>,
    /// Number of lines above the first visible one.
    pub(super) above: usize,
}

/// State of the view.
#[derive(Clone, Debug)]
pub(super) struct View {
    overview: Overview,
    pub(super) tab: Tab,
    pub(super) sort: SortKey,
    /// Position of the selected line in the current list.
    pub(super) selected: usize,
    /// Text that lines must contain.
    pub(super) filter: String,
    /// True while the user writes the filter.
    pub(super) is_filtering: bool,
    pub(super) explanation: Option<Explanation>,
    /// Number of lines of a page, by the height of the terminal.
    pub(super) page: usize,
    /// Moment or problem of the last reading.
    pub(super) status: String,
}

impl View {
    pub(super) fn new(overview: Overview, sort: SortKey, status: String) -> Self {
        Self {
            overview,
            tab: Tab::Nodes,
            sort,
            selected: 0,
            filter: String::new(),
            is_filtering: false,
            explanation: None,
            page: 1,
            status,
        }
    }

    /// Replaces the figures and keeps the selected object, if it still exists.
    pub(super) fn update(&mut self, overview: Overview, status: String) {
        let selected = self.names().get(self.selected).cloned();
        self.overview = overview;
        self.status = status;
        overview::sort(&mut self.overview.nodes, self.sort);
        let names = self.names();
        let kept = selected.and_then(|name| names.iter().position(|known| *known == name));
        self.selected = kept.unwrap_or(self.selected).min(names.len().saturating_sub(1));
    }

    pub(super) fn overview(&self) -> &Overview {
        &self.overview
    }

    /// Returns the nodes that the filter keeps.
    pub(super) fn nodes(&self) -> Vec<&NodeLine> {
        let words = |node: &NodeLine| {
            [&node.name, &node.pool, &node.kind, &node.zone, &node.capacity_type].map(String::as_str).join(" ")
                + node.state
        };
        self.overview.nodes.iter().filter(|node| self.is_kept(&words(node))).collect()
    }

    /// Returns whether the filter keeps a line.
    pub(super) fn is_kept(&self, text: &str) -> bool {
        self.filter.is_empty() || text.to_lowercase().contains(&self.filter.to_lowercase())
    }

    /// Returns the names of the lines of the current list.
    fn names(&self) -> Vec<String> {
        let all = &self.overview;
        let kept = |name: &String| self.is_kept(name);
        match self.tab {
            Tab::Nodes => self.nodes().into_iter().map(|node| node.name.clone()).collect(),
            Tab::NodePools => all.pools.iter().map(|pool| pool.name.clone()).filter(kept).collect(),
            Tab::PendingPods => all.pending.iter().map(|(pod, _)| pod.clone()).filter(kept).collect(),
            Tab::Commands => all.commands.iter().map(|command| command.nodes.join(" ")).filter(kept).collect(),
        }
    }

    /// Carries out a key.
    pub(super) fn press(&mut self, key: Key) -> Effect {
        if key == Key::Interrupt {
            return Effect::Quit;
        }
        if self.is_filtering {
            self.write_filter(key);
            return Effect::None;
        }
        if self.explanation.is_some() {
            return self.press_in_explanation(key);
        }
        match key {
            Key::Letter('q') => return Effect::Quit,
            Key::Letter('/') => self.is_filtering = true,
            Key::Letter('s') => self.sort_next(),
            Key::Escape => self.filter.clear(),
            Key::Tab => {
                self.tab = self.tab.next();
                self.selected = 0;
            }
            Key::Enter => return self.explain(),
            other => self.selected = moved(self.selected, other, self.page, self.names().len()),
        }
        self.selected = self.selected.min(self.names().len().saturating_sub(1));
        Effect::None
    }

    fn write_filter(&mut self, key: Key) {
        match key {
            Key::Letter(letter) => self.filter.push(letter),
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Enter => self.is_filtering = false,
            Key::Escape => {
                self.filter.clear();
                self.is_filtering = false;
            }
            _ => {}
        }
        self.selected = 0;
    }

    fn press_in_explanation(&mut self, key: Key) -> Effect {
        match (key, &mut self.explanation) {
            (Key::Letter('q'), _) => return Effect::Quit,
            (Key::Escape | Key::Enter | Key::Backspace, _) => self.explanation = None,
            (key, Some(explanation)) => {
                let last = explanation.lines.len().saturating_sub(self.page) + 1;
                explanation.above = moved(explanation.above, key, self.page, last);
            }
            (_, None) => {}
        }
        Effect::None
    }

    fn sort_next(&mut self) {
        self.sort = match self.sort {
            SortKey::Cost => SortKey::Cpu,
            SortKey::Cpu => SortKey::Memory,
            SortKey::Memory => SortKey::Pods,
            SortKey::Pods => SortKey::Name,
            SortKey::Name => SortKey::Cost,
        };
        overview::sort(&mut self.overview.nodes, self.sort);
        self.selected = 0;
    }

    fn explain(&self) -> Effect {
        let Some(name) = self.names().get(self.selected).cloned() else { return Effect::None };
        match self.tab {
            Tab::Nodes => Effect::ExplainNode(name),
            Tab::PendingPods => Effect::ExplainPod(name),
            Tab::Commands => name.split(' ').next().map_or(Effect::None, |node| Effect::ExplainNode(node.to_owned())),
            Tab::NodePools => Effect::None,
        }
    }
}

/// Returns the position after a key that moves, in a list of this length.
fn moved(position: usize, key: Key, page: usize, length: usize) -> usize {
    let last = length.saturating_sub(1);
    let next = match key {
        Key::Up | Key::Letter('k') => position.saturating_sub(1),
        Key::Down | Key::Letter('j') => position + 1,
        Key::PageUp => position.saturating_sub(page),
        Key::PageDown => position + page,
        Key::First | Key::Letter('g') => 0,
        Key::Last | Key::Letter('G') => last,
        _ => position,
    };
    next.min(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overview(names: &[&str]) -> Overview {
        let node = |name: &&str| NodeLine { name: (*name).to_owned(), ..NodeLine::default() };
        Overview { nodes: names.iter().map(node).collect(), ..Overview::default() }
    }

    fn view(names: &[&str]) -> View {
        View { page: 2, ..View::new(overview(names), SortKey::Name, String::new()) }
    }

    fn press(view: &mut View, keys: &[Key]) {
        keys.iter().for_each(|key| assert_eq!(view.press(*key), Effect::None, "{key:?}"));
    }

    #[test]
    fn keys_move_within_the_list() {
        let mut view = view(&["a", "b", "c", "d"]);
        press(&mut view, &[Key::Down, Key::PageDown, Key::Down]);
        assert_eq!(view.selected, 3);
        press(&mut view, &[Key::Up, Key::PageUp, Key::Up]);
        assert_eq!(view.selected, 0);
        press(&mut view, &[Key::Last]);
        assert_eq!(view.press(Key::Enter), Effect::ExplainNode("d".to_owned()));
    }

    #[test]
    fn filter_keeps_matching_lines_until_escape() {
        let mut view = view(&["spot-a", "od-b", "spot-c"]);
        press(&mut view, &[Key::Letter('/'), Key::Letter('S'), Key::Letter('p'), Key::Letter('q'), Key::Backspace]);
        press(&mut view, &[Key::Enter, Key::Last]);
        assert_eq!(view.press(Key::Enter), Effect::ExplainNode("spot-c".to_owned()));
        press(&mut view, &[Key::Escape]);
        assert_eq!(view.nodes().len(), 3);
    }

    #[test]
    fn update_keeps_the_selected_node() {
        let mut view = view(&["a", "b", "c"]);
        press(&mut view, &[Key::Down]);
        view.update(overview(&["0", "a", "b"]), "12:00:00".to_owned());
        assert_eq!(view.press(Key::Enter), Effect::ExplainNode("b".to_owned()));
        view.update(overview(&["x"]), String::new());
        assert_eq!(view.press(Key::Enter), Effect::ExplainNode("x".to_owned()));
        view.update(overview(&[]), String::new());
        assert_eq!(view.press(Key::Enter), Effect::None);
    }

    #[test]
    fn explanation_scrolls_and_closes() {
        let mut view = view(&["a"]);
        let lines = (0..5).map(|number| number.to_string()).collect();
        view.explanation = Some(Explanation { lines, above: 0 });
        press(&mut view, &[Key::Last]);
        assert_eq!(view.explanation.as_ref().map(|it| it.above), Some(3));
        press(&mut view, &[Key::Escape]);
        assert_eq!((view.explanation.is_none(), view.press(Key::Letter('q'))), (true, Effect::Quit));
    }

    #[test]
    fn interrupt_ends_every_state() {
        let mut view = view(&["a"]);
        press(&mut view, &[Key::Letter('/')]);
        assert_eq!(view.press(Key::Interrupt), Effect::Quit);
    }
}
