#include "symbols/cache.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#define LOG_DOMAIN "symbols"
#include "base/log.h"

/* How old its last use may look: each time would be a write a file a run. */
#define USED_SECONDS 60

static void describe_path(struct strbuf *key, const char *path)
{
	strbuf_append_bytes(key, path ? "=" : "-", 1);
	if (path)
		strbuf_append_bytes(key, path, strlen(path) + 1);
}

/* All that a module's search depends on but the files. */
static struct error *describe_module(const struct symbols_module *module, struct strbuf *key)
{
	const struct symbols_options *options = &module->owner->options;

	symbols_build_id_print(key, &module->build_id);
	describe_path(key, module->path);
	describe_path(key, module->file);
	describe_path(key, options->sysroot);
	describe_path(key, options->servers);
	for (size_t i = 0; i < options->debug_directory_count; i++)
		describe_path(key, options->debug_directories[i]);
	return strbuf_result(key);
}

#define NAME_BYTES 32

/* Two keys of one name take turns: the key stands in the file. */
static void name_of(const struct strbuf *key, char name[NAME_BYTES])
{
	snprintf(name, NAME_BYTES, "%016" PRIx64 ".symbols",
		 map_hash_bytes(key->text, key->length));
}

static void note_use(int fd, const struct stat *st)
{
	if (time(NULL) - st->st_mtim.tv_sec > USED_SECONDS && futimens(fd, NULL) != 0)
		log_debug("cannot note the use of a file of the cache: %s", strerror(errno));
}

/* Whatever it is not is as if it were not there. */
static struct error *read_file(const struct symbols_cache *cache, const char *name,
			       struct strbuf *ret)
{
	CLEANUP_FD int fd =
		openat(cache->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	char bytes[1 << 13];
	struct stat st;
	ssize_t n = 1;

	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    st.st_size <= 0 || (uint64_t)st.st_size > SYMBOLS_CACHE_FILE_BYTES)
		return NULL;
	while (n > 0 && ret->length <= SYMBOLS_CACHE_FILE_BYTES && !ret->failed) {
		n = read(fd, bytes, sizeof(bytes));
		if (n > 0)
			strbuf_append_bytes(ret, bytes, (size_t)n);
	}
	note_use(fd, &st);
	return strbuf_result(ret);
}

static bool still_holds(const struct symbols_cached *cached)
{
	for (uint32_t i = 0; i < cached->try_count; i++) {
		struct symbols_try tried = symbols_cached_try(cached, i);
		struct symbols_identity now = symbols_identity_of(tried.path);

		if (!symbols_identity_equal(&tried.identity, &now)) {
			log_debug("%s: is not what it was", tried.path);
			return false;
		}
	}
	return cached->try_count > 0;
}

static struct error *intern(struct symbols *symbols, const char **text)
{
	return *text ? symbols_intern(symbols, *text, strlen(*text), text) : NULL;
}

static struct error *take_address(struct symbols_module *module, struct symbols_address *address,
				  struct symbols_cached_address found)
{
	const struct symbols_cached *cached = &module->cached;

	if (module->frames.count + found.count > UINT32_MAX)
		return NULL;
	TRY(vector_reserve(&module->frames, found.count));
	address->first = (uint32_t)module->frames.count;
	for (uint32_t i = 0; i < found.count; i++) {
		struct symbols_frame frame = symbols_cached_frame(cached, found.first + i);

		TRY(intern(module->owner, &frame.function));
		TRY(intern(module->owner, &frame.file));
		module->frames.items[module->frames.count++] = frame;
	}
	address->count = found.count;
	address->is_done = true;
	module->owner->counts.addresses_cached++;
	return NULL;
}

/* Both are sorted. *ret: how many of the module's are not known. */
static struct error *take_addresses(struct symbols_module *module, size_t *ret)
{
	const struct symbols_cached *cached = &module->cached;
	uint32_t at = 0;

