# `make demo` and `make test` each do their own set-up; `make help` lists the rest.

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
# Releases whose servers are built for test-cluster-long.
OLDER := $(notdir $(wildcard tools/controlplane/older/*))
PIP := $(PY) -m pip install --quiet --disable-pip-version-check

# Tests start hundreds of processes: without stored bytecode each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE
# Demo and tests train with the packages of .venv, whatever environment is activated.
unexport VIRTUAL_ENV CONDA_DEFAULT_ENV

.DEFAULT_GOAL := help
.PHONY: help install demo test test-long fuzz mutants durability soak lint bench bench-engine bench-server bench-local bench-cluster conformance deploy image reference cluster-tools test-cluster test-cluster-long test-clients e2e-upstream docs clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(STAMP): requirements.lock pyproject.toml
	@python3 -c 'import sys; sys.exit("Echelon needs Python 3.11 or newer, this is %d.%d" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@test -x $(PY) || python3 -m venv $(VENV)
	@$(PIP) --require-hashes --requirement requirements.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV): requirements-dev.lock $(STAMP)
	@$(PIP) --require-hashes --requirement requirements-dev.lock
	@touch $@

install: $(STAMP) ## Make .venv with exact versions and the echelon command

demo: $(STAMP) ## Three jobs on a simulated GPU cluster, then one that really trains, on this machine
	@$(VENV)/bin/echelon run examples/demo/*.yaml --cluster examples/clusters/demo.yaml --every 10 --speed 5
	@if [ "$$(uname)" = Linux ]; then echo; $(VENV)/bin/echelon run $(addprefix examples/training/numpy/,code.yaml jobset.yaml) --local; fi

lint: $(DEV) ## ruff and mypy strict
	@$(VENV)/bin/ruff check src tests bench tools/image
	@$(VENV)/bin/ruff format --check src tests bench tools/image
	@$(VENV)/bin/mypy

# Tests with processes wait more than they compute, so there are more workers than cores, and the first files are theirs.
test: $(DEV) lint ## Lint and all tests but the long ones and those on a real cluster
	@$(PY) -m pytest -n 4 --dist loadfile --no-loadscope-reorder

test-long: $(DEV) ## The same with more rounds and examples
	@ECHELON_LONG=1 $(PY) -m pytest -n 2 --dist worksteal -m "not cluster and not cluster_long and not clients" -o timeout=7200

cluster-tools: ## Build etcd, kube-apiserver and friends 1.37.1, once, where Go is present
	@tools/controlplane/build

# Each worker has control planes of its own; they wait for leases and other controllers more than they compute.
test-cluster: $(DEV) ## The tests on a real kube-apiserver, where Go is present to build it
	@home=$$(tools/controlplane/build) && if [ -n "$$home" ]; then $(PY) -m pytest -n 2 --dist loadfile -p tests.conformance.report -m cluster tests/cluster $(ARGS); fi

test-cluster-long: $(DEV) ## The same on servers with other gates and of older releases; beside the real Kueue, JobSet, Trainer, Karpenter and descheduler; leaders that are killed and paused for 50 rounds; roles without each of their rights
	@home=$$(tools/controlplane/build) && tools/neighbours/build >/dev/null && if [ -n "$$home" ]; then \
		for release in $(OLDER); do tools/controlplane/build $$release >/dev/null || exit 1; done; \
		$(PY) -m pytest -m cluster_long -rP tests/cluster $(ARGS); fi

test-clients: $(DEV) ## Real clients against a whole plane: fetched or built once; those that cannot be are told
	@$(PY) -m pytest -m clients -rs tests/clients $(ARGS)

e2e-upstream: $(DEV) ## Kubernetes' own end-to-end suite on the embedded plane, where Go is present; ARGS="--area apps"
	@suite=$$(tools/e2e/build) && if [ -n "$$suite" ]; then $(PY) -m tests.upstream $(ARGS); fi

conformance: $(DEV) ## Count covered, passing and missing behaviours of every list
	@$(PY) -m pytest -p tests.conformance.report -m "conformance and not cluster and not cluster_long" $(ARGS)

fuzz: $(DEV) ## Largest objects, odd objects, random requests; PARTS=largest,mutated,grammar,direct,decoders SECONDS_LONG=60 SEED=1
	@$(PY) -m tests.poison

mutants: $(DEV) ## Wrong expressions that tests do not notice; PACKAGE=decide/job MUTANTS=300 (0: all) SEED=1
	@$(PY) -m tests.mutation

deploy: $(DEV) ## Write the Helm chart and the kustomize tree of deploy/
	@$(PY) -m tests.unit.deploy

reference: $(DEV) ## Write the generated pages of docs/reference
	@$(PY) -m tests.integration.api_coverage

durability: $(DEV) ## A plane killed 200 times under 64 writers, 1,000 histories, every byte damaged; ROUNDS=20 SEED=1
	@$(PY) -m tests.durability

soak: $(DEV) ## A hundred seeded cluster lives in virtual time; SEED=n tells the story of one
	@$(PY) -m tests.soak

bench: $(DEV) ## Scheduling through the durable store beside bare writes, and how soon a reason is given
	@$(PY) -m bench $(ARGS)

bench-engine: $(STAMP) ## Placement decisions against their aims and a per-pod greedy loop
	@$(PY) -m bench.engine $(ARGS)

bench-local: $(DEV) ## Pods as processes beside bare processes
	@$(PY) -m bench.local

bench-server: $(DEV) ## The API server beside uvicorn, SQLite and kube-apiserver; ARGS="--pods 320 --runs 1 --row get"
	@$(PY) -m bench.server $(ARGS)

bench-cluster: $(DEV) ## Both schedulers on a real control plane; ARGS="--only echelon --scenario racks --scale 0.2"
	@tools/controlplane/build >/dev/null && $(PY) -m bench.cluster $(ARGS)

docs: $(VENV)-docs/.installed ## The documentation as a site in build/site; broken links are errors
	@NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --strict && echo "build/site/index.html"

$(VENV)-docs/.installed: requirements-docs.lock
	@test -x $(VENV)-docs/bin/python || python3 -m venv $(VENV)-docs
	@$(VENV)-docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-docs.lock
	@touch $@

image: $(STAMP) ## The image as an OCI layout in build/image, from Debian packages and wheels; ARGS="--arch arm64 --archive build/echelon.tar"
	@$(PY) -m tools.image $(ARGS)

clean: ## Remove the virtual environment and caches
	@rm -rf $(VENV) $(VENV)-docs build .pytest_cache .mypy_cache .ruff_cache .hypothesis
