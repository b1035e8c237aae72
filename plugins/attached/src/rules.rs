//! Whose NAT rules are, and what the firewall's errors are to the runtime.

use std::fmt;

use cni::{Attachment, Error, code};
use firewall::Owner;

/// Whose the rules of an attachment are.
pub fn owner(attachment: &Attachment) -> Owner<'_> {
    Owner {
        network: &attachment.network,
        container_id: &attachment.container_id,
        ifname: &attachment.ifname,
    }
}

/// [`cni::Context`] for the errors of rules, which may pass by themselves.
pub trait RulesContext<T> {
    /// Wraps the error as `what: error`: with code 11 where others hold a lock, else with code 100.
    ///
    /// # Errors
    /// The wrapped error.
    fn rules_context(self, what: impl fmt::Display) -> Result<T, Error>;
}

impl<T> RulesContext<T> for firewall::Result<T> {
    fn rules_context(self, what: impl fmt::Display) -> Result<T, Error> {
        self.map_err(|error| {
            let code = match error.is_busy() {
                true => code::TRY_AGAIN_LATER,
                false => code::SYSTEM,
            };
            Error::new(code, format!("{what}: {error}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_lock_is_to_be_tried_again_later() {
        let busy = firewall::Error::Busy {
            lock: "/run/x".to_owned(),
        };
        let said = |error| Err::<(), _>(error).rules_context("ports").unwrap_err();
        let text = "ports: /run/x is held by another process";
        assert_eq!(said(busy), Error::new(11, text));
        assert_eq!(said(firewall::Error::NoTool("iptables")).code, 100);
    }
}