	*ret = 0;
	for (size_t i = 0; i < module->addresses.count; i++) {
		struct symbols_address *address = &module->addresses.items[i];

		if (address->is_done)
			continue;
		while (at < cached->address_count &&
		       symbols_cached_address(cached, at).pc < address->pc)
			at++;
		if (at < cached->address_count &&
		    symbols_cached_address(cached, at).pc == address->pc)
			TRY(take_address(module, address, symbols_cached_address(cached, at)));
		*ret += !address->is_done;
	}
	return NULL;
}

static struct error *take_verdict(struct symbols_module *module)
{
	const struct symbols_cached *cached = &module->cached;
	struct symbols *symbols = module->owner;

	module->tries.count = 0;
	for (uint32_t i = 0; i < cached->try_count; i++) {
		struct symbols_try tried = symbols_cached_try(cached, i);

		TRY(intern(symbols, &tried.path));
		TRY(intern(symbols, &tried.detail));
		TRY(vector_push(&module->tries, tried));
	}
	module->has_all_tries = true;
	module->is_cut = false;
	module->verdict = cached->verdict;
	TRY(intern(symbols, &module->verdict.reason));
	TRY(intern(symbols, &module->verdict.build_id));
	return intern(symbols, &module->verdict.debug_file);
}

struct error *symbols_cache_load(const struct symbols_cache *cache, struct symbols_module *module)
{
	CLEANUP_STRBUF struct strbuf key = STRBUF_EMPTY;
	char name[NAME_BYTES];
	size_t missing;

	symbols_cached_free(&module->cached);
	if (cache->fd < 0 || module->build_id.count == 0 || module->failures > 0)
		return NULL;
	TRY(describe_module(module, &key));
	name_of(&key, name);
	TRY(read_file(cache, name, &module->cached.bytes));
	if (module->cached.bytes.length == 0 || !symbols_cached_decode(&module->cached) ||
	    !symbols_cached_is_for(&module->cached, &key, &cache->maker) ||
	    !still_holds(&module->cached)) {
		symbols_cached_free(&module->cached);
		return NULL;
	}
	TRY(take_addresses(module, &missing));
	if (missing > 0)
		return NULL;
	TRY(take_verdict(module));
	module->is_dirty = false;
	module->owner->counts.modules_cached++;
	return NULL;
}

static struct error *put_cached(struct symbols_cache_writer *writer,
				const struct symbols_cached *cached, uint32_t place)
{
	struct symbols_cached_address address = symbols_cached_address(cached, place);
	VECTOR(struct symbols_frame) frames = VECTOR_EMPTY;
	struct error *error = NULL;

	for (uint32_t i = 0; i < address.count && !error; i++)
		error = vector_push(&frames, symbols_cached_frame(cached, address.first + i));
	if (!error)
		error = symbols_cache_write_address(writer, address.pc, frames.items,
						    address.count);
	vector_free(&frames);
	return error;
}

/* The module's addresses and, between them, those it had not asked for. */
static struct error *put_addresses(struct symbols_cache_writer *writer,
				   const struct symbols_module *module)
{
	const struct symbols_cached *cached = &module->cached;
	uint32_t at = 0;

	for (size_t i = 0; i < module->addresses.count; i++) {
		const struct symbols_address *address = &module->addresses.items[i];

		for (; at < cached->address_count &&
		       symbols_cached_address(cached, at).pc <= address->pc;
		     at++)
			if (symbols_cached_address(cached, at).pc < address->pc)
				TRY(put_cached(writer, cached, at));
		TRY(symbols_cache_write_address(
			writer, address->pc,
			address->count ? &module->frames.items[address->first] : NULL,
			address->count));
	}
	for (; at < cached->address_count; at++)
		TRY(put_cached(writer, cached, at));
	return NULL;
}

