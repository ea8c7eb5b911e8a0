#include <inttypes.h>
#include <string.h>

#include "base/strbuf.h"
#include "cli/view.h"

enum { OPTION_CSV = 256, OPTION_JSON };

enum form { TABLE, CSV, JSON };

static const struct cli_option options_table[] = {
	{OPTION_CSV, "csv", NULL, "comma-separated values, with a line of names"},
	{OPTION_JSON, "json", NULL, "a list of objects"},
	CLI_VIEW_OPTIONS,
};

static const char usage[] =
	"Usage: mallograph query [OPTION…] SQL [FILE]\n"
	"\n"
	"Ask a profile a question: one SQL statement that reads. Its tables and views\n"
	"are those of docs/FORMAT.md in the sources; sqlite3 opens a profile as well.\n"
	"FILE is a profile or ledger, or the pid of a process being recorded; left out,\n"
	"the newest here.\n";

static const char examples[] =
	"  mallograph query 'select title_function, live_bytes from v_site\n"
	"                    order by live_bytes desc limit 5'\n"
	"  mallograph query --csv 'select * from v_timeline' mallograph.jq.4711.mgp\n";

struct request {
	enum form form;
	const char *sql;
};

/* Rows a table's columns are made to fit; those after them may be wider. */
#define FITTED_ROWS 1000u
/* A column is no wider for one long text. */
#define MAX_WIDTH 60u

struct cell {
	char *text; /* malloc'd */
	bool is_number;
};

struct table {
	struct store_query *query;
	unsigned int columns;
	size_t *widths;
	VECTOR(struct cell) cells; /* row by row, its columns in turn */
};

static struct error *take(void *context, const struct cli_option *option, const char *value)
{
	struct request *request = context;

	(void)value;
	request->form = option->letter == OPTION_CSV ? CSV : JSON;
	return NULL;
}

/* --- table -------------------------------------------------------------------------- */

static struct error *add_cell(struct table *table, unsigned int column,
			      const struct store_text *from, bool is_number)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	if (from->bytes)
		strbuf_printable(&text, from->bytes, from->length);
	CLEANUP_FREE char *cell = strbuf_take(&text);

	if (!cell)
		return error_no_memory();
	size_t width = strbuf_columns(cell, strlen(cell));

	width = width < MAX_WIDTH ? width : MAX_WIDTH;
	if (width > table->widths[column])
		table->widths[column] = width;
	TRY(vector_push(&table->cells, ((struct cell){cell, is_number})));
	(void)STEAL(cell);
	return NULL;
}

static struct error *add_names(struct table *table)
{
	for (unsigned int i = 0; i < table->columns; i++) {
		const char *name = store_query_name(table->query, i);
		struct store_text text = {name, strlen(name)};

		TRY(add_cell(table, i, &text, false));
	}
	return NULL;
}

static struct error *add_row(struct table *table)
{
	for (unsigned int i = 0; i < table->columns; i++) {
		struct store_text text = store_query_text(table->query, i);

		TRY(add_cell(table, i, &text, store_query_is_number(table->query, i)));
	}
	return NULL;
}

static void print_cell(const struct cell *cell, size_t width, bool is_last)
{
	size_t taken = strbuf_columns(cell->text, strlen(cell->text));
	int gap = taken < width ? (int)(width - taken) : 0;

	if (cell->is_number)
		printf("%*s", gap, "");
	fputs(cell->text, stdout);
	if (!cell->is_number && !is_last)
		printf("%*s", gap, "");
	fputs(is_last ? "\n" : "  ", stdout);
}

static void print_rule(const struct table *table)
{
	for (unsigned int i = 0; i < table->columns; i++) {
		for (size_t j = 0; j < table->widths[i]; j++)
			putchar('-');
		fputs(i + 1 == table->columns ? "\n" : "  ", stdout);
	}
}

static void free_cells(struct table *table)
{
	for (size_t i = 0; i < table->cells.count; i++)
		free(table->cells.items[i].text);
	table->cells.count = 0;
}

static void print_cells(struct table *table, bool has_names)
{
	for (size_t i = 0; i < table->cells.count; i++) {
		unsigned int column = (unsigned int)(i % table->columns);

		if (has_names && i == table->columns)
			print_rule(table);
		print_cell(&table->cells.items[i], table->widths[column],
			   column + 1 == table->columns);
	}
	if (has_names && table->cells.count == table->columns)
		print_rule(table);
	free_cells(table);
}

static struct error *print_rows(struct table *table)
{
	unsigned int rows = 0;

