#include "report/stacks.h"

#include <inttypes.h>
#include <string.h>

#include "analyze/stacks.h"
#include "report/words.h"

/* From every so many frames of the trie, the text of all outer ones is kept whole. */
#define OUTER_FRAMES ((uint32_t)8)
#define OUTER_BYTES  ((size_t)64 << 20)
#define PIECES       ((size_t)4 << 20)

struct report_kept {
	char *text; /* NULL = not made yet */
	size_t length;
	bool refused;
};

/* Of a site, the kept texts that make up its stack. */
struct report_span {
	uint32_t first;
	uint32_t count; /* 0 = not made yet, or refused */
	bool refused;
};

/* Where a module is mapped. */
struct report_placing {
	uint64_t bias;
	bool is_known;
	bool moves; /* not always there */
};

/* Which modules were unmapped, or mapped more than once. */
static void find_moves(struct report_stacks *stacks)
{
	for (size_t i = 0; i < stacks->blocks->mapping_count; i++) {
		const struct analyze_mapping *mapping = &stacks->blocks->mappings[i];
		struct report_placing *placing = &stacks->placings[mapping->module];

		placing->moves |= mapping->unloaded_ns != ANALYZE_UNKNOWN ||
				  (placing->is_known && placing->bias != mapping->bias);
		placing->is_known = true;
		placing->bias = mapping->bias;
	}
}

struct error *report_stacks_init(struct report_stacks *stacks, const struct analyze_model *model)
{
	*stacks = (struct report_stacks){
		.model = model,
		.lines = calloc(model->line_count, sizeof(*stacks->lines)),
		.outer = calloc(model->frame_count, sizeof(*stacks->outer)),
		.outer_left = OUTER_BYTES,
		.placings = calloc(model->module_count, sizeof(*stacks->placings)),
		.spans = calloc(model->site_count + 1, sizeof(*stacks->spans)),
	};
	if (!stacks->lines || !stacks->outer || !stacks->placings || !stacks->spans) {
		report_stacks_free(stacks);
		return error_no_memory();
	}
	return NULL;
}

static void forget(struct report_stacks *stacks)
{
	for (size_t i = 0; i < stacks->kept.count; i++) {
		free(stacks->kept.items[i]->text);
		*stacks->kept.items[i] = (struct report_kept){0};
	}
	for (size_t i = 0; i < stacks->spanned.count; i++)
		*stacks->spanned.items[i] = (struct report_span){0};
	for (size_t i = 0; i < stacks->placed.mapping_count; i++)
		stacks->placings[stacks->placed.mappings[i].module] = (struct report_placing){0};
	stacks->kept.count = stacks->spanned.count = stacks->pieces.count = 0;
	stacks->outer_left = OUTER_BYTES;
}

void report_stacks_begin(struct report_stacks *stacks, const struct analyze_blocks *blocks)
{
	forget(stacks);
	stacks->blocks = blocks;
	stacks->placed = *blocks;
	find_moves(stacks);
}

void report_stacks_free(struct report_stacks *stacks)
{
	stacks->placed.mapping_count = 0; /* they may be gone */
	forget(stacks);
	free(stacks->lines);
	free(stacks->outer);
	free(stacks->placings);
	free(stacks->spans);
	vector_free(&stacks->pieces);
	vector_free(&stacks->kept);
	vector_free(&stacks->spanned);
	*stacks = (struct report_stacks){0};
}

static void put_frame(struct strbuf *out, const struct report_stacks *stacks,
		      const struct analyze_walk *walk, uint64_t ns)
{
	const struct analyze_model *model = stacks->model;
	uint32_t place = model->frames[walk->frame].place;
	const struct analyze_text *path = &model->modules[model->places[place].module].path;
	bool is_named = model->names[model->lines[walk->line].name].function;
	uint64_t address;

	if (place == 0) {
		strbuf_append(out, "    @ ?: outer frames are not known\n");
		return;
	}
	if (analyze_place_address(model, stacks->blocks, place, ns, &address))
		strbuf_printf(out, "    @ 0x%" PRIx64 ": ", address);
	else
		strbuf_append(out, "    @ ?: ");
	strbuf_append(out, is_named ? "" : "?? (");
	report_put_line(out, model, place, walk->line);
	strbuf_append(out, is_named ? "" : ")");
	strbuf_append(out, walk->is_inlined ? " [inlined]\n" : "\n");
	if (path->length) {
		strbuf_append(out, "      (in ");
		strbuf_printable(out, path->bytes, path->length);
		strbuf_append(out, ")\n");
	}
}

