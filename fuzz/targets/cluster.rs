//! A cluster file, read, planned and written; and the same as manifests and as ranges of nodes.

#![no_main]

use plan::keys::ClusterKeys;
use plan::{Cluster, Document, Plan};

libfuzzer_sys::fuzz_target!(|text: &str| {
    drop(plan::kubernetes::nodes("nodes.json", text));
    drop(plan::podcidrs::read("podcidrs.txt", text));
    if let Ok(documents) = Document::parse_all("pods.yaml", text) {
        drop(plan::lint::sort(documents));
    }
    let Ok(document) = Document::parse("cluster.yaml", text) else {
        return;
    };
    let Ok(keys) = document.read::<ClusterKeys>() else {
        return;
    };
    let made = Cluster::new(keys).and_then(Plan::new);
    match made {
        Ok(plan) => drop((plan::podcidrs::text(&plan), plan::routes::Routes::of(&plan))),
        Err(fault) => drop(document.locate(fault)),
    }
});
