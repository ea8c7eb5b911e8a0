/* What a profile says of itself. */
#include "report/report.h"

#include <inttypes.h>
#include <time.h>

#include "analyze/info.h"
#include "analyze/together.h"
#include "base/units.h"
#include "report/head.h"
#include "report/lineage.h"
#include "report/words.h"

#define LABEL_WIDTH 11u
#define INDENT      19u /* of what is below a module's name */
#define SOURCES     20u
#define LOSSES      50u /* processes whose losses are told */

static void put_label(struct strbuf *out, const struct report_style *style, const char *label)
{
	report_put_coloured(out, style, REPORT_HEADING, label);
	strbuf_fill(out, ' ', strlen(label) < LABEL_WIDTH ? LABEL_WIDTH - strlen(label) : 1);
}

static void put_text(struct strbuf *out, const struct analyze_text *text)
{
	strbuf_printable(out, text->bytes, text->length);
}

static void put_origin(struct strbuf *out, const struct analyze_model *model,
		       const struct analyze_info *info, const struct report_style *style)
{
	time_t seconds = (time_t)(model->start_unix_ns / 1000000000);
	struct tm utc;
	char text[64];

	put_label(out, style, "RECORDED");
	if (model->start_unix_ns && gmtime_r(&seconds, &utc) &&
	    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &utc))
		strbuf_append(out, text);
	else
		strbuf_append(out, "at a time not known");
	if (info->host) {
		strbuf_append(out, " on ");
		strbuf_printable(out, info->host, strlen(info->host));
	}
	if (info->tool) {
		strbuf_append(out, ", by ");
		strbuf_printable(out, info->tool, strlen(info->tool));
	}
	strbuf_append(out, model->is_finished ? "\n" : "; not written to its end\n");
}

static void put_contents(struct strbuf *out, const struct analyze_model *model,
			 const struct analyze_info *info, const struct report_style *style)
{
	size_t processes = analyze_process_count(model);
	char number[UNITS_BYTES];

	put_label(out, style, "HOLDS");
	if (processes != model->process_count) {
		report_put_plural(out, model->process_count, "program", "programs");
		strbuf_append(out, " in ");
	}
	report_put_plural(out, processes, "process", "processes");
	strbuf_append(out, ", ");
	report_put_plural(out, model->site_count, "site", "sites");
	strbuf_printf(out, " in %s frames,\n%*s",
		      units_format_count(number, model->frame_count - 1), (int)LABEL_WIDTH, "");
	report_put_plural(out, info->snaps, "snapshot", "snapshots");
	strbuf_append(out, ", ");
	report_put_plural(out, info->blocks, "live block listed", "live blocks listed");
	strbuf_append_char(out, '\n');
}

static void put_loss(struct strbuf *out, const struct analyze_process *process,
		     const struct analyze_loss *loss, const struct report_style *style)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	strbuf_printf(&text, "%s of %" PRIu32 ": ", report_is_loss(loss) ? "not seen" : "note",
		      process->id);
	report_put_loss(&text, loss);
	if (text.failed) {
		out->failed = true;
		return;
	}
	strbuf_fill(out, ' ', 2);
	report_put_wrapped(out, text.text, 4, report_columns(style));
	strbuf_append_char(out, '\n');
}

/* What was not seen, of each that has some; of many the first. */
static void put_losses(struct strbuf *out, const struct analyze_model *model,
		       const struct report_style *style)
{
	static const struct analyze_text unknown = {"unknown_frees", 13};
	size_t told = 0, left = 0;

	for (size_t i = 0; i < model->process_count; i++) {
		const struct analyze_process *process = &model->processes[i];
		bool has_unknown = report_has_unknown_frees(process);

		if (process->loss_count == 0 && !has_unknown)
			continue;
		if (told == LOSSES) {
			left++;
			continue;
		}
		told++;
		for (size_t j = 0; j < process->loss_count; j++)
			put_loss(out, process, &process->losses[j], style);
		if (has_unknown)
			put_loss(out, process,
				 &((struct analyze_loss){.kind = unknown,
							 .count = process->unknown_frees}),
				 style);
	}
	if (left) {
		strbuf_append(out, "  and of ");
		report_put_plural(out, left, "process", "processes");
		strbuf_append(out, " more: report --json\n");
	}
}

static void put_inherited(struct strbuf *out, const struct analyze_model *model)
{
	uint64_t frees = 0, processes = 0;

	for (size_t i = 0; i < model->process_count; i++) {
		uint64_t count = model->processes[i].inherited_frees;

		if (count && count != ANALYZE_UNKNOWN) {
			frees += count;
			processes++;
		}
	}
	if (!frees)
		return;
	strbuf_append(out, "  note: ");
	report_put_plural(out, frees, "block", "blocks");
	strbuf_append(out, " of a parent freed by ");
	report_put_plural(out, processes, "forked process", "forked processes");
	strbuf_append_char(out, '\n');
}

