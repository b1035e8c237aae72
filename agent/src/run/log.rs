//! What is said on standard error.

use std::io;

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Where the library that speaks with the API says of its own what it then answers as well. One of these
/// lines may be a whole list of nodes.
const TWICE: [&str; 2] = ["kube_client::client", "kube_runtime::watcher"];
/// What is below these, and is said there alone.
const ONCE: [&str; 2] = ["kube_client::client::auth", "kube_client::client::tls"];

/// Begins to say what is of that level, or worse.
pub fn begin(level: Level) {
    let lines = fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_target(false);
    let log = tracing_subscriber::registry()
        .with(lines)
        .with(which(level));
    log.init();
}

/// Each failure once, by the agent's own line; all there is for who looks for a fault in it.
fn which(level: Level) -> Targets {
    let all = Targets::new().with_default(level);
    if level >= Level::DEBUG {
        return all;
    }
    all.with_targets(TWICE.map(|target| (target, LevelFilter::OFF)))
        .with_targets(ONCE.map(|target| (target, LevelFilter::from_level(level))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_agent_says_itself_is_not_said_twice() {
        let usual = which(Level::INFO);
        for (target, level, is_said) in [
            ("agent::run::watch", Level::WARN, true),
            ("agent::run::watch", Level::INFO, true),
            ("agent::run::watch", Level::DEBUG, false),
            ("kube_client::client", Level::WARN, false),
            ("kube_client::client::builder", Level::ERROR, false),
            ("kube_runtime::watcher", Level::WARN, false),
            ("kube_client::client::tls", Level::WARN, true),
            ("kube_client::config", Level::WARN, true),
        ] {
            assert_eq!(
                usual.would_enable(target, &level),
                is_said,
                "{target} {level}"
            );
            assert!(which(Level::DEBUG).would_enable(target, &level), "{target}");
        }
        assert!(!which(Level::ERROR).would_enable("kube_client::client::tls", &Level::WARN));
    }
}
