# The verbs of this project. Each only calls programs; what they do is written in those programs.
# Build caches live outside the checkout; nothing depends on what is in them.

export KERF_CACHE ?= $(HOME)/.cache/kerf
export CARGO_TARGET_DIR ?= $(KERF_CACHE)/target
export AWS_EC2_METADATA_DISABLED = true

.PHONY: help demo test e2e amis judges lint soak pace bench fidelity fuzz day pictures peers peers-live bless controlplane agent node nodeparts moto helm images \
	packer release publish packages

help: ## Shows this list.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: controlplane agent helm $(if $(KERF_WITHOUT_SYSTEMD),,nodeparts) ## Tells the whole story on real parts; KEEP=1 leaves it running.
	@tests/steps/run "building the controller and the demo" "5 to 9 minutes cold, seconds when warm" \
		cargo build --workspace --locked
	@KEEP="$(KEEP)" tests/demo/run

# The same code gets the same answer; other cases by PROPTEST_RNG_SEED=N, more by PROPTEST_CASES=N.
test: export PROPTEST_RNG_SEED ?= 1
test: controlplane agent moto helm judges ## Runs every test.
	@tests/steps/run "building and running all tests" "6 to 10 minutes cold, 2 to 4 when warm" \
		cargo test --workspace --locked

e2e: RELEASE = 1
e2e: controlplane agent images packer moto ## Runs the tests that are too slow for `make test`: images by runc, machine images by Packer, a release, a switch of ten minutes, rights by Terraform.
	@tests/steps/run "images, machine images and a release" "2 to 4 minutes, after the build; 10 to 20 for the command when cold" \
		cargo test --workspace --locked --test images --test ami --test release -- --ignored
	@KERF_SWITCH_SECONDS=600 tests/steps/run "a cluster changes hands for ten minutes" "14 minutes, after the build" \
		cargo test --workspace --locked --test switch
	@tests/steps/run "rights by Terraform, where it and KERF_TERRAFORM_PLUGINS are at hand" "2 minutes, after the build" \
		cargo test --workspace --locked --test contract terraform -- --ignored --nocapture

amis: agent packer moto ## Of `make e2e` what the EC2 SDK is not needed for: machine images by Packer, the agent's images by runc.
	@tests/steps/agent arm64
	@tests/steps/run "machine images and the agent's images" "2 minutes, after the build" \
		cargo test --workspace --locked --test images --test ami -- --ignored --skip the_controllers_image

lint: ## Checks format, warnings, each crate alone, licences and sources.
	@tests/steps/lint

soak: ## Launches 2,000 claims under faults of every kind and 20 kills; SEED=N for other luck.
	@KERF_SOAK_CLAIMS=2000 KERF_SOAK_KILLS=20 KERF_SOAK_SEED=$(or $(SEED),1) tests/steps/run "2,000 claims, 20 kills" \
		"2 to 5 minutes, after the build" cargo test --workspace --locked -p lives --test soak -- --nocapture

pace: ## Launches 1,000 claims on the wire at EC2's pace; wants a quiet machine.
	@KERF_PACE_CLAIMS=$(or $(CLAIMS),1000) tests/steps/run "1,000 launches at EC2's pace" \
		"4 to 5 minutes, after the build" cargo test --workspace --locked -p tests --test pace claims_are -- --nocapture

bench: ## Runs the planner's benchmarks.
	cargo bench --locked -p planner --bench provisioning

fidelity: ## Has the real kube-scheduler judge 10,000 random clusters.
	@KERF_FIDELITY_CLUSTERS=10000 tests/steps/run "judging 10,000 clusters" "5 to 10 minutes" \
		cargo test --release --locked -p peers --test referee -- --nocapture

fuzz: ## Fuzzes what the agent reads from outside, each target for SECONDS (600); TARGETS="journal ..." for some of them.
	@tests/steps/fuzz $(or $(SECONDS),600) $(TARGETS)

day: ## Plays a day of 24 hours with 1,000 faults, judged at every step, and puts its cost beside the hourly lower bound; SEED=N for other luck.
	@tests/steps/run "building the comparison" "5 to 10 minutes cold" cargo build --release --locked -p peers --bin peers
	@tests/steps/run "a day with 1,000 faults" "1 to 3 minutes" $(CARGO_TARGET_DIR)/release/peers day $(or $(SEED),1)

