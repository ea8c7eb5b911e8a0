#include "symbols/trace.h"

#include <string.h>

#define LOG_DOMAIN "symbols"
#include "base/log.h"

const char *symbols_place_name(enum symbols_place place)
{
	static const char *const names[] = {
		[SYMBOLS_PLACE_FILE] = "file",     [SYMBOLS_PLACE_BUILD_ID] = "build-id",
		[SYMBOLS_PLACE_LINK] = "link",     [SYMBOLS_PLACE_NAME] = "name",
		[SYMBOLS_PLACE_DWZ] = "dwz",       [SYMBOLS_PLACE_SPLIT] = "split",
		[SYMBOLS_PLACE_SERVER] = "server",
	};

	return names[place];
}

const char *symbols_outcome_text(enum symbols_outcome outcome)
{
	static const char *const texts[] = {
		[SYMBOLS_OUTCOME_FOUND] = "found",
		[SYMBOLS_OUTCOME_ABSENT] = "not there",
		[SYMBOLS_OUTCOME_UNREADABLE] = "cannot be read",
		[SYMBOLS_OUTCOME_NOT_ELF] = "not an ELF file",
		[SYMBOLS_OUTCOME_OTHER_BUILD_ID] = "of another build-id",
		[SYMBOLS_OUTCOME_OTHER_CRC] = "its CRC is not the link's",
		[SYMBOLS_OUTCOME_NO_DEBUG] = "no debug information in it",
		[SYMBOLS_OUTCOME_NO_LINES] = "no .debug_line in it",
		[SYMBOLS_OUTCOME_BAD_DEBUG] = "its debug information cannot be read",
	};

	return texts[outcome];
}

void symbols_trace_free(struct symbols_trace *trace)
{
	for (size_t i = 0; i < trace->strings.count; i++)
		free(trace->strings.items[i]);
	vector_free(&trace->strings);
	vector_free(&trace->tries);
}

/* *ret NULL = text is NULL, or there was no memory. */
static bool keep(struct symbols_trace *trace, const char *text, const char **ret)
{
	char *copy = text ? strdup(text) : NULL;
	struct error *error = copy ? vector_push(&trace->strings, copy) : NULL;

	*ret = copy;
	if (error) {
		error_free(error);
		free(copy);
		*ret = NULL;
	}
	return !text || *ret;
}

void symbols_trace_add(struct symbols_trace *trace, const struct symbols_try *tried)
{
	struct symbols_try kept = *tried;

	log_debug("%s: %s", tried->path,
		  tried->detail ? tried->detail : symbols_outcome_text(tried->outcome));
	if (trace->tries.count >= SYMBOLS_TRACE_MAX || !keep(trace, tried->path, &kept.path) ||
	    !keep(trace, tried->detail, &kept.detail)) {
		trace->is_cut = true;
		return;
	}
	struct error *error = vector_push(&trace->tries, kept);

	trace->is_cut |= error != NULL;
	error_free(error);
}

void symbols_trace_amend(struct symbols_trace *trace, const char *path,
			 enum symbols_outcome outcome, const char *detail)
{
	for (size_t i = trace->tries.count; i-- > 0;) {
		struct symbols_try *tried = &trace->tries.items[i];

		if (strcmp(tried->path, path) != 0)
			continue;
		if (tried->outcome == SYMBOLS_OUTCOME_NO_DEBUG)
			return;
		tried->outcome = outcome;
		keep(trace, detail, &tried->detail);
		log_debug("%s: %s", path, detail ? detail : symbols_outcome_text(outcome));
		return;
	}
}

struct symbols_identity symbols_identity_of_stat(const struct stat *st)
{
	return (struct symbols_identity){
		.exists = true,
		.device = st->st_dev,
		.inode = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
	};
}

struct symbols_identity symbols_identity_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? symbols_identity_of_stat(&st) : (struct symbols_identity){0};
}

bool symbols_identity_equal(const struct symbols_identity *a, const struct symbols_identity *b)
{
	return a->exists == b->exists &&
	       (!a->exists || (a->device == b->device && a->inode == b->inode &&
			       a->size == b->size && a->mtime_ns == b->mtime_ns));
}
