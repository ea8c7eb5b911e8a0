#include "symbols/symbols.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "symbols/cache.h"
#include "symbols/fetch.h"

#define LOG_DOMAIN "symbols"
#include "base/log.h"

const char *symbols_level_name(enum symbols_level level)
{
	static const char *const names[] = {
		[SYMBOLS_PENDING] = "pending", [SYMBOLS_NONE] = "none", [SYMBOLS_SYMTAB] = "symtab",
		[SYMBOLS_LINES] = "lines",     [SYMBOLS_FULL] = "full",
	};

	return names[level];
}

static void free_options(struct symbols_options *options)
{
	for (size_t i = 0; options->debug_directories && i < options->debug_directory_count; i++)
		free((char *)options->debug_directories[i]);
	free((void *)options->debug_directories);
	free((char *)options->sysroot);
	free((char *)options->servers);
}

static void strip_slashes(char *path)
{
	size_t length = strlen(path);

	while (length > 0 && path[length - 1] == '/')
		path[--length] = '\0';
}

/* So that free_options() can end it at any time. */
static struct error *copy_options(const struct symbols_options *from, struct symbols_options *to)
{
	const char **copy = calloc(from->debug_directory_count + 1, sizeof(*copy));

	*to = *from;
	to->debug_directories = copy;
	to->sysroot = from->sysroot ? strdup(from->sysroot) : NULL;
	if (to->sysroot)
		strip_slashes((char *)to->sysroot);
	to->servers = from->servers ? strdup(from->servers) : NULL;
	if (!copy || (from->sysroot && !to->sysroot) || (from->servers && !to->servers))
		return error_no_memory();
	for (size_t i = 0; i < from->debug_directory_count; i++) {
		copy[i] = strdup(from->debug_directories[i]);
		if (!copy[i])
			return error_no_memory();
	}
	return NULL;
}

struct error *symbols_create(const struct symbols_options *options, struct symbols **ret)
{
	struct symbols *symbols = calloc(1, sizeof(*symbols));
	struct error *error = NULL;

	if (!symbols)
		return error_no_memory();
	symbols->round.symbols = symbols;
	symbols->cache = (struct symbols_cache)SYMBOLS_CACHE_NONE;
	if (options)
		error = copy_options(options, &symbols->options);
	if (!error && symbols->options.use_cache)
		error = symbols_cache_open(&symbols->cache);
	if (error) {
		symbols_free(symbols);
		return error;
	}
	*ret = symbols;
	return NULL;
}

static void free_module(struct symbols_module *module)
{
	vector_free(&module->addresses);
	vector_free(&module->frames);
	vector_free(&module->tries);
	vector_free(&module->wanted);
	symbols_cached_free(&module->cached);
	free(module->failure);
	free(module->file);
	free(module->path);
	free(module);
}

void symbols_free(struct symbols *symbols)
{
	if (!symbols)
		return;
	symbols_round_stop(&symbols->round);
	vector_free(&symbols->round.modules);
	vector_free(&symbols->round.works);
	vector_free(&symbols->fetches);
	for (size_t i = 0; i < symbols->modules.count; i++)
		free_module(symbols->modules.items[i]);
	for (size_t i = 0; i < symbols->strings.count; i++)
		free(symbols->strings.items[i]);
	vector_free(&symbols->modules);
	vector_free(&symbols->strings);
	map_index_free(&symbols->string_index);
	symbols_cache_close(&symbols->cache);
	free_options(&symbols->options);
	free(symbols);
}

struct wanted_string {
	const struct symbols *symbols;
	const char *bytes;
	size_t length;
};

static bool is_same_string(void *context, uint32_t position)
{
	const struct wanted_string *wanted = context;
	const char *have = wanted->symbols->strings.items[position];

	return strncmp(have, wanted->bytes, wanted->length) == 0 && have[wanted->length] == '\0';
}

struct error *symbols_intern(struct symbols *symbols, const char *bytes, size_t length,
			     const char **ret)
{
	struct wanted_string wanted = {symbols, bytes, strnlen(bytes, length)};
	uint64_t hash = map_hash_bytes(bytes, wanted.length);
	uint32_t place = map_index_find(&symbols->string_index, hash, is_same_string, &wanted);

	if (place == MAP_NONE) {
		char *copy = strndup(bytes, wanted.length);

		if (!copy)
			return error_no_memory();
		struct error *error = vector_push(&symbols->strings, copy);

		if (error) {
			free(copy);
			return error;
		}
		place = (uint32_t)symbols->strings.count - 1;
		TRY(map_index_add(&symbols->string_index, hash, place));
	}
	*ret = symbols->strings.items[place];
	return NULL;
}

size_t symbols_parse_build_id(const char *text, uint8_t *bytes, size_t most)
{
	size_t count = 0;

	while (text && count < most && isxdigit((unsigned char)text[0]) &&
	       isxdigit((unsigned char)text[1])) {
		const char pair[] = {text[0], text[1], '\0'};

		bytes[count++] = (uint8_t)strtoul(pair, NULL, 16);
		text += 2;
	}
	return count;
}

struct error *symbols_module_add(struct symbols *symbols, const char *path, const void *build_id,
				 size_t build_id_bytes, struct symbols_module **ret)
{
	struct symbols_module *module = calloc(1, sizeof(*module));

	if (!module)
		return error_no_memory();
	module->owner = symbols;
	module->is_dirty = true;
	module->path = strdup(path);
	if (build_id_bytes > sizeof(module->build_id.bytes))
		build_id_bytes = sizeof(module->build_id.bytes);
	module->build_id.count = build_id_bytes;
	if (build_id_bytes > 0)
		memcpy(module->build_id.bytes, build_id, build_id_bytes);

	struct error *error =
		module->path ? vector_push(&symbols->modules, module) : error_no_memory();

	if (error) {
		free_module(module);
		return error;
	}
	*ret = module;
	return NULL;
}

