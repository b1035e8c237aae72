//! What is shown, one small function each.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use lab::{Namespace, Server, Snapshot, Window};
use serde_json::{Map, json};

use super::Outcome;
use super::chain::{Ask, Chain, Given, IFNAME};
use super::interrupt::Interrupt;
use super::verdict::{self, Measured};
use super::world::{NODE, OUTSIDE, World};

/// What is asked for the pod `web`: this port of the node leads to its server.
const HOST_PORT: u16 = 8080;
/// Where the server in the pod `web` listens.
const POD_PORT: u16 = 80;
/// Into the pod `web`, in bits per second.
const INGRESS: u32 = 20_000_000;
/// Out of the pod `web`, in bits per second.
const EGRESS: u32 = 10_000_000;
/// Where the outside host's server listens.
const OUTSIDE_PORT: u16 = 7000;
/// Longer than the buckets take to empty, and long enough to be even.
const WINDOW: Window = Window {
    warm_up: Duration::from_secs(1),
    counted: Duration::from_secs(3),
};

/// Both pods after ADD, with a server in `web` and one outside.
#[derive(Debug)]
pub(super) struct Attached<'a> {
    world: &'a World,
    chain: &'a Chain,
    interrupt: &'a Interrupt,
    web: Given,
    client: Given,
    took: Duration,
    /// The node with both pods.
    pub(super) node: Snapshot,
    _servers: [Server; 2],
}

/// A line's subject and what is measured for it.
pub(super) type Step = (&'static str, fn(&Attached) -> Outcome<Measured>);

/// Everything that is shown between ADD and DEL, in this order.
pub(super) const STEPS: &[Step] = &[
    ("addresses given", addresses),
    ("pod to gateway", pod_to_gateway),
    ("pod to pod", pod_to_pod),
    ("pod to outside, masqueraded", pod_to_outside),
    ("host port from outside", |on| {
        host_port(on, &on.world.outside, NODE)
    }),
    ("host port from the node", |on| {
        host_port(on, &on.world.node, NODE)
    }),
    ("host port from 127.0.0.1", |on| {
        host_port(on, &on.world.node, Ipv4Addr::LOCALHOST.into())
    }),
    ("host port from the pod itself", |on| {
        host_port(on, &on.world.web, NODE)
    }),
    ("throughput into the pod", throughput_in),
    ("throughput out of the pod", throughput_out),
    ("CHECK", check),
];

impl<'a> Attached<'a> {
    /// ADD for both pods.
    pub(super) fn new(
        world: &'a World,
        chain: &'a Chain,
        interrupt: &'a Interrupt,
    ) -> Outcome<Attached<'a>> {
        let begin = Instant::now();
        let web = chain.add(&world.node, &web(world))?;
        let client = chain.add(&world.node, &client(world))?;
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Ok(Attached {
            took: begin.elapsed() / 2,
            node: Snapshot::of(&world.node, chain.store())?,
            _servers: [
                world.web.serve_tcp((any, POD_PORT).into())?,
                world.outside.serve_tcp((any, OUTSIDE_PORT).into())?,
            ],
            world,
            chain,
            interrupt,
            web,
            client,
        })
    }

    /// DEL for both pods; the node after it.
    pub(super) fn detach(&self) -> Outcome<(Measured, Snapshot)> {
        let begin = Instant::now();
        for ask in [web(self.world), client(self.world)] {
            self.chain.del(&self.world.node, &ask)?;
        }
        let value = format!("both pods, {} each", milliseconds(begin.elapsed() / 2));
        let after = Snapshot::of(&self.world.node, self.chain.store())?;
        Ok((Measured::new(true, value), after))
    }
}

