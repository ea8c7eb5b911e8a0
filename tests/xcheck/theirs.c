/*
 * libunwind's side: see xcheck.h.
 */
#include "xcheck.h"

#include <dlfcn.h>
#include <string.h>

#include "agent/syscall.h"

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static _Atomic(const struct island *) island; /* where it is mapped */
static _Atomic uint64_t island_owner;         /* pid; 0 = nobody */

/* --- what libunwind asks for --------------------------------------------------------- */

static bool is_readable(struct xcheck *x, uint64_t at)
{
	uint64_t page = at >> 12 << 12 | 1;
	uint64_t *known = &x->page[(at >> 12) % XCHECK_PAGES];

	if (*known == page)
		return true;
	if (!stack_probe(at))
		return false;
	*known = page;
	return true;
}

static int access_mem(unw_addr_space_t space, unw_word_t at, unw_word_t *value, int write,
		      void *arg)
{
	(void)space;
	if (write || at % 8 || !is_readable(arg, at))
		return -UNW_EINVAL;
	*value = *(const uint64_t *)at;
	return 0;
}

static int access_reg(unw_addr_space_t space, unw_regnum_t reg, unw_word_t *value, int write,
		      void *arg)
{
	struct xcheck *x = arg;

	(void)space;
	if (write || reg < 0 || reg >= CFI_REGISTERS || !(x->known & 1u << reg))
		return -UNW_EBADREG;
	*value = x->reg[reg];
	return 0;
}

static int access_fpreg(unw_addr_space_t space, unw_regnum_t reg, unw_fpreg_t *value, int write,
			void *arg)
{
	(void)space;
	(void)reg;
	(void)value;
	(void)write;
	(void)arg;
	return -UNW_EBADREG;
}

/* The table of the object that holds the address, by the loader's answer. Only the usual
 * form, which is all that linkers make: version 1, sorted pairs relative to the header. */
static bool table_find(struct xcheck *x, uint64_t address, unw_dyn_info_t *ret)
{
	struct dl_find_object found;

	if (_dl_find_object((void *)(uintptr_t)address, &found) != 0 || !found.dlfo_eh_frame)
		return false;
	const uint8_t *header = found.dlfo_eh_frame;
	uint32_t count;

	if (!is_readable(x, (uint64_t)(uintptr_t)header) || header[0] != 1 || header[1] != 0x1b ||
	    header[2] != 0x03 || header[3] != 0x3b)
		return false;
	memcpy(&count, header + 8, sizeof(count));
	*ret = (unw_dyn_info_t){
		.start_ip = (unw_word_t)found.dlfo_map_start,
		.end_ip = (unw_word_t)found.dlfo_map_end,
		.format = UNW_INFO_FORMAT_REMOTE_TABLE,
		.u.rti =
			{
				.segbase = (unw_word_t)header,
				.table_data = (unw_word_t)header + 12,
				.table_len = count,
			},
	};
	return true;
}

static int find_proc_info(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *ret,
			  int need_info, void *arg)
{
	unw_dyn_info_t table;

	if (!table_find(arg, ip, &table))
		return -UNW_ENOINFO;
	return island->search_unwind_table(space, ip, &table, ret, need_info, arg);
}

static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *info, void *arg)
{
	(void)space;
	(void)arg;
	if (info->unwind_info)
		island->give_info(info->unwind_info);
	info->unwind_info = NULL;
}

static int no_list(unw_addr_space_t space, unw_word_t *ret, void *arg)
{
	(void)space;
	(void)ret;
	(void)arg;
	return -UNW_ENOINFO;
}

static int no_resume(unw_addr_space_t space, unw_cursor_t *cursor, void *arg)
{
	(void)space;
	(void)cursor;
	(void)arg;
	return -UNW_EUNSPEC;
}

static unw_accessors_t accessors = {
	.find_proc_info = find_proc_info,
	.put_unwind_info = put_unwind_info,
	.get_dyn_info_list_addr = no_list,
	.access_mem = access_mem,
	.access_reg = access_reg,
	.access_fpreg = access_fpreg,
	.resume = no_resume,
};

