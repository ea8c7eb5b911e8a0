/* --process: which processes of a profile are shown. */
#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>

#include "analyze/sections.h"
#include "base/strbuf.h"
#include "cli/view.h"
#include "report/words.h"

#define PROGRAMS_TOLD 12u

static bool parse_number(const char *text, uint64_t *ret)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	return *end == '\0' && errno == 0;
}

static bool choose_pid(const struct analyze_model *model, uint64_t pid, bool *chosen)
{
	bool found = false;

	for (size_t i = 0; i < model->process_count; i++)
		if (model->processes[i].pid == pid)
			found = chosen[i] = true;
	return found;
}

static bool choose_id(const struct analyze_model *model, uint64_t id, bool *chosen)
{
	uint32_t place =
		id <= UINT32_MAX ? analyze_process_find(model, (uint32_t)id) : ANALYZE_NO_PROCESS;

	if (place == ANALYZE_NO_PROCESS)
		return false;
	chosen[place] = true;
	return true;
}

/* A program's name or path, as a shell's pattern. */
static bool choose_program(const struct analyze_model *model, const char *pattern, bool *chosen)
{
	bool found = false;

	for (size_t i = 0; i < model->process_count; i++) {
		const struct analyze_text *exe = &model->processes[i].exe;

		/* A text ends with a NUL. */
		if (exe->length && (fnmatch(pattern, report_base_name(exe).bytes, 0) == 0 ||
				    strcmp(pattern, exe->bytes) == 0))
			found = chosen[i] = true;
	}
	return found;
}

static bool choose(const struct analyze_model *model, const char *selector, bool *chosen)
{
	uint64_t number;

	if (strncmp(selector, "id:", 3) == 0 && parse_number(selector + 3, &number))
		return choose_id(model, number, chosen);
	if (parse_number(selector, &number))
		return choose_pid(model, number, chosen) || choose_id(model, number, chosen);
	return choose_program(model, selector, chosen);
}

/* "There are bash (pid 4711), git (3 processes) and 5 programs more." */
static struct error *nothing_found(const struct analyze_model *model, const char *selector)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	struct analyze_sections programs;

	TRY(analyze_sections_make(model, ANALYZE_SPLIT_PROGRAM, &programs));
	for (size_t i = 0; i < programs.count && i < PROGRAMS_TOLD; i++) {
		const struct analyze_section *program = &programs.items[i];
		const struct analyze_process *largest = &model->processes[program->largest];

		strbuf_append(&text, i ? ", " : "There are: ");
		report_put_program_name(&text, largest);
		if (program->process_count > 1)
			strbuf_printf(&text, " (%zu processes)", program->process_count);
		else if (largest->pid != ANALYZE_UNKNOWN)
			strbuf_printf(&text, " (pid %" PRIu64 ")", largest->pid);
	}
	if (programs.count > PROGRAMS_TOLD)
		strbuf_printf(&text, " and %zu programs more",
			      programs.count - (size_t)PROGRAMS_TOLD);
	strbuf_append(&text, ". mallograph info lists all.");
	analyze_sections_free(&programs);
	TRY(strbuf_result(&text));
	return error_remedy(error_create(ERROR_USAGE, "no process is %s", selector), "%s",
			    text.text);
}

struct error *cli_select(struct analyze_model *model, const char *const *selectors, size_t count)
{
	CLEANUP_FREE bool *chosen = calloc(model->process_count + 1, sizeof(*chosen));

	if (!chosen)
		return error_no_memory();
	for (size_t i = 0; i < count; i++)
		if (!choose(model, selectors[i], chosen))
			return nothing_found(model, selectors[i]);
	analyze_model_select(model, chosen);
	return NULL;
}
