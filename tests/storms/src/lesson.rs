//! What an attachment of each kind is made of, learnt where nothing goes wrong.

use std::panic::resume_unwind;

use cni::AddResult;

use crate::Error;
use crate::ground::Ground;
use crate::network::Wish;
use crate::sight::{Shape, Sight};
use crate::tenant::{Pod, Tenant};

/// Beyond the numbers of all attachments.
const NUMBER: usize = 900;

/// The shapes of each network, in the order of [`Wish::ALL`]. All networks are taught at once.
///
/// # Errors
/// A call fails, or a DEL leaves something.
pub fn learn(ground: &Ground) -> Result<Vec<Vec<Shape>>, Error> {
    std::thread::scope(|scope| {
        let numbers = 0..ground.networks.len();
        let begun: Vec<_> = numbers
            .map(|network| scope.spawn(move || of_network(ground, network)))
            .collect();
        begun
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}

fn of_network(ground: &Ground, number: usize) -> Result<Vec<Shape>, Error> {
    let id = format!("lesson{number}");
    let namespace = ground.node.namespace(&id);
    let mut pod = Pod {
        id,
        path: namespace.path().to_owned(),
        namespace: Some(namespace),
        tenants: Vec::new(),
    };
    let mut shapes = Vec::new();
    for wish in Wish::ALL {
        shapes.push(of_wish(ground, number, wish, &pod)?);
    }
    if let Some(namespace) = pod.namespace.take() {
        namespace.remove()?;
    }
    Ok(shapes)
}

fn of_wish(ground: &Ground, number: usize, wish: Wish, pod: &Pod) -> Result<Shape, Error> {
    let network = ground.network(number);
    let mut tenant = Tenant::new(NUMBER + number, number, wish, false);
    let runtime = ground.runtime(&ground.hand(network, None, None));
    let node = &ground.node.namespace;
    let [asks, knows] = [true, false].map(|asks| ground.conf(pod, &tenant, asks));
    let mut traces = |result: Option<AddResult>| {
        if let Some(result) = result {
            tenant.note_links(&result, network.bridge());
        }
        let sight = Sight::of(ground, network)?;
        sight.traces(ground, &mut tenant, &pod.id, pod.namespace.as_ref())
    };
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", network.list.name);
    let added = node.run(|| runtime.add(&network.list, &asks))?;
    let added = added.map_err(|error| told(&error))?;
    let shape = traces(Some(added))?.shape();
    let deleted = node.run(|| runtime.del(&network.list, &knows))?;
    deleted.map_err(|error| told(&error))?;
    let left = traces(None)?;
    if !left.is_nothing() {
        return Err(told(&format!("DEL leaves\n{left}")).into());
    }
    if shape.inside != 1 || shape.reservations != network.families.len() || shape.links == 0 {
        return Err(told(&format!("ADD makes no more than {shape:?}")).into());
    }
    Ok(shape)
}