	TRY(add_names(table));
	while (rows < FITTED_ROWS && store_query_next(table->query)) {
		TRY(add_row(table));
		rows++;
	}
	print_cells(table, true);
	while (rows == FITTED_ROWS && store_query_next(table->query)) {
		TRY(add_row(table));
		print_cells(table, false);
	}
	return NULL;
}

static struct error *print_table(struct store_query *query)
{
	struct table table = {.query = query, .columns = store_query_columns(query)};
	struct error *error;

	table.widths = calloc(table.columns, sizeof(*table.widths));
	error = table.widths ? print_rows(&table) : error_no_memory();
	free_cells(&table);
	vector_free(&table.cells);
	free(table.widths);
	return error;
}

/* --- CSV ---------------------------------------------------------------------------- */

static void append_csv(struct strbuf *line, const struct store_text *text, bool is_last)
{
	CLEANUP_STRBUF struct strbuf field = STRBUF_EMPTY;

	/* Control characters are escaped here too: lines are lines. */
	if (text->bytes)
		strbuf_printable(&field, text->bytes, text->length);
	line->failed |= field.failed;
	if (field.length && field.text[strcspn(field.text, ",\"")]) {
		strbuf_append_char(line, '"');
		for (const char *at = field.text; *at; at++) {
			strbuf_append(line, *at == '"' ? "\"" : "");
			strbuf_append_char(line, *at);
		}
		strbuf_append_char(line, '"');
	} else if (field.length) {
		strbuf_append(line, field.text);
	}
	strbuf_append_char(line, is_last ? '\n' : ',');
}

static struct error *print_csv(struct store_query *query)
{
	unsigned int columns = store_query_columns(query);
	CLEANUP_STRBUF struct strbuf line = STRBUF_EMPTY;

	for (unsigned int i = 0; i < columns; i++) {
		const char *name = store_query_name(query, i);

		append_csv(&line, &(struct store_text){name, strlen(name)}, i + 1 == columns);
	}
	do {
		TRY(strbuf_result(&line));
		fwrite(line.text, 1, line.length, stdout);
		strbuf_clear(&line);
		if (!store_query_next(query))
			return NULL;
		for (unsigned int i = 0; i < columns; i++) {
			struct store_text text = store_query_text(query, i);

			append_csv(&line, &text, i + 1 == columns);
		}
	} while (true);
}

/* --- JSON --------------------------------------------------------------------------- */

static void append_value(struct strbuf *line, const struct store_text *text, bool is_number)
{
	bool finite = text->length && strchr("-0123456789", text->bytes[0]) &&
		      text->bytes[text->length - 1] != 'f';

	if (!text->bytes || (is_number && !finite))
		strbuf_append(line, "null");
	else if (is_number)
		strbuf_append_bytes(line, text->bytes, text->length);
	else
		strbuf_json_string(line, text->bytes, text->length);
}

static struct error *print_json(struct store_query *query)
{
	unsigned int columns = store_query_columns(query);
	CLEANUP_STRBUF struct strbuf line = STRBUF_EMPTY;
	bool first = true;

	putchar('[');
	while (store_query_next(query)) {
		strbuf_append(&line, first ? "\n{" : ",\n{");
		for (unsigned int i = 0; i < columns; i++) {
			const char *name = store_query_name(query, i);
			struct store_text text = store_query_text(query, i);

			strbuf_append(&line, i ? ", " : "");
			strbuf_json_string(&line, name, strlen(name));
			strbuf_append(&line, ": ");
			append_value(&line, &text, store_query_is_number(query, i));
		}
		strbuf_append_char(&line, '}');
		TRY(strbuf_result(&line));
		fwrite(line.text, 1, line.length, stdout);
		strbuf_clear(&line);
		first = false;
	}
	fputs("\n]\n", stdout);
	return NULL;
}

static struct error *print(void *context, struct cli_view *view)
{
	const struct request *request = context;
	struct store_query *query;
	struct error *error, *failure;

	TRY(store_query_open(view->reader, request->sql, &query));
	switch (request->form) {
	case CSV:
		error = print_csv(query);
		break;
	case JSON:
		error = print_json(query);
		break;
	default:
		error = print_table(query);
		break;
	}
	failure = store_query_close(query);
	if (error)
		error_free(failure);
	return error ? error : failure;
}

int cli_query(char **argv)
{
	struct request request = {0};
	const struct cli_view_command command = {
		.name = "query",
		.usage = usage,
		.examples = examples,
		.options = options_table,
		.take = take,
		.first = &request.sql,
		.first_name = "a question: mallograph query 'select …'",
		.print = print,
		.context = &request,
	};

	return cli_view_main(&command, argv);
}