struct error *symbols_module_add_file(struct symbols_module *module, const char *path)
{
	free(module->file);
	module->file = strdup(path);
	return module->file ? NULL : error_no_memory();
}

void symbols_module_take_present(struct symbols_module *module) { module->is_present = true; }

struct error *symbols_address_add(struct symbols_module *module, uint64_t offset, bool exact)
{
	struct symbols_address address = {.pc = exact ? offset : offset - 1};

	if (module->addresses.count >= UINT32_MAX)
		return error_no_memory();
	module->is_dirty = true;
	return vector_push(&module->addresses, address);
}

static int compare_addresses(const void *left, const void *right)
{
	const struct symbols_address *a = left, *b = right;

	if (a->pc != b->pc)
		return a->pc < b->pc ? -1 : 1;
	return b->is_done - a->is_done;
}

/* One that is done comes before its equals, and stays. */
static void sort_addresses(struct symbols_module *module)
{
	struct symbols_address *items = module->addresses.items;
	size_t kept = 0;

	if (module->addresses.count == 0)
		return;
	qsort(items, module->addresses.count, sizeof(*items), compare_addresses);
	for (size_t i = 1; i < module->addresses.count; i++)
		if (items[i].pc != items[kept].pc)
			items[++kept] = items[i];
	module->addresses.count = kept + 1;
}

static struct error *begin_round(struct symbols *symbols, struct symbols_round *round)
{
	round->modules.count = 0;
	for (size_t i = 0; i < symbols->modules.count; i++)
		if (symbols->modules.items[i]->is_dirty)
			TRY(vector_push(&round->modules, symbols->modules.items[i]));
	return NULL;
}

/* Whatever most remains to be done for goes first, so that readers end together. */
static int compare_work(const void *left, const void *right)
{
	const struct symbols_module *a = *(struct symbols_module *const *)left;
	const struct symbols_module *b = *(struct symbols_module *const *)right;

	return a->addresses.count > b->addresses.count ? -1
						       : a->addresses.count < b->addresses.count;
}

/* Of what is dirty, if anything is. */
static struct error *start_round(struct symbols *symbols)
{
	struct symbols_round *round = &symbols->round;

	TRY(begin_round(symbols, round));
	if (round->modules.count == 0)
		return NULL;
	qsort(round->modules.items, round->modules.count, sizeof(*round->modules.items),
	      compare_work);
	return symbols_round_start(round);
}

struct error *symbols_start(struct symbols *symbols)
{
	for (size_t i = 0; i < symbols->modules.count; i++) {
		struct symbols_module *module = symbols->modules.items[i];

		if (!module->is_dirty)
			continue;
		sort_addresses(module);
		TRY(symbols_cache_load(&symbols->cache, module));
	}
	return start_round(symbols);
}

/* Nothing depends on it. */
static void save(struct symbols *symbols)
{
	bool any = false;

	for (size_t i = 0; i < symbols->modules.count; i++) {
		struct symbols_module *module = symbols->modules.items[i];

		if (!module->is_read)
			continue;
		CLEANUP_ERROR struct error *error = symbols_cache_save(&symbols->cache, module);

		if (error)
			log_debug("%s: not kept: %s", module->path, error->message);
		module->is_read = false;
		any = true;
	}
	if (any)
		symbols_cache_trim(&symbols->cache, SYMBOLS_CACHE_BYTES);
}

static void tell_counts(const struct symbols *symbols)
{
	const struct symbols_counts *counts = &symbols->counts;

	log_info("%" PRIu64 " modules read by %" PRIu64 " processes, %" PRIu64
		 " from the cache; %" PRIu64 " addresses read, %" PRIu64 " from the cache",
		 counts->modules_read, counts->readers, counts->modules_cached,
		 counts->addresses_read, counts->addresses_cached);
}

struct error *symbols_resolve(struct symbols *symbols)
{
	if (!symbols->round.readers)
		TRY(symbols_start(symbols));
	while (symbols->round.readers) {
		TRY(symbols_round_finish(&symbols->round));
		TRY(start_round(symbols));
		if (symbols->round.readers)
			continue;
		TRY(symbols_fetch(symbols));
		TRY(start_round(symbols));
	}
	save(symbols);
	tell_counts(symbols);
	return NULL;
}

struct symbols_counts symbols_counts(const struct symbols *symbols) { return symbols->counts; }

struct symbols_verdict symbols_module_verdict(const struct symbols_module *module)
{
	return module->verdict;
}

const struct symbols_try *symbols_module_tries(const struct symbols_module *module,
					       size_t *ret_count, bool *ret_is_whole)
{
	*ret_count = module->tries.count;
	*ret_is_whole = module->has_all_tries && !module->is_cut;
	return module->tries.items;
}

const struct symbols_frame *symbols_frames(const struct symbols_module *module, uint64_t offset,
					   bool exact, size_t *ret_count)
{
	uint64_t pc = exact ? offset : offset - 1;
	size_t low = 0, high = module->addresses.count;

	*ret_count = 0;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct symbols_address *address = &module->addresses.items[middle];

		if (address->pc == pc) {
			*ret_count = address->count;
			return address->count ? &module->frames.items[address->first] : NULL;
		}
		if (address->pc < pc)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}
