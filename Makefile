# The front door. Meson builds; this sets up what it needs and names the usual jobs.
# Written for GNU Make 4.2.

BUILD ?= build
CMD ?= uname -a
PREFIX ?= $(or $(prefix),/usr/local)
DESTDIR ?=
TESTS ?=

.DEFAULT_GOAL := all
MAKEFLAGS += --no-print-directory

help:
	@echo 'make                      build $(BUILD)/mallograph'
	@echo "make run CMD='uname -a'   build, then record a command"
	@echo 'make check                unit and integration tests, lint: what CI runs'
	@echo 'make check TESTS=realloc  only the integration tests of that name'
	@echo 'make check-full           the slow tests too'
	@echo 'make soak                 everything at once for ten minutes (SOAK_SECONDS, SOAK_SEEDS)'
	@echo 'make check-fresh          both commands above in a bare Debian 12 (as root)'
	@echo 'make lint                 format, static analysis, spelling'
	@echo 'make asan, make tsan      the tests with a sanitized tool'
	@echo 'make bench                what recording costs, beside other heap profilers'
	@echo 'make bench ONLY=pair RUNS=9 PEERS=heaptrack'
	@echo '                          a part of it'
	@echo 'make xcheck               every stack of many programs against libunwind (minutes)'
	@echo 'make fuzz                 hostile ledgers for the reader, for SECONDS=60'
	@echo 'make fuzz-all             everything that reads what is hostile, RUNS=10000000 in sum'
	@echo 'make install              PREFIX=/usr/local DESTDIR='
	@echo 'make clean                remove every build directory'

# CI=true makes warnings errors; a user of a newer compiler is not kept out by its.
configure = meson setup $(if $(CI),-Dwerror=true) $(1)

all:
	@tools/setup build
	@test -f $(BUILD)/build.ninja || $(call configure,$(BUILD))
	@ninja -C $(BUILD)

run:
	@$(MAKE) all >&2
	@$(BUILD)/mallograph $(CMD)

# A directory set up before the test packages were there lacks the tests.
configured = $(BUILD)/.tests$(if $(CI),-werror)
tests:
	@tools/setup build test service
	@test -f $(BUILD)/build.ninja || $(call configure,-Dtests=enabled $(BUILD))
	@test -f $(configured) || meson configure $(BUILD) -Dtests=enabled $(if $(CI),-Dwerror=true)
	@touch $(configured)
	@ninja -C $(BUILD)

check: tests
	@tools/setup lint
	@BUILD=$(BUILD) TESTS='$(TESTS)' tools/check

check-full: tests
	@tools/setup full lint
	@BUILD=$(BUILD) TESTS='$(TESTS)' tools/check --full

# Minutes rather than seconds, and other seeds: SOAK_SECONDS=600 SOAK_SEEDS=20 make soak.
soak: tests
	@SOAK_SECONDS=$${SOAK_SECONDS-60} SOAK_SEEDS=$${SOAK_SEEDS-10} BUILD=$(BUILD) \
		TESTS=test_a_long_one tools/check --full

check-fresh:
	@tools/setup fresh
	@tools/check-fresh

lint:
	@tools/setup lint
	@tools/lint

asan:
	@tools/setup build test
	@tools/sanitize address,undefined build-asan

tsan:
	@tools/setup build test
	@tools/sanitize thread build-tsan

bench: tests
	@tools/setup bench
	@tools/setup-memray $(BUILD)
	@python3 bench/compare.py $(BUILD) $(if $(ONLY),--only '$(ONLY)') $(if $(RUNS),--runs $(RUNS)) \
		$(if $(PEERS),--peers '$(PEERS)')

xcheck: tests
	@tools/setup full xcheck
	@BUILD=$(BUILD) tools/xcheck

fuzz:
	@tools/setup fuzz
	@tools/fuzz $(or $(TARGET),ledger_reader) $(or $(SECONDS),60)

fuzz-all:
	@tools/setup fuzz
	@tools/fuzz --all $(or $(RUNS),10000000)

install:
	@tools/setup build
	@BUILD=$(BUILD) tools/install '$(PREFIX)' '$(DESTDIR)'

clean:
	rm -rf $(BUILD) build-asan build-tsan build-fuzz

.PHONY: all run tests check check-full check-fresh soak lint asan tsan bench xcheck fuzz fuzz-all install clean help
