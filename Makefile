# Verbs (make targets) of this project. Each one first checks its requirements (tests/steps/prepare), then only calls programs.
# Build caches are outside of the checkout. No result depends on their content.

export KERF_CACHE ?= $(or $(HOME),$(error HOME is not set: set it, or set KERF_CACHE to a folder for builds))/.cache/kerf
# One folder for each checkout: cargo compares only times, so with a shared folder it can use programs of another checkout.
export CARGO_TARGET_DIR ?= $(KERF_CACHE)/target/$(subst /,-,$(CURDIR:/%=%))
export AWS_EC2_METADATA_DISABLED = true
# Steps parse the output of other programs.
export LC_ALL = C
# Verbs build whole crates, so incremental state would only use disk.
export CARGO_INCREMENTAL ?= 0

RUN = tests/steps/run
GO = tests/steps/go-program
# Prerequisites are ordered steps: the first one checks the machine.
.NOTPARALLEL:

.PHONY: help demo test bare e2e amis linters lint soak hostile crowd pace bench fidelity fuzz day traces pictures screens peers peers-live conformance bless controlplane agent node \
	nodeparts moto helm images packer release verify-release publish advisories

help: ## Shows this list.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# `prepare-VERB` checks the machine for that verb, and installs missing Debian packages as root.
ARGUMENT = $(or $(ARCH),$(PARTS))
prepare-publish: ARGUMENT = $(REGISTRY)
prepare-%:
	@tests/steps/prepare $* "$(ARGUMENT)"

demo: prepare-demo ## Runs the whole demo on real components; KEEP=1 leaves it running.
	@tests/steps/demo-build
	@KEEP="$(KEEP)" tests/demo/run
	@tests/steps/prepare --done demo

# The same code gives the same result. PROPTEST_RNG_SEED=N generates other cases, PROPTEST_CASES=N more cases.
test: export PROPTEST_RNG_SEED ?= 1
test: prepare-test ## Runs every test.
	@tests/steps/test
	@tests/steps/prepare --done test

# Third-party programs of the tests.
.PHONY: programs
programs: controlplane moto helm linters
	@$(RUN) suites-core "building Karpenter's end-to-end suites" "first time: 1 to 3 minutes" $(GO) tests/conformance/core
	@$(RUN) karpenter-aws "building Karpenter with its AWS provider" "first time: 1 to 3 minutes" $(GO) tests/karpenter
	@$(RUN) kueue "building Kueue" "first time: 1 to 3 minutes" $(GO) tests/kueue
	@$(RUN) kwok "building KWOK" "first time: 1 to 3 minutes" $(GO) tests/kwok
	@$(RUN) aemm "building the simulator of instance metadata" "first time: 10 s" $(GO) tests/aemm

bare: prepare-bare ## Runs `make demo` and `make test` in a temporary root without packages and caches; KINDS="disk tmpfs" of /tmp.
	@tests/steps/bare $(KINDS)

# An installation on real nodes, images by runc, machine images by Packer, a release, a switch of ten minutes, IAM by Terraform.
e2e: RELEASE = 1
e2e: prepare-e2e controlplane nodeparts agent images helm packer moto ## Runs the tests that are too slow for `make test`.
	@$(RUN) e2e-installation "an installation on real nodes, through a kill, a drain and an upgrade" "5 minutes; 5 to 9 more for the workspace when cold" \
		cargo test --workspace --locked --test all -- --ignored --nocapture installation::
	@$(RUN) e2e-release "images, machine images and a release" "2 to 4 minutes; 10 to 20 more for the command when cold" \
		cargo test --workspace --locked --test all -- --ignored images:: ami:: release:: packages:: publish::
	@KERF_SWITCH_SECONDS=600 $(RUN) e2e-switch "a switch from Karpenter and back in ten minutes" "14 minutes" \
		cargo test --workspace --locked --test all -- switch::
	@$(RUN) e2e-terraform "IAM permissions by Terraform, if it and KERF_TERRAFORM_PLUGINS are available" "2 minutes" \
		cargo test --workspace --locked --test all -- --ignored --nocapture terraform

