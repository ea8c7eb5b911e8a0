#include "report/lineage.h"

#include <inttypes.h>
#include <signal.h>

#include "analyze/lineage.h"
#include "base/units.h"
#include "report/words.h"

#define DEEPEST        12u /* columns of indentation */
#define COMMAND_COLUMN 57u
#define ID_WIDTH       7u
#define COMMAND_LEAST  10u

static void put_end(char *buffer, size_t size, const struct analyze_process *process)
{
	const char *name = process->end == ANALYZE_SIGNALED && process->end_code < NSIG
				   ? sigabbrev_np((int)process->end_code)
				   : NULL;

	if (process->end == ANALYZE_EXITED && process->end_code != ANALYZE_UNKNOWN)
		snprintf(buffer, size, "exit %" PRIu64, process->end_code);
	else if (process->end == ANALYZE_EXITED)
		snprintf(buffer, size, "exited");
	else if (name)
		snprintf(buffer, size, "SIG%s", name);
	else if (process->end == ANALYZE_SIGNALED)
		snprintf(buffer, size, "signal %" PRIu64, process->end_code);
	else
		snprintf(buffer, size, "%s", report_end_word(process->end));
}

static void put_ends(char *buffer, size_t size, const struct analyze_model *model,
		     const struct analyze_kin *line)
{
	char number[UNITS_BYTES];

	if (!line->ends_differ)
		put_end(buffer, size, &model->processes[line->process]);
	else if (line->failed)
		snprintf(buffer, size, "%s failed", units_format_short(number, line->failed));
	else
		snprintf(buffer, size, "ended");
}

static void put_number(struct strbuf *out, const struct analyze_process *process,
		       const struct analyze_kin *line)
{
	char text[UNITS_BYTES + 1], number[UNITS_BYTES];

	if (line->count > 1)
		snprintf(text, sizeof(text), "x %s", units_format_short(number, line->count));
	else if (process->pid == ANALYZE_UNKNOWN)
		snprintf(text, sizeof(text), "-");
	else
		snprintf(text, sizeof(text), "%" PRIu64, process->pid);
	strbuf_printf(out, "%7s", text);
}

static const char *format_time(char buffer[UNITS_BYTES], uint64_t ns)
{
	return ns == ANALYZE_UNKNOWN ? "-" : units_format_duration(buffer, ns);
}

static void put_line(struct strbuf *out, const struct analyze_model *model,
		     const struct analyze_kin *line, const struct report_lineage *options)
{
	const struct analyze_process *process = &model->processes[line->process];
	char peak[UNITS_BYTES], end[UNITS_BYTES + 8], start[UNITS_BYTES], lasted[UNITS_BYTES];
	char how[16];
	size_t columns =
		report_columns(options->style) - COMMAND_COLUMN - (options->has_ids ? ID_WIDTH : 0);
	size_t deepest = columns - COMMAND_LEAST < DEEPEST ? columns - COMMAND_LEAST : DEEPEST;
	size_t indent = line->depth < deepest ? line->depth : deepest;
	CLEANUP_STRBUF struct strbuf name = STRBUF_EMPTY;

	snprintf(how, sizeof(how), line->step == line->process ? "%s" : "%s+exec",
		 report_how_word(model->processes[line->step].how));
	put_ends(end, sizeof(end), model, line);
	if (options->has_ids)
		strbuf_printf(out, "%6" PRIu32 " ", process->id);
	strbuf_printf(out, "%9s ", units_format_size(peak, line->peak_bytes));
	put_number(out, process, line);
	strbuf_printf(out, "  %-9s %-8s %8s %8s  ", how, end, format_time(start, line->start_ns),
		      format_time(lasted, line->duration_ns));
	strbuf_fill(out, ' ', indent);
	if (line->count > 1) {
		report_put_program_name(&name, process);
		report_put_cut(out, &name, columns - indent);
	} else {
		report_put_command(out, process, columns - indent);
	}
	strbuf_append_char(out, '\n');
}

struct error *report_put_lineage(struct strbuf *out, const struct analyze_model *model,
				 const struct report_lineage *options)
{
	struct analyze_lineage lineage;
	char size[UNITS_BYTES];

	TRY(analyze_lineage_make(model, options->limit, &lineage));
	report_colour_on(out, options->style, REPORT_DIM);
	if (options->has_ids)
		strbuf_printf(out, "%6s ", "id");
	strbuf_printf(out, "%9s %7s  %-9s %-8s %8s %8s  command", "peak", "pid", "came", "end",
		      "start", "lasted");
	report_colour_off(out, options->style);
	strbuf_append_char(out, '\n');
	for (size_t i = 0; i < lineage.count; i++)
		put_line(out, model, &lineage.items[i], options);
	if (lineage.others) {
		if (options->has_ids)
			strbuf_fill(out, ' ', ID_WIDTH);
		strbuf_printf(out, "%9s ", units_format_size(size, lineage.others_peak_bytes));
		strbuf_append(out, "at most: ");
		report_put_plural(out, lineage.others, "other: --processes all\n",
				  "others: --processes all\n");
	}
	analyze_lineage_free(&lineage);
	return NULL;
}
