//! State of a scenario at each second, as a CSV table for charts. The table shows when an unusual value first appeared.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use testbed::measure;
use testbed::process::usage::{mebibytes, processor_time, resident};
use tokio::task::JoinHandle;

use crate::observation::{Seen, lock};

const STEP: Duration = Duration::from_secs(1);
const HEAD: &str = "second,waiting,running,leaving,claims,nodes,dollars-per-hour,rss-mib,cpu-s";

/// Background task that writes one row per second; stops when dropped, or when the controller ends.
pub struct Timeline(JoinHandle<Result<()>>);

impl Drop for Timeline {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Timeline {
    /// Creates `target/peers/live-NAME.csv`, and starts the count of seconds.
    pub fn begin(name: &str, seen: Arc<Mutex<Seen>>, controller: u32) -> Result<Self> {
        let path = measure::file(&format!("live-{name}.csv"));
        path.parent().map_or(Ok(()), std::fs::create_dir_all).context("cannot make the folder of figures")?;
        let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self(tokio::spawn(write(BufWriter::new(file), seen, controller))))
    }
}

async fn write(mut file: impl Write, seen: Arc<Mutex<Seen>>, controller: u32) -> Result<()> {
    writeln!(file, "{HEAD}")?;
    let (begin, mut ticks) = (Instant::now(), tokio::time::interval(STEP));
    loop {
        ticks.tick().await;
        let (memory, cpu) = (mebibytes(resident(controller)?), processor_time(controller)?.as_secs_f64());
        let row = row(&lock(&seen));
        writeln!(file, "{:.1},{row},{memory:.1},{cpu:.2}", begin.elapsed().as_secs_f64())?;
        file.flush()?;
    }
}

fn row(seen: &Seen) -> String {
    let (waiting, running, leaving) = (seen.waiting(), seen.running(), seen.leaving());
    format!("{waiting},{running},{leaving},{},{},{:.4}", seen.claims().len(), seen.nodes(), seen.cost())
}