amis: prepare-amis agent packer moto ## Runs the tests of `make e2e` that need no EC2 SDK: machine images by Packer, the agent's images by runc.
	@tests/steps/agent arm64
	@$(RUN) amis "machine images and the agent's images" "first time: 5 minutes" \
		cargo test -p ship --locked -- --ignored images:: ami:: --skip images::controller_image --skip images::cli_image

lint: prepare-lint ## Checks format, warnings, each crate alone, licences and sources.
	@tests/steps/lint

soak: prepare-soak ## Launches 2,000 NodeClaims under faults of every kind and 20 kills; SEED=N sets the random seed.
	@KERF_SOAK_CLAIMS=2000 KERF_SOAK_KILLS=20 KERF_SOAK_SEED=$(or $(SEED),1) $(RUN) soak "2,000 NodeClaims, 20 kills" \
		"2 to 5 minutes, after the build" cargo test --workspace --locked --test all -- --nocapture soak::

crowd: prepare-crowd controlplane ## Plans for 100,000 unschedulable pods of 5,000 shapes, in 512 MiB of memory.
	@tests/steps/static controller
	@KERF_CROWD_PODS=100000 KERF_CROWD_SHAPES=5000 KERF_CONTROLLER=$(KERF_CACHE)/controller/kerf-controller \
		$(RUN) crowd "100,000 unschedulable pods" "6 minutes on 2 cores, after the build" \
		cargo test --workspace --locked --test all -- --nocapture crowd::

hostile: prepare-hostile ## Simulates 500 clusters in which an attacker controls some nodes; SEED=N sets the first random seed.
	@KERF_HOSTILE_SEEDS=$(or $(SEEDS),500) KERF_HOSTILE_SEED=$(or $(SEED),1) $(RUN) hostile "500 clusters with hostile nodes" \
		"20 minutes on 2 cores, after the build" cargo test --workspace --locked --test hostile -- --nocapture

pace: prepare-pace ## Launches 1,000 NodeClaims over HTTP at EC2's rate limits; needs an idle machine.
	@KERF_PACE_CLAIMS=$(or $(CLAIMS),1000) $(RUN) pace "1,000 launches at EC2's rate limits" \
		"4 to 5 minutes, after the build" cargo test --workspace --locked --test all -- --nocapture pace::claims_are

bench: prepare-bench ## Runs the planner's benchmarks.
	cargo bench --locked -p planner --bench provisioning

fidelity: prepare-fidelity ## Compares plans with the real kube-scheduler on 10,000 random clusters.
	@KERF_FIDELITY_CLUSTERS=10000 $(RUN) fidelity "10,000 clusters, compared with kube-scheduler" "5 to 10 minutes" \
		cargo test --release --locked -p peers --test all -- --nocapture oracle::

fuzz: prepare-fuzz ## Fuzzes the parsers of agent, controller and CLI, SECONDS (600) per target; TARGETS="journal ..." selects targets.
	@tests/steps/fuzz $(or $(SECONDS),600) $(TARGETS)

# Uses two replicas, validates every step, and calculates an hourly lower bound of the cost.
day: prepare-day ## Simulates a day with 1,000 faults and compares its cost with a lower bound; SEED=N, LIMIT=PERCENT of its highest cost.
	@$(RUN) peers-build "building the comparison" "first time: 5 to 10 minutes" cargo build --release --locked -p peers --bin peers
	@$(CARGO_TARGET_DIR)/release/peers day $(or $(SEED),1) $(if $(LIMIT),limit=$(LIMIT))

