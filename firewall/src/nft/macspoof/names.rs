//! What an attachment's chains and rules are called.

use crate::Owner;
use crate::names;

/// Longest name of a chain, in bytes: `NFT_NAME_MAXLEN` of linux/netfilter/nf_tables.h (256) without
/// the final zero. The longest comment that goes with it is within `NFT_USERDATA_MAXLEN` (256).
const MAX_NAME_LEN: usize = 255;
/// What the names of chains begin with.
const CHAIN: &str = "cni-br-iface-";
/// What comments begin with.
const COMMENT: &str = "macspoofchk-";
/// Hex digits of a hash.
const HASH_LEN: usize = 24;

/// Names of one attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The chain of all frames that the port takes in.
    pub frames: String,
    /// The chain that lets through those of one source.
    pub sources: String,
    /// The comment of each rule.
    pub comment: String,
}

impl Names {
    fn of_id(id: &str) -> Names {
        Names {
            frames: format!("{CHAIN}{id}"),
            sources: format!("{CHAIN}{id}-mac"),
            comment: format!("{COMMENT}{id}"),
        }
    }

    /// The names that the attachment may have, the best first: the reference plugins', if they are
    /// not too long for the kernel, and a hash. The former do not tell every two attachments apart:
    /// they leave the network out, `a-b` with `c` gives what `a` with `b-c` does, and the chain of
    /// sources of `a` with `b` is the chain of frames of `a-b` with `mac`. No hash has a `-`.
    pub fn of(owner: Owner) -> Vec<Names> {
        let Owner {
            network,
            container_id,
            ifname,
        } = owner;
        let reference = Names::of_id(&format!("{container_id}-{ifname}"));
        let parts = [network, "/", container_id, "/", ifname];
        let hashed = Names::of_id(&names::hash(&parts, HASH_LEN));
        let mut all = vec![reference, hashed];
        all.retain(|names| names.sources.len() <= MAX_NAME_LEN);
        all
    }

    /// The names that go with the comment of a rule; `None` for a comment that is no filter's.
    pub fn of_comment(comment: &str) -> Option<Names> {
        comment.strip_prefix(COMMENT).map(Names::of_id)
    }

    /// Those of the chains.
    pub fn chains(&self) -> [&str; 2] {
        [&self.frames, &self.sources]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(network: &str, container_id: &str, ifname: &str) -> Vec<Names> {
        Names::of(Owner {
            network,
            container_id,
            ifname,
        })
    }

    /// Filters of a node that runs are found by these: they must never change.
    #[test]
    fn the_reference_names_come_first() {
        let [reference, hashed] = &names("mynet", "cont1", "eth0")[..] else {
            panic!("not two");
        };
        assert_eq!(reference.frames, "cni-br-iface-cont1-eth0");
        assert_eq!(reference.sources, "cni-br-iface-cont1-eth0-mac");
        assert_eq!(reference.comment, "macspoofchk-cont1-eth0");
        assert_eq!(hashed.frames, "cni-br-iface-287450ff12046f5a1d13a986");
        assert_eq!(
            Names::of_comment(&reference.comment).as_ref(),
            Some(reference)
        );
        assert_eq!(Names::of_comment("cont1-eth0"), None);
    }

    #[test]
    fn what_the_reference_confuses_the_hash_tells_apart() {
        let confused = [
            names("n", "a-b", "c"),
            names("n", "a", "b-c"),
            names("m", "a", "b-c"),
        ];
        for (at, one) in confused.iter().enumerate() {
            assert_eq!(one[0], confused[0][0]);
            for other in &confused[at + 1..] {
                assert_ne!(one[1], other[1]);
            }
        }
        let sources = &names("n", "a", "b")[0].sources;
        assert_eq!(&names("n", "a-b", "mac")[0].frames, sources);
    }

    #[test]
    fn what_is_too_long_for_the_kernel_is_hashed() {
        let id = |length: usize| "c".repeat(length);
        let fits = names("n", &id(255 - 13 - 4 - 5), "eth0");
        assert_eq!((fits.len(), fits[0].sources.len()), (2, 255));
        let [hashed] = &names("n", &id(255 - 13 - 4 - 4), "eth0")[..] else {
            panic!("not one");
        };
        assert_ne!(hashed, &names("n", &id(300), "eth0")[0]);
    }
}
