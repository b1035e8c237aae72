#!/bin/sh
# Writes the answers of a worked example into a folder, by podnet alone: what the ranges of three nodes
# are, what there is room for, which conflist each node gets, what lint says of a pod, which ranges
# overlap, and how a node is kept back until its plugins are there.
#
# usage: conf/lab/answers.sh OUT [CLUSTER]
#
# CLUSTER is cluster.yaml beside this file unless told otherwise; of its nodes the first three are looked
# at. PODNET is the program, CASES what is looked at for overlaps, EDGE and TAINT the node that waits. With
# CNI_PATH the plugins themselves are asked as well.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: answers.sh OUT [CLUSTER]}
cluster=$(realpath "${2:-$here/cluster.yaml}")
podnet=${PODNET:-podnet}
edge=${EDGE:-k8nd-cni-edge}
taint=${TAINT:-k8nd.example.com/cni-missing}
cases=${CASES:-"
    p1=10.244.0.0/16,10.96.0.0/16,192.168.10.0/24
    p2=10.96.0.0/12,10.96.0.0/16,192.168.10.0/24
    p3=10.244.0.0/16,10.245.0.0/16,10.244.3.0/24
    p4=172.16.0.0/16,10.96.0.0/16,192.168.10.0/24"}

mkdir -p "$out"
cd "$out"

"$podnet" plan podcidrs -f "$cluster" > 01-podcidr.txt
"$podnet" plan capacity -f "$cluster" > 02-capacity.txt
conflist() {
    "$podnet" plan conflist -f "$cluster" --for "$(sed -n "$1s/ .*//p" 01-podcidr.txt)"
}
conflist 1 > 10-k8nd.conflist
conflist 2 > 06-node1.conflist
conflist 3 > 06-node2.conflist

cp "$here/shaped.yaml" shaped.yaml
"$podnet" lint --offline 10-k8nd.conflist -f shaped.yaml > 04-chain.txt
[ -z "${CNI_PATH:-}" ] || "$podnet" lint 10-k8nd.conflist -f shaped.yaml > /dev/null

"$podnet" plan node --name "$edge" --taint "$taint" > edge-node.yaml
"$podnet" taints -f edge-node.yaml > 05-notready.txt

# Exit status 1 says that something overlaps, as is to be seen.
set --
for case in $cases; do set -- "$@" --case "$case"; done
"$podnet" plan overlap "$@" > 07-overlap.txt || [ $? = 1 ]

whole=$(mktemp -d)
trap 'rm -r "$whole"' EXIT
"$podnet" plan write -f "$cluster" --out "$whole" > /dev/null
cp "$whole/report.md" 08-report.md
