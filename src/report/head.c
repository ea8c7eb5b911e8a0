#include "report/head.h"

#include <inttypes.h>

#include "base/units.h"
#include "report/words.h"

#define PREFIX       "mallograph: "
#define INDENT       13u /* where the text after a label begins */
#define VALUE_COLUMN "%10s"
#define VALUE_WIDTH  11u /* a value after its label, with the gap behind it */
#define RSS_COLUMN   56u

const struct analyze_process *report_main_process(const struct analyze_model *model)
{
	const struct analyze_process *main = model->process_count ? &model->processes[0] : NULL;

	/* env and shell wrappers exec what one asked about. */
	for (size_t i = 1; i < model->process_count; i++)
		if (model->processes[i].how == ANALYZE_EXEC &&
		    model->processes[i].parent == main->id)
			main = &model->processes[i];
	return main;
}

/* A child of fork frees blocks that are its parent's. */
static bool has_unknown_frees(const struct analyze_process *process)
{
	return process->unknown_frees && process->how != ANALYZE_FORK;
}

static bool is_complete(const struct analyze_process *process)
{
	return process->loss_count == 0 && !has_unknown_frees(process);
}

static void put_program(struct strbuf *out, const struct analyze_process *process)
{
	char duration[UNITS_BYTES];

	strbuf_append(out, PREFIX);
	report_put_command(out, process, REPORT_COLUMNS - strlen(PREFIX));
	strbuf_append_char(out, '\n');
	strbuf_fill(out, ' ', strlen(PREFIX));
	strbuf_printf(out, "pid %" PRId32 ", ", process->pid);
	report_put_end(out, process);
	if (process->duration_ns != ANALYZE_UNKNOWN)
		strbuf_printf(out, ", %s", units_format_duration(duration, process->duration_ns));
	strbuf_append(out, ", ");
	report_put_plural(out, process->threads, "thread", "threads");
	strbuf_append(out, is_complete(process) ? ", complete\n\n" : ", not complete\n\n");
}

static void put_peak(struct strbuf *out, const struct analyze_process *process)
{
	char text[UNITS_BYTES];
	size_t start = out->length;

	strbuf_printf(out, "  %-10s" VALUE_COLUMN "  ", "PEAK",
		      units_format_size(text, process->counts.peak_bytes));
	if (process->peak_error)
		strbuf_printf(out, "(+/- %s) ", units_format_size(text, process->peak_error));
	if (process->peak_time_ns != ANALYZE_UNKNOWN)
		strbuf_printf(out, "at %s ", units_format_duration(text, process->peak_time_ns));
	strbuf_append(out, "in ");
	report_put_blocks(out, process->counts.peak_blocks);
	if (process->rss_peak != ANALYZE_UNKNOWN) {
		size_t column = out->length - start;
		size_t gap = column + 2 < RSS_COLUMN ? RSS_COLUMN - column : 2;

		units_format_size(text, process->rss_peak);
		if (column + gap + strlen("RSS peak ") + strlen(text) > REPORT_COLUMNS) {
			strbuf_append_char(out, '\n');
			gap = INDENT + VALUE_WIDTH;
		}
		strbuf_fill(out, ' ', gap);
		strbuf_printf(out, "RSS peak %s", text);
	}
	strbuf_append_char(out, '\n');
}

/* After a stop frees are not seen either. */
static bool was_stopped(const struct analyze_process *process)
{
	for (size_t i = 0; i < process->loss_count; i++)
		if (strncmp(process->losses[i].kind, "stopped_", strlen("stopped_")) == 0)
			return true;
	return false;
}

static void put_live(struct strbuf *out, const struct analyze_process *process)
{
	const struct analyze_counts *counts = &process->counts;
	bool running = process->end == ANALYZE_RUNNING;
	const char *label = was_stopped(process) ? "AT STOP" : running ? "LIVE NOW" : "AT END";
	char text[UNITS_BYTES];

	strbuf_printf(out, "  %-10s" VALUE_COLUMN "  in ", label,
		      units_format_size(text, counts->live_bytes));
	report_put_blocks(out, counts->live_blocks);
	if (running && (counts->live_bytes_low != counts->live_bytes ||
			counts->live_blocks_low != counts->live_blocks)) {
		strbuf_printf(out, ", at least %s in ",
			      units_format_size(text, counts->live_bytes_low));
		report_put_blocks(out, counts->live_blocks_low);
	}
	if (!running && counts->live_blocks == 0 && counts->allocations)
		strbuf_append(out, ": everything was freed");
	strbuf_append_char(out, '\n');
}

static void put_allocated(struct strbuf *out, const struct analyze_process *process)
{
	const struct analyze_counts *counts = &process->counts;
	char text[UNITS_BYTES];

	strbuf_printf(out, "  %-10s ", "ALLOCATED");
	report_put_plural(out, counts->allocations, "time", "times");
	strbuf_printf(out, ", %s", units_format_size(text, counts->allocated_bytes));
	if (counts->allocations) {
		strbuf_printf(out, "; %s temporary (", units_format_count(text, counts->temporary));
		report_put_percent(out, counts->temporary, counts->allocations);
		strbuf_append(out, " %)");
	}
	if (process->failed)
		strbuf_printf(out, "; %s failed", units_format_count(text, process->failed));
	strbuf_append_char(out, '\n');
}

static void put_loss_line(struct strbuf *out, const struct strbuf *text, bool first)
{
	if (text->failed) {
		out->failed = true;
		return;
	}
	strbuf_printf(out, "  %-10s ", first ? "NOT SEEN" : "");
	report_put_wrapped(out, text->text, INDENT);
	strbuf_append_char(out, '\n');
}

static void put_losses(struct strbuf *out, const struct analyze_process *process)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	bool first = true;

	for (size_t i = 0; i < process->loss_count; i++, first = false) {
		strbuf_clear(&text);
		report_put_loss(&text, &process->losses[i]);
		put_loss_line(out, &text, first);
	}
	if (has_unknown_frees(process)) {
		strbuf_clear(&text);
		report_put_plural(&text, process->unknown_frees,
				  "freed block whose allocation no hook saw",
				  "freed blocks whose allocation no hook saw");
		put_loss_line(out, &text, first);
	}
}

void report_put_head(struct strbuf *out, const struct analyze_process *process)
{
	put_program(out, process);
	put_peak(out, process);
	put_live(out, process);
	put_allocated(out, process);
	put_losses(out, process);
}

void report_put_others(struct strbuf *out, const struct analyze_model *model,
		       const struct analyze_process *process)
{
	size_t others = 0, incomplete = 0;

	for (size_t i = 0; i < model->process_count; i++) {
		if (&model->processes[i] == process)
			continue;
		others++;
		incomplete += !is_complete(&model->processes[i]);
	}
	if (others == 0)
		return;
	strbuf_printf(out, "  %-10s ", "PROCESSES");
	report_put_plural(out, others, "more was recorded", "more were recorded");
	if (incomplete == others)
		strbuf_append(out, ", not completely");
	else if (incomplete)
		strbuf_printf(out, ", %zu of them not completely", incomplete);
	strbuf_append(out, ": report --json\n");
}
