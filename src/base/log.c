#include "base/log.h"

#include <stdarg.h>
#include <string.h>

#include "base/strbuf.h"

#define MAX_RULES 16u
#define MAX_NAME  24u

struct rule {
	char domain[MAX_NAME];
	enum log_level level;
};

static const char *const level_names[] = {"none", "error", "warn", "info", "debug"};

static struct rule rules[MAX_RULES];
static unsigned int rule_count;
static enum log_level other_level = LOG_WARN;

static bool parse_level(const char *text, size_t length, enum log_level *ret)
{
	for (unsigned int i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++)
		if (strlen(level_names[i]) == length && memcmp(level_names[i], text, length) == 0) {
			*ret = (enum log_level)i;
			return true;
		}
	return false;
}

static bool parse_rule(const char *text, size_t length)
{
	const char *colon = memchr(text, ':', length);

	if (!colon)
		return parse_level(text, length, &other_level);

	size_t name = (size_t)(colon - text);

	if (rule_count == MAX_RULES || name == 0 || name >= MAX_NAME ||
	    !parse_level(colon + 1, length - name - 1, &rules[rule_count].level))
		return false;
	memcpy(rules[rule_count].domain, text, name);
	rules[rule_count].domain[name] = '\0';
	rule_count++;
	return true;
}

struct error *log_configure(const char *spec)
{
	rule_count = 0;
	other_level = LOG_WARN;
	while (spec && *spec) {
		size_t length = strcspn(spec, ",");

		if (!parse_rule(spec, length))
			return error_remedy(
				error_create(ERROR_USAGE, "not a log rule: '%.*s'", (int)length,
					     spec),
				"MALLOGRAPH_LOG is a list like \"collect:debug,ledger:info\"; the levels "
				"are none, error, warn, info and debug.");
		spec += length;
		if (*spec)
			spec++;
	}
	return NULL;
}

bool log_enabled(const char *domain, enum log_level level)
{
	for (unsigned int i = 0; i < rule_count; i++)
		if (strcmp(rules[i].domain, domain) == 0)
			return level <= rules[i].level;
	return level <= other_level;
}

void log_write(const char *domain, enum log_level level, const char *format, ...)
{
	CLEANUP_STRBUF struct strbuf line = STRBUF_EMPTY;
	CLEANUP_FREE char *text = NULL;
	int saved = errno;
	va_list arguments;

	va_start(arguments, format);
	int length = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (length < 0) {
		text = NULL;
		errno = saved;
		return;
	}
	strbuf_printf(&line, "mallograph: %s: %s: ", domain, level_names[level]);
	strbuf_printable(&line, text, (size_t)length);
	strbuf_append_char(&line, '\n');
	if (!line.failed)
		fwrite(line.text, 1, line.length, stderr);
	errno = saved;
}
