# tidelock: everything is found by wildcard, so a new file needs no edit here.
#
#   make                       libraries and tool in build/
#   make demo | check | lint   install what they need (tools/need.sh), then run
#   make check ONLY="unit conform/test_x"    some of the tests
#   make check ALL=1           all of it: make check takes a sample of what plays many worlds, and leaves out what says so
#   make check-all             and each guard that is removed, and tests under sanitizers; LONG=1 takes hours
#   make check-flaky RUNS=20 LOAD=8   run tests again and again, beside busy processes: which fail now and then (ONLY=)
#   make mutations             remove each guard, one at a time, and show which test misses it (SEARCH=1 GUARDS="names")
#   make lint DEEP=1           the house rules; with DEEP=1 the analyzer follows all paths that it can, and all tests are looked at
#   make sim | model | fuzz    simulator (RUNS= SEED=), models (MODELS='^phase'), fuzzers (FUZZ_SECONDS=)
#   make check REDIS_SERVER=PATH   conform, chaos and legacy on another server (or what ONLY names)
#   make check CLUSTER_SERVER=PATH   slots that move at one moment, on a Valkey 9.0 or Redis 8.4 (or what ONLY names)
#   make check ETCD=PATH       what starts an etcd on another one (or what ONLY names)
#   make check-servers         the same on what this and the next Debian offer (SERVERS="further ones" ETCDS= ONLY=)
#   make soak                  fleets of servers under mixed faults (SOAK_SECONDS=3600 SEED= SOAK="sentinel")
#   make interop               locks shared with other languages' clients (PEERS="redsync node")
#   make bench                 ratios beside plain hiredis (BENCH="pairs threads" REGIME="one delay" ROUNDS=5)
#   make bench-readme          print tests/bench/RESULTS.md and the pictures beside it from the last bench and bench-peers
#   make bench-peers           the waiting beside other libraries' locks (PEERS="redislock java" REGIME= ROUNDS=)
#   make java                  the class for Java services that follow a migration: build/tidelock-java.jar
#   make demo-svg              play the demo and draw tools/docs/demo.svg from it, where more than figures has changed
#   make docs                  all pages as a static HTML site in build/docs, with a search
#   make format                lay the sources out as lint wants them
#   make abi | abi-record      compare what programs rely on with tests/lint/abi.txt; write what is new into it
#   make install | uninstall   PREFIX=/usr/local DESTDIR=
#   make deb                   Debian packages in build/deb
#   make check-packages        build, install, use and purge them in chroots of Debian (SUITES="bookworm trixie")
#   make check-platforms       unit and wire on other processors, C libraries and compilers (PLATFORMS="trixie-s390x musl")
#   make release KEY=          the source archive, an SBOM and signed checksums, in build/release
#
# Knobs: V=1 (show commands)  CC=clang  SAN=address,undefined|thread  COMPAT=0  TLS=0  JSON=0  HTTP2=0  CFLAGS  LDFLAGS
#        WERROR=1 (a warning is an error, as in a clone)
#        VALGRIND=1 (run the C tests in it)  JOBS=n (how much at once)
#        NATIVE=build/tidelock (a command that runs here, for pages and completion when CC is for another processor)
#        PKG_CONFIG= (which finds the libraries of that processor)
# Every combination of CC, SAN, COMPAT, TLS, JSON and HTTP2 has a directory of its own below build/.

CFLAGS   ?= -O2 -g
# A later compiler may warn of what is right: that stops those who change the sources, not those who build a release.
WERROR   ?= $(if $(wildcard .git),1)
PREFIX   ?= /usr/local
LIBDIR   ?= $(PREFIX)/lib
BINDIR   ?= $(PREFIX)/bin
MANDIR   ?= $(PREFIX)/share/man
DOCDIR   ?= $(PREFIX)/share/doc/tidelock
JAVADIR  ?= $(PREFIX)/share/java
UNITDIR  ?= $(PREFIX)/lib/systemd/system
BASHCOMP ?= $(PREFIX)/share/bash-completion/completions
# Where zsh looks: vendor's are Debian's, of packages, and below /usr alone.
ZSHCOMP  ?= $(PREFIX)/share/zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)
FISHCOMP ?= $(PREFIX)/share/fish/vendor_completions.d
# Thrice the processors: beside other work, few jobs would get a small share of them.
JOBS     ?= $(shell expr 3 \* $$(nproc))
FUZZ_SECONDS ?= 60

Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),@:,@printf '  %-5s %s\n' $(1))
comma := ,
space := $(subst ,, )
OBJCOPY ?= objcopy
PKG_CONFIG ?= pkg-config

# ---- what to build ------------------------------------------------------------------------
COMPAT_ON := $(if $(filter 0,$(COMPAT)),,$(wildcard compat))
VARIANT   := $(strip $(filter-out cc gcc,$(notdir $(CC))) $(if $(SAN),san-$(SAN)) $(if $(filter 0,$(COMPAT)),nocompat) $(if $(filter 0,$(TLS)),notls) $(if $(filter 0,$(JSON)),nojson) $(if $(filter 0,$(HTTP2)),nohttp2))
BUILD     := $(subst $(space),-,build$(if $(VARIANT),/$(VARIANT)))
GEN       := $(BUILD)/gen

