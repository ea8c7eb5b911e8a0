#include "report/head.h"

#include <inttypes.h>

#include "base/units.h"
#include "report/words.h"

#define PREFIX             "mallograph: "
#define LABEL_WIDTH        10u
#define VALUE_WIDTH        10u
#define RSS_COLUMN         56u
#define MAPPED_LEAST       (UINT64_C(1) << 20)
#define OTHER_NAME_COLUMNS 24u
#define OTHERS_INDENT      (2 + LABEL_WIDTH + 1)

/* A child of fork frees blocks that are its parent's. */
bool report_has_unknown_frees(const struct analyze_process *process)
{
	return process->unknown_frees && process->how != ANALYZE_FORK;
}

bool report_is_complete(const struct analyze_process *process)
{
	for (size_t i = 0; i < process->loss_count; i++)
		if (report_is_loss(&process->losses[i]))
			return false;
	return !report_has_unknown_frees(process);
}

uint64_t report_left_out(const struct analyze_process *process)
{
	uint64_t count = 0;

	for (size_t i = 0; i < process->loss_count; i++)
		if (strcmp(process->losses[i].kind.bytes, "left_out") == 0)
			count += process->losses[i].count;
	return count;
}

void report_put_some(struct strbuf *out, uint64_t count, const char *one, const char *many)
{
	if (count == 0)
		return;
	strbuf_append(out, ", ");
	report_put_plural(out, count, one, many);
}

/* The last one's file's name, by which its module goes, where it was called by another. */
static void put_other_name(struct strbuf *out, const struct analyze_process *typed,
			   const struct analyze_process *last)
{
	size_t at = 0, length;
	const char *first = report_next_argument(&typed->argv, &at, &length);
	struct analyze_text name = report_base_name(&last->exe);
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	if (name.length == 0 || (!first && typed == last))
		return;
	struct analyze_text called = report_base_name(
		first ? &(struct analyze_text){.bytes = first, .length = length} : &typed->exe);

	if (called.length == name.length && memcmp(called.bytes, name.bytes, name.length) == 0)
		return;
	strbuf_printable(&text, name.bytes, name.length);
	report_put_cut(out, &text, OTHER_NAME_COLUMNS);
	strbuf_append(out, ", ");
}

/* From the typed command's start on, whatever it went on as. */
static uint64_t whole_duration(const struct analyze_process *typed,
			       const struct analyze_process *last)
{
	uint64_t before = last->start_ns > typed->start_ns ? last->start_ns - typed->start_ns : 0;

	if (last->duration_ns == ANALYZE_UNKNOWN)
		return ANALYZE_UNKNOWN;
	return last->duration_ns + before;
}

void report_put_facts(struct strbuf *out, const struct analyze_model *model)
{
	const struct analyze_process *typed = &model->processes[0];
	const struct analyze_process *last = analyze_main_process(model);
	uint64_t ns = whole_duration(typed, last);
	char duration[UNITS_BYTES];

	if (last->pid != ANALYZE_UNKNOWN)
		strbuf_printf(out, "pid %" PRIu64 ", ", last->pid);
	put_other_name(out, typed, last);
	report_put_end(out, last);
	if (ns != ANALYZE_UNKNOWN)
		strbuf_printf(out, ", %s", units_format_duration(duration, ns));
}

void report_put_program_lines(struct strbuf *out, const struct analyze_model *model,
			      const struct strbuf *facts, const struct report_style *style)
{
	strbuf_append(out, PREFIX);
	report_put_command(out, &model->processes[0], report_columns(style) - strlen(PREFIX));
	strbuf_append_char(out, '\n');
	strbuf_fill(out, ' ', REPORT_HEAD_INDENT);
	if (facts->failed)
		out->failed = true;
	else
		report_put_wrapped(out, facts->text, REPORT_HEAD_INDENT, report_columns(style));
	strbuf_append_char(out, '\n');
}

static void put_label(struct strbuf *out, const struct report_style *style,
		      enum report_colour colour, const char *label)
{
	strbuf_append(out, "  ");
	report_put_coloured(out, style, colour, label);
	strbuf_fill(out, ' ', LABEL_WIDTH - strlen(label));
}

/* A size after its label, right-aligned. */
void report_put_size(struct strbuf *out, const struct report_style *style, const char *label,
		     uint64_t bytes)
{
	char text[UNITS_BYTES];
	size_t length;

	units_format_size(text, bytes);
	length = strlen(text);
	put_label(out, style, REPORT_HEADING, label);
	strbuf_fill(out, ' ', length < VALUE_WIDTH ? VALUE_WIDTH - length : 0);
	report_put_coloured(out, style, REPORT_FIGURE, text);
	strbuf_append(out, "  ");
}