pictures: ## Plays the day without faults and draws it into docs/pictures.
	@tests/steps/run "building the comparison" "5 to 10 minutes cold" cargo build --release --locked -p peers --bin peers
	@$(CARGO_TARGET_DIR)/release/peers pictures

peers: controlplane agent ## Puts planner and agent beside their peers and a lower bound; writes docs/performance.md. Wants a quiet machine.
	@tests/steps/run "building the agent's peer" "1 to 3 minutes cold" tests/steps/go-program tests/peers/nth
	@tests/steps/run "building the world" "5 to 9 minutes cold, seconds when warm" cargo build --workspace --locked
	@KERF_AGENT=$(KERF_CACHE)/agent/kerf-agent tests/steps/run "the agent's figures" "5 to 10 minutes" \
		$(CARGO_TARGET_DIR)/debug/agent-numbers
	@tests/steps/run "building the comparison" "5 to 10 minutes cold" cargo build --release --locked -p peers --bin peers
	@$(CARGO_TARGET_DIR)/release/peers

peers-live: controlplane helm ## Puts the controller beside the real Karpenter on the same control plane; wants a quiet machine for an hour; SCENARIOS=wide for one.
	@tests/steps/run "building Karpenter" "1 to 3 minutes cold" tests/steps/go-program tests/peers/live
	@tests/steps/run "building the world" "5 to 9 minutes cold, seconds when warm" cargo build --workspace --locked
	@tests/steps/static controller
	@KERF_CONTROLLER=$(KERF_CACHE)/controller/kerf-controller tests/steps/run "both controllers, scenario by scenario" "an hour" \
		$(CARGO_TARGET_DIR)/debug/live-numbers $(SCENARIOS)
	@tests/steps/run "building the comparison" "5 to 10 minutes cold" cargo build --release --locked -p peers --bin peers
	@$(CARGO_TARGET_DIR)/release/peers live

bless: ## Writes generated files and transcripts anew; review the difference.
	BLESS=1 cargo test --workspace --locked --test generated --test policy --test scenarios --test transcripts --test how_to

controlplane: ## Builds the real Kubernetes control plane once into the cache.
	@tests/steps/go-program tests/controlplane

agent: ## Builds the agent as one static program; ARCH=arm64 for the other architecture.
	@tests/steps/agent $(ARCH)

node: controlplane nodeparts ## Boots a real node: systemd, containerd, runc and kubelet under our own units.
	@tests/steps/run "building the world" "5 to 9 minutes cold, seconds when warm" cargo build --workspace --locked
	@tests/steps/run "a real node from CreateFleet to power off" "2 minutes" \
		cargo test --workspace --locked --test node -- --ignored --nocapture

nodeparts: ## Builds the real containerd and kubelet once into the cache.
	@tests/steps/go-program tests/node/containerd
	@tests/steps/go-program tests/node/kubelet

moto: ## Installs the independent judge of EC2's wire format into the cache.
	@tests/steps/python-programs tests/moto/requirements.txt $(KERF_CACHE)/moto

judges: ## Installs the linters of rights and boards, and builds Prometheus' promtool unless this machine has one.
	@tests/steps/python-programs tests/judges/requirements.txt $(KERF_CACHE)/judges
	@command -v promtool >/dev/null || GOFLAGS=-tags=remove_all_sd tests/steps/go-program tests/promtool >/dev/null

helm: ## Builds Helm 3 and Helm 4, which render the chart, once into the cache.
	@tests/steps/go-program tests/helm/helm3
	@tests/steps/go-program tests/helm/helm4

images: ## Builds container images with their bills of materials; RELEASE=1 the controller's for arm64 too.
	@images/all $(if $(RELEASE),arm64)

release: ## Makes everything that a release hands out, with sums; PARTS="charts agent cli images" for some of it (docs/release.md).
	@images/release/build $(KERF_CACHE)/release $(PARTS)

publish: ## Uploads what `make release` made to the forge, as a draft, by gh.
	@images/release/publish $(KERF_CACHE)/release

packages: ## Installs the Debian packages that the verbs need; FOR=release or FOR=e2e those of images, releases and `make e2e` too.
	@tests/steps/packages $(FOR)

packer: ## Builds Packer and its plugin from Go modules, once into the cache.
	@tests/steps/go-program tests/packer