sources   = $(sort $(shell find $(1) -name '*.c' -not -path '*/examples/*'))
LIB_SRC  := $(call sources,src $(if $(COMPAT_ON),compat))
# Whoever migrates no more deletes compat/: then what stands in these rooms of the tool is built no more, either.
LEGACY_ROOMS := tools/legacy tools/migrate
LEGACY_MAN := $(LEGACY_ROOMS:tools/%=tools/man/tidelock-%.1.scd)
TOOL_SRC := $(if $(COMPAT_ON),$(call sources,tools),$(filter-out $(LEGACY_ROOMS:%=%/%),$(call sources,tools)))
# An archive knows its members without their folders: two of one name would replace each other.
twice     = $(strip $(foreach n,$(sort $(notdir $(1))),$(if $(word 2,$(filter %/$(n),$(1))),$(n))))
$(foreach l,LIB_SRC TOOL_SRC,$(if $(call twice,$($(l))),$(error two sources have the same name: $(call twice,$($(l))))))
TLIB_SRC := $(wildcard tests/lib/*.c)
SIM_SRC  := $(filter-out tests/sim/test_%,$(wildcard tests/sim/*.c))
BENCH_SRC := $(wildcard tests/bench/*.c)
SOAK_SRC := $(if $(SOAK),$(foreach s,$(SOAK),$(wildcard tests/soak/soak_$(s).c)),$(wildcard tests/soak/soak_*.c))
LEGACY_SRC := $(filter-out tests/legacy/test_%,$(wildcard tests/legacy/*.c))
TEST_SRC := $(wildcard tests/*/test_*.c)
FUZZ_SRC := $(if $(wildcard tests/fuzz/replay.c),$(wildcard tests/fuzz/fuzz_*.c))
TESTS    := $(TEST_SRC) $(FUZZ_SRC) $(wildcard tests/*/test_*.sh)
# Tests of compat alone are called test_compat_* and fuzz_compat_*; the others ask TL_COMPAT (shell: $$COMPAT).
no_compat = $(foreach t,$(1),$(if $(findstring /test_compat_,$(t))$(findstring /fuzz_compat_,$(t)),,$(t)))
TESTS    := $(if $(COMPAT_ON),$(TESTS),$(call no_compat,$(TESTS)))
FUZZ_SRC := $(if $(COMPAT_ON),$(FUZZ_SRC),$(call no_compat,$(FUZZ_SRC)))
# Another server: what starts one, and of the command what is of locks alone.
OTHER_ONLY := conform chaos legacy cli/test_lock_cmds cli/test_line cli/test_nested cli/test_break
ETCD_ONLY := conform/test_etcd conform/test_fake_etcd chaos/test_etcd cli/test_etcd cli/test_local_demo cli/test_bench cli/test_examples
ASKED_ONLY := $(ONLY)
override ONLY := $(or $(ONLY),$(if $(REDIS_SERVER)$(filter check-servers-run,$(MAKECMDGOALS)),$(OTHER_ONLY)),$(if $(ETCD),$(ETCD_ONLY)),$(if $(CLUSTER_SERVER),chaos/test_atomic_slots))
# What starts no such server shows nothing of it, and doesn't count.
of_etcd   = $(foreach t,$(1),$(if $(findstring /test_etcd,$(t))$(findstring /test_fake_etcd,$(t)),$(t)))
TESTS    := $(if $(and $(REDIS_SERVER),$(if $(ETCD),,1)),$(filter-out $(call of_etcd,$(TESTS)),$(TESTS)),$(TESTS))
# What says "Only in make check-all" in its first comment is run by that, or where ONLY names it.
LATER    := $(shell grep -lm1 'Only in make check-all' $(wildcard tests/*/test_*.c tests/*/test_*.sh))
TESTS    := $(if $(ONLY)$(filter 1,$(ALL)),$(TESTS),$(filter-out $(LATER),$(TESTS)))
TESTS    := $(if $(ONLY),$(foreach o,$(ONLY),$(filter tests/$(o)%,$(TESTS))),$(TESTS))
PROGS    := $(patsubst %.c,$(BUILD)/%,$(filter %.c,$(TESTS)))
LUA_WITH := $(sort $(wildcard src/wire/scripts/with/*.lua))
LUA      := $(sort $(wildcard src/wire/scripts/*.lua)) $(if $(COMPAT_ON),$(sort $(wildcard compat/scripts/*.lua)))
HEADERS  := $(wildcard include/tidelock/*.h include/tidelock/*.hpp compat/distribute_lock_util.h)
HEADERS  := $(if $(COMPAT_ON),$(HEADERS),$(filter-out %/legacy.h compat/%,$(HEADERS)))
VERSION  := $(shell sed -n 's/^.define TL_VERSION  *"\(.*\)".*/\1/p' include/tidelock/tidelock.h)
# Its number is not the version's: it rises when programs that were built with the last release would not run.
SONAME   := libtidelock.so.0
SCDOC    := $(shell command -v scdoc)
MAN      := $(if $(SCDOC),$(patsubst tools/man/%.scd,$(BUILD)/man/%,$(filter-out $(if $(COMPAT_ON),,$(LEGACY_MAN)),$(wildcard tools/man/*.scd))))
EXAMPLES := $(wildcard tools/examples/*.c tools/examples/*.cpp) $(if $(COMPAT_ON),$(wildcard compat/examples/*.c))
JAVA_SRC := $(if $(COMPAT_ON),$(sort $(wildcard compat/java/io/tidelock/*.java)))
JAVA_LUA := acquire join renew release phase
JAR      := $(if $(JAVA_SRC),$(if $(shell command -v javac),$(BUILD)/tidelock-java.jar))
COMPLETION := $(patsubst %,$(BUILD)/completion/tidelock.%,bash zsh fish)
MAN3     := $(BUILD)/man3/tidelock.3
obj       = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))

# ---- what the machine has -----------------------------------------------------------------
# One run of the preprocessor says which headers are there; no output at all means no compiler.
# pkg-config helps with unusual places; hiredis 0.14 is also found without it.
PKG    := $(shell for p in hiredis uuid jansson openssl libnghttp2 lua5.1; do $(PKG_CONFIG) --exists $$p 2>/dev/null && echo $$p; done)
pc      = $(if $(filter $(2),$(PKG)),$(shell $(PKG_CONFIG) $(1) $(2)),$(3))
HI_DIR := $(filter-out /usr/include,$(patsubst %/hiredis,%,$(call pc,--variable=includedir,hiredis)))
DEP_CPPFLAGS := $(HI_DIR:%=-isystem %)
JSON_CPPFLAGS := $(filter-out -I/usr/include,$(call pc,--cflags,jansson))
HTTP2_CPPFLAGS := $(filter-out -I/usr/include,$(call pc,--cflags,libnghttp2))
LUA_CPPFLAGS := $(call pc,--cflags,lua5.1,-I/usr/include/lua5.1)
have    = \#if __has_include(<$(1)>)\n$(2)\n\#endif\n
HAS    := $(shell printf 'cc\n$(call have,hiredis/hiredis.h,hiredis)$(call have,uuid/uuid.h,uuid)$(call \
            have,jansson.h,jansson)$(call have,openssl/ssl.h,ssl)$(call have,nghttp2/nghttp2.h,nghttp2)' | \
            $(CC) $(CPPFLAGS) $(DEP_CPPFLAGS) $(JSON_CPPFLAGS) $(HTTP2_CPPFLAGS) -E -P -x c - 2>/dev/null)
# Each step of a machine clears and copies structs of some hundred bytes. gcc for x86 does that by string instructions,
# which take longer to start than to work.
BY_LOOP := vector_loop:1024:noalign$(comma)libcall:-1:noalign
CC_OPT := $(shell for o in -fstack-clash-protection -fno-semantic-interposition -Wno-format-truncation -Wno-psabi \
            -mmemset-strategy=$(BY_LOOP) -mmemcpy-strategy=$(BY_LOOP); do \
            $(CC) -Werror $$o -S -o /dev/null -x c /dev/null 2>/dev/null && echo $$o; done)
# What the libraries of the system are built with: 64 where the compiler defines that by itself.
SYSTEM_TIME := $(shell echo _TIME_BITS | $(CC) -E -P - 2>/dev/null)
HAVE_TLS := $(if $(filter 0,$(TLS)),,$(filter ssl,$(HAS)))
HAVE_JSON := $(if $(filter 0,$(JSON)),,$(filter jansson,$(HAS)))
HAVE_HTTP2 := $(if $(HAVE_JSON),$(if $(filter 0,$(HTTP2)),,$(filter nghttp2,$(HAS))))

DEP_LIBS  = $(call pc,--libs,hiredis,-lhiredis) $(if $(HAVE_TLS),$(call pc,--libs,openssl,-lssl -lcrypto)) \
            $(if $(HAVE_JSON),$(call pc,--libs,jansson,-ljansson)) $(if $(HAVE_HTTP2),$(call pc,--libs,libnghttp2,-lnghttp2)) \
            $(call pc,--libs,uuid,-luuid) -pthread -ldl -lm
# What a program needs that links the archive: also what the archives of these libraries need in turn.
REQUIRES  = $(filter hiredis uuid $(if $(HAVE_TLS),openssl) $(if $(HAVE_JSON),jansson) $(if $(HAVE_HTTP2),libnghttp2),$(PKG))
STATIC_LIBS = $(strip $(if $(REQUIRES),$(shell $(PKG_CONFIG) --static --libs $(REQUIRES))) \
              $(filter-out $(if $(REQUIRES),$(shell $(PKG_CONFIG) --libs $(REQUIRES))),$(DEP_LIBS)))
TOOL_LIBS = $(call pc,--libs,jansson,-ljansson)
TEST_LIBS = $(TOOL_LIBS) -lcmocka $(call pc,--libs,lua5.1,-llua5.1)

ALL_CFLAGS := -std=c11 -Wall -Wextra -Wpedantic -Wno-overlength-strings $(if $(filter 1,$(WERROR)),-Werror) $(CFLAGS) -fPIC -pthread \
    -fstack-protector-strong $(CC_OPT) $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
ALL_CPPFLAGS := -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64 $(if $(filter 64,$(SYSTEM_TIME)),-DTL_SYSTEM_TIME_64) $(if $(COMPAT_ON),-DTL_COMPAT=1) $(if $(HAVE_TLS),-DTL_HAVE_TLS=1) $(if $(HAVE_JSON),-DTL_HAVE_JSON=1) $(if $(HAVE_HTTP2),-DTL_HAVE_HTTP2=1) \
    $(if $(SAN)$(filter -O0,$(CFLAGS))$(findstring _FORTIFY_SOURCE,$(CFLAGS) $(CPPFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2) $(CPPFLAGS) \
    -Iinclude -iquote src -iquote $(GEN) $(DEP_CPPFLAGS)
WIDE_CPPFLAGS := $(if $(COMPAT_ON),-iquote compat) -iquote tools -iquote tests/lib -iquote tests/sim $(LUA_CPPFLAGS) $(JSON_CPPFLAGS)
ALL_LDFLAGS := $(LDFLAGS) $(if $(SAN),-fsanitize=$(SAN)) -Wl,-z,relro,-z,now

# ---- goals --------------------------------------------------------------------------------
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:
.PHONY: all lib tool man progs check check-run check-all check-flaky check-flaky-run mutations mutations-run check-servers check-servers-run lint lint-run demo demo-run demo-svg demo-svg-run sim sim-run model model-run \
        fuzz fuzz-run soak soak-run interop interop-run bench bench-run bench-peers bench-peers-run bench-readme abi abi-run abi-record abi-record-run docs docs-run \
        format java install uninstall deb deb-run check-packages check-platforms release clean FORCE

all: lib tool man $(if $(TOOL_SRC),$(COMPLETION))
# With all that install copies: root, who installs, shall make no file here that only root can remove.
lib: $(BUILD)/libtidelock.a $(BUILD)/libtidelock.so $(BUILD)/install/libtidelock.a
tool: $(if $(TOOL_SRC),$(BUILD)/tidelock)
man: $(MAN) $(MAN3)
progs: $(PROGS)

# These install first, and then start over, so that what was installed is found.
AGAIN = +$(Q)$(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(JOBS))
NEED  = @CC='$(notdir $(CC))' SAN=$(SAN) tools/need.sh
check: ; $(NEED) check $(if $(filter 1,$(VALGRIND)),valgrind)
	$(AGAIN) check-run
check-all: ; @LONG='$(LONG)' tests/all.sh
check-flaky: ; $(NEED) check
	$(AGAIN) check-flaky-run
check-servers: ; $(NEED) check
	$(AGAIN) check-servers-run
demo: ; $(NEED) demo
	$(NEED) --try etcd
	$(NEED) --try pages
	$(AGAIN) demo-run
demo-svg: ; $(NEED) demo etcd
	$(AGAIN) demo-svg-run
lint: ; $(NEED) build lint
	$(AGAIN) lint-run
docs: ; $(NEED) docs
	$(AGAIN) docs-run
bench: ; $(NEED) check
	$(AGAIN) bench-run
bench-peers: ; $(NEED) check
	$(AGAIN) bench-peers-run
mutations: ; $(NEED) check
	$(AGAIN) mutations-run
sim: ; $(NEED) check
	$(AGAIN) sim-run
model: ; $(NEED) model
	$(AGAIN) model-run
fuzz: ; @CC=clang SAN=fuzzer tools/need.sh check
	$(AGAIN) CC=clang SAN=fuzzer,address,undefined fuzz-run
soak: ; $(NEED) check
	$(AGAIN) soak-run
interop: ; $(NEED) demo
	$(NEED) --try etcd
	$(AGAIN) interop-run
deb: ; $(NEED) deb
	$(AGAIN) deb-run
check-packages:
	@tools/need.sh packages
	@SUITES='$(SUITES)' tests/packages/run.sh
check-platforms:
	@tools/need.sh packages
	@tools/need.sh --try platforms
	@PLATFORMS='$(PLATFORMS)' tests/packages/platforms.sh
release:
	@tools/need.sh release
	@KEY='$(KEY)' CHECK='$(CHECK)' tools/packaging/release.sh
abi: ; $(NEED) build
	$(AGAIN) abi-run
abi-record: ; $(NEED) build
	$(AGAIN) abi-record-run

# A plain build never installs; it names what is missing in one line. The library alone needs no JSON.
NEEDED := cc hiredis uuid $(if $(filter-out lib $(BUILD)/lib%,$(or $(MAKECMDGOALS),all)),jansson)
ifneq ($(filter-out check check-all check-flaky check-servers demo demo-svg lint lint-run mutations sim model model-run fuzz soak interop bench bench-peers bench-readme abi abi-record format uninstall deb check-packages check-platforms release clean,$(or $(MAKECMDGOALS),all)),)
ifneq ($(filter-out $(HAS),$(NEEDED)),)
$(error $(or $(shell CC='$(notdir $(CC))' tools/need.sh -n build 2>&1),tidelock: the compiler '$(CC)' does not work here))
endif
endif

# ---- objects ------------------------------------------------------------------------------
# flags holds the command line, list the files: changing either rebuilds what depends on it.
FLAGS := $(CC) $(ALL_CFLAGS) $(ALL_CPPFLAGS) $(WIDE_CPPFLAGS) $(ALL_LDFLAGS) $(HAS)
LIST  := $(HEADERS) $(EXAMPLES) $(LIB_SRC) $(TOOL_SRC) $(TLIB_SRC) $(SIM_SRC) $(BENCH_SRC) $(LEGACY_SRC) $(LUA)
stamp  = @mkdir -p $(@D); echo '$(1)' | cmp -s - $@ || echo '$(1)' >$@
$(BUILD)/flags: FORCE ; $(call stamp,$(FLAGS))
$(BUILD)/list: FORCE ; $(call stamp,$(LIST))

$(BUILD)/obj/src/%.o: WIDE_CPPFLAGS =
$(BUILD)/obj/src/transport/gateway.o: WIDE_CPPFLAGS = $(JSON_CPPFLAGS)
$(BUILD)/obj/src/transport/grpc.o: WIDE_CPPFLAGS = $(HTTP2_CPPFLAGS)
$(BUILD)/obj/tools/%.o: WIDE_CPPFLAGS = -iquote tools $(if $(COMPAT_ON),-iquote compat) $(JSON_CPPFLAGS)
$(BUILD)/obj/compat/%.o: WIDE_CPPFLAGS = -iquote compat
# A test itself is compiled in a third of the time without optimising: what it calls is optimised.
$(call obj,$(filter %.c,$(TESTS))): OPT := -O0 -U_FORTIFY_SOURCE
$(BUILD)/obj/%.o: %.c $(BUILD)/flags | $(GEN)/scripts.inc
	$(call say,CC $<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_CPPFLAGS) $(WIDE_CPPFLAGS) $(OPT) -MMD -MP -c $< -o $@
-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

# A row for each Lua script, and for each guard in one: src/wire/scripts/rows.sh says how.
$(GEN)/scripts.inc: WITHOUT =
$(GEN)/scripts_without.inc: WITHOUT = --without
$(GEN)/scripts.inc $(GEN)/scripts_without.inc: src/wire/scripts/rows.sh $(LUA) $(LUA_WITH) $(BUILD)/list
	$(call say,GEN $@)
	@mkdir -p $(@D)
	$(Q)$< $(WITHOUT) $(@D) $(LUA) >$@.tmp && mv $@.tmp $@

$(BUILD)/libtidelock.a: $(call obj,$(LIB_SRC)) $(BUILD)/list
$(BUILD)/tests/lib.a: $(call obj,$(TLIB_SRC)) $(BUILD)/list
$(BUILD)/tests/sim.a: $(call obj,$(filter-out tests/sim/main.c,$(SIM_SRC))) $(BUILD)/list
$(BUILD)/tests/legacy.a: $(call obj,$(LEGACY_SRC)) $(BUILD)/list
$(BUILD)/tests/tools.a: $(call obj,$(filter-out tools/main.c,$(TOOL_SRC))) $(BUILD)/list
%.a:
	$(call say,AR $@)
	@mkdir -p $(@D)
	$(Q)rm -f $@.$$$$ && $(AR) rcs $@.$$$$ $(filter %.o,$^) && mv $@.$$$$ $@ # two tests may want it at once

$(BUILD)/$(SONAME): $(call obj,$(LIB_SRC)) src/tidelock.map $(BUILD)/list
	$(call say,LD $@)
	$(if $(filter jansson,$(HAS))$(filter 0,$(JSON)),,@echo 'tidelock: without etcd (etcd://): jansson is missing (Debian: libjansson-dev)' >&2)
	$(if $(filter nghttp2,$(HAS))$(filter 0,$(HTTP2)),,$(if $(HAVE_JSON),@echo 'tidelock: without gRPC (etcd:// by JSON alone): libnghttp2 is missing (Debian: libnghttp2-dev)' >&2))
	$(if $(filter ssl,$(HAS))$(filter 0,$(TLS)),,@echo 'tidelock: without TLS (rediss://): OpenSSL is missing (Debian: libssl-dev)' >&2)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -shared -Wl,-soname,$(SONAME) -Wl,-z,nodelete -Wl,--version-script=src/tidelock.map \
	    $(if $(SAN),,-Wl$(comma)-z$(comma)defs) $(filter %.o,$^) $(DEP_LIBS) -o $@
$(BUILD)/libtidelock.so: $(BUILD)/$(SONAME)
	$(Q)ln -sf $(SONAME) $@

# The archive that is installed shows the same names as the shared library: it has one object, whose other names are local.
# gcc makes machine code of it also with -flto; with clang and -flto it stays as it is. Two tests may want it at once.
NO_LTO := $(shell $(CC) -flinker-output=nolto-rel -S -o /dev/null -x c /dev/null 2>/dev/null && echo -flinker-output=nolto-rel)
$(BUILD)/install/libtidelock.a: $(BUILD)/libtidelock.a
	$(call say,AR $@)
	@mkdir -p $(@D)
	$(Q)at=$@.$$$$ && mkdir $$at && \
	if [ -n "$(SAN)$(if $(NO_LTO),,$(findstring -flto,$(CFLAGS)))" ]; then cp $< $$at/; else \
	$(CC) $(filter -flto%,$(CFLAGS)) -fPIC -r $(NO_LTO) -nostdlib -Wl,--force-group-allocation,--whole-archive $< -o $$at/tidelock.o && \
	$(OBJCOPY) --wildcard --keep-global-symbol='!tl_*.*' --keep-global-symbol='tl_[a-z]*' $$at/tidelock.o && $(AR) rcs $$at/$(@F) $$at/tidelock.o; fi && \
	mv $$at/$(@F) $@ && rm -r $$at

link = $(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -pie $(filter %.o %.a,$^) $(1) $(DEP_LIBS) -o $@
$(BUILD)/tidelock: $(call obj,$(TOOL_SRC)) $(BUILD)/libtidelock.a $(BUILD)/list
	$(call say,LD $@)
	$(call link,$(TOOL_LIBS))

# Tests, and the simulator, have the machines with what these count on asserted (src/ground/assert.h).
ASSERTING := $(filter src/protocol/% compat/auto/% compat/phase/% compat/stamp/%,$(LIB_SRC))
aobj       = $(patsubst %.c,$(BUILD)/asserting/%.o,$(1))
$(BUILD)/asserting/%.o: %.c $(BUILD)/flags | $(GEN)/scripts.inc
	$(call say,ASSERT $<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_CPPFLAGS) $(WIDE_CPPFLAGS) -DTL_ASSERTS -MMD -MP -c $< -o $@
-include $(shell find $(BUILD)/asserting -name '*.d' 2>/dev/null)
$(BUILD)/tests/libtidelock.a: $(call obj,$(filter-out $(ASSERTING),$(LIB_SRC))) $(call aobj,$(ASSERTING)) $(BUILD)/list
TEST_LIB := $(BUILD)/tests/lib.a $(BUILD)/tests/tools.a $(BUILD)/tests/libtidelock.a
$(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(TEST_LIB)
	$(call say,LD $@)
	@mkdir -p $(@D)
	$(call link,$(TEST_LIBS))
# Preloaded into a real server, whatever the tests themselves are built with.
$(BUILD)/tests/chaos/fast_clock.so: tests/chaos/fast_clock.c
	$(call say,LD $@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -fPIC -shared $< -o $@
$(BUILD)/tests/chaos/test_slewed: $(BUILD)/tests/chaos/fast_clock.so
# The simulator is given these calls first (tests/sim/observe.c, tool.c), and defines the seams of the library anew.
OBSERVED := $(shell sed -n 's/^[a-z].*[ *]__wrap_\([a-z_]*\)..*;$$/-Wl,--wrap=\1/p' $(wildcard tests/sim/*.c) /dev/null | sort -u)
$(BUILD)/tests/sim/test_%: $(BUILD)/obj/tests/sim/test_%.o $(call obj,$(filter-out tests/sim/main.c,$(SIM_SRC))) $(TEST_LIB)
	$(call say,LD $@)
	@mkdir -p $(@D)
	$(call link,$(OBSERVED) $(TEST_LIBS))
# Worlds in which the command's files run: of few slots, with what they ask of servers and of the system defined anew.
FEW       := -include tests/worlds/few_slots.h
WORLD_OBJ := $(call obj,$(filter-out tests/worlds/test_%,$(wildcard tests/worlds/*.c)) tests/lib/fiber.c)
FEW_SRC   := $(filter tools/migrate/% tools/doctor/cluster_survey.c,$(TOOL_SRC))
$(BUILD)/tests/worlds.a: $(WORLD_OBJ) $(FEW_SRC:%.c=$(BUILD)/few/%.o) $(BUILD)/list
$(BUILD)/obj/tests/worlds/%.o: WIDE_CPPFLAGS += $(FEW)
$(BUILD)/few/%.o: %.c $(BUILD)/flags | $(GEN)/scripts.inc
	$(call say,FEW $<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_CPPFLAGS) $(WIDE_CPPFLAGS) $(FEW) -MMD -MP -c $< -o $@
-include $(shell find $(BUILD)/few -name '*.d' 2>/dev/null)
SEAMS := $(shell sed -n 's|^[a-z].*[ *]__wrap_\([a-z_]*\)[^a-z_].*|-Wl,--wrap=\1|p' $(wildcard tests/worlds/*.c) /dev/null | sort -u)
$(BUILD)/tests/worlds/test_%: $(BUILD)/obj/tests/worlds/test_%.o $(BUILD)/tests/worlds.a $(TEST_LIB)
	$(call say,LD $@)
	@mkdir -p $(@D)
	$(call link,$(SEAMS) $(TEST_LIBS))
$(BUILD)/tests/legacy/test_%: $(BUILD)/obj/tests/legacy/test_%.o $(BUILD)/tests/legacy.a $(TEST_LIB)
	$(call say,LD $@)
	@mkdir -p $(@D)
	$(call link,$(TEST_LIBS))
# With -fsanitize=fuzzer the runtime brings main(), with FUZZER= that library; otherwise replay.c does, which must be named
# somewhere else too, else the rule above is preferred as long as its object isn't there yet.
$(BUILD)/obj/tests/fuzz/replay.o: tests/fuzz/replay.c
$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/obj/tests/fuzz/fuzz_%.o $(if $(FUZZER)$(findstring fuzzer,$(SAN)),,$(BUILD)/obj/tests/fuzz/replay.o) $(TEST_LIB)
	$(call say,LD $@)
	@mkdir -p $(@D)
	$(call link,$(FUZZER) $(TEST_LIBS))
# The same with guards that TL_WITHOUT removes (src/ground/guard.h): for tests/guards.sh alone.
GUARDED := $(BUILD)/guarded
gobj     = $(patsubst %.c,$(GUARDED)/obj/%.o,$(1))
$(GUARDED)/obj/%.o: %.c $(BUILD)/flags | $(GEN)/scripts.inc $(GEN)/scripts_without.inc
	$(call say,GUARD $<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -O1 -g0 $(ALL_CPPFLAGS) $(WIDE_CPPFLAGS) -DTL_GUARDS -DTL_ASSERTS -MMD -MP -c $< -o $@
-include $(shell find $(GUARDED)/obj -name '*.d' 2>/dev/null)
$(GUARDED)/libtidelock.a: $(call gobj,$(LIB_SRC)) $(BUILD)/list
$(GUARDED)/tools.a: $(call gobj,$(filter-out tools/main.c,$(TOOL_SRC))) $(BUILD)/list
GUARDED_LIB := $(BUILD)/tests/lib.a $(GUARDED)/tools.a $(GUARDED)/libtidelock.a
$(GUARDED)/sim: $(call gobj,$(SIM_SRC)) $(GUARDED_LIB)
	$(call say,LD $@)
	$(call link,$(OBSERVED) $(TEST_LIBS))
# A few of its files with guards, for a sample.
$(GUARDED)/sample/list: FORCE ; $(call stamp,$(GUARDED_SRC))
$(GUARDED)/sample/tests/%: $(BUILD)/obj/tests/%.o $(call gobj,$(GUARDED_SRC)) $(TEST_LIB) $(GUARDED)/sample/list
	$(call say,LD $@)
	@mkdir -p $(@D)
	$(call link,$(TEST_LIBS))
$(GUARDED)/tests/sim/test_%: $(BUILD)/obj/tests/sim/test_%.o $(call gobj,$(filter-out tests/sim/main.c,$(SIM_SRC))) $(GUARDED_LIB)
	$(call say,LD $@)
	@mkdir -p $(@D)
	$(call link,$(OBSERVED) $(TEST_LIBS))
$(GUARDED)/few/%.o: %.c $(BUILD)/flags | $(GEN)/scripts.inc $(GEN)/scripts_without.inc
	$(call say,FEW $<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -O1 -g0 $(ALL_CPPFLAGS) $(WIDE_CPPFLAGS) $(FEW) -DTL_GUARDS -DTL_ASSERTS -MMD -MP -c $< -o $@
-include $(shell find $(GUARDED)/few -name '*.d' 2>/dev/null)
$(GUARDED)/worlds.a: $(WORLD_OBJ) $(FEW_SRC:%.c=$(GUARDED)/few/%.o) $(BUILD)/list
$(GUARDED)/tests/worlds/test_%: $(BUILD)/obj/tests/worlds/test_%.o $(GUARDED)/worlds.a $(GUARDED_LIB)
	$(call say,LD $@)
	@mkdir -p $(@D)
	$(call link,$(SEAMS) $(TEST_LIBS))
$(GUARDED)/tests/legacy/test_%: $(BUILD)/obj/tests/legacy/test_%.o $(BUILD)/tests/legacy.a $(GUARDED_LIB)
	$(call say,LD $@)
	@mkdir -p $(@D)
	$(call link,$(TEST_LIBS))
$(GUARDED)/tests/%: $(BUILD)/obj/tests/%.o $(GUARDED_LIB)
	$(call say,LD $@)
	@mkdir -p $(@D)
	$(call link,$(TEST_LIBS))
$(BUILD)/examples/%: tools/examples/%.c $(BUILD)/libtidelock.a
	$(call say,LD $@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -Iinclude $^ $(DEP_LIBS) -o $@
$(BUILD)/bench: $(call obj,$(BENCH_SRC)) $(TEST_LIB:$(BUILD)/tests/libtidelock.a=$(BUILD)/libtidelock.a)
	$(call say,LD $@)
	$(call link,$(TEST_LIBS))
$(BUILD)/sim: $(call obj,$(SIM_SRC)) $(TEST_LIB)
	$(call say,LD $@)
	$(call link,$(OBSERVED) $(TEST_LIBS))

# Tables of options, exit statuses and JSON are the tool's own. A page with tables says in its first line that it needs
# tbl, which scdoc does not write there. man shows it as one long sheet (cR), but groff still lets a sheet end within a table.
# So each table first asks for room, in which all of its rows fit.
$(BUILD)/tables: $(BUILD)/tidelock
	$(Q)$(or $(NATIVE),$<) help tables >$@.tmp && mv $@.tmp $@
$(BUILD)/man/%: tools/man/%.scd tools/man/tables.awk $(BUILD)/tables
	$(call say,MAN $@)
	@mkdir -p $(@D)
	$(Q)awk -v compat=$(if $(COMPAT_ON),1,0) -f tools/man/tables.awk $(BUILD)/tables $< >$@.scd && $(SCDOC) <$@.scd >$@.tmp && rm $@.scd
	$(Q)if grep -q '^\.TS' $@.tmp; then sed -i -e "1s/^[^']/'\\\\\" t\n&/" -e 's/^\.TS/.if \\n[cR] .ne 999v\n&/' $@.tmp; fi && mv $@.tmp $@

# Of the library, from the comments of its headers: a page for each function and type, all by one run. Its date is
# that of the other pages, which scdoc puts there.
$(MAN3): tools/man/man3.awk $(HEADERS) $(EXAMPLES) $(BUILD)/list
	$(call say,MAN $(@D))
	$(Q)rm -rf $(@D) && mkdir -p $(@D)
	$(Q)awk -v dir=$(@D) -v version=$(VERSION) -v date=$$(date -u -d @$${SOURCE_DATE_EPOCH:-$$(date +%s)} +%Y-%m-%d) \
	    -f $< $(filter %/tidelock.h,$(HEADERS)) $(filter-out %/tidelock.h,$(HEADERS)) $(EXAMPLES)

# It fails with a line for each link that leads nowhere and each page that no page links to.
docs-run: man
	$(call say,GEN $(BUILD)/docs)
	$(Q)tools/docs/site.py $(BUILD)/man $(BUILD)/man3 $(BUILD)/docs

# Each shell's completion, with the table that the tool prints of its own options in it.
$(BUILD)/completion/options: $(BUILD)/tidelock
	@mkdir -p $(@D)
	$(Q)$(or $(NATIVE),$<) help options >$@.tmp && mv $@.tmp $@
$(BUILD)/completion/options.quoted: $(BUILD)/completion/options
	$(Q)sed "s/[\\\\']/\\\\&/g" $< >$@
$(COMPLETION): $(BUILD)/completion/tidelock.%: tools/completion/tidelock.% $(BUILD)/completion/options $(BUILD)/completion/options.quoted
	$(call say,GEN $@)
	$(Q)sed -e '/^@TABLE@$$/{r $(BUILD)/completion/options$(if $(filter fish,$*),.quoted)' -e 'd}' $< >$@.tmp && mv $@.tmp $@

# The class runs the very scripts of the library: their texts are in the jar, beside it. One date for all that is in the
# jar, so that two builds are alike.
JAVA := $(BUILD)/java
$(BUILD)/tidelock-java.jar: $(JAVA_SRC) $(GEN)/scripts.inc $(BUILD)/list
	$(call say,JAVA $@)
	$(Q)rm -rf $(JAVA).tmp && mkdir -p $(JAVA).tmp/io/tidelock
	$(Q)javac --release 8 -Xlint:all,-options -Werror -d $(JAVA).tmp $(JAVA_SRC)
	$(Q)cp $(JAVA_LUA:%=$(GEN)/%.lua) $(JAVA).tmp/io/tidelock/ && echo $(VERSION) >$(JAVA).tmp/io/tidelock/version
	$(Q)rm -rf $(JAVA) && mv $(JAVA).tmp $(JAVA) && find $(JAVA) -exec touch -d @$${SOURCE_DATE_EPOCH:-315619200} {} +
	$(Q)(cd $(JAVA) && find io -type f | LC_ALL=C sort | xargs jar cfM ../$(@F).tmp) && mv $@.tmp $@
java: $(JAR) ; @$(if $(JAR),:,echo 'make java: there is no JDK (Debian: default-jdk-headless)'; exit 1)

# ---- run ----------------------------------------------------------------------------------
check-run: all progs $(JAR)
	@BUILD=$(BUILD) SAN=$(SAN) JOBS=$(JOBS) CC='$(CC)' COMPAT=$(if $(COMPAT_ON),1,0) VALGRIND=$(VALGRIND) \
	    REDIS_SERVER='$(REDIS_SERVER)' ETCD='$(ETCD)' CLUSTER_SERVER='$(CLUSTER_SERVER)' LOGS='$(LOGS)' tests/run.sh $(TESTS)
check-flaky-run: all progs $(JAR)
	@BUILD=$(BUILD) SAN=$(SAN) JOBS=$(JOBS) CC='$(CC)' COMPAT=$(if $(COMPAT_ON),1,0) RUNS='$(RUNS)' LOAD='$(LOAD)' tests/flaky.sh $(TESTS)
check-servers-run: all progs
	+@BUILD=$(BUILD) MAKE='$(MAKE)' ONLY='$(ASKED_ONLY)' SERVERS='$(SERVERS)' tests/servers.sh
demo-run: all $(BUILD)/examples/in_line
	@if [ -x tools/demo.sh ]; then BUILD=$(BUILD) TIDELOCK=$(BUILD)/tidelock tools/demo.sh; else \
	    echo 'make demo: there is no tools/demo.sh yet'; fi
# In a namespace of its own, so that the picture has no name of this host.
demo-svg-run: all $(BUILD)/examples/in_line
	@BUILD=$(BUILD) TIDELOCK=$(BUILD)/tidelock unshare --map-root-user --uts sh -c \
	    'hostname host1 && exec tools/docs/cast.py tools/docs/demo.svg tools/demo.sh'
lint-run: $(GEN)/scripts.inc $(GEN)/scripts_without.inc $(BUILD)/libtidelock.a tool
	@DEEP=$(DEEP) GEN=$(GEN) BUILD=$(BUILD) LUA_CPPFLAGS='$(LUA_CPPFLAGS)' CPPFLAGS='$(CPPFLAGS) $(DEP_CPPFLAGS) $(JSON_CPPFLAGS) $(if $(HAVE_TLS),-DTL_HAVE_TLS=1) $(if $(HAVE_JSON),-DTL_HAVE_JSON=1) $(if $(HAVE_HTTP2),-DTL_HAVE_HTTP2=1)' JOBS=$(JOBS) tests/lint/run.sh
abi = @CC='$(CC)' COMPAT=$(if $(COMPAT_ON),1,0) BREAKING=$(BREAKING) tests/lint/abi.sh $(1) . $(BUILD)/libtidelock.so tests/lint/abi.txt
abi-run: $(BUILD)/libtidelock.so
	$(call abi)
abi-record-run: $(BUILD)/libtidelock.so
	$(call abi,--record)
format: ; @find include src compat tools tests \( -name '*.[ch]' -o -name '*.[ch]pp' \) -exec clang-format -i {} + 2>/dev/null || :
mutations-run: $(GUARDED)/sim
	+@BUILD=$(BUILD) JOBS=$(JOBS) CC='$(CC)' SEARCH=$(SEARCH) tests/guards.sh $(GUARDS)
sim-run: $(if $(wildcard tests/sim/main.c),$(BUILD)/sim)
	@$(if $^,RUNS='$(RUNS)' SEED='$(SEED)' $(BUILD)/sim,echo 'make sim: there is no tests/sim/main.c yet')
model-run:
	@if [ -x tests/model/run.sh ]; then BUILD=$(BUILD) tests/model/run.sh $(if $(MODELS),'$(value MODELS)'); else \
	    echo 'make model: there is no tests/model/run.sh yet'; fi
fuzz-run: $(patsubst %.c,$(BUILD)/%,$(FUZZ_SRC))
	@$(if $^,BUILD=$(BUILD) FUZZ_SECONDS=$(FUZZ_SECONDS) JOBS=$(JOBS) tests/fuzz/run.sh $^,echo 'make fuzz: there are no tests/fuzz/fuzz_*.c yet')
soak-run: $(patsubst %.c,$(BUILD)/%,$(SOAK_SRC))
	@$(if $^,SOAK_SECONDS='$(SOAK_SECONDS)' SEED='$(SEED)' tests/soak/run.sh $^,echo 'make soak: there is no tests/soak/soak_$(SOAK).c'; exit 1)
interop-run: all $(JAR)
	@if [ -x tests/interop/run.sh ]; then BUILD=$(BUILD) PEERS='$(PEERS)' tests/interop/run.sh; else \
	    echo 'make interop: there is no tests/interop/run.sh yet'; fi
no_sanitizers = @$(if $(SAN),echo 'make $(1): a build with sanitizers measures nothing of use'; exit 1,$(2))
bench-run: $(if $(SAN),,all $(BUILD)/bench)
	$(call no_sanitizers,bench,TIDELOCK=$(BUILD)/tidelock \
	    BENCH='$(BENCH)' ROUNDS='$(ROUNDS)' REGIME='$(REGIME)' BENCH_JSON=$(BUILD)/bench.json $(BUILD)/bench)
bench-peers-run: $(if $(SAN),,all $(BUILD)/bench)
	$(call no_sanitizers,bench-peers,BUILD=$(BUILD) PEERS='$(PEERS)' \
	    ROUNDS='$(ROUNDS)' REGIME='$(REGIME)' tests/bench/peers/run.sh)
BENCH_RUNS := $(wildcard $(BUILD)/bench.json $(BUILD)/bench-peers.json)
bench-readme:
	$(Q)$(if $(BENCH_RUNS),tests/bench/tables.py record $(BENCH_RUNS))
	$(Q)tests/bench/tables.py write

# ---- install ------------------------------------------------------------------------------
D = $(if $(DESTDIR),'$(subst ','\'',$(DESTDIR))')
# A space would make two paths of one, and uninstall would remove both; of an empty path, all of DESTDIR. Files that are
# installed say where others are.
$(if $(filter install uninstall,$(MAKECMDGOALS)),$(foreach p,PREFIX LIBDIR BINDIR MANDIR DOCDIR JAVADIR UNITDIR BASHCOMP ZSHCOMP FISHCOMP, \
    $(if $(findstring $(space),$($p))$(if $(filter /%,$($p)),,x),$(error make $(MAKECMDGOALS): $p must be an absolute path without spaces: "$($p)"))))
install: all
	$(if $(SCDOC),,@echo 'tidelock: without the manual pages of the command (man 1 and 7): scdoc is missing (Debian: scdoc)' >&2)
	$(Q)install -d $(D)$(PREFIX)/include/tidelock $(D)$(LIBDIR)/pkgconfig $(D)$(BINDIR) $(D)$(MANDIR)/man1 $(D)$(MANDIR)/man3 $(D)$(MANDIR)/man7
	$(Q)install -m 644 $(HEADERS) $(D)$(PREFIX)/include/tidelock/
	$(Q)install -m 644 $(BUILD)/install/libtidelock.a $(D)$(LIBDIR)/
	$(Q)install -m 755 $(BUILD)/$(SONAME) $(D)$(LIBDIR)/libtidelock.so.$(VERSION)
	$(Q)ln -sf libtidelock.so.$(VERSION) $(D)$(LIBDIR)/$(SONAME)
	$(Q)ln -sf $(SONAME) $(D)$(LIBDIR)/libtidelock.so
	$(Q)install -m 755 $(BUILD)/tidelock $(D)$(BINDIR)/
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR))|; s|@VERSION@|$(VERSION)|' \
	    -e 's|@LIBS@|$(STATIC_LIBS)|' \
	    src/tidelock.pc.in >$(D)$(LIBDIR)/pkgconfig/tidelock.pc && chmod 644 $(D)$(LIBDIR)/pkgconfig/tidelock.pc
	$(Q)install -d $(D)$(LIBDIR)/cmake/tidelock
	$(Q)for f in tidelockConfig tidelockConfigVersion; do sed -e 's|@VERSION@|$(VERSION)|g; s|@SONAME@|$(SONAME)|' \
	    -e 's|@LIBS@|$(subst $(space),;,$(STATIC_LIBS))|; s|@POINTER@|$(shell echo __SIZEOF_POINTER__ | $(CC) -E -P -)|g' \
	    -e "s|@INCLUDE@|$$(realpath -m --relative-to=$(LIBDIR) $(PREFIX)/include)|" \
	    src/$$f.cmake.in >$(D)$(LIBDIR)/cmake/tidelock/$$f.cmake && chmod 644 $(D)$(LIBDIR)/cmake/tidelock/$$f.cmake || exit 1; done
	$(Q)install -d $(D)$(UNITDIR) && sed 's|@BINDIR@|$(BINDIR)|' tools/tidelock-agent.service >$(D)$(UNITDIR)/tidelock-agent.service && \
	    chmod 644 $(D)$(UNITDIR)/tidelock-agent.service
	$(Q)install -d $(D)$(DOCDIR)/examples && install -m 644 $(EXAMPLES) $(D)$(DOCDIR)/examples/
	$(Q)install -d $(D)$(DOCDIR)/examples/python && install -m 644 tools/examples/python/*.py $(D)$(DOCDIR)/examples/python/
	$(Q)install -d $(D)$(DOCDIR)/monitoring && install -m 644 tools/monitoring/* $(D)$(DOCDIR)/monitoring/
	$(Q)$(if $(COMPAT_ON),install -m 644 compat/MIGRATION.md compat/RUNBOOK.md $(D)$(DOCDIR)/,:)
	$(Q)$(if $(JAVA_SRC),install -d $(D)$(DOCDIR)/java/examples && install -m 644 compat/java/README.md $(D)$(DOCDIR)/java/,:)
	$(Q)$(if $(JAVA_SRC),install -m 644 compat/java/examples/*.java $(D)$(DOCDIR)/java/examples/,:)
	$(Q)$(if $(and $(COMPAT_ON),$(wildcard $(BUILD)/tidelock-java.jar)),install -d $(D)$(JAVADIR) && install -m 644 $(BUILD)/tidelock-java.jar $(D)$(JAVADIR)/tidelock.jar,:)
	$(Q)$(if $(MAN),install -m 644 $(filter %.1,$(MAN)) $(D)$(MANDIR)/man1/ && install -m 644 $(filter %.7,$(MAN)) $(D)$(MANDIR)/man7/,:)
	$(Q)install -m 644 $(MAN3:tidelock.3=*.3) $(D)$(MANDIR)/man3/
	$(Q)install -d $(D)$(BASHCOMP) $(D)$(ZSHCOMP) $(D)$(FISHCOMP)
	$(Q)install -m 644 $(BUILD)/completion/tidelock.bash $(D)$(BASHCOMP)/tidelock
	$(Q)install -m 644 $(BUILD)/completion/tidelock.zsh $(D)$(ZSHCOMP)/_tidelock
	$(Q)install -m 644 $(BUILD)/completion/tidelock.fish $(D)$(FISHCOMP)/tidelock.fish
	@[ -n "$(D)" ] || [ "$$(id -u)" != 0 ] || ldconfig 2>/dev/null || :
uninstall:
	$(Q)rm -rf $(D)$(PREFIX)/include/tidelock $(D)$(DOCDIR) $(D)$(LIBDIR)/cmake/tidelock
	$(Q)rm -f $(D)$(LIBDIR)/libtidelock.a $(D)$(LIBDIR)/libtidelock.so* $(D)$(LIBDIR)/pkgconfig/tidelock.pc \
	    $(D)$(BINDIR)/tidelock $(D)$(MANDIR)/man1/tidelock*.1 $(D)$(MANDIR)/man7/tidelock*.7 $(D)$(MANDIR)/man3/tidelock*.3 \
	    $(D)$(MANDIR)/man3/distribute_lock_util.3 $(D)$(BASHCOMP)/tidelock \
	    $(D)$(ZSHCOMP)/_tidelock $(D)$(FISHCOMP)/tidelock.fish $(D)$(JAVADIR)/tidelock.jar $(D)$(UNITDIR)/tidelock-agent.service
	$(Q)find $(D)$(MANDIR)/man3 -name 'tl_*.3' -exec grep -q '^\.TH .* "tidelock ' {} \; -exec rm {} + 2>/dev/null || : # not pages of others
	$(Q)for dir in include $(patsubst $(PREFIX)/%,%,$(filter $(PREFIX)/%,$(LIBDIR)/cmake $(LIBDIR)/pkgconfig $(BINDIR) $(UNITDIR) \
	    $(MANDIR)/man1 $(MANDIR)/man3 $(MANDIR)/man7 $(dir $(DOCDIR)) $(BASHCOMP) $(ZSHCOMP) $(FISHCOMP) $(JAVADIR))); do \
	    $(if $(filter /usr /usr/local,$(PREFIX)),: what others have there stays,(cd $(D)$(PREFIX) && rmdir -p $$dir) 2>/dev/null) || :; done
deb-run: ; @tools/packaging/deb.sh build/deb
clean: ; $(Q)rm -rf build
FORCE:
