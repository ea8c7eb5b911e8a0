/* The tree of who called whom to allocate. */
#include "report/report.h"

#include "analyze/tree.h"
#include "base/vector.h"
#include "report/words.h"

#define LEAST_PERCENT 1u
#define DEEPEST       40u /* steps of indentation */
#define FLUSH_BYTES   65536u

/* A node that is still to be printed. */
struct pending {
	uint32_t node;
	uint32_t depth;
	uint32_t module; /* of its caller or, bottom up, of whom it calls */
	bool is_rest;    /* of the node's children, not itself */
	bool is_own;     /* what the node has without its children */
	bool has_siblings;
};

struct printing {
	const struct analyze_model *model;
	const struct analyze_sections *sections;
	const struct analyze_tree *tree;
	const struct report_options *options;
	uint64_t least;
	bool is_next; /* a tree was printed before */
	bool is_upwards;
	VECTOR(struct pending) pending;
	struct strbuf text;
	FILE *out;
};

static void put_figures(struct printing *printing, uint64_t value)
{
	CLEANUP_STRBUF struct strbuf figure = STRBUF_EMPTY, percent = STRBUF_EMPTY;

	report_put_figure(&figure, value, printing->options->order);
	report_put_percent(&percent, value, printing->tree->nodes[0].value);
	if (figure.failed || percent.failed)
		printing->text.failed = true;
	else
		strbuf_printf(&printing->text, "%10s %5s %%  ", figure.text, percent.text);
}

static void indent(struct printing *printing, uint32_t depth)
{
	strbuf_fill(&printing->text, ' ', (size_t)2 * (depth < DEEPEST ? depth : DEEPEST));
}

static void put_node(struct printing *printing, const struct pending *pending)
{
	const struct analyze_model *model = printing->model;
	const struct analyze_node *node = &printing->tree->nodes[pending->node];
	const struct analyze_name *name = &model->names[node->name];

	put_figures(printing, node->value);
	indent(printing, pending->depth);
	report_put_name(&printing->text, model, node->name);
	if (name->function && name->module != pending->module) {
		strbuf_append(&printing->text, " (");
		report_put_module(&printing->text, model, name->module);
		strbuf_append_char(&printing->text, ')');
	}
	strbuf_append_char(&printing->text, '\n');
}

static void put_rest(struct printing *printing, const struct pending *pending)
{
	const struct analyze_node *node = &printing->tree->nodes[pending->node];

	put_figures(printing, node->left_out_value);
	indent(printing, pending->depth);
	strbuf_append_char(&printing->text, '[');
	report_put_plural(&printing->text, node->left_out, "smaller branch]", "smaller branches]");
	strbuf_append_char(&printing->text, '\n');
}

/* What a function with calls below it allocates without them. */
static uint64_t own_value(const struct printing *printing, const struct analyze_node *node)
{
	uint64_t below = node->left_out_value;

	for (uint32_t i = node->first_child; i; i = printing->tree->nodes[i].next)
		below += printing->tree->nodes[i].value;
	return below && node->value > below ? node->value - below : 0;
}

static void put_itself(struct printing *printing, const struct pending *pending)
{
	put_figures(printing, own_value(printing, &printing->tree->nodes[pending->node]));
	indent(printing, pending->depth);
	strbuf_append(&printing->text, "[itself]\n");
}

/* A chain stays in one column; where stacks part, each branch moves in, and what is below it
 * further. */
static struct error *push_children(struct printing *printing, const struct pending *of)
{
	const struct analyze_node *nodes = printing->tree->nodes;
	const struct analyze_node *node = &nodes[of->node];
	bool has_rest = node->left_out_value >= printing->least;
	bool has_own =
		of->node && !printing->is_upwards && own_value(printing, node) >= printing->least;
	bool parts = has_rest || has_own || (node->first_child && nodes[node->first_child].next);
	struct pending next = {
		.depth = of->depth + (of->node && (parts || of->has_siblings)),
		.has_siblings = parts,
		.module = printing->model->names[node->name].module,
	};
	size_t first = printing->pending.count;
	struct pending itself = next;

	itself.node = of->node;
	itself.is_own = true;
	if (has_own)
		TRY(vector_push(&printing->pending, itself));
	for (next.node = node->first_child; next.node; next.node = nodes[next.node].next)
		TRY(vector_push(&printing->pending, next));
	next.node = of->node;
	next.is_rest = true;
	if (has_rest)
		TRY(vector_push(&printing->pending, next));
	/* The first is taken first. */
	for (size_t last = printing->pending.count; first + 1 < last; first++, last--) {
		struct pending moved = printing->pending.items[first];

		printing->pending.items[first] = printing->pending.items[last - 1];
		printing->pending.items[last - 1] = moved;
	}
	return NULL;
}

static struct error *print_nodes(struct printing *printing)
{
	TRY(push_children(printing, &((struct pending){0})));
	while (printing->pending.count) {
		struct pending at = printing->pending.items[--printing->pending.count];

		if (at.is_rest) {
			put_rest(printing, &at);
		} else if (at.is_own) {
			put_itself(printing, &at);
		} else {
			put_node(printing, &at);
			TRY(push_children(printing, &at));
		}
		if (printing->text.length >= FLUSH_BYTES)
			TRY(report_flush(&printing->text, printing->out));
	}
	return NULL;
}

