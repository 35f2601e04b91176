//! `kerf ui`: a page on the loopback address with the nodes of a cluster, why they stay or go, and the decisions of its controller.
//! Each path begins with a secret, so neither other users of the machine nor pages of other origins can read the cluster.

mod data;

use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use api::decisions::Decision;
use daemon::admin::{self, Page, Pages};
use jiff::Timestamp;

use super::{PlanAnswer, explain};
use crate::failure::Failure;
use data::PageData;

const INDEX: &str = include_str!("ui/index.html");
const SCRIPT: &str = include_str!("ui/app.js");
const STYLE: &str = include_str!("ui/style.css");
/// Number of the newest decisions on the page.
const DECISIONS: usize = 200;

/// Sources of the page.
pub(crate) struct UiSources<R, D> {
    /// Reads the objects and plans.
    pub(crate) answer: R,
    /// Reads the decisions of the controller.
    pub(crate) decisions: D,
    /// Time between two readings; `None` for files, which are read once.
    pub(crate) interval: Option<Duration>,
}

/// Serves the page until Ctrl-C. Port 0 is any free port.
///
/// # Errors
/// Returns an error if the first reading fails, or if the port is not free.
pub(crate) fn serve<R, D>(port: u16, sources: UiSources<R, D>) -> Result<(), Failure>
where
    R: Fn() -> Result<PlanAnswer, Failure> + Send + 'static,
    D: Fn() -> Result<Vec<Decision>, Failure> + Send + 'static,
{
    let pages = Arc::new(UiPages::new(secret()));
    pages.update((sources.answer)()?);
    pages.decide((sources.decisions)());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::internal)?;
    runtime.block_on(async {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let busy = |error| Failure::usage(format!("port {port} cannot be used: {error}; give another one with --port"));
        let listener = admin::bind(address).await.map_err(busy)?;
        let address = listener.local_addr().map_err(Failure::internal)?;
        println!("http://{address}{}", pages.root);
        eprintln!("kerf: the page ends with Ctrl-C");
        if let Some(interval) = sources.interval {
            read_again(Arc::clone(&pages), sources, interval);
        }
        tokio::select! {
            never = admin::serve_pages(listener, pages) => match never {},
            stopped = tokio::signal::ctrl_c() => stopped.map_err(Failure::internal),
        }
    })
}

/// Returns 128 bits that no other program knows: the keys of the standard library's hash maps are random.
fn secret() -> String {
    let state = RandomState::new();
    format!("{:016x}{:016x}", state.hash_one(0_u8), state.hash_one(1_u8))
}

/// Reads again and again on a thread that ends with the process.
fn read_again<R, D>(pages: Arc<UiPages>, sources: UiSources<R, D>, interval: Duration)
where
    R: Fn() -> Result<PlanAnswer, Failure> + Send + 'static,
    D: Fn() -> Result<Vec<Decision>, Failure> + Send + 'static,
{
    thread::spawn(move || {
        loop {
            thread::sleep(interval);
            match (sources.answer)() {
                Ok(answer) => pages.update(answer),
                Err(failure) => pages.state().problem = format!("cannot be read: {failure}"),
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
}

#[derive(Default)]
struct UiState {
    answer: Option<Arc<PlanAnswer>>,
    read: Timestamp,
    /// Reason why the last reading failed.
    problem: String,
    decisions: Vec<Decision>,
    /// Reason why there are no decisions.
    undecided: String,
}

impl UiPages {
    fn new(secret: String) -> Self {
        Self { root: format!("/{secret}/"), state: Mutex::default() }
    }

    /// Returns the readings. A panic of the reader leaves the last ones.
    fn state(&self) -> MutexGuard<'_, UiState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, answer: PlanAnswer) {
        let mut state = self.state();
        (state.answer, state.read, state.problem) = (Some(Arc::new(answer)), Timestamp::now(), String::new());
    }

    fn decide(&self, decisions: Result<Vec<Decision>, Failure>) {
        let mut state = self.state();
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
        let answer = self.answer()?;
        let state = self.state();
        let data = PageData::new(&answer, state.read, &state.problem, &state.decisions, &state.undecided);
        serde_json::to_string(&data).ok()
    }

    /// Returns the explanation of a node, a pod, or the cost.
    fn explanation(&self, object: &str) -> Option<String> {
        let answer = self.answer()?;
        let text = match object.split_once('/') {
            Some(("node", name)) => explain::node(&answer, name, false),
            Some(("pod", name)) => explain::pod(&answer, name, false),
            _ if object == "cost" => return Some(explain::cost_of_cluster(&answer, false)),
            _ => return None,
        };
        Some(text.map_or_else(|failure| failure.to_string(), |(text, _)| text))
    }
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
            path => page("text/plain; charset=utf-8", self.explanation(path.strip_prefix("why/")?)?),
        }
    }

    fn hint(&self) -> &'static str {
        "the address of the page is in the output of kerf ui"
    }
}
