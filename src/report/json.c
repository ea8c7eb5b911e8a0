/* The JSON report, version 1: docs/JSON.md. */
#include "report/report.h"

#include <inttypes.h>
#include <string.h>

#include "analyze/stacks.h"
#include "analyze/together.h"
#include "report/words.h"

static void put_name(struct strbuf *out, const char *name)
{
	if (out->length && out->text[out->length - 1] != '{')
		strbuf_append(out, ", ");
	strbuf_printf(out, "\"%s\": ", name);
}

static void put_number(struct strbuf *out, const char *name, uint64_t value)
{
	put_name(out, name);
	if (value == ANALYZE_UNKNOWN)
		strbuf_append(out, "null");
	else
		strbuf_printf(out, "%" PRIu64, value);
}

static void put_count(struct strbuf *out, const char *name, uint64_t value)
{
	put_name(out, name);
	strbuf_printf(out, "%" PRIu64, value);
}

static void put_seconds(struct strbuf *out, const char *name, uint64_t ns)
{
	put_name(out, name);
	if (ns == ANALYZE_UNKNOWN)
		strbuf_append(out, "null");
	else
		strbuf_printf(out, "%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
}

static void put_string(struct strbuf *out, const char *name, const char *text)
{
	put_name(out, name);
	if (text)
		strbuf_json_string(out, text, strlen(text));
	else
		strbuf_append(out, "null");
}

static void put_text(struct strbuf *out, const char *name, const struct analyze_text *text)
{
	put_name(out, name);
	if (text->length)
		strbuf_json_string(out, text->bytes, text->length);
	else
		strbuf_append(out, "null");
}

static void put_command(struct strbuf *out, const struct analyze_text *argv)
{
	size_t at = 0, length;
	const char *argument;

	put_name(out, "command");
	strbuf_append_char(out, '[');
	while ((argument = report_next_argument(argv, &at, &length)) != NULL) {
		if (argument != argv->bytes)
			strbuf_append(out, ", ");
		strbuf_json_string(out, argument, length);
	}
	strbuf_append_char(out, ']');
}

static void put_losses(struct strbuf *out, const struct analyze_process *process)
{
	put_name(out, "losses");
	strbuf_append_char(out, '[');
	for (size_t i = 0; i < process->loss_count; i++) {
		const struct analyze_loss *loss = &process->losses[i];

		strbuf_append(out, i ? ", {" : "{");
		put_text(out, "kind", &loss->kind);
		put_count(out, "count", loss->count);
		put_text(out, "detail", &loss->detail);
		strbuf_append_char(out, '}');
	}
	strbuf_append_char(out, ']');
}

static void put_process(struct strbuf *out, const struct analyze_model *model,
			const struct analyze_process *process)
{
	const struct analyze_counts *counts = &process->counts;

	strbuf_append_char(out, '{');
	put_count(out, "id", process->id);
	put_number(out, "parent", process->parent ? process->parent : ANALYZE_UNKNOWN);
	put_string(out, "how", report_how_word(process->how));
	put_number(out, "pid", process->pid);
	put_number(out, "ppid", process->ppid);
	put_text(out, "exe", &process->exe);
	put_command(out, &process->argv);
	put_name(out, "end");
	strbuf_append_char(out, '{');
	put_string(out, "kind", report_end_word(process->end));
	put_number(out, "code", process->end_code);
	strbuf_append_char(out, '}');
	put_seconds(out, "start_s", process->start_ns);
	put_seconds(out, "duration_s", process->duration_ns);
	put_count(out, "allocations", counts->allocations);
	put_count(out, "frees", counts->frees);
	put_count(out, "failed", process->failed);
	put_count(out, "unknown_frees", process->unknown_frees);
	put_number(out, "inherited_frees", process->inherited_frees);
	put_count(out, "allocated_bytes", counts->allocated_bytes);
	put_count(out, "peak_bytes", counts->peak_bytes);
	put_count(out, "peak_blocks", counts->peak_blocks);
	put_seconds(out, "peak_time_s", process->peak_time_ns);
	put_count(out, "peak_error_bytes", process->peak_error);
	put_count(out, "live_blocks", counts->live_blocks);
	put_count(out, "live_bytes", counts->live_bytes);
	if (process->end == ANALYZE_RUNNING) {
		put_count(out, "live_bytes_low", process->live_bytes_low);
		put_count(out, "live_blocks_low", process->live_blocks_low);
	}
	put_count(out, "temporary", counts->temporary);
	put_count(out, "threads", process->threads);
	put_count(out, "mapped_bytes", process->mapped_bytes);
	put_number(out, "rss_peak_bytes", process->rss_peak);
	put_count(out, "ledger_bytes", process->ledger_bytes);
	put_number(out, "tree_peak_bytes", process->tree_peak_bytes);
	put_number(out, "source",
		   model->source_count ? model->sources[process->source].id : ANALYZE_UNKNOWN);
	put_losses(out, process);
	strbuf_append_char(out, '}');
}

static void put_frame(struct strbuf *out, const struct analyze_walk *walk)
{
	const struct analyze_model *model = walk->model;
	uint32_t at = model->frames[walk->frame].place;
	const struct analyze_place *place = &model->places[at];
	const struct analyze_line *line = &model->lines[walk->line];

	strbuf_append_char(out, '{');
	put_text(out, "function", &model->texts[model->names[line->name].function]);
	put_text(out, "file", &model->texts[line->file]);
	put_number(out, "line", line->line ? line->line : ANALYZE_UNKNOWN);
	put_number(out, "column", line->column ? line->column : ANALYZE_UNKNOWN);
	put_text(out, "module", &model->modules[place->module].path);
	if (at)
		put_count(out, "offset", place->offset);
	else
		put_string(out, "offset", NULL);
	put_name(out, "inlined");
	strbuf_append(out, walk->is_inlined ? "true}" : "false}");
}

static void put_counts(struct strbuf *out, const struct analyze_counts *counts)
{
	put_count(out, "allocations", counts->allocations);
	put_count(out, "frees", counts->frees);
	put_count(out, "allocated_bytes", counts->allocated_bytes);
	put_count(out, "peak_bytes", counts->peak_bytes);
	put_count(out, "peak_blocks", counts->peak_blocks);
	put_count(out, "live_bytes", counts->live_bytes);
	put_count(out, "live_blocks", counts->live_blocks);
	put_count(out, "temporary", counts->temporary);
}

/* Of analyze_sizes_load(). */
struct sizes {
	struct analyze_size *list;
	size_t *first;
};

static void put_sizes(struct strbuf *out, const struct sizes *sizes, size_t site)
{
	size_t first = sizes->first[site];

	put_name(out, "sizes");
	strbuf_append_char(out, '[');
	for (size_t i = first; i < sizes->first[site + 1]; i++) {
		uint32_t size_class = sizes->list[i].size_class;

		strbuf_printf(out, "%s[%" PRIu64 ", %" PRIu64 ", %" PRIu64 "]",
			      i > first ? ", " : "", analyze_class_low(size_class),
			      analyze_class_low(size_class + 1), sizes->list[i].allocations);
	}
	strbuf_append_char(out, ']');
}

static void put_site(struct strbuf *out, const struct analyze_model *model, size_t at,
		     const struct sizes *sizes)
{
	const struct analyze_site *site = &model->sites[at];
	struct analyze_walk walk = ANALYZE_WALK(model, site->frame);
	bool first = true;

	strbuf_append_char(out, '{');
	put_count(out, "process", model->processes[site->process].id);
	put_string(out, "function_called", analyze_api_name(site->api));
	put_counts(out, &site->counts);
	put_sizes(out, sizes, at);
	put_name(out, "stack");
	strbuf_append_char(out, '[');
	while (analyze_walk_next(&walk)) {
		strbuf_append(out, first ? "" : ", ");
		put_frame(out, &walk);
		first = false;
	}
	strbuf_append(out, "]}");
}

static void put_source(struct strbuf *out, const struct analyze_source *source)
{
	strbuf_append_char(out, '{');
	put_count(out, "id", source->id);
	put_text(out, "file", &source->file);
	put_text(out, "host", &source->host);
	put_number(out, "rank", source->rank);
	put_number(out, "tree_peak_bytes", source->tree_peak_bytes);
	strbuf_append_char(out, '}');
}

/* All processes as one. */
static void put_tree(struct strbuf *out, const struct analyze_together *together)
{
	const struct analyze_counts *counts = &together->counts;

	strbuf_append_char(out, '{');
	put_count(out, "processes", together->process_count);
	put_count(out, "allocations", counts->allocations);
	put_count(out, "frees", counts->frees);
	put_count(out, "failed", together->failed);
	put_count(out, "allocated_bytes", counts->allocated_bytes);
	put_count(out, "peak_bytes", together->peak_low);
	put_count(out, "peak_most_bytes", together->peak_high);
	put_seconds(out, "peak_time_s", together->peak_ns);
	put_count(out, "live_bytes", counts->live_bytes);
	put_count(out, "live_blocks", counts->live_blocks);
	put_count(out, "temporary", counts->temporary);
	strbuf_append_char(out, '}');
}

static struct error *print(struct analyze_model *model, const struct report_options *options,
			   const struct sizes *sizes, const struct analyze_together *together,
			   FILE *out)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	struct analyze_counts others = {0};

	strbuf_append(&text,
		      "{\"format\": \"mallograph-report\", \"version\": 1,\n\"processes\": [");
	for (size_t i = 0; i < model->process_count; i++) {
		strbuf_append(&text, i ? ",\n" : "\n");
		TRY(report_flush(&text, out));
		put_process(&text, model, &model->processes[i]);
	}
	strbuf_append(&text, "\n],\n\"sites\": [");
	for (size_t i = 0; i < model->site_count; i++) {
		if (i >= options->sites) {
			analyze_counts_add(&others, &model->sites[i].counts);
			continue;
		}
		strbuf_append(&text, i ? ",\n" : "\n");
		TRY(report_flush(&text, out));
		put_site(&text, model, i, sizes);
	}
	strbuf_append(&text, "\n],\n\"others\": ");
	TRY(report_flush(&text, out));
	strbuf_append_char(&text, '{');
	put_counts(&text, &others);
	strbuf_append(&text, "},\n\"tree\": ");
	TRY(report_flush(&text, out));
	put_tree(&text, together);
	strbuf_append(&text, ",\n\"sources\": [");
	for (size_t i = 0; i < model->source_count; i++) {
		strbuf_append(&text, i ? ",\n" : "\n");
		TRY(report_flush(&text, out));
		put_source(&text, &model->sources[i]);
	}
	strbuf_append(&text, "]}\n");
	return report_flush(&text, out);
}

struct error *report_json_print(struct analyze_model *model, const struct report_options *options,
				FILE *out)
{
	struct analyze_together together;
	struct sizes sizes = {0};

	TRY(analyze_together_make(model, &together));
	analyze_sites_sort(model, options->order);
	struct error *error = analyze_sizes_load(model, &sizes.list, &sizes.first);

	if (!error)
		error = print(model, options, &sizes, &together, out);
	analyze_together_free(&together);

	free(sizes.list);
	free(sizes.first);
	return error;
}