/* What it was merged from. */
static void put_sources(struct strbuf *out, const struct analyze_model *model,
			const struct report_style *style)
{
	for (size_t i = 0; i < model->source_count && i < SOURCES; i++) {
		const struct analyze_source *source = &model->sources[i];

		put_label(out, style, i ? "" : "MERGED");
		strbuf_append(out, i ? "     " : "from ");
		put_text(out, &source->file);
		if (source->rank != ANALYZE_UNKNOWN)
			strbuf_printf(out, ", rank %" PRIu64, source->rank);
		if (source->host.length) {
			strbuf_append(out, ", ");
			put_text(out, &source->host);
		}
		strbuf_append_char(out, '\n');
	}
	if (model->source_count > SOURCES)
		strbuf_printf(out, "%*s     and %zu more\n", (int)LABEL_WIDTH, "",
			      model->source_count - (size_t)SOURCES);
}

static struct error *put_processes(struct strbuf *out, const struct analyze_model *model,
				   size_t limit, const struct report_style *style)
{
	const struct report_lineage options = {.limit = limit, .has_ids = true, .style = style};

	strbuf_append_char(out, '\n');
	report_put_coloured(out, style, REPORT_HEADING, "PROCESSES");
	strbuf_append_char(out, '\n');
	TRY(report_put_lineage(out, model, &options));
	put_losses(out, model, style);
	put_inherited(out, model);
	return NULL;
}

static const char *symbols_word(enum analyze_symbols symbols)
{
	switch (symbols) {
	case ANALYZE_SYMBOLS_FULL:
		return "full";
	case ANALYZE_SYMBOLS_LINES:
		return "lines";
	case ANALYZE_SYMBOLS_SYMTAB:
		return "symtab";
	case ANALYZE_SYMBOLS_PENDING:
		return "pending";
	case ANALYZE_SYMBOLS_NONE:
	default:
		return "none";
	}
}

/* What no stack is in nobody looked for. */
static bool is_used(const struct analyze_model *model, uint32_t module)
{
	for (size_t i = 1; i < model->place_count; i++)
		if (model->places[i].module == module)
			return true;
	return false;
}

static void put_symbols_word(struct strbuf *out, const struct analyze_model *model, uint32_t module)
{
	const struct analyze_module *is = &model->modules[module];
	const char *word = is->is_file ? symbols_word(is->symbols) : "";

	if (is->is_file && is->symbols == ANALYZE_SYMBOLS_PENDING && !is_used(model, module))
		word = "unused";
	strbuf_printf(out, "%-8s", word);
}

static void put_below(struct strbuf *out, const char *word, const struct analyze_text *text)
{
	if (text->length == 0)
		return;
	strbuf_printf(out, "\n%*s%s", (int)INDENT, "", word);
	put_text(out, text);
}

static void put_reason(struct strbuf *out, const struct report_style *style,
		       const struct analyze_text *text)
{
	CLEANUP_STRBUF struct strbuf line = STRBUF_EMPTY;

	if (text->length == 0)
		return;
	put_text(&line, text);
	if (line.failed) {
		out->failed = true;
		return;
	}
	strbuf_printf(out, "\n%*s", (int)INDENT, "");
	report_put_wrapped(out, line.text, INDENT, report_columns(style));
}

static void put_modules(struct strbuf *out, const struct analyze_model *model,
			const struct report_style *style)
{
	bool first = true;

	for (uint32_t i = 1; i < model->module_count; i++) {
		const struct analyze_module *module = &model->modules[i];

		if (!module->path.bytes && !module->reason.bytes)
			continue;
		strbuf_append(out, first ? "\n" : "");
		put_label(out, style, first ? "MODULES" : "");
		first = false;
		put_symbols_word(out, model, i);
		if (module->path.bytes)
			put_text(out, &module->path);
		else
			report_put_module(out, model, i);
		put_below(out, "build-id ", &module->build_id);
		put_below(out, "from ", &module->debug_file);
		put_reason(out, style, &module->reason);
		strbuf_append_char(out, '\n');
	}
}

struct error *report_info_print(struct analyze_model *model, const char *path,
				const struct report_options *options, FILE *out)
{
	const struct report_style *style = &options->style;
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	struct analyze_info info;

	TRY(analyze_info_load(model, &info));
	put_label(&text, style, "PROFILE");
	strbuf_printable(&text, path, strlen(path));
	strbuf_append_char(&text, '\n');
	put_origin(&text, model, &info, style);
	put_contents(&text, model, &info, style);
	put_sources(&text, model, style);
	analyze_info_free(&info);
	if (model->process_count)
		TRY(put_processes(&text, model, options->processes, style));
	put_modules(&text, model, style);
	return report_flush(&text, out);
}
