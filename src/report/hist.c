/* Histograms of sizes, one or one each. */
#include "report/report.h"

#include "analyze/groups.h"
#include "report/bars.h"
#include "report/words.h"

static void put_label(struct strbuf *out, const struct analyze_model *model,
		      const struct analyze_distribution *of, enum analyze_by by)
{
	const char *called;

	if (of->is_others) {
		report_put_plural(out, of->merged, "other", "others");
		return;
	}
	switch (by) {
	case ANALYZE_BY_SITE:
		report_put_name(out, model, of->title);
		if (of->caller) {
			strbuf_append(out, " < ");
			report_put_name(out, model, of->caller);
		}
		break;
	case ANALYZE_BY_MODULE:
		if (of->module)
			report_put_module(out, model, of->module);
		else
			strbuf_append(out, "[not known]");
		break;
	case ANALYZE_BY_THREAD:
		if (of->thread.length)
			strbuf_printable(out, of->thread.bytes, of->thread.length);
		else
			strbuf_append(out, "[no name]");
		break;
	case ANALYZE_BY_PROCESS:
		report_put_program(out, &model->processes[of->process]);
		break;
	case ANALYZE_BY_PROGRAM:
		report_put_program_name(out, &model->processes[of->process]);
		break;
	case ANALYZE_BY_FUNCTION:
		called = analyze_api_name(of->api);
		strbuf_append(out, called ? called : "[not known]");
		break;
	default:
		break;
	}
}

static struct error *make_buckets(const struct analyze_distribution *of,
				  const struct report_hist *options, struct analyze_buckets *ret)
{
	return options->linear ? analyze_lquantize(of, options->linear, ret)
			       : analyze_quantize(of, ret);
}

static struct error *put_distribution(struct strbuf *out, const struct analyze_model *model,
				      const struct analyze_distribution *of,
				      const struct report_hist *options, bool *is_moved)
{
	CLEANUP_STRBUF struct strbuf label = STRBUF_EMPTY;
	struct analyze_buckets buckets = {0};
	struct error *error = make_buckets(of, options, &buckets);

	if (!error) {
		put_label(&label, model, of, options->by);
		if (label.length)
			report_put_coloured(out, &options->style, REPORT_HEADING, label.text);
		strbuf_append(out, label.length ? "\n" : "");
		report_put_bars(out, "",
				&(struct report_bars){
					.buckets = &buckets,
					.total = of->total,
					.is_linear = options->linear,
					.bytes = options->bytes,
					.style = &options->style,
				});
		out->failed |= label.failed;
		*is_moved |= buckets.is_moved;
	}
	analyze_buckets_free(&buckets);
	return error;
}

static struct error *print(const struct analyze_model *model,
			   const struct analyze_distributions *distributions,
			   const struct report_hist *options, FILE *out)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	bool is_moved = false;

	if (distributions->count == 0)
		strbuf_append(&text, options->bytes ? "No bytes were allocated.\n"
						    : "Nothing was allocated.\n");
	for (size_t i = 0; i < distributions->count; i++) {
		strbuf_append(&text, i ? "\n" : "");
		TRY(put_distribution(&text, model, &distributions->items[i], options, &is_moved));
		TRY(report_flush(&text, out));
	}
	if (is_moved)
		strbuf_append(&text, "\nSizes are kept in classes, four to a power of two: bounds "
				     "moved to theirs.\n");
	return report_flush(&text, out);
}

struct error *report_hist_print(struct analyze_model *model, const struct report_hist *options,
				FILE *out)
{
	struct analyze_distributions distributions;

	TRY(analyze_distributions_make(model,
				       &((struct analyze_distributions_options){
					       .process = ANALYZE_ALL_PROCESSES,
					       .by = options->by,
					       .bytes = options->bytes,
					       .limit = options->limit,
				       }),
				       &distributions));
	struct error *error = print(model, &distributions, options, out);

	analyze_distributions_free(&distributions);
	return error;
}
