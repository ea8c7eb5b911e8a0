/*
 * libunwind on an island: its static library, which is not position-independent, and what it
 * needs of a C library, linked for a fixed low address and carried inside the agent as bytes.
 * Mapped there it has no symbol anybody could see and calls nothing that anybody else owns.
 *
 * Threads: the pools are shared; callers take turns (theirs.c).
 */
#ifndef ISLAND_H
#define ISLAND_H

#include <stddef.h>
#include <stdint.h>

#define UNW_REMOTE_ONLY
#include <libunwind.h>

#define ISLAND_BASE UINT64_C(0x6d670000)
#define ISLAND_MORE ((size_t)64 << 20) /* after the image: memory for what libunwind allocates */

/* At ISLAND_BASE. */
struct island {
	uint64_t bytes; /* image and .bss */
	unw_addr_space_t (*create_addr_space)(unw_accessors_t *accessors, int byte_order);
	int (*set_caching_policy)(unw_addr_space_t space, unw_caching_policy_t policy);
	void (*flush_cache)(unw_addr_space_t space, unw_word_t low, unw_word_t high);
	int (*init_remote)(unw_cursor_t *cursor, unw_addr_space_t space, void *arg);
	int (*get_reg)(unw_cursor_t *cursor, int reg, unw_word_t *ret);
	int (*step)(unw_cursor_t *cursor);
	int (*search_unwind_table)(unw_addr_space_t space, unw_word_t ip, unw_dyn_info_t *table,
				   unw_proc_info_t *ret, int need_info, void *arg);
	void (*give_info)(void *info);
};

#endif
