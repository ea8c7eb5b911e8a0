#include "report/bars.h"

#include <inttypes.h>

#include "base/units.h"
#include "report/words.h"

#define VALUE_WIDTH 14u
#define BAR_WIDTH   40u

static void put_bar(struct strbuf *out, uint64_t value, uint64_t total)
{
	size_t length =
		total ? (size_t)(((unsigned __int128)value * BAR_WIDTH + total / 2) / total) : 0;

	strbuf_fill(out, '@', length < BAR_WIDTH ? length : BAR_WIDTH);
	strbuf_fill(out, ' ', length < BAR_WIDTH ? BAR_WIDTH - length : 0);
}

static void put_bucket(struct strbuf *out, const struct report_bars *bars, size_t at)
{
	const struct analyze_bucket *bucket = &bars->buckets->list.items[at];
	char label[UNITS_BYTES + 4], value[UNITS_BYTES];

	if (bars->buckets->has_below && at == 0)
		snprintf(label, sizeof(label), "< %" PRIu64, bucket->high);
	else if (bars->is_linear && at + 1 == bars->buckets->list.count)
		snprintf(label, sizeof(label), ">= %" PRIu64, bucket->low);
	else
		snprintf(label, sizeof(label), "%" PRIu64, bucket->low);
	strbuf_printf(out, "%*s |", (int)VALUE_WIDTH, label);
	put_bar(out, bucket->value, bars->total);
	strbuf_printf(out, " %s\n",
		      bars->bytes ? units_format_size(value, bucket->value)
				  : units_format_count(value, bucket->value));
}

/* Empty buckets from at on. */
static size_t empty_run(const struct report_bars *bars, size_t at)
{
	size_t count = 0;

	while (at + count < bars->buckets->list.count &&
	       bars->buckets->list.items[at + count].value == 0)
		count++;
	return count;
}

void report_put_bars(struct strbuf *out, const char *heading, const struct report_bars *bars)
{
	size_t count = bars->buckets->list.count;

	report_put_coloured(out, bars->style, REPORT_HEADING, heading);
	strbuf_printf(out, "%*s  ------------- Distribution ------------- %s\n",
		      (int)(VALUE_WIDTH - strlen(heading)), "value",
		      bars->bytes ? "bytes" : "count");
	for (size_t i = 0; i < count;) {
		size_t empty = empty_run(bars, i);

		/* One before and one after what there is frame it. */
		if (bars->skips_empty && i > 0 && empty >= 2 && i + empty < count) {
			strbuf_printf(out, "%*s\n", (int)VALUE_WIDTH, "...");
			i += empty;
			continue;
		}
		put_bucket(out, bars, i++);
	}
}