# TRACES is a folder with the files of the traces: `peers traces` names those that it lacks.
traces: prepare-traces ## Plays a public workload trace by the rules of Kerf and of Karpenter; TRACES=FOLDER, TRACE=azure|openb, HOURS=24, EVERY=100, SPOT_TO_SPOT=1, LIMIT=80, REPORT=1.
	@$(RUN) peers-build "building the comparison" "first time: 5 to 10 minutes" cargo build --release --locked -p peers --bin peers
	@$(CARGO_TARGET_DIR)/release/peers traces "$(TRACES)" $(TRACE) $(if $(HOURS),hours=$(HOURS)) $(if $(EVERY),every=$(EVERY)) $(if $(SPOT_TO_SPOT),spot-to-spot) $(if $(LIMIT),limit=$(LIMIT)) $(if $(REPORT),report)

pictures: prepare-pictures ## Simulates the day without faults and writes its charts to docs/pictures.
	@$(RUN) peers-build "building the comparison" "first time: 5 to 10 minutes" cargo build --release --locked -p peers --bin peers
	@$(CARGO_TARGET_DIR)/release/peers pictures

# BLESS=1 writes the pictures of the documentation.
screens: prepare-screens ## Tests the page of `kerf ui` in a headless browser and `kerf top` in a terminal; compares their pictures.
	@$(RUN) workspace "building the workspace" "first time: 5 to 9 minutes" cargo build --workspace --locked
	@tests/steps/node-packages tests/screens $(KERF_CACHE)/screens
	@tests/screens/run $(KERF_CACHE)/screens

# Writes docs/performance.md.
peers: prepare-peers controlplane agent ## Compares planner and agent with peers and a lower bound; needs an idle machine.
	@$(RUN) nth "building the agent's peer" "first time: 1 to 3 minutes" $(GO) tests/peers/nth
	@$(RUN) workspace "building the workspace" "first time: 5 to 9 minutes" cargo build --workspace --locked
	@KERF_AGENT=$(KERF_CACHE)/agent/kerf-agent $(CARGO_TARGET_DIR)/debug/agent-benchmark
	@$(RUN) peers-build "building the comparison" "first time: 5 to 10 minutes" cargo build --release --locked -p peers --bin peers
	@$(CARGO_TARGET_DIR)/release/peers

# On kwok and on EC2, on the same control plane. Needs an idle machine for 90 minutes.
peers-live: prepare-peers-live controlplane ## Compares the controller with the real Karpenter; SCENARIOS=wide for one of them.
	@$(RUN) karpenter "building Karpenter" "first time: 1 to 3 minutes" $(GO) tests/peers/live
	@$(RUN) karpenter-aws "building Karpenter with its AWS provider" "first time: 1 to 3 minutes" $(GO) tests/karpenter
	@$(RUN) workspace "building the workspace" "first time: 5 to 9 minutes" cargo build --workspace --locked
	@tests/steps/static controller
	@KERF_CONTROLLER=$(KERF_CACHE)/controller/kerf-controller $(CARGO_TARGET_DIR)/debug/live-benchmark $(SCENARIOS)
	@$(RUN) peers-build "building the comparison" "first time: 5 to 10 minutes" cargo build --release --locked -p peers --bin peers
	@$(CARGO_TARGET_DIR)/release/peers live

# KUBECONFIG and NODE_CLASS select your own cluster.
conformance: prepare-conformance controlplane agent ## Runs Karpenter's own suites; SUITES="core/regression", CASES=REGEX.
	@$(RUN) suites-core "building the suites of Karpenter" "first time: 1 to 3 minutes" $(GO) tests/conformance/core
	@$(RUN) suites-provider "building the suites of its AWS provider" "first time: 2 to 5 minutes" $(GO) tests/conformance/provider
	@$(RUN) workspace "building the workspace" "first time: 5 to 9 minutes" cargo build --workspace --locked
	@$(if $(NODE_CLASS),,tests/steps/static controller)
	@KERF_AGENT=$(KERF_CACHE)/agent/kerf-agent KERF_CONTROLLER=$(KERF_CACHE)/controller/kerf-controller $(CARGO_TARGET_DIR)/debug/conformance $(SUITES) $(if $(CASES),--cases '$(CASES)') \
		$(if $(CLUSTERS),--clusters $(CLUSTERS)) $(if $(NODE_CLASS),--kubeconfig '$(KUBECONFIG)' --node-class '$(NODE_CLASS)') \
		$(if $(NODE_POOL),--node-pool '$(NODE_POOL)')

