/* What is made early, shared by finish_early.c and finish_retire.c. */
#ifndef MALLOGRAPH_COLLECT_FINISH_EARLY_H
#define MALLOGRAPH_COLLECT_FINISH_EARLY_H

#include "collect/finish_internal.h"

struct early_task {
	uint32_t serial;
	uint32_t node;
};

struct collect_early {
	struct finishing finishing;
	uint64_t room;
	char *path;      /* of the profile while there is one; NULL = it has no name */
	int fd;          /* of the profile */
	bool is_open;    /* the finishing */
	bool ended;      /* it failed, or was taken over */
	bool in_haste;   /* others do not go first */
	size_t retired;  /* processes that are kept at path */
	uint64_t opened; /* the reader that names are attached to */
	uint64_t due_ns;
	VECTOR(struct early_task) tasks;
	size_t next; /* of tasks */
};

/* The profile is open and there is room for more of it, and names are attached to the reader. */
struct error *collect_early_begin(struct collect_early *early, struct ledger_reader *reader,
				  uint64_t opened) ERROR_MUST_CHECK;
/* Nothing more is made. What is kept stays where it is. */
void collect_early_give_up(struct collect_early *early, struct error *error);

#endif
