//! The end of a storm: GC of everything, and nothing may be left.

use std::collections::BTreeSet;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::Namespace;

use crate::model::Known;
use crate::network::Network;
use crate::storm::Storm;
use crate::{Error, Flaw, lock};

/// How long the kernel may take to remove namespaces with what is in them.
const TEARDOWN: Duration = Duration::from_secs(20);

impl Storm<'_> {
    /// Every second namespace vanishes and every third result is lost; then GC has to remove it all.
    pub fn sweep(&self) -> Result<(), Error> {
        for (number, pod) in &self.pods {
            let mut pod = lock(pod);
            let there = pod.tenants.iter().filter(|it| it.known != Known::Absent);
            lock(&self.tally).attached_in_the_end += u64::try_from(there.count())?;
            if number % 2 == 0 {
                self.vanish(&mut pod)?;
            }
            for place in 0..pod.tenants.len() {
                if number % 3 == 0 {
                    self.lose(&mut pod, place)?;
                }
            }
        }
        for network in &self.ground.networks {
            self.empty(network)?;
        }
        self.compare_with_before()?;
        self.look_into_cache()
    }

    /// Plugins without GC have a DEL of each attachment.
    fn empty(&self, network: &Network) -> Result<(), Error> {
        let runtime = self.ground.runtime(&self.ground.hand(network, None, None));
        let node = &self.ground.node.namespace;
        let list = &network.list;
        let mut failed = Vec::new();
        if self.ground.knows_gc {
            failed.extend(node.run(|| runtime.gc(list, &[]))?.err());
        } else {
            for pod in self.pods.values() {
                let pod = lock(pod);
                let own = pod.tenants.iter();
                let own = own.filter(|it| self.ground.network(it.network).list.name == list.name);
                for tenant in own {
                    let conf = self.ground.conf(&pod, tenant, false);
                    failed.extend(node.run(|| runtime.del(list, &conf))?.err());
                }
            }
        }
        for error in failed {
            self.report(
                Flaw::Refused,
                &format!("the last call of {}: {error}", list.name),
            );
        }
        Ok(())
    }

    fn compare_with_before(&self) -> Result<(), Error> {
        let end = Instant::now() + TEARDOWN;
        let pods: Vec<_> = self.pods.values().map(lock).collect();
        let namespaces: Vec<&Namespace> = pods
            .iter()
            .filter_map(|pod| pod.namespace.as_ref())
            .collect();
        let tenants = || pods.iter().flat_map(|pod| &pod.tenants);
        let lost = tenants().filter(|it| it.flows_may_stay || it.wounded || !it.told);
        let ports: BTreeSet<_> = lost.map(|it| format!("dport={}", it.ports.1)).collect();
        let is_flow = |line: &&str| {
            let flow = line.strip_prefix("left: flow: ");
            flow.and_then(|flow| flow.split(' ').next())
                .is_some_and(|port| ports.contains(port))
        };
        let left = loop {
            let left = self.ground.left(&namespaces)?.unwrap_or_default();
            if left.lines().all(|line| is_flow(&line)) || Instant::now() > end {
                break left;
            }
            sleep(Duration::from_millis(200));
        };
        let flows = left.lines().filter(is_flow).count();
        lock(&self.tally).flows = u64::try_from(flows)?;
        if flows == left.lines().count() {
            return Ok(());
        }
        let mut what = format!("when all has ended:\n{left}");
        for pod in pods.iter().filter(|pod| left.contains(&pod.id)) {
            for tenant in &pod.tenants {
                let (id, number) = (&pod.id, tenant.number);
                what = format!(
                    "{what}\nthe history of {number}, {id}:\n{}",
                    tenant.history()
                );
            }
        }
        self.report(Flaw::Left, &what);
        Ok(())
    }

    fn look_into_cache(&self) -> Result<(), Error> {
        let results = self.ground.results();
        let mut names = Vec::new();
        for entry in fs::read_dir(&results).into_iter().flatten() {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        if !names.is_empty() {
            self.report(Flaw::Left, &format!("in the cache: {}", names.join(" ")));
        }
        Ok(())
    }

    fn report(&self, flaw: Flaw, what: &str) {
        lock(&self.tally).find(flaw);
        self.say(&format!("{flaw:?}: {what}\nagain: {}", self.again(None)));
    }
}
