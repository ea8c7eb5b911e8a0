/*
 * What was found for the addresses of a module, kept on disk for the next run: a file a
 * module (cachefile.h), known by build-id, path and where debug files are looked for, in
 * $XDG_CACHE_HOME/mallograph or ~/.cache/mallograph. It holds as long as every path the
 * search looked at leads to what it led to then, and the program and libdw that read it are
 * the same. Without a build-id nothing is kept, nor of a file whose reader failed.
 *
 * Any number of processes use it at once: a file is written under another name and renamed,
 * never changed; of two that write the same one the last stays. When all files together
 * take more than SYMBOLS_CACHE_BYTES, those not used for longest go.
 *
 * Owner: symbols_cache_close(). Errors: no memory. That there is no cache, or no room for
 * more, is none.
 */
#ifndef MALLOGRAPH_SYMBOLS_CACHE_H
#define MALLOGRAPH_SYMBOLS_CACHE_H

#include "symbols/cachefile.h"
#include "symbols/internal.h"

#define SYMBOLS_CACHE_BYTES ((uint64_t)128 << 20)

#define SYMBOLS_CACHE_NONE       \
	{                        \
		-1, STRBUF_EMPTY \
	}

/* None where MALLOGRAPH_CACHE is off, the directory is not ours alone to write or the
 * process has more rights than its user. */
struct error *symbols_cache_open(struct symbols_cache *ret) ERROR_MUST_CHECK;
void symbols_cache_close(struct symbols_cache *cache);

/* Fills in the module's sorted addresses that are known, and if all are, its verdict. */
struct error *symbols_cache_load(const struct symbols_cache *cache,
				 struct symbols_module *module) ERROR_MUST_CHECK;
/* Keeps what is known now, with what was known before of other addresses. */
struct error *symbols_cache_save(const struct symbols_cache *cache,
				 struct symbols_module *module) ERROR_MUST_CHECK;

/* Removes what is too much, and what writers that died left. */
void symbols_cache_trim(const struct symbols_cache *cache, uint64_t most);

#endif
