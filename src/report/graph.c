#include "report/graph.h"

#include <inttypes.h>

#include "base/units.h"
#include "report/words.h"

#define ROWS        4u
#define LABEL_WIDTH 8u /* of a size left of the axis */
#define MARGIN      (LABEL_WIDTH + 2)
#define MAX_COLUMNS 256u
#define TICKS_LEAST 5u

/* "161 MiB", "80 MiB", "1.5 KiB": no more digits than an axis needs. */
static char *format_label(char buffer[UNITS_BYTES], uint64_t bytes)
{
	char *point, *unit;

	units_format_size(buffer, bytes);
	point = strchr(buffer, '.');
	unit = strchr(buffer, ' ');
	if (point && unit && point - buffer >= 2)
		memmove(point, unit, strlen(unit) + 1);
	return buffer;
}

struct unit {
	uint64_t ns;
	const char *name;
};

/* The largest in which the whole is three or more. */
static const struct unit *unit_of(uint64_t ns)
{
	static const struct unit units[] = {
		{UINT64_C(3600000000000), "h"},
		{UINT64_C(60000000000), "min"},
		{1000000000, "s"},
		{1000000, "ms"},
	};
	size_t i = 0;

	while (i < 3 && ns < units[i].ns * (i < 2 ? 3 : 1))
		i++;
	return &units[i];
}

/* In three digits. */
static char *format_time(char buffer[UNITS_BYTES], uint64_t ns, const struct unit *unit)
{
	double value = (double)ns / (double)unit->ns;
	int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;

	snprintf(buffer, UNITS_BYTES, "%.*f", decimals, value);
	return buffer;
}

static void put_mark(struct strbuf *out, const struct analyze_timeline *timeline, uint64_t peak_ns,
		     size_t width, const char *whose, const struct report_style *style)
{
	static const char heading[] = "LIVE HEAP";
	size_t column, used = whose ? 0 : strlen(heading);

	report_put_coloured(out, style, REPORT_HEADING, heading);
	if (whose)
		strbuf_printf(out, " of %s\n", whose);
	if (peak_ns == ANALYZE_UNKNOWN) {
		strbuf_append(out, whose ? "" : "\n");
		return;
	}
	column = MARGIN + analyze_timeline_column(timeline, peak_ns, width);
	if (column >= used + strlen(" peak ")) {
		strbuf_fill(out, ' ', column - used - strlen("peak "));
		strbuf_append(out, "peak v\n");
	} else {
		strbuf_fill(out, ' ', column - used);
		strbuf_append(out, "v peak\n");
	}
}

/* Two steps a row: '.' is a half, ':' a whole. */
static void put_row(struct strbuf *out, const uint64_t *values, size_t width, uint64_t most,
		    unsigned int row)
{
	size_t end = out->length;

	for (size_t i = 0; i < width; i++) {
		unsigned __int128 steps =
			((unsigned __int128)values[i] * 2 * ROWS + most - 1) / most;
		unsigned int full = 2 * (ROWS - row);

		strbuf_append_char(out, steps >= full ? ':' : steps == full - 1 ? '.' : ' ');
		if (!out->failed && out->text[out->length - 1] != ' ')
			end = out->length;
	}
	if (!out->failed)
		out->text[out->length = end] = '\0';
	strbuf_append_char(out, '\n');
}

static void put_axis(struct strbuf *out, uint64_t end, size_t width)
{
	const struct unit *unit = unit_of(end);
	char middle[UNITS_BYTES], last[UNITS_BYTES];
	char first[UNITS_BYTES];
	size_t gap;

	format_time(middle, end / 2, unit);
	format_time(last, end, unit);
	snprintf(first, sizeof(first), "0 %s", unit->name);
	strbuf_printf(out, "%*s +", (int)LABEL_WIDTH, "0");
	strbuf_fill(out, '-', width);
	strbuf_append_char(out, '\n');
	strbuf_fill(out, ' ', MARGIN - 1);
	strbuf_append(out, first);
	gap = width / 2 + 1 - strlen(first) - strlen(middle) / 2;
	strbuf_fill(out, ' ', gap);
	strbuf_append(out, middle);
	gap = width + 1 - strlen(first) - gap - strlen(middle) - strlen(last);
	strbuf_fill(out, ' ', gap);
	strbuf_append(out, last);
	strbuf_append_char(out, '\n');
}

bool report_graph_tells(const struct analyze_timeline *timeline)
{
	return timeline->ticks >= TICKS_LEAST && timeline->end_ns;
}

void report_put_graph(struct strbuf *out, const struct analyze_timeline *timeline, uint64_t peak_ns,
		      const char *whose, const struct report_style *style)
{
	size_t width = report_columns(style) - MARGIN - 8;
	uint64_t values[MAX_COLUMNS], most = 0;
	char label[UNITS_BYTES];

	if (!report_graph_tells(timeline))
		return;
	width = width < MAX_COLUMNS ? width : MAX_COLUMNS;
	analyze_timeline_spread(timeline, values, width);
	for (size_t i = 0; i < width; i++)
		most = values[i] > most ? values[i] : most;
	if (most == 0)
		return;
	strbuf_append_char(out, '\n');
	put_mark(out, timeline, peak_ns, width, whose, style);
	for (unsigned int row = 0; row < ROWS; row++) {
		label[0] = '\0';
		if (row % 2 == 0)
			format_label(label, row ? most / 2 : most);
		strbuf_printf(out, "%*s |", (int)LABEL_WIDTH, label);
		put_row(out, values, width, most, row);
	}
	put_axis(out, timeline->end_ns, width);
}