static void put_peak(struct strbuf *out, const struct analyze_process *process,
		     const struct report_style *style)
{
	CLEANUP_STRBUF struct strbuf line = STRBUF_EMPTY;
	char text[UNITS_BYTES];
	size_t column;

	report_put_size(out, style, "PEAK", process->counts.peak_bytes);
	if (process->peak_error)
		strbuf_printf(&line, "(+/- %s) ", units_format_size(text, process->peak_error));
	if (process->peak_time_ns != ANALYZE_UNKNOWN)
		strbuf_printf(&line, "at %s ", units_format_duration(text, process->peak_time_ns));
	strbuf_append(&line, "in ");
	report_put_blocks(&line, process->counts.peak_blocks);
	column = 2 + LABEL_WIDTH + VALUE_WIDTH + 2 + line.length;
	if (process->rss_peak != ANALYZE_UNKNOWN) {
		size_t gap = column + 2 < RSS_COLUMN ? RSS_COLUMN - column : 2;

		units_format_size(text, process->rss_peak);
		if (column + gap + strlen("RSS peak ") + strlen(text) > report_columns(style)) {
			strbuf_append_char(&line, '\n');
			gap = 2 + LABEL_WIDTH + VALUE_WIDTH + 2;
		}
		strbuf_fill(&line, ' ', gap);
		strbuf_printf(&line, "RSS peak %s", text);
	}
	if (line.failed)
		out->failed = true;
	else
		strbuf_append(out, line.text);
	strbuf_append_char(out, '\n');
}

/* After a stop frees are not seen either. */
static bool was_stopped(const struct analyze_process *process)
{
	for (size_t i = 0; i < process->loss_count; i++)
		if (strncmp(process->losses[i].kind.bytes, "stopped_", strlen("stopped_")) == 0)
			return true;
	return false;
}

static void put_live(struct strbuf *out, const struct analyze_process *process,
		     const struct report_style *style)
{
	const struct analyze_counts *counts = &process->counts;
	bool running = process->end == ANALYZE_RUNNING;
	const char *label = was_stopped(process) ? "AT STOP" : running ? "LIVE NOW" : "AT END";
	char text[UNITS_BYTES];

	report_put_size(out, style, label, counts->live_bytes);
	strbuf_append(out, "in ");
	report_put_blocks(out, counts->live_blocks);
	if (running && (process->live_bytes_low != counts->live_bytes ||
			process->live_blocks_low != counts->live_blocks)) {
		strbuf_printf(out, ", at least %s in ",
			      units_format_size(text, process->live_bytes_low));
		report_put_blocks(out, process->live_blocks_low);
	}
	if (!running && counts->live_blocks == 0 && counts->allocations)
		strbuf_append(out, ": everything was freed");
	strbuf_append_char(out, '\n');
}

void report_put_allocated(struct strbuf *out, const struct analyze_counts *counts, uint64_t failed,
			  const struct report_style *style)
{
	char text[UNITS_BYTES];

	put_label(out, style, REPORT_HEADING, "ALLOCATED");
	strbuf_append_char(out, ' ');
	report_put_plural(out, counts->allocations, "time", "times");
	strbuf_printf(out, ", %s", units_format_size(text, counts->allocated_bytes));
	if (counts->allocations) {
		strbuf_printf(out, "; %s temporary (", units_format_count(text, counts->temporary));
		report_put_small_percent(out, counts->temporary, counts->allocations);
		strbuf_append(out, " %)");
	}
	if (failed)
		strbuf_printf(out, "; %s failed", units_format_count(text, failed));
	strbuf_append_char(out, '\n');
}

static void put_inherited(struct strbuf *out, const struct analyze_process *process,
			  const struct report_style *style)
{
	if (!process->inherited_frees || process->inherited_frees == ANALYZE_UNKNOWN)
		return;
	put_label(out, style, REPORT_HEADING, "INHERITED");
	strbuf_append_char(out, ' ');
	report_put_plural(out, process->inherited_frees, "block", "blocks");
	strbuf_append(out, " it had from its parent freed, counted nowhere else\n");
}

void report_put_loss_line(struct strbuf *out, const struct strbuf *text, bool first,
			  const struct report_style *style)
{
	if (text->failed) {
		out->failed = true;
		return;
	}
	put_label(out, style, REPORT_WARNING, first ? "NOT SEEN" : "");
	strbuf_append_char(out, ' ');
	report_put_wrapped(out, text->text, 2 + LABEL_WIDTH + 1, report_columns(style));
	strbuf_append_char(out, '\n');
}