/* --- the island -------------------------------------------------------------------------- */

extern const char island_image[] __asm__("_binary_tests_xcheck_island_bin_start");
extern const char island_image_end[] __asm__("_binary_tests_xcheck_island_bin_end");

/* Once, by whoever comes first; others meanwhile, and where the place is taken: NULL. */
static void island_map(void)
{
	static _Atomic bool tried;
	const struct island *head = (const struct island *)island_image;

	if (atomic_exchange(&tried, true))
		return;
	char *p =
		sys_mmap((void *)ISLAND_BASE, head->bytes + 4096 + ISLAND_MORE,
			 PROT_READ | PROT_WRITE | PROT_EXEC,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (sys_failed(p))
		return;
	sys_madvise(p, head->bytes + 4096 + ISLAND_MORE, MADV_DONTDUMP);
	memcpy(p, island_image, (size_t)(island_image_end - island_image));
	atomic_store(&island, (const struct island *)p);
}

/* One thread at a time is on the island. A child of fork finds it taken for good by a thread
 * that it does not have. */
static void island_enter(void)
{
	uint64_t pid = (uint64_t)(uint32_t)agent_process->pid, free = 0;

	while (!atomic_compare_exchange_weak(&island_owner, &free, pid)) {
		if (free != pid && free != 0 &&
		    atomic_compare_exchange_strong(&island_owner, &free, pid))
			return;
		free = 0;
		sys_call3(SYS_sched_yield, 0, 0, 0);
	}
}

static void island_leave(void) { atomic_store(&island_owner, 0); }

bool theirs_start(struct xcheck *x)
{
	if (!island)
		island_map();
	if (!island)
		return false;
	island_enter();
	x->space = island->create_addr_space(&accessors, 0);
	if (x->space)
		island->set_caching_policy(x->space, UNW_CACHE_GLOBAL);
	island_leave();
	return x->space != NULL;
}

/* --- the walk ---------------------------------------------------------------------------- */

static bool is_ours(uint64_t pc)
{
	return pc >= (uint64_t)(uintptr_t)__ehdr_start && pc < (uint64_t)(uintptr_t)_end;
}

static bool is_bottom(const struct xcheck *x, unw_cursor_t *cursor, const struct xcheck_frame *f)
{
	unw_word_t bp;

	return f->pc == x->regs->pc && f->sp == x->regs->sp &&
	       island->get_reg(cursor, UNW_X86_64_RBP, &bp) == 0 && bp == x->regs->bp;
}

static bool walk(struct xcheck *x)
{
	uint32_t generation = atomic_load(&rule_generation);
	struct xcheck_frame f;
	unw_cursor_t cursor;
	bool met = false;

	if (x->generation != generation)
		island->flush_cache(x->space, 0, 0);
	x->generation = generation;
	x->theirs_count = 0;
	x->error = island->init_remote(&cursor, x->space, x);
	while (x->error == 0 && x->theirs_count < XCHECK_FRAMES) {
		if (island->get_reg(&cursor, UNW_REG_IP, &f.pc) != 0 ||
		    island->get_reg(&cursor, UNW_REG_SP, &f.sp) != 0 || f.pc == 0)
			break;
		met = met || is_bottom(x, &cursor, &f);
		if (!is_ours(f.pc))
			x->theirs[x->theirs_count++] = f;
		int more = island->step(&cursor);

		if (more <= 0) {
			x->error = more;
			break;
		}
	}
	return met;
}

bool theirs_walk(struct xcheck *x)
{
	memset(x->page, 0, sizeof(x->page));
	island_enter();
	bool met = walk(x);

	island_leave();
	return met;
}

bool theirs_has_cfi(struct xcheck *x, uint64_t address)
{
	unw_proc_info_t info;

	island_enter();
	bool found = find_proc_info(x->space, address, &info, 0, x) == 0;

	island_leave();
	return found;
}
