/* Every block still live, in the listing form of jmprof. */
#include "report/report.h"

#include <inttypes.h>
#include <string.h>

#include "analyze/blocks.h"
#include "report/gather.h"
#include "report/stacks.h"
#include "report/words.h"

struct listing {
	const struct analyze_process *process;
	struct analyze_listing *source;
	struct analyze_blocks blocks;
	struct report_stacks stacks;
	struct strbuf text;
	struct report_gather gather;
};

static struct error *put_block(struct listing *listing, const struct analyze_block *block)
{
	char line[160]; /* four numbers of at most 20 digits, and words */
	char *at = stpcpy(line, "\n  ~ alloc #");

	if (block->number == ANALYZE_UNKNOWN)
		*at++ = '?';
	else
		at = report_put_decimal(at, block->number);
	if (block->born_ns == ANALYZE_UNKNOWN) {
		at = stpcpy(at, " (! ?");
	} else {
		unsigned int us = (unsigned int)(block->born_ns / 1000 % 1000);

		at = report_put_decimal(stpcpy(at, " (! "), block->born_ns / 1000000);
		*at++ = '.';
		*at++ = (char)('0' + us / 100);
		*at++ = (char)('0' + us / 10 % 10);
		*at++ = (char)('0' + us % 10);
		at = stpcpy(at, " ms");
	}
	at = report_put_decimal(stpcpy(at, ") -> ["), block->size);
	at = report_put_hex(stpcpy(at, " bytes @ 0x"), block->address);
	at = stpcpy(at, "]:\n");
	TRY(report_gather_copy(&listing->gather, line, (size_t)(at - line)));
	if (block->site == 0)
		return report_stacks_put_unknown(&listing->gather);
	return report_stacks_put(&listing->stacks, block->site - 1, block->born_ns,
				 &listing->gather);
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

static struct error *print_process(struct listing *listing)
{
	put_summary(listing);
	TRY(report_flush(&listing->text, listing->gather.out));
	for (size_t i = 0; i < listing->blocks.count; i++)
		TRY(put_block(listing, &listing->blocks.items[i]));
	return report_gather_flush(&listing->gather);
}

static struct error *print_processes(struct listing *listing, struct analyze_model *model)
{
	const struct analyze_process *main = analyze_main_process(model);
	struct error *error = analyze_listing_open(model, &listing->source);
	bool first = true;

	for (uint32_t i = 0; i < model->process_count && !error; i++) {
		listing->process = &model->processes[i];
		error = analyze_listing_next(listing->source, i, &listing->blocks);
		if (!error && (listing->blocks.count || listing->process == main)) {
			strbuf_append(&listing->text, first ? "" : "\n");
			first = false;
			report_stacks_begin(&listing->stacks, &listing->blocks);
			error = print_process(listing);
		}
		analyze_blocks_free(&listing->blocks);
	}
	if (!error && first)
		strbuf_append(&listing->text, "Nothing was recorded.\n");
	return error ? error : report_flush(&listing->text, listing->gather.out);
}

struct error *report_blocks_print(struct analyze_model *model, FILE *out)
{
	struct listing *listing = calloc(1, sizeof(*listing));
	struct error *error;

	if (!listing)
		return error_no_memory();
	listing->gather.out = out;
	error = report_stacks_init(&listing->stacks, model);
	if (!error)
		error = print_processes(listing, model);
	analyze_listing_close(listing->source);
	report_stacks_free(&listing->stacks);
	strbuf_free(&listing->text);
	free(listing);
	return error;
}
