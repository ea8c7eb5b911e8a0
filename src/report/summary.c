/* What ends a run: the totals, the first few sites, and where the rest is. */
#include "report/report.h"

#include "base/strbuf.h"
#include "base/units.h"
#include "report/head.h"
#include "report/table.h"
#include "report/words.h"

#define SUMMARY_SITES 6u

static void put_saved(struct strbuf *out, const struct report_summary *options)
{
	char size[UNITS_BYTES];

	strbuf_append(out, "\nSAVED    ");
	strbuf_printable(out, options->saved_path, strlen(options->saved_path));
	if (options->saved_bytes)
		strbuf_printf(out, " (%s)", units_format_size(size, options->saved_bytes));
	strbuf_append(out, "\n         full stacks:  mallograph report ");
	strbuf_printable(out, options->saved_path, strlen(options->saved_path));
	strbuf_append_char(out, '\n');
}

struct error *report_summary_print(struct analyze_model *model,
				   const struct report_summary *options, FILE *out)
{
	const struct analyze_process *process = report_main_process(model);
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	if (!process) {
		strbuf_append(&text, "mallograph: nothing was recorded\n");
	} else {
		report_put_head(&text, process);
		report_put_others(&text, model, process);
		if (process->counts.allocations) {
			analyze_sites_sort(model, ANALYZE_BY_PEAK);
			strbuf_append(&text, "\nPEAK BY SITE\n");
			report_put_table(&text, model, process, ANALYZE_BY_PEAK, SUMMARY_SITES);
		}
	}
	if (options->saved_path)
		put_saved(&text, options);
	return report_flush(&text, out);
}