static bool moves(const struct report_stacks *stacks, const struct analyze_walk *walk)
{
	uint32_t place = stacks->model->frames[walk->frame].place;

	return stacks->placings[stacks->model->places[place].module].moves;
}

/* *ret NULL = it is not kept. */
static struct error *find_outer(struct report_stacks *stacks, uint32_t frame,
				const struct report_kept **ret)
{
	struct report_kept *kept = &stacks->outer[frame];
	struct analyze_walk walk = ANALYZE_WALK(stacks->model, frame);
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	*ret = kept->text ? kept : NULL;
	if (kept->text || kept->refused || !frame ||
	    stacks->model->frames[frame].depth % OUTER_FRAMES)
		return NULL;
	TRY(vector_push(&stacks->kept, kept));
	while (!kept->refused && analyze_walk_next(&walk)) {
		put_frame(&text, stacks, &walk, ANALYZE_UNKNOWN);
		kept->refused = moves(stacks, &walk) || text.length > stacks->outer_left;
	}
	if (kept->refused)
		return strbuf_result(&text);
	stacks->outer_left -= text.length;
	kept->length = text.length;
	kept->text = strbuf_take(&text);
	*ret = kept;
	return kept->text ? NULL : error_no_memory();
}

static struct error *put_kept(struct report_stacks *stacks, const struct report_kept *kept,
			      struct report_span *span, struct report_gather *gather)
{
	if (!span->refused)
		TRY(vector_push(&stacks->pieces,
				((struct iovec){.iov_base = kept->text, .iov_len = kept->length})));
	return report_gather_borrow(gather, kept->text, kept->length);
}

static struct error *put_line(struct report_stacks *stacks, const struct analyze_walk *walk,
			      uint64_t ns, struct report_span *span, struct report_gather *gather)
{
	struct report_kept *kept = &stacks->lines[walk->line];

	if (!kept->text) {
		CLEANUP_STRBUF struct strbuf line = STRBUF_EMPTY;

		put_frame(&line, stacks, walk, ns);
		TRY(strbuf_result(&line));
		if (moves(stacks, walk)) {
			span->refused = true;
			return report_gather_copy(gather, line.text, line.length);
		}
		TRY(vector_push(&stacks->kept, kept));
		kept->length = line.length;
		kept->text = strbuf_take(&line);
		if (!kept->text)
			return error_no_memory();
	}
	return put_kept(stacks, kept, span, gather);
}

static struct error *put_frames(struct report_stacks *stacks, uint32_t frame, uint64_t ns,
				struct report_span *span, struct report_gather *gather)
{
	struct analyze_walk walk = ANALYZE_WALK(stacks->model, frame);
	const struct report_kept *outer = NULL;

	if (frame == 0)
		return report_stacks_put_unknown(gather);
	for (;;) {
		if (walk.left == 0)
			TRY(find_outer(stacks, walk.next, &outer));
		if (outer)
			return put_kept(stacks, outer, span, gather);
		if (!analyze_walk_next(&walk))
			return NULL;
		TRY(put_line(stacks, &walk, ns, span, gather));
	}
}

struct error *report_stacks_put_unknown(struct report_gather *gather)
{
	static const char unknown[] = "    @ ?: the stack is not known\n";

	return report_gather_borrow(gather, unknown, strlen(unknown));
}

struct error *report_stacks_put(struct report_stacks *stacks, uint32_t site, uint64_t ns,
				struct report_gather *gather)
{
	struct report_span *span = &stacks->spans[site];
	size_t first = stacks->pieces.count;

	for (uint32_t i = 0; i < span->count; i++) {
		const struct iovec *piece = &stacks->pieces.items[span->first + i];

		TRY(report_gather_borrow(gather, piece->iov_base, piece->iov_len));
	}
	if (span->count)
		return NULL;
	bool was_refused = span->refused;

	span->refused |= first >= PIECES;
	TRY(put_frames(stacks, stacks->model->sites[site].frame, ns, span, gather));
	if (span->refused)
		stacks->pieces.count = first;
	span->first = (uint32_t)first;
	span->count = (uint32_t)(stacks->pieces.count - first);
	return span->count || span->refused > was_refused ? vector_push(&stacks->spanned, span)
							  : NULL;
}