static void put_losses(struct strbuf *out, const struct analyze_process *process,
		       const struct report_style *style)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	bool first = true;

	for (size_t i = 0; i < process->loss_count; i++) {
		if (!report_is_loss(&process->losses[i]))
			continue;
		strbuf_clear(&text);
		report_put_loss(&text, &process->losses[i]);
		report_put_loss_line(out, &text, first, style);
		first = false;
	}
	if (report_has_unknown_frees(process)) {
		strbuf_clear(&text);
		report_put_loss(&text, &((struct analyze_loss){
					       .kind = {"unknown_frees", strlen("unknown_frees")},
					       .count = process->unknown_frees,
				       }));
		report_put_loss_line(out, &text, first, style);
	}
}

void report_put_head(struct strbuf *out, const struct analyze_model *model,
		     const struct report_style *style)
{
	const struct analyze_process *process = analyze_main_process(model);
	CLEANUP_STRBUF struct strbuf facts = STRBUF_EMPTY;

	report_put_facts(&facts, model);
	strbuf_append(&facts, ", ");
	report_put_plural(&facts, process->threads, "thread", "threads");
	strbuf_append(&facts, report_is_complete(process) ? ", complete" : ", not complete");
	report_put_some(&facts, report_left_out(process), "process left out as asked",
			"processes left out as asked");
	report_put_program_lines(out, model, &facts, style);
	strbuf_append_char(out, '\n');
	put_peak(out, process, style);
	put_live(out, process, style);
	report_put_allocated(out, &process->counts, process->failed, style);
	put_inherited(out, process, style);
	put_losses(out, process, style);
}

/* What follows a label, broken into lines. */
static void put_value(struct strbuf *out, const struct strbuf *text, size_t indent,
		      const struct report_style *style)
{
	if (text->failed)
		out->failed = true;
	else
		report_put_wrapped(out, text->text, indent, report_columns(style));
	strbuf_append_char(out, '\n');
}

void report_put_mapped(struct strbuf *out, const struct analyze_process *process,
		       const struct analyze_timeline *timeline, bool is_named,
		       const struct report_style *style)
{
	uint64_t most = process->mapped_bytes == ANALYZE_UNKNOWN ? 0 : process->mapped_bytes;
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	for (size_t i = 0; i < timeline->count; i++)
		if (timeline->snaps[i].mapped > most)
			most = timeline->snaps[i].mapped;
	if (process->rss_peak == ANALYZE_UNKNOWN || most < process->counts.peak_bytes / 2 ||
	    process->rss_peak / 2 < process->counts.peak_bytes || most < MAPPED_LEAST)
		return;
	report_put_size(out, style, "MAPPED", most);
	strbuf_append(&text, "at most, by ");
	if (is_named) {
		report_put_program_name(&text, process);
		strbuf_append(&text, "'s");
	} else {
		strbuf_append(&text, "its");
	}
	strbuf_append(&text, " own mmap calls: they are no allocations");
	put_value(out, &text, REPORT_VALUE_INDENT, style);
}

void report_put_others(struct strbuf *out, const struct analyze_model *model,
		       const struct analyze_process *process, const struct report_style *style)
{
	const struct analyze_process *largest = NULL;
	size_t others = 0, incomplete = 0, running = 0, killed = 0;
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	char size[UNITS_BYTES];

	for (size_t i = 0; i < model->process_count; i++) {
		const struct analyze_process *other = &model->processes[i];

		if (other == process)
			continue;
		others++;
		incomplete += !report_is_complete(other);
		running += other->end == ANALYZE_RUNNING;
		killed += other->end == ANALYZE_SIGNALED;
		if (!largest || other->counts.peak_bytes > largest->counts.peak_bytes)
			largest = other;
	}
	if (!largest)
		return;
	put_label(out, style, REPORT_HEADING, "PROCESSES");
	strbuf_append_char(out, ' ');
	report_put_plural(&text, others, "more was recorded", "more were recorded");
	if (incomplete == others)
		strbuf_append(&text, ", not completely");
	else if (incomplete)
		strbuf_printf(&text, ", %zu of them not completely", incomplete);
	report_put_some(&text, running, "still runs", "still run");
	report_put_some(&text, killed, "died of a signal", "died of signals");
	strbuf_append(&text, ": mallograph report");
	put_value(out, &text, OTHERS_INDENT, style);
	if (largest->counts.peak_bytes <= process->counts.peak_bytes)
		return;
	strbuf_clear(&text);
	strbuf_append(&text, "the largest: ");
	report_put_program(&text, largest);
	strbuf_printf(&text, ", peak %s", units_format_size(size, largest->counts.peak_bytes));
	strbuf_fill(out, ' ', OTHERS_INDENT);
	put_value(out, &text, OTHERS_INDENT, style);
}
