#include "report/together.h"

#include <inttypes.h>

#include "base/units.h"
#include "report/head.h"
#include "report/words.h"

#define LOSS_KINDS   32u
#define FILE_COLUMNS 24u

/* --- totals ----------------------------------------------------------------------------- */

/* "3 processes of 2 programs, 1 still runs, 1 died of a signal, 2 left out as asked" */
static void put_processes(struct strbuf *out, const struct analyze_model *model,
			  const struct analyze_together *together)
{
	size_t incomplete = 0, killed = 0;
	uint64_t left_out = 0;

	report_put_plural(out, together->process_count, "process", "processes");
	strbuf_append(out, " of ");
	report_put_plural(out, together->programs.count, "program", "programs");
	for (size_t i = 0; i < model->process_count; i++) {
		incomplete += !report_is_complete(&model->processes[i]);
		killed += model->processes[i].end == ANALYZE_SIGNALED;
		left_out += report_left_out(&model->processes[i]);
	}
	if (incomplete)
		strbuf_printf(out, ", %zu not complete", incomplete);
	else if (together->running == 0)
		strbuf_append(out, ", complete");
	report_put_some(out, together->running, "still runs", "still run");
	report_put_some(out, killed, "died of a signal", "died of signals");
	report_put_some(out, left_out, "left out as asked", "left out as asked");
}

static void put_origin(struct strbuf *out, const struct analyze_model *model)
{
	if (model->source_count > 1) {
		strbuf_fill(out, ' ', REPORT_HEAD_INDENT);
		strbuf_printf(out, "merged from %zu profiles, this the first: report --by rank\n",
			      model->source_count);
	}
	if (model->left_out) {
		strbuf_fill(out, ' ', REPORT_HEAD_INDENT);
		report_put_plural(out, model->left_out, "other process is left out\n",
				  "other processes are left out\n");
	}
	strbuf_append_char(out, '\n');
}

static void put_file(struct strbuf *out, const struct analyze_source *source)
{
	struct analyze_text name = report_base_name(&source->file);
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	strbuf_printable(&text, name.bytes ? name.bytes : "", name.length);
	report_put_cut(out, &text, FILE_COLUMNS);
}

static void put_peak(struct strbuf *out, const struct analyze_model *model,
		     const struct analyze_together *together, const struct report_style *style)
{
	const struct analyze_process *leader = &model->processes[together->leader];
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	char number[UNITS_BYTES], most[UNITS_BYTES];

	report_put_size(out, style, "TREE PEAK", together->peak_low);
	/* What reads the same says nothing. */
	bool is_bound = strcmp(units_format_size(most, together->peak_high),
			       units_format_size(number, together->peak_low)) != 0;

	/* A sum over several, or over threads, may have been reached between two looks. */
	bool is_exact = !together->is_instant && !together->peak_source && leader->peak_error == 0;

	if (!together->is_instant && is_bound)
		strbuf_append(&text, "at least, ");
	if (together->peak_ns != ANALYZE_UNKNOWN)
		strbuf_printf(&text, is_exact ? "at %s " : "seen at %s ",
			      units_format_duration(number, together->peak_ns));
	if (together->is_instant && is_bound)
		strbuf_printf(&text, "(at most %s) ", most);
	if (together->is_instant) {
		strbuf_append(&text, "in all processes together");
	} else {
		strbuf_append(&text, together->peak_source ? "in those of " : "in ");
		if (together->peak_source)
			put_file(&text, together->peak_source);
		else
			report_put_program(&text, leader);
		if (is_bound)
			strbuf_printf(&text, "; at most %s", most);
		else if (!together->peak_source)
			strbuf_append(&text, ", alone");
	}
	if (text.failed) {
		out->failed = true;
		return;
	}
	report_put_wrapped(out, text.text, REPORT_VALUE_INDENT, report_columns(style));
	strbuf_append_char(out, '\n');
}

/* What ended processes left is gone: it lives nowhere, and has a line of its own. */
static void put_live(struct strbuf *out, const struct analyze_together *together,
		     const struct report_style *style)
{
	const struct analyze_counts *counts = &together->counts;

	if (together->running) {
		report_put_size(out, style, "LIVE NOW", together->running_bytes);
		strbuf_append(out, "in ");
		report_put_blocks(out, together->running_blocks);
		strbuf_append(out, " of ");
		report_put_plural(out, together->running, "process that still runs\n",
				  "processes that still run\n");
		if (counts->live_blocks == together->running_blocks)
			return;
	}
	report_put_size(out, style, together->running ? "LEFT" : "AT END",
			counts->live_bytes - together->running_bytes);
	strbuf_append(out, "in ");
	report_put_blocks(out, counts->live_blocks - together->running_blocks);
	strbuf_append(out, together->running ? " by those that ended, summed\n"
					     : ": left by all at their ends, summed\n");
}

/* --- what was not seen ------------------------------------------------------------------ */

/* Of one kind in all processes. */
struct lost {
	struct analyze_loss loss;
	size_t processes;
};

static void add_loss(struct lost *list, size_t *count, size_t room, const struct analyze_loss *loss)
{
	size_t i = 0;

	while (i < *count && strcmp(list[i].loss.kind.bytes, loss->kind.bytes) != 0)
		i++;
	if (i == room)
		return;
	if (i == *count)
		list[(*count)++] = (struct lost){.loss = {.kind = loss->kind}};
	list[i].loss.count += loss->count;
	list[i].processes++;
	if (list[i].loss.detail.length == 0)
		list[i].loss.detail = loss->detail;
}

static void put_losses(struct strbuf *out, const struct analyze_model *model,
		       const struct report_style *style)
{
	static const struct analyze_text unknown = {"unknown_frees", 13};
	struct lost list[LOSS_KINDS];
	size_t count = 0;

	for (size_t i = 0; i < model->process_count; i++) {
		const struct analyze_process *process = &model->processes[i];

		for (size_t j = 0; j < process->loss_count; j++)
			if (report_is_loss(&process->losses[j]))
				add_loss(list, &count, LOSS_KINDS, &process->losses[j]);
		if (report_has_unknown_frees(process))
			add_loss(list, &count, LOSS_KINDS,
				 &((struct analyze_loss){.kind = unknown,
							 .count = process->unknown_frees}));
	}
	for (size_t i = 0; i < count; i++) {
		CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

		report_put_loss(&text, &list[i].loss);
		if (list[i].processes > 1)
			strbuf_printf(&text, ", in %zu processes", list[i].processes);
		report_put_loss_line(out, &text, i == 0, style);
	}
}

void report_put_tree_head(struct strbuf *out, const struct analyze_model *model,
			  const struct analyze_together *together, const struct report_style *style)
{
	CLEANUP_STRBUF struct strbuf facts = STRBUF_EMPTY;

	report_put_facts(&facts, model);
	strbuf_append(&facts, "; ");
	put_processes(&facts, model, together);
	report_put_program_lines(out, model, &facts, style);
	put_origin(out, model);
	put_peak(out, model, together, style);
	put_live(out, together, style);
	report_put_allocated(out, &together->counts, together->failed, style);
	put_losses(out, model, style);
}
