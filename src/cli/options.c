#include "cli/options.h"

#include <ctype.h>
#include <string.h>

#define HELP_COLUMN 24

static const struct cli_option *by_letter(const struct cli_option *table, int letter)
{
	for (; table->letter; table++)
		if (table->letter == letter && letter < 256)
			return table;
	return NULL;
}

static const struct cli_option *by_name(const struct cli_option *table, const char *name,
					size_t length)
{
	for (; table->letter; table++)
		if (table->name && strlen(table->name) == length &&
		    memcmp(table->name, name, length) == 0)
			return table;
	return NULL;
}

static bool value_is_optional(const struct cli_option *option)
{
	return option->argument && option->argument[0] == '[';
}

static const struct cli_option *long_option(struct cli_options *options, const char *word)
{
	size_t length = strcspn(word, "=");
	const struct cli_option *option = by_name(options->table, word, length);

	if (!option) {
		options->error =
			error_create(ERROR_USAGE, "unknown option --%.*s", (int)length, word);
		return NULL;
	}
	options->value = word[length] == '=' ? word + length + 1 : NULL;
	if (options->value && !option->argument) {
		options->error = error_create(ERROR_USAGE, "--%s takes no value", option->name);
		return NULL;
	}
	if (option->argument && !options->value && !value_is_optional(option)) {
		options->value = options->argv[options->at];
		if (options->value)
			options->at++;
		else
			options->error = error_create(ERROR_USAGE, "--%s needs %s", option->name,
						      option->argument);
	}
	return options->error ? NULL : option;
}

static const struct cli_option *short_option(struct cli_options *options)
{
	int letter = (unsigned char)*options->letters++;
	const struct cli_option *option = by_letter(options->table, letter);

	if (!option) {
		options->error = error_create(ERROR_USAGE, "unknown option -%c", letter);
		return NULL;
	}
	options->value = NULL;
	if (option->argument) {
		if (*options->letters)
			options->value = options->letters;
		else if (!value_is_optional(option) && options->argv[options->at])
			options->value = options->argv[options->at++];
		else if (!value_is_optional(option))
			options->error =
				error_create(ERROR_USAGE, "-%c needs %s", letter, option->argument);
		options->letters = NULL;
	} else if (*options->letters == '\0') {
		options->letters = NULL;
	}
	return options->error ? NULL : option;
}

const struct cli_option *cli_options_next(struct cli_options *options)
{
	if (options->letters)
		return short_option(options);

	const char *word = options->argv[options->at];

	if (options->ended || !word || word[0] != '-' || word[1] == '\0')
		return NULL;
	options->at++;
	if (word[1] != '-') {
		options->letters = word + 1;
		return short_option(options);
	}
	if (word[2] != '\0')
		return long_option(options, word + 2);
	options->ended = true;
	return NULL;
}

const char *cli_options_operand(struct cli_options *options)
{
	if (options->error || !options->argv[options->at])
		return NULL;
	return options->argv[options->at++];
}

void cli_options_help(const struct cli_option *table, FILE *out)
{
	for (; table->letter; table++) {
		int column = 0;

		if (table->letter < 256)
			column += fprintf(out, "  -%c%s", table->letter, table->name ? ", " : "");
		else
			column += fprintf(out, "      ");
		if (table->name)
			column += fprintf(out, "--%s", table->name);
		if (table->argument && table->argument[0] == '[')
			column += fprintf(out, "[=%s", table->argument + 1);
		else if (table->argument)
			column += fprintf(out, " %s", table->argument);
		if (column >= HELP_COLUMN) {
			fputc('\n', out);
			column = 0;
		}
		fprintf(out, "%*s", HELP_COLUMN - column, "");
		for (const char *at = table->help; *at; at++) {
			fputc(*at, out);
			if (*at == '\n')
				fprintf(out, "%*s", HELP_COLUMN, "");
		}
		fputc('\n', out);
	}
}
