/*
 * The processes of a session as a whole: who came from whom, what became of each, and what
 * was not seen of it. One ledger alone does not say: a parent is found by pid, an exec by
 * what the same pid went on as, an end nobody saw by asking the system.
 *
 * Owner: the caller, by ledger_family_free(); texts are the reader's. Times in ns:
 * start since the session began, the others since the process did.
 */
#ifndef MALLOGRAPH_LEDGER_FAMILY_H
#define MALLOGRAPH_LEDGER_FAMILY_H

#include "ledger/reader.h"

#define LEDGER_UNKNOWN UINT64_MAX

enum ledger_how {
	LEDGER_HOW_ROOT,
	LEDGER_HOW_FORK,
	LEDGER_HOW_VFORK, /* a new program in a child of vfork */
	LEDGER_HOW_SPAWN, /* a new pid and a new program */
	LEDGER_HOW_EXEC,  /* the pid of a process recorded before */
	LEDGER_HOW_ATTACH,
};

enum ledger_end {
	LEDGER_END_EXIT,
	LEDGER_END_SIGNAL,
	LEDGER_END_EXEC, /* went on as another program */
	LEDGER_END_RUNNING,
	LEDGER_END_DETACHED,
	LEDGER_END_LOST, /* gone, and nobody saw how */
};

/* Something that was not seen. kind is a word of docs/JSON.md. */
struct ledger_missing {
	const char *kind;
	uint64_t count;
	struct ledger_text detail;
};

struct ledger_member {
	uint32_t parent; /* serial; 0 = none known */
	enum ledger_how how;
	enum ledger_end end;
	uint64_t end_code; /* exit status or signal, or LEDGER_UNKNOWN */
	uint64_t start_ns;
	uint64_t duration_ns;
	uint64_t peak_time_ns;
	uint64_t rss_peak;
	uint64_t threads;
	uint64_t failed;
	uint64_t unknown_frees;
	uint64_t inherited_frees; /* of blocks a forked child had from its parent */
	struct ledger_missing *missing;
	size_t missing_count;
};

/* Parallel to the reader's processes. */
struct ledger_family {
	struct ledger_member *members;
	size_t count;
};

/* A process that was in the session and is in the reader no more. */
struct ledger_kin {
	uint32_t serial;
	int32_t pid;
	uint64_t starttime; /* 0 = not known */
};

/* kin: by serial; NULL = the reader has all. */
struct error *ledger_family_read(struct ledger_reader *reader, const struct ledger_kin *kin,
				 size_t kin_count, struct ledger_family *ret) ERROR_MUST_CHECK;
/* Those that got no ledger at all, or were to have none, to the first. Once a session. excused: so
 * many of the headless are told of otherwise. */
struct error *ledger_family_add_missed(struct ledger_reader *reader, struct ledger_family *family,
				       uint64_t excused) ERROR_MUST_CHECK;
void ledger_family_free(struct ledger_family *family);

/* detail's bytes must outlive the family. */
struct error *ledger_member_add_missing(struct ledger_member *member, const char *kind,
					uint64_t count,
					const struct ledger_text *detail) ERROR_MUST_CHECK;

#endif
