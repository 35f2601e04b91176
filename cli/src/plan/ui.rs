//! `kerf ui`: a page on the loopback address with the nodes of a cluster, why they stay or go, and the decisions of its controller.
//! Each path begins with a secret, so neither other users of the machine nor pages of other origins can read the cluster. For a Service in
//! the cluster, the page is without a secret on another address: then the proxy in front of it decides who reads.

mod data;

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use api::decisions::Decision;
use daemon::admin::{self, Page, Pages};
use daemon::signal;
use jiff::Timestamp;

use super::what_if::WhatIf;
use super::{PlanAnswer, explain};
use crate::failure::Failure;
use crate::input::Change;
use data::PageData;

const INDEX: &str = include_str!("ui/index.html");
const SCRIPT: &str = include_str!("ui/app.js");
const STYLE: &str = include_str!("ui/style.css");
/// Number of the newest decisions on the page.
const DECISIONS: usize = 200;
/// Time after the last request for data, until which the cluster is read.
const WATCHED: Duration = Duration::from_mins(1);

/// Plans for objects that were read once, with changes.
pub(crate) type Planner = Box<dyn Fn(&[Change]) -> Result<PlanAnswer, Failure> + Send + Sync>;

/// Sources of the page.
pub(crate) struct UiSources<R, D> {
    /// Reads the objects.
    pub(crate) read: R,
    /// Reads the decisions of the controller.
    pub(crate) decisions: D,
    /// Time between two readings; `None` for files, which are read once.
    pub(crate) interval: Option<Duration>,
}

/// Address of the page.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UiPlace {
    /// Port of the loopback address, below a secret path.
    Loopback {
        /// 0 for any free one.
        port: u16,
    },
    /// Address that other machines reach, without a secret.
    Network(SocketAddr),
}

impl UiPlace {
    fn address(self) -> SocketAddr {
        match self {
            Self::Loopback { port } => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            Self::Network(address) => address,
        }
    }

    fn root(self) -> String {
        match self {
            Self::Loopback { .. } => format!("/{}/", secret()),
            Self::Network(_) => "/".to_owned(),
        }
    }

    fn busy(self, error: &io::Error) -> Failure {
        Failure::usage(match self {
            Self::Loopback { port } => format!("port {port} cannot be used: {error}; give another one with --port"),
            Self::Network(address) => format!("--listen {address} cannot be used: {error}; give another address"),
        })
    }
}

/// Serves the page until Ctrl-C or SIGTERM.
///
/// # Errors
/// Returns an error if the first reading fails, or if the address is not free.
pub(crate) fn serve<R, D>(place: UiPlace, sources: UiSources<R, D>) -> Result<(), Failure>
where
    R: Fn() -> Result<Planner, Failure> + Send + 'static,
    D: Fn() -> Result<Vec<Decision>, Failure> + Send + 'static,
{
    let pages = Arc::new(UiPages::new(place.root()));
    pages.update((sources.read)()?)?;
    pages.decide((sources.decisions)());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::internal)?;
    runtime.block_on(async {
        let listener = admin::bind(place.address()).await.map_err(|error| place.busy(&error))?;
        let address = listener.local_addr().map_err(Failure::internal)?;
        println!("http://{address}{}", pages.root);
        eprintln!("kerf: the page ends with Ctrl-C");
        if let Some(interval) = sources.interval {
            read_again(Arc::clone(&pages), sources, interval);
        }
        tokio::select! {
            never = admin::serve_pages(listener, pages) => match never {},
            stopped = signal::stopped() => stopped.map(drop).map_err(Failure::internal),
        }
    })
}

/// Returns 128 bits that no other program knows: the keys of the standard library's hash maps are random.
fn secret() -> String {
    let state = RandomState::new();
    format!("{:016x}{:016x}", state.hash_one(0_u8), state.hash_one(1_u8))
}

/// Reads again and again while a page is open, on a thread that ends with the process.
fn read_again<R, D>(pages: Arc<UiPages>, sources: UiSources<R, D>, interval: Duration)
where
    R: Fn() -> Result<Planner, Failure> + Send + 'static,
    D: Fn() -> Result<Vec<Decision>, Failure> + Send + 'static,
{
    thread::spawn(move || {
        loop {
            thread::sleep(interval);
            if !pages.is_watched(Instant::now()) {
                continue;
            }
            if let Err(failure) = (sources.read)().and_then(|planner| pages.update(planner)) {
                pages.fail(&failure);
            }
            pages.decide((sources.decisions)());
        }
    });
}

/// Pages, with the last readings.
struct UiPages {
    /// Path of the page, with the secret.
    root: String,
    state: Mutex<UiState>,
    /// Held by a comparison, so that several readers do not take all processors.
    comparison: Mutex<()>,
}

#[derive(Default)]
struct UiState {
    planner: Option<Arc<Planner>>,
    answer: Option<Arc<PlanAnswer>>,
    read: Timestamp,
    /// Reason why the last reading failed.
    problem: String,
    decisions: Vec<Decision>,
    /// Reason why there are no decisions.
    undecided: String,
    /// Data of the page, until one of the others changes.
    data: Option<String>,
    /// Time of the last request for data.
    asked: Option<Instant>,
}

impl UiPages {
    fn new(root: String) -> Self {
        Self { root, state: Mutex::default(), comparison: Mutex::default() }
    }

    fn is_watched(&self, now: Instant) -> bool {
        self.state().asked.is_some_and(|asked| now.saturating_duration_since(asked) < WATCHED)
    }

    /// Returns the readings. A panic of the reader leaves the last ones.
    fn state(&self) -> MutexGuard<'_, UiState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, planner: Planner) -> Result<(), Failure> {
        let answer = planner(&[])?;
        let mut state = self.state();
        (state.planner, state.answer) = (Some(Arc::new(planner)), Some(Arc::new(answer)));
        (state.read, state.problem, state.data) = (Timestamp::now(), String::new(), None);
        Ok(())
    }

    /// Keeps the last readings.
    fn fail(&self, failure: &Failure) {
        let mut state = self.state();
        (state.problem, state.data) = (format!("cannot be read: {failure}"), None);
    }

    fn decide(&self, decisions: Result<Vec<Decision>, Failure>) {
        let mut state = self.state();
        state.data = None;
        match decisions {
            Ok(mut decisions) => {
                let old = decisions.len().saturating_sub(DECISIONS);
                state.decisions = decisions.split_off(old);
                state.undecided.clear();
            }
            Err(failure) => state.undecided = failure.to_string(),
        }
    }

    fn answer(&self) -> Option<Arc<PlanAnswer>> {
        self.state().answer.clone()
    }

    fn data(&self) -> Option<String> {
        let mut state = self.state();
        state.asked = Some(Instant::now());
        if state.data.is_none() {
            let answer = state.answer.as_ref()?;
            let data = PageData::new(answer, state.read, &state.problem, &state.decisions, &state.undecided);
            state.data = Some(serde_json::to_string(&data).ok()?);
        }
        state.data.clone()
    }

    /// Returns the comparison with the plan for changed objects, one change per line.
    fn what_if(&self, changes: &str) -> Option<String> {
        let planner = self.state().planner.clone()?;
        let answer = self.answer()?;
        let _one = self.comparison.lock().unwrap_or_else(PoisonError::into_inner);
        let changes: Result<Vec<Change>, String> = changes.lines().map(Change::parse).collect();
        let compared = changes.map_err(Failure::usage).and_then(|changes| planner(&changes));
        Some(compared.map_or_else(
            |failure| failure.to_string(),
            |changed| WhatIf::new(&answer, &changed).lines().join("\n") + "\n",
        ))
    }

    /// Returns the explanation of a node, a pod, or the cost.
    fn explanation(&self, object: &str) -> Option<String> {
        let answer = self.answer()?;
        let text = match object.split_once('/') {
            Some(("node", name)) => explain::node(&answer, name, false),
            Some(("pod", name)) => explain::pod(&answer, name, false),
            Some(("cost", label)) => return Some(explain::cost_of_cluster(&answer, Some(label), false)),
            _ if object == "cost" => return Some(explain::cost_of_cluster(&answer, None, false)),
            _ => return None,
        };
        Some(text.map_or_else(|failure| failure.to_string(), |(text, _)| text))
    }
}

/// Returns the text whose bytes are written as hexadecimal digits, so that a path can contain any character.
fn text_of(digits: &str) -> Option<String> {
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
    String::from_utf8(bytes?).ok()
}

fn page(media_type: &'static str, body: impl Into<Vec<u8>>) -> Option<Page> {
    Some(Page { media_type, body: body.into(), ..Page::default() })
}

impl Pages for UiPages {
    fn page(&self, path: &str) -> Option<Page> {
        match path.strip_prefix(self.root.as_str())? {
            "" => page("text/html; charset=utf-8", INDEX),
            "app.js" => page("text/javascript; charset=utf-8", SCRIPT),
            "style.css" => page("text/css; charset=utf-8", STYLE),
            "data.json" => page("application/json", self.data()?),
            "healthz" => page("text/plain; charset=utf-8", "ok\n"),
            path => {
                let text = match path.split_once('/')? {
                    ("why", object) => self.explanation(object)?,
                    ("what-if", changes) => self.what_if(&text_of(changes)?)?,
                    _ => return None,
                };
                page("text/plain; charset=utf-8", text)
            }
        }
    }

    fn hint(&self) -> &'static str {
        "the address of the page is in the output of kerf ui"
    }
}
