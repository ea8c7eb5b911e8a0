/* Changing the functions of a family where they stand, all or none. */
#include <string.h>

#include "agent/inner_looked.h"
#include "agent/real.h"
#include "agent/sessionfile.h"

_Static_assert(sizeof(struct inner) <= PATCH_RECORD_BYTES, "records have room for it");

bool inner_is_used;
struct inner_told inner_found, inner_refused;

static size_t append(struct inner_told *told, size_t at, const char *text)
{
	size_t n = strlen(text);

	if (n >= sizeof(told->text) - at)
		return at;
	memcpy(told->text + at, text, n + 1);
	return at + n;
}

/* A library may be opened again and again. */
static bool is_told(const struct inner_told *told, const char *text)
{
	for (size_t at = 0; at < told->bytes; at += strlen(told->text + at) + 1) {
		if (strcmp(told->text + at, text) == 0)
			return true;
	}
	return false;
}

static void note(struct inner_told *told, const char *function, const char *why)
{
	const char *path = inner_looked.path;
	size_t at = told->bytes;

	if (strlen(path) + strlen(function) + (why ? strlen(why) : 0) + 8 >=
	    sizeof(told->text) - at)
		return;
	at = append(told, at, path);
	at = append(told, at, " (");
	at = append(told, at, function);
	if (why) {
		at = append(told, at, " ");
		at = append(told, at, why);
	}
	at = append(told, at, ")") + 1;
	if (!is_told(told, told->text + told->bytes))
		told->bytes = at;
}

static const char *name_of(const struct inner_function *f, char ret[INNER_NAME_BYTES])
{
	return inner_name_of(f->family, f->shape->name, ret) ? ret : "";
}

/* The first of the family, by whose name people know it. */
static const struct inner_function *first_of(enum inner_family family)
{
	for (uint32_t i = 0; i < inner_looked.count; i++) {
		if (inner_looked.function[i].family == family)
			return &inner_looked.function[i];
	}
	return NULL;
}

/* Code with several names can be entered in what a change would replace. */
static const char *overlaps(const struct inner_function *f)
{
	uintptr_t stop = (uintptr_t)f->patch.at + f->patch.bytes;

	for (uint32_t i = 0; i < inner_looked.count; i++) {
		uintptr_t at = inner_looked.function[i].at;

		if (at > f->at && at < stop)
			return "is too short to be changed";
	}
	return NULL;
}

static const char *plan(enum inner_family family, const struct inner_function **at, uint32_t *count)
{
	*count = 0;
	for (uint32_t i = 0; i < inner_looked.count; i++) {
		struct inner_function *f = &inner_looked.function[i];
		const char *why = NULL;

		if (f->family == family)
			why = patch_plan(&f->patch, f->at, f->bytes,
					 symtab_text_start(&inner_looked.symtab, f->at),
					 symtab_text_stop(&inner_looked.symtab, f->at));
		if (f->family == family && !why)
			why = overlaps(f);

		*count += f->family == family;
		*at = f;
		if (why)
			return why;
	}
	return NULL;
}

static const char *prepare(enum inner_family family, const struct inner_function **at,
			   uint32_t count)
{
	void *records;
	uint8_t *place = patch_room((*at)->at, count, &records);
	struct inner *inner = records;

	if (!place)
		return "has no room near it";
	for (uint32_t i = 0; i < inner_looked.count; i++) {
		struct inner_function *f = &inner_looked.function[i];
		const char *why;

		if (f->family != family)
			continue;
		*at = f;
		f->inner = inner++;
		why = patch_place(&f->patch, place, f->inner, hooks_inner_entry);
		if (why)
			return why;
		*f->inner = (struct inner){f->patch.call, inner_looked.least, *f->shape};
		place += PATCH_PLACE_BYTES;
	}
	return NULL;
}

static const char *apply(enum inner_family family, const struct inner_function **at)
{
	uint32_t i;

	for (i = 0; i < inner_looked.count; i++) {
		*at = &inner_looked.function[i];
		if ((*at)->family == family && !patch_apply(&(*at)->patch))
			break;
	}
	if (i == inner_looked.count)
		return NULL;
	while (i-- > 0) {
		if (inner_looked.function[i].family == family)
			patch_undo(&inner_looked.function[i].patch);
	}
	return "may not be changed";
}

/* A hook of the same function need not pass through this one. */
static void replace_real(enum inner_family family)
{
	for (uint32_t i = 0; i < inner_looked.count; i++) {
		const struct inner_function *f = &inner_looked.function[i];

		if (f->family == family)
			real_replace((void *)f->at, f->inner->call);
	}
}

static const char *change(enum inner_family family, const struct inner_function **at)
{
	/* Nobody runs what is being loaded. */
	uint64_t threads = inner_looked.is_relocated ? sessionfile_threads() : 1;
	uint32_t count;
	const char *why;

	if (inner_looked.sanitizer)
		return "is a sanitizer's";
	if (!inner_looked.is_open)
		return "is in a file that cannot be read";
	if (threads != 1)
		return threads ? "was in use by threads already" : "needs /proc";
	why = plan(family, at, &count);
	if (!why)
		why = prepare(family, at, count);
	if (!why)
		why = apply(family, at);
	return why;
}

bool inner_change(enum inner_family family)
{
	char name[INNER_NAME_BYTES];
	const struct inner_function *at = first_of(family);
	const char *first = name_of(at, name);
	const char *why = change(family, &at);

	note(&inner_found, first, NULL);
	if (why) {
		note(&inner_refused, name_of(at, name), why);
		return false;
	}
	replace_real(family);
	inner_is_used = true;
	if (inner_looked.variant[family])
		note(&inner_refused, first, "has copies that the compiler made");
	return true;
}
