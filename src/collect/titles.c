#include "collect/titles.h"

#include <string.h>

#include "base/strbuf.h"
#include "symbols/title.h"

struct error *collect_plain_text(const struct store_text *text, char **ret)
{
	CLEANUP_STRBUF struct strbuf buffer = STRBUF_EMPTY;

	if (text->bytes)
		strbuf_append_bytes(&buffer, text->bytes, text->length);
	*ret = strbuf_take(&buffer);
	if (!*ret)
		return error_no_memory();
	(*ret)[store_unescape(*ret, strlen(*ret))] = '\0';
	return NULL;
}

static bool is_known(const struct collect_titles *titles, const char *pattern)
{
	for (size_t i = 0; i < titles->alloc_fns.count; i++)
		if (strcmp(titles->alloc_fns.items[i], pattern) == 0)
			return true;
	return false;
}

struct error *collect_titles_read(struct collect_titles *titles, struct store_reader *reader)
{
	char *text = NULL;
	bool found;

	TRY(store_meta_text(reader, "alloc_fn", &text, &found));
	if (!found)
		return NULL;
	struct error *error = vector_push(&titles->texts, text);

	if (error) {
		free(text);
		return error;
	}
	for (char *at = text; at;) {
		char *pattern = strsep(&at, "\n");

		if (!is_known(titles, pattern))
			TRY(vector_push(&titles->alloc_fns, pattern));
	}
	return NULL;
}

void collect_titles_free(struct collect_titles *titles)
{
	for (size_t i = 0; i < titles->texts.count; i++)
		free(titles->texts.items[i]);
	vector_free(&titles->texts);
	vector_free(&titles->alloc_fns);
}

void collect_titles_line(const struct collect_titles *titles, uint64_t depth, const char *function,
			 uint32_t *named)
{
	symbols_title_line(named, (uint32_t)depth, function, titles->alloc_fns.items,
			   titles->alloc_fns.count);
}

struct error *collect_titles_row(const struct collect_titles *titles, struct store_reader *reader,
				 const struct store_line *line, uint32_t *named)
{
	CLEANUP_FREE char *function = NULL;
	struct store_text text;

	TRY(store_string(reader, line->function, &text));
	if (text.bytes)
		TRY(collect_plain_text(&text, &function));
	collect_titles_line(titles, line->depth, function, named);
	return NULL;
}

void collect_titles_set(struct store_site *site, const struct store_stack *stacks, uint64_t frame,
			collect_titles_place_of *place_of, void *context)
{
	struct symbols_title title = {0};

	for (; frame; frame = stacks[frame].parent) {
		struct collect_titles_place place = place_of(context, stacks[frame].loc);

		if (place.id &&
		    !symbols_title_place(&title, (uint32_t)place.id, place.named, place.is_runtime))
			break;
	}
	symbols_title_end(&title);
	site->title = title.place;
	site->title_depth = title.place ? title.depth : STORE_UNKNOWN;
}
