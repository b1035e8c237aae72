//! What crashed sandboxes have left: GC by a process of its own, so that its waiting for a runtime and for
//! plugins holds up nothing here.

use std::ffi::OsString;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::metrics::Metrics;

/// How long a run may take, with the DELs of all that is gone.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs the command at once, and again and again.
pub async fn collect(command: Vec<OsString>, every: Duration, metrics: Arc<Metrics>) {
    loop {
        let removed = once(&command).await;
        metrics.collected(removed.as_ref().ok().copied());
        match removed {
            Ok(0) => {}
            Ok(removed) => info!("GC removed {removed} attachments that were nobody's any more"),
            Err(why) => warn!(
                "GC failed, and is tried again in {} s: {why}",
                every.as_secs()
            ),
        }
        sleep(every).await;
    }
}

/// How many attachments it removed.
async fn once(command: &[OsString]) -> Result<u64, String> {
    let [program, arguments @ ..] = command else {
        return Ok(0);
    };
    let mut process = Command::new(program);
    process
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = timeout(LIMIT, process.output()).await;
    let output = output.map_err(|_| format!("it takes more than {} s", LIMIT.as_secs()))?;
    let output = output.map_err(|error| error.to_string())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}", output.status, said.trim()));
    }
    let answer = serde_json::from_slice(&output.stdout);
    answer
        .map(|answer| removed(&answer))
        .map_err(|error| error.to_string())
}

/// Those that `podnet gc --all --output json` tells as gone.
fn removed(answer: &Value) -> u64 {
    let networks = answer.as_object().into_iter().flat_map(|all| all.values());
    let gone = networks.filter_map(|network| network["gone"].as_array());
    gone.map(|gone| gone.len() as u64).sum()
}