/* A tree: of a process, or of a section's processes together. */
struct trunk {
	uint32_t section;
	uint32_t process; /* or ANALYZE_ALL_PROCESSES: all of the section's */
	uint64_t value;
};

/* "cc1plus, pid 4711: "; of several "cc1plus, 12 processes: " */
static void put_whose(struct printing *printing, const struct trunk *trunk)
{
	const struct analyze_section *section = &printing->sections->items[trunk->section];
	struct strbuf *text = &printing->text;

	if (printing->model->process_count == 1)
		return;
	strbuf_append(text, printing->is_next ? "\n" : "");
	printing->is_next = true;
	if (trunk->process != ANALYZE_ALL_PROCESSES) {
		report_put_program(text, &printing->model->processes[trunk->process]);
	} else if (section->process_count == 1) {
		report_put_program(text, &printing->model->processes[section->largest]);
	} else {
		if (printing->options->split != ANALYZE_SPLIT_NOTHING) {
			report_put_program_name(text,
						&printing->model->processes[section->largest]);
			strbuf_append(text, ", ");
		}
		report_put_plural(text, section->process_count, "process", "processes together");
	}
	strbuf_append_char(text, '\n');
}

static void put_heading(struct printing *printing, const struct trunk *trunk,
			enum analyze_direction direction)
{
	const struct report_options *options = printing->options;
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	bool down = direction == ANALYZE_TOP_DOWN;

	put_whose(printing, trunk);
	report_put_figure(&text, printing->tree->nodes[0].value, options->order);
	strbuf_printf(&text, " %s, %s; branches under %u %% are summed",
		      report_order_words(options->order),
		      down ? "from where the program begins inwards"
			   : "from what allocates outwards to its callers",
		      LEAST_PERCENT);
	if (text.failed)
		printing->text.failed = true;
	else
		report_put_coloured(&printing->text, &options->style, REPORT_HEADING, text.text);
	strbuf_append_char(&printing->text, '\n');
}

static struct error *print_tree(struct printing *printing, const struct trunk *trunk,
				enum analyze_direction direction)
{
	struct analyze_tree_options options = {
		.process = trunk->process,
		.sections = printing->sections,
		.section = trunk->section,
		.order = printing->options->order,
		.direction = direction,
		.least = trunk->value / 100 * LEAST_PERCENT + 1,
	};
	struct analyze_tree tree;

	TRY(analyze_tree_make(printing->model, &options, &tree));
	printing->tree = &tree;
	printing->least = options.least;
	printing->is_upwards = direction == ANALYZE_BOTTOM_UP;
	put_heading(printing, trunk, direction);
	struct error *error = print_nodes(printing);

	printing->tree = NULL;
	analyze_tree_free(&tree);
	return error ? error : report_flush(&printing->text, printing->out);
}

static int largest_first(const void *a, const void *b)
{
	const struct trunk *x = a, *y = b;

	if (x->value != y->value)
		return x->value < y->value ? 1 : -1;
	return (x->section > y->section) - (x->section < y->section);
}

/* A build has hundreds of processes: those that are nothing beside the others are counted. */
static struct error *print_trees(struct printing *printing, struct trunk *trunks,
				 enum analyze_direction direction)
{
	const struct analyze_sections *sections = printing->sections;
	enum analyze_order order = printing->options->order;
	uint64_t sum = 0;
	size_t left_out = 0;

	for (uint32_t i = 0; i < sections->count; i++) {
		const struct analyze_section *section = &sections->items[i];

		trunks[i].section = i;
		trunks[i].value = analyze_order_value(&section->counts, order);
		/* Shares of different peaks do not add up to one. */
		trunks[i].process =
			order == ANALYZE_BY_PEAK ? section->largest : ANALYZE_ALL_PROCESSES;
		sum += trunks[i].value;
	}
	qsort(trunks, sections->count, sizeof(*trunks), largest_first);
	for (size_t i = 0; i < sections->count; i++) {
		if (trunks[i].value && trunks[i].value >= sum / 100 * LEAST_PERCENT)
			TRY(print_tree(printing, &trunks[i], direction));
		else
			left_out++;
	}
	if (sum == 0) {
		report_put_figure(&printing->text, 0, order);
		strbuf_printf(&printing->text, " %s: nothing to make a tree of\n",
			      report_order_words(order));
	} else if (left_out) {
		strbuf_append_char(&printing->text, '\n');
		report_put_plural(&printing->text, left_out, "other had less than 1 % of that\n",
				  "others had less than 1 % of that each\n");
	}
	return report_flush(&printing->text, printing->out);
}

struct error *report_tree_print(struct analyze_model *model, const struct report_options *options,
				enum analyze_direction direction, FILE *out)
{
	struct printing printing = {.model = model, .options = options, .out = out};
	enum analyze_split split = options->split;
	struct analyze_sections sections;

	if (options->order == ANALYZE_BY_PEAK && split == ANALYZE_SPLIT_NOTHING)
		split = ANALYZE_SPLIT_PROCESS;
	TRY(analyze_sections_make(model, split, &sections));
	struct trunk *trunks = calloc(sections.count + 1, sizeof(*trunks));

	printing.sections = &sections;
	struct error *error =
		trunks ? print_trees(&printing, trunks, direction) : error_no_memory();

	free(trunks);
	analyze_sections_free(&sections);
	vector_free(&printing.pending);
	strbuf_free(&printing.text);
	return error;
}
