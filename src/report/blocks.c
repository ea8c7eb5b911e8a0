/* Every block still live, in the listing form of jmprof. */
#include "report/report.h"

#include <inttypes.h>

#include "analyze/blocks.h"
#include "analyze/stacks.h"
#include "report/words.h"

#define FLUSH_BYTES 65536u

struct listing {
	const struct analyze_model *model;
	const struct analyze_process *process;
	struct analyze_blocks blocks;
	char **lines; /* as they are printed, by place in the model's; NULL = not printed yet */
	bool keeps;   /* addresses are always the same */
	struct strbuf text;
	FILE *out;
};

static void put_frame(struct strbuf *out, const struct listing *listing,
		      const struct analyze_walk *walk, uint64_t ns)
{
	const struct analyze_model *model = listing->model;
	uint32_t place = model->frames[walk->frame].place;
	const struct analyze_text *path = &model->modules[model->places[place].module].path;
	bool is_named = model->names[model->lines[walk->line].name].function;
	uint64_t address;

	if (place == 0) {
		strbuf_append(out, "    @ ?: outer frames are not known\n");
		return;
	}
	if (analyze_place_address(model, &listing->blocks, place, ns, &address))
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

/* The same frames come again and again. */
static struct error *put_kept_frame(struct listing *listing, const struct analyze_walk *walk,
				    uint64_t ns)
{
	char **kept = &listing->lines[walk->line];

	if (!listing->keeps) {
		put_frame(&listing->text, listing, walk, ns);
		return NULL;
	}
	if (!*kept) {
		CLEANUP_STRBUF struct strbuf line = STRBUF_EMPTY;

		put_frame(&line, listing, walk, ns);
		*kept = strbuf_take(&line);
		if (!*kept)
			return error_no_memory();
	}
	strbuf_append(&listing->text, *kept);
	return NULL;
}

static struct error *put_stack(struct listing *listing, const struct analyze_block *block)
{
	uint32_t frame = block->site ? listing->model->sites[block->site - 1].frame : 0;
	struct analyze_walk walk = ANALYZE_WALK(listing->model, frame);

	if (frame == 0)
		strbuf_append(&listing->text, "    @ ?: the stack is not known\n");
	while (analyze_walk_next(&walk))
		TRY(put_kept_frame(listing, &walk, block->born_ns));
	return NULL;
}

static struct error *put_block(struct listing *listing, const struct analyze_block *block)
{
	struct strbuf *out = &listing->text;

	if (block->number == ANALYZE_UNKNOWN)
		strbuf_append(out, "\n  ~ alloc #? ");
	else
		strbuf_printf(out, "\n  ~ alloc #%" PRIu64 " ", block->number);
	if (block->born_ns == ANALYZE_UNKNOWN)
		strbuf_append(out, "(! ?)");
	else
		strbuf_printf(out, "(! %" PRIu64 ".%03u ms)", block->born_ns / 1000000,
			      (unsigned int)(block->born_ns / 1000 % 1000));
	strbuf_printf(out, " -> [%" PRIu64 " bytes @ 0x%" PRIx64 "]:\n", block->size,
		      block->address);
	return put_stack(listing, block);
}

static void put_summary(struct listing *listing)
{
	const struct analyze_process *process = listing->process;
	struct strbuf *out = &listing->text;

	strbuf_append(out, "> ");
	if (process->exe.length)
		strbuf_printable(out, process->exe.bytes, process->exe.length);
	else
		strbuf_append(out, "a program whose name is not known");
	strbuf_printf(out,
		      "\n\nSUMMARY:\n  %" PRIu64 " allocs, %" PRIu64 " frees (%" PRIu64
		      " bytes alloc-ed)\n",
		      process->counts.allocations, process->counts.frees,
		      process->counts.allocated_bytes);
	for (size_t i = 0; i < process->loss_count; i++)
		if (strcmp(process->losses[i].kind.bytes, "blocks_not_listed") == 0)
			strbuf_printf(out,
				      "  %" PRIu64 " more are live and not listed: of each site "
				      "the oldest and the largest\n  are (recorded with --blocks "
				      "all, every one is)\n",
				      process->losses[i].count);
	if (process->counts.live_blocks == 0)
		strbuf_append(out, "  no block is live\n");
}

static struct error *print_blocks(struct listing *listing)
{
	listing->lines = calloc(listing->model->line_count, sizeof(*listing->lines));
	if (!listing->lines)
		return error_no_memory();
	listing->keeps = true;
	for (size_t i = 0; i < listing->blocks.mapping_count; i++)
		listing->keeps &= listing->blocks.mappings[i].unloaded_ns == ANALYZE_UNKNOWN;
	put_summary(listing);
	for (size_t i = 0; i < listing->blocks.count; i++) {
		TRY(put_block(listing, &listing->blocks.items[i]));
		if (listing->text.length >= FLUSH_BYTES)
			TRY(report_flush(&listing->text, listing->out));
	}
	return report_flush(&listing->text, listing->out);
}

static struct error *print_process(struct listing *listing)
{
	struct error *error = print_blocks(listing);

	for (size_t i = 0; listing->lines && i < listing->model->line_count; i++)
		free(listing->lines[i]);
	free(listing->lines);
	listing->lines = NULL;
	return error;
}

struct error *report_blocks_print(struct analyze_model *model, FILE *out)
{
	const struct analyze_process *main = analyze_main_process(model);
	struct listing listing = {.model = model, .out = out};
	struct error *error = NULL;
	bool first = true;

	for (uint32_t i = 0; i < model->process_count && !error; i++) {
		listing.process = &model->processes[i];
		error = analyze_blocks_load(model, i, &listing.blocks);
		if (!error && (listing.blocks.count || listing.process == main)) {
			strbuf_append(&listing.text, first ? "" : "\n");
			first = false;
			error = print_process(&listing);
		}
		analyze_blocks_free(&listing.blocks);
	}
	if (!error && first) {
		strbuf_append(&listing.text, "Nothing was recorded.\n");
		error = report_flush(&listing.text, out);
	}
	strbuf_free(&listing.text);
	return error;
}
