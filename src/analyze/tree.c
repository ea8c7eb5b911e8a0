#include "analyze/tree.h"

#include <stdlib.h>

#include "analyze/stacks.h"
#include "base/vector.h"

/* Where a stack, or all stacks through a frame, are in the tree. */
struct item {
	uint32_t frame;
	uint32_t line;
	uint32_t name;
	uint64_t value;
};

/* A node whose children are to be made, out of the items that are in it. */
struct work {
	uint32_t node;
	struct item *items;
	size_t count;
};

struct growing {
	const struct analyze_model *model;
	const struct analyze_tree_options *options;
	/* Top down, by frame: what is allocated below it, and its children. */
	uint64_t *values;
	uint32_t *first_child;
	uint32_t *sibling;
	VECTOR(struct analyze_node) nodes;
	VECTOR(struct work) works;
	VECTOR(struct item) inner; /* of the node under way */
};

static struct error *put_item(struct growing *growing, uint32_t frame, uint32_t line,
			      uint64_t value)
{
	if (value == 0)
		return NULL;
	return vector_push(&growing->inner, ((struct item){
						    .frame = frame,
						    .line = line,
						    .name = growing->model->lines[line].name,
						    .value = value,
					    }));
}

/* --- one step inwards or outwards ---------------------------------------------------- */

/* A frame is entered by its outermost line. */
static struct error *enter(struct growing *growing, uint32_t frame)
{
	const struct analyze_model *model = growing->model;
	const struct analyze_place *place = &model->places[model->frames[frame].place];

	return put_item(growing, frame, place->first_line + place->line_count - 1,
			growing->values[frame]);
}

static struct error *step_down(struct growing *growing, const struct item *item)
{
	const struct analyze_model *model = growing->model;
	const struct analyze_place *place = &model->places[model->frames[item->frame].place];

	if (item->frame == 0)
		return NULL;
	if (item->line > place->first_line)
		return put_item(growing, item->frame, item->line - 1, item->value);
	for (uint32_t i = growing->first_child[item->frame]; i; i = growing->sibling[i])
		TRY(enter(growing, i));
	return NULL;
}

static struct error *step_up(struct growing *growing, const struct item *item)
{
	struct analyze_walk walk = analyze_walk_after(growing->model, item->frame, item->line);

	if (item->frame && analyze_walk_next(&walk))
		return put_item(growing, walk.frame, walk.line, item->value);
	return NULL;
}

static struct error *step(struct growing *growing, const struct item *item)
{
	return growing->options->direction == ANALYZE_TOP_DOWN ? step_down(growing, item)
							       : step_up(growing, item);
}

/* --- where it begins ------------------------------------------------------------------ */

static uint64_t value_of(const struct growing *growing, const struct analyze_site *site)
{
	const struct analyze_tree_options *options = growing->options;

	if (options->process != ANALYZE_ALL_PROCESSES && site->process != options->process)
		return 0;
	if (options->sections && options->sections->of[site->process] != options->section)
		return 0;
	return analyze_order_value(&site->counts, growing->options->order);
}

static struct error *begin_down(struct growing *growing)
{
	const struct analyze_model *model = growing->model;

	growing->values = calloc(model->frame_count, sizeof(*growing->values));
	growing->first_child = calloc(model->frame_count, sizeof(*growing->first_child));
	growing->sibling = calloc(model->frame_count, sizeof(*growing->sibling));
	if (!growing->values || !growing->first_child || !growing->sibling)
		return error_no_memory();
	for (size_t i = 0; i < model->site_count; i++)
		growing->values[model->sites[i].frame] += value_of(growing, &model->sites[i]);
	/* An outer frame's place is less than that of its inner ones. */
	for (uint32_t i = (uint32_t)model->frame_count - 1; i > 0; i--) {
		uint32_t parent = model->frames[i].parent;

		if (growing->values[i] == 0)
			continue;
		growing->sibling[i] = growing->first_child[parent];
		growing->first_child[parent] = i;
		if (parent)
			growing->values[parent] += growing->values[i];
	}
	TRY(put_item(growing, 0, 0, growing->values[0]));
	for (uint32_t i = growing->first_child[0]; i; i = growing->sibling[i])
		TRY(enter(growing, i));
	return NULL;
}

