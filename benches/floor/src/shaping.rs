//! Both rates (linux/pkt_sched.h, linux/pkt_cls.h, linux/tc_act/tc_mirred.h).

use crate::Pod;
use crate::links::with_ifb;
use crate::message::{Batch, NEW};

const RTM_NEWQDISC: u16 = 36;
const RTM_NEWTFILTER: u16 = 44;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_TBF_PARMS: u16 = 1;
const TCA_U32_CLASSID: u16 = 1;
const TCA_U32_SEL: u16 = 5;
const TCA_U32_ACT: u16 = 7;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_MIRRED_PARMS: u16 = 2;

const ROOT: u32 = 0xffff_ffff;
const INGRESS: u32 = 0xffff_fff1;
const INGRESS_HANDLE: u32 = 0xffff_0000;
const FIRST_HANDLE: u32 = 0x1_0000;
const CLASS: u32 = 0x1_0001;
const TC_ACT_STOLEN: u32 = 4;
const TCA_EGRESS_REDIR: u32 = 1;
/// `ETH_P_ALL` in network byte order.
const ALL_PROTOCOLS: u16 = 3_u16.to_be();

/// 1 Mbit/s, in bytes; a bucket that takes a second to fill, in ticks of 64 ns; its size and 25 ms
/// more to wait in.
const RATE: u32 = 125_000;
const BUFFER: u32 = 15_625_000;
const LIMIT: u32 = 128_125;

/// `struct tcmsg`.
fn header(link: u32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    let words = [0, link, handle, parent, info];
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// The bucket of the node's end, and the ifb for the other way.
pub fn into_the_pod(pod: Pod, veth: u32) -> Batch {
    with_ifb(with_tbf(Batch::default(), veth), pod).acknowledged()
}

/// What comes from the pod goes through the ifb, which has the other bucket.
pub fn out_of_the_pod(veth: u32, ifb: u32) -> Batch {
    let ingress = header(veth, INGRESS_HANDLE, INGRESS, 0);
    let batch = Batch::default().with(RTM_NEWQDISC, NEW, &ingress, |attributes| {
        attributes.text(TCA_KIND, "ingress");
    });
    with_tbf(with_redirect(batch, veth, ifb), ifb).acknowledged()
}

fn with_tbf(batch: Batch, link: u32) -> Batch {
    // `struct tc_tbf_qopt`: two `struct tc_ratespec`, of which the first one's last word is the rate.
    let parms = [0, 0, RATE, 0, 0, 0, LIMIT, BUFFER, 0];
    let parms: Vec<u8> = parms.into_iter().flat_map(u32::to_ne_bytes).collect();
    let root = header(link, FIRST_HANDLE, ROOT, 0);
    batch.with(RTM_NEWQDISC, NEW, &root, |attributes| {
        attributes
            .text(TCA_KIND, "tbf")
            .nest(TCA_OPTIONS, |options| {
                options.put(TCA_TBF_PARMS, &parms);
            });
    })
}

fn with_redirect(batch: Batch, from: u32, to: u32) -> Batch {
    let first = header(from, 0, INGRESS_HANDLE, 0x1_0000 | u32::from(ALL_PROTOCOLS));
    // `struct tc_u32_sel` and one key: terminal, and all match a mask of 0.
    let mut selector = [0; 32];
    selector[0] = 1;
    selector[2] = 1;
    // `struct tc_mirred`.
    let mirred = [0, 0, TC_ACT_STOLEN, 0, 0, TCA_EGRESS_REDIR, to];
    let mirred: Vec<u8> = mirred.into_iter().flat_map(u32::to_ne_bytes).collect();
    batch.with(RTM_NEWTFILTER, NEW, &first, |attributes| {
        attributes
            .text(TCA_KIND, "u32")
            .nest(TCA_OPTIONS, |options| {
                options
                    .number(TCA_U32_CLASSID, CLASS)
                    .nest(TCA_U32_ACT, |actions| {
                        actions.nest(1, |action| {
                            action
                                .text(TCA_ACT_KIND, "mirred")
                                .nest(TCA_ACT_OPTIONS, |options| {
                                    options.put(TCA_MIRRED_PARMS, &mirred);
                                });
                        });
                    })
                    .put(TCA_U32_SEL, &selector);
            });
    })
}
