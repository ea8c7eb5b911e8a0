/*
 * Counters and words of the cross-check: see xcheck.h.
 */
#include "xcheck.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/environ.h"
#include "agent/syscall.h"

#define NAME      "MALLOGRAPH_XCHECK_OUT="
#define BOTH_ENDS 12u /* frames shown on each side of where the stacks part */

struct xcheck_file *xcheck_file;

extern void *__libc_stack_end;

/* The kernel's copy: the program may have changed its own. */
static const char *variable(void)
{
	char **at = (char **)__libc_stack_end + *(const long *)__libc_stack_end + 2;

	for (; *at; at++) {
		if (strncmp(*at, NAME, sizeof(NAME) - 1) == 0)
			return *at + sizeof(NAME) - 1;
	}
	return NULL;
}

static void file_map(void)
{
	const char *path = variable();
	long fd = path ? sys_open(path, O_RDWR | O_CLOEXEC, 0) : -1;
	struct stat st;

	if (fd < 0)
		return;
	if (sys_fstat((int)fd, &st) == 0 && (size_t)st.st_size > sizeof(*xcheck_file)) {
		struct xcheck_file *f = sys_mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE,
						 MAP_SHARED, (int)fd, 0);

		if (!sys_failed(f) && f->magic == XCHECK_MAGIC) {
			xcheck_file = f;
			tell_add(&f->processes, 1);
		}
	}
	sys_close((int)fd);
}

bool tell_start(void)
{
	static _Atomic bool tried;

	if (!atomic_exchange(&tried, true))
		file_map();
	return xcheck_file != NULL;
}

