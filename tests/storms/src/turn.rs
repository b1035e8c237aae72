//! One step.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::Duration;

use cni::AddResult;
use tests::Family;

use crate::hand::Seen;
use crate::model::{Before, End, Known, after_gc};
use crate::network::{Network, Wish};
use crate::sight::{Sight, Traces};
use crate::storm::Storm;
use crate::tenant::{Pod, Tenant};
use crate::{Action, Error, Flaw, Step, What, lock};

/// How long a host port may not answer.
const DEADLINE: Duration = Duration::from_secs(5);

/// A call and how it has ended.
struct Made {
    before: Before,
    end: End,
    seen: Seen,
    result: Option<AddResult>,
    /// Whether the runtime had its result.
    was_told: bool,
}

impl Storm<'_> {
    /// A step of a pod.
    pub fn attend(&self, step: &Step, pod: &mut Pod) -> Result<(), Error> {
        let place = pod.tenants.iter().position(|it| it.number == step.whose);
        let Some(place) = place else {
            return Ok(());
        };
        let tenant = &mut pod.tenants[place];
        match step.action {
            Action::Lose if tenant.told => {
                tenant.remember(format!("{} {}", step.number, step.action));
                lock(&self.tally).step(step.action);
                self.lose(pod, place)
            }
            Action::Vanish if pod.namespace.is_some() => {
                for tenant in &mut pod.tenants {
                    tenant.remember(format!("{} {}", step.number, step.action));
                }
                lock(&self.tally).step(step.action);
                self.vanish(pod)
            }
            Action::Check if !self.can_be_checked(tenant) => Ok(()),
            Action::Lose | Action::Vanish | Action::Gc => Ok(()),
            Action::Add | Action::Check | Action::Del => {
                let made = self.call(step, pod, place)?;
                self.judge(step, pod, place, made)
            }
        }
    }

    /// Only whoever has a result can be told what to compare with.
    fn can_be_checked(&self, tenant: &Tenant) -> bool {
        let is_there = matches!(tenant.known, Known::Attached | Known::Bereft);
        is_there && tenant.told && self.ground.is_ours
    }

    /// The runtime loses the result.
    pub fn lose(&self, pod: &mut Pod, place: usize) -> Result<(), Error> {
        let file = self.ground.cached(pod, &pod.tenants[place]);
        pod.tenants[place].told = false;
        match fs::remove_file(file) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The pod's namespace vanishes.
    pub fn vanish(&self, pod: &mut Pod) -> Result<(), Error> {
        if let Some(namespace) = pod.namespace.take() {
            namespace.remove()?;
        }
        pod.lose_namespace();
        Ok(())
    }

    fn call(&self, step: &Step, pod: &mut Pod, place: usize) -> Result<Made, Error> {
        let is_add = step.action == Action::Add;
        if is_add && pod.namespace.is_none() {
            let namespace = self.ground.node.namespace(&pod.id);
            namespace.path().clone_into(&mut pod.path);
            pod.namespace = Some(namespace);
        }
        let network = self.ground.network(pod.tenants[place].network);
        let mut conf = self.ground.conf(pod, &pod.tenants[place], is_add);
        if pod.namespace.is_none() && step.coin {
            conf.netns = None;
        }
        let namespace = pod.namespace.take();
        let tenant = &mut pod.tenants[place];
        let known = tenant.known;
        let was_told = tenant.told;
        let crowd = &self.crowds[tenant.network];
        if is_add {
            self.settle(
                tenant,
                if known == Known::Absent {
                    Known::Unsure
                } else {
                    known
                },
            );
            crowd.begun.fetch_add(1, Ordering::SeqCst);
        }
        if step.action == Action::Del {
            // From now on another may have them.
            self.forget_addresses(tenant);
        }
        let begun = crowd.begun.load(Ordering::SeqCst);
        let others = crowd.held.load(Ordering::SeqCst).saturating_sub(1);
        let hand = self.ground.hand(network, step.fault, namespace);
        let runtime = self.ground.runtime(&hand);
        let list = &network.list;
        let answer = self.ground.node.namespace.run(|| match step.action {
            Action::Add => runtime.add(list, &conf).map(Some),
            Action::Check => runtime.check(list, &conf).map(|()| None),
            _ => runtime.del(list, &conf).map(|()| None),
        })?;
        let meanwhile = crowd.begun.load(Ordering::SeqCst).saturating_sub(begun);
        let mut seen = hand.seen();
        pod.namespace = seen.pod.take();
        let (end, result) = match (seen.killed, answer) {
            (Some(_), _) => (End::Killed, None),
            (None, Ok(result)) => (End::Done, result),
            (None, Err(error)) => (End::Refused(error), None),
        };
        let before = Before {
            action: step.action,
            known,
            vanished: seen.vanished,
            may_be_full: others + meanwhile >= network.room,
            is_begun: seen.calls > 1,
        };
        Ok(Made {
            before,
            end,
            seen,
            result,
            was_told,
        })
    }

    fn judge(&self, step: &Step, pod: &mut Pod, place: usize, made: Made) -> Result<(), Error> {
        let (killed, vanished) = (made.seen.killed, made.seen.vanished);
        lock(&self.tally).call(step.action, &made.end, killed, vanished);
        let told = tell(step, &made.end, killed, vanished);
        if vanished {
            pod.lose_namespace();
        }
        let (known, flaw) = made.before.then(&made.end);
        let tenant = &mut pod.tenants[place];
        tenant.remember(told.clone());
        self.settle(tenant, known);
        if matches!(made.end, End::Killed) && step.action != Action::Check {
            self.forget_addresses(tenant);
            tenant.wounded |= step.action == Action::Del;
        }
        if matches!(made.end, End::Done) && step.action == Action::Del {
            tenant.told = false;
            tenant.heal(!made.was_told);
        }
        if let Some(unclear) = &made.seen.unclear {
            self.find(Flaw::Unclear, &pod.id, tenant, unclear);
        } else if let Some(flaw) = flaw {
            self.find(flaw, &pod.id, tenant, &told);
        } else if let Some(twice) = made.result.and_then(|result| self.receive(tenant, &result)) {
            self.find(Flaw::Twice, &pod.id, tenant, &twice);
        } else if known == Known::Attached || known == Known::Absent {
            let network = self.ground.network(tenant.network);
            self.look(&Sight::of(&self.ground, network)?, pod, place)?;
            if step.action == Action::Check && step.coin {
                self.reach(pod, place);
            }
        }
        Ok(())
    }

    /// The result of an ADD; what is wrong with its addresses.
    fn receive(&self, tenant: &mut Tenant, result: &AddResult) -> Option<String> {
        tenant.told = true;
        tenant.heal(false);
        tenant.note_links(result, self.ground.network(tenant.network).bridge());
        tenant.flows_may_stay = false;
        self.forget_addresses(tenant);
        tenant.addresses = result.ips.iter().map(|ip| ip.address.addr()).collect();
        let mut all = lock(&self.addresses);
        let mut twice = None;
        for address in &tenant.addresses {
            match all.get(address) {
                Some(other) => {
                    twice = Some(format!("{address} is that of attachment {other}"));
                }
                None => drop(all.insert(*address, tenant.number)),
            }
        }
        twice
    }

    /// Compares what is there with what must be there.
    fn look(&self, sight: &Sight, pod: &mut Pod, place: usize) -> Result<(), Error> {
        let namespace = pod.namespace.as_ref();
        let tenant = &mut pod.tenants[place];
        let traces = sight.traces(&self.ground, tenant, &pod.id, namespace)?;
        if let Some((flaw, what)) = self.compare(tenant, &traces) {
            self.find(flaw, &pod.id, tenant, &what);
        }
        Ok(())
    }

    fn compare(&self, tenant: &Tenant, traces: &Traces) -> Option<(Flaw, String)> {
        match tenant.known {
            Known::Bereft | Known::Unsure => None,
            Known::Absent if !traces.is_nothing() => Some((Flaw::Leak, format!("left:\n{traces}"))),
            Known::Absent if !tenant.flows_may_stay && !traces.flows.is_empty() => {
                Some((Flaw::Leak, format!("left:\n{traces}")))
            }
            Known::Absent => None,
            Known::Attached => {
                let (is, must) = (traces.shape(), self.ground.shape(tenant));
                let told: BTreeSet<IpAddr> = tenant.addresses.iter().copied().collect();
                let wrong = is != must || traces.addresses() != told;
                let what = format!("it must have {must:?}, {told:?}; it has {is:?}:\n{traces}");
                wrong.then_some((Flaw::Unwhole, what))
            }
        }
    }

    /// Asks the pod by its host port. A second interface has no route to who asks.
    fn reach(&self, pod: &mut Pod, place: usize) {
        let tenant = &mut pod.tenants[place];
        let can = tenant.known == Known::Attached && tenant.wish != Wish::Nothing;
        let (Some(namespace), true) = (&pod.namespace, can && tenant.ifname == "eth0") else {
            return;
        };
        for address in tenant.addresses.clone() {
            let target = SocketAddr::new(Family::of(address).node(), tenant.ports.1);
            let asked = namespace.serve_udp(SocketAddr::new(address, 53));
            let asked =
                asked.and_then(|_served| self.ground.outside.ask_udp_within(target, DEADLINE));
            let what = match asked {
                Ok(seen) if seen.local.ip() == address => continue,
                Ok(seen) => format!("{target} leads to {} and not to {address}", seen.local),
                Err(error) => format!("{target}, which leads to {address}: {error}"),
            };
            return self.find(Flaw::Unreached, &pod.id, tenant, &what);
        }
    }

    /// GC of a network, which nothing else happens meanwhile to.
    pub fn collect(&self, step: &Step) -> Result<(), Error> {
        if !self.ground.knows_gc {
            return Ok(());
        }
        let network = self.ground.network(step.whose);
        let mut valid = Vec::new();
        for pod in self.pods.values() {
            let mut pod = lock(pod);
            let id = pod.id.clone();
            for tenant in self.of_network(&mut pod, step.whose) {
                match tenant.known {
                    Known::Attached => valid.push((id.clone(), tenant.ifname.to_owned())),
                    _ => self.forget_addresses(tenant),
                }
            }
        }
        let hand = self.ground.hand(network, step.fault, None);
        let runtime = self.ground.runtime(&hand);
        // A runtime makes it so, or leaves it to the plugins.
        let answer = self.ground.node.namespace.run(|| match step.coin {
            true => runtime.gc(&network.list, &valid),
            false => runtime.gc_by_plugins(&network.list, &valid),
        })?;
        let seen = hand.seen();
        let end = match (seen.killed, answer) {
            (Some(_), _) => End::Killed,
            (None, Ok(())) => End::Done,
            (None, Err(error)) => End::Refused(error),
        };
        lock(&self.tally).call(step.action, &end, seen.killed, false);
        let told = tell(step, &end, seen.killed, false);
        let flaw = match (&seen.unclear, &end) {
            (Some(unclear), _) => Some((Flaw::Unclear, unclear.clone())),
            (None, End::Refused(_)) => Some((Flaw::Refused, told.clone())),
            _ => None,
        };
        if let Some((flaw, what)) = flaw {
            lock(&self.tally).find(flaw);
            let name = &network.list.name;
            self.say(&format!(
                "{flaw:?}: GC of {name}: {what}\nagain: {}",
                self.again(None)
            ));
        }
        self.after_gc(step.whose, network, &end, &told)
    }

    fn after_gc(
        &self,
        number: usize,
        network: &Network,
        end: &End,
        told: &str,
    ) -> Result<(), Error> {
        let sight = Sight::of(&self.ground, network)?;
        for pod in self.pods.values() {
            let mut pod = lock(pod);
            for place in 0..pod.tenants.len() {
                let tenant = &mut pod.tenants[place];
                if tenant.network != number {
                    continue;
                }
                let known = after_gc(tenant.known, end);
                let is_gone = tenant.known != Known::Absent && known == Known::Absent;
                if tenant.known != Known::Absent {
                    tenant.remember(told.to_owned());
                }
                tenant.wounded |= known == Known::Unsure;
                self.settle(tenant, known);
                if is_gone {
                    tenant.heal(true);
                    self.lose(&mut pod, place)?;
                }
                self.look(&sight, &mut pod, place)?;
            }
        }
        Ok(())
    }

    fn of_network<'p>(
        &self,
        pod: &'p mut Pod,
        network: usize,
    ) -> impl Iterator<Item = &'p mut Tenant> {
        pod.tenants
            .iter_mut()
            .filter(move |it| it.network == network)
    }
}

/// A step in one line.
fn tell(step: &Step, end: &End, killed: Option<What>, vanished: bool) -> String {
    let mut line = format!("{} {}", step.number, step.action);
    if let Some(fault) = step.fault {
        let (what, call, moment) = (fault.what, fault.call, fault.moment);
        line = format!("{line} with {what:?} at {moment}/1000 of plugin {call}");
    }
    let missed = step.fault.is_some() && killed.is_none() && !vanished;
    let missed = if missed { ", which missed it" } else { "" };
    match end {
        End::Done => format!("{line}{missed}: success"),
        End::Killed => format!("{line}: killed"),
        End::Refused(error) => {
            format!(
                "{line}{missed}: {} {} {}",
                error.code, error.msg, error.details
            )
        }
    }
}