bless: prepare-bless ## Regenerates generated files and transcripts; review the difference.
	BLESS=1 cargo test --workspace --locked --test all -- generated policy:: transcripts:: how_to:: rights_of_control_planes
	BLESS=1 cargo test --workspace --locked --test generated --test scenarios

controlplane: prepare-controlplane ## Builds the real Kubernetes control plane once into the cache.
	@$(RUN) controlplane "building etcd, kube-apiserver, kube-controller-manager and kube-scheduler" "first time: 4 to 10 minutes" \
		$(GO) tests/controlplane

agent: prepare-agent ## Builds the agent as one static program; ARCH=arm64 for the other architecture.
	@tests/steps/agent $(ARCH)

node: prepare-node controlplane nodeparts ## Boots a real node: systemd, containerd, runc and kubelet with Kerf's units.
	@$(RUN) workspace "building the workspace" "first time: 5 to 9 minutes" cargo build --workspace --locked
	@$(RUN) node "a real node from CreateFleet to power off" "7 minutes, after the build" \
		cargo test --workspace --locked --test all -- --ignored --nocapture node::

nodeparts: prepare-nodeparts ## Builds the real containerd and kubelet once into the cache.
	@$(RUN) containerd "building containerd" "first time: 1 to 2 minutes" $(GO) tests/node/containerd
	@$(RUN) kubelet "building kubelet" "first time: 1 to 4 minutes" $(GO) tests/node/kubelet

moto: prepare-moto ## Installs moto, the independent emulation of EC2's wire format, into the cache.
	@$(RUN) moto "installing moto" "first time: 1 minute" tests/steps/python-programs tests/moto/requirements.txt $(KERF_CACHE)/moto

linters: prepare-linters ## Installs the linters of IAM policies and dashboards; builds Prometheus, which checks rules and boards.
	@$(RUN) linters "installing linters" "first time: 1 minute" tests/steps/python-programs tests/linters/requirements.txt $(KERF_CACHE)/linters
	@GOFLAGS=-tags=remove_all_sd $(RUN) prometheus "building Prometheus" "first time: 1 to 4 minutes" $(GO) tests/prometheus

helm: prepare-helm ## Builds Helm 3 and Helm 4, which render the chart, once into the cache.
	@$(RUN) helm3 "building Helm 3" "first time: 1 to 4 minutes" $(GO) tests/helm/helm3
	@$(RUN) helm4 "building Helm 4" "first time: 1 to 4 minutes" $(GO) tests/helm/helm4

images: prepare-images ## Builds container images with their bills of materials; CLI=1 also the command's, RELEASE=1 all for arm64 too.
	@images/all $(if $(RELEASE),arm64) $(if $(RELEASE)$(CLI),cli)

release: prepare-release ## Builds the artifacts of a release, with checksums; REGISTRY=, PARTS="charts agent" (docs/release.md).
	@images/release/build $(KERF_CACHE)/release $(PARTS)

verify-release: prepare-verify-release ## Verifies the output of `make release`; SUMS=SHA256 of its SHA256SUMS.
	@images/release/verify $(KERF_CACHE)/release

advisories: prepare-advisories ## Searches the lock files for known vulnerabilities; needs the network.
	@tests/steps/advisories

publish: prepare-publish ## Pushes the output of `make release` to REGISTRY, signed with KEY; without REGISTRY to GitHub as a draft.
	@$(if $(REGISTRY),images/release/push $(KERF_CACHE)/release $(REGISTRY),images/release/publish $(KERF_CACHE)/release)

packer: prepare-packer ## Builds Packer and its plugin from Go modules, once into the cache.
	@$(RUN) packer "building Packer" "first time: 3 to 6 minutes" $(GO) tests/packer