static struct error *begin_up(struct growing *growing)
{
	const struct analyze_model *model = growing->model;

	for (size_t i = 0; i < model->site_count; i++)
		TRY(put_item(growing, model->sites[i].title_frame, model->sites[i].title_line,
			     value_of(growing, &model->sites[i])));
	return NULL;
}

/* --- nodes ---------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	return 0;
}

/* Items of one name: a child. */
struct share {
	size_t first;
	size_t count;
	uint64_t value;
	uint32_t name;
};

static int by_value(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	if (x->value != y->value)
		return x->value < y->value ? 1 : -1;
	return (x->name > y->name) - (x->name < y->name);
}

static struct error *make_child(struct growing *growing, const struct share *share, uint32_t *ret)
{
	uint32_t node = (uint32_t)growing->nodes.count;
	CLEANUP_FREE struct item *items = calloc(share->count, sizeof(*items));

	if (!items)
		return error_no_memory();
	for (size_t i = 0; i < share->count; i++)
		items[i] = growing->inner.items[share->first + i];
	TRY(vector_push(&growing->nodes, ((struct analyze_node){
						 .name = share->name,
						 .value = share->value,
					 })));
	TRY(vector_push(&growing->works, ((struct work){node, items, share->count})));
	(void)STEAL(items);
	*ret = node;
	return NULL;
}

static size_t find_shares(struct growing *growing, struct share *shares)
{
	size_t count = 0;

	for (size_t i = 0; i < growing->inner.count; i++) {
		const struct item *item = &growing->inner.items[i];

		if (count == 0 || shares[count - 1].name != item->name)
			shares[count++] = (struct share){.first = i, .name = item->name};
		shares[count - 1].count++;
		shares[count - 1].value += item->value;
	}
	qsort(shares, count, sizeof(*shares), by_value);
	return count;
}

/* What stands in inner becomes the node's children. */
static struct error *make_children(struct growing *growing, uint32_t node)
{
	CLEANUP_FREE struct share *shares = calloc(growing->inner.count + 1, sizeof(*shares));
	uint32_t last = 0;

	if (!shares)
		return error_no_memory();
	if (growing->inner.count)
		qsort(growing->inner.items, growing->inner.count, sizeof(struct item), by_name);
	size_t count = find_shares(growing, shares);

	for (size_t i = 0; i < count; i++) {
		struct analyze_node *parent = &growing->nodes.items[node];
		uint32_t child = 0;

		if (shares[i].value < growing->options->least) {
			parent->left_out++;
			parent->left_out_value += shares[i].value;
			continue;
		}
		TRY(make_child(growing, &shares[i], &child));
		if (last)
			growing->nodes.items[last].next = child;
		else
			growing->nodes.items[node].first_child = child;
		last = child;
	}
	return NULL;
}

static struct error *grow(struct growing *growing)
{
	TRY(vector_push(&growing->nodes, (struct analyze_node){0}));
	TRY(growing->options->direction == ANALYZE_TOP_DOWN ? begin_down(growing)
							    : begin_up(growing));
	for (size_t i = 0; i < growing->inner.count; i++)
		growing->nodes.items[0].value += growing->inner.items[i].value;
	TRY(make_children(growing, 0));
	while (growing->works.count) {
		struct work work = growing->works.items[--growing->works.count];
		CLEANUP_FREE struct item *items = work.items;

		growing->inner.count = 0;
		for (size_t i = 0; i < work.count; i++)
			TRY(step(growing, &items[i]));
		TRY(make_children(growing, work.node));
	}
	return NULL;
}

struct error *analyze_tree_make(const struct analyze_model *model,
				const struct analyze_tree_options *options,
				struct analyze_tree *ret)
{
	struct growing growing = {.model = model, .options = options};
	struct error *error = grow(&growing);

	for (size_t i = 0; i < growing.works.count; i++)
		free(growing.works.items[i].items);
	vector_free(&growing.works);
	vector_free(&growing.inner);
	free(growing.values);
	free(growing.first_child);
	free(growing.sibling);
	*ret = (struct analyze_tree){growing.nodes.items, growing.nodes.count};
	if (error)
		analyze_tree_free(ret);
	return error;
}

void analyze_tree_free(struct analyze_tree *tree)
{
	free(tree->nodes);
	*tree = (struct analyze_tree){0};
}