/// A pod with a host port and rates. The bursts are a tenth of a second.
fn web(world: &World) -> Ask<'_> {
    let asked = json!({
        "portMappings": [{ "hostPort": HOST_PORT, "containerPort": POD_PORT, "protocol": "tcp" }],
        "bandwidth": {
            "ingressRate": INGRESS,
            "ingressBurst": INGRESS / 10,
            "egressRate": EGRESS,
            "egressBurst": EGRESS / 10
        }
    });
    Ask {
        pod: &world.web,
        capabilities: asked.as_object().cloned().unwrap_or_default(),
    }
}

/// A pod that asks for nothing but the network.
fn client(world: &World) -> Ask<'_> {
    Ask {
        pod: &world.client,
        capabilities: Map::new(),
    }
}

fn addresses(on: &Attached) -> Outcome<Measured> {
    let web = given(&on.world.web, &on.web)?;
    let client = given(&on.world.client, &on.client)?;
    let value = format!(
        "web {}, client {}; ADD took {} each",
        web.value,
        client.value,
        milliseconds(on.took)
    );
    Ok(Measured::new(web.holds && client.holds, value))
}

/// What ADD reported, beside what the pod's interface has.
fn given(pod: &Namespace, given: &Given) -> Outcome<Measured> {
    let netlink = pod.netlink()?;
    let link = netlink.link(IFNAME)?.ok_or("the pod has no interface")?;
    let found = netlink.addresses(link.index)?;
    let global = found.iter().filter(|address| address.global);
    let found: Vec<_> = global.map(|address| address.net.to_string()).collect();
    let reported: Vec<_> = given.addresses.iter().map(ToString::to_string).collect();
    Ok(verdict::addresses(&reported, &found))
}

fn pod_to_gateway(on: &Attached) -> Outcome<Measured> {
    let gateway = on.client.gateway;
    let time = on.world.client.ping(gateway)?;
    Ok(Measured::new(
        true,
        format!("{gateway} answered in {}", milliseconds(time)),
    ))
}

fn pod_to_pod(on: &Attached) -> Outcome<Measured> {
    let seen = on.world.client.ask_tcp(web_server(on))?;
    Ok(verdict::source(seen, on.client.address))
}

fn pod_to_outside(on: &Attached) -> Outcome<Measured> {
    let seen = on
        .world
        .client
        .ask_tcp(SocketAddr::new(OUTSIDE, OUTSIDE_PORT))?;
    Ok(verdict::source(seen, NODE))
}

fn host_port(on: &Attached, from: &Namespace, address: IpAddr) -> Outcome<Measured> {
    let target = SocketAddr::new(address, HOST_PORT);
    let answered = verdict::answered(from.ask_tcp(target)?, web_server(on));
    Ok(Measured::new(
        answered.holds,
        format!("{target} {}", answered.value),
    ))
}

fn throughput_in(on: &Attached) -> Outcome<Measured> {
    let at = SocketAddr::new(on.web.address, 0);
    let measured = throughput(on, &on.world.client, &on.world.web, at)?;
    Ok(verdict::rate(measured, INGRESS))
}

fn throughput_out(on: &Attached) -> Outcome<Measured> {
    let at = SocketAddr::new(OUTSIDE, 0);
    let measured = throughput(on, &on.world.web, &on.world.outside, at)?;
    Ok(verdict::rate(measured, EGRESS))
}

/// What it says after a signal is not shown.
fn throughput(on: &Attached, from: &Namespace, to: &Namespace, at: SocketAddr) -> Outcome<f64> {
    let wait = |time| on.interrupt.wait(time);
    Ok(lab::throughput_with(from, to, at, WINDOW, wait)?)
}

fn check(on: &Attached) -> Outcome<Measured> {
    let begin = Instant::now();
    for ask in [web(on.world), client(on.world)] {
        on.chain.check(&on.world.node, &ask)?;
    }
    let value = format!(
        "both pods as ADD made them, {} each",
        milliseconds(begin.elapsed() / 2)
    );
    Ok(Measured::new(true, value))
}

/// The server in the pod.
fn web_server(on: &Attached) -> SocketAddr {
    SocketAddr::new(on.web.address, POD_PORT)
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
