/*
 * Profiles made by hand, small or degenerate, and the model of each: for tests of what is
 * shown of one. Everything asserts. Owner: the test, from view_begin() to view_end(),
 * which gives the model.
 */
#ifndef MALLOGRAPH_TESTS_VIEW_PROFILE_H
#define MALLOGRAPH_TESTS_VIEW_PROFILE_H

#include "analyze/model.h"
#include "store/store.h"

struct view {
	char path[64];
	struct store_writer *writer;
	uint64_t module, loc, stack, site, thread, snap, process; /* ids given so far */
};

void view_begin(struct view *view);
/* The file is gone once the model is there. */
struct analyze_model *view_end(struct view *view);

uint64_t view_string(struct view *view, const char *text);
uint64_t view_module(struct view *view, const char *path, enum store_symbols symbols);
/* A place where function calls; NULL = nothing is known there. */
uint64_t view_place(struct view *view, uint64_t module, const char *function, const char *file,
		    uint64_t line);
/* The same with a function inlined there into another. */
uint64_t view_inlined(struct view *view, uint64_t module, const char *inner, const char *outer);
/* A chain of places, outermost first, ended by 0. */
uint64_t view_stack(struct view *view, const uint64_t *places);

/* Of what is put before it is written: the caller may set more. */
struct store_process view_process(struct view *view, const char *command);
/* count allocations of size, of which live are left, all of them at the peak; titled by
 * the place and line given. */
void view_site(struct view *view, uint64_t process, uint64_t stack, uint64_t title, uint64_t count,
	       uint64_t size, uint64_t live);
void view_snap(struct view *view, uint64_t process, uint64_t ms, uint64_t live_bytes,
	       enum store_why why);

#endif