static bool is_among(const struct symbols_try *tried, const struct symbols_module *module)
{
	for (size_t i = 0; i < module->tries.count; i++)
		if (strcmp(module->tries.items[i].path, tried->path) == 0 &&
		    symbols_identity_equal(&module->tries.items[i].identity, &tried->identity))
			return true;
	return false;
}

/* Where a file changed between two readings both tries stand there, and one of them fails. */
static struct error *put_tries(struct symbols_cache_writer *writer,
			       const struct symbols_module *module)
{
	for (size_t i = 0; i < module->tries.count; i++)
		TRY(symbols_cache_write_try(writer, &module->tries.items[i]));
	for (uint32_t i = 0; i < module->cached.try_count; i++) {
		struct symbols_try tried = symbols_cached_try(&module->cached, i);

		if (!is_among(&tried, module))
			TRY(symbols_cache_write_try(writer, &tried));
	}
	return NULL;
}

/* A file that may not be read now may be later, and look the same; a server may get it. */
static bool is_certain(const struct symbols_module *module)
{
	for (size_t i = 0; i < module->tries.count; i++)
		if (module->tries.items[i].outcome == SYMBOLS_OUTCOME_UNREADABLE ||
		    (module->tries.items[i].place == SYMBOLS_PLACE_SERVER &&
		     module->tries.items[i].outcome != SYMBOLS_OUTCOME_FOUND))
			return false;
	return module->tries.count > 0 && module->has_all_tries && !module->is_cut;
}

static struct error *write_whole(int fd, const struct strbuf *bytes)
{
	size_t at = 0;

	while (at < bytes->length) {
		ssize_t n = write(fd, bytes->text + at, bytes->length - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_create_system(errno, NULL, "cannot write to the cache");
		at += (size_t)n;
	}
	return NULL;
}

static struct error *replace_file(const struct symbols_cache *cache, const char *name,
				  const struct strbuf *bytes)
{
	char other[NAME_BYTES];
	uint64_t chance;

	if (getrandom(&chance, sizeof(chance), 0) != sizeof(chance))
		return error_create_system(errno, NULL, "no random number");
	snprintf(other, sizeof(other), "%016" PRIx64 ".new", chance);

	CLEANUP_FD int fd = openat(cache->fd, other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return error_create_system(errno, NULL, "cannot make a file in the cache");
	struct error *error = write_whole(fd, bytes);

	if (!error && renameat(cache->fd, other, cache->fd, name) != 0)
		error = error_create_system(errno, NULL, "cannot name a file in the cache");
	if (error)
		unlinkat(cache->fd, other, 0);
	return error;
}

static struct error *encode(const struct symbols_cache *cache, const struct symbols_module *module,
			    const struct strbuf *key, struct strbuf *ret)
{
	struct symbols_cache_writer writer = {0};
	struct error *error = put_tries(&writer, module);

	if (!error)
		error = put_addresses(&writer, module);
	if (!error)
		error = symbols_cache_write_end(&writer, &module->verdict, key, &cache->maker, ret);
	symbols_cache_writer_free(&writer);
	return error;
}

struct error *symbols_cache_save(const struct symbols_cache *cache, struct symbols_module *module)
{
	CLEANUP_STRBUF struct strbuf key = STRBUF_EMPTY, bytes = STRBUF_EMPTY;
	char name[NAME_BYTES];

	if (cache->fd < 0 || module->build_id.count == 0 || module->failures > 0 ||
	    !is_certain(module))
		return NULL;
	TRY(describe_module(module, &key));
	name_of(&key, name);

	struct error *error = encode(cache, module, &key, &bytes);

	/* With all that was asked for before it is too much. */
	if (error && error->code == ERROR_REFUSED && module->cached.address_count > 0) {
		error_free(error);
		strbuf_clear(&bytes);
		symbols_cached_free(&module->cached);
		error = encode(cache, module, &key, &bytes);
	}
	return error ? error : replace_file(cache, name, &bytes);
}
