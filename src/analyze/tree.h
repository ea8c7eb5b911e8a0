/*
 * Stacks as a tree of names, from where the program began down to its allocations or the
 * other way, with the figures of an order. Branches below a share of the whole are left
 * out, with all that is below them.
 *
 * Owner: the caller, by analyze_tree_free(). Errors: no memory.
 */
#ifndef MALLOGRAPH_ANALYZE_TREE_H
#define MALLOGRAPH_ANALYZE_TREE_H

#include "analyze/model.h"
#include "analyze/sections.h"

enum analyze_direction {
	ANALYZE_TOP_DOWN,
	ANALYZE_BOTTOM_UP, /* from what sites are called outwards */
};

struct analyze_tree_options {
	uint32_t process;                        /* its place, or ANALYZE_ALL_PROCESSES */
	const struct analyze_sections *sections; /* NULL = of all; else of one: */
	uint32_t section;
	enum analyze_order order;
	enum analyze_direction direction;
	uint64_t least; /* branches with less are left out */
};

struct analyze_node {
	uint32_t name;        /* 0 = not known; the root's says nothing */
	uint32_t first_child; /* the largest; 0 = none */
	uint32_t next;        /* the next of the same parent; 0 = none */
	uint32_t left_out;    /* children */
	uint64_t value;
	uint64_t left_out_value;
};

struct analyze_tree {
	struct analyze_node *nodes; /* [0] is the root */
	size_t count;
};

struct error *analyze_tree_make(const struct analyze_model *model,
				const struct analyze_tree_options *options,
				struct analyze_tree *ret) ERROR_MUST_CHECK;
void analyze_tree_free(struct analyze_tree *tree);

#endif