void tell_add(_Atomic uint64_t *counter, uint64_t by)
{
	atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

/* --- words --------------------------------------------------------------------------------- */

struct words {
	size_t used;
	char at[16384];
};

static _Thread_local struct words *words __attribute__((tls_model("initial-exec")));

static void put(const char *s)
{
	size_t n = strlen(s);

	if (n > sizeof(words->at) - words->used)
		n = sizeof(words->at) - words->used;
	memcpy(words->at + words->used, s, n);
	words->used += n;
}

static void put_hex(uint64_t v)
{
	char text[17];
	char *at = text + sizeof(text) - 1;

	*at = '\0';
	do {
		*--at = "0123456789abcdef"[v & 15];
		v >>= 4;
	} while (v);
	put(at);
}

static void put_number(const char *name, uint64_t v)
{
	put(" ");
	put(name);
	put("=");
	put_hex(v);
}

static void put_place(uint64_t pc)
{
	struct dl_find_object found;

	if (_dl_find_object((void *)(uintptr_t)pc, &found) != 0) {
		put(" ?");
		return;
	}
	const char *name = found.dlfo_link_map->l_name;

	put(" ");
	put(name && *name ? name : "program");
	put("+");
	put_hex(pc - found.dlfo_link_map->l_addr);
}

/* The frame of the whole walk that has this pc, from `from` on: its registers. */
static void put_walked(struct xcheck *x, uint64_t pc, uint32_t from)
{
	struct unwind_state *u = x->whole;

	for (uint32_t k = from; k < u->count; k++) {
		const struct unwind_frame *f = &u->frame[k];

		if (f->pc != pc)
			continue;
		put_number("sp", f->sp);
		put_number("bp", f->bp);
		put_number("rule", f->rule & 15);
		put_number("cfa", (uint64_t)rule_cfa(f->rule));
		put_number("save", rule_save(f->rule));
		return;
	}
}

static const char *const register_names[CFI_REGISTERS] = {
	"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8",
	"r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip",
};
static const char *const kind_names[] = {
	"unset", "same", "undefined", "at-cfa", "cfa", "register", "at-expression", "expression",
};

static void put_row(struct xcheck *x, uint64_t address)
{
	const struct module *m = module_find(x->thread, address);
	struct cfi_scratch *s = &x->whole->cfi;

	put("  row of");
	put_place(address);
	put(":");
	if (!m || !cfi_find(&m->cfi, address, s)) {
		put(" no frame description");
		put(theirs_has_cfi(x, address) ? " (libunwind finds one)\n" : "\n");
		return;
	}
	put_number("start", s->fde.start - m->bias);
	put_number("stop", s->fde.stop - m->bias);
	if (!cfi_run(&m->cfi, address, s)) {
		put(" not to be run\n");
		return;
	}
	put(s->fde.signal ? " signal" : "");
	put(" cfa ");
	put(s->row.cfa_kind == CFI_REGISTER ? register_names[s->row.cfa % CFI_REGISTERS]
					    : "expression");
	put_number("", (uint64_t)s->row.cfa_offset);
	for (uint32_t reg = 0; reg < CFI_REGISTERS; reg++) {
		if (s->row.kind[reg] == CFI_UNSET)
			continue;
		put(" ");
		put(register_names[reg]);
		put(" ");
		put(kind_names[s->row.kind[reg] & 7]);
		if (s->row.kind[reg] == CFI_OFFSET)
			put_number("", (uint64_t)-s->row.value[reg]);
	}
	put("\n");
}

static void put_frame(struct xcheck *x, uint32_t k)
{
	put("  ");
	put_hex(k);
	if (k < x->ours_count) {
		put_number("ours", x->ours[k].pc);
		put_number("where", x->ours[k].where);
		put_place(x->ours[k].pc - 1);
		put_walked(x, x->ours[k].pc, k);
	}
	if (k < x->theirs_count) {
		put_number("| theirs", x->theirs[k].pc);
		put_place(x->theirs[k].pc - 1);
		put_number("sp", x->theirs[k].sp);
	}
	put("\n");
}

static void describe(struct xcheck *x, enum xcheck_outcome outcome, uint32_t parted)
{
	uint32_t most = x->ours_count > x->theirs_count ? x->ours_count : x->theirs_count;

	put("outcome");
	put_number("kind", outcome);
	put_number("pid", (uint64_t)(uint32_t)agent_process->pid);
	put_number("tid", (uint64_t)(uint32_t)LEDGER_GET(x->thread->slot->tid));
	put_number("parted", parted);
	put_number("ours", x->ours_count);
	put_number("theirs", x->theirs_count);
	put_number("error", (uint64_t)-x->error);
	put_number("node", x->node);
	put_number("whole", x->whole_node);
	put("\n  hook");
	put_number("pc", x->regs->pc);
	put_number("sp", x->regs->sp);
	put_number("bp", x->regs->bp);
	put("\n  agent");
	for (uint32_t reg = 0; reg < CFI_REGISTERS; reg++) {
		if (x->known & 1u << reg)
			put_number(register_names[reg], x->reg[reg]);
	}
	put("\n");
	for (uint32_t k = parted > BOTH_ENDS ? parted - BOTH_ENDS : 0;
	     k < most && k < parted + BOTH_ENDS; k++)
		put_frame(x, k);
	if (parted > 0 && parted <= x->ours_count) {
		const struct mgl_node *n = &x->ours[parted - 1];

		put_row(x, n->pc - !(n->where & MGL_NODE_EXACT));
	}
}

void tell(struct xcheck *x, enum xcheck_outcome outcome, uint32_t parted)
{
	struct xcheck_file *f = xcheck_file;
	uint64_t before = atomic_fetch_add_explicit(&f->outcome[outcome], 1, memory_order_relaxed);
	struct words text;

	if (outcome == XCHECK_EQUAL || outcome == XCHECK_ENDS || before >= XCHECK_FIRST)
		return;
	text.used = 0;
	words = &text;
	describe(x, outcome, parted);
	uint64_t room = f->bytes - sizeof(*f);
	uint64_t at = atomic_fetch_add_explicit(&f->text, text.used, memory_order_relaxed);

	if (at < room)
		memcpy(f->data + at, text.at, text.used < room - at ? text.used : room - at);
}
