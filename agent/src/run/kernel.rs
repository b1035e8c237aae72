//! The kernel's own events, as a task can wait for them.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use net::RouteEvents;
use tokio::sync::Notify;
use tracing::warn;

/// How long to wait where the kernel cannot be listened to; every few minutes all is looked at anyway.
const PAUSE: Duration = Duration::from_secs(60);

/// Notifies of changes of routes and links in the calling thread's namespace, from a thread of its own
/// since it blocks.
///
/// # Errors
/// No thread can be made.
pub fn listen(changed: Arc<Notify>) -> std::io::Result<()> {
    let body = move || {
        loop {
            let failed = RouteEvents::current().and_then(|events| {
                // What happened before is not heard.
                changed.notify_one();
                loop {
                    if events.wait(PAUSE)? {
                        changed.notify_one();
                    }
                }
            });
            let failed: net::Result<()> = failed;
            if let Err(error) = failed {
                warn!("the kernel's events cannot be heard: {error}");
            }
            thread::sleep(PAUSE);
        }
    };
    thread::Builder::new()
        .name("events".to_owned())
        .spawn(body)?;
    Ok(())
}
