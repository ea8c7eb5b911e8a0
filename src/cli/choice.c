#include "cli/choice.h"

#include <string.h>

#include "ledger/layout.h"

static struct error *add(struct cli_choice *choice, char kind, const char *pattern)
{
	strbuf_append_char(&choice->text, kind);
	strbuf_append(&choice->text, pattern);
	strbuf_append_char(&choice->text, '\n');
	TRY(strbuf_result(&choice->text));
	if (choice->text.length >= MGL_CHOICE_BYTES)
		return error_create(ERROR_USAGE,
				    "the patterns of --only and --not are longer than %u bytes",
				    MGL_CHOICE_BYTES);
	return NULL;
}

static struct error *add_pattern(struct cli_choice *choice, const struct cli_option *option,
				 const char *pattern)
{
	if (*pattern == '\0' || strchr(pattern, '\n'))
		return error_create(ERROR_USAGE, "--%s needs a PATTERN of one line", option->name);
	return add(choice, option->letter == CLI_OPTION_ONLY ? MGL_CHOICE_ONLY : MGL_CHOICE_NOT,
		   pattern);
}

struct error *cli_choice_take(struct cli_choice *choice, const struct cli_option *option,
			      const char *value, bool *ret_taken)
{
	*ret_taken = true;
	switch (option->letter) {
	case CLI_OPTION_NO_FOLLOW:
		return add(choice, MGL_CHOICE_NO_FOLLOW, "");
	case CLI_OPTION_ONLY:
	case CLI_OPTION_NOT:
		return add_pattern(choice, option, value);
	default:
		*ret_taken = false;
		return NULL;
	}
}

const char *cli_choice_text(const struct cli_choice *choice)
{
	return choice->text.length ? choice->text.text : NULL;
}

void cli_choice_free(struct cli_choice *choice) { strbuf_free(&choice->text); }
